//! Pending entries that XREADGROUP with `>` delivers again before new entries: entries whose lease
//! has ended (XGROUP SETLEASE), and with `CLAIM min-idle` (Redis 8.4) entries that have been idle
//! for at least that time.
//!
//! As in Redis 8.4, the entries come in the order of their last deliveries and count towards COUNT,
//! and NOACK does not apply to them. With CLAIM, each entry of the reply also has the time since
//! its last delivery and the number of its earlier deliveries; both are 0 for a new entry. CLAIM
//! has no effect for an ID other than `>`. The effect of a take-over is XCLAIM. A pending entry
//! that was deleted from the stream is acknowledged, as with XAUTOCLAIM.

use punctual_resp::{Args, Reply};
use smallvec::SmallVec;

use super::effects::log_claims;
use super::read::Reader;
use super::reply::{reply_body, reply_id};
use crate::error::Error;
use crate::keyspace::records::Id as RecordId;
use crate::turn::cx::Place;
use crate::value::stream::{Id, Pending, Stream};

/// Parses the idle time of CLAIM, the argument at `at`, in ms.
pub(super) fn min_idle(args: Args, at: usize) -> Result<u64, Error> {
    let ms = punctual_resp::decimal::parse_i64(&args[at])
        .ok_or(Error::fixed("ERR min-idle-time is not an integer"))?;
    u64::try_from(ms).map_err(|_| Error::fixed("ERR min-idle-time must be a positive integer"))
}

/// Writes an entry; with CLAIM also the time in ms since its last delivery, and the number of its
/// earlier deliveries.
pub(super) fn reply_delivered(
    reply: &mut Reply,
    entry: &punctual_rdb::stream::Entry<'_>,
    claim: bool,
    idle_ms: u64,
    deliveries: u32,
) {
    reply.array(if claim { 4 } else { 2 });
    reply_body(reply, entry);
    if claim {
        reply.int(i64::try_from(idle_ms).unwrap_or(i64::MAX));
        reply.int(deliveries.into());
    }
}

impl Reader<'_, '_, '_> {
    /// Replies with pending entries and assigns them to the consumer. Finds the entries in the
    /// group's timeline, which has the pending entries in the order of their delivery times.
    /// Returns the number of entries.
    pub(super) fn take_over(
        &mut self,
        key: &[u8],
        (place, record): (Place, RecordId),
        number: u32,
        reply: &mut Reply,
    ) -> Result<usize, Error> {
        let now = self.cx.now();
        let stream = self.cx.edit::<Stream>(place, record)?;
        if self.claim.is_some() {
            stream.expect_timelines();
            if let Some(group) = stream.group_mut(self.group) {
                group.make_timeline();
            }
        }
        let Some(group) = stream.group(self.group) else {
            return Ok(0);
        };
        let Some(timeline) = group.timeline() else {
            return Ok(0);
        };
        let delivered_ms = group.delivery_ms(now);
        let mut taken: SmallVec<[Pending; 16]> = SmallVec::new();
        let mut gone: Vec<Id> = Vec::new();
        for entry in timeline.claimable(now, self.claim) {
            if taken.len() == self.count {
                break;
            }
            let Some(before) = group.pending().get(entry.id) else {
                continue;
            };
            let Some(body) = stream.get(entry.id) else {
                gone.push(entry.id);
                continue;
            };
            let idle_ms = now.read_ms().saturating_sub(before.delivered_ms);
            let (claim, deliveries) = (self.claim.is_some(), before.deliveries);
            let write =
                |reply: &mut Reply| reply_delivered(reply, &body, claim, idle_ms, deliveries);
            if !self.budget.add(reply, write) {
                break;
            }
            taken.push(Pending {
                id: entry.id,
                delivered_ms,
                deliveries: before.deliveries.saturating_add(1),
                consumer: number,
            });
        }
        if taken.is_empty() && gone.is_empty() {
            return Ok(0);
        }
        let last = group.last_id;
        let Some(group) = stream.group_mut(self.group) else {
            return Ok(0);
        };
        for id in &gone {
            group.acknowledge(*id);
        }
        for entry in &taken {
            group.assign(*entry);
        }
        if !taken.is_empty() {
            group.consumer_mut(number).active_ms = Some(now.read_ms());
        }
        self.cx.turn.stats.redelivered += taken.len() as u64;
        self.cx.turn.commit_group(self.cx.db, key, None, 1);
        if self.cx.is_logged() {
            if !gone.is_empty() {
                let ids: Vec<Vec<u8>> = gone.iter().map(|id| id.text()).collect();
                let mut words: Vec<&[u8]> = vec![b"XACK", key, self.group];
                words.extend(ids.iter().map(Vec::as_slice));
                self.cx.effect(&words);
            }
            let entries = taken.iter().map(|e| (e.id, e.delivered_ms, e.deliveries));
            log_claims(self.cx, key, self.group, self.consumer, last, entries);
        }
        Ok(taken.len())
    }
}

/// Writes the ID of a deleted entry, and a null array in place of its fields.
pub(super) fn reply_deleted(reply: &mut Reply, id: Id) {
    reply.array(2);
    reply_id(reply, id);
    reply.null_array();
}
