//! [`Content`] of queues of jobs, and reading queues from snapshots. A snapshot holds the queue's
//! own fields, then each job.

use punctual_rdb::{Encoder, Kind, Own, OwnParts, Source};

use super::{Job, Jobs, NUMBER_MAX, REFERENCE_BYTES, Totals};
use crate::check::Check;
use crate::value::content::{Content, Facts, LARGE, Read, Unreadable};
use crate::value::digest::Digest;
use crate::value::keyed::{Element as _, hash_of};
use crate::value::varint::{Input, write_number};

/// Error for a queue with malformed parts.
const DAMAGED: &str = "malformed queue of jobs";

const MARKS: u8 = Facts::STAYS_EMPTY + Facts::ACTS + Facts::AWAITED;

impl Content for Jobs {
    #[inline]
    fn facts(&self) -> Facts {
        Facts::new("jobs", Facts::MODULE, MARKS)
    }

    #[inline]
    fn elements(&self) -> usize {
        self.len()
    }

    /// O(jobs).
    fn heap_bytes(&self) -> usize {
        let references = self.len() + self.expiring.len();
        let jobs: usize = self.iter().map(Job::heap_bytes).sum();
        size_of::<Self>() + self.jobs.memory() + references * REFERENCE_BYTES + jobs
    }

    #[inline]
    fn timeline(&mut self) -> Option<(Option<u32>, Option<u64>)> {
        Some((self.timer, self.changed_deadline()?))
    }

    fn timer(&self) -> Option<u32> {
        self.timer
    }

    fn next_due(&self) -> Option<u64> {
        self.next_deadline()
    }

    fn check(&self, to: &mut Check) {
        self.jobs.check(to);
        self.check_sets(to);
    }

    fn set_timer(&mut self, timer: Option<u32>) {
        self.timer = timer;
    }

    fn write(&self, to: &mut Encoder, out: &mut Vec<u8>) {
        self.write_start(to, out);
        let mut bytes = Vec::new();
        for job in self.iter() {
            write_job(to, out, job, &mut bytes);
        }
        to.own_end(out);
    }

    fn is_large(&self) -> bool {
        self.len() >= LARGE
    }

    fn begin_walk(&mut self, to: &mut Encoder, out: &mut Vec<u8>) {
        self.write_start(to, out);
        self.jobs.begin_walk();
    }

    fn walk_on(&mut self, _: Kind, to: &mut Encoder, out: &mut Vec<u8>, full: usize) -> bool {
        if !self.jobs.is_walked() {
            return true;
        }
        let mut bytes = Vec::new();
        let ended = self.jobs.walk(|job, _| {
            write_job(to, out, job, &mut bytes);
            out.len() < full
        });
        if ended {
            to.own_end(out);
        }
        ended
    }

    fn end_walk(&mut self) {
        self.jobs.end_walk();
    }

    fn digest(&self, to: &mut Digest) {
        let mut bytes = Vec::new();
        for job in self.iter() {
            bytes.clear();
            job.write(&mut bytes);
            to.add(&bytes);
        }
    }
}

impl Jobs {
    fn write_start(&self, to: &mut Encoder, out: &mut Vec<u8>) {
        to.own_parts(out, Own::Jobs, self.len() as u64 + 1);
        let mut start = vec![u8::from(self.paused)];
        let Totals {
            added,
            taken,
            done,
            failed,
            died,
        } = self.totals;
        for number in [
            self.last,
            self.order.into(),
            added,
            taken,
            done,
            failed,
            died,
        ] {
            write_number(&mut start, number);
        }
        to.own_part(out, &start);
    }

    /// Reads a queue from a snapshot. O(bytes · log jobs).
    ///
    /// # Errors
    /// [`Unreadable`].
    pub(crate) fn read<S: Source>(mut parts: OwnParts<'_, S>) -> Read<Self, S> {
        let mut jobs = Self::default();
        let start = parts.next()?.ok_or(Unreadable::Content(DAMAGED))?;
        let read = start.with_text(|text| jobs.read_start(text));
        read.ok_or(Unreadable::Content(DAMAGED))?;
        while let Some(part) = parts.next()? {
            let job = part
                .with_text(Job::read)
                .ok_or(Unreadable::Content(DAMAGED))?;
            let hash = hash_of(job.name());
            if jobs.jobs.find(hash, job.name()).is_some() {
                return Err(Unreadable::ELEMENTS);
            }
            jobs.insert(hash, job);
        }
        Ok(jobs)
    }

    fn read_start(&mut self, text: &[u8]) -> Option<()> {
        let mut from = Input(text);
        self.paused = match from.byte()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        self.last = from.number().filter(|last| *last <= NUMBER_MAX)?;
        self.order = u32::try_from(from.number()?).ok()?;
        self.totals = Totals {
            added: from.number()?,
            taken: from.number()?,
            done: from.number()?,
            failed: from.number()?,
            died: from.number()?,
        };
        from.is_empty().then_some(())
    }
}

fn write_job(to: &mut Encoder, out: &mut Vec<u8>, job: &Job, bytes: &mut Vec<u8>) {
    bytes.clear();
    job.write(bytes);
    to.own_part(out, bytes);
}
