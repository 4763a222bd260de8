//! Converts Lua values to JSON text.

use punctual_resp::decimal::write_f64_rounded;

use super::config::{Encode, Invalid};
use super::{Buffers, out_of_memory};
use crate::raw::function::Raise;
use crate::raw::tables::Place;
use crate::raw::{Kind, Stack};

/// A table whose elements are being written. It is on the stack; the last key of an object is above
/// it.
pub(crate) enum Open {
    /// `written` of the `len` elements are written.
    Array { written: i32, len: i32 },
    /// The position after the last key.
    Object(Place),
}

/// `cjson.encode(value)`.
pub(super) fn encode(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    if stack.top() != 1 {
        return Err(stack.argument_error(1, "expected 1 argument"));
    }
    let settings = Encode::of(stack);
    Buffers::with(stack, |stack, buffers| {
        let mut encoder = Encoder {
            settings,
            out: &mut buffers.text,
            open: &mut buffers.encoding,
        };
        encoder.run(stack)?;
        stack.push_bytes(&buffers.text);
        Ok(1)
    })
}

struct Encoder<'b> {
    settings: Encode,
    out: &'b mut Vec<u8>,
    open: &'b mut Vec<Open>,
}

impl Encoder<'_> {
    /// Pops a value and appends its JSON text to `out`.
    fn run(&mut self, stack: &mut Stack<'_>) -> Result<(), Raise> {
        loop {
            match stack.kind(-1) {
                Kind::Table => self.begin(stack)?,
                kind => {
                    self.write_plain(stack, kind)?;
                    stack.pop(1);
                }
            }
            // Pushes the next element of the innermost table. A table without further elements is
            // complete.
            loop {
                let Some(open) = self.open.last_mut() else {
                    return Ok(());
                };
                match open {
                    Open::Array { written, len } if *written < *len => {
                        if *written > 0 {
                            self.out.push(b',');
                        }
                        *written += 1;
                        stack.raw_get_index(-1, *written);
                        if *written % 1024 == 0 && stack.context().is_out_of_memory(self.out.len())
                        {
                            return Err(out_of_memory(stack));
                        }
                        break;
                    }
                    Open::Array { .. } => self.out.push(b']'),
                    Open::Object(place) => {
                        if stack.next_pair(place) {
                            if self.out.last() != Some(&b'{') {
                                self.out.push(b',');
                            }
                            self.write_key(stack)?;
                            break;
                        }
                        self.out.push(b'}');
                    }
                }
                self.open.pop();
                stack.pop(1);
            }
        }
    }

    /// Writes the bracket of the table at the top. For an object, pushes nil, with which an
    /// iteration of its keys starts.
    fn begin(&mut self, stack: &mut Stack<'_>) -> Result<(), Raise> {
        let depth = self.open.len() as i32 + 1;
        // A table for which Lua's stack has no room gives the same error.
        if depth > self.settings.max_depth || !stack.has_room(3) {
            return Err(Raise::message(format!(
                "Cannot serialise, excessive nesting ({depth})"
            )));
        }
        if stack.context().is_out_of_memory(self.out.len()) {
            return Err(out_of_memory(stack));
        }
        if let Some(len) = self.array_len(stack)? {
            self.out.push(b'[');
            self.open.push(Open::Array { written: 0, len });
        } else {
            self.out.push(b'{');
            self.open.push(Open::Object(Place::default()));
            stack.push_nil();
        }
        Ok(())
    }

    /// Returns the length of the table at the top if it is written as an array: it is not empty,
    /// all keys are positive integers, and the array is not sparse.
    ///
    /// # Errors
    /// Redis's message if the array is sparse and the settings refuse sparse arrays.
    fn array_len(&self, stack: &Stack<'_>) -> Result<Option<i32>, Raise> {
        let Some((max, items)) = stack.array_keys() else {
            return Ok(None);
        };
        let Encode {
            sparse_convert,
            sparse_ratio,
            sparse_safe,
            ..
        } = self.settings;
        if sparse_ratio > 0 && max > items.wrapping_mul(sparse_ratio) && max > sparse_safe {
            return if sparse_convert {
                Ok(None)
            } else {
                Err(cannot(Kind::Table, "excessively sparse array"))
            };
        }
        Ok((max > 0).then_some(max))
    }

    /// Appends the key below the value at the top.
    fn write_key(&mut self, stack: &Stack<'_>) -> Result<(), Raise> {
        match stack.kind(-2) {
            Kind::String => {
                write_string(self.out, stack.bytes(-2).unwrap_or_default());
                self.out.push(b':');
            }
            Kind::Number => {
                self.out.push(b'"');
                self.write_number(stack.to_number(-2))?;
                self.out.extend_from_slice(b"\":");
            }
            kind => return Err(cannot(kind, "table key must be a number or string")),
        }
        Ok(())
    }

    /// Appends the value at the top, which is not a table.
    fn write_plain(&mut self, stack: &Stack<'_>, kind: Kind) -> Result<(), Raise> {
        match kind {
            Kind::String => write_string(self.out, stack.bytes(-1).unwrap_or_default()),
            Kind::Number => self.write_number(stack.to_number(-1))?,
            Kind::Boolean if stack.boolean(-1) => self.out.extend_from_slice(b"true"),
            Kind::Boolean => self.out.extend_from_slice(b"false"),
            Kind::Nil => self.out.extend_from_slice(b"null"),
            Kind::LightUserdata if stack.light_userdata(-1) == Some(0) => {
                self.out.extend_from_slice(b"null");
            }
            kind => return Err(cannot(kind, "type not supported")),
        }
        Ok(())
    }

    fn write_number(&mut self, value: f64) -> Result<(), Raise> {
        if !value.is_finite() {
            match self.settings.invalid {
                Invalid::Refuse => return Err(cannot(Kind::Number, "must not be NaN or Inf")),
                Invalid::Write if value.is_nan() => {
                    self.out.extend_from_slice(b"nan");
                    return Ok(());
                }
                Invalid::Write => {}
                Invalid::WriteNull => {
                    self.out.extend_from_slice(b"null");
                    return Ok(());
                }
            }
        }
        write_f64_rounded(self.out, value, self.settings.precision);
        Ok(())
    }
}

fn cannot(kind: Kind, problem: &str) -> Raise {
    Raise::message(format!("Cannot serialise {}: {problem}", kind.name()))
}

/// For each byte, whether it is written unchanged in a string.
const PLAIN: [bool; 256] = {
    let mut plain = [true; 256];
    let mut byte = 0;
    while byte < 0x20 {
        plain[byte] = false;
        byte += 1;
    }
    plain[b'"' as usize] = false;
    plain[b'/' as usize] = false;
    plain[b'\\' as usize] = false;
    plain[0x7f] = false;
    plain
};

/// Appends a string with its quotes.
fn write_string(out: &mut Vec<u8>, mut text: &[u8]) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    loop {
        let plain = plain_len(text);
        out.extend_from_slice(&text[..plain]);
        let Some(&byte) = text.get(plain) else {
            break;
        };
        write_escape(out, byte);
        text = &text[plain + 1..];
    }
    out.push(b'"');
}

/// Returns the number of bytes before the first that needs an escape.
fn plain_len(text: &[u8]) -> usize {
    let mut len = plain_blocks::<16>(text);
    len += plain_blocks::<8>(&text[len..]);
    let is_plain = |b: &&u8| PLAIN[usize::from(**b)];
    len + text[len..].iter().take_while(is_plain).count()
}

/// Returns the number of bytes in whole blocks before the first block with a byte that needs an
/// escape. The check of a block compiles to vector instructions.
fn plain_blocks<const BLOCK: usize>(text: &[u8]) -> usize {
    let needs_escape = |b: u8| (b < 0x20) | (b == b'"') | (b == b'/') | (b == b'\\') | (b == 0x7f);
    let has_one = |block: &&[u8; BLOCK]| block.iter().fold(false, |any, &b| any | needs_escape(b));
    let (blocks, _) = text.as_chunks::<BLOCK>();
    BLOCK * blocks.iter().take_while(|block| !has_one(block)).count()
}

fn write_escape(out: &mut Vec<u8>, byte: u8) {
    let letter = match byte {
        b'"' | b'/' | b'\\' => byte,
        8 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        12 => b'f',
        b'\r' => b'r',
        _ => {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            out.extend_from_slice(b"\\u00");
            out.push(DIGITS[usize::from(byte >> 4)]);
            out.push(DIGITS[usize::from(byte & 15)]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', letter]);
}
