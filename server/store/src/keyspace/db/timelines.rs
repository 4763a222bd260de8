//! Timers of values with a *timeline*: streams and queues of jobs, in which entries or jobs are due
//! at certain times. Each such value has at most one timer.
//!
//! Invariant: a value with a next deadline has a timer in `fields` that is armed at that deadline
//! or earlier. A change that makes the next deadline earlier (an entry or job is added or
//! delivered, a setting changes) must call [`Db::rearm`]. A change that makes it later (an entry or
//! job is acknowledged or removed) need not: the timer then fires early, nothing is due, and expiry
//! arms the timer again.

use super::Db;
use crate::keyspace::field_timers::WHOLE;
use crate::keyspace::records::{Id, Record};
use crate::value::jobs::Jobs;
use crate::value::stream::Stream;
use crate::value::{Kind, Value};

impl Db {
    /// Returns the stream of a record for a change that a snapshot's walk need not see: of the
    /// timer or the timelines, which a snapshot does not contain.
    fn stream_bypassing_walk(&mut self, id: Id) -> Option<&mut Stream> {
        Stream::of_mut(&mut self.records.get_mut(id)?.value)
    }

    /// Arms the timer of a value at its next deadline, or disarms it without one. O(1) for a queue
    /// and for a stream without settings, O(groups · log pending) for a stream with settings.
    #[inline]
    pub(crate) fn rearm(&mut self, id: Id) {
        let value = self.records.get_mut(id).map(|record| &mut record.value);
        if let Some((timer, deadline)) = value.and_then(Value::timeline) {
            self.set_timeline(id, timer, deadline);
        }
    }

    /// Stores the number of a value's timer in the value. Snapshots do not contain the number.
    fn note_timer(&mut self, id: Id, timer: Option<u32>) {
        if let Some(record) = self.records.get_mut(id) {
            record.value.content_mut().set_timer(timer);
        }
    }

    fn set_timeline(&mut self, id: Id, timer: Option<u32>, deadline: Option<u64>) {
        match (timer, deadline) {
            (None, None) => {}
            (None, Some(deadline)) => {
                let timer = self.arm(id, WHOLE, deadline);
                self.timelines += 1;
                self.note_timer(id, Some(timer));
            }
            (Some(timer), Some(deadline)) => {
                let armed = self.fields.get(timer).map(|armed| armed.deadline);
                if armed != Some(deadline) {
                    let earlier = armed.is_none_or(|armed| deadline < armed);
                    self.move_timer(timer, deadline, earlier);
                }
            }
            (Some(timer), None) => {
                self.timelines -= 1;
                self.disarm([timer]);
                self.note_timer(id, None);
            }
        }
    }

    /// Removes the timer of a value that was removed.
    pub(super) fn disarm_timeline(&mut self, value: &Value) {
        if let Some(timer) = value.timeline_timer() {
            self.timelines -= 1;
            self.disarm([timer]);
        }
    }

    /// Returns the queues of jobs with the index `id` or a greater one, ascending.
    pub(crate) fn queues_from(&self, id: Id) -> impl Iterator<Item = (Id, &Record, &Jobs)> {
        let queues = self.queues.range(id..).map(|id| (*id, self.get(*id)));
        queues.filter_map(|(id, record)| Some((id, record, Jobs::of(&record.value)?)))
    }

    /// Returns the number of queues of jobs.
    pub fn queue_count(&self) -> usize {
        self.queues.len()
    }

    /// Removes a timer that has fired. Returns the record of its value.
    pub(super) fn timeline_fired(&mut self, timer: u32) -> Id {
        let timer = self.fields.remove(timer).expect("it was due");
        self.timelines -= 1;
        self.note_timer(timer.record, None);
        timer.record
    }

    /// Notes that a waiting reader claims entries of a group that have been idle for `idle_ms`.
    /// Arms the stream's timer. Returns `None` if the group does not exist.
    pub(crate) fn expect_claims(&mut self, id: Id, group: &[u8], idle_ms: u64) -> Option<()> {
        let stream = self.stream_bypassing_walk(id)?;
        stream.group(group)?;
        stream.expect_timelines();
        let claims = &mut stream.group_mut(group)?.make_timeline().claims;
        if !claims.contains(&idle_ms) {
            claims.push(idle_ms);
        }
        self.rearm(id);
        Some(())
    }

    /// Calls `act` with the name and the timeline of each group of a stream. `act` may change the
    /// timeline, which a snapshot does not contain.
    pub(crate) fn timelines(
        &mut self,
        id: Id,
        mut act: impl FnMut(&[u8], &mut crate::value::stream::Timeline),
    ) {
        if let Some(stream) = self.stream_bypassing_walk(id) {
            stream.each_timeline(&mut act);
        }
    }
}
