//! A timer: a command that runs at the key's deadline.
//!
//! - The deadline is in the key's record, as for any key. A timer whose key has no deadline is
//!   paused. Lookups do not expire a timer: it stays until its loop fires it (`turn/timers.rs`).
//! - One boxed byte string holds everything else: the optional parts that the timer has, then the
//!   words of the command. So a timer that fires once is small. [`Plan`] is the unpacked form. DUMP
//!   and snapshots hold the same bytes, and [`Timer::from_bytes`] validates them.
//! - A repeating timer stores its *nominal* instant, the instant of the schedule. The deadline
//!   differs from it by jitter, or because a client moved the deadline. The next instant is
//!   computed from the nominal one, so the schedule does not drift.

pub mod cron;
pub mod schedule;

use punctual_rdb::{Element, Encoder, Own};
use punctual_resp::{OwnedArgs, Protocol};

pub use schedule::{CatchUp, Repeat, When};

use crate::unaligned::UnalignedBox;

use super::content::{Content, Facts, Unreadable};
use super::digest::Digest;
use super::varint::{Input, write_number, write_text};

/// Maximum length in bytes of the error that a timer keeps; longer errors are cut.
const ERROR_MAX: usize = 256;

/// A timer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timer(UnalignedBox<[u8]>);

/// The parts of a timer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The user that the command runs as; `None` for the default user.
    pub user: Option<Box<[u8]>>,
    /// Schedule of a timer that repeats.
    pub repeat: Option<Repeat>,
    /// Time in ms that was left until the deadline when the timer was paused; otherwise 0.
    pub remaining_ms: u64,
    /// Counters and outcome of the runs so far.
    pub past: Past,
    /// The command.
    pub words: OwnedArgs,
}

/// Counters of a timer's runs so far, and the outcome of the last run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// Number of runs, including failed runs.
    pub runs: u64,
    /// Number of runs that ended with an error.
    pub failures: u64,
    /// Delay in µs of the last run after its deadline.
    pub late_us: u64,
    /// Error of the last run; empty if the run succeeded.
    pub error: Box<[u8]>,
}

impl Past {
    /// Records a run and its outcome.
    pub fn record_run(&mut self, late_us: u64, error: Option<&[u8]>) {
        self.runs = self.runs.saturating_add(1);
        self.late_us = late_us;
        self.record_outcome(error);
    }

    /// Records the outcome of the last run; `None` for success.
    pub fn record_outcome(&mut self, error: Option<&[u8]>) {
        self.failures = self.failures.saturating_add(u64::from(error.is_some()));
        let error = error.unwrap_or_default();
        self.error = error[..error.len().min(ERROR_MAX)].into();
    }
}

/// Bits of the first byte: the optional parts that follow it.
mod part {
    pub(super) const USER: u8 = 1;
    pub(super) const REPEAT: u8 = 2;
    pub(super) const REMAINING: u8 = 4;
    pub(super) const PAST: u8 = 8;
    pub(super) const ALL: u8 = 15;
}

impl Timer {
    /// Packs a plan.
    pub fn new(plan: &Plan) -> Self {
        let words = plan.words.as_args();
        let mut out =
            Vec::with_capacity(16 + words.iter().map(|word| word.len() + 1).sum::<usize>());
        let has_past = plan.past != Past::default();
        out.push(
            flag(part::USER, plan.user.is_some())
                | flag(part::REPEAT, plan.repeat.is_some())
                | flag(part::REMAINING, plan.remaining_ms > 0)
                | flag(part::PAST, has_past),
        );
        if let Some(user) = &plan.user {
            write_text(&mut out, user);
        }
        if plan.remaining_ms > 0 {
            write_number(&mut out, plan.remaining_ms);
        }
        if has_past {
            for number in [plan.past.runs, plan.past.failures, plan.past.late_us] {
                write_number(&mut out, number);
            }
            write_text(&mut out, &plan.past.error);
        }
        if let Some(repeat) = &plan.repeat {
            repeat.write(&mut out);
        }
        for word in words {
            write_text(&mut out, word);
        }
        Self(out.into_boxed_slice().into())
    }

    /// Validates bytes from a snapshot or a payload. Returns `None` if they are not a timer.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let plan = read(bytes)?;
        if let Some(repeat) = &plan.repeat {
            repeat.check().ok()?;
        }
        let timer = Self::new(&plan);
        (*timer.0 == *bytes).then_some(timer)
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Unpacks the timer. O(bytes).
    pub fn plan(&self) -> Plan {
        read(&self.0).unwrap_or_default()
    }

    /// Returns whether the timer repeats.
    pub fn repeats(&self) -> bool {
        self.0
            .first()
            .is_some_and(|parts| parts & part::REPEAT != 0)
    }

    /// Reads a timer from a snapshot.
    pub(super) fn read<E>(text: Element<'_>) -> Result<Self, Unreadable<E>> {
        let timer = text.with_text(Self::from_bytes);
        timer.ok_or(Unreadable::Content("malformed timer"))
    }
}

impl Content for Timer {
    #[inline]
    fn facts(&self) -> Facts {
        Facts::new("timer", Facts::MODULE, Facts::ACTS)
    }

    fn encoding(&self) -> &'static str {
        "raw"
    }

    fn heap_bytes(&self) -> usize {
        self.0.len()
    }

    fn warm(&self) -> u8 {
        self.0.first().copied().unwrap_or(0)
    }

    fn write(&self, to: &mut Encoder, out: &mut Vec<u8>) {
        to.own_text(out, Own::Timer, &self.0);
    }

    fn digest(&self, to: &mut Digest) {
        to.chain(&self.0);
    }
}

const fn flag(bit: u8, set: bool) -> u8 {
    if set { bit } else { 0 }
}

fn read(bytes: &[u8]) -> Option<Plan> {
    let mut from = Input(bytes);
    let parts = from.byte()?;
    if parts & !part::ALL != 0 {
        return None;
    }
    let mut plan = Plan::default();
    if parts & part::USER != 0 {
        plan.user = Some(from.text()?.into());
    }
    if parts & part::REMAINING != 0 {
        plan.remaining_ms = from.number()?;
    }
    if parts & part::PAST != 0 {
        plan.past = Past {
            runs: from.number()?,
            failures: from.number()?,
            late_us: from.number()?,
            error: from.text()?.into(),
        };
    }
    if parts & part::REPEAT != 0 {
        plan.repeat = Some(Repeat::read(&mut from)?);
    }
    while !from.is_empty() {
        plan.words.push(from.text()?).ok()?;
    }
    (!plan.words.as_args().is_empty()).then_some(plan)
}

/// Returns the words of a command, encoded as a RESP command.
pub fn encoded(words: &OwnedArgs) -> Vec<u8> {
    let mut out = Vec::new();
    let mut reply = punctual_resp::Reply::new(&mut out, Protocol::Resp2);
    let words = words.as_args();
    reply.array(words.len());
    words.iter().for_each(|word| reply.bulk(word));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(words: &[&str]) -> Plan {
        Plan {
            words: words.iter().collect(),
            ..Plan::default()
        }
    }

    #[test]
    fn a_plan_comes_back_from_its_bytes() {
        let once = plan(&["SET", "k", "", "v"]);
        let mut all = plan(&["EVAL", "return 1", "0"]);
        all.user = Some(b"alice".as_slice().into());
        all.remaining_ms = 12_345;
        all.past.record_run(77, Some(b"ERR no"));
        all.repeat = Some(Repeat {
            when: When::Every {
                every_ms: 1_000,
                anchor_ms: 7,
            },
            nominal_ms: u64::MAX,
            start_ms: Some(5),
            end_ms: Some(9),
            limit: Some(3),
            jitter_ms: 4,
            catch_up: CatchUp::All,
        });
        let mut cron = all.clone();
        if let Some(repeat) = &mut cron.repeat {
            repeat.when = When::Cron {
                expression: "*/5 * * * *".into(),
                zone: "Europe/Berlin".into(),
            };
        }
        for plan in [once, all, cron] {
            let timer = Timer::new(&plan);
            assert_eq!(timer.plan(), plan);
            assert_eq!(Timer::from_bytes(timer.as_bytes()), Some(timer.clone()));
            for cut in 0..timer.as_bytes().len() {
                // A cut at the end of a word leaves a valid timer with fewer words.
                if let Some(shorter) = Timer::from_bytes(&timer.as_bytes()[..cut]) {
                    assert!(shorter.plan().words.as_args().len() < plan.words.as_args().len());
                }
            }
        }
    }

    #[test]
    fn a_timer_that_fires_once_is_small() {
        let words = ["SET", "session:1234567", "0123456789abcd"];
        assert_eq!(words.concat().len(), 32);
        assert_eq!(Timer::new(&plan(&words)).heap_bytes(), 1 + 3 + 32);
    }

    #[test]
    fn bytes_that_are_no_timer_are_refused() {
        for bytes in [
            &b""[..],
            b"\0",
            b"\x10\x01a",
            b"\0\x05a",
            b"\x02\x01a",
            b"\0\x81\0a",
        ] {
            assert_eq!(Timer::from_bytes(bytes), None, "{bytes:?}");
        }
    }
}
