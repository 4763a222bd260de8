//! Parsing of commands: in one piece, split at any byte, and malformed.

use proptest::prelude::*;
use punctual_resp::{Limits, OwnedArgs, Parser, ProtocolError, encode_command};

/// Feeds `chunks` to one parser as a connection does. Returns the commands that have arguments, and
/// the error or the remaining bytes.
fn feed<'c>(
    chunks: impl IntoIterator<Item = &'c [u8]>,
    limits: &Limits,
) -> (Vec<OwnedArgs>, Result<Vec<u8>, ProtocolError>) {
    let (mut parser, mut buf, mut commands) = (Parser::new(), Vec::new(), Vec::new());
    for chunk in chunks {
        buf.extend_from_slice(chunk);
        loop {
            let consumed = match parser.parse(&buf, limits) {
                Err(error) => return (commands, Err(error)),
                Ok(None) => break,
                Ok(Some(command)) => {
                    assert!(command.consumed > 0, "no progress");
                    assert!(
                        command.consumed <= buf.len(),
                        "consumed more than the buffer"
                    );
                    if !command.args.is_empty() {
                        commands.push(OwnedArgs::from(command.args));
                    }
                    command.consumed
                }
            };
            // Consumed bytes leave the buffer, as in a connection.
            buf.drain(..consumed);
        }
        if let Some(wanted) = parser.wanted() {
            assert!(wanted > buf.len(), "the parser waits for a complete bulk");
        }
    }
    (commands, Ok(buf))
}

fn whole(bytes: &[u8]) -> (Vec<OwnedArgs>, Result<Vec<u8>, ProtocolError>) {
    feed([bytes], &Limits::default())
}

fn byte_by_byte(bytes: &[u8]) -> (Vec<OwnedArgs>, Result<Vec<u8>, ProtocolError>) {
    feed(bytes.chunks(1), &Limits::default())
}

fn args(args: &[&str]) -> OwnedArgs {
    OwnedArgs::from_iter(args)
}

/// Asserts that a parser gives the same result for `bytes` in one piece and byte by byte. Returns
/// the result.
fn both(bytes: &[u8]) -> (Vec<OwnedArgs>, Result<Vec<u8>, ProtocolError>) {
    let found = whole(bytes);
    let shown = bytes[..bytes.len().min(100)].escape_ascii();
    assert_eq!(found, byte_by_byte(bytes), "{shown} whole and byte by byte");
    found
}

#[test]
fn pipelined_commands_come_one_by_one() {
    let mut stream = Vec::new();
    encode_command(&mut stream, &["SET", "key", "value"]);
    stream.extend_from_slice(b"PING\r\n");
    encode_command(&mut stream, &[&b""[..], b"\r\n$3\r\n", b"\0\xff"]);
    stream.extend_from_slice(b"*2\r\n$3\r\nGET\r\n");
    let (commands, rest) = both(&stream);
    assert_eq!(commands[0], args(&["SET", "key", "value"]));
    assert_eq!(commands[1], args(&["PING"]));
    assert_eq!(
        commands[2],
        OwnedArgs::from_iter([&b""[..], b"\r\n$3\r\n", b"\0\xff"])
    );
    assert_eq!(commands.len(), 3);
    assert_eq!(rest.unwrap(), b"*2\r\n$3\r\nGET\r\n");
}

#[test]
fn lengths_of_every_number_of_digits() {
    for len in [0, 1, 9, 10, 99, 100, 999, 1000, 12_345, 100_000] {
        let value = "v".repeat(len);
        let mut stream = Vec::new();
        encode_command(&mut stream, &["SET", "k", &value]);
        encode_command(&mut stream, &vec!["x"; len.clamp(1, 2000)]);
        let (commands, rest) = both(&stream);
        assert_eq!(commands[0], args(&["SET", "k", &value]));
        assert_eq!(commands[1].as_args().len(), len.clamp(1, 2000));
        assert_eq!(rest.unwrap(), b"");
    }
}

#[test]
fn empty_commands_are_skipped() {
    for empty in [
        "\r\n",
        "\n",
        "*0\r\n",
        "*-1\r\n",
        "*-2147483648\r\n",
        "   \r\n",
        "\t\r\n",
    ] {
        let stream = format!("{empty}{empty}PING\r\n{empty}*1\r\n$4\r\nPING\r\n{empty}");
        let (commands, rest) = both(stream.as_bytes());
        assert_eq!(commands, [args(&["PING"]), args(&["PING"])], "{empty:?}");
        assert_eq!(rest.unwrap(), b"", "{empty:?} is consumed at the end too");
    }
}

#[test]
fn empty_commands_are_consumed_before_an_incomplete_one() {
    let (mut parser, limits) = (Parser::new(), Limits::default());
    let stream = b"\r\n*0\r\n*2\r\n$4\r\nECHO\r\n$2\r\nh";
    let command = parser.parse(stream, &limits).unwrap().unwrap();
    assert_eq!((command.args.len(), command.consumed), (0, 6));
    let rest = &stream[6..];
    assert!(parser.parse(rest, &limits).unwrap().is_none());
    let rest = [rest, b"i\r\n"].concat();
    let command = parser.parse(&rest, &limits).unwrap().unwrap();
    assert_eq!(command.args, args(&["ECHO", "hi"]).as_args());
    // Empty commands before a complete command are consumed together with it.
    let command = parser
        .parse(b"\r\n\r\nPING\r\nPING", &limits)
        .unwrap()
        .unwrap();
    assert_eq!((command.args.len(), command.consumed), (1, 10));
}

#[test]
fn only_the_cr_of_a_line_end_is_checked() {
    assert_eq!(both(b"*1\rX$4\rYPINGab").0, [args(&["PING"])]);
    // The stored position of one search for a line end must not hide the next line end.
    let cut = [&b"*1\r"[..], b"\n\r\n"];
    assert_eq!(
        feed(cut, &Limits::default()).1,
        Err(ProtocolError::ExpectedDollar(b'\r'))
    );
    assert_eq!(both(b"PING\r\r\n").0, [args(&["PING"])]);
}

#[test]
fn every_protocol_error_has_the_text_of_redis() {
    let long = |start: &str, byte: &str, len| [start, &byte.repeat(len)].concat();
    let cases = [
        (
            "*x\r\n".to_string(),
            "Protocol error: invalid multibulk length",
        ),
        ("*\r\n".into(), "Protocol error: invalid multibulk length"),
        ("*+1\r\n".into(), "Protocol error: invalid multibulk length"),
        ("*01\r\n".into(), "Protocol error: invalid multibulk length"),
        ("*-0\r\n".into(), "Protocol error: invalid multibulk length"),
        ("* 1\r\n".into(), "Protocol error: invalid multibulk length"),
        (
            "*1048577\r\n".into(),
            "Protocol error: invalid multibulk length",
        ),
        (
            "*99999999999999999999\r\n".into(),
            "Protocol error: invalid multibulk length",
        ),
        (
            long("*", "1", 65_536),
            "Protocol error: too big mbulk count string",
        ),
        ("*1\r\n$x\r\n".into(), "Protocol error: invalid bulk length"),
        ("*1\r\n$\r\n".into(), "Protocol error: invalid bulk length"),
        (
            "*1\r\n$-1\r\n".into(),
            "Protocol error: invalid bulk length",
        ),
        (
            "*1\r\n$04\r\n".into(),
            "Protocol error: invalid bulk length",
        ),
        (
            "*1\r\n$004\r\nPING\r\n".into(),
            "Protocol error: invalid bulk length",
        ),
        (
            "*1\r\n$536870913\r\n".into(),
            "Protocol error: invalid bulk length",
        ),
        (
            "*1\r\n$9223372036854775807\r\n".into(),
            "Protocol error: invalid bulk length",
        ),
        (
            "*1\r\n$99999999999999999999\r\n".into(),
            "Protocol error: invalid bulk length",
        ),
        (
            long("*1\r\n$", "1", 65_536),
            "Protocol error: too big bulk count string",
        ),
        (
            "*1\r\n:4\r\n".into(),
            "Protocol error: expected '$', got ':'",
        ),
        (
            "*1\r\nPING\r\n".into(),
            "Protocol error: expected '$', got 'P'",
        ),
        (
            "*2\r\n$4\r\nECHO\r\n\r\n".into(),
            "Protocol error: expected '$', got ' '",
        ),
        (
            "*1\r\n\n\r\n".into(),
            "Protocol error: expected '$', got ' '",
        ),
        (
            long("", "a", 65_537),
            "Protocol error: too big inline request",
        ),
        (
            "ECHO \"a\r\n".into(),
            "Protocol error: unbalanced quotes in request",
        ),
    ];
    for (stream, text) in cases {
        let (commands, result) = both(stream.as_bytes());
        let shown = &stream[..stream.len().min(40)];
        assert_eq!(commands, [], "{shown:?}");
        assert_eq!(result.unwrap_err().to_string(), text, "{shown:?}");
        // A complete command before the error is still returned.
        let (commands, result) = both(&[b"PING\r\n", stream.as_bytes()].concat());
        assert_eq!(commands, [args(&["PING"])], "{shown:?}");
        assert_eq!(result.unwrap_err().to_string(), text, "{shown:?}");
    }
}

#[test]
fn lengths_at_the_limits_are_taken() {
    assert_eq!(both(b"*1048576\r\n").1.unwrap(), b"*1048576\r\n");
    assert_eq!(
        both(b"*1\r\n$536870912\r\n").1.unwrap(),
        b"*1\r\n$536870912\r\n"
    );
    // A line of 65,536 bytes with its CR is accepted; a line with one more byte is refused.
    let line = |blanks| format!("PING{}\r\n", " ".repeat(blanks));
    assert_eq!(both(line(65_531).as_bytes()).0, [args(&["PING"])]);
    assert_eq!(
        both(line(65_532).as_bytes()).1,
        Err(ProtocolError::TooBigInline)
    );
}

#[test]
fn the_caller_sets_the_limits() {
    let limits = Limits {
        bulk_max: 5,
        args_max: 2,
        inline_max: 10,
        ..Limits::default()
    };
    let check = |bytes: &[u8]| feed([bytes], &limits).1.map(|_| ());
    assert_eq!(check(b"*2\r\n$4\r\nECHO\r\n$5\r\nhello\r\n"), Ok(()));
    assert_eq!(
        check(b"*2\r\n$4\r\nECHO\r\n$6\r\n"),
        Err(ProtocolError::InvalidBulkLength)
    );
    assert_eq!(
        check(b"*2\r\n$4\r\nECHO\r\n$66\r\n"),
        Err(ProtocolError::InvalidBulkLength)
    );
    assert_eq!(check(b"*3\r\n"), Err(ProtocolError::InvalidMultibulkLength));
    assert_eq!(check(b"0123456789\n"), Ok(()));
    assert_eq!(check(b"0123456789a\n"), Err(ProtocolError::TooBigInline));
}

#[test]
fn a_client_that_has_not_authenticated_has_lower_limits() {
    let before = Limits::unauthenticated();
    let error = |bytes: &[u8]| {
        feed([bytes], &before)
            .1
            .map(|_| ())
            .map_err(|e| e.to_string())
    };
    let args_text = "Protocol error: unauthenticated multibulk length";
    let bulk_text = "Protocol error: unauthenticated bulk length";
    assert_eq!(error(b"*10\r\n"), Ok(()));
    assert_eq!(error(b"*11\r\n"), Err(args_text.into()));
    assert_eq!(error(b"*2000000\r\n"), Err(args_text.into()));
    assert_eq!(
        error(b"*2147483648\r\n"),
        Err("Protocol error: invalid multibulk length".into())
    );
    assert_eq!(error(b"*2\r\n$4\r\nAUTH\r\n$16384\r\n"), Ok(()));
    assert_eq!(
        error(b"*2\r\n$4\r\nAUTH\r\n$16385\r\n"),
        Err(bulk_text.into())
    );
    assert_eq!(
        error(b"*1\r\n$536870913\r\n"),
        Err("Protocol error: invalid bulk length".into())
    );

    // Limits apply per call. Here AUTH and a large command arrive in one piece.
    let mut stream = Vec::new();
    encode_command(&mut stream, &["AUTH", "secret"]);
    let auth_len = stream.len();
    encode_command(&mut stream, &["DEL"; 20]);
    let mut parser = Parser::new();
    assert_eq!(
        parser.parse(&stream, &before).unwrap().unwrap().consumed,
        auth_len
    );
    let command = parser
        .parse(&stream[auth_len..], &Limits::default())
        .unwrap()
        .unwrap();
    assert_eq!(command.args.len(), 20);
}

#[test]
fn inline_quoting() {
    let cases: [(&[u8], &[&[u8]]); 27] = [
        (b"a b  c", &[b"a", b"b", b"c"]),
        (b" \t a\tb \x0b\x0c c ", &[b"a", b"b", b"c"]),
        (b"a\x0bb a\x0cb", &[b"a\x0bb", b"a\x0cb"]),
        (b"\"\"", &[b""]),
        (b"''", &[b""]),
        (b"a \"\" b", &[b"a", b"", b"b"]),
        (b"\"two words\" 'and two'", &[b"two words", b"and two"]),
        (br#""\n\r\t\b\a""#, &[b"\n\r\t\x08\x07"]),
        (br#""\x41\x00\xFf\xfF""#, &[b"A\0\xff\xff"]),
        (br#""\x4g\x\q\\\"""#, &[b"x4gxq\\\""]),
        (br#""it's""#, &[b"it's"]),
        (br"'say \'hi\' \n \\ '", &[br"say 'hi' \n \\ "]),
        (br#"'"'"#, &[b"\""]),
        (br"a\nb \x41", &[br"a\nb", br"\x41"]),
        (br#"foo"bar" foo'b r'"#, &[b"foobar", b"foob r"]),
        (b"\xff\xfe \"\xc3\"", &[b"\xff\xfe", b"\xc3"]),
        (b"nul \0 \"a\0b\"", &[b"nul", b"\0", b"a\0b"]),
        (b"\"a\"\x0bb", &[b"a", b"b"]),
        (b"a\rb", &[b"a", b"b"]),
        (b"\"a\rb\"", &[b"a\rb"]),
        (b"\"x\"\r", &[b"x"]),
        (b"\"open", &[]),
        (b"'open", &[]),
        (br#""open\""#, &[]),
        (br"'open\'", &[]),
        (br#""closed"x"#, &[]),
        (br#"'closed'"x""#, &[]),
    ];
    for (line, expected) in cases {
        for end in [&b"\n"[..], b"\r\n"] {
            let (commands, result) = both(&[b"ECHO ", line, end].concat());
            let shown = line.escape_ascii();
            if expected.is_empty() {
                assert_eq!(result, Err(ProtocolError::UnbalancedQuotes), "{shown}");
            } else {
                let expected = std::iter::once(&b"ECHO"[..]).chain(expected.iter().copied());
                assert_eq!(commands, [OwnedArgs::from_iter(expected)], "{shown}");
            }
        }
    }
}

#[test]
fn after_reset_a_parser_serves_another_connection() {
    let (mut parser, limits) = (Parser::new(), Limits::default());
    for half in [
        &b"*3\r\n$3\r\nSET\r\n$100\r\nabc"[..],
        b"*12",
        b"half a line",
        b"*1\r\n$12",
    ] {
        assert!(parser.parse(half, &limits).unwrap().is_none());
        parser.reset();
        assert_eq!(parser.wanted(), None);
        assert_eq!(
            &parser.parse(b"PING\r\n", &limits).unwrap().unwrap().args[0],
            b"PING"
        );
    }
    assert!(parser.parse(b"*1\r\n$3x\r\n", &limits).is_err());
    parser.reset();
    assert_eq!(
        &parser.parse(b"PING\r\n", &limits).unwrap().unwrap().args[0],
        b"PING"
    );
}

/// Generates one encoded command and its arguments, which are empty for an empty command.
fn command() -> impl Strategy<Value = (Vec<u8>, Vec<Vec<u8>>)> {
    let arg = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..20),
        1 => prop::collection::vec(any::<u8>(), 90..110),
        1 => prop::collection::vec(any::<u8>(), 990..1010),
    ];
    let multibulk = prop::collection::vec(arg, 1..15).prop_map(|args| {
        let mut wire = Vec::new();
        encode_command(&mut wire, &args);
        (wire, args)
    });
    let inline = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 1..5);
    let inline = inline.prop_map(|args| {
        let quoted = |arg: &Vec<u8>| {
            let hex = arg
                .iter()
                .map(|byte| format!("\\x{byte:02x}"))
                .collect::<String>();
            format!("\"{hex}\"")
        };
        let line = args.iter().map(quoted).collect::<Vec<_>>().join(" ");
        (format!("{line}\r\n").into_bytes(), args)
    });
    let empty = prop::sample::select(vec!["\r\n", "\n", "*0\r\n", "*-1\r\n", "  \r\n"]);
    let empty = empty.prop_map(|line| (line.as_bytes().to_vec(), Vec::new()));
    prop_oneof![6 => multibulk, 2 => inline, 1 => empty]
}

/// Generates bytes that resemble commands.
fn near_protocol() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        8 => prop::sample::select(vec![
            "*", "$", "0", "1", "2", "3", "-", "\r\n", "\r\n", "\r\n", "\r", "\n", "\"", "'", "\\", "\\x4", " ",
            "*1\r\n", "*2\r\n", "$1\r\n", "$4\r\n", "$4\r\nPING\r\n", "PING\r\n", "abc", "99999999999",
        ])
        .prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_split_gives_the_same_commands(
        commands in prop::collection::vec(command(), 0..12),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let stream: Vec<u8> = commands.iter().flat_map(|(wire, _)| wire.clone()).collect();
        let expected: Vec<OwnedArgs> = commands
            .iter()
            .filter(|(_, args)| !args.is_empty())
            .map(|(_, args)| args.iter().collect())
            .collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let chunks = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]);
        let everything = (expected, Ok(Vec::new()));
        prop_assert_eq!(&feed(chunks, &Limits::default()), &everything);
        prop_assert_eq!(&whole(&stream), &everything);
        prop_assert_eq!(&byte_by_byte(&stream), &everything);
    }

    #[test]
    fn garbage_is_handled_the_same_for_any_split(
        bytes in prop_oneof![near_protocol(), prop::collection::vec(any::<u8>(), 0..300)],
    ) {
        let found = whole(&bytes);
        prop_assert_eq!(&found, &byte_by_byte(&bytes));
        prop_assert_eq!(&found, &feed(bytes.chunks(3), &Limits::default()));
    }

    #[test]
    fn a_parser_never_panics_even_if_the_buffer_changes(
        buffers in prop::collection::vec(near_protocol(), 1..8),
    ) {
        let mut parser = Parser::new();
        for buf in &buffers {
            if let Ok(Some(command)) = parser.parse(buf, &Limits::unauthenticated()) {
                prop_assert!(command.consumed <= buf.len());
                prop_assert!(command.args.iter().all(|arg| arg.len() <= buf.len()));
            }
        }
    }
}
