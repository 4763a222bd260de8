//! Subcommands of DEBUG, and hidden directives for tests of scripts, replication, persistence and
//! restarts.

use std::time::{Duration, Instant};

use punctual_resp::Value;
use punctual_server::{Builder, Server};
use rustix::process::Signal;

use crate::process::{Process, Start as _};
use crate::wire::{Open as _, Wire, configured, eventually, field};

fn debuggable() -> Builder {
    configured("enable-debug-command yes")
}

fn process(options: &[&str]) -> Process {
    let common = ["--enable-debug-command", "yes", "--logfile", "server.log"];
    Process::start(&[&common, options].concat())
}

#[test]
fn debug_lets_scripts_call_refused_commands() {
    const SCRIPT: &str = "EVAL \"return redis.call('debug', 'protocol', 'integer')\" 0";
    let folder = tempfile::tempdir().unwrap();
    let server = debuggable()
        .option("dir", folder.path().to_str().unwrap())
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    c.expect(&["DEBUG SET-DISABLE-DENY-SCRIPTS 1", SCRIPT], "+OK|:12345|");
    // During a script, the time stays the same, so the key does not expire.
    let script = "redis.call('set', 'k', 'v', 'px', 1) redis.call('debug', 'sleep', '0.01') return redis.call('exists', 'k')";
    assert_eq!(c.ask(&["EVAL", script, "0"]), Value::Int(1));
    // A script may now call the commands that have the flag `noscript`. The server survives them.
    for command in c.ask(&["COMMAND"]).as_slice().unwrap() {
        let parts = command.as_slice().unwrap();
        let flags = parts[2].as_slice().unwrap();
        let name = parts[0].as_bytes().unwrap();
        if !flags.contains(&Value::Simple(b"noscript".to_vec())) || name == b"debug" {
            continue;
        }
        for words in [
            &[][..],
            &["k"],
            &["k", "0"],
            &["1", "k", "0"],
            &["list"],
            &["on"],
        ] {
            let words = words.iter().map(|word| word.as_bytes());
            let head = [
                &b"EVAL"[..],
                b"return redis.pcall(unpack(ARGV))",
                b"0",
                name,
            ];
            let args: Vec<&[u8]> = head.into_iter().chain(words).collect();
            c.ask(&args);
        }
    }
    c.expect(&["DEBUG SET-DISABLE-DENY-SCRIPTS 0"], "+OK|");
    let refused = c.ask(&["EVAL", "return redis.call('debug', 'digest')", "0"]);
    assert!(refused.is_error(), "{refused:?}");
}

#[test]
fn a_restart_keeps_process_and_data() {
    let server = process(&["--appendonly", "yes", "--appendfsync", "always"]);
    let mut run = String::new();
    for (number, line) in ["DEBUG RESTART", "DEBUG CRASH-AND-RECOVER 10"]
        .iter()
        .enumerate()
    {
        eventually(|| server.log().matches("Ready to accept").count() == number + 1);
        let mut c = Wire::to(server.port);
        let this = c.info("server", "run_id");
        assert_ne!(run, this);
        run = this;
        c.int("INCR counter");
        c.send(&[line]);
        assert_eq!(c.ends(), 0, "{line}");
        // The new run has the same process ID.
        eventually(|| server.log().matches("Ready to accept").count() == number + 2);
        Wire::to(server.port).expect(&["GET counter"], &format!("$1|{}|", number + 1));
    }
    server.stop();
    let embedded = debuggable().spawn().unwrap();
    let failed = "failed to restart the server. Check server logs.";
    Wire::open(&embedded).expect_error("DEBUG RESTART", failed);
    Wire::open(&embedded).expect_error("DEBUG CRASH-AND-RECOVER", failed);
    let wrong = "value is not an integer or out of range";
    Wire::open(&embedded).expect_error("DEBUG RESTART soon", wrong);
}

#[test]
fn a_signal_waits_while_the_cron_is_paused() {
    let mut server = process(&[]);
    let mut c = Wire::to(server.port);
    c.expect(&["DEBUG PAUSE-CRON 1"], "+OK|");
    server.signal(Signal::TERM);
    eventually(|| !c.ask(&["SHUTDOWN", "ABORT"]).is_error());
    assert!(server.log().contains("Shutdown manually aborted"));
    server.signal(Signal::TERM);
    eventually(|| server.log().matches("Received SIGTERM").count() == 2);
    c.expect(&["PING", "DEBUG PAUSE-CRON 0"], "+PONG|+OK|");
    let (status, _) = server.wait_for_exit();
    assert!(status.success(), "{status}");
}

#[test]
fn a_replica_gets_a_command_that_its_primary_does_not_run() {
    let primary = debuggable().spawn().unwrap();
    let address = format!("127.0.0.1 {}", primary.port());
    let replica = debuggable().option("replicaof", &address).spawn().unwrap();
    let (mut p, mut r) = (Wire::open(&primary), Wire::open(&replica));
    eventually(|| r.info("replication", "master_link_status") == "up");
    let id = p.info("replication", "master_replid");
    p.expect(&["SET k v", "DEBUG REPLICATE SET there 1"], "+OK|+OK|");
    eventually(|| r.int("EXISTS k there") == 2);
    p.expect(&["EXISTS there"], ":0|");
    p.expect(&["DEBUG CHANGE-REPL-ID"], "+OK|");
    assert_ne!(p.info("replication", "master_replid"), id);
    assert_eq!(p.info("replication", "master_replid2"), "0".repeat(40));
    assert_eq!(r.info("replication", "master_link_status"), "up");
}

#[test]
fn writes_to_the_append_only_file_are_delayed() {
    let folder = tempfile::tempdir().unwrap();
    let server = debuggable()
        .option("dir", folder.path().to_str().unwrap())
        .option("appendonly", "yes")
        .option("appendfsync", "always")
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    c.expect(&["SET k v", "DEBUG AOF-FLUSH-SLEEP 300000"], "+OK|+OK|");
    let began = Instant::now();
    c.expect(&["SET k w"], "+OK|");
    assert!(began.elapsed() >= Duration::from_millis(300));
    c.expect(&["DEBUG AOF-FLUSH-SLEEP 0"], "+OK|");
}

#[test]
fn peaks_of_output_are_kept_for_the_configured_time() {
    let server = debuggable().virtual_clock().spawn().unwrap();
    let (mut reader, mut c) = (Wire::open(&server), Wire::open(&server));
    let id = reader.int("CLIENT ID");
    let peak = |c: &mut Wire| -> u64 {
        field(&c.text(&format!("CLIENT LIST ID {id}")), "rbp")
            .parse()
            .unwrap()
    };
    c.expect(
        &["SETRANGE k 9999 v", "DEBUG REPLYBUFFER RESIZING 0"],
        ":10000|+OK|",
    );
    reader.text("GET k");
    for (setting, shown) in [
        ("NEVER", true),
        ("1000", false),
        ("100000", true),
        ("reset", false),
    ] {
        c.expect(
            &[&format!("DEBUG REPLYBUFFER PEAK-RESET-TIME {setting}")],
            "+OK|",
        );
        c.int("CLOCK ADVANCE 10000");
        assert_eq!(peak(&mut c) > 9_999, shown, "{setting}");
    }
    c.expect_error(
        "DEBUG REPLYBUFFER PEAK-RESET-TIME x",
        "value is not an integer or out of range",
    );
}

#[test]
fn structures_behind_values() {
    let server = debuggable().spawn().unwrap();
    let mut c = Wire::open(&server);
    c.expect(
        &["HSET hash f 1", "SADD set a", "SADD ints 1", "SET string v"],
        ":1|:1|:1|+OK|",
    );
    let text = c.text("DEBUG LISTPACK hash");
    assert_eq!(
        text,
        "{total bytes: 5} {num entries: 2}\n{index: 0} {offset: 0} {entry size: 3} [str]f\n{index: 1} {offset: 3} {entry size: 2} [int]1\n"
    );
    c.expect_error("DEBUG LISTPACK ints", "Not a listpack encoded object.");
    c.expect_error("DEBUG LISTPACK nosuch", "no such key");
    c.expect(
        &["CONFIG SET list-max-listpack-size 2", "RPUSH list a b 3"],
        "+OK|:3|",
    );
    let text = c.text("DEBUG QUICKLIST list");
    assert!(
        text.starts_with("{count: 3} {nodes: 2}\nquicklist node(0) {container: PACKED}"),
        "{text}"
    );
    assert!(c.text("DEBUG QUICKLIST list 1").contains("[int]3\n"));
    c.expect_error("DEBUG QUICKLIST hash", "Not a quicklist encoded object.");
    let no_table = "The value stored at the specified key is not represented using an hash table";
    c.expect_error("DEBUG HTSTATS-KEY set", no_table);
    c.expect_error("DEBUG HTSTATS-KEY string", no_table);
    for n in 0..1_000 {
        c.int(&format!("SADD set member:{n}"));
    }
    let text = c.text("DEBUG HTSTATS-KEY set");
    assert!(text.contains(" number of elements: 1001\n"), "{text}");
}

#[test]
fn every_directive_is_written_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("redis.conf");
    let debug = "enable-debug-command yes\nsave \"\"\n";
    std::fs::write(&file, debug).unwrap();
    let server = Process::with_file(Some(&file), &["--logfile", "server.log"]);
    let mut c = Wire::to(server.port);
    let before = c.ask(&["CONFIG", "GET", "*"]);
    c.expect(&["DEBUG CONFIG-REWRITE-FORCE-ALL"], "+OK|");
    let written = std::fs::read_to_string(&file).unwrap();
    for line in ["maxmemory-policy noeviction", "hz 10", "appendonly no"] {
        assert!(
            written.contains(&format!("\n{line}\n")),
            "{line}: {written}"
        );
    }
    c.send(&["DEBUG RESTART"]);
    assert_eq!(c.ends(), 0);
    eventually(|| server.log().matches("Ready to accept").count() == 2);
    assert_eq!(Wire::to(server.port).ask(&["CONFIG", "GET", "*"]), before);
}

#[test]
fn saves_and_loads_are_slowed_down() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::builder()
        .port(0)
        .option("dir", folder.path().to_str().unwrap())
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    c.expect(&["MSET a 1 b 2", "SAVE"], "+OK|+OK|");
    c.expect(&["CONFIG SET rdb-key-save-delay 2147483647"], "+OK|");
    c.text("BGSAVE");
    assert_eq!(c.info("persistence", "rdb_bgsave_in_progress"), "1");
    // FLUSHALL aborts the save, which also ends the delay.
    c.expect(&["CONFIG SET save \"\"", "FLUSHALL"], "+OK|+OK|");
    eventually(|| c.info("persistence", "rdb_bgsave_in_progress") == "0");
    server.shutdown();
    let dir = folder.path().to_str().unwrap();
    let mut server = Process::start(&["--dir", dir, "--key-load-delay", "2147483647"]);
    let mut c = Wire::to(server.port);
    assert_eq!(c.info("persistence", "loading"), "1");
    c.send(&["SHUTDOWN NOSAVE"]);
    let (status, _) = server.wait_for_exit();
    assert!(status.success(), "{status}");
}
