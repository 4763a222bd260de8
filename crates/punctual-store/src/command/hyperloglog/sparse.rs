//! Registers as runs of equal ones. A run is one byte or two:
//!
//! | bits | run |
//! |---|---|
//! | `00llllll` | l + 1 empty registers |
//! | `01llllll llllllll` | l + 1 empty registers |
//! | `1vvvvvll` | l + 1 registers that hold v + 1 |
//!
//! What a change makes of the runs is Redis's, byte for byte: the run that covers the register is split, then runs
//! near it that hold the same value are joined as far as one run can be long. Runs of empty registers are never
//! joined: a register never becomes empty again.

use smallvec::SmallVec;

use super::estimate::Histogram;
use super::{CORRUPT, REGISTERS};
use crate::error::Error;

/// Largest value that a run may hold.
const VALUE_MAX: u8 = 32;
/// Most registers in a run that holds a value.
const VALUES_MAX: usize = 4;
/// Most empty registers in a run of one byte.
const SHORT_MAX: usize = 64;
/// How many runs from the one before the change on are looked at for neighbours to be joined.
const JOIN_SCAN: usize = 5;

/// The runs of a sketch without elements.
pub(super) const EMPTY: [u8; 2] = [0x7f, 0xff];

/// Some registers that hold the same; 0: they are empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) value: u8,
    pub(super) len: usize,
    /// Bytes of the run itself.
    pub(super) bytes: usize,
}

impl Run {
    /// The run at the beginning of `bytes`; `None` if they end before it does.
    fn first(bytes: &[u8]) -> Option<Self> {
        let byte = *bytes.first()?;
        let low = usize::from(byte & 0x3f);
        Some(match byte >> 6 {
            0 => Self {
                value: 0,
                len: low + 1,
                bytes: 1,
            },
            1 => Self {
                value: 0,
                len: (low << 8 | usize::from(*bytes.get(1)?)) + 1,
                bytes: 2,
            },
            _ => Self {
                value: (byte >> 2 & 0x1f) + 1,
                len: (low & 3) + 1,
                bytes: 1,
            },
        })
    }

    /// The byte of a run of `len` registers (1 to 4) that hold `value` (1 to 32).
    fn of_values(value: u8, len: usize) -> u8 {
        0x80 | (value - 1) << 2 | (len - 1) as u8
    }
}

/// Writes runs.
#[derive(Default)]
struct Runs(SmallVec<[u8; 5]>);

impl Runs {
    /// Adds `len` registers, perhaps none, that hold `value`.
    fn push(&mut self, value: u8, len: usize) {
        match (value, len) {
            (_, 0) => {}
            (0, 1..=SHORT_MAX) => self.0.push((len - 1) as u8),
            (0, _) => {
                let less = len - 1;
                self.0.extend([0x40 | (less >> 8) as u8, less as u8]);
            }
            (value, len) => self.0.push(Run::of_values(value, len)),
        }
    }
}

/// All runs, with the register each begins at, up to the first that does not make sense.
struct Walk<'a> {
    bytes: &'a [u8],
    register: usize,
}

impl Iterator for Walk<'_> {
    type Item = (usize, Run);

    fn next(&mut self) -> Option<(usize, Run)> {
        let run = Run::first(self.bytes)?;
        let first = self.register;
        if first + run.len > REGISTERS {
            return None;
        }
        self.register += run.len;
        self.bytes = &self.bytes[run.bytes..];
        Some((first, run))
    }
}

/// Calls `visit` with each run and its first register. O(length).
///
/// # Errors
/// If the runs are not those of just as many registers as there are; some may have been visited then.
pub(super) fn each(bytes: &[u8], mut visit: impl FnMut(usize, Run)) -> Result<(), Error> {
    let mut walk = Walk { bytes, register: 0 };
    for (first, run) in walk.by_ref() {
        visit(first, run);
    }
    if walk.register == REGISTERS && walk.bytes.is_empty() {
        Ok(())
    } else {
        Err(CORRUPT)
    }
}

/// How often each value occurs. O(length).
///
/// # Errors
/// As [`each`].
pub(super) fn histogram(bytes: &[u8]) -> Result<Histogram, Error> {
    let mut tally = [0; 64];
    each(bytes, |_, run| {
        tally[usize::from(run.value)] += run.len as u32;
    })?;
    Ok(tally)
}

/// Makes each of `all` at least what the register here is. O(length).
///
/// # Errors
/// As [`each`].
pub(super) fn raise_all(bytes: &[u8], all: &mut [u8; REGISTERS]) -> Result<(), Error> {
    each(bytes, |first, run| {
        if run.value > 0 {
            for there in &mut all[first..first + run.len] {
                *there = run.value.max(*there);
            }
        }
    })
}

/// The runs as PFDEBUG DECODE shows them, as far as they make sense.
pub(super) fn text(bytes: &[u8]) -> String {
    let walk = Walk { bytes, register: 0 };
    let words: Vec<String> = walk
        .map(|(_, run)| match run {
            Run {
                value: 0, bytes: 1, ..
            } => format!("z:{}", run.len),
            Run { value: 0, .. } => format!("Z:{}", run.len),
            _ => format!("v:{},{}", run.value, run.len),
        })
        .collect();
    words.join(" ")
}

/// What came of [`raise`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Raised {
    /// The register holds as much already.
    Same,
    /// It holds more now.
    Changed,
    /// Runs cannot hold the value, or would become too long: the sketch must become dense first.
    NoRoom,
}

/// The beginning of a run: where a search may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    /// Its place in the string.
    at: usize,
    /// Its first register.
    register: usize,
}

impl Cursor {
    /// The first run, which begins at `at` in the string.
    pub(super) fn first(at: usize) -> Self {
        Self { at, register: 0 }
    }
}

/// Makes register `index` at least `value`; the string must not pass `bytes_max` if it grows. Searches from `from` on,
/// and leaves there from where a larger index can be searched for, as long as nothing else changes. O(length), from
/// `from` on.
///
/// # Errors
/// If the runs end before the register.
pub(super) fn raise(
    string: &mut Vec<u8>,
    from: &mut Cursor,
    index: usize,
    value: u8,
    bytes_max: usize,
) -> Result<Raised, Error> {
    if value > VALUE_MAX {
        return Ok(Raised::NoRoom);
    }
    let (mut earlier, mut before, mut here) = (*from, *from, *from);
    let run = loop {
        let run = string.get(here.at..).and_then(Run::first).ok_or(CORRUPT)?;
        let end = here.register + run.len;
        if end > REGISTERS {
            return Err(CORRUPT);
        }
        if index < end {
            break run;
        }
        (earlier, before) = (before, here);
        here = Cursor {
            at: here.at + run.bytes,
            register: end,
        };
    };
    // The run before may become one with this one, and the next index may lie in it: then the one before that will be
    // asked for.
    *from = earlier;
    if run.value >= value {
        return Ok(Raised::Same);
    }
    let mut split = Runs::default();
    split.push(run.value, index - here.register);
    split.push(value, 1);
    split.push(run.value, here.register + run.len - index - 1);
    let split = split.0;
    if split.len() > run.bytes && string.len() + split.len() - run.bytes > bytes_max {
        return Ok(Raised::NoRoom);
    }
    string.splice(here.at..here.at + run.bytes, split);
    join(string, before.at);
    Ok(Raised::Changed)
}

/// Joins runs that hold the same value, among the next few from `at` on.
fn join(string: &mut Vec<u8>, mut at: usize) {
    for _ in 0..JOIN_SCAN {
        let Some(run) = string.get(at..).and_then(Run::first) else {
            return;
        };
        match Run::first(&string[at + run.bytes..]) {
            Some(next)
                if run.value > 0 && next.value == run.value && run.len + next.len <= VALUES_MAX =>
            {
                string[at] = Run::of_values(run.value, run.len + next.len);
                string.remove(at + 1);
            }
            _ => at += run.bytes,
        }
    }
}
