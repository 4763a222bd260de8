//! Timers of values with a *timeline*: times at which something in the value is due. These are
//! hashes, sets and sorted sets whose elements have deadlines, streams, and queues of jobs. Each
//! such value has at most one timer.
//!
//! Invariant: a value with a next deadline has a timer in `values` that is armed at that deadline
//! or earlier. A change that makes the next deadline earlier (an element gets a deadline, an entry
//! or job is added or delivered, a setting changes) must call [`Db::rearm`]. A change that makes it
//! later (an element, entry or job is removed) need not: the timer then fires early, nothing is
//! due, and expiry arms the timer again.

use super::Db;
use crate::keyspace::records::{Id, Record};
use crate::keyspace::value_timers::{OF_VALUE, ValueTimer};
use crate::planted::Bug;
use crate::value::deadlines::Deadlines;
use crate::value::jobs::Jobs;
use crate::value::stream::Stream;
use crate::value::{Kind, Value};

/// Numbers of fields and members with a deadline in a database.
#[derive(Default)]
pub(super) struct Parts {
    all: usize,
    fields: usize,
}

impl Parts {
    /// Counts `now` deadlines of a value instead of `before`.
    fn change(&mut self, value: &Value, before: usize, now: usize) {
        self.all = self.all + now - before;
        if let Value::Hash(_) = value {
            self.fields = self.fields + now - before;
        }
    }

    /// Counts the deadlines that the elements of a collection have got or lost.
    fn renew(&mut self, value: &mut Value) {
        if let Some(deadlines) = value.content_mut().deadlines_mut() {
            let (before, now) = (deadlines.count(), deadlines.len());
            self.change(value, before, now);
        }
    }

    /// Counts the deadlines of a value no longer.
    fn forget(&mut self, value: &Value) {
        let counted = value.deadlines().map_or(0, Deadlines::counted);
        self.change(value, counted, 0);
    }
}

impl Db {
    /// Returns the stream of a record for a change that a snapshot's walk need not see: of the
    /// timer or the timelines, which a snapshot does not contain.
    fn stream_bypassing_walk(&mut self, id: Id) -> Option<&mut Stream> {
        Stream::of_mut(&mut self.records.get_mut(id)?.value)
    }

    /// Arms the timer of a value at its next deadline, or disarms it without one. O(1) for a
    /// collection with deadlines of elements, for a queue, and for a stream without settings,
    /// O(groups · log pending) for a stream with settings.
    #[inline]
    pub(crate) fn rearm(&mut self, id: Id) {
        let Some(record) = self.records.get_mut(id) else {
            return;
        };
        if let Some((timer, deadline)) = record.value.timeline() {
            if record.value.deadlines().is_some() {
                self.parts.renew(&mut record.value);
            }
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
                let timer = self.arm(id, deadline);
                self.note_timer(id, Some(timer));
            }
            (Some(timer), Some(deadline)) => {
                let armed = self.values.get(timer).map(|armed| armed.deadline);
                if armed != Some(deadline) {
                    let earlier = armed.is_none_or(|armed| deadline < armed);
                    self.move_timer(timer, deadline, earlier);
                }
            }
            (Some(timer), None) => {
                self.disarm(timer);
                self.note_timer(id, None);
            }
        }
    }

    /// Moves a timer to another deadline; `earlier` says whether it is earlier than the old one.
    /// O(1): a later deadline only rewrites the timer.
    fn move_timer(&mut self, timer: u32, deadline: u64, earlier: bool) {
        let stamp = self.next_stamp();
        let armed = self.values.get_mut(timer);
        let armed = armed.expect("a deadline in a database has its timer");
        armed.deadline = deadline;
        if earlier {
            armed.stamp = stamp;
            self.wheel.insert(deadline, timer | OF_VALUE, stamp.get());
            self.forget_entry();
        }
    }

    /// Arms a timer for a value. O(1).
    fn arm(&mut self, record: Id, deadline: u64) -> u32 {
        let stamp = self.next_stamp();
        let timer = self.values.insert(ValueTimer {
            deadline,
            stamp,
            record,
        });
        assert!(timer < OF_VALUE, "2^31 values with timers in one database");
        self.wheel.insert(deadline, timer | OF_VALUE, stamp.get());
        timer
    }

    /// Removes a timer. O(1).
    fn disarm(&mut self, timer: u32) {
        let timer = self.values.remove(timer);
        debug_assert!(timer.is_some(), "a deadline has its timer");
        self.forget_entry();
    }

    /// Arms the timer of a value that was added. O(1).
    pub(super) fn arm_value(&mut self, id: Id) {
        let Some(record) = self.records.get_mut(id) else {
            return;
        };
        match &mut record.value {
            Value::Str(_) | Value::List(_) => {}
            Value::Timer(_) => {
                self.timers.insert((record.deadline, id));
            }
            value => {
                // The value may come from another database and still have the number of its timer
                // in that database.
                if value.timeline_timer().is_some() {
                    value.content_mut().set_timer(None);
                }
                if let Value::Jobs(_) = value {
                    self.queues.insert(id);
                }
                self.rearm(id);
            }
        }
    }

    /// Removes the timer of a value that was removed. O(1).
    pub(super) fn disarm_value(&mut self, value: &Value) {
        if let Some(timer) = value.timeline_timer() {
            self.disarm(timer);
            if !Bug::ElementsStayCounted.is_active() {
                self.parts.forget(value);
            }
        }
    }

    /// Returns the number of fields and members with a deadline.
    pub fn parts_with_deadline(&self) -> usize {
        self.parts.all
    }

    /// Returns the number of fields with a deadline.
    pub fn fields_with_deadline(&self) -> usize {
        self.parts.fields
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

    /// Removes a timer that has fired. Returns the record of its value. The deadlines of the value
    /// count as removed until the timer is armed again.
    pub(super) fn timeline_fired(&mut self, timer: u32) -> Id {
        let id = self.values.get(timer).expect("it was due").record;
        self.values.remove(timer);
        if let Some(record) = self.records.get(id) {
            self.parts.forget(&record.value);
        }
        self.note_timer(id, None);
        id
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
