//! Connection commands: PING ECHO AUTH HELLO SELECT QUIT RESET.

use std::sync::atomic::Ordering;

use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Protocol, Reply};
use punctual_store::Error;
use punctual_store::spec::{Flags, Group};

use crate::acl::registry::DEFAULT;
use crate::node::call::{Call, ServerCommand, ServerHandler};
use crate::session::ReplyMode;

const ANY_TIME: Flags = Flags::LOADING.or(Flags::STALE).or(Flags::FAST);
const BEFORE_AUTH: Flags = ANY_TIME
    .or(Flags::NOSCRIPT)
    .or(Flags::NO_AUTH)
    .or(Flags::ALLOW_BUSY);

pub(super) const fn row(
    name: &'static str,
    arity: i32,
    flags: Flags,
    handler: ServerHandler,
) -> ServerCommand {
    let flags = flags.or(Flags::KEYLESS);
    ServerCommand::new(name, arity, flags, Group::Connection, handler)
}

/// Rows of the commands in this file.
pub(crate) static COMMANDS: &[ServerCommand] = &[
    row(
        "ping",
        -1,
        Flags::FAST.or(Flags::SUBSCRIBER).or(Flags::NEEDS_SAVES),
        ping,
    )
    .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
    .doc("1.0.0", "O(1)", "Returns PONG or the given string.")
    .syntax("[message]"),
    row("echo", 2, ANY_TIME, echo)
        .doc("1.0.0", "O(1)", "Returns the given string.")
        .syntax("message"),
    row("auth", -2, BEFORE_AUTH, auth)
        .secrets(|args| (1..args.len()).collect())
        .since("1.0.0")
        .complexity("O(N) where N is the number of passwords of the user")
        .summary("Authenticates the connection.")
        .history(&[("6.0.0", "Added the username argument.")])
        .syntax("[username@6.0.0] password"),
    row("hello", -1, BEFORE_AUTH.or(Flags::RESHAPES_REPLIES), hello)
        .secrets(secrets_of_hello)
        .since("6.0.0")
        .summary(
            "Selects the protocol version, and optionally authenticates and names the connection.",
        )
        .history(&[("6.2.0", "The protocol version became optional.")])
        .syntax("[arguments: protover:integer [AUTH (username password)] [SETNAME clientname]]"),
    row("select", 2, ANY_TIME.or(Flags::SELECTS), select)
        .doc("1.0.0", "O(1)", "Changes the selected database.")
        .databases(|_| vec![1])
        .syntax("index"),
    row(
        "quit",
        -1,
        BEFORE_AUTH.or(Flags::UNQUEUED).or(Flags::SUBSCRIBER),
        quit,
    )
    .doc("1.0.0", "O(1)", "Closes the connection.")
    .deprecated("7.2.0", "just closing the connection"),
    row(
        "reset",
        1,
        BEFORE_AUTH
            .or(Flags::UNQUEUED)
            .or(Flags::SUBSCRIBER)
            .or(Flags::RESHAPES_REPLIES),
        reset,
    )
    .doc("6.2.0", "O(1)", "Resets the connection."),
];

const NOT_YET: Error = Error::fixed(
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
);

fn ping(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
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

fn echo(_: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    reply.bulk(&args[1]);
    Ok(())
}

fn auth(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    match args.len() {
        2 => {
            if call.shared.clients.users.default_user().no_password {
                return Err(Error::fixed(
                    "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
                ));
            }
            authenticate(call, args, DEFAULT, &args[1])?;
        }
        3 => authenticate(call, args, &args[1], &args[2])?,
        _ => return Err(Error::Syntax),
    }
    reply.ok();
    Ok(())
}

fn authenticate(call: &mut Call, args: Args, user: &[u8], password: &[u8]) -> Result<(), Error> {
    let nested = call.turn.source().is_nested();
    call.shared
        .authenticate(call.session, nested, args.at(0), user, password)
}

/// Returns the positions of the user's name and password in the arguments of HELLO.
fn secrets_of_hello(args: Args) -> Vec<usize> {
    let auth = args
        .iter()
        .skip(2)
        .position(|arg| arg.eq_ignore_ascii_case(b"auth"));
    auth.map_or(Vec::new(), |at| vec![at + 3, at + 4])
}

fn hello(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let protocol = match args.get(1).map(parse_i64) {
        None => call.session.protocol,
        Some(Some(2)) => Protocol::Resp2,
        Some(Some(3)) => Protocol::Resp3,
        Some(Some(_)) => return Err(Error::fixed("NOPROTO unsupported protocol version")),
        Some(None) => {
            return Err(Error::fixed(
                "ERR Protocol version is not an integer or out of range",
            ));
        }
    };
    let (mut credentials, mut name) = (None, None);
    let mut at = 2;
    while let Some(option) = args.get(at) {
        if option.eq_ignore_ascii_case(b"auth") && args.len() > at + 2 {
            credentials = Some((args.at(at + 1), args.at(at + 2)));
            at += 3;
        } else if option.eq_ignore_ascii_case(b"setname") && args.len() > at + 1 {
            name = Some(crate::command::client::checked_name(args.at(at + 1))?);
            at += 2;
        } else {
            return Err(Error::repeating(
                "ERR Syntax error in HELLO option '",
                option,
                "'",
            ));
        }
    }
    if let Some((user, password)) = credentials {
        authenticate(call, args, user, password)?;
    }
    if !call.session.authenticated {
        return Err(NOT_YET);
    }
    if let Some(name) = name {
        call.session.info.names.lock().name = name.to_vec();
    }
    // Messages that were published before HELLO use the old protocol.
    call.mailbox().take_separated(reply.out());
    call.session
        .set_protocol(&call.shared.clients.pubsub, protocol);
    call.shared.clients.trackers.protocol_changed(call.session);
    reply.set_protocol(protocol);
    reply.map(7);
    reply.bulk(b"server");
    reply.bulk(b"redis");
    reply.bulk(b"version");
    reply.bulk(call.shared.settings().redis_version.as_bytes());
    reply.bulk(b"proto");
    reply.int(call.session.info.resp.load(Ordering::Relaxed).into());
    reply.bulk(b"id");
    reply.int(call.session.id as i64);
    reply.bulk(b"mode");
    reply.bulk(call.shared.mode().as_bytes());
    reply.bulk(b"role");
    reply.bulk(match call.shared.replication.is_replica() {
        true => b"replica",
        false => b"master",
    });
    reply.bulk(b"modules");
    reply.array(0);
    Ok(())
}

fn select(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let number = parse_i64(&args[1]).ok_or(Error::NotInteger)?;
    if i32::try_from(number).is_err() {
        return Err(Error::fixed(
            "ERR value is out of range, value must between -2147483648 and 2147483647",
        ));
    }
    let db = usize::try_from(number)
        .ok()
        .filter(|n| *n < call.shared.store.databases())
        .ok_or(match call.shared.cluster {
            Some(_) => Error::fixed("ERR SELECT is not allowed in cluster mode"),
            None => Error::DbRange,
        })?;
    call.session.select(db);
    reply.ok();
    Ok(())
}

fn quit(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    reply.ok();
    call.session.closing = true;
    Ok(())
}

fn reset(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    call.session.reads_replica = false;
    call.shared.clients.monitors.remove(call.session);
    call.session.monitor = false;
    call.session.unsubscribe_all(&call.shared.clients.pubsub);
    call.shared
        .clients
        .trackers
        .end(&call.shared.store, call.session);
    // Messages that were published before RESET still reach the client.
    call.mailbox().take_separated(reply.out());
    let session = &mut *call.session;
    session.discard(call.turn);
    session.remove_fieldsets();
    session.select(0);
    session.set_protocol(&call.shared.clients.pubsub, Protocol::Resp2);
    session.become_default(&call.shared.clients.users);
    session.reply_mode = ReplyMode::On;
    session.set_no_touch(false);
    session.set_no_evict(false);
    // As in Redis, the name and version of the client's library remain.
    session.info.names.lock().name.clear();
    reply.set_protocol(Protocol::Resp2);
    reply.simple("RESET");
    Ok(())
}
