//! Firing of timers. A timer is a value that holds a command; the deadline of its key is the time
//! at which the command runs.
//!
//! Ground rules: expiry ([`Turn::expire`], [`Turn::advance`]) returns due timers to its caller, the
//! server, which runs their commands. A due timer stays in the wheel until it fires, so it is not
//! lost if the caller does not fire it. To fire a timer, the caller pins the shards of the timer
//! and of its command and calls [`Turn::begin_firing`], which checks that the timer has not changed
//! and removes it or arms it again. The caller then runs the command and calls
//! [`Turn::end_firing`], which records the outcome. All of this is one frame of the log: after a
//! crash the timer has fired with all its effects, or not at all.
//!
//! A timer that is set by the command of another timer is due in the next millisecond at the
//! earliest. Otherwise two timers that set each other could stop a virtual clock forever.

use punctual_resp::OwnedArgs;
use rand::RngExt as _;

use super::Turn;
use crate::events::Classes;
use crate::keyspace::records::Id;
use crate::keyspace::shard::Touched;
use crate::planted::Bug;
use crate::value::content::Facts;
use crate::value::timer::{Plan, Timer};
use crate::value::{Kind, Value};

/// The latest deadline of a timer in Unix ms: the commands in the log hold it as a signed 64-bit
/// number.
const LAST_MS: u64 = i64::MAX as u64;

/// A timer that is due.
#[derive(Clone, Debug)]
pub struct DueTimer {
    /// Its database.
    pub db: usize,
    /// Its key.
    pub key: Box<[u8]>,
    timer: Timer,
    deadline_ms: u64,
}

impl DueTimer {
    /// Returns the command. O(bytes).
    pub fn words(&self) -> OwnedArgs {
        self.timer.plan().words
    }

    /// Returns the name of the user that the command runs as; `None` for the default user.
    pub fn user(&self) -> Option<Box<[u8]>> {
        self.timer.plan().user
    }
}

/// A timer that has begun to fire.
#[derive(Debug)]
#[must_use = "its frame is open until `end_firing`"]
pub struct Firing {
    db: usize,
    key: Box<[u8]>,
    /// Whether the command runs. If not, this run of the timer is skipped because it is too late.
    pub runs: bool,
    /// Whether the timer still exists: it was armed again, or TIMER RUN has kept its deadline.
    stays: bool,
}

/// The reason for which a timer fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Deadline,
    /// TIMER RUN: the schedule stays as it is.
    Command,
}

impl Turn<'_> {
    /// Returns whether expiry has found timers that are due.
    #[inline]
    pub fn has_due_timers(&self) -> bool {
        !self.due_timers.is_empty()
    }

    /// Takes the timers that expiry has found, in the order of their deadlines.
    pub fn take_due_timers(&mut self) -> Vec<DueTimer> {
        std::mem::take(&mut self.due_timers)
    }

    /// Returns the number of timers that are due. Locks every shard. O(shards · databases · log
    /// timers).
    pub fn count_due_timers(&mut self) -> usize {
        self.lock_all();
        let end = self.now.read_ms() + 1;
        let dbs = self.held_shards().flat_map(|(_, shard)| &shard.dbs);
        dbs.map(|db| db.timers_before(end)).sum()
    }

    /// Adds a due timer to the timers that the caller must fire. If its slot moves, the timer waits
    /// until [`Turn::resume_timers`].
    pub(super) fn timer_is_due(&mut self, number: usize, db: usize, id: Id) {
        let store = self.store;
        let part = self.shard_db(number, db);
        if store.moves(part.get(id).key.as_bytes()) {
            store.note_waiting_timer();
            part.hold_timer(id);
            return;
        }
        let record = part.get(id);
        if let Value::Timer(timer) = &record.value {
            let due = DueTimer {
                db,
                key: record.key.as_bytes().into(),
                timer: timer.clone(),
                deadline_ms: record.deadline,
            };
            self.due_timers.push(due);
        }
    }

    /// Lets the waiting timers of a shard fire, in the order of their deadlines, if their slots no
    /// longer move. Locks the shard. O(due timers).
    pub fn resume_timers(&mut self, number: usize) {
        self.lock_one(number);
        self.deadlines_may_change(Touched::One(0));
        let (store, now) = (self.store, self.now);
        let part = self.shard_db(number, 0);
        for id in part.held_timers(now) {
            if !store.moves(part.get(id).key.as_bytes()) {
                part.refile_timer(id);
            }
        }
    }

    /// Returns whether a due timer must wait, because its slot moves. The shard must be held.
    pub fn waits_for_slot(&self, due: &DueTimer) -> bool {
        self.store.moves(&due.key)
    }

    /// Returns a timer to run it now, independent of its deadline. Returns `None` if the key does
    /// not exist. Locks the timer's shard.
    pub fn timer_to_run(
        &mut self,
        db: usize,
        key: &[u8],
    ) -> Option<Result<DueTimer, crate::Error>> {
        let number = self.store.shard_of(key);
        self.lock_one(number);
        let now = self.now;
        let part = self.shard_db(number, db);
        let record = part.get(part.find(key)?);
        Some(match &record.value {
            Value::Timer(timer) => Ok(DueTimer {
                db,
                key: key.into(),
                timer: timer.clone(),
                deadline_ms: record.deadline,
            }),
            _ if record.has_expired(now) => return None,
            _ => Err(crate::Error::WrongType),
        })
    }

    /// Returns whether a key is a timer, a queue of jobs, or in cluster mode a stream of NOTIFY.
    /// While MIGRATE moves such a key, its shard must stay locked, because the key would otherwise
    /// act on both servers, or get entries that the target must tell from its own. Locks the key's
    /// shard.
    pub fn acts_by_itself(&mut self, db: usize, key: &[u8]) -> bool {
        let number = self.store.shard_of(key);
        self.lock_one(number);
        let store = self.store;
        let part = self.shard_db(number, db);
        part.find(key).is_some_and(|id| {
            part.get(id).value.facts().has(Facts::ACTS)
                || store.is_cluster() && store.is_rule_stream(key)
        })
    }

    /// Returns whether a key exists and is not due. Locks the key's shard. O(1).
    pub fn has_key(&mut self, db: usize, key: &[u8]) -> bool {
        let number = self.store.shard_of(key);
        self.lock_one(number);
        let now = self.now;
        let part = self.shard_db(number, db);
        part.find(key)
            .is_some_and(|id| !part.get(id).has_expired(now))
    }

    /// Finds a timer that was due, if it has not changed since. Its shard must be held.
    fn find_due(&mut self, due: &DueTimer) -> Option<(usize, Id)> {
        let number = self.store.shard_of(&due.key);
        let part = self.shard_db(number, due.db);
        let id = part.find(&due.key)?;
        let record = part.get(id);
        let same = record.deadline == due.deadline_ms
            && Timer::of(&record.value).is_some_and(|timer| *timer == due.timer);
        same.then_some((number, id))
    }

    /// Returns whether the timer exists and has not changed since it was due. Its shard must be
    /// held.
    pub fn is_still_due(&mut self, due: &DueTimer) -> bool {
        self.find_due(due).is_some()
    }

    /// Begins to fire a timer: removes it or arms it again. Returns `None` if the timer has changed
    /// or was removed since it was due. The shards of the timer and of its command's keys must be
    /// pinned. The caller then runs the command if [`Firing::runs`] is true, and calls
    /// [`Turn::end_firing`].
    pub fn begin_firing(&mut self, due: &DueTimer) -> Option<Firing> {
        self.fire(due, Cause::Deadline)
    }

    /// Same as [`Turn::begin_firing`], for TIMER RUN. A timer that repeats keeps its deadline.
    pub fn begin_running(&mut self, due: &DueTimer) -> Option<Firing> {
        self.fire(due, Cause::Command)
    }

    fn fire(&mut self, due: &DueTimer, cause: Cause) -> Option<Firing> {
        let (number, id) = self.find_due(due)?;
        let (now, db) = (self.now, due.db);
        self.deadlines_may_change(Touched::Any);
        let mut late_us = 0;
        if cause == Cause::Deadline {
            late_us = now
                .micros()
                .saturating_sub(due.deadline_ms.saturating_mul(1000));
            self.sink.timer_fires(now, db, &due.key, due.deadline_ms);
        }
        self.begin_frame();
        let mut firing = Firing {
            db,
            key: due.key.clone(),
            runs: true,
            stays: false,
        };
        let mut plan = due.timer.plan();
        let runs = plan.past.runs;
        let next = match &mut plan.repeat {
            None => None,
            Some(repeat) if cause == Cause::Command => {
                // Runs by TIMER RUN also count for the limit.
                let left = repeat
                    .limit
                    .is_none_or(|limit| runs.saturating_add(1) < limit);
                left.then_some(due.deadline_ms)
            }
            Some(repeat) => {
                let decision = repeat.decide(now.read_ms(), due.deadline_ms, runs);
                firing.runs = decision.runs;
                decision.next_ms.map(|next| {
                    repeat.nominal_ms = next;
                    self.jittered(next, repeat.jitter_ms).min(LAST_MS)
                })
            }
        };
        let part = self.shard_db(number, db);
        match next {
            Some(next) => {
                if firing.runs {
                    plan.past.record_run(late_us, None);
                }
                part.set_timer(id, Timer::new(&plan));
                if cause == Cause::Deadline {
                    part.set_deadline(id, Some(next));
                }
                // The state is logged before the effects of the command, because the command may
                // rename the timer or swap its database.
                self.state_effect(number, db, &due.key, id);
                firing.stays = true;
            }
            None => {
                part.remove(id);
                if !Bug::FiringNotLogged.is_active() {
                    self.effect(db, [&b"DEL"[..], &due.key].iter());
                }
            }
        }
        self.commit_silently(db, &due.key, 1);
        self.in_timer = true;
        Some(firing)
    }

    /// Ends the firing that [`Turn::begin_firing`] has begun. `error` is the command's error, if
    /// the command has run and failed.
    pub fn end_firing(&mut self, firing: Firing, error: Option<&[u8]>) {
        self.in_timer = false;
        let Firing {
            db,
            key,
            runs,
            stays,
        } = firing;
        let number = self.store.shard_of(&key);
        if stays
            && error.is_some()
            && let Some(id) = self.shard_db(number, db).find(&key)
        {
            // The command may have replaced the timer by another value.
            let part = self.shard_db(number, db);
            if let Some(mut plan) = part.timer(id).map(Timer::plan) {
                plan.past.record_outcome(error);
                part.set_timer(id, Timer::new(&plan));
                self.state_effect(number, db, &key, id);
            }
        }
        if runs {
            self.stats.timers_run += 1;
            self.stats.timers_failed += u64::from(error.is_some());
            let event = if error.is_some() {
                "timer-failed"
            } else {
                "timer"
            };
            self.commit(db, &key, Classes::GENERIC, event, 0);
        }
        self.append_recorded();
        self.end_frame();
    }

    /// Pauses a timer whose user may no longer run its command, and stores the error. Returns false
    /// if the timer has changed or was removed since it was due. Its shard must be held.
    pub fn stop_timer(&mut self, due: &DueTimer, error: &[u8]) -> bool {
        let Some((number, id)) = self.find_due(due) else {
            return false;
        };
        let mut plan = due.timer.plan();
        plan.past.record_outcome(Some(error));
        self.deadlines_may_change(Touched::Any);
        self.framed(|turn| {
            let part = turn.shard_db(number, due.db);
            part.set_timer(id, Timer::new(&plan));
            turn.pause_timer(number, due.db, &due.key, id);
            turn.stats.timers_failed += 1;
            turn.commit(due.db, &due.key, Classes::GENERIC, "timer-failed", 1);
        });
        true
    }

    /// Moves a timer whose command the server cannot run now to the deadline `at_ms`, and stores
    /// the error. Neither commits nor logs the change. The timer's shard must be held.
    pub fn put_off_timer(&mut self, due: &DueTimer, at_ms: u64, error: &[u8]) {
        if let Some((number, id)) = self.find_due(due) {
            let mut plan = due.timer.plan();
            plan.past.error = error.into();
            self.deadlines_may_change(Touched::Any);
            let part = self.shard_db(number, due.db);
            part.set_timer(id, Timer::new(&plan));
            part.set_deadline(id, Some(at_ms));
        }
    }

    /// Pauses a timer, and logs its state as an effect, because the remaining time depends on the
    /// instant. The caller commits the change.
    pub(crate) fn pause_timer(&mut self, number: usize, db: usize, key: &[u8], id: Id) {
        let now_ms = self.now.base_ms();
        let part = self.shard_db(number, db);
        if let (Some(mut plan), Some(deadline)) =
            (part.timer(id).map(Timer::plan), part.deadline(id))
        {
            plan.remaining_ms = deadline.saturating_sub(now_ms);
            part.set_timer(id, Timer::new(&plan));
            part.set_deadline(id, None);
        }
        self.state_effect(number, db, key, id);
    }

    /// Adds the command TIMER STATE as an effect, with everything about a timer except its user,
    /// its schedule and its command.
    pub(crate) fn state_effect(&mut self, number: usize, db: usize, key: &[u8], id: Id) {
        if !self.logged {
            return;
        }
        let part = self.shard_db(number, db);
        let (deadline, plan) = (part.deadline(id), part.timer(id).map(Timer::plan));
        let Some(plan) = plan else { return };
        let numbers = [
            deadline.unwrap_or(0),
            plan.repeat.as_ref().map_or(0, |repeat| repeat.nominal_ms),
            plan.remaining_ms,
            plan.past.runs,
            plan.past.failures,
            plan.past.late_us,
        ];
        let numbers = numbers.map(|number| number.to_string());
        let mut words: Vec<&[u8]> = vec![b"TIMER", b"STATE", key];
        words.extend(numbers.iter().map(String::as_bytes));
        words.push(&plan.past.error);
        self.effect(db, words.iter());
    }

    /// Returns the deadline for a timer that is set to `at_ms`: at most [`LAST_MS`], and while the
    /// command of another timer runs, the next millisecond or later.
    pub(crate) fn timer_deadline(&self, at_ms: u64) -> u64 {
        let least = if self.in_timer {
            self.now.read_ms() + 1
        } else {
            1
        };
        at_ms.clamp(least, LAST_MS)
    }

    /// Replaces a timer, or adds it if the key does not exist, and sets its deadline to `at_ms`.
    pub(crate) fn put_timer(&mut self, db: usize, key: &[u8], plan: &Plan, at_ms: u64) {
        let number = self.store.shard_of(key);
        let timer = Timer::new(plan);
        let uses = self.limits.uses.initial(self.now);
        let part = self.shard_db(number, db);
        let id = match part.find(key) {
            Some(id) => {
                part.set_timer(id, timer);
                id
            }
            None => {
                let id = part.insert(key, Value::Timer(timer), uses);
                self.announce(db, Classes::NEW, "new", key);
                id
            }
        };
        self.shard_db(number, db).set_deadline(id, Some(at_ms));
    }

    /// Adds a random number of milliseconds, from 0 to `most_ms`, to a time.
    pub(crate) fn jittered(&self, at_ms: u64, most_ms: u64) -> u64 {
        match most_ms {
            0 => at_ms,
            most => at_ms.saturating_add(self.store.draws.generator().random_range(0..=most)),
        }
    }
}
