//! JOB COUNT and JOB QUEUES, which look at the queues that the user may read. The other subcommands
//! are the keyspace's.

use punctual_resp::{Args, Reply};
use punctual_store::command::jobs::look;
use punctual_store::command::timers::OWN;
use punctual_store::spec::{Flags, Group};
use punctual_store::{Error, Turn};

use crate::acl::check::may_read;
use crate::node::call::{Call, ServerCommand, ServerHandler};

const fn row(name: &'static str, arity: i32, handler: ServerHandler) -> ServerCommand {
    ServerCommand::new(name, arity, Flags::READONLY, Group::Job, handler)
}

/// The family's rows, which join those of the keyspace.
pub(crate) static COMMANDS: &[ServerCommand] = &[ServerCommand::container(
    "job",
    Group::Job,
    &[
        row("count", -4, count).doc(
            OWN,
            "O(Q B log J) for Q queues with J jobs and B buckets, of which empty ones cost nothing; at most 100000 queues and buckets with jobs.",
            "Returns the number of delayed jobs that are due in a range of time, or in equal parts of it.",
        )
            .syntax("from to [BUCKETS count]"),
        row("queues", -2, queues).doc(
            OWN,
            "O(Q log Q + N log J) for Q queues, at most 10000, of which N with J jobs are returned.",
            "Returns the queues of the database as JOB INFO does.",
        )
            .syntax("[MATCH pattern] [COUNT count]"),
    ],
)];

/// The half of a command that the keyspace has.
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
        &|key| may_read(user, entry, args, key),
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
