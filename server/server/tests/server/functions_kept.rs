//! Libraries of functions in the payloads of FUNCTION DUMP and in snapshots. Changes of libraries
//! count as changes since the last save.

use crate::functions::CALLBACK;
use crate::wire::pair::{Pair, server};
use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire};

#[test]
fn payloads_are_exchanged_with_redis() {
    let redis = Redis::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path(), 1);
    let mut pair = Pair::open(&server, &redis, "2");
    let long = format!("{}{CALLBACK}", "-- a comment\n".repeat(30));
    for compressed in ["yes", "no"] {
        pair.succeed(&["CONFIG", "SET", "rdbcompression", compressed]);
        for body in [CALLBACK, &long] {
            pair.succeed(&["FUNCTION", "FLUSH"]);
            pair.load("lib", body);
            let dump = ["FUNCTION", "DUMP"];
            for payload in [pair.ours.ask(&dump), pair.theirs.ask(&dump)] {
                exchange(&mut pair, payload.as_bytes().unwrap());
            }
        }
    }
}

/// Restores a payload of the library `lib` with the function `f`, and damaged payloads.
fn exchange(pair: &mut Pair, payload: &[u8]) {
    let restore = |policy: &'static [u8]| [b"FUNCTION", &b"RESTORE"[..], payload, policy];
    pair.ask(&restore(b"APPEND"));
    pair.ask(&restore(b"APPEND")[..3]);
    pair.ask(&restore(b"replace"));
    pair.ask(&restore(b"Flush"));
    pair.ask(&restore(b"OVER"));
    pair.load("lib", "redis.register_function('g', redis.log)");
    pair.load("other", "redis.register_function('f', redis.log)");
    // The payload's function has the same name as the function of the library `other`.
    pair.ask(&restore(b"REPLACE"));
    pair.ask(&["FUNCTION", "LIST", "LIBRARYNAME", "lib"]);
    pair.ask(&restore(b"FLUSH"));
    pair.ask(&["FUNCTION", "LIST", "WITHCODE"]);
    pair.ask(&["FCALL", "f", "1", "k", "v"]);
    for at in 0..payload.len() {
        let mut damaged = payload.to_vec();
        damaged[at] ^= 0x20;
        pair.ask(&[b"FUNCTION", &b"RESTORE"[..], &damaged, b"FLUSH"]);
    }
}

#[test]
fn snapshots_contain_libraries() {
    let libraries = |c: &mut Wire| {
        let found = c.ask(&["FUNCTION", "LIST", "WITHCODE"]);
        let mut found = found.as_slice().unwrap().to_vec();
        found.sort_by_key(|library| format!("{library:?}"));
        found
    };
    let fill = |c: &mut Wire| {
        for (name, comment) in [("plain", ""), ("long", &"-- comment\n".repeat(40)[..])] {
            let code = format!(
                "#!lua name={name}\n{comment}redis.register_function('{name}', function() return '{name}' end)"
            );
            assert!(!c.ask(&["FUNCTION", "LOAD", &code]).is_error());
        }
        c.ask(&["SET", "k", "v"]);
    };
    for saved_by_redis in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().to_str().unwrap();
        let expected = if saved_by_redis {
            let redis = Redis::start(&["--dir", dir]);
            let mut c = Wire::to(redis.port);
            fill(&mut c);
            c.expect(&["SAVE"], "+OK|");
            libraries(&mut c)
        } else {
            let server = server(folder.path(), 2);
            let mut c = Wire::open(&server);
            fill(&mut c);
            c.expect(&["SAVE"], "+OK|");
            libraries(&mut c)
        };
        let redis = Redis::start(&["--dir", dir]);
        assert_eq!(libraries(&mut Wire::to(redis.port)), expected);
        let server = server(folder.path(), 2);
        let mut c = Wire::open(&server);
        assert_eq!(libraries(&mut c), expected);
        c.expect(&["FCALL long 0", "FCALL plain 0"], "$4|long|$5|plain|");
    }
}

#[test]
fn commands_that_empty_or_reload_the_databases() {
    let redis_folder = tempfile::tempdir().unwrap();
    let redis = Redis::start(&[
        "--dir",
        redis_folder.path().to_str().unwrap(),
        "--enable-debug-command",
        "yes",
    ]);
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path(), 2);
    let mut pair = Pair::open(&server, &redis, "2");
    for line in [
        "SAVE",
        "FUNCTION LOAD",
        "FLUSHALL",
        "FUNCTION STATS",
        "FLUSHDB",
        "SWAPDB 0 1",
        "FUNCTION STATS",
        "DEBUG RELOAD",
        "FCALL f 0",
        "DEBUG RELOAD NOSAVE NOFLUSH MERGE",
        "FUNCTION STATS",
        "FUNCTION FLUSH",
        "FUNCTION STATS",
        "DEBUG RELOAD NOSAVE",
        "FCALL f 0",
        "FUNCTION FLUSH",
        "SAVE",
        "FUNCTION LOAD",
        "DEBUG RELOAD NOSAVE",
        "FUNCTION STATS",
        "FUNCTION LOAD",
        "CONFIG SET save 10000 1",
        // With save points, FLUSHALL replaces the file and keeps the libraries.
        "FLUSHALL",
        "FUNCTION FLUSH",
        "DEBUG RELOAD NOSAVE",
        "FUNCTION STATS",
    ] {
        if line == "FUNCTION LOAD" {
            pair.load("lib", CALLBACK);
        } else {
            pair.ask(&line.splitn(4, ' ').collect::<Vec<_>>());
        }
    }
}

#[test]
fn changes_of_libraries_are_changes_of_the_data() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path(), 1);
    let mut c = Wire::open(&server);
    let field = |c: &mut Wire, name: &str| -> u64 { c.info("everything", name).parse().unwrap() };
    let code = format!("#!lua name=lib\n{CALLBACK}redis.register_function('F', redis.log)");
    let saved = field(&mut c, "rdb_changes_since_last_save");
    c.ask(&["FUNCTION", "LOAD", &code]);
    c.ask(&["FUNCTION", "LOAD", &code]);
    assert_eq!(field(&mut c, "rdb_changes_since_last_save"), saved + 1);
    assert_eq!(field(&mut c, "number_of_libraries"), 1);
    // Calls ignore case, so two names count as one function.
    assert_eq!(field(&mut c, "number_of_functions"), 1);
    let memory = field(&mut c, "used_memory_functions");
    assert!(memory as usize > code.len());
    assert!(field(&mut c, "used_memory_vm_functions") > 1000);
    c.expect(&["EVAL 'return 1' 0"], ":1|");
    assert!(field(&mut c, "used_memory_vm_eval") > 1000);
    c.ask(&["FUNCTION", "DELETE", "lib"]);
    c.ask(&["FUNCTION", "DELETE", "lib"]);
    c.expect(&["FUNCTION FLUSH"], "+OK|");
    assert_eq!(field(&mut c, "rdb_changes_since_last_save"), saved + 3);
    for name in [
        "number_of_functions",
        "used_memory_functions",
        "used_memory_vm_functions",
    ] {
        assert_eq!(field(&mut c, name), 0, "{name}");
    }
}
