//! TIME, and CLOCK: a clock that tests can move.

use std::sync::atomic::Ordering;

use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use punctual_store::spec::{Flags, Group};
use punctual_store::{Error, Now};

use crate::call::Call;
use crate::mailbox::Order;
use crate::table::{ServerCommand, ServerHandler};

const ANY_TIME: Flags = Flags::LOADING.or(Flags::STALE).or(Flags::FAST);
const MOVES: Flags = Flags::ADMIN.or(Flags::NOSCRIPT);

const fn row(
    name: &'static str,
    arity: i32,
    flags: Flags,
    handler: ServerHandler,
) -> ServerCommand {
    ServerCommand::new(name, arity, flags, Group::Server, handler)
}

/// The family's rows.
pub(crate) static COMMANDS: &[ServerCommand] = &[
    row("time", 1, ANY_TIME, time).tips(&["nondeterministic_output"]).doc("2.6.0", "O(1)", "Returns the server time."),
    ServerCommand::container(
        "clock",
        Group::Server,
        &[
            row("now", 2, ANY_TIME, now).doc(
                "7.2.0",
                "O(1)",
                "Returns the server's clock in unix milliseconds.",
            ),
            row("advance", 3, MOVES, advance).doc(
                "7.2.0",
                "O(N log S) for N keys that fall due in S shards",
                "Moves a virtual clock forward; what fell due has expired, in deadline order, before the reply.",
            ),
            row("set", 3, MOVES, set).doc(
                "7.2.0",
                "O(N log S) for N keys that fall due in S shards",
                "Sets a virtual clock to a time in unix milliseconds that is not before its own.",
            ),
            row("help", 2, ANY_TIME, help).doc(
                "7.2.0",
                "O(1)",
                "Returns helpful text about the different subcommands.",
            ),
        ],
    )
    .doc("7.2.0", "Depends on subcommand.", "A container for commands on the server's clock."),
];

fn time(call: &mut Call<'_, '_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
    let micros = call.now().micros();
    reply.array(2);
    reply.bulk_int((micros / 1_000_000) as i64);
    reply.bulk_int((micros % 1_000_000) as i64);
    Ok(())
}

fn now(call: &mut Call<'_, '_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
    reply.int(call.now().read_ms() as i64);
    Ok(())
}

fn advance(call: &mut Call<'_, '_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
    let by_ms = milliseconds(&args[2])?;
    let to_ms = call.shared.clock.now().read_ms().checked_add(by_ms);
    move_to(
        call,
        to_ms.filter(|t| *t <= LAST_MS).ok_or(Error::OutOfRange)?,
        reply,
    )
}

fn set(call: &mut Call<'_, '_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
    let to_ms = milliseconds(&args[2])?;
    if call.shared.clock.is_virtual() && to_ms < call.shared.clock.now().read_ms() {
        return Err(Error::fixed("ERR the clock cannot go back"));
    }
    move_to(call, to_ms, reply)
}

/// The last instant whose microseconds can be counted.
const LAST_MS: u64 = i64::MAX as u64 / 1000;

fn milliseconds(arg: &[u8]) -> Result<u64, Error> {
    let ms = parse_i64(arg).ok_or(Error::NotInteger)?;
    u64::try_from(ms)
        .ok()
        .filter(|ms| *ms <= LAST_MS)
        .ok_or(Error::OutOfRange)
}

fn move_to(call: &mut Call<'_, '_>, to_ms: u64, reply: &mut Reply<'_>) -> Result<(), Error> {
    if !call.shared.clock.is_virtual() {
        return Err(Error::fixed(
            "ERR the clock is real and cannot be moved; start the server with --clock virtual",
        ));
    }
    let to = Now::from_ms(to_ms);
    // While clients are paused nothing expires; what fell due meanwhile goes when the pause ends.
    let paused_until = call.shared.pause_until_ms.load(Ordering::Acquire);
    if to_ms < paused_until {
        call.turn.now = to;
    } else {
        call.turn.now = call.turn.now.max(Now::from_ms(paused_until));
        call.turn.advance(to);
    }
    call.shared.clock.set(to);
    // Whoever moves the clock is there at the new time.
    call.session
        .info
        .seen_ms
        .store(to_ms, std::sync::atomic::Ordering::Relaxed);
    // Idle timeouts live on the loops' own wheels.
    call.shared.order_all(|| Order::ClockMoved);
    reply.int(to_ms as i64);
    Ok(())
}

fn help(_: &mut Call<'_, '_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
    super::help(
        reply,
        "CLOCK",
        &[
            ("NOW", "Return the server's clock in unix milliseconds."),
            (
                "ADVANCE <milliseconds>",
                "Move a virtual clock forward and expire what fell due.",
            ),
            (
                "SET <unix-milliseconds>",
                "Set a virtual clock, not before its own time.",
            ),
        ],
    );
    Ok(())
}
