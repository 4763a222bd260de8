//! DEBUG, for the tests of clients and tools. Disabled unless `enable-debug-command` allows it.
//!
//! As in Redis, the handler parses the subcommand, so the command table does not contain subcommands of DEBUG.

use std::fmt::Write as _;
use std::time::Duration;

use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, OwnedArgs, Protocol, Reply};
use punctual_store::command::digest::{DEBUG_DIGEST, DEBUG_DIGEST_VALUE};
use punctual_store::command::object::DEBUG_OBJECT;
use punctual_store::events::{Classes, Silent};
use punctual_store::spec::{Flags, Group};
use punctual_store::{Error, Turn, command};
use signal_hook::consts::SIGSEGV;

use crate::dispatch::call::{Call, ServerCommand};
use crate::dispatch::from_file::FromFile;
use crate::log;
use crate::net::order::Order;
use crate::persist::aof::{self, files::AofFiles};
use crate::persist::{load, save};

/// The family's rows.
pub(crate) static COMMANDS: &[ServerCommand] = &[ServerCommand::new(
    "debug",
    -2,
    Flags::ADMIN
        .or(Flags::NOSCRIPT)
        .or(Flags::LOADING)
        .or(Flags::STALE),
    Group::Server,
    debug,
)
.doc(
    "1.0.0",
    "Depends on subcommand.",
    "A container for debugging commands.",
)];

fn debug(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    if !call
        .shared
        .settings()
        .debug_command
        .allows(call.session.info.local)
    {
        return Err(Error::fixed(
            "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from \
             a local connection, otherwise you need to set this option in the configuration file, and then restart the \
             server.",
        ));
    }
    match (args[1].to_ascii_lowercase().as_slice(), args.len()) {
        (b"sleep", 3) => sleep(call, args, reply),
        (b"set-active-expire", 3) => set_active_expire(call, args, reply),
        (b"object", 3..) => {
            return call
                .turn
                .run(&DEBUG_OBJECT, call.session.db, false, args, reply);
        }
        (b"digest", 2) => {
            return call
                .turn
                .run(&DEBUG_DIGEST, call.session.db, false, args, reply);
        }
        (b"digest-value", 2..) => {
            let (row, db) = (&DEBUG_DIGEST_VALUE, call.session.db);
            return call.turn.run(row, db, false, args, reply);
        }
        // Only `list-max-listpack-size` limits the nodes of lists: there is no other threshold to change.
        (b"quicklist-packed-threshold", 3) => reply.ok(),
        (b"reload", _) => return reload(call, args, reply),
        (b"loadaof", 2) => return load_aof(call, reply),
        (b"populate", 3..=5) => return populate(call, args, reply),
        (b"protocol", 3) => return protocol(args, reply),
        (b"error", 3) => {
            // An error reply must be one line.
            let text = args[2].escape_ascii().to_string();
            reply.error(if args[2].iter().any(u8::is_ascii_control) {
                text.as_bytes()
            } else {
                &args[2]
            });
        }
        (b"log", 3) => {
            log::warning!(call.shared.logger, "DEBUG LOG: {}", args[2].escape_ascii());
            reply.ok();
        }
        (b"set-skip-checksum-validation", 3) => {
            let skip = parse_i64(&args[2]).is_some_and(|n| n != 0);
            call.shared.store.set_checks_payloads(!skip);
            reply.ok();
        }
        // Without the binary's handler, the first signal may be caught and ignored.
        (b"segfault", _) => loop {
            let _ = signal_hook::low_level::raise(SIGSEGV);
        },
        (b"panic", _) => panic!("called by DEBUG PANIC"),
        (b"assert", _) => assert!(args.is_empty(), "called by DEBUG ASSERT"),
        (b"htstats", 3) => return table_stats(call, args, reply),
        (b"help", 2) => help(reply),
        _ => return Err(super::wrong_form("DEBUG", args)),
    }
    Ok(())
}

/// Blocks this event loop for some seconds. Holds no lock, so that other loops can access the keyspace.
fn sleep(call: &mut Call, args: Args, reply: &mut Reply) {
    // Like C's `strtod`, an invalid number counts as 0.
    let seconds = std::str::from_utf8(&args[2])
        .ok()
        .and_then(|s| s.parse::<f64>().ok());
    let pause = Duration::try_from_secs_f64(seconds.unwrap_or(0.0)).unwrap_or(Duration::ZERO);
    call.turn.release();
    std::thread::sleep(pause);
    call.turn.now = call.shared.clock.now();
    reply.ok();
}

/// Enables or disables active expiry. Without it, a due key expires only when a command accesses it.
fn set_active_expire(call: &mut Call, args: Args, reply: &mut Reply) {
    let on = parse_i64(&args[2]).is_some_and(|n| n != 0);
    call.shared.store.set_active_expire(on);
    if on {
        // Expire the keys that became due while active expiry was off.
        call.shared.order_all(|| Order::Resume);
    }
    reply.ok();
}

/// Saves a snapshot, empties every database and loads the snapshot. Options skip the save or the flush, or allow the
/// loaded keys to replace existing ones.
fn reload(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
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
        call.shared.functions.clear();
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

/// Waits until the append-only file has what was changed so far, empties every database and loads the file.
fn load_aof(call: &mut Call, reply: &mut Reply) -> Result<(), Error> {
    let (shared, logger) = (call.shared, &call.shared.logger);
    let failed = |error: &dyn std::fmt::Display| {
        log::warning!(logger, "{error}");
        Error::fixed("ERR Error trying to load the AOF files, check server logs.")
    };
    if call.session.in_exec {
        return Err(failed(&"DEBUG LOADAOF is not possible in a transaction"));
    }
    call.turn.release();
    // What is loaded is in the file already, so this turn appends nothing.
    let mut sink = Silent;
    let mut turn = Turn::new(&shared.store, call.turn.now, &mut sink, Classes::none());
    turn.pin(None);
    aof::switch::wait_until_written(shared);
    let files = AofFiles::find(&shared.settings()).map_err(|error| failed(&error))?;
    if !files.exist() {
        return Err(failed(&"There is no append-only file"));
    }
    turn.clear();
    shared.functions.clear();
    let loaded = files.load(shared, &mut turn, &mut FromFile::new(shared), |_| {});
    loaded.map_err(|error| failed(&error))?;
    log::warning!(logger, "Append Only File loaded by DEBUG LOADAOF");
    reply.ok();
    Ok(())
}

/// Adds missing keys `<prefix>:0`, `<prefix>:1` and so on with values `value:0` and so on, truncated or zero-padded to
/// a given size.
fn populate(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
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

/// Replies with a value of the requested type, for tests of clients.
fn protocol(args: Args, reply: &mut Reply) -> Result<(), Error> {
    match args[2].to_ascii_lowercase().as_slice() {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.int(12345),
        #[allow(clippy::approx_constant, reason = "the number that Redis answers")]
        b"double" => reply.double(3.141),
        b"bignum" => reply.big_number("1234567999999999999999999999999999999"),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|n| reply.int(n));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|n| reply.int(n));
        }
        b"map" => {
            reply.map(3);
            for n in 0..3 {
                reply.int(n);
                reply.boolean(n == 1);
            }
        }
        b"attrib" => {
            if reply.attribute(1) {
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.int(90);
            }
            // An attribute is not a reply, so one follows.
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" => {
            if reply.protocol() == Protocol::Resp2 {
                return Err(Error::fixed("ERR RESP2 is not supported by this command"));
            }
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.int(42);
            // A push is not a reply, so one follows.
            reply.bulk(b"Some real reply following the push reply");
        }
        b"verbatim" => reply.verbatim("txt", b"This is a verbatim\nstring"),
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        _ => {
            return Err(Error::fixed(
                "ERR Wrong protocol type name. Please use one of the following: \
                 string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(())
}

/// Writes the load of a database's hash table and wheel.
fn table_stats(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
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

fn help(reply: &mut Reply) {
    super::help(
        reply,
        "DEBUG",
        &[
            "ASSERT",
            "    Crash by assertion failed.",
            "DIGEST",
            "    Output a hex signature representing the current DB content.",
            "DIGEST-VALUE <key> [<key> ...]",
            "    Output a hex signature of the values of all the specified keys.",
            "ERROR <string>",
            "    Return a Redis protocol error with <string> as message. Useful for clients",
            "    unit tests to simulate Redis errors.",
            "LOG <message>",
            "    Write <message> to the server log.",
            "HTSTATS <dbid>",
            "    Return hash table statistics of the specified Redis database.",
            "LOADAOF",
            "    Flush the AOF buffers on disk and reload the AOF in memory.",
            "OBJECT <key>",
            "    Show low level info about `key` and associated value.",
            "PANIC",
            "    Crash the server simulating a panic.",
            "POPULATE <count> [<prefix>] [<size>]",
            "    Create <count> string keys named key:<num>. If <prefix> is specified then",
            "    it is used instead of the 'key' prefix. These are not propagated to",
            "    replicas. Cluster slots are not respected so keys not belonging to the",
            "    current node can be created in cluster mode.",
            "PROTOCOL <type>",
            "    Reply with a test value of the specified type. <type> can be: string,",
            "    integer, double, bignum, null, array, set, map, attrib, push, verbatim,",
            "    true, false.",
            "RELOAD [option ...]",
            "    Save the RDB on disk and reload it back to memory. Valid <option> values:",
            "    * MERGE: conflicting keys will be loaded from RDB.",
            "    * NOFLUSH: the existing database will not be removed before load, but",
            "      conflicting keys will generate an exception and kill the server.",
            "    * NOSAVE: the database will be loaded from an existing RDB file.",
            "    Examples:",
            "    * DEBUG RELOAD: verify that the server is able to persist, flush and reload",
            "      the database.",
            "    * DEBUG RELOAD NOSAVE: replace the current database with the contents of an",
            "      existing RDB file.",
            "    * DEBUG RELOAD NOSAVE NOFLUSH MERGE: add the contents of an existing RDB",
            "      file to the database.",
            "SEGFAULT",
            "    Crash the server with sigsegv.",
            "SET-ACTIVE-EXPIRE <0|1>",
            "    Setting it to 0 disables expiring keys in background when they are not",
            "    accessed (otherwise the Redis behavior). Setting it to 1 reenables back the",
            "    default.",
            "QUICKLIST-PACKED-THRESHOLD <size>",
            "    Sets the threshold for elements to be inserted as plain vs packed nodes",
            "    Default value is 1GB, allows values up to 4GB. Setting to 0 restores to default.",
            "SET-SKIP-CHECKSUM-VALIDATION <0|1>",
            "    Enables or disables checksum checks for RDB files and RESTORE's payload.",
            "SLEEP <seconds>",
            "    Stop the server for <seconds>. Decimals allowed.",
        ],
    );
}
