//! BITCOUNT and BITPOS: bits of a range of a string.

use std::ops::Range;

use punctual_resp::{Args, Reply};

use crate::arguments::{int, is};
use crate::error::Error;
use crate::turn::Cx;

const BAD_BIT: Error = Error::fixed("ERR The bit argument must be 1 or 0.");

/// Number of bytes that a search compares at once.
const BLOCK: usize = 64;

/// Unit of positions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Byte,
    Bit,
}

impl Unit {
    fn parse(arg: Option<&[u8]>) -> Result<Self, Error> {
        match arg {
            None => Ok(Self::Byte),
            Some(word) if is(word, "BYTE") => Ok(Self::Byte),
            Some(word) if is(word, "BIT") => Ok(Self::Bit),
            Some(_) => Err(Error::Syntax),
        }
    }

    /// Returns the bits from `start` to `end` of a string of `len` bytes, or `None` if the range is
    /// empty. Both ends are inclusive; negative positions count from the end, and a position before
    /// the first bit means the first bit.
    fn bits(self, len: usize, start: i64, end: i64) -> Option<Range<u64>> {
        let width = match self {
            Self::Byte => 1,
            Self::Bit => 8,
        };
        let total = len as i64 * width;
        let from_front = |at: i64| if at < 0 { (total + at).max(0) } else { at };
        let (start, end) = (from_front(start), from_front(end).min(total - 1));
        if start > end {
            return None;
        }
        let scale = 8 / width as u64;
        Some(start as u64 * scale..(end as u64 + 1) * scale)
    }
}

pub(super) fn bitcount(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let part = match args.len() {
        2 => None,
        4 | 5 => {
            let (start, end) = (int(&args[2])?, int(&args[3])?);
            Some((start, end, Unit::parse(args.get(4))?))
        }
        _ => return Err(Error::Syntax),
    };
    let mut buffer = itoa::Buffer::new();
    let text = match cx.read_str(&args[1])? {
        Some(string) => string.text(&mut buffer),
        None => b"",
    };
    let counted = match part {
        None => ones(text),
        // Without this arm, both ends could be clamped to position 0, which would be counted.
        Some((start, end, _)) if start < 0 && end < 0 && start > end => 0,
        Some((start, end, unit)) => unit
            .bits(text.len(), start, end)
            .map_or(0, |bits| ones_in(text, bits)),
    };
    reply.int(counted as i64);
    Ok(())
}

/// Counts the set bits, a word at a time. O(length).
fn ones(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let of_words: u64 = words
        .iter()
        .map(|word| u64::from(u64::from_ne_bytes(*word).count_ones()))
        .sum();
    let of_rest: u32 = rest.iter().map(|byte| byte.count_ones()).sum();
    of_words + u64::from(of_rest)
}

/// Counts the set bits of a range, which must not be empty and must lie in `bytes`.
fn ones_in(bytes: &[u8], bits: Range<u64>) -> u64 {
    let (first, last) = ends(&bits);
    let before = bytes[first] & !head_mask(&bits);
    let after = bytes[last] & !tail_mask(&bits);
    ones(&bytes[first..=last]) - u64::from(before.count_ones()) - u64::from(after.count_ones())
}

/// Returns the first and the last byte of a range that is not empty.
fn ends(bits: &Range<u64>) -> (usize, usize) {
    ((bits.start >> 3) as usize, ((bits.end - 1) >> 3) as usize)
}

/// Returns the mask of the first byte of `bits`, as if the range continued to the byte's end.
fn head_mask(bits: &Range<u64>) -> u8 {
    0xff >> (bits.start & 7)
}

/// Returns the mask of the last byte of `bits`, as if the range began at or before the byte's
/// start.
fn tail_mask(bits: &Range<u64>) -> u8 {
    0xff << (7 - ((bits.end - 1) & 7))
}

pub(super) fn bitpos(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let bit = match int(&args[2])? {
        0 => false,
        1 => true,
        _ => return Err(BAD_BIT),
    };
    if args.len() > 6 {
        return Err(Error::Syntax);
    }
    let start = args.get(3).map_or(Ok(0), int)?;
    let unit = Unit::parse(args.get(5))?;
    let end = args.get(4).map(int).transpose()?;
    let Some(string) = cx.read_str(&args[1])? else {
        reply.int(if bit { -1 } else { 0 });
        return Ok(());
    };
    let mut buffer = itoa::Buffer::new();
    let text = string.text(&mut buffer);
    let bits = unit.bits(text.len(), start, end.unwrap_or(i64::MAX));
    let found = bits.and_then(|bits| match find(text, bits, bit) {
        // Without an end argument, the zeros after the string count.
        None if !bit && end.is_none() => Some(text.len() as u64 * 8),
        found => found,
    });
    reply.int(found.map_or(-1, |at| at as i64));
    Ok(())
}

/// Returns the first position in `bits` with the value `bit`. The range must not be empty and must
/// lie in `bytes`. O(length), a block at a time.
fn find(bytes: &[u8], bits: Range<u64>, bit: bool) -> Option<u64> {
    // Flips the bytes so that the search is always for a set bit.
    let flip = if bit { 0 } else { 0xff };
    let (first, last) = ends(&bits);
    let at = |index: usize, byte: u8| {
        (byte != 0).then(|| index as u64 * 8 + u64::from(byte.leading_zeros()))
    };
    let mut head = (bytes[first] ^ flip) & head_mask(&bits);
    if first == last {
        head &= tail_mask(&bits);
        return at(first, head);
    }
    at(first, head)
        .or_else(|| {
            let index = first + 1 + find_other(&bytes[first + 1..last], flip)?;
            at(index, bytes[index] ^ flip)
        })
        .or_else(|| at(last, (bytes[last] ^ flip) & tail_mask(&bits)))
}

/// Returns the index of the first byte that differs from `byte`.
fn find_other(bytes: &[u8], byte: u8) -> Option<usize> {
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    // No branch within a block, so the compiler vectorises the comparison.
    let same = blocks
        .iter()
        .take_while(|block| block.iter().fold(0, |other, b| other | (b ^ byte)) == 0)
        .count()
        * BLOCK;
    let other = bytes[same..].iter().position(|b| *b != byte)?;
    Some(same + other)
}
