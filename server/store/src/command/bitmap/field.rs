//! BITFIELD: integers of 1 to 64 bits anywhere in a string.

use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use smallvec::SmallVec;

use super::{commit_bits, grow_string, offset};
use crate::arguments::{int, is};
use crate::error::{Error, c_string};
use crate::turn::Cx;

const BAD_TYPE: Error = Error::fixed(
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
);
const BAD_OVERFLOW: Error = Error::fixed("ERR Invalid OVERFLOW type specified");
const ONLY_GET: Error = Error::fixed("ERR BITFIELD_RO only supports the GET subcommand");

/// Type of an integer: signed with 1 to 64 bits, or unsigned with 1 to 63 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Width {
    signed: bool,
    bits: u32,
}

impl Width {
    /// Parses a type such as `i16` or `u8`.
    fn parse(text: &[u8]) -> Result<Self, Error> {
        let (signed, digits) = match text {
            [b'i', digits @ ..] => (true, digits),
            [b'u', digits @ ..] => (false, digits),
            _ => return Err(BAD_TYPE),
        };
        let bits_max = if signed { 64 } else { 63 };
        match parse_i64(c_string(digits)) {
            Some(bits) if (1..=bits_max).contains(&bits) => Ok(Self {
                signed,
                bits: bits as u32,
            }),
            _ => Err(BAD_TYPE),
        }
    }

    /// Returns the smallest and the largest number.
    fn limits(self) -> (i128, i128) {
        if self.signed {
            let half = 1_i128 << (self.bits - 1);
            (-half, half - 1)
        } else {
            (0, (1 << self.bits) - 1)
        }
    }

    /// Returns the number in the lowest bits of `bits`.
    fn number(self, bits: u64) -> i64 {
        let unused = 64 - self.bits;
        if self.signed {
            (bits << unused) as i64 >> unused
        } else {
            (bits << unused >> unused) as i64
        }
    }

    /// Returns `number` if it fits. Otherwise wraps or limits it as `overflow` says, or returns
    /// `None` with FAIL.
    fn fit(self, number: i128, overflow: Overflow) -> Option<i64> {
        let (min, max) = self.limits();
        if (min..=max).contains(&number) {
            return Some(number as i64);
        }
        match overflow {
            Overflow::Wrap => Some(self.number(number as u64)),
            Overflow::Saturate => Some(number.clamp(min, max) as i64),
            Overflow::Fail => None,
        }
    }

    /// Returns the operand of a signed SET. As in Redis, with SAT a very negative operand counts as
    /// a too large one: if the largest number of the field minus the operand overflows 64 bits.
    fn set_operand(self, number: i64, overflow: Overflow) -> i64 {
        let max = i64::MAX >> (64 - self.bits);
        let too_far = self.bits < 64 && max.checked_sub(number).is_none();
        if too_far && overflow == Overflow::Saturate {
            i64::MAX
        } else {
            number
        }
    }

    /// Reads the number at bit `at`; bits after the end of `bytes` are 0. O(1).
    fn read(self, bytes: &[u8], at: u64) -> i64 {
        let first = usize::try_from(at >> 3).unwrap_or(usize::MAX);
        let available = bytes.get(first..).unwrap_or_default();
        // A number and the bits before it in its first byte take at most 9 bytes.
        let mut window = [0; 16];
        let len = available.len().min(9);
        window[..len].copy_from_slice(&available[..len]);
        let shift = 128 - (at & 7) as u32 - self.bits;
        self.number((u128::from_be_bytes(window) >> shift) as u64)
    }

    /// Writes a number at bit `at`; all its bits must lie in `bytes`. O(1).
    fn write(self, bytes: &mut [u8], at: u64, number: i64) {
        let (first, before) = ((at >> 3) as usize, (at & 7) as u32);
        let len = (before + self.bits).div_ceil(8) as usize;
        let target = &mut bytes[first..first + len];
        let mut window = [0; 16];
        window[..len].copy_from_slice(target);
        let shift = 128 - before - self.bits;
        let mask = u128::from(u64::MAX >> (64 - self.bits));
        let old = u128::from_be_bytes(window) & !(mask << shift);
        let new = old | (u128::from(number as u64) & mask) << shift;
        target.copy_from_slice(&new.to_be_bytes()[..len]);
    }
}

/// Handling of a number that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

impl Overflow {
    fn parse(word: &[u8]) -> Result<Self, Error> {
        match () {
            () if is(word, "WRAP") => Ok(Self::Wrap),
            () if is(word, "SAT") => Ok(Self::Saturate),
            () if is(word, "FAIL") => Ok(Self::Fail),
            () => Err(BAD_OVERFLOW),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Get,
    Set(i64, Overflow),
    Add(i64, Overflow),
}

/// One operation of a BITFIELD.
#[derive(Clone, Copy, Debug)]
struct Operation {
    width: Width,
    at: u64,
    action: Action,
}

impl Operation {
    /// Returns the last byte that the operation may change, if any.
    fn last_changed(&self) -> Option<u64> {
        match self.action {
            Action::Get => None,
            _ => Some((self.at + u64::from(self.width.bits) - 1) >> 3),
        }
    }

    /// Runs the operation. Returns its reply, and true if it changed the number.
    fn change(&self, bytes: &mut [u8]) -> (Option<i64>, bool) {
        let old = self.width.read(bytes, self.at);
        let (new, answers_old) = match self.action {
            Action::Get => return (Some(old), false),
            // For an unsigned type, a negative number exceeds the maximum.
            Action::Set(number, overflow) if !self.width.signed => {
                (self.width.fit(i128::from(number as u64), overflow), true)
            }
            Action::Set(number, overflow) => {
                let number = self.width.set_operand(number, overflow);
                (self.width.fit(number.into(), overflow), true)
            }
            Action::Add(number, overflow) => {
                let sum = i128::from(old) + i128::from(number);
                (self.width.fit(sum, overflow), false)
            }
        };
        let Some(new) = new else {
            return (None, false);
        };
        self.width.write(bytes, self.at, new);
        (Some(if answers_old { old } else { new }), old != new)
    }
}

type Operations = SmallVec<[Operation; 4]>;

fn parse(cx: &Cx, args: Args) -> Result<Operations, Error> {
    let mut operations = Operations::new();
    let mut overflow = Overflow::Wrap;
    let mut at = 2;
    while let Some(word) = args.get(at) {
        let more = args.len() - at - 1;
        let action: fn(i64, Overflow) -> Action = match () {
            () if is(word, "GET") && more >= 2 => |_, _| Action::Get,
            () if is(word, "SET") && more >= 3 => Action::Set,
            () if is(word, "INCRBY") && more >= 3 => Action::Add,
            () if is(word, "OVERFLOW") && more >= 1 => {
                overflow = Overflow::parse(&args[at + 1])?;
                at += 2;
                continue;
            }
            () => return Err(Error::Syntax),
        };
        let width = Width::parse(&args[at + 1])?;
        let bit = match &args[at + 2] {
            [b'#', number @ ..] => offset(cx, number, width.bits)?,
            number => offset(cx, number, 1)?,
        };
        let mut operation = Operation {
            width,
            at: bit,
            action: action(0, overflow),
        };
        at += 3;
        if !matches!(operation.action, Action::Get) {
            operation.action = action(int(&args[at])?, overflow);
            at += 1;
        }
        operations.push(operation);
    }
    Ok(operations)
}

pub(super) fn bitfield(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[1];
    let operations = parse(cx, args)?;
    let Some(last) = operations.iter().filter_map(Operation::last_changed).max() else {
        return read(cx, key, &operations, reply);
    };
    let (bytes, longer) = grow_string(cx, key, last)?;
    reply.array(operations.len());
    let mut changes = 0;
    for operation in &operations {
        let (answer, changed) = operation.change(bytes);
        match answer {
            Some(number) => reply.int(number),
            None => reply.null(),
        }
        let wrote = answer.is_some() && operation.last_changed().is_some();
        if wrote && (longer || changed) {
            changes += 1;
        }
    }
    if changes > 0 {
        commit_bits(cx, key, changes);
    } else if longer {
        // The string grew by zeros, but no number fitted. Unlike Redis, this commit replicates the
        // zeros.
        cx.commit_silently(key, 0);
    }
    Ok(())
}

pub(super) fn bitfield_ro(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let operations = parse(cx, args)?;
    if operations.iter().any(|o| o.last_changed().is_some()) {
        return Err(ONLY_GET);
    }
    read(cx, &args[1], &operations, reply)
}

/// Replies to operations that only read.
fn read(cx: &mut Cx, key: &[u8], operations: &[Operation], reply: &mut Reply) -> Result<(), Error> {
    let mut buffer = itoa::Buffer::new();
    let text = match cx.read_str(key)? {
        Some(string) => string.text(&mut buffer),
        None => b"",
    };
    reply.array(operations.len());
    for operation in operations {
        reply.int(operation.width.read(text, operation.at));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads a number bit by bit, as a model.
    fn read_by_bits(width: Width, bytes: &[u8], at: u64) -> i64 {
        let mut number: i128 = 0;
        for bit in at..at + u64::from(width.bits) {
            let byte = bytes.get((bit >> 3) as usize).copied().unwrap_or(0);
            number = number * 2 + i128::from(byte >> (7 - (bit & 7)) & 1);
        }
        if width.signed && number >= 1 << (width.bits - 1) {
            number -= 1 << width.bits;
        }
        i64::try_from(number).unwrap()
    }

    fn width() -> impl Strategy<Value = Width> {
        (any::<bool>(), 1..=63_u32).prop_map(|(signed, bits)| Width {
            signed,
            bits: bits + u32::from(signed),
        })
    }

    #[test]
    fn saturating_set_of_a_very_small_number_sets_the_largest_as_in_redis() {
        let width = Width {
            signed: true,
            bits: 16,
        };
        let set = |number, overflow| {
            let number = width.set_operand(number, overflow);
            width.fit(number.into(), overflow)
        };
        assert_eq!(set(-40_000, Overflow::Saturate), Some(-32_768));
        assert_eq!(set(-i64::MAX, Overflow::Saturate), Some(32_767));
        assert_eq!(set(-i64::MAX, Overflow::Wrap), Some(1));
        assert_eq!(set(-i64::MAX, Overflow::Fail), None);
    }

    proptest! {
        #[test]
        fn reads_and_writes_touch_only_the_bits_of_the_number(
            mut bytes in proptest::collection::vec(any::<u8>(), 20..40),
            width in width(),
            at in 0..96_u64,
            number in any::<i64>(),
        ) {
            let far = at + bytes.len() as u64 * 8 - 40;
            prop_assert_eq!(width.read(&bytes, far), read_by_bits(width, &bytes, far));
            let before = bytes.clone();
            let number = width.number(number as u64);
            width.write(&mut bytes, at, number);
            prop_assert_eq!(width.read(&bytes, at), number);
            prop_assert_eq!(read_by_bits(width, &bytes, at), number);
            let end = at + u64::from(width.bits);
            for bit in (0..at).chain(end..bytes.len() as u64 * 8) {
                let bit_of = |b: &[u8]| b[(bit >> 3) as usize] >> (7 - (bit & 7)) & 1;
                prop_assert_eq!(bit_of(&before), bit_of(&bytes), "bit {}", bit);
            }
        }

        #[test]
        fn overflow_wraps_saturates_or_fails(width in width(), number in any::<i64>(), add in any::<i64>()) {
            let sum = i128::from(width.number(number as u64)) + i128::from(add);
            let (min, max) = width.limits();
            let fits = (min..=max).contains(&sum);
            prop_assert_eq!(width.fit(sum, Overflow::Fail).is_some(), fits);
            let wrapped = i128::from(width.fit(sum, Overflow::Wrap).unwrap());
            prop_assert!((min..=max).contains(&wrapped));
            prop_assert_eq!((wrapped - sum).rem_euclid(1 << width.bits), 0);
            let cut = i128::from(width.fit(sum, Overflow::Saturate).unwrap());
            prop_assert_eq!(cut, sum.max(min).min(max));
        }
    }
}
