//! Processing of jobs that are due in queues of jobs.
//!
//! Ground rules: a queue has one timer. When it fires, under the lock of the queue's shard,
//! [`Turn::jobs_due`] takes some steps ([`Jobs::step`]) and makes the key ready for waiting
//! workers. Each step moves or removes one job whose time has passed: a delayed job becomes ready,
//! and a job whose lease has ended waits for its next attempt. A command takes the due steps before
//! it reads the queue ([`Turn::settle_jobs`]). The result of such a move follows from the job's
//! record alone (`value/jobs.rs`), so a replica or a replay gets the same state, and the move is
//! logged only for rules of NOTIFY ([`Turn::log_due`]). Removals and deaths of jobs are always
//! logged. A dead job that moves to another queue, perhaps in another shard, stays in the set
//! `Leaving` until the expiry step is done and both shards are locked.
//!
//! The log has whole jobs (JOB PUT), leases (JOB LEASED), removals (JOB DEL) and moves (JOB DUE).

use rand::RngExt as _;

use super::Turn;
use super::expiry::Name;
use crate::error::Error;
use crate::events::Classes;
use crate::keyspace::records::Id as RecordId;
use crate::keyspace::shard::Touched;
use crate::time::Now;
use crate::value::Kind;
use crate::value::jobs::{Details, Job, Jobs, Set, State, Step};
use crate::value::keyed::Element as _;

/// Maximum number of steps of one queue before other due values follow.
const STEPS: usize = 64;
/// Maximum number of jobs that move from one queue to other queues at a time.
const LEAVING: usize = 64;

/// A job that moves to another queue: the job's ID and the key of the other queue.
type LeavingJob = (Box<[u8]>, Box<[u8]>);

/// Returns the encoding of a job for JOB PUT.
pub(crate) fn written(job: &Job) -> Vec<u8> {
    let mut out = Vec::new();
    job.write(&mut out);
    out
}

/// Number of the queues that were counted, and numbers of their jobs by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobCounts {
    /// Number of queues.
    pub queues: u64,
    /// Jobs that are ready.
    pub ready: u64,
    /// Jobs whose time has not come yet.
    pub delayed: u64,
    /// Jobs that workers have leased.
    pub leased: u64,
    /// Dead jobs.
    pub dead: u64,
    /// Delayed jobs that are due in the next minute, hour and day.
    pub due: [u64; 3],
}

/// Times from now in ms: a minute, an hour, a day.
pub const SPANS_MS: [u64; 3] = [60_000, 3_600_000, 86_400_000];

impl JobCounts {
    fn add(&mut self, jobs: &Jobs, now: Now) {
        let count = |set| jobs.count(set, now) as u64;
        self.queues += 1;
        self.ready += count(Set::Ready);
        self.delayed += count(Set::Delayed);
        self.leased += count(Set::Leased);
        self.dead += count(Set::Dead) + count(Set::Leaving);
        for (due, span) in self.due.iter_mut().zip(SPANS_MS) {
            jobs.spread(0..now.read_ms() + span, now, std::slice::from_mut(due));
        }
    }
}

/// A count of the jobs in all databases that is made in steps.
#[derive(Clone, Debug, Default)]
pub struct JobCensus {
    counted: JobCounts,
    /// Shard, database and record of the next step.
    next: (usize, usize, RecordId),
}

impl Turn<'_> {
    /// Takes a step of a count, over up to `most` queues. Returns the counts after the last queue,
    /// and then resets the census. Jobs may change between two steps, so the counts are of one
    /// instant only if one step is enough. Locks one shard after the other. O(shards · databases +
    /// queues · log jobs).
    pub fn count_jobs(&mut self, census: &mut JobCensus, most: usize) -> Option<JobCounts> {
        let (now, mut left) = (self.now, most);
        let (shard, mut db, mut record) = census.next;
        for number in shard..self.store.shards() {
            self.lock_one(number);
            while db < self.store.databases() {
                let part = self.shard_db_ref(number, db);
                for (id, found, jobs) in part.queues_from(record) {
                    if left == 0 {
                        census.next = (number, db, id);
                        return None;
                    }
                    left -= 1;
                    if !found.has_expired(now) {
                        census.counted.add(jobs, now);
                    }
                }
                (db, record) = (db + 1, 0);
            }
            db = 0;
        }
        Some(std::mem::take(census).counted)
    }

    /// Calls `visit` with each queue of a database. Locks one shard after the other.
    ///
    /// # Errors
    /// The error of `visit`, after which no other queue is visited.
    pub fn each_queue(
        &mut self,
        db: usize,
        mut visit: impl FnMut(&[u8], &Jobs) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let now = self.now;
        for number in 0..self.store.shards() {
            self.lock_one(number);
            for (_, record, jobs) in self.shard_db_ref(number, db).queues_from(0) {
                if !record.has_expired(now) {
                    visit(record.key.as_bytes(), jobs)?;
                }
            }
        }
        Ok(())
    }

    /// Calls `visit` with the queue `key`, if it exists. Locks its shard.
    pub fn read_queue(&mut self, db: usize, key: &[u8], visit: impl FnOnce(&Jobs)) {
        let number = self.store.shard_of(key);
        self.lock_one(number);
        if let Some(id) = self.find_live::<Jobs>(number, db, key)
            && let Some(jobs) = Jobs::of(&self.shard_db(number, db).get(id).value)
        {
            visit(jobs);
        }
    }

    fn jobs_at(&mut self, number: usize, db: usize, id: RecordId) -> Option<&mut Jobs> {
        Jobs::of_mut(&mut self.shard_db(number, db).get_mut(id).value)
    }

    /// Takes the due steps in a queue whose timer has fired, and arms the timer again.
    pub(super) fn jobs_due(
        &mut self,
        number: usize,
        db: usize,
        id: RecordId,
        until: Now,
        budget: &mut usize,
    ) {
        let record = self.shard_db(number, db).get(id);
        let key = Name::from_slice(record.key.as_bytes());
        let steps = STEPS.min(*budget).max(1);
        let taken = self.step_jobs(number, db, &key, id, until, steps);
        *budget = budget.saturating_sub(taken);
        let retry_ms = until.read_ms() + self.retry_delay_ms(&key);
        if let Some(jobs) = self.jobs_at(number, db, id)
            && jobs.has_leaving()
        {
            // The timer fires again if the jobs are not moved after this step.
            jobs.retry_at(retry_ms);
            self.dead_letters.push((db, key[..].into()));
        }
        self.note_ready(db, &key);
        self.shard_db(number, db).rearm(id);
    }

    /// Takes up to `steps` due steps in a queue. Returns the number of steps taken.
    fn step_jobs(
        &mut self,
        number: usize,
        db: usize,
        key: &[u8],
        id: RecordId,
        now: Now,
        steps: usize,
    ) -> usize {
        let (mut moved, mut taken, mut last_ms) = (0, 0, 0);
        let mut due: Vec<Box<[u8]>> = Vec::new();
        let notes_due = self.logged && self.recorder.classes.intersects(Classes::GENERIC);
        while taken < steps
            && let Some(jobs) = self.jobs_at(number, db, id)
        {
            match jobs.step(now) {
                Step::Idle => break,
                Step::Moved(index, due_ms) => {
                    moved += 1;
                    last_ms = last_ms.max(due_ms);
                    if notes_due {
                        due.push(jobs.get(index).name().into());
                    }
                    self.sink.became_due(now, due_ms);
                }
                Step::Removed(job) => {
                    self.expiry_effect(db, &[b"JOB", b"DEL", key, &job]);
                    self.commit_expiry(db, key, Classes::GENERIC, "jobdel", None);
                }
                Step::Died(index) => {
                    let bytes = written(jobs.get(index));
                    self.stats.jobs_died += 1;
                    self.expiry_effect(db, &[b"JOB", b"PUT", key, &bytes]);
                    self.commit_expiry(db, key, Classes::GENERIC, "jobdead", None);
                }
            }
            taken += 1;
        }
        self.stats.jobs_moved += moved;
        if moved > 0 {
            // The key has changed for clients that watch or cache it, also if nothing is logged.
            let events = self.recorder.events.len();
            self.recorder.due_ms = Some(last_ms);
            self.commit_expiry(db, key, Classes::GENERIC, "jobready", None);
            self.recorder.due_ms = None;
            if self.recorder.events.len() > events {
                self.log_due(db, key, now, &due);
            }
        }
        taken
    }

    /// Adds JOB DUE as an effect, which repeats moves of jobs. Without it, a restart or a promotion
    /// would make the moves again, and append another entry of NOTIFY for their event. A rule that
    /// is set later gets no event of these moves ([`Rule::since_ms`]).
    ///
    /// [`Rule::since_ms`]: crate::keyspace::notify::Rule::since_ms
    fn log_due(&mut self, db: usize, key: &[u8], now: Now, due: &[Box<[u8]>]) {
        let mut buffer = itoa::Buffer::new();
        let at = buffer.format(now.read_ms()).as_bytes();
        let mut words: Vec<&[u8]> = vec![b"JOB", b"DUE", key, at];
        words.extend(due.iter().map(|id| &**id));
        self.expiry_effect(db, &words);
    }

    /// Takes due steps in a queue that a command has looked up, unless the turn is frozen. The
    /// maximum number of steps is the greater of `count` and [`STEPS`].
    pub(crate) fn settle_jobs(
        &mut self,
        number: usize,
        db: usize,
        key: &[u8],
        id: RecordId,
        count: usize,
    ) {
        let now = self.now;
        if self.frozen {
            return;
        }
        self.deadlines_may_change(Touched::One(db));
        self.step_jobs(number, db, key, id, now, count.max(STEPS));
        self.shard_db(number, db).rearm(id);
    }

    /// Moves up to [`LEAVING`] dead jobs of a queue to their other queues. Locks the shards of both
    /// queues.
    pub(super) fn move_dead_jobs(&mut self, db: usize, key: &[u8]) {
        let number = self.store.shard_of(key);
        self.lock_one(number);
        if self.store.moves(key) {
            return;
        }
        let mut leaving: Vec<LeavingJob> = Vec::new();
        if let Some(id) = self.find_live::<Jobs>(number, db, key)
            && let Some(jobs) = Jobs::of(&self.shard_db(number, db).get(id).value)
        {
            for index in jobs.leaving(LEAVING) {
                let job = jobs.get(index);
                let to = job.details().dead.unwrap_or_default();
                leaving.push((job.name().into(), to.into()));
            }
        }
        if leaving.is_empty() {
            return;
        }
        for (job, to) in &leaving {
            self.lock_keys([key, to].into_iter());
            self.deadlines_may_change(Touched::One(db));
            self.framed(|turn| turn.move_job(db, key, job, to));
        }
        self.lock_one(number);
        self.deadlines_may_change(Touched::One(db));
        if let Some(id) = self.find_live::<Jobs>(number, db, key) {
            if let Some(jobs) = self.jobs_at(number, db, id) {
                jobs.retry_at(0);
            }
            self.shard_db(number, db).rearm(id);
        }
    }

    /// Moves one dead job to the queue `to`, where it is due now and its number of attempts starts
    /// at 0. If `to` is a key of another type, the job stays dead in its own queue. Returns `None`
    /// if the job was not moved; it may have changed while the shard was unlocked.
    fn move_job(&mut self, db: usize, key: &[u8], name: &[u8], to: &[u8]) -> Option<()> {
        let (now, number, other) = (self.now, self.store.shard_of(key), self.store.shard_of(to));
        let id = self.find_live::<Jobs>(number, db, key)?;
        let jobs = self.jobs_at(number, db, id)?;
        let mut job = jobs.get(jobs.find(name)?).clone();
        let old = job.clone();
        if job.state != State::Dead || old.details().dead != Some(to) {
            return None;
        }
        let (target, _) = self.find_or_add(other, db, to, Jobs::default);
        if self.jobs_at(other, db, target).is_none() {
            job.set_details(&Details {
                dead: None,
                error: Some(b"the queue for dead jobs is a key of another type"),
                ..old.details()
            });
            let bytes = written(&job);
            self.jobs_at(number, db, id)?.put(job);
            self.commit_silently(db, key, 1);
            self.effect(db, [&b"JOB"[..], b"PUT", key, &bytes].iter());
            return None;
        }
        let draws = &self.store.draws;
        let queue = self.jobs_at(other, db, target)?;
        // If the other queue has a job with the same ID, the moved job gets a new ID.
        let new_id = match queue.find(name) {
            Some(_) => queue.new_id(now, || draws.generator().random()),
            None => name.into(),
        };
        let details = Details {
            id: &new_id,
            dead: None,
            expires_ms: None,
            unique_ms: 0,
            from: Some(key),
            ..old.details()
        };
        let index = queue.add(&details, old.priority, now.read_ms(), now);
        let bytes = written(queue.get(index));
        self.shard_db(other, db).rearm(target);
        self.commit(db, to, Classes::GENERIC, "jobadd", 1);
        self.effect(db, [&b"JOB"[..], b"PUT", to, &bytes].iter());
        if let Some(jobs) = self.jobs_at(number, db, id)
            && let Some(index) = jobs.find(name)
        {
            jobs.remove(index);
        }
        self.commit(db, key, Classes::GENERIC, "jobdel", 1);
        self.effect(db, [&b"JOB"[..], b"DEL", key, name].iter());
        Some(())
    }
}
