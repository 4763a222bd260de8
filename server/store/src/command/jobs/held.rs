//! JOB ACK, NACK and TOUCH, with which a worker reports on the jobs that it has leased.
//!
//! The arguments name each job by its ID and the token of the lease. The commands skip a job whose
//! token is another one: the worker's lease has ended, and another worker may have leased the job.
//! The reply is the number of jobs that were not skipped.

use punctual_resp::decimal::parse_u64;
use punctual_resp::{Args, Reply};
use smallvec::SmallVec;

use super::add::millis;
use super::{effects, queue};
use crate::arguments::is;
use crate::error::Error;
use crate::events::Classes;
use crate::keyspace::records::Id as RecordId;
use crate::turn::Cx;
use crate::turn::cx::Place;
use crate::value::jobs::{Details, Jobs, State, TIME_MAX};

/// A job's ID and token, and the text of the token.
type Pair<'a> = (&'a [u8], u64, &'a [u8]);
type Pairs<'a> = SmallVec<[Pair<'a>; 4]>;

/// Parses pairs of IDs and tokens, up to the first option in `words` or the last argument. Returns
/// the pairs and the position after them.
fn pairs<'a>(args: Args<'a>, words: &[&str]) -> Result<(Pairs<'a>, usize), Error> {
    let (mut pairs, mut at) = (Pairs::new(), 3);
    while at < args.len() && (at == 3 || !words.iter().any(|word| is(&args[at], word))) {
        let text = args.get(at + 1).ok_or(Error::Syntax)?;
        let token = parse_u64(text).ok_or(Error::fixed("ERR a token is a number"))?;
        pairs.push((args.at(at), token, args.at(at + 1)));
        at += 2;
    }
    Ok((pairs, at))
}

/// Finds the queue; returns `None` if it does not exist.
fn held_queue(cx: &mut Cx, key: &[u8]) -> Result<Option<(Place, RecordId)>, Error> {
    let (place, found) = queue(cx, key, 0)?;
    Ok(found.map(|record| (place, record)))
}

pub(super) fn ack(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (pairs, _) = pairs(args, &[])?;
    let (key, now) = (&args[2], cx.now());
    let Some((place, record)) = held_queue(cx, key)? else {
        reply.int(0);
        return Ok(());
    };
    let replays = cx.turn.replays();
    let (mut finished, mut kept) = (Pairs::new(), SmallVec::<[u32; 4]>::new());
    for pair in &pairs {
        let Some(index) = cx.view::<Jobs>(place, record)?.held(pair.0, pair.1, now) else {
            continue;
        };
        let jobs = cx.edit::<Jobs>(place, record)?;
        let (mut keep_until, mut until) = (0, 0);
        if jobs.get(index).has_options() {
            let details = jobs.get(index).details();
            if details.keep_ms > 0 {
                keep_until = now.base_ms().saturating_add(details.keep_ms).min(TIME_MAX);
            }
            until = keep_until.max(details.unique_ms);
        }
        // Nothing is due in a replay. The log has JOB ACK only for jobs that were not kept, so a
        // replay removes the job.
        if until == 0 || now.is_due(until) || replays {
            jobs.finish(index);
            finished.push(*pair);
            continue;
        }
        let mut job = jobs.get(index).clone();
        (job.state, job.at, job.token) = (State::Done, until, 0);
        if keep_until == 0 {
            // UNIQUE without KEEP: only the ID is still needed.
            job.set_details(&Details::new(pair.0, b""));
        }
        kept.push(jobs.put(job));
    }
    let done = finished.len() + kept.len();
    if done > 0 {
        // Without another effect, the client's own command is the effect.
        if finished.len() < pairs.len() && !finished.is_empty() {
            let mut words: Vec<&[u8]> = vec![b"JOB", b"ACK", key];
            words.extend(finished.iter().flat_map(|pair| [pair.0, pair.2]));
            cx.effect(&words);
        }
        // The queue has one timer, for its next due job. If that job is removed, the timer fires
        // without a due job, which does no harm. So the timer is armed again only for kept jobs.
        if !kept.is_empty() {
            cx.rearm(place, record);
        }
        for index in kept {
            effects::log_put(cx, place, record, key, index)?;
        }
        cx.commit_silently(key, done as u64);
    }
    reply.int(done as i64);
    Ok(())
}

pub(super) fn nack(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (pairs, mut at) = pairs(args, &["DELAY", "ERROR"])?;
    let (mut delay, mut error) = (None, None);
    while at < args.len() {
        let value = args.get(at + 1).ok_or(Error::Syntax)?;
        match () {
            () if is(&args[at], "DELAY") => delay = Some(millis(value, 0)?),
            () if is(&args[at], "ERROR") => error = Some(value),
            () => return Err(Error::Syntax),
        }
        at += 2;
    }
    let (key, now) = (&args[2], cx.now());
    let Some((place, record)) = held_queue(cx, key)? else {
        reply.int(0);
        return Ok(());
    };
    let mut failed = 0;
    for (id, token, _) in pairs {
        let Some(index) = cx.view::<Jobs>(place, record)?.held(id, token, now) else {
            continue;
        };
        let jobs = cx.edit::<Jobs>(place, record)?;
        let due_ms = match delay {
            None => jobs.get(index).due_after(now.read_ms()),
            Some(ms) => now.base_ms().saturating_add(ms),
        };
        let job = jobs.failed(index, now.read_ms(), due_ms, error);
        let died = job.state == State::Dead;
        let index = jobs.put(job);
        jobs.note_due(index, now);
        effects::log_put(cx, place, record, key, index)?;
        if died {
            cx.turn.stats.jobs_died += 1;
            cx.announce(Classes::GENERIC, "jobdead", key);
        }
        failed += 1;
    }
    if failed > 0 {
        cx.rearm(place, record);
        cx.commit_silently(key, failed);
    }
    reply.int(failed.cast_signed());
    Ok(())
}

pub(super) fn touch(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (pairs, at) = pairs(args, &["LEASE"])?;
    let lease_ms = match args.len() - at {
        0 => None,
        2 => Some(millis(&args[at + 1], 1)?),
        _ => return Err(Error::Syntax),
    };
    let (key, now) = (&args[2], cx.now());
    let Some((place, record)) = held_queue(cx, key)? else {
        reply.int(0);
        return Ok(());
    };
    let mut touched: SmallVec<[u32; 4]> = SmallVec::new();
    for (id, token, _) in pairs {
        let Some(index) = cx.view::<Jobs>(place, record)?.held(id, token, now) else {
            continue;
        };
        let jobs = cx.edit::<Jobs>(place, record)?;
        let job = jobs.get(index);
        let ms = lease_ms.unwrap_or_else(|| job.lease_ms());
        let (until, attempt) = (now.base_ms().saturating_add(ms).min(TIME_MAX), job.attempt);
        jobs.lease(index, until, token, attempt);
        touched.push(index);
    }
    let count = touched.len();
    if count > 0 {
        cx.rearm(place, record);
        effects::log_leases(cx, place, record, key, touched.into_iter())?;
        cx.commit_silently(key, count as u64);
    }
    reply.int(count as i64);
    Ok(())
}
