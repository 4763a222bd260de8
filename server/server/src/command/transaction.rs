//! Transactions: MULTI, EXEC, DISCARD, WATCH and UNWATCH.

use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::keyspace::watch::WatchFlag;
use punctual_store::spec::{Flags, Group};

use crate::node::call::{Call, ServerCommand, ServerHandler};
use crate::session::Executing;
use crate::session::transaction::{ABORTED, Transaction};

const ANY_TIME: Flags = Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE);
const QUICK: Flags = ANY_TIME.or(Flags::FAST).or(Flags::ALLOW_BUSY);

punctual_store::family!(ServerHandler, Group::Transactions, Flags::KEYLESS);

/// Rows of the commands in this file.
pub(crate) static COMMANDS: &[ServerCommand] = &[
    row("discard", 1, QUICK.or(Flags::UNQUEUED), discard)
        .since("2.0.0")
        .complexity("O(N), when N is the number of queued commands")
        .summary("Discards a transaction."),
    row(
        "exec",
        1,
        ANY_TIME
            .or(Flags::SKIP_SLOWLOG)
            .or(Flags::UNQUEUED)
            .or(Flags::EXECUTES),
        exec,
    )
    .since("1.2.0")
    .complexity("Depends on commands in the transaction")
    .summary("Executes all commands in a transaction."),
    row("multi", 1, QUICK.or(Flags::UNQUEUED), multi).doc("1.2.0", "O(1)", "Starts a transaction."),
    row("unwatch", 1, QUICK, unwatch).doc("2.2.0", "O(1)", "Removes all watches on keys."),
    row(
        "watch",
        -2,
        QUICK.or(Flags::UNQUEUED).or(Flags::WATCHES),
        watch,
    )
    .keys(1, -1, 1)
    .access(&["RO"])
    .since("2.2.0")
    .complexity("O(1) for every key.")
    .summary("Monitors changes to keys to determine the execution of a transaction.")
    .syntax("key ..."),
];

fn multi(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    if call.session.multi.is_some() {
        return Err(Error::fixed("ERR MULTI calls can not be nested"));
    }
    call.session
        .set_multi(Some(Box::new(Transaction::default())));
    reply.ok();
    Ok(())
}

fn discard(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    if call.session.multi.is_none() {
        return Err(Error::fixed("ERR DISCARD without MULTI"));
    }
    call.session.discard(call.turn);
    reply.ok();
    Ok(())
}

fn watch(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    if call.session.multi.is_some() {
        return Err(Error::fixed("ERR WATCH inside MULTI is not allowed"));
    }
    call.session.watch(call.turn, args.skip(1).iter());
    reply.ok();
    Ok(())
}

fn unwatch(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    call.session.unwatch(call.turn);
    reply.ok();
    Ok(())
}

/// Checks whether the queued commands may run, and pins their shards. Afterwards the dispatcher
/// runs `session.executing` and writes the replies.
fn exec(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let session = &mut *call.session;
    let Some(transaction) = session.multi.take() else {
        return Err(Error::fixed("ERR EXEC without MULTI"));
    };
    if transaction.is_refused() {
        session.discard(call.turn);
        return Err(ABORTED);
    }
    session.end_stale_watches(call.turn);
    let mut changed = session.watch_flag().is_some_and(WatchFlag::is_raised);
    if !changed {
        transaction.pin(call.turn, &session.watched);
        // Checks the watched keys again under the locks, which prevent further changes.
        changed = session.watch_flag().is_some_and(|flag| {
            flag.is_raised() || call.turn.watched_are_due(session.watched.iter(), flag)
        });
    }
    session.unwatch(call.turn);
    if changed {
        call.turn.unpin();
        session.set_multi(None);
        reply.null_array();
    } else {
        session.executing = Some(Executing::Transaction(transaction));
    }
    Ok(())
}
