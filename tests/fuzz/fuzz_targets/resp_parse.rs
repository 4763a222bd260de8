//! Passes random bytes, in pieces of any size, to the command parser and to the reply decoder.
//!
//! Properties: neither panics, consumes more than its input, or makes no progress. The result does
//! not depend on the sizes of the pieces. An encoded command parses to the same command. Measuring
//! a reply and decoding it find the same length.
#![no_main]

use libfuzzer_sys::fuzz_target;
use punctual_resp::{
    DecodeError, Limits, OwnedArgs, Parser, ProtocolError, ReplyScan, decode, encode_command,
    reply_len,
};

/// The commands with arguments, then the error or the number of remaining bytes.
type Parsed = (Vec<OwnedArgs>, Result<usize, ProtocolError>);

fn feed<'c>(chunks: impl Iterator<Item = &'c [u8]>, limits: &Limits) -> Parsed {
    let (mut parser, mut buf, mut commands) = (Parser::new(), Vec::new(), Vec::new());
    for chunk in chunks {
        buf.extend_from_slice(chunk);
        loop {
            let consumed = match parser.parse(&buf, limits) {
                Err(error) => return (commands, Err(error)),
                Ok(None) => break,
                Ok(Some(command)) => {
                    if !command.args.is_empty() {
                        commands.push(OwnedArgs::from(command.args));
                    }
                    command.consumed
                }
            };
            assert!(consumed > 0 && consumed <= buf.len());
            buf.drain(..consumed);
        }
        assert!(parser.wanted().is_none_or(|wanted| wanted > buf.len()));
    }
    (commands, Ok(buf.len()))
}

fn commands(stream: &[u8], piece: usize, limits: &Limits) {
    let whole = feed(std::iter::once(stream), limits);
    assert_eq!(
        whole,
        feed(stream.chunks(piece), limits),
        "in pieces of {piece}"
    );
    assert_eq!(whole, feed(stream.chunks(1), limits), "byte by byte");

    let mut again = Vec::new();
    for command in &whole.0 {
        encode_command(&mut again, &command.as_args().iter().collect::<Vec<_>>());
    }
    // Parses with the default limits: an inline command may have more and longer arguments than
    // `limits` allow in an array.
    let expected = (whole.0, Ok(0));
    assert_eq!(
        feed(std::iter::once(&again[..]), &Limits::default()),
        expected
    );
}

fn replies(stream: &[u8]) {
    let measured = reply_len(stream);
    match decode(stream) {
        Ok(Some((_, len))) => assert_eq!(measured, Ok(Some(len))),
        Ok(None) => assert_eq!(measured, Ok(None)),
        // Measuring does not check the contents of lines and the nesting depth.
        Err(DecodeError::InvalidValue { .. } | DecodeError::TooDeep { .. }) => {}
        Err(error) => assert_eq!(measured, Err(error)),
    }
    let mut scan = ReplyScan::new();
    let stepped = (0..=stream.len())
        .map(|end| scan.advance(&stream[..end]))
        .find(|found| !matches!(found, Ok(None)))
        .unwrap_or(Ok(None));
    assert_eq!(stepped, measured);
}

fuzz_target!(|input: &[u8]| {
    let Some((&choice, stream)) = input.split_first() else {
        return;
    };
    let piece = 2 + usize::from(choice & 0x1f);
    // Small limits, so that short inputs reach them.
    let limits = match choice >> 5 {
        0 => Limits {
            inline_max: 8,
            args_max: 3,
            bulk_max: 12,
            ..Limits::default()
        },
        1 => Limits::unauthenticated(),
        _ => Limits::default(),
    };
    commands(stream, piece, &limits);
    replies(stream);
});
