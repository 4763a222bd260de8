//! Inline commands: one line, split at blanks, with quotes.
//!
//! The rules are the ones of Redis's `sdssplitargs`:
//!
//! - `"..."` has the escapes `\n \r \t \b \a \xHH`; any other escaped character stands for itself.
//! - `'...'` has only the escape `\'`.
//! - A quote may open in the middle of a word. Its closing quote ends the word, so a blank or the
//!   end of the line must follow.
//!
//! One difference: a NUL byte is an ordinary byte here. In Redis it ends the C string, so Redis
//! does not see the line's end and waits for more bytes.

use crate::args::Span;
use crate::error::ProtocolError;

/// C's `isspace`.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

fn hex(byte: u8) -> Option<u8> {
    (byte as char).to_digit(16).map(|digit| digit as u8)
}

/// Splits `line`, which has no line end, into arguments. Appends their bytes to `out` and their
/// ranges in `out` to `spans`. `out` must stay below 4 GiB.
pub(super) fn split(
    line: &[u8],
    out: &mut Vec<u8>,
    spans: &mut Vec<Span>,
) -> Result<(), ProtocolError> {
    let mut rest = line;
    loop {
        while let [blank, tail @ ..] = rest
            && is_blank(*blank)
        {
            rest = tail;
        }
        if rest.is_empty() {
            return Ok(());
        }
        let start = out.len() as u32;
        rest = word(rest, out)?;
        spans.push(Span {
            start,
            end: out.len() as u32,
        });
    }
}

/// Reads one argument; returns the rest of the line.
fn word<'l>(line: &'l [u8], out: &mut Vec<u8>) -> Result<&'l [u8], ProtocolError> {
    let mut rest = line;
    while let [byte, tail @ ..] = rest {
        rest = match byte {
            b' ' | b'\n' | b'\r' | b'\t' => return Ok(rest),
            b'"' => return closed(double_quoted(tail, out)?),
            b'\'' => return closed(single_quoted(tail, out)?),
            // Vertical tab and form feed count as blanks between words, but not within a word, as
            // in Redis.
            _ => {
                out.push(*byte);
                tail
            }
        };
    }
    Ok(rest)
}

/// Reads up to the closing `"`; returns the rest of the line.
fn double_quoted<'l>(mut rest: &'l [u8], out: &mut Vec<u8>) -> Result<&'l [u8], ProtocolError> {
    loop {
        rest = match rest {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [b'"', tail @ ..] => return Ok(tail),
            [b'\\', b'x', h, l, tail @ ..] if hex(*h).is_some() && hex(*l).is_some() => {
                out.push(hex(*h).unwrap_or(0) << 4 | hex(*l).unwrap_or(0));
                tail
            }
            [b'\\', escaped, tail @ ..] => {
                out.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                tail
            }
            [byte, tail @ ..] => {
                out.push(*byte);
                tail
            }
        };
    }
}

/// Reads up to the closing `'`; returns the rest of the line.
fn single_quoted<'l>(mut rest: &'l [u8], out: &mut Vec<u8>) -> Result<&'l [u8], ProtocolError> {
    loop {
        rest = match rest {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [b'\'', tail @ ..] => return Ok(tail),
            [b'\\', b'\'', tail @ ..] => {
                out.push(b'\'');
                tail
            }
            [byte, tail @ ..] => {
                out.push(*byte);
                tail
            }
        };
    }
}

/// Checks that a closing quote ends its word.
fn closed(rest: &[u8]) -> Result<&[u8], ProtocolError> {
    match rest.first() {
        Some(byte) if !is_blank(*byte) => Err(ProtocolError::UnbalancedQuotes),
        _ => Ok(rest),
    }
}
