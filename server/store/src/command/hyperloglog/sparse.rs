//! Sparse registers: runs of registers with equal values. A run is one byte or two:
//!
//! | bits | run |
//! |---|---|
//! | `00llllll` | l + 1 empty registers |
//! | `01llllll llllllll` | l + 1 empty registers |
//! | `1vvvvvll` | l + 1 registers that hold v + 1 |
//!
//! A change results in the same bytes as in Redis: it splits the run that covers the register, then
//! joins adjacent runs with the same value up to the maximum length of a run. Runs of empty
//! registers are never joined, since registers never become empty again.

use smallvec::SmallVec;

use super::estimate::Histogram;
use super::{CORRUPT, REGISTERS};
use crate::error::Error;

/// Largest value that a run may hold.
const VALUE_MAX: u8 = 32;
/// Maximum number of registers in a run with a value.
const VALUES_MAX: usize = 4;
/// Maximum number of empty registers in a run of one byte.
const SHORT_MAX: usize = 64;
/// Maximum number of runs that a change examines, to join each with the next run. The first is the
/// run before the changed one.
const JOIN_SCAN: usize = 5;

/// Runs of an empty sketch.
pub(super) const EMPTY: [u8; 2] = [0x7f, 0xff];

/// A run of registers with the same value; 0 means empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) value: u8,
    pub(super) len: usize,
    /// Size of the run in bytes.
    pub(super) bytes: usize,
}

impl Run {
    /// Decodes the run at the start of `bytes`; `None` if the run is incomplete.
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

    /// Encodes a run of `len` registers (1 to 4) with `value` (1 to 32).
    fn of_values(value: u8, len: usize) -> u8 {
        0x80 | (value - 1) << 2 | (len - 1) as u8
    }
}

/// Encoded runs.
#[derive(Default)]
struct Runs(SmallVec<[u8; 5]>);

impl Runs {
    /// Adds `len` registers with `value`; `len` may be 0.
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

/// Iterator over the runs, each with its first register. Ends at the first invalid run.
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
/// If the runs do not cover exactly all registers; `visit` may have been called before.
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

/// Counts the registers with each value. O(length).
///
/// # Errors
/// The errors of [`each`].
pub(super) fn histogram(bytes: &[u8]) -> Result<Histogram, Error> {
    let mut tally = [0; 64];
    each(bytes, |_, run| {
        tally[usize::from(run.value)] += run.len as u32;
    })?;
    Ok(tally)
}

/// Raises each register of `all` to at least the register in `bytes`. O(length).
///
/// # Errors
/// The errors of [`each`].
pub(super) fn raise_all(bytes: &[u8], all: &mut [u8; REGISTERS]) -> Result<(), Error> {
    each(bytes, |first, run| {
        if run.value > 0 {
            for register in &mut all[first..first + run.len] {
                *register = run.value.max(*register);
            }
        }
    })
}

/// Formats the runs as PFDEBUG DECODE does, up to the first invalid run.
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

/// Result of [`raise`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Raised {
    /// The register already held the value or a greater one.
    Same,
    Changed,
    /// Runs cannot hold the value, or would exceed the maximum size: the sketch must become dense
    /// first.
    NoRoom,
}

/// The start of a run, at which a search can begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    /// Position in the string.
    at: usize,
    /// First register of the run.
    register: usize,
}

impl Cursor {
    /// Returns the start of the first run, which is at position `at` of the string.
    pub(super) fn first(at: usize) -> Self {
        Self { at, register: 0 }
    }
}

/// Raises register `index` to at least `value`, unless the string would grow beyond `bytes_max`.
/// The search starts at `from`. Moves `from` to a run at which the search for a greater index may
/// start; it is valid until the next change. O(length after `from`).
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
    // The change may join this run and the run before it into a run that contains the next index.
    // The next search therefore starts at the run before both.
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

/// Joins adjacent runs with the same value, in [`JOIN_SCAN`] steps from position `at` on.
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
