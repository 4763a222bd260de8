//! What is due in queues of jobs.
//!
//! Ground rules: the wheel fires a queue's timer under the lock of its shard ([`Turn::jobs_due`]),
//! which takes some steps ([`Jobs::step`]) and tells the workers that wait. A command takes steps
//! before it looks ([`Turn::settle_jobs`]). What a time that has come means for a job is a matter
//! of its record (`value/jobs.rs`), so the log has no word of it; removals and deaths are logged. A
//! job that goes to another queue may go to another shard: it waits as `leaving` until the expiry
//! step is done, as the entries for dead-letter streams do.
//!
//! The log knows three commands beside those of clients: JOB PUT with a whole job, JOB LEASED, and
//! JOB DEL.

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

/// Number of steps that a queue takes before others follow.
const STEPS: usize = 64;
/// Number of jobs that leave a queue for others before others follow.
const LEAVING: usize = 64;

/// A job on its way: its ID, and the queue that it goes to.
type Leaves = (Box<[u8]>, Box<[u8]>);

/// Returns a job as the log has it.
pub(crate) fn written(job: &Job) -> Vec<u8> {
    let mut out = Vec::new();
    job.write(&mut out);
    out
}

/// Numbers of the jobs in some queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobCounts {
    /// Queues.
    pub queues: u64,
    /// Jobs that are ready.
    pub ready: u64,
    /// Jobs that wait for their time.
    pub delayed: u64,
    /// Jobs that workers have.
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

/// A count of the jobs in all databases, which goes on where its last step has ended.
#[derive(Clone, Debug, Default)]
pub struct JobCensus {
    counted: JobCounts,
    /// Shard, database and record of the next step.
    next: (usize, usize, RecordId),
}

impl Turn<'_> {
    /// Counts up to `most` queues. Locks one shard after the other. Returns the counts at the end
    /// of the last shard, from where the next step begins anew. Between two steps jobs may move on,
    /// so the counts are those of one instant only if one step is enough. O(shards · databases +
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
    /// That of `visit`, which ends the walk.
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

    /// Calls `visit` with a queue, if there is one of this name. Locks its shard.
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

    /// Does what is due in a queue whose timer has fired, and arms the timer again.
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
        if let Some(jobs) = self.jobs_at(number, db, id)
            && jobs.has_leaving()
        {
            // If nobody gets to them.
            jobs.retry_at(until.read_ms() + 1);
            self.dead_letters.push((db, key[..].into()));
        }
        self.note_ready(db, &key);
        self.shard_db(number, db).rearm(id);
    }

    /// Takes steps that are due in a queue, at most `steps`. Returns their number.
    fn step_jobs(
        &mut self,
        number: usize,
        db: usize,
        key: &[u8],
        id: RecordId,
        now: Now,
        steps: usize,
    ) -> usize {
        let (mut moved, mut taken) = (0, 0);
        while taken < steps
            && let Some(jobs) = self.jobs_at(number, db, id)
        {
            match jobs.step(now) {
                Step::Idle => break,
                Step::Moved(due_ms) => {
                    moved += 1;
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
            // Nobody need be told by the log, but whoever watches the key, or keeps replies about
            // it, must be.
            self.commit_expiry(db, key, Classes::GENERIC, "jobready", None);
        }
        taken
    }

    /// Takes steps in a queue that a command has met and that may have some, unless the turn is
    /// frozen: `count`, or some if that is fewer.
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
        self.touch(Touched::One(db));
        self.step_jobs(number, db, key, id, now, count.max(STEPS));
        self.shard_db(number, db).rearm(id);
    }

    /// Moves jobs that are on the way from a queue to others, up to some. Both shards are locked.
    pub(super) fn move_dead_jobs(&mut self, db: usize, key: &[u8]) {
        let number = self.store.shard_of(key);
        self.lock_one(number);
        let mut leaving: Vec<Leaves> = Vec::new();
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
            self.touch(Touched::One(db));
            self.framed(|turn| turn.move_job(db, key, job, to));
        }
        self.lock_one(number);
        self.touch(Touched::One(db));
        if let Some(id) = self.find_live::<Jobs>(number, db, key) {
            if let Some(jobs) = self.jobs_at(number, db, id) {
                jobs.retry_at(0);
            }
            self.shard_db(number, db).rearm(id);
        }
    }

    /// Moves one job to the queue `to`, where it is due now, without its number of attempts. If
    /// that key holds something else, the job stays among the dead ones of its own queue. Returns
    /// `None` if the job has not moved: it may be gone, because others had the lock between the
    /// looks.
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
        // An ID that is taken there may not hide the job.
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
