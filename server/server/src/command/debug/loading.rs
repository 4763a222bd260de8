//! DEBUG RELOAD, LOADAOF and POPULATE, which replace or fill the dataset.

use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, OwnedArgs, Protocol, Reply};
use punctual_store::events::{Classes, Silent};
use punctual_store::{Error, Turn, command};

use crate::dispatch::from_file::FromFile;
use crate::durability::files::AofFiles;
use crate::log;
use crate::node::call::Call;
use crate::persist::{aof, backup};
use crate::persist::{load, save};

/// Saves a snapshot, empties every database and loads the snapshot. Options skip the save or the
/// flush, or allow the loaded keys to replace existing ones.
pub(super) fn reload(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (mut merge, mut flush, mut save) = (false, true, true);
    for option in args.skip(2) {
        match option.to_ascii_lowercase().as_slice() {
            b"merge" => merge = true,
            b"noflush" => flush = false,
            b"nosave" => save = false,
            _ => {
                return Err(Error::fixed(
                    "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.",
                ));
            }
        }
    }
    let failed = |error: &dyn std::fmt::Display| Error::Text(format!("ERR {error}").into());
    if save {
        save::foreground(call.shared, call.turn).map_err(|e| failed(&e))?;
    }
    if flush {
        call.turn.clear();
        call.shared.scripting.functions.clear();
    }
    let loaded = load::foreground(call.shared, call.turn, merge);
    loaded.map_err(|_| Error::fixed("ERR Error trying to load the RDB dump, check server logs"))?;
    if !save || merge {
        aof::switch::restart(call.shared, call.turn);
    }
    log::warning!(call.shared.logger, "DB reloaded by DEBUG RELOAD");
    reply.ok();
    Ok(())
}

/// Blocks until the append-only file has all changes so far, empties every database, and loads the
/// file.
pub(super) fn load_aof(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let (shared, logger) = (call.shared, &call.shared.logger);
    let failed = |error: &dyn std::fmt::Display| {
        log::warning!(logger, "{error}");
        Error::fixed("ERR Error trying to load the AOF files, check server logs.")
    };
    if call.turn.source().is_nested() {
        return Err(failed(&"DEBUG LOADAOF is not possible in a transaction"));
    }
    call.turn.release();
    // The loaded changes are already in the file, so this turn appends nothing.
    let mut sink = Silent;
    let mut turn = Turn::new(&shared.store, call.turn.now, &mut sink, Classes::none());
    turn.pin(None);
    aof::switch::wait_until_written(shared);
    let files = AofFiles::find(&shared.durability.disk, &shared.settings())
        .map_err(|error| failed(&error))?;
    if !files.exist() {
        return Err(failed(&"There is no append-only file"));
    }
    if shared.durability.backup.owns_writer() {
        backup::fail(shared, "another keyspace has replaced the old one");
    }
    turn.clear();
    shared.scripting.functions.clear();
    let loaded = files.load(shared, &mut turn, &mut FromFile::new(shared), |_| {});
    loaded.map_err(|error| failed(&error))?;
    log::warning!(logger, "Append Only File loaded by DEBUG LOADAOF");
    reply.ok();
    Ok(())
}

/// Adds missing keys `<prefix>:0`, `<prefix>:1` and so on. Their values are `value:0` and so on,
/// truncated or zero-padded to a given size.
pub(super) fn populate(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let positive = |arg: &[u8]| {
        parse_i64(arg)
            .and_then(|number| usize::try_from(number).ok())
            .ok_or(Error::fixed("ERR value is out of range, must be positive"))
    };
    let count = positive(&args[2])?;
    let prefix = args.get(3).unwrap_or(b"key");
    let size = args.get(4).map(positive).transpose()?;
    if size.is_some_and(|size| size as u64 > call.shared.store.string_max()) {
        return Err(Error::TooLong);
    }
    let set = command::find(b"set").ok_or(Error::Syntax)?;
    let mut out = Vec::new();
    for number in 0..count {
        let key = [prefix, b":", itoa::Buffer::new().format(number).as_bytes()].concat();
        let mut value = format!("value:{number}").into_bytes();
        if let Some(size) = size {
            value.resize(size, 0);
        }
        let words: [&[u8]; 4] = [b"SET", &key, &value, b"NX"];
        let words: OwnedArgs = words.iter().collect();
        out.clear();
        let mut unread = Reply::new(&mut out, Protocol::Resp2);
        call.turn
            .run(set, call.session.db, true, words.as_args(), &mut unread)?;
    }
    reply.ok();
    Ok(())
}
