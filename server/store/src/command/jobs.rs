//! JOB, which Redis does not have: queues of jobs. A worker takes a job with a lease, and
//! acknowledges it before the lease ends. A job whose attempts are used up is *dead*.
//!
//! The server implements JOB COUNT and JOB QUEUES, because it checks which keys a user may read. It
//! calls functions of `look`.
//!
//! `add` has JOB ADD, `take` JOB TAKE, `held` JOB ACK, NACK and TOUCH, `manage` JOB DEL, PAUSE,
//! RESUME and REVIVE, `look` the readers, and `effects` the internal commands JOB PUT, JOB LEASED
//! and JOB DUE, which only replicas and the log get. Handlers look up a queue with `queue`, which
//! first processes due jobs (ended leases, delays and TTLs).

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

use crate::command::replies::help;
use crate::error::Error;
use crate::keyspace::records::Id as RecordId;
use crate::spec::{Flags, Group, OptionKeys};
use crate::turn::cx::Place;
use crate::turn::{Command, Cx, Handler};
use crate::value::jobs::Jobs;

/// The family's rows.
pub static COMMANDS: &[Command] = &[Command::container("job", Group::Job, SUBCOMMANDS)
    .since(NOT_IN_REDIS)
    .summary("A container for queues of jobs.")];

/// Version that COMMAND DOCS shows for commands that Redis does not have.
const NOT_IN_REDIS: &str = super::timers::NOT_IN_REDIS;

const READ: Flags = Flags::READONLY;
const WRITE_FAST: Flags = Flags::WRITE.or(Flags::FAST);
const GROW_FAST: Flags = WRITE_FAST.or(Flags::DENYOOM);
const UPDATE: &[&str] = &["RW update"];

/// Names of JOB TAKE's options, which end the list of queues.
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
    keyed("ack", -5, WRITE_FAST, held::ack)
        .access(&["RW delete"])
        .since(NOT_IN_REDIS)
        .complexity("O(log(J)) for each job, where J is the number of jobs in the queue.")
        .summary("Acknowledges jobs that a worker has completed.")
        .syntax("queue (job: id token:integer) ..."),
    row("add", -4, GROW_FAST, add::add)
        .option_keys(&ADD_KEYS)
        .access(&["RW insert", "RW insert"])
        .tips(&["nondeterministic_output"])
        .since(NOT_IN_REDIS)
        .complexity("O(log(J)) where J is the number of jobs in the queue.")
        .summary("Adds a job to a queue. Creates the key if it doesn't exist.")
        .syntax(
            "queue payload [ID id] [unique: UNIQUE milliseconds] [due: DELAY milliseconds | \
             AT unix-time-milliseconds] [PRIORITY priority:integer] [lease: LEASE \
             milliseconds] [RETRY count] [BACKOFF (base:integer max:integer [JITTER \
             percent:integer])] [ttl: TTL milliseconds] [dead: DEAD queue:key1] [keep: KEEP \
             milliseconds]",
        ),
    keyed("del", -4, WRITE_FAST, manage::del)
        .access(&["RW delete"])
        .since(NOT_IN_REDIS)
        .complexity("O(log(J)) for each job, where J is the number of jobs in the queue.")
        .summary("Deletes jobs in any state.")
        .syntax("queue id ..."),
    keyed("due", -5, Flags::WRITE.or(Flags::NOSCRIPT), effects::due)
        .access(UPDATE)
        .internal()
        .since(NOT_IN_REDIS)
        .complexity("O(log(J)) for each job, where J is the number of jobs in the queue.")
        .summary("An internal command for replicating the ends of delays and leases of jobs.")
        .syntax("queue unix-time-milliseconds id ..."),
    keyed("get", 4, READ.or(Flags::FAST), look::get)
        .access(&["RO access"])
        .since(NOT_IN_REDIS)
        .summary("Returns the state and the settings of a job.")
        .syntax("queue id"),
    Command::help(Group::Job, NOT_IN_REDIS, |_, _, reply| {
        help(reply, "JOB", HELP)
    }),
    keyed("info", 3, READ.or(Flags::FAST), look::info)
        .access(&["RO access"])
        .since(NOT_IN_REDIS)
        .complexity(
            "O(P*log(J)) where P is the number of priorities of ready jobs and J is the number of \
             jobs in the queue.",
        )
        .summary("Returns the number of jobs in each state, and the statistics of a queue.")
        .syntax("queue"),
    keyed(
        "leased",
        -7,
        Flags::WRITE.or(Flags::NOSCRIPT),
        effects::leased,
    )
    .access(UPDATE)
    .internal()
    .since(NOT_IN_REDIS)
    .complexity("O(log(J)) for each job, where J is the number of jobs in the queue.")
    .summary("An internal command for replicating leases of jobs.")
    .syntax("queue (lease: id until:integer token:integer attempt:integer) ..."),
    keyed("nack", -5, WRITE_FAST, held::nack)
        .access(UPDATE)
        .since(NOT_IN_REDIS)
        .complexity("O(log(J)) for each job, where J is the number of jobs in the queue.")
        .summary(
            "Reports jobs as failed. They are retried later, or become dead after their last \
             attempt.",
        )
        .syntax("queue (job: id token:integer) ... [DELAY milliseconds] [ERROR text]"),
    keyed("pause", 3, GROW_FAST, manage::pause)
        .access(UPDATE)
        .since(NOT_IN_REDIS)
        .summary("Pauses a queue. Workers cannot take its jobs.")
        .syntax("queue"),
    keyed("put", 4, Flags::WRITE.or(Flags::NOSCRIPT), effects::put)
        .access(UPDATE)
        .internal()
        .since(NOT_IN_REDIS)
        .complexity("O(log(J)) where J is the number of jobs in the queue.")
        .summary("An internal command for replicating jobs.")
        .syntax("queue job"),
    keyed("range", 6, READ, look::range)
        .access(&["RO access"])
        .since(NOT_IN_REDIS)
        .complexity(
            "O(log(J)+N) where J is the number of jobs in the queue and N is the number of jobs \
             returned. N is at most 100000.",
        )
        .summary("Returns a range of the jobs in a state, with the next job first.")
        .syntax("queue (state: READY | DELAYED | LEASED | DEAD | DONE) from:integer to:integer"),
    keyed("resume", 3, WRITE_FAST, manage::resume)
        .access(UPDATE)
        .doc(NOT_IN_REDIS, "O(1)", "Resumes a paused queue.")
        .syntax("queue"),
    keyed("revive", -4, WRITE_FAST, manage::revive)
        .access(UPDATE)
        .since(NOT_IN_REDIS)
        .complexity(
            "O(log(J)) for each job, where J is the number of jobs in the queue. ALL revives at \
             most 10000 jobs.",
        )
        .summary("Makes dead jobs ready again.")
        .syntax("queue (jobs: id ... | ALL)"),
    row("take", -3, Flags::WRITE.or(Flags::BLOCKING), take::take)
        .keys_until(2, TAKE_OPTIONS)
        .access(&["RW access delete"])
        .tips(&["nondeterministic_output"])
        .since(NOT_IN_REDIS)
        .complexity("O(log(J)) for each job, where J is the number of jobs in the queue.")
        .summary("Leases jobs of queues to a worker. Blocks until a job is available.")
        .syntax("queue ... [COUNT count] [block: BLOCK milliseconds] [lease: LEASE milliseconds]"),
    keyed("touch", -5, WRITE_FAST, held::touch)
        .access(UPDATE)
        .since(NOT_IN_REDIS)
        .complexity("O(log(J)) for each job, where J is the number of jobs in the queue.")
        .summary("Restarts the leases of jobs.")
        .syntax("queue (job: id token:integer) ... [LEASE milliseconds]"),
];

crate::family!(Handler, Group::Job, Flags::NONE);

const fn keyed(name: &'static str, arity: i32, flags: Flags, handler: Handler) -> Command {
    row(name, arity, flags, handler).keys(2, 2, 1)
}

/// Finds a queue. First processes its due jobs, unless the turn is frozen: at most `count` jobs, or
/// a fixed number of jobs if that is greater.
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

const HELP: &[&str] = &[
    "ACK <queue> <id> <token> [<id> <token> ...]",
    "    Acknowledge completed jobs. Return the number of jobs whose token matched.",
    "ADD <queue> <payload> [ID <id>] [UNIQUE <ms>] [DELAY <ms> | AT <ms>] [PRIORITY <n>]",
    "    [LEASE <ms>] [RETRY <n>] [BACKOFF <base> <max> [JITTER <percent>]] [TTL <ms>]",
    "    [DEAD <queue>] [KEEP <ms>]",
    "    Add a job. Return its ID, or nil if the ID is taken.",
    "COUNT <from> <to> [BUCKETS <count>]",
    "    Return the number of delayed jobs of all queues that become due in a time range, or in",
    "    each of its equal parts. <from> and <to> are unix times in ms, and <to> is excluded.",
    "DEL <queue> <id> [<id> ...]",
    "    Delete jobs in any state.",
    "GET <queue> <id>",
    "    Return the state and the settings of a job.",
    "INFO <queue>",
    "    Return the number of jobs in each state, and the statistics of a queue.",
    "NACK <queue> <id> <token> [<id> <token> ...] [DELAY <ms>] [ERROR <text>]",
    "    Report jobs as failed. They are retried later, or become dead after the last attempt.",
    "PAUSE <queue>",
    "    Pause a queue. Workers cannot take its jobs.",
    "QUEUES [MATCH <pattern>] [COUNT <count>]",
    "    Return the name and the INFO of each queue, in the order of the names.",
    "RANGE <queue> READY|DELAYED|LEASED|DEAD|DONE <from> <to>",
    "    Return jobs in a state by their positions.",
    "RESUME <queue>",
    "    Resume a paused queue.",
    "REVIVE <queue> <id> [<id> ...] | ALL",
    "    Make dead jobs ready again. ALL revives at most 10000 jobs.",
    "TAKE <queue> [<queue> ...] [COUNT <n>] [BLOCK <ms>] [LEASE <ms>]",
    "    Lease jobs to a worker. Return the queue, the ID, the token, the number of the",
    "    attempt, the due time and the payload of each job.",
    "TOUCH <queue> <id> <token> [<id> <token> ...] [LEASE <ms>]",
    "    Restart the leases of jobs.",
];
