//! Parser of the commands in an append-only file.
//!
//! A file is a sequence of commands as RESP arrays, and of lines that begin with `#` (Redis's
//! annotations). The end of the file may be *torn*: its last bytes begin a command or a line but do
//! not complete it. Every other deviation is damage. The parser checks every byte of a command
//! outside of its arguments, because the format has no checksum.

use memchr::memmem;
use punctual_rdb::Source;
use punctual_resp::{Args, OwnedArgs};

/// Maximum number of bytes, from the start of a torn command, that are searched for complete
/// commands.
const SEARCHED_MAX: usize = 64 << 20;
/// Maximum number of digits of a length.
const DIGITS_MAX: usize = 10;
/// Maximum length in bytes of a line that begins with `#`.
const NOTE_MAX: usize = 64 << 10;

/// Next part of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A command. [`Commands::args`] returns its arguments.
    Command,
    /// The end of the file.
    End,
    /// The file ends within a command or a line, which begins at [`Commands::offset`].
    Torn,
}

/// Error of reading a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure<E> {
    /// The bytes at this offset violate the format.
    Damaged { offset: u64, reason: &'static str },
    /// The source has failed.
    Source(E),
}

/// Reads the commands of a file.
pub(super) struct Commands<S> {
    source: S,
    /// Offset of the first byte that is not consumed.
    offset: u64,
    args: OwnedArgs,
}

/// Part of the file at the start of the buffered bytes.
enum Part {
    /// A command of this length.
    Command(usize),
    /// A line of this length that begins with `#`.
    Note(usize),
    /// The part is incomplete: at least this many bytes are necessary.
    Incomplete(usize),
}

/// A byte that violates the format.
struct Flaw {
    /// Offset of the byte in the buffer.
    at: usize,
    reason: &'static str,
}

impl<S: Source> Commands<S> {
    /// Reads from `source`, whose first byte is at `offset` of the file. `source` must report how
    /// many bytes remain.
    pub(super) fn new(source: S, offset: u64) -> Self {
        Self {
            source,
            offset,
            args: OwnedArgs::new(),
        }
    }

    /// Returns the offset after the last command or `#` line.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the last command.
    pub(super) fn args(&self) -> Args<'_> {
        self.args.as_args()
    }

    /// Reads the next command. O(its length) amortised.
    ///
    /// # Errors
    /// The file is damaged, or cannot be read.
    pub(super) fn next(&mut self) -> Result<Next, Failure<S::Error>> {
        loop {
            let bytes = self.source.buffered();
            let damaged = |flaw: Flaw| Failure::Damaged {
                offset: self.offset + flaw.at as u64,
                reason: flaw.reason,
            };
            match part(bytes, &mut self.args).map_err(damaged)? {
                Part::Command(len) => {
                    self.consume(len);
                    return Ok(Next::Command);
                }
                Part::Note(len) => self.consume(len),
                Part::Incomplete(needed) => {
                    let buffered = bytes.len();
                    let left = self.source.remaining().unwrap_or(0);
                    if left == 0 {
                        return Ok(Next::End);
                    }
                    if needed as u64 > left {
                        return self.torn(left);
                    }
                    // The amount is doubled, so a long command is parsed only a few times.
                    let want = (needed.max(buffered * 2) as u64).min(left);
                    let want = usize::try_from(want).unwrap_or(usize::MAX);
                    self.source.fill(want).map_err(Failure::Source)?;
                }
            }
        }
    }

    /// Handles a file that ends within a command. If the bytes of this command contain complete
    /// commands up to the end of the file, a length in this command is damaged. Then the result is
    /// an error, because a cut at this command would lose the commands after it.
    fn torn(&mut self, left: u64) -> Result<Next, Failure<S::Error>> {
        let want = usize::try_from(left).unwrap_or(usize::MAX);
        let want = want.min(SEARCHED_MAX);
        self.source.fill(want).map_err(Failure::Source)?;
        let tail = self.source.buffered();
        for at in memmem::find_iter(tail, b"\r\n*") {
            if begins_commands(&tail[at + 2..], &mut self.args) {
                return Err(Failure::Damaged {
                    offset: self.offset,
                    reason: "the command is longer than the file, and whole commands follow its beginning",
                });
            }
        }
        Ok(Next::Torn)
    }

    fn consume(&mut self, len: usize) {
        self.source.consume(len);
        self.offset += len as u64;
    }
}

/// Returns whether the bytes are commands. The last command may be torn; the others are complete,
/// and there is at least one.
fn begins_commands(mut bytes: &[u8], args: &mut OwnedArgs) -> bool {
    let mut commands = 0;
    while !bytes.is_empty() {
        match part(bytes, args) {
            Ok(Part::Command(len)) if is_name(args.as_args().at(0)) => {
                commands += 1;
                bytes = &bytes[len..];
            }
            Ok(Part::Note(len)) => bytes = &bytes[len..],
            Ok(Part::Incomplete(_)) => break,
            _ => return false,
        }
    }
    commands > 0
}

fn is_name(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(u8::is_ascii_alphabetic)
}

/// Parses the first part of `bytes`.
fn part(bytes: &[u8], args: &mut OwnedArgs) -> Result<Part, Flaw> {
    match bytes.first() {
        None => return Ok(Part::Incomplete(1)),
        Some(b'*') => {}
        Some(b'#') => {
            let window = &bytes[..bytes.len().min(NOTE_MAX)];
            return match memchr::memchr(b'\n', window) {
                Some(end) => Ok(Part::Note(end + 1)),
                None if bytes.len() < NOTE_MAX => Ok(Part::Incomplete(bytes.len() + 1)),
                None => Err(Flaw {
                    at: 0,
                    reason: "a line that begins with # does not end",
                }),
            };
        }
        Some(_) => {
            return Err(Flaw {
                at: 0,
                reason: "expected * at the beginning of a command",
            });
        }
    }
    args.clear();
    let (count, mut at) = match header(bytes, 0)? {
        Header::Number(count, after) => (count, after),
        Header::Incomplete(needed) => return Ok(Part::Incomplete(needed)),
    };
    if count == 0 {
        return Err(Flaw {
            at: 0,
            reason: "a command without arguments",
        });
    }
    for _ in 0..count {
        match bytes.get(at) {
            None => return Ok(Part::Incomplete(at + 1)),
            Some(b'$') => {}
            Some(_) => {
                return Err(Flaw {
                    at,
                    reason: "expected $ at the beginning of an argument",
                });
            }
        }
        let (len, start) = match header(bytes, at)? {
            Header::Number(len, after) => (len, after),
            Header::Incomplete(needed) => return Ok(Part::Incomplete(needed)),
        };
        let end = start + len;
        let ends: [u8; 2] = match (bytes.get(end), bytes.get(end + 1)) {
            (Some(b'\r'), None) | (None, _) => return Ok(Part::Incomplete(end + 2)),
            (Some(first), second) => [*first, second.copied().unwrap_or(b'\n')],
        };
        if ends != *b"\r\n" {
            return Err(Flaw {
                at: end,
                reason: "an argument does not end with its line",
            });
        }
        args.push(&bytes[start..end]).map_err(|_| Flaw {
            at: 0,
            reason: "a command is longer than 4 GiB",
        })?;
        at = end + 2;
    }
    Ok(Part::Command(at))
}

enum Header {
    /// The number, and the offset after its line.
    Number(usize, usize),
    Incomplete(usize),
}

/// Reads the number after the byte at `at`.
fn header(bytes: &[u8], at: usize) -> Result<Header, Flaw> {
    let mut number = 0;
    let digits = &bytes[at + 1..];
    for (i, byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' if i < DIGITS_MAX => number = number * 10 + usize::from(byte - b'0'),
            b'\r' if i > 0 => {
                return match digits.get(i + 1) {
                    None => Ok(Header::Incomplete(at + i + 3)),
                    Some(b'\n') => Ok(Header::Number(number, at + i + 3)),
                    Some(_) => Err(Flaw {
                        at: at + i + 2,
                        reason: "a length does not end with its line",
                    }),
                };
            }
            _ => {
                return Err(Flaw {
                    at: at + i + 1,
                    reason: "a length is not a number",
                });
            }
        }
    }
    Ok(Header::Incomplete(bytes.len() + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the commands, the result of the last read and the offset.
    fn read(bytes: &[u8]) -> (Vec<String>, Result<Next, (u64, &'static str)>, u64) {
        let mut commands = Commands::new(bytes, 0);
        let mut read = Vec::new();
        loop {
            match commands.next() {
                Ok(Next::Command) => {
                    let words = commands.args();
                    let words: Vec<_> = words.iter().map(String::from_utf8_lossy).collect();
                    read.push(words.join(" "));
                }
                Ok(end) => return (read, Ok(end), commands.offset()),
                Err(Failure::Damaged { offset, reason }) => {
                    return (read, Err((offset, reason)), commands.offset());
                }
            }
        }
    }

    const FILE: &[u8] = b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n#TS:1795358658\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n";

    #[test]
    fn a_file_cut_anywhere_is_torn_or_whole() {
        let ends = [0, 23, 39, FILE.len()];
        for cut in 0..=FILE.len() {
            let (commands, end, offset) = read(&FILE[..cut]);
            let whole = ends.iter().rposition(|end| *end <= cut).unwrap();
            let expected = if ends.contains(&cut) {
                Next::End
            } else {
                Next::Torn
            };
            assert_eq!((end, offset), (Ok(expected), ends[whole] as u64), "{cut}");
            assert_eq!(commands, ["SELECT 0", "SET k "][..[0, 1, 1, 2][whole]]);
        }
    }

    #[test]
    fn a_changed_byte_of_the_framing_is_found() {
        let framing = FILE
            .iter()
            .enumerate()
            .filter(|(_, byte)| b"*$\r\n".contains(byte));
        for (at, _) in framing {
            let mut bytes = FILE.to_vec();
            bytes[at] = b'x';
            let is_note = (23..39).contains(&at);
            let (_, end, _) = read(&bytes);
            assert!(end.is_err() || is_note, "{at}: {end:?}");
        }
    }

    #[test]
    fn a_wrong_length_is_damage_and_not_a_torn_end() {
        let one = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";
        let mut bytes = one.repeat(10);
        // The last argument of the third command states a length of 900 bytes.
        let at = 2 * one.len() + 21;
        bytes.splice(at..=at, *b"900");
        let (commands, end, offset) = read(&bytes);
        assert_eq!(commands.len(), 2);
        assert_eq!(end.unwrap_err().0, 2 * one.len() as u64, "{end:?}");
        assert_eq!(offset, 2 * one.len() as u64);
        // A complete command may contain a value that looks like a command.
        let inside = format!(
            "*2\r\n$3\r\nGET\r\n${}\r\n\r\n{}\r\n",
            one.len() + 2,
            String::from_utf8_lossy(one)
        );
        assert_eq!(read(inside.as_bytes()).1, Ok(Next::End));
    }

    #[test]
    fn damage_has_an_offset_and_a_reason() {
        for (bytes, offset, reason) in [
            (
                &b"PING\r\n"[..],
                0,
                "expected * at the beginning of a command",
            ),
            (b"\0\0\0", 0, "expected * at the beginning of a command"),
            (b"*0\r\n", 0, "a command without arguments"),
            (b"*-1\r\n", 1, "a length is not a number"),
            (b"*\r\n", 1, "a length is not a number"),
            (b"*12345678901\r\n", 11, "a length is not a number"),
            (b"*1\rx", 3, "a length does not end with its line"),
            (
                b"*1\r\n+PING",
                4,
                "expected $ at the beginning of an argument",
            ),
            (
                b"*1\r\n$4\r\nPINGx",
                12,
                "an argument does not end with its line",
            ),
            (
                b"*1\r\n$4\r\nPING\rx",
                12,
                "an argument does not end with its line",
            ),
        ] {
            assert_eq!(
                read(bytes).1,
                Err((offset, reason)),
                "{}",
                bytes.escape_ascii()
            );
        }
    }
}
