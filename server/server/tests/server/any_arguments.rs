//! Calls the commands of the table, except [`NOT_CALLED`], with random arguments. Each call gets
//! one reply, or the server closes the connection.

use std::io::{ErrorKind, Write};

use crate::process::{Process, Start as _, exchange};
use punctual_harness::Wire;
use punctual_resp::{Value, encode_command};
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};

/// Number of rounds over the table. A round calls each command nine times, with 0 to 8 arguments.
const ROUNDS: usize = 40;

/// Commands that are not called: they stop or pause the server, make it a replica, connect to other
/// hosts, wait for replicas, take seconds, or have no reply or several replies by design. Some
/// subcommands of DEBUG are called nevertheless.
#[rustfmt::skip]
const NOT_CALLED: [&str; 20] = [
    "migrate", "psync", "replconf", "sync", "wait", "waitaof", "shutdown", "replicaof", "slaveof",
    "monitor", "subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe",
    "sunsubscribe", "client|reply", "client|pause", "debug", "pfselftest",
];

/// Commands that block until a key has an element.
const WAIT: [&str; 8] = [
    "blmove",
    "blmpop",
    "blpop",
    "brpop",
    "brpoplpush",
    "bzmpop",
    "bzpopmax",
    "bzpopmin",
];

/// The called subcommands of DEBUG, which are not in the table. Other subcommands crash or block
/// the server, or send a push before a reply (PROTOCOL).
const DEBUG: [&str; 7] = [
    "object",
    "reload",
    "error",
    "log",
    "htstats",
    "set-active-expire",
    "help",
];

/// Returns the next reply, or `None` if the server has closed the connection.
fn next_reply(caller: &mut Wire) -> Option<Value> {
    match caller.try_value() {
        Ok(value) => Some(value),
        Err(e)
            if matches!(
                e.kind(),
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset
            ) =>
        {
            None
        }
        Err(e) => panic!("no reply: {e}"),
    }
}

fn text(value: &Value) -> String {
    String::from_utf8(value.as_bytes().unwrap().to_vec()).unwrap()
}

/// Returns the names of the called commands: those in COMMAND's reply except [`NOT_CALLED`], and
/// those in [`DEBUG`]. Subcommands are two words.
fn names(server: &Process) -> Vec<Vec<String>> {
    let table = server.wire().ask(&["COMMAND"]);
    let mut names = Vec::new();
    for row in table.as_slice().unwrap() {
        let row = row.as_slice().unwrap();
        names.push(text(&row[0]));
        names.extend(
            row[9]
                .as_slice()
                .unwrap()
                .iter()
                .map(|sub| text(&sub.as_slice().unwrap()[0])),
        );
    }
    names.retain(|n| !NOT_CALLED.contains(&n.as_str()));
    let mut names: Vec<Vec<String>> = names
        .iter()
        .map(|n| n.split('|').map(str::to_owned).collect())
        .collect();
    names.extend(
        DEBUG
            .iter()
            .map(|sub| vec!["debug".to_owned(), (*sub).to_owned()]),
    );
    names
}

/// Words that commands recognize, keys, and numbers.
#[rustfmt::skip]
const PLAIN: &[&str] = &[
    "s", "i", "f", "big", "ttl", "gone", "none", "s2", "{s}2", "", " ", "0", "1", "-1", "2", "10",
    "100", "1000", "-100", "00", "+1", "1.5", "-0", "1e3", "nan", "inf", "-inf", "0x10",
    "9223372036854775807", "-9223372036854775808", "9223372036854775808", "18446744073709551615",
    "536870912", "4294967296", "99999999999999999999999", "*", "?", "[a-", "\\", "k*", "EX", "PX",
    "EXAT", "PXAT", "NX", "XX", "GT", "LT", "GET", "KEEPTTL", "PERSIST", "MATCH", "COUNT", "TYPE",
    "string", "REPLACE", "DB", "LEN", "IDX", "MINMATCHLEN", "WITHMATCHLEN", "ASYNC", "SYNC", "ID",
    "ADDR", "LADDR", "USER", "default", "SKIPME", "yes", "no", "MAXAGE", "normal", "ON", "OFF",
    "BCAST", "AUTH", "SETNAME", "LIB-NAME", "lib-ver", "2", "3", "USAGE", "SAMPLES", "FILTERBY",
    "ACLCAT", "PATTERN", "MODULE", "maxmemory", "hz", "command", "all", "default", "keyspace",
    "freq", "TIMEOUT", "ERROR", "help", "get", "set", "client|id", "a\r\nb", "\r\n", "-ERR", "$-1",
];

/// Returns a random argument. Numbers are small or out of range, so that no command allocates much
/// memory.
fn argument(random: &mut StdRng) -> Vec<u8> {
    match random.random_range(0..20) {
        0 => (0..random.random_range(0..40))
            .map(|_| random.random())
            .collect(),
        1 => vec![b'x'; random.random_range(0..2_000)],
        2 => random.random::<i64>().to_string().into_bytes(),
        3 => random.random::<f64>().to_string().into_bytes(),
        4 => "%".repeat(random.random_range(1..50)).into_bytes(),
        _ => PLAIN.choose(random).unwrap().as_bytes().to_vec(),
    }
}

fn any_case(word: &str, random: &mut StdRng) -> Vec<u8> {
    let mut word = word.as_bytes().to_vec();
    word.iter_mut()
        .filter(|_| random.random())
        .for_each(u8::make_ascii_uppercase);
    word
}

/// Calls each command once, followed by an ECHO of a tag, which detects missing and extra replies.
/// Returns the number of calls that were answered.
fn one_pass(
    server: &Process,
    names: &mut [Vec<String>],
    arguments: usize,
    random: &mut StdRng,
) -> usize {
    let mut calls = 0;
    // If a command closes the connection, the commands after it do not run. The shuffle varies
    // which commands these are.
    names.shuffle(random);
    for some in names.chunks(25) {
        let mut caller = server.wire();
        let (mut pipeline, mut commands) = (Vec::new(), Vec::new());
        for name in some {
            let mut command: Vec<Vec<u8>> =
                name.iter().map(|word| any_case(word, random)).collect();
            // A container's subcommand counts as an argument and is always valid.
            command
                .extend((name.len() - 1..arguments.max(name.len() - 1)).map(|_| argument(random)));
            // Blocking commands are called in a transaction, where they do not block.
            let waits = WAIT.contains(&name[0].as_str());
            let called = match waits {
                true => vec![vec![b"MULTI".to_vec()], command, vec![b"EXEC".to_vec()]],
                false => vec![command],
            };
            for command in called {
                encode_command(&mut pipeline, &command);
                let tag = format!("tag {}", commands.len());
                encode_command(&mut pipeline, &["ECHO", &tag]);
                commands.push(command);
            }
        }
        caller.stream.write_all(&pipeline).unwrap();
        let mut queueing = false;
        for (number, command) in commands.iter().enumerate() {
            let shown = || {
                command
                    .iter()
                    .map(|a| a.escape_ascii().to_string())
                    .collect::<Vec<_>>()
            };
            let reply = next_reply(&mut caller);
            let Some(tag) = next_reply(&mut caller) else {
                let leaves = command[0].eq_ignore_ascii_case(b"quit")
                    || command[0].eq_ignore_ascii_case(b"client");
                assert!(
                    leaves,
                    "closed after {:?}, answered with {reply:?}",
                    shown()
                );
                break;
            };
            match command[0].to_ascii_lowercase().as_slice() {
                b"multi" if command.len() == 1 => queueing = true,
                // EXEC with extra arguments also ends the transaction.
                b"exec" => queueing = false,
                b"discard" | b"reset" if command.len() == 1 => queueing = false,
                _ => {}
            }
            let wanted = if queueing {
                Value::Simple(b"QUEUED".to_vec())
            } else {
                Value::bulk(format!("tag {number}"))
            };
            assert_eq!(tag, wanted, "{:?} answered with {reply:?}", shown());
            calls += 1;
        }
    }
    calls
}

fn refill(server: &Process) {
    let mut caller = server.wire();
    caller.ask(&["FLUSHALL"]);
    caller.ask(&[
        "MSET",
        "s",
        "some text",
        "i",
        "42",
        "f",
        "1.25",
        "s2",
        "other text",
    ]);
    caller.ask(&["SETRANGE", "big", "3000", "end"]);
    caller.ask(&["SET", "ttl", "v", "EX", "1000"]);
    caller.ask(&["SET", "gone", "v", "PX", "1"]);
}

fn call_everything(seed: u64, options: &[&str]) {
    println!("seed {seed:#x}");
    let mut random = StdRng::seed_from_u64(seed);
    let server = Process::start(&[options, &["--enable-debug-command", "yes"]].concat());
    let mut names = names(&server);
    assert!(names.len() > 100, "only {names:?}");
    let mut calls = 0;
    for round in 0..ROUNDS {
        refill(&server);
        for arguments in 0..=8 {
            calls += one_pass(&server, &mut names, arguments, &mut random);
        }
        exchange(
            &mut server.connect(),
            b"SET bystander 1\r\nDEL bystander\r\n",
            b"+OK\r\n:1\r\n",
        );
        assert!(
            server.resident_mib() < 500.0,
            "{} MiB in round {round}",
            server.resident_mib()
        );
    }
    let called = ROUNDS * 9 * names.len();
    println!(
        "{calls} of {called} calls of {} commands were answered once",
        names.len()
    );
    assert!(
        calls * 4 > called * 3,
        "most connections were closed: {calls} of {called}"
    );
    server.stop();
}

#[test]
fn every_command_has_one_reply() {
    call_everything(0x0b5e_55ed_0000_0001, &[]);
}

#[test]
fn every_command_has_one_reply_with_four_loops() {
    call_everything(0x0b5e_55ed_0000_0004, &["--threads", "4"]);
}
