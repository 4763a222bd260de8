//! Readers of timers: TIMER GET, NEXT, LIST, RANGE and COUNT.

use punctual_resp::{Args, Reply};

use super::shown;
use crate::arguments::{int, is};
use crate::command::due::DueCounts;
use crate::error::Error;
use crate::glob;
use crate::time::NEVER;
use crate::turn::Cx;
use crate::value::timer::Timer;

/// Default of COUNT.
const COUNT_DEFAULT: usize = 100;
/// Maximum number of timers that a call returns or visits. Such a call takes some milliseconds
/// under the locks.
const VISITS_MAX: usize = 100_000;
/// Maximum number of instants that TIMER NEXT returns.
const INSTANTS_MAX: usize = 1_000;

pub(super) fn get(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[2];
    if cx.read_as::<Timer>(key)?.is_none() {
        reply.null();
        return Ok(());
    }
    write_timer(cx, key, reply);
    Ok(())
}

/// Writes the reply of TIMER GET on an existing timer.
pub(super) fn write_timer(cx: &mut Cx, key: &[u8], reply: &mut Reply) {
    let part = cx.db_of(key);
    let Some((timer, deadline)) = part
        .find(key)
        .and_then(|id| Some((part.timer(id)?, part.deadline(id))))
    else {
        return reply.null();
    };
    let plan = timer.plan();
    let mut settings: Vec<(&str, String)> = Vec::new();
    if let Some(repeat) = &plan.repeat {
        settings = shown(&repeat.when);
        let optional = [
            ("start", repeat.start_ms),
            ("end", repeat.end_ms),
            ("limit", repeat.limit),
            ("jitter", Some(repeat.jitter_ms).filter(|ms| *ms > 0)),
        ];
        for (name, number) in optional {
            settings.extend(number.map(|number| (name, number.to_string())));
        }
        settings.push(("catchup", repeat.catch_up.name().to_owned()));
    }
    reply.map(settings.len() + 9);
    let number = |reply: &mut Reply<'_>, name: &str, number: u64| {
        reply.bulk(name.as_bytes());
        reply.int(i64::try_from(number).unwrap_or(i64::MAX));
    };
    reply.bulk(b"at");
    match deadline {
        Some(at) => reply.int(i64::try_from(at).unwrap_or(i64::MAX)),
        None => reply.null(),
    }
    number(reply, "paused", u64::from(deadline.is_none()));
    number(
        reply,
        "remaining",
        if deadline.is_none() {
            plan.remaining_ms
        } else {
            0
        },
    );
    for (name, value) in settings {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"command");
    let words = plan.words.as_args();
    reply.array(words.len());
    words.iter().for_each(|word| reply.bulk(word));
    reply.bulk(b"user");
    reply.bulk(plan.user.as_deref().unwrap_or(b"default"));
    number(reply, "runs", plan.past.runs);
    number(reply, "failures", plan.past.failures);
    number(reply, "last-late-us", plan.past.late_us);
    reply.bulk(b"last-error");
    reply.bulk(&plan.past.error);
}

pub(super) fn next(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[2];
    let count = Filter::parse(args.skip(3), 1)?.count;
    if count > INSTANTS_MAX {
        return Err(Error::fixed("ERR COUNT is at most 1000"));
    }
    let Some(plan) = cx.read_as::<Timer>(key)?.map(Timer::plan) else {
        reply.null_array();
        return Ok(());
    };
    let part = cx.db_of(key);
    let deadline = part.find(key).and_then(|id| part.deadline(id));
    let mut instants: Vec<u64> = deadline.into_iter().collect();
    if let (Some(deadline), Some(repeat)) = (deadline, &plan.repeat) {
        // EXPIRE may have moved the deadline beyond the jitter. The schedule then continues after
        // the deadline.
        let after = repeat.nominal_ms.max(match deadline {
            moved if moved > repeat.nominal_ms.saturating_add(repeat.jitter_ms) => moved,
            _ => 0,
        });
        let left = repeat
            .limit
            .map_or(u64::MAX, |limit| limit.saturating_sub(plan.past.runs));
        let left = usize::try_from(left).unwrap_or(usize::MAX).min(count);
        instants.extend(repeat.following(after, left.saturating_sub(1)));
    }
    instants.truncate(count);
    reply.array(instants.len());
    for at in instants {
        reply.int(i64::try_from(at).unwrap_or(i64::MAX));
    }
    Ok(())
}

/// Options of TIMER LIST, RANGE and NEXT, and of JOB QUEUES.
pub(crate) struct Filter<'a> {
    pattern: Option<&'a [u8]>,
    pub(crate) count: usize,
}

impl<'a> Filter<'a> {
    pub(crate) fn parse(options: Args<'a>, count: usize) -> Result<Self, Error> {
        let mut filter = Self {
            pattern: None,
            count,
        };
        let mut at = 0;
        while let Some(option) = options.get(at) {
            let value = options.get(at + 1).ok_or(Error::Syntax)?;
            if is(option, "COUNT") {
                let count = usize::try_from(int(value)?).ok().filter(|n| *n > 0);
                filter.count = count.ok_or(Error::Syntax)?;
            } else if is(option, "MATCH") {
                filter.pattern = (value != b"*").then_some(value);
            } else {
                return Err(Error::Syntax);
            }
            at += 2;
        }
        Ok(filter)
    }

    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        self.pattern
            .is_none_or(|pattern| glob::matches(pattern, name))
    }
}

pub(super) fn list(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let filter = Filter::parse(args.skip(2), COUNT_DEFAULT)?;
    write_range(cx, 0, NEVER, &filter, reply)
}

pub(super) fn range(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let end = |text: &[u8], open: &[u8], ms: u64| match text {
        text if text == open => Ok(ms),
        text => Ok(u64::try_from(int(text)?).unwrap_or(0)),
    };
    let from = end(&args[2], b"-", 0)?;
    let to = end(&args[3], b"+", NEVER - 1)?;
    let filter = Filter::parse(args.skip(4), COUNT_DEFAULT)?;
    write_range(cx, from, to, &filter, reply)
}

/// Locks and counts one shard at a time, so that no shard stays locked for the whole count.
pub(super) fn count(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let mut due = DueCounts::parse(args.skip(2))?;
    let db = cx.db;
    for number in 0..cx.store().shards() {
        cx.turn.lock_one(number);
        let part = cx.turn.shard_db(number, db);
        part.spread_timers(due.range.clone(), &mut due.counts);
    }
    due.write(reply);
    Ok(())
}

/// Writes the timers between two deadlines, in order. A paused timer has the deadline [`NEVER`].
fn write_range(
    cx: &mut Cx,
    from: u64,
    to: u64,
    filter: &Filter<'_>,
    reply: &mut Reply,
) -> Result<(), Error> {
    if filter.count > VISITS_MAX {
        return Err(Error::fixed("ERR COUNT is at most 100000"));
    }
    let (db, mut visits) = (cx.db, 0);
    let mut found: Vec<(u64, Box<[u8]>)> = Vec::new();
    if from <= to {
        // Takes the first `count` timers of each shard, and sorts them below.
        for (_, part) in cx.turn.held_dbs(db) {
            let mut remaining = filter.count;
            for (at, id) in part.timers_between(from..=to) {
                if remaining == 0 {
                    break;
                }
                visits += 1;
                if visits > VISITS_MAX {
                    return Err(Error::fixed(
                        "ERR the command would visit more than 100000 timers, use a shorter range \
                         or a smaller COUNT",
                    ));
                }
                let key = part.get(id).key.as_bytes();
                if filter.matches(key) {
                    found.push((at, key.into()));
                    remaining -= 1;
                }
            }
        }
    }
    found.sort_unstable();
    found.truncate(filter.count);
    reply.array(found.len());
    for (at, key) in &found {
        reply.array(2);
        reply.bulk(key);
        match *at {
            NEVER => reply.null(),
            at => reply.int(i64::try_from(at).unwrap_or(i64::MAX)),
        }
    }
    Ok(())
}
