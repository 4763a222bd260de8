//! A queue of jobs: work that becomes due at a time, is leased to one worker at a time, and is
//! retried when the worker fails.
//!
//! [`Keyed`] finds a job ([`Job`]) by its ID. One ordered [`Set`] for each state holds small
//! references to the jobs, so the next job of a state is the first entry of its set.
//!
//! - A job is in the set of its state. A waiting or ready job with an expiry time is also in
//!   `Jobs::expiring`. `Jobs::file` and `Jobs::unfile` keep both up to date.
//! - *The record and the current time determine a job's state.* A waiting job becomes ready at its
//!   due time. When a lease ends, the job waits until [`Job::due_after`]. These two changes need
//!   not be logged: a replica and a replay hold the same records, and compute the same states. They
//!   are logged if a rule of NOTIFY gets their event, which must not be repeated. The primary also
//!   logs each job that is removed by time, or whose last lease ends so that it becomes dead.
//! - Each lease has a new token, so the token of a lease that has ended matches no job.
//! - IDs and tokens come from one sequence, which is at least the time in Unix µs, so a queue that
//!   is deleted and created again does not repeat them.

mod content;
mod job;

use std::ops::Range;

use smallvec::SmallVec;

use super::keyed::{Element as _, Keyed, hash_of};
use crate::check::Check;
use crate::hash_table::Hash;
use crate::planted::Bug;
use crate::time::Now;
use crate::tree::{Tree, count_before};

pub use job::{Backoff, Details, ERROR_MAX, ID_MAX, Job, State, TIME_MAX};
use job::{NUMBER_MAX, TIME_BITS};

/// An ID that the server has generated.
pub type Id = SmallVec<[u8; 40]>;

/// A reference to a job: a number that sorts the jobs of a set ([`sort_key`], or the expiry time),
/// then the job's `order` in the upper and its index in the lower 32 bits.
type Reference = (u64, u64);
/// Estimated bytes of a reference in its set, including its share of empty places in nodes.
const REFERENCE_BYTES: usize = 28;

/// The ordered sets of jobs; each job is in one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// Jobs that wait for their due time, by due time.
    Delayed,
    /// Jobs whose due time has passed, by priority, then by due time.
    Ready,
    /// Jobs with a worker, by the end of the lease.
    Leased,
    /// Jobs whose last attempt has failed and that will move to a dead-letter queue, by the time of
    /// that failure.
    Leaving,
    /// Jobs whose last attempt has failed and that stay in this queue, by the time of that failure.
    Dead,
    /// Acknowledged jobs whose records or IDs are kept, by time of removal.
    Done,
}

const SETS: usize = 6;

/// Counters of a queue since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Jobs that were added.
    pub added: u64,
    /// Leases that were given.
    pub taken: u64,
    /// Jobs that were acknowledged.
    pub done: u64,
    /// Attempts that workers reported as failed, and last attempts whose lease has ended.
    pub failed: u64,
    /// Jobs that became [`State::Dead`].
    pub died: u64,
}

/// The result of [`Jobs::step`].
#[derive(Debug)]
pub enum Step {
    /// Nothing was due.
    Idle,
    /// The job at this index became ready, or its lease ended and it waits again, at this time
    /// (Unix ms).
    Moved(u32, u64),
    /// The job with this ID was removed.
    Removed(Box<[u8]>),
    /// The lease of the last attempt ended: the job at this index became [`State::Dead`].
    Died(u32),
}

/// A queue of jobs.
#[derive(Clone, Debug, Default)]
pub struct Jobs {
    jobs: Keyed<Job>,
    sets: [Tree<Reference>; SETS],
    /// Waiting and ready jobs with an expiry time, by expiry time.
    expiring: Tree<Reference>,
    /// Workers get no jobs from the queue.
    pub paused: bool,
    /// Last number that was used as an ID or a token.
    last: u64,
    /// Value of [`Job::order`] for the next job.
    order: u32,
    totals: Totals,
    /// Number of the queue's timer in its database, if one is armed.
    timer: Option<u32>,
    /// Deadline for which the timer was armed last: the queue's next deadline or an earlier time.
    timer_ms: Option<u64>,
    /// Unix ms of the next attempt to move the jobs in [`Set::Leaving`].
    retry_ms: u64,
}

fn reference(key: u64, job: &Job, index: u32) -> Reference {
    (key, u64::from(job.order) << 32 | u64::from(index))
}

const fn index_of(reference: Reference) -> u32 {
    reference.1 as u32
}

/// Returns the set of a job, and the number that sorts the job in the set: a time in Unix ms. For a
/// ready job, the bits above the time hold the inverted priority.
fn sort_key(job: &Job) -> (Set, u64) {
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

/// Returns the expiry time of a job that waits or is ready.
fn expiry(job: &Job) -> Option<u64> {
    match job.state {
        State::Waiting | State::Ready => job.expires_ms(),
        _ => None,
    }
}

impl Jobs {
    /// Returns the number of jobs, including jobs that are dead or done.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Returns true if there are no jobs.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Returns the counters since the queue's creation.
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
    /// If there is no job at the index.
    pub fn get(&self, index: u32) -> &Job {
        self.jobs.get(index)
    }

    /// Returns all jobs in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Job> {
        self.jobs.iter().map(|(_, job)| job)
    }

    /// Returns the number of jobs in a state at `now`. O(1), O(log jobs) for the ready and the
    /// delayed jobs.
    pub fn count(&self, set: Set, now: Now) -> usize {
        match set {
            Set::Ready => self.sets[Set::Ready as usize].len() + self.due(now),
            Set::Delayed => self.sets[Set::Delayed as usize].len() - self.due(now),
            set => self.sets[set as usize].len(),
        }
    }

    /// Returns the number of jobs that are due and that [`Jobs::step`] has not yet moved to
    /// [`Set::Ready`]. They are the first in [`Set::Delayed`].
    fn due(&self, now: Now) -> usize {
        let delayed = &self.sets[Set::Delayed as usize];
        match delayed.first() {
            Some(first) if now.is_due(first.0) => {
                delayed.rank(|slots| count_before(slots, |entry: Reference| now.is_due(entry.0)))
            }
            _ => 0,
        }
    }

    /// Divides a range of Unix ms evenly into as many parts as `counts` has elements, and adds to
    /// each element the number of delayed jobs that become due in its part. O(log jobs · log parts)
    /// for each part with jobs.
    pub fn spread(&self, range: Range<u64>, now: Now, counts: &mut [u64]) {
        self.sets[Set::Delayed as usize].spread(range, self.due(now), counts);
    }

    /// Returns the jobs in a state at `now`, in the order of the state's set, from position `from`
    /// on. Ready jobs that [`Jobs::step`] has not yet moved come last. O(log jobs), then O(1) each.
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

    /// Returns the earliest due time of the jobs in [`Set::Ready`]. O(log jobs) for each priority
    /// in use.
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

    /// Returns the earliest due time of the jobs in [`Set::Delayed`].
    pub fn next_due(&self) -> Option<u64> {
        Some(self.sets[Set::Delayed as usize].first()?.0)
    }

    /// Returns whether a worker that asks for a job at `now` gets one. Ignores due jobs that
    /// [`Jobs::step`] has not yet moved to [`Set::Ready`].
    pub fn can_take(&self, now: Now) -> bool {
        self.next_ready(now).is_some()
    }

    /// Returns the job that the next worker gets. O(1), and O(expired jobs + log jobs) if the first
    /// ready job has expired.
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
        // The next steps remove the jobs that have expired.
        ready.walk(1..ready.len(), false).map(index_of).find(lives)
    }

    /// Returns a number that was not used before as an ID or a token. Only a queue from a forged
    /// payload reaches [`NUMBER_MAX`], and then gets that number again.
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
        sort_key(self.get(index)).0 == set
    }

    /// Returns whether the next steps remove the job: it has expired, or is done and no longer
    /// kept.
    pub fn is_over(&self, index: u32, now: Now) -> bool {
        let job = self.get(index);
        let end = expiry(job).or_else(|| (job.state == State::Done).then_some(job.at));
        end.is_some_and(|at| now.is_due(at))
    }

    /// Adds a job's references to the sets.
    fn file(&mut self, index: u32) {
        let job = self.jobs.get(index);
        let (set, key) = sort_key(job);
        let entry = reference(key, job, index);
        self.sets[set as usize].add(entry);
        if let Some(at) = expiry(job) {
            self.expiring.add((at, entry.1));
        }
    }

    /// Removes a job's references from the sets, before the job changes.
    fn unfile(&mut self, index: u32) {
        let job = self.jobs.get(index);
        let (set, key) = sort_key(job);
        let entry = reference(key, job, index);
        self.sets[set as usize].discard(entry);
        if let Some(at) = expiry(job) {
            self.expiring.discard((at, entry.1));
        }
    }

    /// Changes a job, except its ID and `order`, and moves its references.
    fn change(&mut self, index: u32, change: impl FnOnce(&mut Job)) {
        self.unfile(index);
        change(self.jobs.get_mut(index));
        self.file(index);
    }

    /// Adds a job whose ID is new, after all jobs with the same priority and time. The job is ready
    /// if it is due at `now`. Returns its index. O(log jobs).
    pub fn add(&mut self, details: &Details<'_>, priority: i16, at: u64, now: Now) -> u32 {
        debug_assert!(self.find(details.id).is_none());
        let hash = hash_of(details.id);
        let mut job = Job::hashed(hash, details, priority, at, self.order);
        if now.is_due(at) {
            job.state = State::Ready;
        }
        self.append(hash, job)
    }

    /// Adds a job, or replaces the job with the same ID. Returns its index. O(log jobs).
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

    /// Makes a job ready if it is due at `now`, so that a worker need not wait for the next step.
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

    /// Removes a job and counts it as done.
    pub fn finish(&mut self, index: u32) {
        self.totals.done += 1;
        self.remove(index);
    }

    /// Leases a ready job to a worker. Returns the job's due time in Unix ms. O(log jobs).
    pub fn take(&mut self, index: u32, now: Now, lease_ms: Option<u64>) -> u64 {
        let token = self.next_number(now);
        let job = self.get(index);
        let lease_ms = lease_ms.unwrap_or_else(|| job.lease_ms());
        let from_ms = match Bug::LeaseFromDueTime.is_active() {
            true => job.at,
            false => now.base_ms(),
        };
        let until = from_ms.saturating_add(lease_ms).min(TIME_MAX);
        let (attempt, due) = (job.attempt.saturating_add(1), job.at);
        self.lease(index, until, token, attempt);
        due
    }

    /// Leases a job to the worker with this token until `until_ms`.
    pub fn lease(&mut self, index: u32, until_ms: u64, token: u64, attempt: u32) {
        self.last = self.last.max(token);
        self.totals.taken += u64::from(self.get(index).token != token);
        self.change(index, |job| {
            (job.state, job.at) = (State::Leased, until_ms);
            (job.token, job.attempt) = (token, attempt);
        });
    }

    /// Returns the job's index if the worker with this token holds a lease on it at `now`.
    pub fn held(&self, id: &[u8], token: u64, now: Now) -> Option<u32> {
        let index = self.find(id)?;
        let job = self.get(index);
        let is_own = job.token == token || Bug::StaleTokenAccepted.is_active();
        let holds = job.state == State::Leased && is_own && !now.is_due(job.at);
        holds.then_some(index)
    }

    /// Returns a copy of the job in the state after a failed attempt: it waits until `due_ms`, or
    /// is dead from `now_ms` on if the attempt was its last.
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

    /// Takes one step that is due at `now`: removes a job, ends a lease, or makes a job ready.
    /// O(log jobs).
    pub fn step(&mut self, now: Now) -> Step {
        let due = |set: &Tree<Reference>| {
            let first = set.first().filter(|first| now.is_due(first.0))?;
            Some(index_of(first))
        };
        let over = due(&self.expiring).or_else(|| due(&self.sets[Set::Done as usize]));
        if let Some(index) = over {
            return Step::Removed(self.remove(index).name().into());
        }
        if let Some(index) = due(&self.sets[Set::Leased as usize]) {
            return self.lapse(index);
        }
        if let Some(index) = due(&self.sets[Set::Delayed as usize]) {
            let due_ms = self.get(index).at;
            self.change(index, |job| job.state = State::Ready);
            return Step::Moved(index, due_ms);
        }
        Step::Idle
    }

    /// Repeats the step at `ms` that has moved a job, for a replay. Does nothing if the job is not
    /// due. O(log jobs).
    pub fn move_due(&mut self, index: u32, ms: u64) {
        let job = self.get(index);
        match job.state {
            State::Leased if job.at <= ms && !job.is_last_attempt() => {
                self.lapse(index);
            }
            State::Waiting => self.note_due(index, Now::from_ms(ms)),
            _ => {}
        }
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
        Step::Moved(index, ended)
    }

    /// Returns whether jobs must move to a dead-letter queue.
    pub fn has_leaving(&self) -> bool {
        self.sets[Set::Leaving as usize].first().is_some()
    }

    /// Returns up to `count` jobs that must move to a dead-letter queue.
    pub fn leaving(&self, count: usize) -> Vec<u32> {
        let leaving = self.sets[Set::Leaving as usize].walk(0..count, false);
        leaving.map(index_of).collect()
    }

    /// Sets the Unix ms of the next attempt to move jobs to dead-letter queues.
    pub fn retry_at(&mut self, ms: u64) {
        self.retry_ms = ms;
    }

    /// Returns the Unix ms at which the next step, or the next move to a dead-letter queue, is due.
    /// O(1).
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

    /// Returns the next deadline if the timer must be armed, moved or disarmed for it, and stores
    /// it as the timer's deadline. Returns `None` if the timer needs no change.
    pub(crate) fn changed_deadline(&mut self) -> Option<Option<u64>> {
        let next = self.next_deadline();
        let before = std::mem::replace(&mut self.timer_ms, next);
        (before != next || self.timer.is_some() != next.is_some()).then_some(next)
    }

    /// Returns whether the timer needs no change after a change of this job, because no step is due
    /// for the job before the timer fires. O(1).
    pub(crate) fn is_timed(&self, index: u32) -> bool {
        let job = self.get(index);
        match job.state {
            _ if job.may_expire() => false,
            State::Ready => true,
            State::Dead => false,
            State::Waiting | State::Leased | State::Done => {
                self.timer.is_some() && self.timer_ms.is_some_and(|timer_ms| timer_ms <= job.at)
            }
        }
    }

    /// Returns whether [`Jobs::step`] may have a step to take at `now`. O(1).
    pub fn may_be_due(&self, now: Now) -> bool {
        self.timer_ms.is_some_and(|at| now.is_due(at))
    }

    /// Checks that every job is in its set, and that the sets hold no other references.
    fn check_sets(&self, to: &mut Check) {
        let filed: usize = self.sets.iter().map(Tree::len).sum();
        to.equal("jobs in the sets", filed, self.len());
        let mut expiring = 0;
        for (index, job) in self.jobs.iter() {
            let (set, key) = sort_key(job);
            let filed = self.sets[set as usize].contains(reference(key, job, index));
            to.holds("a job is in the set of its state", filed);
            if let Some(at) = expiry(job) {
                expiring += 1;
                let filed = self.expiring.contains(reference(at, job, index));
                to.holds("a job that expires is listed", filed);
            }
        }
        to.equal("jobs that expire", self.expiring.len(), expiring);
        let sets = self.sets.iter().chain([&self.expiring]);
        sets.for_each(|set| set.check(to));
    }
}
