//! Queues of jobs in snapshots: what the queue is, then each job.

use punctual_rdb::{Encoder, Source};

use super::{Job, Jobs, NUMBER_MAX, Totals};
use crate::value::decode::Unreadable;
use crate::value::keyed::{Element as _, hash_of};
use crate::value::varint::{Input, write_number};

impl Jobs {
    /// Appends the queue without its type. O(bytes).
    pub(crate) fn write(&self, to: &mut Encoder, out: &mut Vec<u8>) {
        self.write_start(to, out);
        let mut bytes = Vec::new();
        for job in self.iter() {
            write_job(to, out, job, &mut bytes);
        }
        to.jobs_end(out);
    }

    fn write_start(&self, to: &mut Encoder, out: &mut Vec<u8>) {
        to.jobs(out, self.len() as u64 + 1);
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
        to.job(out, &start);
    }

    /// Reads the queue. O(bytes · log jobs).
    ///
    /// # Errors
    /// [`Unreadable`].
    pub(crate) fn read<S: Source>(
        mut parts: punctual_rdb::Jobs<'_, S>,
    ) -> Result<Self, Unreadable<S::Error>> {
        let mut jobs = Self::default();
        let start = parts.next()?.ok_or(Unreadable::Jobs)?;
        let read = start.with_text(|text| jobs.read_start(text));
        read.ok_or(Unreadable::Jobs)?;
        while let Some(part) = parts.next()? {
            let job = part.with_text(Job::read).ok_or(Unreadable::Jobs)?;
            let hash = hash_of(job.name());
            if jobs.jobs.find(hash, job.name()).is_some() {
                return Err(Unreadable::Elements);
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

    /// Begins a snapshot's walk. O(jobs / 64).
    pub(crate) fn begin_walk(&mut self, to: &mut Encoder, out: &mut Vec<u8>) {
        self.write_start(to, out);
        self.jobs.begin_walk();
    }

    /// Appends jobs of the walk until `out` has `full` bytes, and at last the end. Returns true at the end.
    pub(crate) fn walk_on(&mut self, to: &mut Encoder, out: &mut Vec<u8>, full: usize) -> bool {
        if !self.jobs.is_walked() {
            return true;
        }
        let mut bytes = Vec::new();
        let ended = self.jobs.walk(|job| {
            write_job(to, out, job, &mut bytes);
            out.len() < full
        });
        if ended {
            to.jobs_end(out);
        }
        ended
    }

    /// Ends a snapshot's walk.
    pub(crate) fn end_walk(&mut self) {
        self.jobs.end_walk();
    }
}

fn write_job(to: &mut Encoder, out: &mut Vec<u8>, job: &Job, bytes: &mut Vec<u8>) {
    bytes.clear();
    job.write(bytes);
    to.job(out, bytes);
}
