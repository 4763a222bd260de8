//! The library `cmsgpack`: MessagePack, as lua-cmsgpack 0.4.0 writes and reads it.
//!
//! lua-cmsgpack does not know the later types of MessagePack: binary strings, extensions and times.
//! The limits are the same as in lua-cmsgpack: `pack` writes [`LEVELS`] levels of tables, and for
//! `unpack` only Lua's stack limits the depth.

use crate::raw::function::{Native, Raise};
use crate::raw::state::Work;
use crate::raw::{Kind, Stack};

pub(super) const FUNCTIONS: &[(&str, Native)] = &[
    ("pack", pack),
    ("unpack", unpack),
    ("unpack_one", unpack_one),
    ("unpack_limit", unpack_limit),
];

/// Strings in the library's table.
pub(super) const TEXTS: &[(&str, &str)] = &[
    ("_NAME", "cmsgpack"),
    ("_VERSION", "lua-cmsgpack 0.4.0"),
    ("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo"),
    ("_DESCRIPTION", "MessagePack C implementation for Lua"),
];

/// Maximum number of nested tables that are packed. A deeper table is packed as nil.
const LEVELS: u32 = 16;

/// The state of `pack`.
struct Packer {
    out: Vec<u8>,
    /// Number of packed arguments. Redis keeps a string for each of them on the stack, so
    /// [`Packer::ensure`] counts them as used room.
    done: i32,
    work: Work,
}

fn pack(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    let arguments = stack.top();
    if arguments == 0 {
        return Err(stack.argument_error(0, "MessagePack pack needs input."));
    }
    if !stack.has_room(arguments) {
        return Err(stack.argument_error(0, "Too many arguments for MessagePack pack."));
    }
    let mut packer = Packer {
        out: Vec::new(),
        done: 0,
        work: Work::default(),
    };
    for at in 1..=arguments {
        packer.ensure(stack, 1, "in function mp_check")?;
        stack.push_value(at);
        packer.value(stack, 0)?;
        packer.done += 1;
    }
    stack.push_bytes(&packer.out);
    Ok(1)
}

impl Packer {
    /// Makes room for `n` values, with the same limit and error as in Redis.
    fn ensure(&self, stack: &Stack<'_>, n: i32, place: &str) -> Result<(), Raise> {
        stack.ensure_for(self.done + n, place)
    }

    /// Appends the value at the top and pops it.
    fn value(&mut self, stack: &mut Stack<'_>, level: u32) -> Result<(), Raise> {
        self.work.step(stack, self.out.len())?;
        match stack.kind(-1) {
            Kind::String => self.string(stack.bytes(-1).unwrap_or_default()),
            Kind::Boolean => self.out.push(0xc2 + u8::from(stack.boolean(-1))),
            Kind::Number => self.number(stack.to_number(-1)),
            Kind::Table if level < LEVELS => {
                self.ensure(stack, 2, "in function table_is_an_array")?;
                if is_array(stack) {
                    self.array(stack, level)?;
                } else {
                    self.map(stack, level)?;
                }
            }
            _ => self.out.push(0xc0),
        }
        stack.pop(1);
        Ok(())
    }

    fn string(&mut self, text: &[u8]) {
        match text.len() {
            len @ ..32 => self.out.push(0xa0 | len as u8),
            len @ ..=0xff => self.out.extend([0xd9, len as u8]),
            len => self.long_header(0xda, len),
        }
        self.out.extend_from_slice(text);
    }

    /// Appends a header: `kind` with a length of 16 bits, or `kind + 1` with a length of 32 bits.
    fn long_header(&mut self, kind: u8, len: usize) {
        if let Ok(len) = u16::try_from(len) {
            self.out.push(kind);
            self.out.extend(len.to_be_bytes());
        } else {
            self.out.push(kind + 1);
            self.out.extend((len as u32).to_be_bytes());
        }
    }

    fn number(&mut self, value: f64) {
        const LIMIT: f64 = 9_223_372_036_854_775_808.0;
        if (-LIMIT..LIMIT).contains(&value) && value.trunc() == value {
            self.integer(value as i64);
        } else if f64::from(value as f32) == value {
            self.out.push(0xca);
            self.out.extend((value as f32).to_be_bytes());
        } else {
            self.out.push(0xcb);
            self.out.extend(value.to_be_bytes());
        }
    }

    /// Appends an integer in the shortest form.
    fn integer(&mut self, value: i64) {
        let (kind, width) = match value {
            -32..=127 => return self.out.push(value as u8),
            128..=0xff => (0xcc, 1),
            0x100..=0xffff => (0xcd, 2),
            0x1_0000..=0xffff_ffff => (0xce, 4),
            0x1_0000_0000.. => (0xcf, 8),
            -0x80..=-33 => (0xd0, 1),
            -0x8000..=-0x81 => (0xd1, 2),
            -0x8000_0000..=-0x8001 => (0xd2, 4),
            _ => (0xd3, 8),
        };
        self.out.push(kind);
        self.out
            .extend_from_slice(&value.to_be_bytes()[8 - width..]);
    }

    fn array(&mut self, stack: &mut Stack<'_>, level: u32) -> Result<(), Raise> {
        let len = stack.raw_len(-1);
        match len {
            ..16 => self.out.push(0x90 | len as u8),
            _ => self.long_header(0xdc, len),
        }
        self.ensure(stack, 1, "in function mp_encode_lua_table_as_array")?;
        for n in 1..=len {
            stack.raw_get_index(-1, n as i32);
            self.value(stack, level + 1)?;
        }
        Ok(())
    }

    fn map(&mut self, stack: &mut Stack<'_>, level: u32) -> Result<(), Raise> {
        self.ensure(stack, 3, "in function mp_encode_lua_table_as_map")?;
        let mut len = 0;
        stack.push_nil();
        while stack.next(-2) {
            stack.pop(1);
            len += 1;
        }
        match len {
            ..16 => self.out.push(0x80 | len as u8),
            _ => self.long_header(0xde, len),
        }
        stack.push_nil();
        while stack.next(-2) {
            stack.push_value(-2);
            self.value(stack, level + 1)?;
            self.value(stack, level + 1)?;
        }
        Ok(())
    }
}

/// Returns whether the keys of the table at the top are 1, 2, 3 and so on.
fn is_array(stack: &mut Stack<'_>) -> bool {
    let (mut count, mut largest) = (0, 0);
    stack.push_nil();
    while stack.next(-2) {
        stack.pop(1);
        // A fraction, or a number that does not fit in an int, is not an index.
        let index = stack.number(-1).filter(|&n| n > 0.0).map(|n| n as i32);
        match index {
            Some(index) if stack.number(-1) == Some(f64::from(index)) => {
                count += 1;
                largest = largest.max(index);
            }
            _ => {
                stack.pop(1);
                return false;
            }
        }
    }
    count == largest
}

fn unpack(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    unpack_from(stack, 0, 0)
}

fn unpack_one(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    let offset = stack.optional_integer(2, 0)?;
    stack.set_top(stack.top().min(1));
    unpack_from(stack, 1, offset)
}

fn unpack_limit(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    let limit = stack.check_integer(2)?;
    let offset = stack.optional_integer(3, 0)?;
    stack.set_top(stack.top().min(1));
    unpack_from(stack, limit, offset)
}

/// Pushes the offset of the next value, or -1 at the end, and then up to `limit` values of the
/// string at index 1, from `offset` on. If `limit` and `offset` are 0, pushes all values without
/// the offset.
fn unpack_from(stack: &mut Stack<'_>, limit: i64, offset: i64) -> Result<i32, Raise> {
    let input = stack.check_bytes(1)?;
    let (shown, len) = (offset as i32, input.len() as i32);
    if offset < 0 || limit < 0 {
        // Redis prints the length of the input instead of the limit.
        return Err(Raise::message(format!(
            "Invalid request to unpack with offset of {shown} and limit of {len}."
        )));
    }
    let Some(rest) = input.get(offset as usize..) else {
        return Err(Raise::message(format!(
            "Start offset {shown} greater than input length {len}."
        )));
    };
    let all = limit == 0 && offset == 0;
    let limit = if all { i64::MAX } else { limit };
    let first = stack.top() + 1;
    let mut unpacker = Unpacker {
        rest,
        open: Vec::new(),
        work: Work::default(),
    };
    let mut results = 0;
    while !unpacker.rest.is_empty() && results < limit {
        unpacker.value(stack)?;
        results += 1;
    }
    if !all {
        stack.ensure_for(1, "in function mp_unpack_full")?;
        let next = if unpacker.rest.is_empty() {
            -1.0
        } else {
            (input.len() - unpacker.rest.len()) as f64
        };
        stack.push_number(next);
        stack.insert(first);
        results += 1;
    }
    Ok(results as i32)
}

/// A table that is being read. It is on the stack, and `left` is the number of its missing
/// elements.
enum Open {
    /// The next value is an element; its index is at the top of the stack.
    Array { left: u32, index: f64 },
    /// The next value is a key.
    Key { left: u32 },
    /// The next value belongs to the key at the top of the stack.
    Value { left: u32 },
}

/// The state of `unpack`. The code is not recursive, because a thread's stack has no room for the
/// thousands of levels that Lua's stack allows.
struct Unpacker<'i> {
    /// The unread input.
    rest: &'i [u8],
    /// The tables that are not complete, the innermost last.
    open: Vec<Open>,
    work: Work,
}

impl<'i> Unpacker<'i> {
    fn take(&mut self, n: usize) -> Result<&'i [u8], Raise> {
        let (taken, rest) = self
            .rest
            .split_at_checked(n)
            .ok_or_else(|| Raise::message("Missing bytes in input."))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Raise> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    /// Reads a length of 1, 2 or 4 bytes.
    fn len(&mut self, width: usize) -> Result<u32, Raise> {
        let bytes = self.take(width)?;
        Ok(bytes
            .iter()
            .fold(0, |len, byte| len << 8 | u32::from(*byte)))
    }

    /// Pushes the next value.
    fn value(&mut self, stack: &mut Stack<'_>) -> Result<(), Raise> {
        loop {
            self.work.step(stack, 0)?;
            if self.part(stack)? {
                self.attach(stack)?;
            }
            if self.open.is_empty() {
                return Ok(());
            }
        }
    }

    /// Pushes a value. Returns false if it is a table whose elements come next.
    fn part(&mut self, stack: &mut Stack<'_>) -> Result<bool, Raise> {
        const FULL: &str =
            "too many return values at once; use unpack_one or unpack_limit instead.";
        let [kind] = self.array()?;
        stack.ensure_for(1, FULL)?;
        let number = match kind {
            0x00..=0x7f => f64::from(kind),
            0xe0..=0xff => f64::from(kind as i8),
            0xca => f64::from(f32::from_be_bytes(self.array()?)),
            0xcb => f64::from_be_bytes(self.array()?),
            0xcc => f64::from(u8::from_be_bytes(self.array()?)),
            0xcd => f64::from(u16::from_be_bytes(self.array()?)),
            0xce => f64::from(u32::from_be_bytes(self.array()?)),
            0xd0 => f64::from(i8::from_be_bytes(self.array()?)),
            0xd1 => f64::from(i16::from_be_bytes(self.array()?)),
            0xd2 => f64::from(i32::from_be_bytes(self.array()?)),
            // Redis reads an unsigned integer of 64 bits as a signed one.
            0xcf | 0xd3 => i64::from_be_bytes(self.array()?) as f64,
            0xc0 => {
                stack.push_nil();
                return Ok(true);
            }
            0xc2 | 0xc3 => {
                stack.push_boolean(kind == 0xc3);
                return Ok(true);
            }
            0xa0..=0xbf => return self.string(stack, u32::from(kind & 31)),
            0xd9..=0xdb => {
                let len = self.len(1 << (kind - 0xd9))?;
                return self.string(stack, len);
            }
            0x90..=0x9f => return Self::begin_array(stack, &mut self.open, u32::from(kind & 15)),
            0xdc | 0xdd => {
                let len = self.len(2 << (kind - 0xdc))?;
                return Self::begin_array(stack, &mut self.open, len);
            }
            0x80..=0x8f => return Ok(Self::begin_map(stack, &mut self.open, u32::from(kind & 15))),
            0xde | 0xdf => {
                let len = self.len(2 << (kind - 0xde))?;
                return Ok(Self::begin_map(stack, &mut self.open, len));
            }
            _ => return Err(Raise::message("Bad data format in input.")),
        };
        stack.push_number(number);
        Ok(true)
    }

    fn string(&mut self, stack: &Stack<'_>, len: u32) -> Result<bool, Raise> {
        stack.push_bytes(self.take(len as usize)?);
        Ok(true)
    }

    fn begin_array(stack: &Stack<'_>, open: &mut Vec<Open>, left: u32) -> Result<bool, Raise> {
        stack.ensure_for(2, "in function mp_decode_to_lua_array")?;
        stack.push_table(0, 0);
        if left == 0 {
            return Ok(true);
        }
        stack.push_number(1.0);
        open.push(Open::Array { left, index: 1.0 });
        Ok(false)
    }

    fn begin_map(stack: &Stack<'_>, open: &mut Vec<Open>, left: u32) -> bool {
        stack.push_table(0, 0);
        if left == 0 {
            return true;
        }
        open.push(Open::Key { left });
        false
    }

    /// Adds the complete value at the top to the innermost table. If the table is then complete,
    /// adds it to its own table, and so on.
    fn attach(&mut self, stack: &mut Stack<'_>) -> Result<(), Raise> {
        while let Some(open) = self.open.last_mut() {
            match open {
                Open::Key { left } => {
                    *open = Open::Value { left: *left };
                    return Ok(());
                }
                Open::Array { left, index } => {
                    stack.raw_set(-3);
                    *left -= 1;
                    if *left > 0 {
                        *index += 1.0;
                        stack.push_number(*index);
                        return Ok(());
                    }
                }
                Open::Value { left } => {
                    if stack.kind(-2) == Kind::Nil {
                        return Err(Raise::Plain("table index is nil"));
                    }
                    if stack.number(-2).is_some_and(f64::is_nan) {
                        return Err(Raise::Plain("table index is NaN"));
                    }
                    stack.raw_set(-3);
                    let left = *left - 1;
                    if left > 0 {
                        *open = Open::Key { left };
                        return Ok(());
                    }
                }
            }
            self.open.pop();
        }
        Ok(())
    }
}
