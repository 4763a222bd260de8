//! TIMER SET and TIMER RUN, which need the command table and the users. The other subcommands are
//! keyspace commands.

use punctual_resp::{Args, OwnedArgs, Reply};
use punctual_store::Error;
use punctual_store::command::timers::{self, NOT_IN_REDIS, Options};
use punctual_store::spec::{Flags, Group};

use crate::acl::registry::DEFAULT;
use crate::dispatch::Dispatcher;
use crate::dispatch::timers::{Fired, Trigger};
use crate::node::call::{Call, ServerCommand, ServerHandler};

const fn row(
    name: &'static str,
    arity: i32,
    flags: Flags,
    handler: ServerHandler,
) -> ServerCommand {
    let flags = flags.or(Flags::WRITE).or(Flags::NOT_IN_TIMER);
    ServerCommand::new(name, arity, flags, Group::Timer, handler)
        .keys(2, 2, 1)
        .access(&["RW update"])
}

/// Rows of these subcommands. The command table adds the subcommands of the keyspace.
pub(crate) static COMMANDS: &[ServerCommand] = &[ServerCommand::container(
    "timer",
    Group::Timer,
    &[
        row("run", 3, Flags::NOSCRIPT, run)
            .since(NOT_IN_REDIS)
            .complexity("Depends on the command.")
            .summary("Runs the command of a timer immediately.")
            .syntax("key"),
        row("set", -6, Flags::DENYOOM, set)
            .since(NOT_IN_REDIS)
            .complexity(
                "O(N+log(T)) for N bytes of the command and T timers. For a cron expression also \
                 O(D) where D is the number of days to the next instant.",
            )
            .summary("Sets a timer, which runs a command once or repeatedly.")
            .syntax(
                "key (schedule: AT unix-time-milliseconds | IN milliseconds | (every: EVERY \
                 milliseconds [offset: OFFSET milliseconds]) | (cron: CRON expression [TZ zone])) [start: \
                 START unix-time-milliseconds] [end: END unix-time-milliseconds] [LIMIT \
                 count] [jitter: JITTER milliseconds] [CATCHUP (SKIP | ONCE | ALL)] \
                 [condition: NX | XX] [GET] DO command [arg ...]",
            ),
    ],
)];

fn set(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (db, touch) = (call.session.db, !call.session.no_touch);
    if call.turn.replays() {
        return call.turn.run(&timers::SET, db, touch, args, reply);
    }
    let command = Options::parse(args, false)?.command;
    let words = args.skip(command);
    Dispatcher::timer_refusal(call.shared, call.turn, call.session, &args[2], words)?;
    let user = &call.session.user.identity.name;
    // The timers of clients in the process, which have no user, run as the default user.
    if **user == *DEFAULT || call.session.user.is_internal() {
        return call.turn.run(&timers::SET, db, touch, args, reply);
    }
    // The option USER names the user as whom the command runs. Without USER, this is the default
    // user.
    let before = args.iter().take(command - 1);
    let named: OwnedArgs = before
        .chain([&b"USER"[..], user])
        .chain(args.iter().skip(command - 1))
        .collect();
    call.turn
        .run(&timers::SET, db, touch, named.as_args(), reply)
}

fn run(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let Call {
        shared,
        turn,
        scripts,
        session,
        loop_number,
    } = call;
    let clock = shared.world.counter();
    loop {
        let due = turn.timer_to_run(session.db, &args[2]);
        let due = due.ok_or(Error::NoSuchKey)??;
        let max = usize::MAX;
        let fired = Dispatcher::new(shared, *loop_number, turn, scripts, &clock, max, None)
            .fire(&due, Trigger::Command);
        match fired {
            Fired::Done(None) => {
                reply.ok();
                return Ok(());
            }
            Fired::Done(Some(error)) => return Err(Error::Bytes(error.into())),
            // The timer is looked up again.
            Fired::Changed => {}
            Fired::Later => {
                turn.release();
                if shared.scripting.running.is_busy() {
                    return Err(shared.scripting.running.refusal());
                }
                shared.scripting.running.wait_briefly();
            }
        }
    }
}
