//! TIME and CLOCK, which moves a virtual clock.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::command::help;
use punctual_store::keyspace::waiters::Waiter;
use punctual_store::spec::{Flags, Group};

use crate::dispatch::timers;
use crate::node::Shared;
use crate::node::call::{Call, ServerCommand, ServerHandler};
use crate::node::waiting::finish;
use crate::session::Executing;
use crate::world::clock::{LAST_MS, Move, MoveError};

const ANY_TIME: Flags = Flags::LOADING.or(Flags::STALE).or(Flags::FAST);
const MOVES: Flags = Flags::ADMIN.or(Flags::NOSCRIPT);

punctual_store::family!(ServerHandler, Group::Server, Flags::UNPAUSED);

/// Rows of the commands in this file.
pub(crate) static COMMANDS: &[ServerCommand] = &[
    ServerCommand::new("time", 1, ANY_TIME, Group::Server, time)
        .tips(&["nondeterministic_output"])
        .doc("2.6.0", "O(1)", "Returns the server time."),
    ServerCommand::container(
        "clock",
        Group::Server,
        &[
            row("now", 2, ANY_TIME, now)
                .since("7.2.0")
                .summary("Returns the server's time in Unix milliseconds."),
            row("advance", 3, MOVES, advance)
                .since("7.2.0")
                .complexity("O(N log S) for N keys that fall due in S shards")
                .summary(
                    "Moves a virtual clock forward, and expires due keys in the order of their deadlines.",
                )
                .syntax("milliseconds"),
            row("set", 3, MOVES, set)
                .since("7.2.0")
                .complexity("O(N log S) for N keys that fall due in S shards")
                .summary("Sets a virtual clock to a later time in Unix milliseconds.")
                .syntax("unix-time-milliseconds"),
            ServerCommand::help(Group::Server, "7.2.0", |_, _, reply| help(reply, "CLOCK", HELP)),
        ],
    )
    .since("7.2.0")
    .summary("A container for server clock commands."),
];

fn time(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let micros = call.now().micros();
    reply.array(2);
    reply.bulk_int((micros / 1_000_000) as i64);
    reply.bulk_int((micros % 1_000_000) as i64);
    Ok(())
}

fn now(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    reply.int(call.now().read_ms() as i64);
    Ok(())
}

fn advance(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let by_ms = milliseconds(&args[2])?;
    move_clock(call, Move::By(by_ms * 1000), reply)
}

fn set(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let to_ms = milliseconds(&args[2])?;
    move_clock(call, Move::To(to_ms * 1000), reply)
}

/// Parses a number of milliseconds, whose number of microseconds must fit into an `i64`.
fn milliseconds(arg: &[u8]) -> Result<u64, Error> {
    let ms = parse_i64(arg).ok_or(Error::NotInteger)?;
    u64::try_from(ms)
        .ok()
        .filter(|ms| *ms <= LAST_MS)
        .ok_or(Error::OutOfRange)
}

fn move_clock(call: &mut Call, to: Move, reply: &mut Reply) -> Result<(), Error> {
    let Call {
        shared,
        scripts,
        loop_number,
        ..
    } = call;
    let to = shared
        .move_clock(call.turn, to, |turn| {
            timers::fire_due(shared, *loop_number, turn, scripts);
        })
        .map_err(|error| match error {
            MoveError::OutOfRange => Error::OutOfRange,
            other => Error::Text(format!("ERR {other}").into()),
        })?;
    // Without this, the caller would count as idle since the clock's old time.
    let seen_ms = &call.session.info.seen_ms;
    seen_ms.store(to.read_ms(), Ordering::Relaxed);
    let now_ms = to.read_ms() as i64;
    if shared.mailboxes.len() == 1 || !call.turn.may_wait() {
        reply.int(now_ms);
        return Ok(());
    }
    let (shared, loop_number) = (Arc::clone(shared), *loop_number);
    let begin = move |waiter: Arc<_>| reply_when_sent(&shared, loop_number, &waiter, now_ms);
    call.session.executing = Some(Executing::Wait(Box::new(begin)));
    Ok(())
}

/// Replies once all loops have sent the messages and replies that the move of the clock has caused.
fn reply_when_sent(shared: &Arc<Shared>, loop_number: usize, waiter: &Arc<Waiter>, now_ms: i64) {
    let (of_reply, waiter) = (Arc::clone(shared), Arc::clone(waiter));
    shared.when_settled(move || {
        let mut bytes = Vec::new();
        Reply::new(&mut bytes, waiter.protocol()).int(now_ms);
        finish(&of_reply, loop_number, &waiter, &bytes);
    });
}

const HELP: &[&str] = &[
    "NOW",
    "    Return the server's clock in unix milliseconds.",
    "ADVANCE <milliseconds>",
    "    Move a virtual clock forward and expire what is due.",
    "SET <unix-milliseconds>",
    "    Set a virtual clock, not to an earlier time.",
];
