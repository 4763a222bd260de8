//! Streams in a database: their timers.
//!
//! Invariant: a stream whose next deadline is known has a timer in `fields` that is armed at that deadline or earlier. Changes that make
//! the deadline earlier call [`Db::rearm_stream`] (entries that are added or delivered, settings). Those that make it later
//! (entries that are acknowledged or removed) need not: the timer then fires early, finds nothing due, and is armed anew, at most once for each
//! time that it was armed.

use super::Db;
use crate::keyspace::field_timers::WHOLE;
use crate::keyspace::records::Id;
use crate::value::stream::Stream;
use crate::value::{Kind, Value};

impl Db {
    /// Returns the stream of a record without noting a change: for its timer, and for what is no part of a snapshot.
    fn stream_beside(&mut self, id: Id) -> Option<&mut Stream> {
        Stream::of_mut(&mut self.records.get_mut(id)?.value)
    }

    /// Arms a stream's timer at its next deadline. O(1) if the stream has no settings, else O(groups · log pending).
    #[inline]
    pub(crate) fn rearm_stream(&mut self, id: Id) {
        if let Some(Value::Stream(stream)) = self.records.get(id).map(|record| &record.value)
            && stream.is_timed()
        {
            let (deadline, timer) = (stream.next_deadline(), stream.timer());
            self.set_stream_deadline(id, timer, deadline);
        }
    }

    fn set_stream_deadline(&mut self, id: Id, timer: Option<u32>, deadline: Option<u64>) {
        match (timer, deadline) {
            (None, None) => {}
            (None, Some(deadline)) => {
                let timer = self.arm(id, WHOLE, deadline);
                self.stream_timers += 1;
                if let Some(stream) = self.stream_beside(id) {
                    stream.set_timer(Some(timer));
                }
            }
            (Some(timer), Some(deadline)) => {
                let armed = self.fields.get(timer).map(|armed| armed.deadline);
                if armed != Some(deadline) {
                    let earlier = armed.is_none_or(|armed| deadline < armed);
                    self.move_timer(timer, deadline, earlier);
                }
            }
            (Some(timer), None) => {
                self.stream_timers -= 1;
                self.disarm([timer]);
                if let Some(stream) = self.stream_beside(id) {
                    stream.set_timer(None);
                }
            }
        }
    }

    /// Removes the timer of a stream that was removed.
    pub(super) fn disarm_stream(&mut self, stream: &Stream) {
        if let Some(timer) = stream.timer() {
            self.stream_timers -= 1;
            self.disarm([timer]);
        }
    }

    /// Removes a timer that has fired. Returns the record of its stream.
    pub(super) fn stream_fired(&mut self, timer: u32) -> Id {
        let timer = self.fields.remove(timer).expect("it was due");
        self.stream_timers -= 1;
        if let Some(stream) = self.stream_beside(timer.record) {
            stream.set_timer(None);
        }
        timer.record
    }

    /// Notes that a reader waits that claims entries of a group which have been idle for `idle_ms`. Arms the stream's timer.
    pub(crate) fn expect_claims(&mut self, id: Id, group: &[u8], idle_ms: u64) {
        let Some(stream) = self.stream_beside(id) else {
            return;
        };
        if stream.group(group).is_none() {
            return;
        }
        stream.expect_timelines();
        if let Some(group) = stream.group_mut(group) {
            let claims = &mut group.make_timeline().claims;
            if !claims.contains(&idle_ms) {
                claims.push(idle_ms);
            }
        }
        self.rearm_stream(id);
    }

    /// Calls `act` with each timeline of a stream, which it may change: they are no part of a snapshot.
    pub(crate) fn timelines(
        &mut self,
        id: Id,
        mut act: impl FnMut(&[u8], &mut crate::value::stream::Timeline),
    ) {
        if let Some(stream) = self.stream_beside(id) {
            stream.each_timeline(&mut act);
        }
    }
}
