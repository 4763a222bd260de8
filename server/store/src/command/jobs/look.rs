//! Readers of queues: JOB GET, INFO and RANGE, and the parts of JOB COUNT and JOB QUEUES that the
//! server calls.

use punctual_resp::{Args, Reply};

use super::queue;
use crate::arguments::{int, is};
use crate::command::due::DueCounts;
use crate::command::timers::look::Filter;
use crate::error::Error;
use crate::turn::{Cx, Turn};
use crate::value::jobs::{Job, Jobs, Set, State};
use crate::value::keyed::Element as _;

/// Maximum number of jobs that JOB RANGE returns, which takes some milliseconds under the lock.
const RANGE_MAX: usize = 100_000;
/// Maximum number of visits of a JOB COUNT: queues, and buckets in each queue.
const COUNT_VISITS_MAX: usize = 100_000;
/// Maximum number of queues that JOB QUEUES visits.
const QUEUES_MAX: usize = 10_000;
/// Default of COUNT in JOB QUEUES.
const QUEUES_DEFAULT: usize = 100;

pub(super) fn get(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let now = cx.now();
    let (place, found) = queue(cx, &args[2], 0)?;
    if let Some(record) = found {
        let jobs = cx.view::<Jobs>(place, record)?;
        if let Some(index) = jobs.find(&args[3])
            && !jobs.is_over(index, now)
        {
            write_job(reply, jobs.get(index), now);
            return Ok(());
        }
    }
    reply.null();
    Ok(())
}

fn write_number(reply: &mut Reply, name: &str, number: u64) {
    reply.bulk(name.as_bytes());
    reply.int(i64::try_from(number).unwrap_or(i64::MAX));
}

/// Writes a job as a map.
fn write_job(reply: &mut Reply, job: &Job, now: crate::Now) {
    let details = job.details();
    let state = match job.state {
        State::Waiting if !now.is_due(job.at) => "delayed",
        State::Waiting | State::Ready => "ready",
        State::Leased => "leased",
        State::Dead => "dead",
        State::Done => "done",
    };
    let mut numbers = vec![
        ("at", job.at),
        ("attempts", job.attempt.into()),
        ("lease", details.lease_ms),
        ("retry", details.retries.into()),
    ];
    if job.state == State::Leased {
        numbers.push(("token", job.token));
    }
    if let Some(backoff) = details.backoff {
        numbers.push(("backoff-base", backoff.base_ms));
        numbers.push(("backoff-max", backoff.max_ms));
        numbers.push(("jitter", backoff.jitter.into()));
    }
    numbers.extend(details.expires_ms.map(|at| ("expires", at)));
    for (name, value) in [
        ("keep", details.keep_ms),
        ("unique-until", details.unique_ms),
    ] {
        if value > 0 {
            numbers.push((name, value));
        }
    }
    let mut texts: Vec<(&str, &[u8])> = vec![("payload", details.payload)];
    for (name, text) in [
        ("dead", details.dead),
        ("from", details.from),
        ("error", details.error),
    ] {
        texts.extend(text.map(|text| (name, text)));
    }
    reply.map(3 + numbers.len() + texts.len());
    reply.bulk(b"id");
    reply.bulk(job.name());
    reply.bulk(b"state");
    reply.bulk(state.as_bytes());
    reply.bulk(b"priority");
    reply.int(job.priority.into());
    for (name, value) in numbers {
        write_number(reply, name, value);
    }
    for (name, text) in texts {
        reply.bulk(name.as_bytes());
        reply.bulk(text);
    }
}

pub(super) fn info(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let now = cx.now();
    let (place, found) = queue(cx, &args[2], 0)?;
    let Some(record) = found else {
        reply.null();
        return Ok(());
    };
    write_info(reply, None, cx.view::<Jobs>(place, record)?, now);
    Ok(())
}

/// Writes the reply of JOB INFO. With `name`, it begins with the name of the queue.
pub(crate) fn write_info(reply: &mut Reply, name: Option<&[u8]>, jobs: &Jobs, now: crate::Now) {
    let totals = jobs.totals();
    let leaving = jobs.count(Set::Leaving, now);
    let age = jobs
        .oldest_ready()
        .map(|due| now.read_ms().saturating_sub(due));
    reply.map(13 + usize::from(name.is_some()));
    if let Some(name) = name {
        reply.bulk(b"name");
        reply.bulk(name);
    }
    for (name, count) in [
        ("ready", jobs.count(Set::Ready, now)),
        ("delayed", jobs.count(Set::Delayed, now)),
        ("leased", jobs.count(Set::Leased, now)),
        ("dead", jobs.count(Set::Dead, now) + leaving),
        ("done", jobs.count(Set::Done, now)),
        ("paused", usize::from(jobs.paused)),
    ] {
        write_number(reply, name, count as u64);
    }
    for (name, count) in [
        ("total-added", totals.added),
        ("total-taken", totals.taken),
        ("total-done", totals.done),
        ("total-failed", totals.failed),
        ("total-died", totals.died),
    ] {
        write_number(reply, name, count);
    }
    for (name, time) in [("oldest-ready-ms", age), ("next-due", jobs.next_due())] {
        match time {
            Some(time) => write_number(reply, name, time),
            None => {
                reply.bulk(name.as_bytes());
                reply.null();
            }
        }
    }
}

/// Writes the reply of JOB COUNT. Counts the jobs of the queues for which `may_read` returns true.
///
/// # Errors
/// Errors of the arguments, and an error if the command would visit more than `COUNT_VISITS_MAX`
/// queues and buckets.
pub fn count(
    turn: &mut Turn,
    db: usize,
    may_read: &dyn Fn(&[u8]) -> bool,
    args: Args,
    reply: &mut Reply,
) -> Result<(), Error> {
    let mut due = DueCounts::parse(args.skip(2))?;
    let (now, mut visits) = (turn.now, 0);
    turn.each_queue(db, |name, jobs| {
        visits += 1 + due.counts.len().min(jobs.count(Set::Delayed, now));
        if visits > COUNT_VISITS_MAX {
            return Err(Error::fixed(
                "ERR there are too many queues for this number of buckets, use a smaller BUCKETS",
            ));
        }
        if may_read(name) {
            jobs.spread(due.range.clone(), now, &mut due.counts);
        }
        Ok(())
    })?;
    due.write(reply);
    Ok(())
}

/// Writes the reply of JOB QUEUES: the queues for which `may_read` returns true, in the order of
/// their names.
///
/// # Errors
/// Errors of the arguments, and an error if the database has more than `QUEUES_MAX` queues.
pub fn queues(
    turn: &mut Turn,
    db: usize,
    may_read: &dyn Fn(&[u8]) -> bool,
    args: Args,
    reply: &mut Reply,
) -> Result<(), Error> {
    let filter = Filter::parse(args.skip(2), QUEUES_DEFAULT)?;
    let mut visits = 0;
    let mut names: Vec<Box<[u8]>> = Vec::new();
    turn.each_queue(db, |name, _| {
        visits += 1;
        if visits > QUEUES_MAX {
            return Err(Error::fixed(
                "ERR there are more than 10000 queues, use SCAN with TYPE jobs instead",
            ));
        }
        if filter.matches(name) && may_read(name) {
            names.push(name.into());
        }
        Ok(())
    })?;
    names.sort_unstable();
    names.truncate(filter.count);
    let (now, mut written) = (turn.now, 0);
    let mut maps = Vec::new();
    let mut write = Reply::new(&mut maps, reply.protocol());
    for name in &names {
        // Another thread may have removed the queue after `each_queue` saw it.
        turn.read_queue(db, name, |jobs| {
            write_info(&mut write, Some(name), jobs, now);
            written += 1;
        });
    }
    reply.array(written);
    reply.out().extend_from_slice(&maps);
    Ok(())
}

pub(super) fn range(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let set = match &args[3] {
        word if is(word, "READY") => Set::Ready,
        word if is(word, "DELAYED") => Set::Delayed,
        word if is(word, "LEASED") => Set::Leased,
        word if is(word, "DEAD") => Set::Dead,
        word if is(word, "DONE") => Set::Done,
        _ => return Err(Error::Syntax),
    };
    let (from, to) = (int(&args[4])?, int(&args[5])?);
    let now = cx.now();
    let (place, found) = queue(cx, &args[2], 0)?;
    let Some(record) = found else {
        reply.array(0);
        return Ok(());
    };
    let jobs = cx.view::<Jobs>(place, record)?;
    let len = jobs.count(set, now);
    let position = |at: i64| match usize::try_from(at) {
        Ok(at) => Some(at),
        Err(_) => len.checked_sub(usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX)),
    };
    let from = position(from).unwrap_or(0);
    let end = position(to).map_or(0, |to| to.saturating_add(1).min(len));
    let count = end.saturating_sub(from);
    if count > RANGE_MAX {
        return Err(Error::fixed(
            "ERR the range has more than 100000 jobs, use a shorter range",
        ));
    }
    reply.array(count);
    for job in jobs.list(set, now, from).take(count) {
        write_job(reply, job, now);
    }
    Ok(())
}
