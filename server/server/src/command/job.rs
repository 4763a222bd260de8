//! JOB COUNT and JOB QUEUES, which need the user's permissions: they count only queues that the
//! user may read. The other subcommands are keyspace commands.

use punctual_resp::{Args, Reply};
use punctual_store::command::jobs::look;
use punctual_store::command::timers::NOT_IN_REDIS;
use punctual_store::spec::{Flags, Group};
use punctual_store::{Error, Turn};

use crate::acl::check::may_read;
use crate::node::call::{Call, ServerCommand, ServerHandler};

const fn row(name: &'static str, arity: i32, handler: ServerHandler) -> ServerCommand {
    ServerCommand::new(name, arity, Flags::READONLY, Group::Job, handler)
}

/// Rows of these subcommands. The command table adds the subcommands of the keyspace.
pub(crate) static COMMANDS: &[ServerCommand] = &[ServerCommand::container(
    "job",
    Group::Job,
    &[
        row("count", -4, count)
            .since(NOT_IN_REDIS)
            .complexity(
                "O(Q B log J) for Q queues with J jobs and B buckets that have jobs. Queues and buckets are at most 100000 together.",
            )
            .summary(
                "Returns the number of delayed jobs that become due in a time range, or in each of its equal parts.",
            )
            .syntax("from to [BUCKETS count]"),
        row("queues", -2, queues)
            .since(NOT_IN_REDIS)
            .complexity(
                "O(Q log Q + N log J) for Q queues, at most 10000, of which N with J jobs are returned.",
            )
            .summary("Returns information about the queues of a database.")
            .syntax("[MATCH pattern] [COUNT count]"),
    ],
)];

/// Function of the store that runs the command in a database. The function among its arguments
/// returns true if the user may read a key.
type Look =
    fn(&mut Turn<'_>, usize, &dyn Fn(&[u8]) -> bool, Args<'_>, &mut Reply<'_>) -> Result<(), Error>;

fn run(look: Look, call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (user, db) = (&call.session.user, call.session.db);
    let entry = call
        .shared
        .commands
        .find(args)
        .map_err(|(_, error)| error)?;
    look(
        call.turn,
        db,
        &|key| may_read(user, entry, args, db, key),
        args,
        reply,
    )
}

fn count(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    run(look::count, call, args, reply)
}

fn queues(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    run(look::queues, call, args, reply)
}
