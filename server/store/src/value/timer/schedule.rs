//! Schedules of repeating timers: a fixed period, or a cron expression.
//!
//! Each function gets the current time from its caller, and time zones are compiled in. So this
//! module reads no clock and no file.

use super::cron::{Cron, Zone};
use super::{Input, write_number, write_text};

/// Treatment of missed runs: runs whose instants passed while the server could not run them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CatchUp {
    /// Runs that are more than [`GRACE_MS`] late are left out.
    Skip,
    /// One run replaces all missed runs.
    #[default]
    Once,
    /// All missed runs are made, one after the other.
    All,
}

/// Maximum delay in ms of a run that [`CatchUp::Skip`] does not leave out.
pub const GRACE_MS: u64 = 1_000;

impl CatchUp {
    const NAMES: [(Self, &'static str); 3] = [
        (Self::Skip, "skip"),
        (Self::Once, "once"),
        (Self::All, "all"),
    ];

    /// Returns the rule with this name; the case does not matter.
    pub fn parse(name: &[u8]) -> Option<Self> {
        let mut all = Self::NAMES.iter();
        let found = all.find(|(_, known)| known.as_bytes().eq_ignore_ascii_case(name));
        found.map(|(rule, _)| *rule)
    }

    /// Returns the rule's name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }
}

/// The instants of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// `anchor_ms` plus or minus each multiple of the period.
    Every {
        /// The period in ms, at least 1.
        every_ms: u64,
        /// Unix ms of one instant of the schedule.
        anchor_ms: u64,
    },
    /// The instants that a cron expression matches.
    Cron {
        /// The expression.
        expression: Box<str>,
        /// Name of the time zone.
        zone: Box<str>,
    },
}

/// The schedule of a timer that repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// The instants, without the bounds `start_ms` and `end_ms`.
    pub when: When,
    /// Unix ms of the next run by the schedule, without jitter.
    pub nominal_ms: u64,
    /// Unix ms before which there are no runs.
    pub start_ms: Option<u64>,
    /// Unix ms after which there are no runs.
    pub end_ms: Option<u64>,
    /// Maximum number of runs.
    pub limit: Option<u64>,
    /// Maximum random delay of a run after its instant, in ms.
    pub jitter_ms: u64,
    /// Treatment of missed runs.
    pub catch_up: CatchUp,
}

/// The result of [`Repeat::decide`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the command runs.
    pub runs: bool,
    /// Unix ms of the next instant of the schedule; `None` if the timer ends.
    pub next_ms: Option<u64>,
}

/// The parsed form of [`When`].
enum Instants {
    Every(u64, u64),
    Cron(Box<Cron>, Zone),
}

impl Instants {
    /// Returns the first instant after `after_ms`.
    fn next(&self, after_ms: u64) -> Option<u64> {
        match self {
            Self::Every(every_ms, anchor_ms) => {
                let phase = anchor_ms % every_ms;
                let Some(since) = after_ms.checked_sub(phase) else {
                    return Some(phase);
                };
                (since / every_ms)
                    .checked_add(1)?
                    .checked_mul(*every_ms)?
                    .checked_add(phase)
            }
            Self::Cron(cron, zone) => cron.next(zone, after_ms),
        }
    }
}

/// Maximum Unix ms of a schedule: a day before the end of the year 9999, the last year that the
/// calendar (jiff) supports.
const LAST_MS: u64 = 253_402_300_799_999 - 86_400_000;

impl Repeat {
    /// Checks the schedule.
    ///
    /// # Errors
    /// If the period is 0, or the expression or the zone is invalid; see [`Cron::parse`] and
    /// [`Zone::find`].
    pub fn check(&self) -> Result<(), String> {
        self.instants().map(|_| ())
    }

    fn instants(&self) -> Result<Instants, String> {
        Ok(match &self.when {
            When::Every { every_ms: 0, .. } => return Err("a period of 0".to_owned()),
            When::Every {
                every_ms,
                anchor_ms,
            } => Instants::Every(*every_ms, *anchor_ms),
            When::Cron { expression, zone } => {
                Instants::Cron(Box::new(Cron::parse(expression)?), Zone::find(zone)?)
            }
        })
    }

    /// Returns the first instant after `after_ms` within `start_ms` and `end_ms`.
    pub fn next_after(&self, after_ms: u64) -> Option<u64> {
        self.next_of(&self.instants().ok()?, after_ms)
    }

    fn next_of(&self, instants: &Instants, after_ms: u64) -> Option<u64> {
        let after_ms = match self.start_ms {
            Some(start) => after_ms.max(start.saturating_sub(1)),
            None => after_ms,
        };
        let next = instants.next(after_ms)?;
        (next <= self.end_ms.unwrap_or(u64::MAX).min(LAST_MS)).then_some(next)
    }

    /// Returns the first `count` instants after `after_ms` within `start_ms` and `end_ms`.
    pub fn following(&self, after_ms: u64, count: usize) -> Vec<u64> {
        let Ok(instants) = self.instants() else {
            return Vec::new();
        };
        let mut last = after_ms;
        std::iter::from_fn(|| {
            last = self.next_of(&instants, last)?;
            Some(last)
        })
        .take(count)
        .collect()
    }

    /// Decides at `now_ms` whether a timer whose deadline has passed runs, and when it is next due.
    /// `runs` is the number of earlier runs.
    pub fn decide(&self, now_ms: u64, deadline_ms: u64, runs: u64) -> Decision {
        // If a client moved the run to a later time, the run replaces the instants up to that time.
        let moved = deadline_ms > self.nominal_ms.saturating_add(self.jitter_ms);
        let passed = if moved { deadline_ms } else { self.nominal_ms };
        let (runs_now, from) = match self.catch_up {
            CatchUp::All => (true, passed),
            CatchUp::Once => (true, passed.max(now_ms)),
            CatchUp::Skip => {
                let late = now_ms.saturating_sub(deadline_ms);
                (late <= GRACE_MS, passed.max(now_ms))
            }
        };
        let left = self
            .limit
            .is_none_or(|limit| runs.saturating_add(u64::from(runs_now)) < limit);
        Decision {
            runs: runs_now,
            next_ms: left.then(|| self.next_after(from)).flatten(),
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match &self.when {
            When::Every {
                every_ms,
                anchor_ms,
            } => {
                out.push(0);
                write_number(out, *every_ms);
                write_number(out, *anchor_ms);
            }
            When::Cron { expression, zone } => {
                out.push(1);
                write_text(out, expression.as_bytes());
                write_text(out, zone.as_bytes());
            }
        }
        write_number(out, self.nominal_ms);
        for optional in [self.start_ms, self.end_ms, self.limit] {
            match optional {
                None => out.push(0),
                Some(number) => {
                    out.push(1);
                    write_number(out, number);
                }
            }
        }
        write_number(out, self.jitter_ms);
        out.push(self.catch_up as u8);
    }

    pub(super) fn read(from: &mut Input<'_>) -> Option<Self> {
        let when = match from.byte()? {
            0 => When::Every {
                every_ms: from.number()?,
                anchor_ms: from.number()?,
            },
            1 => When::Cron {
                expression: std::str::from_utf8(from.text()?).ok()?.into(),
                zone: std::str::from_utf8(from.text()?).ok()?.into(),
            },
            _ => return None,
        };
        let nominal_ms = from.number()?;
        let mut optional = || match from.byte()? {
            0 => Some(None),
            1 => Some(Some(from.number()?)),
            _ => None,
        };
        let (start_ms, end_ms, limit) = (optional()?, optional()?, optional()?);
        let jitter_ms = from.number()?;
        let rule = usize::from(from.byte()?);
        Some(Self {
            when,
            nominal_ms,
            start_ms,
            end_ms,
            limit,
            jitter_ms,
            catch_up: CatchUp::NAMES.get(rule)?.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every(every_ms: u64, anchor_ms: u64) -> Repeat {
        Repeat {
            when: When::Every {
                every_ms,
                anchor_ms,
            },
            nominal_ms: 0,
            start_ms: None,
            end_ms: None,
            limit: None,
            jitter_ms: 0,
            catch_up: CatchUp::Once,
        }
    }

    #[test]
    fn a_period_has_its_phase() {
        let schedule = every(1_000, 1_234_250);
        assert_eq!(schedule.following(5_000, 3), [5_250, 6_250, 7_250]);
        assert_eq!(schedule.next_after(5_250), Some(6_250));
        assert_eq!(schedule.next_after(0), Some(250));
        let bounded = Repeat {
            start_ms: Some(7_250),
            end_ms: Some(8_250),
            ..schedule
        };
        assert_eq!(bounded.following(0, 9), [7_250, 8_250]);
        assert_eq!(every(u64::MAX, 3).next_after(5), None);
    }

    #[test]
    fn missed_runs_follow_the_catch_up_rule() {
        let decide = |catch_up, now| {
            let schedule = Repeat {
                nominal_ms: 10_000,
                catch_up,
                ..every(1_000, 0)
            };
            let decision = schedule.decide(now, 10_000, 0);
            (decision.runs, decision.next_ms.unwrap_or(0))
        };
        assert_eq!(decide(CatchUp::Skip, 10_003), (true, 11_000));
        assert_eq!(decide(CatchUp::Skip, 11_000), (true, 12_000));
        assert_eq!(decide(CatchUp::Skip, 15_500), (false, 16_000));
        assert_eq!(decide(CatchUp::Once, 15_500), (true, 16_000));
        assert_eq!(decide(CatchUp::All, 15_500), (true, 11_000));
    }

    #[test]
    fn a_moved_run_replaces_the_instants_that_it_passes() {
        let schedule = Repeat {
            nominal_ms: 10_000,
            catch_up: CatchUp::All,
            ..every(1_000, 0)
        };
        assert_eq!(schedule.decide(13_500, 13_500, 0).next_ms, Some(14_000));
        // A run that was moved to an earlier time replaces the run at its nominal instant.
        assert_eq!(schedule.decide(9_500, 9_500, 0).next_ms, Some(11_000));
    }

    #[test]
    fn a_limit_counts_the_runs() {
        let schedule = Repeat {
            limit: Some(2),
            ..every(1_000, 0)
        };
        assert_eq!(schedule.decide(0, 0, 0).next_ms, Some(1_000));
        assert_eq!(schedule.decide(0, 0, 1).next_ms, None);
    }
}
