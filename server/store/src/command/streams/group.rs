//! XGROUP.

use punctual_resp::{Args, Reply};

use super::arguments::{id_or_end, id_or_last};
use super::lease;
use super::reply::no_group;
use crate::arguments::{int, is};
use crate::command::replies::help;
use crate::error::{Error, brief};
use crate::keyspace::records::Id as RecordId;
use crate::spec::{Flags, Group as Family};
use crate::turn::cx::Place;
use crate::turn::{Command, Cx, Handler};
use crate::value::Kind;
use crate::value::stream::{Group, Id, Stream};

pub(super) static SUBCOMMANDS: &[Command] = &[
    row("create", -5, GROW, create)
        .access(&["RW insert"])
        .doc("5.0.0", "O(1)", "Creates a consumer group.")
        .history(&[("7.0.0", "Added the `entries_read` named argument.")])
        .syntax(
            "key group (id-selector: id | (new-id: $)) [MKSTREAM] [entriesread: ENTRIESREAD \
             entries-read:integer]",
        ),
    row("createconsumer", 5, GROW, create_consumer)
        .access(&["RW insert"])
        .doc("6.2.0", "O(1)", "Creates a consumer in a consumer group.")
        .syntax("key group consumer"),
    row("delconsumer", 5, Flags::WRITE, delete_consumer)
        .access(&["RW delete"])
        .since("5.0.0")
        .complexity("O(N) where N is the number of the consumer's pending entries.")
        .summary("Deletes a consumer from a consumer group.")
        .syntax("key group consumer"),
    row("destroy", 4, Flags::WRITE, destroy)
        .access(&["RW delete"])
        .since("5.0.0")
        .complexity("O(N) where N is the number of the group's pending entries.")
        .summary("Destroys a consumer group.")
        .syntax("key group"),
    Command::help(Family::Stream, "5.0.0", |_, _, reply| {
        help(reply, "XGROUP", HELP)
    }),
    row("setid", -5, Flags::WRITE, set_id)
        .access(&["RW update"])
        .since("5.0.0")
        .summary("Sets the last delivered ID of a consumer group.")
        .history(&[("7.0.0", "Added the optional `entries_read` argument.")])
        .syntax(
            "key group (id-selector: id | (new-id: $)) [entriesread: ENTRIESREAD \
             entries-read:integer]",
        ),
    row("setlease", -5, GROW, lease::set_lease)
        .syntax("key group milliseconds [limit: MAXDELIVERIES count DEADLETTER stream:key1]")
        // The keys are the stream and the dead-letter stream.
        .keys(2, 8, 6)
        .access(&["RW access delete", "RW insert"])
        .since("7.2.0")
        .complexity("O(N*log(N)) where N is the number of the group's pending entries.")
        .summary("Sets the time after which an unacknowledged entry is delivered again."),
];

const GROW: Flags = Flags::WRITE.or(Flags::DENYOOM);
const NO_KEY: Error = Error::fixed(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.",
);

crate::family!(Handler, Family::Stream, Flags::NONE, keys(2, 2, 1));

/// The error of a subcommand with wrong arguments.
pub(super) fn wrong_form(container: &str, args: Args) -> Error {
    Error::repeating(
        "ERR unknown subcommand or wrong number of arguments for '",
        brief(args.at(1)),
        &format!("'. Try {container} HELP."),
    )
}

/// Options of CREATE and SETID.
struct Options {
    make_stream: bool,
    entries_read: Option<u64>,
}

impl Options {
    fn parse(args: Args, creates: bool) -> Result<Self, Error> {
        let mut options = Self {
            make_stream: false,
            entries_read: None,
        };
        let mut at = 5;
        while at < args.len() {
            if creates && is(&args[at], "MKSTREAM") {
                options.make_stream = true;
                at += 1;
            } else if is(&args[at], "ENTRIESREAD") && at + 1 < args.len() {
                options.entries_read = match int(&args[at + 1])? {
                    -1 => None,
                    number => Some(u64::try_from(number).map_err(|_| {
                        Error::fixed("ERR value for ENTRIESREAD must be positive or -1")
                    })?),
                };
                at += 2;
            } else {
                return Err(wrong_form("XGROUP", args));
            }
        }
        Ok(options)
    }
}

/// Finds the stream, or returns the error of a missing key.
fn stream_of(cx: &mut Cx, key: &[u8]) -> Result<(Place, RecordId), Error> {
    let (place, found) = cx.seek_as::<Stream>(key)?;
    Ok((place, found.ok_or(NO_KEY)?))
}

/// Finds the stream, which must have the group.
pub(super) fn stream_with(cx: &mut Cx, args: Args) -> Result<(Place, RecordId), Error> {
    let (place, record) = stream_of(cx, &args[2])?;
    if cx.view::<Stream>(place, record)?.group(&args[3]).is_none() {
        return Err(no_such_group(args));
    }
    Ok((place, record))
}

/// The error of a stream that lacks the group in `args`.
pub(super) fn no_such_group(args: Args) -> Error {
    no_group(&[
        b"No such consumer group '",
        args.at(3),
        b"' for key name '",
        args.at(2),
        b"'",
    ])
}

fn create(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let options = Options::parse(args, true)?;
    let (key, name) = (&args[2], &args[3]);
    let (place, found) = cx.seek_as::<Stream>(key)?;
    if found.is_none() && !options.make_stream {
        return Err(NO_KEY);
    }
    if args.len() > 8 {
        return Err(wrong_form("XGROUP", args));
    }
    let last = match found {
        Some(record) => cx.view::<Stream>(place, record)?.last_id(),
        None => Id::MIN,
    };
    let last_id = id_or_last(&args[4], last)?;
    let record = match found {
        Some(record) => record,
        None => {
            let record = cx.add_at(place, key, Stream::new().into_value());
            cx.commit_silently(key, 0);
            record
        }
    };
    let group = Group::new(last_id, options.entries_read);
    if cx.view::<Stream>(place, record)?.group(name).is_some() {
        return Err(Error::fixed("BUSYGROUP Consumer Group name already exists"));
    }
    cx.edit::<Stream>(place, record)?.add_group(name, group);
    cx.turn.commit_group(cx.db, key, Some("xgroup-create"), 1);
    reply.ok();
    Ok(())
}

fn set_id(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let options = Options::parse(args, false)?;
    let (place, record) = stream_with(cx, args)?;
    if args.len() != 5 && args.len() != 7 {
        return Err(wrong_form("XGROUP", args));
    }
    let last_id = match args.at(4) {
        b"$" => cx.view::<Stream>(place, record)?.last_id(),
        arg => id_or_end(arg, 0)?,
    };
    if let Some(group) = cx.edit::<Stream>(place, record)?.group_mut(&args[3]) {
        group.last_id = last_id;
        group.entries_read = options.entries_read;
    }
    cx.turn
        .commit_group(cx.db, &args[2], Some("xgroup-setid"), 1);
    cx.turn.note_ready(cx.db, &args[2]);
    reply.ok();
    Ok(())
}

fn destroy(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (place, record) = stream_of(cx, &args[2])?;
    let stream = cx.view::<Stream>(place, record)?;
    if stream.group(&args[3]).is_none() {
        reply.int(0);
        return Ok(());
    }
    cx.edit::<Stream>(place, record)?.remove_group(&args[3]);
    cx.turn
        .commit_group(cx.db, &args[2], Some("xgroup-destroy"), 1);
    // Clients that are blocked in XREADGROUP on the group get an error.
    cx.turn.note_ready(cx.db, &args[2]);
    reply.int(1);
    Ok(())
}

fn create_consumer(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (place, record) = stream_with(cx, args)?;
    let now_ms = cx.now().read_ms();
    let stream = cx.view::<Stream>(place, record)?;
    let exists = stream
        .group(&args[3])
        .is_none_or(|group| group.number_of(&args[4]).is_some());
    if !exists {
        if let Some(group) = cx.edit::<Stream>(place, record)?.group_mut(&args[3]) {
            group.add_consumer(&args[4], now_ms);
        }
        cx.turn
            .commit_group(cx.db, &args[2], Some("xgroup-createconsumer"), 1);
    }
    reply.int(i64::from(!exists));
    Ok(())
}

fn delete_consumer(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (place, record) = stream_with(cx, args)?;
    let stream = cx.view::<Stream>(place, record)?;
    let number = stream
        .group(&args[3])
        .and_then(|group| group.number_of(&args[4]));
    let Some(number) = number else {
        reply.int(0);
        return Ok(());
    };
    let group = cx.edit::<Stream>(place, record)?.group_mut(&args[3]);
    let pending = group.map_or(0, |group| group.remove_consumer(number));
    cx.turn
        .commit_group(cx.db, &args[2], Some("xgroup-delconsumer"), 1);
    reply.int(pending as i64);
    Ok(())
}

const HELP: &[&str] = &[
    "CREATE <key> <groupname> <id|$> [option]",
    "    Create a new consumer group. Options are:",
    "    * MKSTREAM",
    "      Create the empty stream if it does not exist.",
    "    * ENTRIESREAD entries_read",
    "      Set the group's entries_read counter (internal use).",
    "CREATECONSUMER <key> <groupname> <consumer>",
    "    Create a new consumer in the specified group.",
    "DELCONSUMER <key> <groupname> <consumer>",
    "    Remove the specified consumer.",
    "DESTROY <key> <groupname>",
    "    Remove the specified group.",
    "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
    "    Set the current group ID and entries_read counter.",
    "SETLEASE <key> <groupname> <milliseconds> [MAXDELIVERIES <n> DEADLETTER <stream>]",
    "    Set the time after which an entry is delivered again, and the stream for entries",
    "    that were delivered n times. 0 removes it.",
];
