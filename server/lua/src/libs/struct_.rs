//! The library `struct`: packs values into the bytes of C structures. The results are the same as
//! in Redis's version of Roberto Ierusalimschy's library.
//!
//! A format is a sequence of options. `b B h H l L T i I f d` are numbers of various sizes; the
//! size may follow `i` and `I`. `s` and `c` are strings, and `x` is a byte of padding. `<` and `>`
//! set the byte order, and `!` sets the alignment.

use crate::raw::Stack;
use crate::raw::arguments::truncate;
use crate::raw::function::{Native, Raise};
use crate::raw::state::Work;

pub(super) const FUNCTIONS: &[(&str, Native)] =
    &[("pack", pack), ("unpack", unpack), ("size", size)];

/// Size in bytes of C's `int`.
const INT: u64 = 4;
/// Size in bytes of C's `long`.
const LONG: u64 = 8;
/// Maximum size in bytes of an integer in a format.
const LARGEST_INTEGER: u64 = 32;
/// Alignment in bytes that the option `!` without a number sets.
const DEFAULT_ALIGNMENT: u64 = 8;

/// A format that is being read.
struct Format<'f> {
    /// The unread options.
    rest: &'f [u8],
    little_endian: bool,
    /// Maximum alignment of a value in bytes.
    alignment: u64,
}

/// One option and the size of its value in bytes; 0 if the size depends on the value.
#[derive(Clone, Copy)]
struct Field {
    option: u8,
    size: u64,
}

impl Format<'_> {
    /// Returns the format `text`, which ends at its first NUL as a C string does.
    fn new(text: &[u8]) -> Format<'_> {
        let end = text.iter().position(|&byte| byte == 0);
        Format {
            rest: &text[..end.unwrap_or(text.len())],
            little_endian: cfg!(target_endian = "little"),
            alignment: 1,
        }
    }

    fn next(&mut self) -> Result<Option<Field>, Raise> {
        let Some((&option, rest)) = self.rest.split_first() else {
            return Ok(None);
        };
        self.rest = rest;
        let size = match option {
            b'b' | b'B' | b'x' => 1,
            b'h' | b'H' => 2,
            b'f' => 4,
            b'l' | b'L' | b'T' | b'd' => LONG,
            b'c' => self.number(1)?,
            b'i' | b'I' => {
                let size = self.number(INT)?;
                if size > LARGEST_INTEGER {
                    return Err(Raise::message(format!(
                        "integral size {size} is larger than limit of {LARGEST_INTEGER}"
                    )));
                }
                size
            }
            _ => 0,
        };
        Ok(Some(Field { option, size }))
    }

    /// Reads the number after an option; `default` if there is no number.
    fn number(&mut self, default: u64) -> Result<u64, Raise> {
        let len = self.rest.iter().take_while(|b| b.is_ascii_digit()).count();
        if len == 0 {
            return Ok(default);
        }
        let (digits, rest) = self.rest.split_at(len);
        self.rest = rest;
        let mut value = 0;
        for digit in digits {
            value = value * 10 + u64::from(digit - b'0');
            if value > i32::MAX as u64 {
                return Err(Raise::message("integral size overflow"));
            }
        }
        Ok(value)
    }

    /// Returns the number of padding bytes before a field at an offset. For sizes that are not a
    /// power of two, the number is useless but the same as in Redis.
    fn padding(&self, offset: u64, field: Field) -> u64 {
        if field.size == 0 || field.option == b'c' {
            return 0;
        }
        let unit = field.size.min(self.alignment);
        (unit - (offset & (unit - 1))) & (unit - 1)
    }

    /// Applies an option that has no value, such as the byte order.
    fn control(&mut self, stack: &Stack<'_>, option: u8) -> Result<(), Raise> {
        match option {
            b' ' => {}
            b'<' => self.little_endian = true,
            b'>' => self.little_endian = false,
            b'!' => {
                let alignment = self.number(DEFAULT_ALIGNMENT)?;
                if !alignment.is_power_of_two() {
                    return Err(Raise::message(format!(
                        "alignment {alignment} is not a power of 2"
                    )));
                }
                self.alignment = alignment;
            }
            _ => {
                let problem = [b"invalid format option '", &[option][..], b"'"].concat();
                return Err(stack.argument_error(1, &problem));
            }
        }
        Ok(())
    }

    /// Converts bytes between little-endian order and the format's byte order.
    fn order(&self, bytes: &mut [u8]) {
        if !self.little_endian {
            bytes.reverse();
        }
    }
}

/// Converts to an unsigned integer as compiled C code on x86-64 does, even for values that do not
/// fit.
fn to_u64(value: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    if value >= HALF {
        truncate(value - HALF) as u64 ^ 1 << 63
    } else {
        truncate(value) as u64
    }
}

fn pack(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    let text = stack.check_bytes(1)?;
    let mut format = Format::new(&text);
    let mut at = 1;
    let mut out: Vec<u8> = Vec::new();
    let mut work = Work::default();
    // Redis pushes nil after the arguments, so its message about a missing argument says `nil`.
    stack.push_nil();
    while let Some(field) = format.next()? {
        work.step(stack, out.len())?;
        let padding = format.padding(out.len() as u64, field);
        out.resize(out.len() + padding as usize, 0);
        match field.option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                at += 1;
                let value = to_u64(stack.check_number(at)?);
                let mut bytes = [0; LARGEST_INTEGER as usize];
                bytes[..8].copy_from_slice(&value.to_le_bytes());
                let bytes = &mut bytes[..field.size as usize];
                format.order(bytes);
                out.extend_from_slice(bytes);
            }
            b'x' => out.push(0),
            b'f' => {
                at += 1;
                let mut bytes = (stack.check_number(at)? as f32).to_le_bytes();
                format.order(&mut bytes);
                out.extend_from_slice(&bytes);
            }
            b'd' => {
                at += 1;
                let mut bytes = stack.check_number(at)?.to_le_bytes();
                format.order(&mut bytes);
                out.extend_from_slice(&bytes);
            }
            b'c' | b's' => {
                at += 1;
                let value = stack.check_bytes(at)?;
                let size = if field.size == 0 {
                    value.len()
                } else {
                    field.size as usize
                };
                let Some(value) = value.get(..size) else {
                    // Redis's message names the argument after the wrong argument.
                    return Err(stack.argument_error(at + 1, "string too short"));
                };
                out.extend_from_slice(value);
                if field.option == b's' {
                    out.push(0);
                }
            }
            option => format.control(stack, option)?,
        }
    }
    stack.push_bytes(&out);
    Ok(1)
}

fn unpack(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    let text = stack.check_bytes(1)?;
    let data = stack.check_bytes(2)?;
    // CVE-2018-11219: the offset and the sizes are checked as unsigned numbers, without a sum that
    // could overflow.
    let position = stack.optional_integer(3, 1)? as u64;
    if position == 0 {
        return Err(stack.argument_error(3, "offset must be 1 or greater"));
    }
    let mut position = position - 1;
    stack.set_top(2);
    let too_short = |stack: &Stack<'_>| stack.argument_error(2, "data string too short");
    let mut format = Format::new(&text);
    let mut results = 0;
    while let Some(field) = format.next()? {
        position = position.wrapping_add(format.padding(position, field));
        let rest = usize::try_from(position)
            .ok()
            .and_then(|position| data.get(position..))
            .filter(|rest| field.size <= rest.len() as u64)
            .ok_or_else(|| too_short(stack))?;
        stack.ensure_for(2, "too many results")?;
        let mut size = field.size as usize;
        match field.option {
            b'b' | b'h' | b'l' | b'i' => {
                stack.push_number(integer(&format, &rest[..size], true));
                results += 1;
            }
            b'B' | b'H' | b'L' | b'T' | b'I' => {
                stack.push_number(integer(&format, &rest[..size], false));
                results += 1;
            }
            b'x' => {}
            b'f' => {
                let mut bytes = [0; 4];
                bytes.copy_from_slice(&rest[..size]);
                format.order(&mut bytes);
                stack.push_number(f32::from_le_bytes(bytes).into());
                results += 1;
            }
            b'd' => {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(&rest[..size]);
                format.order(&mut bytes);
                stack.push_number(f64::from_le_bytes(bytes));
                results += 1;
            }
            b'c' => {
                if size == 0 {
                    // For `c0`, the result before it is the size.
                    if results == 0 || !stack.is_numeric(-1) {
                        return Err(Raise::message("format 'c0' needs a previous size"));
                    }
                    let before = to_u64(stack.to_number(-1));
                    stack.pop(1);
                    results -= 1;
                    // CVE-2020-14147: the size may be any number, so it is checked.
                    size = usize::try_from(before)
                        .ok()
                        .filter(|&size| size <= rest.len())
                        .ok_or_else(|| too_short(stack))?;
                }
                stack.push_bytes(&rest[..size]);
                results += 1;
            }
            b's' => {
                let len = rest
                    .iter()
                    .position(|&byte| byte == 0)
                    .ok_or_else(|| Raise::message("unfinished string in data"))?;
                stack.push_bytes(&rest[..len]);
                size = len + 1;
                results += 1;
            }
            option => format.control(stack, option)?,
        }
        position += size as u64;
    }
    stack.push_number(position.wrapping_add(1) as i64 as f64);
    Ok(results + 1)
}

/// Reads an integer of up to 32 bytes. The result is the value of its lowest eight bytes.
fn integer(format: &Format<'_>, bytes: &[u8], signed: bool) -> f64 {
    let append = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    let value = if format.little_endian {
        bytes.iter().rev().fold(0, append)
    } else {
        bytes.iter().fold(0, append)
    };
    if !signed {
        return value as f64;
    }
    // The position of the sign bit is taken modulo 64, as x86-64 shifts. For integers longer than
    // eight bytes this is not the sign, but the result is the same as in Redis.
    let signs = u64::MAX.wrapping_shl((bytes.len() as u32 * 8).wrapping_sub(1));
    let value = if value & signs == 0 {
        value
    } else {
        value | signs
    };
    value as i64 as f64
}

fn size(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    let text = stack.check_bytes(1)?;
    let mut format = Format::new(&text);
    let mut offset: u64 = 0;
    while let Some(field) = format.next()? {
        offset += format.padding(offset, field);
        match field {
            Field { option: b's', .. } => {
                return Err(stack.argument_error(1, "option 's' has no fixed size"));
            }
            Field {
                option: b'c',
                size: 0,
            } => {
                return Err(stack.argument_error(1, "option 'c0' has no fixed size"));
            }
            Field { option, .. } if !option.is_ascii_alphanumeric() => {
                format.control(stack, option)?;
            }
            Field { size, .. } => offset += size,
        }
    }
    stack.push_number(offset as i64 as f64);
    Ok(1)
}
