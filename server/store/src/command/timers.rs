//! TIMER, which Redis does not have: keys that run a command at a deadline, once or repeatedly.
//!
//! The server implements TIMER SET and TIMER RUN, because it checks commands and users. [`SET`] is
//! the part of TIMER SET that changes the keyspace.

pub(crate) mod look;
mod set;
#[cfg(test)]
mod slot_tests;
#[cfg(test)]
mod tests;

use punctual_resp::decimal::parse_u64;
use punctual_resp::{Args, Reply};

use crate::command::replies::help;
use crate::error::Error;
use crate::events::Classes;
use crate::spec::{Flags, Group};
use crate::turn::{Command, Cx, Handler};
use crate::value::timer::{Timer, When};

pub use set::Options;

/// The family's rows.
pub static COMMANDS: &[Command] = &[Command::container("timer", Group::Timer, SUBCOMMANDS)
    .since(NOT_IN_REDIS)
    .summary("A container for timers, which run a command at a given time.")];

/// Version that COMMAND DOCS shows for commands that Redis does not have.
pub const NOT_IN_REDIS: &str = "255.255.255";

/// Cost of a change of a timer's deadline. Each database of a shard keeps its timers in a tree.
const TREE_COST: &str = "O(log(T)) where T is the number of timers.";

const READ: Flags = Flags::READONLY;
const WRITE_FAST: Flags = Flags::WRITE.or(Flags::FAST);

static SUBCOMMANDS: &[Command] = &[
    row("count", -4, READ, look::count)
        .since(NOT_IN_REDIS)
        .complexity(
            "O(S*B*log(T)) where S is the number of shards, B is the number of buckets that have \
         timers and T is the number of timers.",
        )
        .summary(
            "Returns the number of timers that become due in a time range, or in each of its equal \
         parts.",
        )
        .syntax("from to [BUCKETS count]"),
    keyed("get", 3, READ.or(Flags::FAST), look::get)
        .access(&["RO access"])
        .since(NOT_IN_REDIS)
        .summary("Returns the schedule, the command and the statistics of a timer.")
        .syntax("key"),
    Command::help(Group::Timer, NOT_IN_REDIS, |_, _, reply| {
        help(reply, "TIMER", HELP)
    }),
    row("list", -2, READ.or(Flags::WHOLE), look::list)
        .since(NOT_IN_REDIS)
        .complexity(
            "O(S*log(T)+N) where S is the number of shards, T is the number of timers and N is the \
         number of timers visited. N is at most 100000.",
        )
        .summary("Returns timers in the order of their deadlines. Paused timers come last.")
        .syntax("[MATCH pattern] [COUNT count]"),
    keyed("next", -3, READ, look::next)
        .access(&["RO access"])
        .since(NOT_IN_REDIS)
        .complexity(
            "O(N) where N is the number of instants. For a cron expression, each instant is O(D) \
             where D is the number of days to it.",
        )
        .summary("Returns the next times at which a timer becomes due.")
        .syntax("key [COUNT count]"),
    keyed("pause", 3, WRITE_FAST, pause)
        .access(&["RW update"])
        .doc(NOT_IN_REDIS, TREE_COST, "Pauses a timer, like PERSIST.")
        .syntax("key"),
    row("range", -4, READ.or(Flags::WHOLE), look::range)
        .since(NOT_IN_REDIS)
        .complexity(
            "O(S*log(T)+N) where S is the number of shards, T is the number of timers and N is the \
         number of timers visited. N is at most 100000.",
        )
        .summary(
            "Returns the timers that become due in a time range, in the order of their deadlines.",
        )
        .syntax("from to [MATCH pattern] [COUNT count]"),
    keyed("resume", 3, WRITE_FAST, resume)
        .access(&["RW update"])
        .since(NOT_IN_REDIS)
        .complexity(
            "O(log(T)) where T is the number of timers. For a cron expression also O(D) where D is \
             the number of days to the next instant.",
        )
        .summary("Resumes a paused timer.")
        .syntax("key"),
    keyed("state", 10, Flags::WRITE.or(Flags::NOSCRIPT), state)
        .access(&["RW update"])
        .internal()
        .since(NOT_IN_REDIS)
        .complexity(TREE_COST)
        .summary("An internal command for replicating the state of timers.")
        .syntax(
            "key deadline:integer nominal:integer remaining:integer runs:integer \
             failures:integer lateness:integer error",
        ),
];

/// The part of TIMER SET that changes the keyspace. The server calls it after its own checks, so it
/// is no subcommand here.
pub const SET: Command = keyed("set", -6, Flags::WRITE.or(Flags::DENYOOM), set::set);

crate::family!(Handler, Group::Timer, Flags::NONE);

const fn keyed(name: &'static str, arity: i32, flags: Flags, handler: Handler) -> Command {
    row(name, arity, flags, handler).keys(2, 2, 1)
}

fn pause(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[2];
    let (place, found) = cx.seek_as::<Timer>(key)?;
    match found.filter(|id| cx.db_at(place).deadline(*id).is_some()) {
        Some(id) => {
            cx.turn.pause_timer(place.shard(), cx.db, key, id);
            cx.commit(key, Classes::GENERIC, "persist", 1);
            reply.int(1);
        }
        None => reply.int(0),
    }
    Ok(())
}

fn resume(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[2];
    let (place, found) = cx.seek_as::<Timer>(key)?;
    let Some(id) = found.filter(|id| cx.db_at(place).deadline(*id).is_none()) else {
        reply.int(0);
        return Ok(());
    };
    let now = cx.now();
    let mut plan = cx.view::<Timer>(place, id)?.plan();
    let at = match &mut plan.repeat {
        None => now.base_ms().saturating_add(plan.remaining_ms),
        Some(repeat) => {
            // The timer does not fire for instants during the pause.
            let next = repeat.next_after(now.read_ms());
            repeat.nominal_ms = next.ok_or(set::NEVER_COMES)?;
            cx.turn.jittered(repeat.nominal_ms, repeat.jitter_ms)
        }
    };
    let at = cx.turn.timer_deadline(at);
    plan.remaining_ms = 0;
    let part = cx.db_at(place);
    part.set_timer(id, Timer::new(&plan));
    part.set_deadline(id, Some(at));
    cx.turn.state_effect(place.shard(), cx.db, key, id);
    cx.commit(key, Classes::GENERIC, "expire", 1);
    reply.int(1);
    Ok(())
}

/// `TIMER STATE key deadline nominal remaining runs failures lateness error`: sets the state of a
/// timer that changes after TIMER SET. A deadline of 0 means that the timer is paused. `nominal` is
/// the schedule's next instant without jitter.
fn state(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    if !cx.turn.replays() {
        return Err(Error::fixed("ERR TIMER STATE is for logs of changes only"));
    }
    let key = &args[2];
    let (place, found) = cx.seek_as::<Timer>(key)?;
    let id = found.ok_or(Error::NoSuchKey)?;
    let number = |at: usize| parse_u64(&args[at]).ok_or(Error::NotInteger);
    let mut plan = cx.view::<Timer>(place, id)?.plan();
    let deadline = Some(number(3)?).filter(|at| *at > 0);
    if let Some(repeat) = &mut plan.repeat {
        repeat.nominal_ms = number(4)?;
    }
    plan.remaining_ms = number(5)?;
    plan.past.runs = number(6)?;
    plan.past.failures = number(7)?;
    plan.past.late_us = number(8)?;
    plan.past.error = args[9].into();
    let part = cx.db_at(place);
    part.set_timer(id, Timer::new(&plan));
    part.set_deadline(id, deadline);
    cx.commit_silently(key, 1);
    reply.ok();
    Ok(())
}

const HELP: &[&str] = &[
    "COUNT <from> <to> [BUCKETS <count>]",
    "    Return the number of timers that become due in a time range, or in each of its equal",
    "    parts. <from> and <to> are unix times in milliseconds, and <to> is excluded.",
    "GET <key>",
    "    Return the schedule, the command and the statistics of a timer.",
    "LIST [MATCH <pattern>] [COUNT <count>]",
    "    Return timers and their deadlines in order. Paused timers come last.",
    "NEXT <key> [COUNT <count>]",
    "    Return the next instants of a timer in unix milliseconds.",
    "PAUSE <key>",
    "    Pause a timer, like PERSIST.",
    "RANGE <from> <to> [MATCH <pattern>] [COUNT <count>]",
    "    Return the timers that become due between two unix times in milliseconds. - and + stand",
    "    for the earliest and the latest time.",
    "RESUME <key>",
    "    Resume a paused timer. It becomes due after its remaining time, or at the next time of",
    "    its schedule.",
    "RUN <key>",
    "    Run the command now. A timer that repeats keeps its schedule.",
    "SET <key> AT <ms> | IN <ms> | EVERY <ms> [OFFSET <ms>] | CRON <expression> [TZ <zone>]",
    "    [START <ms>] [END <ms>] [LIMIT <count>] [JITTER <ms>] [CATCHUP SKIP|ONCE|ALL]",
    "    [NX|XX] [GET] DO <command> [<arg> ...]",
    "    Run a command at a time, after a time, or periodically.",
];

/// Returns a schedule as options of TIMER SET, with their values.
fn shown(when: &When) -> Vec<(&'static str, String)> {
    match when {
        When::Every {
            every_ms,
            anchor_ms,
        } => vec![
            ("every", every_ms.to_string()),
            ("offset", (anchor_ms % every_ms).to_string()),
        ],
        When::Cron { expression, zone } => {
            vec![("cron", expression.to_string()), ("tz", zone.to_string())]
        }
    }
}
