//! JOB: queues of jobs. No command of Redis.
//!
//! JOB COUNT and JOB QUEUES belong to the server, which knows what a user may read; their other
//! half is in `look`.
//!
//! `add` has JOB ADD, `take` JOB TAKE, `held` what a worker says of its jobs, `manage` what people
//! do to queues, `look` the readers, and `effects` what the log of changes has. Every handler finds
//! its queue by `queue`, which first takes the steps that are due.

mod add;
mod effects;
mod held;
pub mod look;
mod manage;
#[cfg(test)]
mod model_tests;
mod take;
#[cfg(test)]
mod tests;

use punctual_resp::{Args, Reply};

use crate::error::Error;
use crate::keyspace::records::Id as RecordId;
use crate::spec::{Flags, Group, OptionKeys};
use crate::turn::cx::Place;
use crate::turn::{Command, Cx, Handler};
use crate::value::jobs::Jobs;

/// The family's rows.
pub static COMMANDS: &[Command] = &[Command::container("job", Group::Job, SUBCOMMANDS).doc(
    OWN,
    "Depends on subcommand.",
    "A container for queues of jobs.",
)];

/// "Since" of commands that no Redis has.
const OWN: &str = super::timers::OWN;

const LOOKS: Flags = Flags::READONLY;
const CHANGES: Flags = Flags::WRITE.or(Flags::FAST);
const GROWS: Flags = CHANGES.or(Flags::DENYOOM);
const UPDATE: &[&str] = &["RW update"];

/// First words of the options of JOB TAKE.
const TAKE_OPTIONS: &[&str] = &["BLOCK", "COUNT", "LEASE"];

const ADD_KEYS: OptionKeys = OptionKeys {
    first: Some(2),
    from: 4,
    keyed: &["dead"],
    skipped: &[
        ("id", 1),
        ("unique", 1),
        ("delay", 1),
        ("at", 1),
        ("priority", 1),
        ("lease", 1),
        ("retry", 1),
        ("backoff", 2),
        ("jitter", 1),
        ("ttl", 1),
        ("keep", 1),
    ],
    ..OptionKeys::NONE
};

static SUBCOMMANDS: &[Command] = &[
    keyed("ack", -5, CHANGES, held::ack)
        .access(&["RW delete"])
        .doc(
            OWN,
            "O(log J) for each job, of J jobs in the queue.",
            "Ends jobs that a worker has done.",
        )
        .syntax("queue (job: id token:integer) ..."),
    row("add", -4, GROWS, add::add)
        .option_keys(&ADD_KEYS)
        .access(&["RW insert", "RW insert"])
        .tips(&["nondeterministic_output"])
        .doc(
            OWN,
            "O(log J) for J jobs in the queue.",
            "Adds a job to a queue. Creates the key if it doesn't exist.",
        )
        .syntax(
            "queue payload [ID id] [unique: UNIQUE milliseconds] [due: DELAY milliseconds | \
             AT unix-time-milliseconds] [PRIORITY priority:integer] [lease: LEASE \
             milliseconds] [RETRY count] [BACKOFF (base:integer max:integer [JITTER \
             percent:integer])] [ttl: TTL milliseconds] [dead: DEAD queue:key1] [keep: KEEP \
             milliseconds]",
        ),
    keyed("del", -4, CHANGES, manage::del)
        .access(&["RW delete"])
        .doc(
            OWN,
            "O(log J) for each job, of J jobs in the queue.",
            "Deletes jobs, whatever their state is.",
        )
        .syntax("queue id ..."),
    keyed("get", 4, LOOKS.or(Flags::FAST), look::get)
        .access(&["RO access"])
        .doc(OWN, "O(1)", "Returns a job.")
        .syntax("queue id"),
    Command::help(Group::Job, OWN, show_help),
    keyed("info", 3, LOOKS.or(Flags::FAST), look::info)
        .access(&["RO access"])
        .doc(
            OWN,
            "O(P log J) for P priorities of ready jobs.",
            "Returns the numbers of jobs by state, and what has happened so far.",
        )
        .syntax("queue"),
    keyed(
        "leased",
        -7,
        Flags::WRITE.or(Flags::NOSCRIPT),
        effects::leased,
    )
    .access(UPDATE)
    .internal()
    .doc(
        OWN,
        "O(log J) for each job.",
        "Sets leases in a log of changes.",
    )
    .syntax("queue (lease: id until:integer token:integer attempt:integer) ..."),
    keyed("nack", -5, CHANGES, held::nack)
        .access(UPDATE)
        .doc(
            OWN,
            "O(log J) for each job, of J jobs in the queue.",
            "Gives up jobs, which are tried again or die.",
        )
        .syntax("queue (job: id token:integer) ... [DELAY milliseconds] [ERROR text]"),
    keyed("pause", 3, GROWS, manage::pause)
        .access(UPDATE)
        .doc(OWN, "O(1)", "Lets no worker take a job of a queue.")
        .syntax("queue"),
    keyed("put", 4, Flags::WRITE.or(Flags::NOSCRIPT), effects::put)
        .access(UPDATE)
        .internal()
        .doc(OWN, "O(log J)", "Sets a job in a log of changes.")
        .syntax("queue job"),
    keyed("range", 6, LOOKS, look::range)
        .access(&["RO access"])
        .doc(
            OWN,
            "O(log(J) + N) for N jobs that are returned, at most 100000.",
            "Returns jobs in a state, the next one first.",
        )
        .syntax("queue (state: READY | DELAYED | LEASED | DEAD | DONE) from:integer to:integer"),
    keyed("resume", 3, CHANGES, manage::resume)
        .access(UPDATE)
        .doc(OWN, "O(1)", "Lets workers take jobs of a queue again.")
        .syntax("queue"),
    keyed("revive", -4, CHANGES, manage::revive)
        .access(UPDATE)
        .doc(
            OWN,
            "O(log J) for each job, at most 10000, of J jobs in the queue.",
            "Makes dead jobs ready again.",
        )
        .syntax("queue (jobs: id ... | ALL)"),
    row("take", -3, Flags::WRITE.or(Flags::BLOCKING), take::take)
        .keys_until(2, TAKE_OPTIONS)
        .access(&["RW access delete"])
        .tips(&["nondeterministic_output"])
        .doc(
            OWN,
            "O(log J) for each job, of J jobs in the queue.",
            "Leases jobs of queues to a worker. Blocks until there are any.",
        )
        .syntax("queue ... [COUNT count] [block: BLOCK milliseconds] [lease: LEASE milliseconds]"),
    keyed("touch", -5, CHANGES, held::touch)
        .access(UPDATE)
        .doc(
            OWN,
            "O(log J) for each job, of J jobs in the queue.",
            "Begins leases anew.",
        )
        .syntax("queue (job: id token:integer) ... [LEASE milliseconds]"),
];

crate::family!(Handler, Group::Job, Flags::NONE);

const fn keyed(name: &'static str, arity: i32, flags: Flags, handler: Handler) -> Command {
    row(name, arity, flags, handler).keys(2, 2, 1)
}

/// Finds a queue to change or to look at, and takes the steps that are due: at least `count` if so
/// many are.
///
/// # Errors
/// [`Error::WrongType`] if the value has another type.
fn queue(cx: &mut Cx, key: &[u8], count: usize) -> Result<(Place, Option<RecordId>), Error> {
    let (place, found) = cx.seek_to_write(key);
    let now = cx.now();
    if let Some(id) = found
        && cx.view::<Jobs>(place, id)?.may_be_due(now)
    {
        cx.turn
            .settle_jobs(place.shard(), place.db(), key, id, count);
    }
    Ok((place, found))
}

fn show_help(_: &mut Cx, _: Args, reply: &mut Reply) -> Result<(), Error> {
    super::help(
        reply,
        "JOB",
        &[
            "ACK <queue> <id> <token> [<id> <token> ...]",
            "    End jobs that are done. Return the number of those whose token was right.",
            "ADD <queue> <payload> [ID <id>] [UNIQUE <ms>] [DELAY <ms> | AT <ms>] [PRIORITY <n>]",
            "    [LEASE <ms>] [RETRY <n>] [BACKOFF <base> <max> [JITTER <percent>]] [TTL <ms>]",
            "    [DEAD <queue>] [KEEP <ms>]",
            "    Add a job. Return its ID, or nil if the ID is taken.",
            "COUNT <from> <to> [BUCKETS <count>]",
            "    Return the number of delayed jobs of all queues that are due from a unix time in",
            "    milliseconds until before another one, or the numbers for equal parts of that time.",
            "DEL <queue> <id> [<id> ...]",
            "    Delete jobs, whatever their state is.",
            "GET <queue> <id>",
            "    Return a job.",
            "INFO <queue>",
            "    Return the numbers of jobs by state, and what has happened so far.",
            "NACK <queue> <id> <token> [<id> <token> ...] [DELAY <ms>] [ERROR <text>]",
            "    Give up jobs, which are tried again or die.",
            "PAUSE <queue>",
            "    Let no worker take a job.",
            "QUEUES [MATCH <pattern>] [COUNT <count>]",
            "    Return the queues with their names as INFO does, in the order of their names.",
            "RANGE <queue> READY|DELAYED|LEASED|DEAD|DONE <from> <to>",
            "    Return jobs in a state by their positions.",
            "RESUME <queue>",
            "    Let workers take jobs again.",
            "REVIVE <queue> <id> [<id> ...] | ALL",
            "    Make dead jobs ready again; of all, at most 10000.",
            "TAKE <queue> [<queue> ...] [COUNT <n>] [BLOCK <ms>] [LEASE <ms>]",
            "    Lease jobs to a worker. Return the queue, the ID, the token, the number of the",
            "    attempt, the due time and the payload of each.",
            "TOUCH <queue> <id> <token> [<id> <token> ...] [LEASE <ms>]",
            "    Begin leases anew.",
        ],
    );
    Ok(())
}
