//! HIMPORT of Redis 8.10: a client names a list of fields once, and then creates hashes from values
//! alone.
//!
//! The lists belong to the session (`session/fieldsets.rs`). HIMPORT SET pairs the fields with the
//! values and runs a row of the keyspace, whose effects are DEL and HSET.

use punctual_resp::{Args, OwnedArgs, Reply};
use punctual_store::Error;
use punctual_store::command::hashes::IMPORT;
use punctual_store::spec::{Flags, Group};

use crate::node::call::{Call, ServerCommand, ServerHandler};

const NO_FIELDSET: Error = Error::fixed("ERR no such fieldset");

punctual_store::family!(ServerHandler, Group::Hash, Flags::NONE);

const fn keyless(
    name: &'static str,
    arity: i32,
    flags: Flags,
    handler: ServerHandler,
) -> ServerCommand {
    row(name, arity, flags.or(Flags::KEYLESS), handler)
        .categories(&["hash"])
        .tips(&["request_policy:all_shards"])
}

/// Rows of the commands in this file.
pub(crate) static COMMANDS: &[ServerCommand] = &[ServerCommand::container(
    "himport",
    Group::Hash,
    &[
        keyless("discard", 3, Flags::NONE, discard)
            .since("8.10.0")
            .complexity("O(log N) where N is the number of the client's fieldsets.")
            .summary("Removes a fieldset of the connection.")
            .syntax("fieldset-name"),
        keyless("discardall", 2, Flags::NONE, discard_all)
            .since("8.10.0")
            .complexity("O(N) where N is the number of the client's fieldsets.")
            .summary("Removes all fieldsets of the connection."),
        keyless("prepare", -4, Flags::DENYOOM, prepare)
            .since("8.10.0")
            .complexity("O(N*log(N)) where N is the number of fields.")
            .summary("Names a list of fields, for HIMPORT SET on the same connection.")
            .syntax("fieldset-name field ..."),
        row("set", -5, Flags::WRITE.or(Flags::DENYOOM), set)
            .keys(2, 2, 1)
            .access(&["OW update"])
            .since("8.10.0")
            .complexity("O(N) where N is the number of fields.")
            .summary(
                "Creates or replaces a hash with the fields of a fieldset and the given values.",
            )
            .syntax("key fieldset-name value ..."),
    ],
)
.since("8.10.0")
.summary("A container for the creation of hashes that have the same fields.")];

fn prepare(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let fields = args.skip(3);
    let mut sorted: Vec<&[u8]> = fields.iter().collect();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Error::fixed("ERR duplicate field name"));
    }
    call.session.set_fieldset(&args[2], fields.iter().collect());
    reply.ok();
    Ok(())
}

fn set(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let session = &mut *call.session;
    let fields = session.fieldsets.get(&args[3]).ok_or(NO_FIELDSET)?;
    let (fields, values) = (fields.as_args(), args.skip(4));
    if fields.len() != values.len() {
        return Err(Error::fixed(
            "ERR value count does not match the number of fields in the fieldset",
        ));
    }
    let pairs = fields.iter().zip(values.iter());
    let pairs = pairs.flat_map(|(field, value)| [field, value]);
    let words: OwnedArgs = [&b"HSET"[..], &args[2]].into_iter().chain(pairs).collect();
    let (db, touch) = (session.db, !session.no_touch);
    call.turn.run(&IMPORT, db, touch, words.as_args(), reply)
}

fn discard(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    reply.int(i64::from(call.session.remove_fieldset(&args[2])));
    Ok(())
}

fn discard_all(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    reply.int(call.session.remove_fieldsets() as i64);
    Ok(())
}
