//! LCS: the longest common subsequence of two strings, by the table of Wagner and Fischer (1974).
//!
//! The memory holds one row of lengths, and one bit per cell for the way back (from the end of the
//! table to its start, which finds the subsequence). The bits have a 32nd of the size of Redis's
//! table. The memory limit is the same as in Redis, so both servers refuse the same strings.

use punctual_resp::{Args, Reply};

use crate::arguments::{int, is};
use crate::error::Error;
use crate::turn::Cx;

const NOT_STRINGS: Error = Error::fixed("ERR The specified keys must contain string values");
const LEN_AND_IDX: Error =
    Error::fixed("ERR If you want both the length and indexes, please just use IDX.");
const TOO_LONG: Error = Error::fixed("ERR String too long for LCS");
const TOO_MUCH_MEMORY: Error =
    Error::fixed("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");

#[derive(Default)]
struct Options {
    len: bool,
    idx: bool,
    with_match_len: bool,
    min_match_len: u64,
}

impl Options {
    fn parse(args: Args) -> Result<Self, Error> {
        let mut options = Self::default();
        let mut at = 0;
        while let Some(arg) = args.get(at) {
            at += 1;
            if is(arg, "IDX") {
                options.idx = true;
            } else if is(arg, "LEN") {
                options.len = true;
            } else if is(arg, "WITHMATCHLEN") {
                options.with_match_len = true;
            } else if is(arg, "MINMATCHLEN") && at < args.len() {
                options.min_match_len = int(&args[at])?.max(0).unsigned_abs();
                at += 1;
            } else {
                return Err(Error::Syntax);
            }
        }
        if options.idx && options.len {
            return Err(LEN_AND_IDX);
        }
        Ok(options)
    }
}

pub(super) fn lcs(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let [a, b] = [&args[1], &args[2]].map(|key| cx.seek_to_read(key));
    let mut lens = [0u64; 2];
    for (len, (place, found)) in lens.iter_mut().zip([a, b]) {
        if let Some(id) = found {
            *len = cx.str_at(place, id).map_err(|_| NOT_STRINGS)?.len() as u64;
        }
    }
    let options = Options::parse(args.skip(3))?;
    if lens.iter().any(|&len| len >= u64::from(u32::MAX) - 1) {
        return Err(TOO_LONG);
    }
    // The size of Redis's table of 32-bit lengths. Both factors are below 2^32, so the product
    // cannot overflow.
    let cells = (lens[0] + 1) * (lens[1] + 1);
    if cells > cx.store().string_max() / size_of::<u32>() as u64 {
        return Err(TOO_MUCH_MEMORY);
    }
    let mut text = |(place, found)| match found {
        Some(id) => cx
            .str_at(place, id)
            .map(|string| string.bytes().into_owned()),
        None => Ok(Vec::new()),
    };
    let (a, b) = (text(a)?, text(b)?);
    if options.len {
        reply.int(i64::from(Table::new(&a, &b, false).len()));
        return Ok(());
    }
    let table = Table::new(&a, &b, true);
    if options.idx {
        reply_matches(reply, &table, &options);
    } else {
        reply.bulk(&table.subsequence());
    }
    Ok(())
}

fn reply_matches(reply: &mut Reply, table: &Table<'_>, options: &Options) {
    let mut matches = table.matches();
    matches.retain(|m| u64::from(m.len) >= options.min_match_len);
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(matches.len());
    for m in matches {
        reply.array(2 + usize::from(options.with_match_len));
        for start in [m.a, m.b] {
            reply.array(2);
            reply.int(i64::from(start));
            reply.int(i64::from(start + m.len - 1));
        }
        if options.with_match_len {
            reply.int(i64::from(m.len));
        }
    }
    reply.bulk(b"len");
    reply.int(i64::from(table.len()));
}

/// A run of bytes that both strings share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Match {
    /// Start in the first string.
    a: u32,
    /// Start in the second string.
    b: u32,
    len: u32,
}

/// Length of the longest common subsequence, and the way back through the table.
struct Table<'t> {
    a: &'t [u8],
    b: &'t [u8],
    len: u32,
    /// Bit `i * b.len() + j`: the common subsequence of `a[..=i]` and `b[..=j]` is longer without
    /// `a[i]` than without `b[j]`. Valid only where the two bytes differ. Empty if the way back is
    /// not needed.
    shorten_a: Vec<u64>,
}

impl<'t> Table<'t> {
    /// O(N·M).
    fn new(a: &'t [u8], b: &'t [u8], way_back: bool) -> Self {
        let bits = if way_back { a.len() * b.len() } else { 0 };
        let mut shorten_a = vec![0u64; bits.div_ceil(64)];
        // row[j] is the length for a[..i] and b[..j]; entries after j still belong to the previous
        // row.
        let mut row = vec![0u32; b.len() + 1];
        for (i, &x) in a.iter().enumerate() {
            let mut diagonal = 0;
            for (j, &y) in b.iter().enumerate() {
                let (without_a, without_b) = (row[j + 1], row[j]);
                row[j + 1] = if x == y {
                    diagonal + 1
                } else {
                    if way_back && without_a > without_b {
                        let bit = i * b.len() + j;
                        shorten_a[bit / 64] |= 1 << (bit % 64);
                    }
                    without_a.max(without_b)
                };
                diagonal = without_a;
            }
        }
        Self {
            a,
            b,
            len: row[b.len()],
            shorten_a,
        }
    }

    /// Returns the length of the longest common subsequence.
    fn len(&self) -> u32 {
        self.len
    }

    /// Visits each pair of common bytes, the last pair first.
    fn walk(&self, mut visit: impl FnMut(usize, usize)) {
        let (mut i, mut j) = (self.a.len(), self.b.len());
        while i > 0 && j > 0 {
            let bit = (i - 1) * self.b.len() + (j - 1);
            if self.a[i - 1] == self.b[j - 1] {
                (i, j) = (i - 1, j - 1);
                visit(i, j);
            } else if self.shorten_a[bit / 64] >> (bit % 64) & 1 == 1 {
                i -= 1;
            } else {
                j -= 1;
            }
        }
    }

    fn subsequence(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len as usize);
        self.walk(|i, _| bytes.push(self.a[i]));
        bytes.reverse();
        bytes
    }

    /// Returns the runs of the subsequence, the last one first.
    fn matches(&self) -> Vec<Match> {
        let mut matches: Vec<Match> = Vec::new();
        self.walk(|i, j| {
            let (a, b) = (i as u32, j as u32);
            match matches.last_mut() {
                Some(last) if last.a == a + 1 && last.b == b + 1 => {
                    *last = Match {
                        a,
                        b,
                        len: last.len + 1,
                    };
                }
                _ => matches.push(Match { a, b, len: 1 }),
            }
        });
        matches
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the length of the longest common subsequence by its recursive definition.
    fn longest(a: &[u8], b: &[u8]) -> u32 {
        match (a.split_last(), b.split_last()) {
            (Some((x, a)), Some((y, b))) if x == y => longest(a, b) + 1,
            (Some((_, shorter_a)), Some((_, shorter_b))) => {
                longest(shorter_a, b).max(longest(a, shorter_b))
            }
            _ => 0,
        }
    }

    proptest! {
        #[test]
        fn the_subsequence_is_common_and_longest(a in "[abc]{0,9}", b in "[abc]{0,9}") {
            let (a, b) = (a.as_bytes(), b.as_bytes());
            let table = Table::new(a, b, true);
            prop_assert_eq!(table.len(), longest(a, b));
            prop_assert_eq!(Table::new(a, b, false).len(), table.len());
            let common = table.subsequence();
            prop_assert_eq!(common.len() as u32, table.len());
            let mut again = Vec::new();
            for m in table.matches().iter().rev() {
                let [at_a, at_b] = [(a, m.a), (b, m.b)]
                    .map(|(text, start)| &text[start as usize..(start + m.len) as usize]);
                prop_assert_eq!(at_a, at_b);
                again.extend_from_slice(at_a);
            }
            prop_assert_eq!(again, common);
        }
    }
}
