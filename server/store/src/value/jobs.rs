//! A queue of jobs: work that is due at a time, is leased to one worker at a time, and is tried
//! again when that worker fails.
//!
//! Why a type and not streams: entries of a stream only grow, in the order of their IDs.
//! Priorities, a due time a job, a waiting time between attempts and counts by state would each
//! need a structure beside the stream, and each of its steps another key. Here a job is one record
//! ([`Job`]) in [`Keyed`], which finds it by its ID and walks it for snapshots in steps, and what
//! is next is the first entry of an ordered set of small references: one set for each thing that
//! may be next.
//!
//! Ground rules:
//! - A job is in the set of its state, and in that of expiries if it may expire now. `Jobs::change`
//!   and [`Jobs::put`] keep this.
//! - *What a job is follows from its record and the time.* A due time or the end of a lease that
//!   has come changes nothing that anybody must be told: a waiting job whose time has come is
//!   ready, and a lease that has ended makes its job wait until a time that [`Job::due_after`]
//!   computes from the record alone, jitter included. So the log of changes has no word of either:
//!   a replica and a replay hold the same records, and reach the same state at the same instant as
//!   soon as they may act. The sets only note how far [`Jobs::step`] has got. What is lost with its
//!   time is not left to that: removal (expiry, the end of KEEP and UNIQUE) and death are decided
//!   by the primary, which logs them.
//! - A token is given out once, and a record has the token of its last lease while that lasts. A
//!   worker whose lease has ended holds a token that no job has.
//! - IDs and tokens come from one sequence, which is not below the time in µs: so they do not come
//!   back when a queue is deleted and made anew.
//! - The queue's timer, if any, is armed in the wheel by the database (`keyspace/db/timelines.rs`).

mod content;
mod job;

use std::ops::Range;

use smallvec::SmallVec;

use super::keyed::{Element as _, Keyed, hash_of};
use crate::hash_table::Hash;
use crate::time::Now;
use crate::tree::{Tree, count_before};

pub use job::{Backoff, Details, ERROR_MAX, ID_MAX, Job, State, TIME_MAX};
use job::{NUMBER_MAX, TIME_BITS};

/// An ID that the server has chosen.
pub type Id = SmallVec<[u8; 40]>;

/// A reference to a job: a time or rank, then the job's order and its index.
type Reference = (u64, u64);
/// Bytes of a reference in its set, with the part of its node that is empty.
const REFERENCE_BYTES: usize = 28;

/// The sets of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// By due time.
    Delayed,
    /// By priority, then by due time.
    Ready,
    /// By the end of the lease.
    Leased,
    /// Dead, and on the way to another queue; by time of death.
    Leaving,
    /// By time of death.
    Dead,
    /// By time of removal.
    Done,
}

const SETS: usize = 6;

/// What has happened in a queue so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Jobs that were added.
    pub added: u64,
    /// Leases that were given.
    pub taken: u64,
    /// Jobs that were acknowledged.
    pub done: u64,
    /// Attempts that workers have given up, and last attempts whose lease has ended.
    pub failed: u64,
    /// Jobs whose last attempt has failed.
    pub died: u64,
}

/// What [`Jobs::step`] has done.
#[derive(Debug)]
pub enum Step {
    /// Nothing was due.
    Idle,
    /// A job is ready, or waits again, since this time has come.
    Moved(u64),
    /// A job of this ID is gone.
    Removed(Box<[u8]>),
    /// The job at this index is dead.
    Died(u32),
}

/// A queue of jobs.
#[derive(Clone, Debug, Default)]
pub struct Jobs {
    jobs: Keyed<Job>,
    sets: [Tree<Reference>; SETS],
    /// Jobs that wait and have a time of expiry, by that.
    expiring: Tree<Reference>,
    /// Nobody gets a job.
    pub paused: bool,
    /// Last number that was given out as an ID or a token.
    last: u64,
    /// Order of the next job.
    order: u32,
    totals: Totals,
    /// Number of the armed timer in its database.
    timer: Option<u32>,
    /// The next deadline when the timer was armed last: that, or an earlier time.
    noted: Option<u64>,
    /// Jobs that leave do so at this time.
    retry_ms: u64,
}

fn reference(key: u64, job: &Job, index: u32) -> Reference {
    (key, u64::from(job.order) << 32 | u64::from(index))
}

const fn index_of(reference: Reference) -> u32 {
    reference.1 as u32
}

/// Returns the set of a job, and what it is sorted by there.
fn place(job: &Job) -> (Set, u64) {
    match job.state {
        State::Waiting => (Set::Delayed, job.at),
        State::Ready => {
            let before = i32::from(i16::MAX) - i32::from(job.priority);
            let rank = (u64::from(before as u16) << TIME_BITS) | job.at.min(TIME_MAX);
            (Set::Ready, rank)
        }
        State::Leased => (Set::Leased, job.at),
        State::Dead if job.details().dead.is_some() => (Set::Leaving, job.at),
        State::Dead => (Set::Dead, job.at),
        State::Done => (Set::Done, job.at),
    }
}

/// Returns when a job expires, if it waits.
fn expiry(job: &Job) -> Option<u64> {
    match job.state {
        State::Waiting | State::Ready => job.expires_ms(),
        _ => None,
    }
}

impl Jobs {
    /// Returns the number of jobs, with those that are dead or done.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Returns true if there are no jobs.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Returns what has happened so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Returns the index of the job with this ID.
    pub fn find(&self, id: &[u8]) -> Option<u32> {
        self.jobs.find(hash_of(id), id)
    }

    /// Returns the job at an index.
    ///
    /// # Panics
    /// If there is none.
    pub fn get(&self, index: u32) -> &Job {
        self.jobs.get(index)
    }

    /// Returns all jobs in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Job> {
        self.jobs.iter().map(|(_, job)| job)
    }

    /// Returns the number of jobs in a state, as it is at `now`. O(1), O(log jobs) for those that
    /// are ready or delayed.
    pub fn count(&self, set: Set, now: Now) -> usize {
        match set {
            Set::Ready => self.sets[Set::Ready as usize].len() + self.due(now),
            Set::Delayed => self.sets[Set::Delayed as usize].len() - self.due(now),
            set => self.sets[set as usize].len(),
        }
    }

    /// Returns the number of waiting jobs whose time has come and that nobody has moved. They are
    /// the first of those that wait.
    fn due(&self, now: Now) -> usize {
        let delayed = &self.sets[Set::Delayed as usize];
        match delayed.first() {
            Some(first) if now.is_due(first.0) => {
                delayed.rank(|slots| count_before(slots, |entry: Reference| now.is_due(entry.0)))
            }
            _ => 0,
        }
    }

    /// Adds to each of `counts` the number of delayed jobs that are due in its part of a range of
    /// time, which is divided evenly. O(log jobs) for each part with jobs.
    pub fn spread(&self, range: Range<u64>, now: Now, counts: &mut [u64]) {
        self.sets[Set::Delayed as usize].spread(range, self.due(now), counts);
    }

    /// Returns the jobs in a state at `now`, the next one first, from this position on. O(log
    /// jobs), then O(1) each.
    pub fn list(&self, set: Set, now: Now, from: usize) -> impl Iterator<Item = &Job> {
        let (due, len) = (self.due(now), self.sets[set as usize].len());
        let (moved, late) = match set {
            Set::Delayed => (due + from..len, 0..0),
            Set::Ready => (from..len, from.saturating_sub(len)..due),
            _ => (from..len, 0..0),
        };
        let moved = self.sets[set as usize].walk(moved, false);
        let late = self.sets[Set::Delayed as usize].walk(late, false);
        let entries = moved.chain(late);
        entries.map(|entry| self.get(index_of(entry)))
    }

    /// Returns the due time of the job that has been ready for longest. O(priorities · log jobs).
    pub fn oldest_ready(&self) -> Option<u64> {
        let ready = &self.sets[Set::Ready as usize];
        let (mut oldest, mut from) = (None, Some(0));
        while let Some(rank) = from
            && let Some((rank, _)) = ready.get(ready.before(rank))
        {
            let due = rank & TIME_MAX;
            oldest = Some(oldest.map_or(due, |before: u64| before.min(due)));
            from = (rank | TIME_MAX).checked_add(1);
        }
        oldest
    }

    /// Returns the next due time of a job that waits.
    pub fn next_due(&self) -> Option<u64> {
        Some(self.sets[Set::Delayed as usize].first()?.0)
    }

    /// Returns whether a worker gets a job at `now`.
    pub fn can_take(&self, now: Now) -> bool {
        self.next_ready(now).is_some()
    }

    /// Returns the job that the next worker gets. O(log jobs).
    pub fn next_ready(&self, now: Now) -> Option<u32> {
        if self.paused {
            return None;
        }
        let lives = |index: &u32| expiry(self.get(*index)).is_none_or(|at| !now.is_due(at));
        let ready = &self.sets[Set::Ready as usize];
        let first = index_of(ready.first()?);
        if lives(&first) {
            return Some(first);
        }
        // Those that have expired are in the way for one step at most.
        ready.walk(1..ready.len(), false).map(index_of).find(lives)
    }

    /// Returns a number that was not given out before. Only a queue from a strange payload ever
    /// reaches the greatest.
    fn next_number(&mut self, now: Now) -> u64 {
        let next = self.last.saturating_add(1).max(now.micros());
        self.last = next.min(NUMBER_MAX);
        self.last
    }

    /// Returns an ID that no job has. `random` returns random bits.
    pub fn new_id(&mut self, now: Now, random: impl Fn() -> u64) -> Id {
        loop {
            let before = self.last;
            let number = self.next_number(now);
            let mut id = Id::from_slice(itoa::Buffer::new().format(number).as_bytes());
            if number == before {
                id.extend_from_slice(format!("-{}", random()).as_bytes());
            }
            if self.find(&id).is_none() {
                return id;
            }
        }
    }

    /// Returns whether a job is in this state.
    pub fn is_in(&self, index: u32, set: Set) -> bool {
        place(self.get(index)).0 == set
    }

    /// Returns whether the time of a job has passed, so that it is about to be removed.
    pub fn is_over(&self, index: u32, now: Now) -> bool {
        let job = self.get(index);
        let end = expiry(job).or_else(|| (job.state == State::Done).then_some(job.at));
        end.is_some_and(|at| now.is_due(at))
    }

    fn file(&mut self, index: u32) {
        let job = self.jobs.get(index);
        let (set, key) = place(job);
        let entry = reference(key, job, index);
        self.sets[set as usize].add(entry);
        if let Some(at) = expiry(job) {
            self.expiring.add((at, entry.1));
        }
    }

    fn unfile(&mut self, index: u32) {
        let job = self.jobs.get(index);
        let (set, key) = place(job);
        let entry = reference(key, job, index);
        self.sets[set as usize].discard(entry);
        if let Some(at) = expiry(job) {
            self.expiring.discard((at, entry.1));
        }
    }

    /// Changes a job other than its ID and order.
    fn change(&mut self, index: u32, change: impl FnOnce(&mut Job)) {
        self.unfile(index);
        change(self.jobs.get_mut(index));
        self.file(index);
    }

    /// Adds a job whose ID no job has, after all others of its priority and time. It is ready if
    /// its time has come at `now`. Returns its index. O(log jobs).
    pub fn add(&mut self, details: &Details<'_>, priority: i16, at: u64, now: Now) -> u32 {
        debug_assert!(self.find(details.id).is_none());
        let hash = hash_of(details.id);
        let mut job = Job::hashed(hash, details, priority, at, self.order);
        if now.is_due(at) {
            job.state = State::Ready;
        }
        self.append(hash, job)
    }

    /// Adds a job, or replaces the one with its ID. Returns its index. O(log jobs).
    pub fn put(&mut self, job: Job) -> u32 {
        self.last = self.last.max(job.token);
        let hash = hash_of(job.name());
        let Some(index) = self.jobs.find(hash, job.name()) else {
            return self.append(hash, job);
        };
        let (before, after) = (self.get(index).state, job.state);
        self.totals.done += u64::from(after == State::Done && before != State::Done);
        let dies = after == State::Dead && before != State::Dead;
        self.totals.died += u64::from(dies);
        let fails = dies || after == State::Waiting && before == State::Leased;
        self.totals.failed += u64::from(fails);
        self.unfile(index);
        *self.jobs.get_mut(index) = job;
        self.file(index);
        index
    }

    fn append(&mut self, hash: Hash, job: Job) -> u32 {
        self.order = job.order.wrapping_add(1);
        self.totals.added += 1;
        self.insert(hash, job)
    }

    fn insert(&mut self, hash: Hash, job: Job) -> u32 {
        let index = self.jobs.insert(hash, job);
        self.file(index);
        index
    }

    /// Notes that a job whose time has come at `now` is ready, so that nobody need wait for the
    /// next step.
    pub fn note_due(&mut self, index: u32, now: Now) {
        let job = self.get(index);
        if job.state == State::Waiting && now.is_due(job.at) {
            self.change(index, |job| job.state = State::Ready);
        }
    }

    /// Removes a job. O(log jobs).
    pub fn remove(&mut self, index: u32) -> Job {
        self.unfile(index);
        self.jobs.remove(index)
    }

    /// Removes a job that a worker has done.
    pub fn finish(&mut self, index: u32) {
        self.totals.done += 1;
        self.remove(index);
    }

    /// Leases a job that is ready to a worker. Returns when it was due. O(log jobs).
    pub fn take(&mut self, index: u32, now: Now, lease_ms: Option<u64>) -> u64 {
        let token = self.next_number(now);
        let job = self.get(index);
        let lease_ms = lease_ms.unwrap_or_else(|| job.lease_ms());
        let until = now.base_ms().saturating_add(lease_ms).min(TIME_MAX);
        let (attempt, due) = (job.attempt.saturating_add(1), job.at);
        self.lease(index, until, token, attempt);
        due
    }

    /// Gives a job to the worker with this token until a time.
    pub fn lease(&mut self, index: u32, until_ms: u64, token: u64, attempt: u32) {
        self.last = self.last.max(token);
        self.totals.taken += u64::from(self.get(index).token != token);
        self.change(index, |job| {
            (job.state, job.at) = (State::Leased, until_ms);
            (job.token, job.attempt) = (token, attempt);
        });
    }

    /// Returns the job that the worker with this token has at `now`.
    pub fn held(&self, id: &[u8], token: u64, now: Now) -> Option<u32> {
        let index = self.find(id)?;
        let job = self.get(index);
        let holds = job.state == State::Leased && job.token == token && !now.is_due(job.at);
        holds.then_some(index)
    }

    /// Returns the job as it is after a failed attempt: it waits until `due_ms`, or is dead at
    /// `now_ms` if this was the last.
    pub fn failed(&self, index: u32, now_ms: u64, due_ms: u64, error: Option<&[u8]>) -> Job {
        let mut job = self.get(index).clone();
        let dies = job.is_last_attempt();
        (job.state, job.at) = match dies {
            true => (State::Dead, now_ms),
            false => (State::Waiting, due_ms.min(TIME_MAX)),
        };
        job.token = 0;
        if let Some(error) = error {
            let old = job.clone();
            job.set_details(&Details {
                error: Some(&error[..error.len().min(ERROR_MAX)]),
                ..old.details()
            });
        }
        job
    }

    /// Does one thing that is due at `now`. O(log jobs).
    pub fn step(&mut self, now: Now) -> Step {
        let due = |set: &Tree<Reference>| {
            let first = set.first().filter(|first| now.is_due(first.0))?;
            Some(index_of(first))
        };
        let gone = due(&self.expiring).or_else(|| due(&self.sets[Set::Done as usize]));
        if let Some(index) = gone {
            return Step::Removed(self.remove(index).name().into());
        }
        if let Some(index) = due(&self.sets[Set::Leased as usize]) {
            return self.lapse(index);
        }
        if let Some(index) = due(&self.sets[Set::Delayed as usize]) {
            let due_ms = self.get(index).at;
            self.change(index, |job| job.state = State::Ready);
            return Step::Moved(due_ms);
        }
        Step::Idle
    }

    /// Ends a lease that was not renewed.
    fn lapse(&mut self, index: u32) -> Step {
        let job = self.get(index);
        let ended = job.at;
        if job.expires_ms().is_some_and(|at| at <= ended) {
            return Step::Removed(self.remove(index).name().into());
        }
        if job.is_last_attempt() {
            let dead = self.failed(index, ended, ended, Some(b"the lease has ended"));
            return Step::Died(self.put(dead));
        }
        let due = job.due_after(ended).min(TIME_MAX);
        self.change(index, |job| {
            (job.state, job.at, job.token) = (State::Waiting, due, 0);
        });
        Step::Moved(ended)
    }

    /// Returns whether there are jobs on the way to another queue.
    pub fn has_leaving(&self) -> bool {
        self.sets[Set::Leaving as usize].first().is_some()
    }

    /// Returns the first jobs on the way to another queue.
    pub fn leaving(&self, count: usize) -> Vec<u32> {
        let leaving = self.sets[Set::Leaving as usize].walk(0..count, false);
        leaving.map(index_of).collect()
    }

    /// Sets when jobs that leave do so.
    pub fn retry_at(&mut self, ms: u64) {
        self.retry_ms = ms;
    }

    /// Returns the next time at which something is due. O(log jobs).
    pub fn next_deadline(&self) -> Option<u64> {
        let first = |set: Set| self.sets[set as usize].first().map(|entry| entry.0);
        let times = [
            first(Set::Delayed),
            first(Set::Leased),
            first(Set::Done),
            self.expiring.first().map(|entry| entry.0),
            self.has_leaving().then_some(self.retry_ms),
        ];
        times.into_iter().flatten().min()
    }

    /// Returns and notes the next deadline, for which the timer is about to be armed; `None` if it
    /// is.
    pub(crate) fn changed_deadline(&mut self) -> Option<Option<u64>> {
        let next = self.next_deadline();
        let before = std::mem::replace(&mut self.noted, next);
        (before != next || self.timer.is_some() != next.is_some()).then_some(next)
    }

    /// Returns whether the timer may stay as it is after a change of this job: nothing happens to
    /// the job by itself before it. O(1).
    pub(crate) fn is_timed(&self, index: u32) -> bool {
        let job = self.get(index);
        match job.state {
            _ if job.may_expire() => false,
            State::Ready => true,
            State::Dead => false,
            State::Waiting | State::Leased | State::Done => {
                self.timer.is_some() && self.noted.is_some_and(|noted| noted <= job.at)
            }
        }
    }

    /// Returns whether [`Jobs::step`] may have something to do. O(1).
    pub fn may_be_due(&self, now: Now) -> bool {
        self.noted.is_some_and(|at| now.is_due(at))
    }

    /// Checks that every job is in its set, and that nothing else is.
    #[cfg(test)]
    pub(crate) fn assert_whole(&self) {
        let filed: usize = self.sets.iter().map(Tree::len).sum();
        assert_eq!(filed, self.len());
        let mut expiring = 0;
        for (index, job) in self.jobs.iter() {
            let (set, key) = place(job);
            assert!(self.sets[set as usize].contains(reference(key, job, index)));
            if let Some(at) = expiry(job) {
                expiring += 1;
                assert!(self.expiring.contains(reference(at, job, index)));
            }
        }
        assert_eq!(expiring, self.expiring.len());
    }
}
