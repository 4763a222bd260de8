//! Connections: PING, ECHO, SELECT, QUIT.

use punctual_resp::{Args, Protocol, Reply};
use punctual_store::Error;
use punctual_store::spec::{Flags, Group};

use crate::call::Call;
use crate::table::{ServerCommand, ServerHandler};

const ANY_TIME: Flags = Flags::LOADING.or(Flags::STALE).or(Flags::FAST);

const fn row(name: &'static str, arity: i32, flags: Flags, handler: ServerHandler) -> ServerCommand {
    ServerCommand::new(name, arity, flags, Group::Connection, handler)
}

/// The family's rows.
pub static COMMANDS: &[ServerCommand] = &[
    row("ping", -1, Flags::FAST, ping).doc("1.0.0", "O(1)", "Returns the server's liveliness response."),
    row("echo", 2, ANY_TIME, echo).doc("1.0.0", "O(1)", "Returns the given string."),
    row("select", 2, ANY_TIME, select).doc("1.0.0", "O(1)", "Changes the selected database."),
    row("quit", -1, ANY_TIME.or(Flags::NOSCRIPT).or(Flags::NO_AUTH).or(Flags::ALLOW_BUSY), quit).doc(
        "1.0.0",
        "O(1)",
        "Closes the connection.",
    ),
];

fn ping(call: &mut Call<'_, '_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
    if args.len() > 2 {
        return Err(Error::Arity("ping".into()));
    }
    let text = args.get(1);
    if call.session.in_subscribed_mode() {
        reply.array(2);
        reply.bulk(b"pong");
        reply.bulk(text.unwrap_or_default());
    } else {
        match text {
            None => reply.simple("PONG"),
            Some(text) => reply.bulk(text),
        }
    }
    Ok(())
}

fn echo(_: &mut Call<'_, '_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
    reply.bulk(&args[1]);
    Ok(())
}

fn select(call: &mut Call<'_, '_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
    let number = punctual_resp::decimal::parse_i64(&args[1]).ok_or(Error::NotInteger)?;
    let db = usize::try_from(number)
        .ok()
        .filter(|n| *n < call.shared.store.databases())
        .ok_or(Error::DbRange)?;
    call.session.db = db;
    call.session
        .info
        .db
        .store(db as u32, std::sync::atomic::Ordering::Relaxed);
    reply.ok();
    Ok(())
}

fn quit(call: &mut Call<'_, '_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
    reply.ok();
    call.session.closing = true;
    let _ = Protocol::Resp2;
    Ok(())
}
