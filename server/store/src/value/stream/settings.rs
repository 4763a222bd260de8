//! The parts that most streams lack, behind one pointer: settings, the timer for them, a mark for
//! timelines, and a snapshot's walk. A *timeline* is a group's pending entries in the order of
//! their last deliveries (`timeline.rs`).
//!
//! Settings are written as words, encoded as a RESP command: `MAXAGE ms`, `MAXLEN n`, for each
//! group with a lease `LEASE group ms max-deliveries dead-letter-stream` (0 and an empty name
//! without a dead-letter stream), and `IDMP duration maxsize added duplicates messages`. A snapshot
//! has them in the auxiliary field [`SETTINGS_FIELD`](crate::value::SETTINGS_FIELD) before the
//! stream, which redis-server ignores. DUMP's payload has them under a type that Redis lacks.

use punctual_resp::{Limits, Parser, encode_command};

use super::content::SnapshotWalk;
use super::{DeadLetter, Idempotence, Lease, Retention, Stream, Timeline, idempotence};
use crate::limits::Limits as Sizes;
use crate::time::NEVER;

/// The parts that most streams lack.
#[derive(Debug, Default)]
pub(super) struct Extras {
    /// The walk of a snapshot that has not reached the end.
    pub(super) walk: Option<SnapshotWalk>,
    pub(super) retention: Option<Retention>,
    pub(super) idempotence: Option<Box<Idempotence>>,
    /// Number of the stream's timer in its database.
    pub(super) timer: Option<u32>,
    /// A group has a timeline, or had one.
    pub(super) timelines: bool,
}

impl Extras {
    /// Returns the parts for a copy of the stream: settings, but no timer and no snapshot's walk.
    /// Returns `None` if there are no settings.
    pub(super) fn copy(&self) -> Option<Box<Self>> {
        (self.retention.is_some() || self.idempotence.is_some() || self.timelines).then(|| {
            Box::new(Self {
                retention: self.retention,
                idempotence: self.idempotence.clone(),
                timelines: self.timelines,
                ..Self::default()
            })
        })
    }
}

impl Stream {
    pub(super) fn extras_mut(&mut self) -> &mut Extras {
        self.extras.get_or_insert_default()
    }

    pub(super) fn drop_empty_extras(&mut self) {
        let needed = |extras: &Extras| {
            extras.walk.is_some()
                || extras.retention.is_some()
                || extras.idempotence.is_some()
                || extras.timer.is_some()
                || extras.timelines
        };
        if !self.extras.as_deref().is_some_and(needed) {
            self.extras = None;
        }
    }

    /// Returns the remembered messages. Returns `None` if no producer has sent one and XCFGSET was
    /// not used.
    pub fn idempotence(&self) -> Option<&Idempotence> {
        self.extras.as_ref()?.idempotence.as_deref()
    }

    /// Returns the remembered messages for changes. If they are absent, creates them with the
    /// settings from `limits`.
    pub fn idempotence_mut(&mut self, limits: &Sizes) -> &mut Idempotence {
        let extras = self.extras_mut();
        extras
            .idempotence
            .get_or_insert_with(|| Box::new(Idempotence::new(limits)))
    }

    /// Drops expired messages, at most [`idempotence::DROPPED_MAX`]. Returns their number.
    pub(crate) fn drop_messages(&mut self, now_ms: u64) -> usize {
        let extras = self.extras.as_mut();
        let kept = extras.and_then(|extras| extras.idempotence.as_mut());
        kept.map_or(0, |kept| {
            kept.drop_expired(now_ms, idempotence::DROPPED_MAX)
        })
    }

    pub(super) fn idempotence_bytes(&self) -> usize {
        self.idempotence()
            .map_or(0, |kept| size_of::<Idempotence>() + kept.heap_bytes())
    }

    /// Marks the stream as one with timelines. The caller must then give a group a timeline.
    pub(crate) fn expect_timelines(&mut self) {
        self.extras_mut().timelines = true;
    }

    /// Returns whether the stream may need a timer. O(1).
    #[inline]
    pub(crate) fn is_timed(&self) -> bool {
        self.extras.is_some()
    }

    /// Calls `act` with the name of each group that has a timeline, and the timeline.
    pub(crate) fn each_timeline(&mut self, act: &mut impl FnMut(&[u8], &mut Timeline)) {
        for (name, group) in &mut self.groups {
            if let Some(timeline) = group.timeline_mut() {
                act(name, timeline);
            }
        }
    }

    /// Returns the earliest Unix ms at which an entry becomes too old, a pending entry is due for a
    /// reader or for the dead-letter stream, or expired messages are to be dropped. O(groups · log
    /// pending).
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let extras = self.extras.as_ref()?;
        let leases = extras.timelines.then(|| {
            let timelines = self.groups.values().filter_map(|group| group.timeline());
            timelines
                .filter_map(|timeline| timeline.next_deadline())
                .min()
        });
        let first = self
            .next_too_old_ms()
            .into_iter()
            .chain(leases.flatten())
            .chain(self.idempotence().and_then(Idempotence::next_drop_ms))
            .min();
        first.filter(|at| *at != NEVER)
    }

    /// Returns the settings as words, if there are any.
    pub(super) fn written_settings(&self) -> Option<Vec<u8>> {
        self.extras.as_ref()?;
        let mut words: Vec<Vec<u8>> = Vec::new();
        if let Some(retention) = self.retention() {
            words.extend([b"MAXAGE".to_vec(), digits(retention.age_max_ms)]);
            if let Some(len) = retention.len_max {
                words.extend([b"MAXLEN".to_vec(), digits(len)]);
            }
        }
        for (name, group) in &self.groups {
            let Some(lease) = group.lease() else { continue };
            let dead = lease.dead_letter.as_ref();
            words.extend([
                b"LEASE".to_vec(),
                name.to_vec(),
                digits(lease.ms),
                digits(dead.map_or(0, |dead| dead.deliveries_max.into())),
                dead.map_or(Vec::new(), |dead| dead.key.to_vec()),
            ]);
        }
        words.extend(self.idempotence().into_iter().flat_map(Idempotence::words));
        (!words.is_empty()).then(|| {
            let mut text = Vec::new();
            encode_command(&mut text, &words);
            text
        })
    }

    /// Applies settings that [`Stream::written_settings`] returned. Returns `None` if they are
    /// malformed.
    pub(super) fn read_settings(&mut self, text: &[u8]) -> Option<()> {
        let mut parser = Parser::new();
        let words = parser.parse(text, &Limits::default()).ok()??.args;
        let number = |at: usize| {
            punctual_resp::decimal::parse_i64(words.get(at)?)?
                .try_into()
                .ok()
        };
        let mut retention: Option<Retention> = None;
        let mut at = 0;
        while let Some(word) = words.get(at) {
            match word {
                b"MAXAGE" => {
                    retention = Some(Retention {
                        age_max_ms: number(at + 1)?,
                        len_max: None,
                    });
                    at += 2;
                }
                b"MAXLEN" => {
                    retention.as_mut()?.len_max = Some(number(at + 1)?);
                    at += 2;
                }
                b"LEASE" => {
                    let deliveries_max = u32::try_from(number(at + 3)?).ok()?;
                    let key = words.get(at + 4)?.into();
                    let lease = Lease {
                        ms: number(at + 2)?,
                        dead_letter: (deliveries_max > 0).then_some(DeadLetter {
                            deliveries_max,
                            key,
                        }),
                    };
                    self.expect_timelines();
                    let group = self.groups.get_mut(words.get(at + 1)?)?;
                    group.set_lease(Some(lease));
                    at += 5;
                }
                b"IDMP" => {
                    let numbers = [1, 2, 3, 4].map(|n| number(at + n));
                    let [Some(a), Some(b), Some(c), Some(d)] = numbers else {
                        return None;
                    };
                    let kept = Idempotence::read([a, b, c, d], words.get(at + 5)?)?;
                    self.extras_mut().idempotence = Some(Box::new(kept));
                    at += 6;
                }
                _ => return None,
            }
        }
        self.set_retention(retention);
        Some(())
    }
}

fn digits(number: u64) -> Vec<u8> {
    itoa::Buffer::new().format(number).as_bytes().to_vec()
}
