//! DEBUG OBJECT, HTSTATS and others, which show the structures of keys and values.

use std::fmt::Write as _;

use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::command::digest::{DEBUG_DIGEST, DEBUG_DIGEST_VALUE};
use punctual_store::command::object::DEBUG_OBJECT;
use punctual_store::command::structure::{DEBUG_HTSTATS_KEY, DEBUG_LISTPACK, DEBUG_QUICKLIST};

use crate::node::call::Call;

/// Defines handlers that run a keyspace command.
macro_rules! keyspace_handlers {
    ($($name:ident = $row:ident;)*) => {
        $(pub(super) fn $name(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
            call.turn.run(&$row, call.session.db, false, args, reply)
        })*
    };
}

keyspace_handlers! {
    object = DEBUG_OBJECT;
    digest = DEBUG_DIGEST;
    digest_value = DEBUG_DIGEST_VALUE;
    table_stats_of_key = DEBUG_HTSTATS_KEY;
    listpack = DEBUG_LISTPACK;
    quicklist = DEBUG_QUICKLIST;
}

/// Writes how full a database's hash table of keys and its wheel of deadlines are, for each shard.
pub(super) fn table_stats(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let db = parse_i64(&args[2]).ok_or(Error::NotInteger)?;
    let db = usize::try_from(db)
        .ok()
        .filter(|db| *db < call.shared.store.databases());
    let db = db.ok_or(Error::fixed("ERR Out of range database"))?;
    let mut text = String::from("[Table]\n");
    call.turn.lock_all();
    for (shard, part) in call.turn.held_dbs(db) {
        let memory = part.memory();
        let (keys, places) = (part.len(), memory.index_slots);
        let _ = writeln!(
            text,
            "shard {shard}: keys:{keys} places:{places} filled:{:.2} bytes:{} record_bytes:{}",
            keys as f64 / places.max(1) as f64,
            memory.index,
            memory.records,
        );
    }
    text.push_str("[Wheel]\n");
    for (shard, part) in call.turn.held_dbs(db) {
        let _ = writeln!(
            text,
            "shard {shard}: deadlines:{} entries:{} bytes:{}",
            part.with_deadline(),
            part.wheel_entries(),
            part.memory().wheel,
        );
    }
    reply.verbatim("txt", text.as_bytes());
    Ok(())
}
