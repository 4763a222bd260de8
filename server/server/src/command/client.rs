//! CLIENT. The handlers of LIST, INFO and KILL are in `client_list`, those of client-side caching
//! in `tracking`.

use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::command::help;
use punctual_store::spec::{Flags, Group};

use crate::client::pause::Purpose;
use crate::command::client_list::{info, kill, list};
use crate::command::connection::row;
use crate::command::tracking::{caching, get_redir, tracking, tracking_info};
use crate::node::call::{Call, ServerCommand};
use crate::node::order::Order;
use crate::node::waiting;
use crate::session::ReplyMode;

/// Flags of CLIENT HELP.
const HELPS: Flags = Flags::LOADING.or(Flags::STALE).or(Flags::KEEPS_CACHING);
/// Flags of subcommands about the connection itself.
const SELF: Flags = HELPS.or(Flags::NOSCRIPT);
const ADMIN: Flags = SELF.or(Flags::ADMIN);

/// Rows of the commands in this file.
pub(crate) static COMMANDS: &[ServerCommand] =
    &[
        ServerCommand::container("client", Group::Connection, SUBCOMMANDS)
            .since("2.4.0")
            .summary("A container for client connection commands."),
    ];

static SUBCOMMANDS: &[ServerCommand] = &[
    row("caching", 3, SELF, caching)
        .since("6.0.0")
        .summary("Instructs the server whether to track the keys in the next request.")
        .syntax("(mode: YES | NO)"),
    row("getname", 2, SELF, get_name)
        .since("2.6.9")
        .summary("Returns the name of the connection."),
    row("getredir", 2, SELF, get_redir)
        .since("6.0.0")
        .summary(
            "Returns the client ID to which the connection's tracking notifications are redirected.",
        ),
    row("help", 2, HELPS, |_, _, reply| help(reply, "CLIENT", HELP))
        .since("5.0.0")
        .summary("Returns helpful text about the different subcommands."),
    row("id", 2, SELF, id).doc("5.0.0", "O(1)", "Returns the unique client ID of the connection."),
    row("info", 2, SELF, info).tips(&["nondeterministic_output"]).doc("6.2.0", "O(1)", "Returns information about the connection."),
    row("kill", -3, ADMIN, kill)
        .doc("2.4.0", "O(N) where N is the number of client connections", "Terminates open connections.")
        .history(&[
            ("2.8.12", "Added the form with filters."),
            ("2.8.12", "`ID` option."),
            ("3.2.0", "Added `master` type in for `TYPE` option."),
            ("5.0.0", "Replaced `slave` `TYPE` with `replica`. `slave` still works."),
            ("6.2.0", "`LADDR` option."),
            ("7.4.0", "`MAXAGE` option."),
        ])
        .syntax(
            "(filter: (old-format: \"ip:port\"!2.8.12) | (new-format: [ID client-id@2.8.12] | \
             [client-type: TYPE (NORMAL | MASTER@3.2.0 | SLAVE | REPLICA@5.0.0 | \
             PUBSUB)]@2.8.12 | [USER username] | [addr: ADDR \"ip:port\"] | [laddr: LADDR \
             \"ip:port\"@6.2.0] | [SKIPME (YES | NO)] | [MAXAGE maxage:integer@7.4.0]) ...)",
        ),
    row("list", -2, ADMIN, list)
        .tips(&["nondeterministic_output"])
        .doc("2.4.0", "O(N) where N is the number of client connections", "Lists open connections.")
        .history(&[
            ("2.8.12", "Added unique client `id` field."),
            ("5.0.0", "Added optional `TYPE` filter."),
            ("6.0.0", "Added `user` field."),
            ("6.2.0", "Added `argv-mem`, `tot-mem`, `laddr` and `redir` fields and the optional `ID` filter."),
            ("7.0.0", "Added `resp`, `multi-mem`, `rbs` and `rbp` fields."),
            ("7.0.3", "Added `ssub` field."),
            ("7.2.0", "Added `lib-name` and `lib-ver` fields."),
        ])
        .syntax(
            "[client-type: TYPE (NORMAL | MASTER | REPLICA | PUBSUB)]@5.0.0 [ID \
             client-id@6.2.0 ...]",
        ),
    row("no-evict", 3, ADMIN, no_evict)
        .since("7.0.0")
        .summary("Sets the client eviction mode of the connection.")
        .syntax("(enabled: ON | OFF)"),
    row("no-touch", 3, SELF, no_touch)
        .since("7.2.0")
        .summary(
            "Controls whether commands sent by the client affect the LRU/LFU of accessed keys.",
        )
        .syntax("(enabled: ON | OFF)"),
    row("pause", -3, ADMIN, pause)
        .doc("3.0.0", "O(1)", "Suspends commands processing.")
        .history(&[(
            "6.2.0",
            "`CLIENT PAUSE WRITE` mode added along with the `mode` option.",
        )])
        .syntax("timeout:integer [mode: WRITE | ALL]@6.2.0"),
    row("reply", 3, SELF.or(Flags::RESHAPES_REPLIES), reply_mode)
        .since("3.2.0")
        .summary("Instructs the server whether to reply to commands.")
        .syntax("(action: ON | OFF | SKIP)"),
    row("setinfo", 4, SELF, set_info)
        .since("7.2.0")
        .summary("Sets information specific to the client or connection.")
        .syntax("(attr: LIB-NAME libname | LIB-VER libver)"),
    row("setname", 3, SELF, set_name).doc("2.6.9", "O(1)", "Sets the connection name.")
        .syntax("connection-name"),
    row("tracking", -3, SELF, tracking)
        .since("6.0.0")
        .complexity("O(1). Some options may introduce additional complexity.")
        .summary("Controls server-assisted client-side caching for the connection.")
        .syntax(
            "(status: ON | OFF) [REDIRECT client-id] [PREFIX prefix] ... [BCAST] [OPTIN] \
             [OPTOUT] [NOLOOP]",
        ),
    row("trackinginfo", 2, SELF, tracking_info)
        .since("6.2.0")
        .summary(
            "Returns information about server-assisted client-side caching for the connection.",
        ),
    row("unblock", -3, ADMIN, unblock)
        .since("5.0.0")
        .complexity("O(log N) where N is the number of client connections")
        .summary("Unblocks a client blocked by a blocking command from a different connection.")
        .syntax("client-id [unblock-type: TIMEOUT | ERROR]"),
    row("unpause", 2, ADMIN, unpause)
        .since("6.2.0")
        .complexity("O(N) Where N is the number of paused clients")
        .summary("Resumes processing commands from paused clients."),
];

/// Returns the name, or an error if it has characters that would break a line of CLIENT LIST.
pub(super) fn checked_name(name: &[u8]) -> Result<&[u8], Error> {
    if is_printable(name) {
        Ok(name)
    } else {
        Err(Error::fixed(
            "ERR Client names cannot contain spaces, newlines or special characters.",
        ))
    }
}

fn is_printable(text: &[u8]) -> bool {
    text.iter().all(|b| (b'!'..=b'~').contains(b))
}

fn id(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    reply.int(call.session.id as i64);
    Ok(())
}

fn get_name(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    match call.session.info.names.lock().name.as_slice() {
        [] => reply.null(),
        name => reply.bulk(name),
    }
    Ok(())
}

fn set_name(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    call.session.info.names.lock().name = checked_name(&args[2])?.to_vec();
    reply.ok();
    Ok(())
}

fn set_info(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (attribute, value) = (&args[2], &args[3]);
    let mut names = call.session.info.names.lock();
    let field = match attribute.to_ascii_lowercase().as_slice() {
        b"lib-name" => &mut names.lib_name,
        b"lib-ver" => &mut names.lib_ver,
        _ => {
            return Err(Error::repeating(
                "ERR Unrecognized option '",
                attribute,
                "'",
            ));
        }
    };
    if !is_printable(value) {
        let what = " cannot contain spaces, newlines or special characters.";
        return Err(Error::repeating("ERR ", attribute, what));
    }
    *field = value.to_vec();
    reply.ok();
    Ok(())
}

fn on_or_off(arg: &[u8]) -> Result<bool, Error> {
    match arg.to_ascii_lowercase().as_slice() {
        b"on" => Ok(true),
        b"off" => Ok(false),
        _ => Err(Error::Syntax),
    }
}

fn no_evict(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    call.session.set_no_evict(on_or_off(&args[2])?);
    reply.ok();
    Ok(())
}

fn no_touch(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    call.session.set_no_touch(on_or_off(&args[2])?);
    reply.ok();
    Ok(())
}

fn reply_mode(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let mode = &mut call.session.reply_mode;
    match args[2].to_ascii_lowercase().as_slice() {
        b"on" => {
            *mode = ReplyMode::On;
            reply.ok();
        }
        b"off" => *mode = ReplyMode::Off,
        b"skip" if *mode == ReplyMode::Off => {}
        b"skip" => *mode = ReplyMode::Skip,
        _ => return Err(Error::Syntax),
    }
    Ok(())
}

fn pause(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let writes_only = match args.get(3).map(<[u8]>::to_ascii_lowercase).as_deref() {
        _ if args.len() > 4 => return Err(crate::command::replies::wrong_form("CLIENT", args)),
        None | Some(b"all") => false,
        Some(b"write") => true,
        Some(_) => return Err(Error::fixed("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let timeout_ms = parse_i64(&args[2]).ok_or(Error::fixed(
        "ERR timeout is not an integer or out of range",
    ))?;
    let timeout_ms =
        u64::try_from(timeout_ms).map_err(|_| Error::fixed("ERR timeout is negative"))?;
    let end_ms = call.turn.now.base_ms().saturating_add(timeout_ms);
    let pauses = &call.shared.clients.pauses;
    pauses.begin(Purpose::Command, call.turn.now, end_ms, writes_only);
    reply.ok();
    Ok(())
}

fn unpause(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    call.shared.clients.pauses.end(Purpose::Command);
    call.shared.order_all(|| Order::Resume);
    reply.ok();
    Ok(())
}

fn unblock(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let error = match args.get(3).map(<[u8]>::to_ascii_lowercase).as_deref() {
        _ if args.len() > 4 => return Err(crate::command::replies::wrong_form("CLIENT", args)),
        None | Some(b"timeout") => None,
        Some(b"error") => Some(Error::fixed(
            "UNBLOCKED client unblocked via CLIENT UNBLOCK",
        )),
        Some(_) => {
            return Err(Error::fixed(
                "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR",
            ));
        }
    };
    let id = parse_i64(&args[2]).ok_or(Error::NotInteger)?;
    let client = u64::try_from(id)
        .ok()
        .and_then(|id| call.shared.clients.registry.get(id));
    let unblocked = client.is_some_and(|client| {
        let waiter = client.waiter.lock().clone();
        waiter.is_some_and(|waiter| {
            let claimed = waiter.has_keys() && waiter.claim();
            if claimed {
                waiting::answer_unserved(call.shared, call.loop_number, &waiter, error.as_ref());
            }
            claimed
        })
    });
    reply.int(unblocked.into());
    Ok(())
}

const HELP: &[&str] = &[
    "CACHING (YES|NO)",
    "    Enable/disable tracking of the keys for next command in OPTIN/OPTOUT modes.",
    "GETREDIR",
    "    Return the client ID we are redirecting to when tracking is enabled.",
    "GETNAME",
    "    Return the name of the current connection.",
    "ID",
    "    Return the ID of the current connection.",
    "INFO",
    "    Return information about the current client connection.",
    "KILL <ip:port>",
    "    Kill connection made from <ip:port>.",
    "KILL <option> <value> [<option> <value> [...]]",
    "    Kill connections. Options are:",
    "    * ADDR (<ip:port>|<unixsocket>:0)",
    "      Kill connections made from the specified address",
    "    * LADDR (<ip:port>|<unixsocket>:0)",
    "      Kill connections made to specified local address",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      Kill connections by type.",
    "    * USER <username>",
    "      Kill connections authenticated by <username>.",
    "    * SKIPME (YES|NO)",
    "      Skip killing current connection (default: yes).",
    "LIST [options ...]",
    "    Return information about client connections. Options:",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      Return clients of specified type.",
    "UNPAUSE",
    "    Stop the current client pause, resuming traffic.",
    "PAUSE <timeout> [WRITE|ALL]",
    "    Suspend all, or just write, clients for <timeout> milliseconds.",
    "REPLY (ON|OFF|SKIP)",
    "    Control the replies sent to the current connection.",
    "SETNAME <name>",
    "    Assign the name <name> to the current connection.",
    "SETINFO <option> <value>",
    "    Set client meta attr. Options are:",
    "    * LIB-NAME: the client lib name.",
    "    * LIB-VER: the client lib version.",
    "UNBLOCK <clientid> [TIMEOUT|ERROR]",
    "    Unblock the specified blocked client.",
    "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]]",
    "         [OPTIN] [OPTOUT] [NOLOOP]",
    "    Control server assisted client side caching.",
    "TRACKINGINFO",
    "    Report tracking status for the current connection.",
    "NO-EVICT (ON|OFF)",
    "    Protect current client connection from eviction.",
    "NO-TOUCH (ON|OFF)",
    "    Will not touch LRU/LFU stats when this mode is on.",
];
