//! JOB TAKE.
//!
//! The command takes jobs of the queues in the order of the arguments, so an earlier queue has
//! priority. If no queue has a ready job, a client with BLOCK waits, and the command runs again
//! when a queue has a ready job.

use punctual_resp::{Args, Reply};
use smallvec::SmallVec;

use super::add::millis;
use super::{TAKE_OPTIONS, effects, queue};
use crate::arguments::{block_deadline, int, is};
use crate::error::Error;
use crate::keyspace::records::Id as RecordId;
use crate::keyspace::waiters::{Wait, WaitCondition};
use crate::spec::until;
use crate::turn::Cx;
use crate::turn::cx::Place;
use crate::value::jobs::Jobs;
use crate::value::keyed::Element as _;

/// Maximum number of jobs that one call takes.
const COUNT_MAX: usize = 10_000;

/// A job that the command has leased, for the reply.
struct Taken<'a> {
    key: &'a [u8],
    found: (Place, RecordId),
    index: u32,
    due_ms: u64,
}

pub(super) fn take(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let keys = until(args, 2, TAKE_OPTIONS);
    let (mut count, mut block, mut lease_ms) = (1, None, None);
    let mut at = keys.end;
    while at < args.len() {
        let value = args.get(at + 1).ok_or(Error::Syntax)?;
        if is(&args[at], "COUNT") {
            let number = usize::try_from(int(value)?).ok();
            count = number
                .filter(|n| (1..=COUNT_MAX).contains(n))
                .ok_or(Error::fixed("ERR COUNT is a number from 1 to 10000"))?;
        } else if is(&args[at], "BLOCK") {
            block = Some(block_deadline(cx.now(), value)?);
        } else if is(&args[at], "LEASE") {
            lease_ms = Some(millis(value, 1)?);
        } else {
            return Err(Error::Syntax);
        }
        at += 2;
    }
    let mut queues: SmallVec<[(&[u8], Place, RecordId); 4]> = SmallVec::new();
    for at in keys.clone() {
        let key = args.at(at);
        let (place, found) = queue(cx, key, count)?;
        if let Some(record) = found {
            queues.push((key, place, record));
        }
    }
    let now = cx.now();
    let mut taken: SmallVec<[Taken<'_>; 4]> = SmallVec::new();
    for (key, place, record) in queues {
        // `timed`: the queue's timer fires early enough for every job that is taken.
        let (first, mut timed) = (taken.len(), true);
        // Looks for a job before the edit, because an edit may make a running snapshot write the
        // queue early.
        while taken.len() < count
            && let Some(index) = cx.view::<Jobs>(place, record)?.next_ready(now)
        {
            let jobs = cx.edit::<Jobs>(place, record)?;
            let due_ms = jobs.take(index, now, lease_ms);
            timed &= jobs.is_timed(index);
            taken.push(Taken {
                key,
                found: (place, record),
                index,
                due_ms,
            });
        }
        if taken.len() > first {
            if !timed {
                cx.rearm(place, record);
            }
            let indexes = taken[first..].iter().map(|job| job.index);
            effects::log_leases(cx, place, record, key, indexes)?;
            cx.commit_silently(key, (taken.len() - first) as u64);
        }
    }
    if taken.is_empty() {
        if let Some(deadline_ms) = block.filter(|_| cx.turn.may_wait()) {
            cx.turn.wait = Some(Wait::new(WaitCondition::Jobs, keys, deadline_ms));
        } else {
            reply.null_array();
        }
        return Ok(());
    }
    reply.array(taken.len());
    for Taken {
        key,
        found: (place, record),
        index,
        due_ms,
    } in taken
    {
        let job = cx.view::<Jobs>(place, record)?.get(index);
        reply.array(6);
        reply.bulk(key);
        reply.bulk(job.name());
        reply.int(job.token.cast_signed());
        reply.int(job.attempt.into());
        reply.int(due_ms.cast_signed());
        reply.bulk(job.payload());
    }
    Ok(())
}
