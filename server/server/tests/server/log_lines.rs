//! Lines of the log that tools and test suites search for.

use std::fs;
use std::process::Command;
use std::sync::mpsc;

use punctual_server::Server;
use punctual_server::log::{Level, Logger};

use crate::process::{Process, Start as _};
use crate::wire::{Open as _, Wire, configured, eventually};

/// Starts the program, which refuses the folder's files or the options. Returns its standard
/// output.
fn refused(folder: &std::path::Path, options: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(["--port", "0", "--unixsocket"])
        .arg(folder.join("socket"))
        .arg("--pidfile")
        .arg(folder.join("pid"))
        .arg("--dir")
        .arg(folder)
        .args(options)
        .output()
        .unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_process_id() {
    let server = Process::start(&["--logfile", "server.log"]);
    let id = Wire::to(server.port).info("server", "process_id");
    assert!(
        server.log().contains(&format!(" PID: {id},")),
        "{}",
        server.log()
    );
}

#[test]
fn a_port_that_is_in_use() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let log = refused(
        folder.path(),
        &["--bind", "127.0.0.1", "--port", &port.to_string()],
    );
    let line = format!("Failed listening on port {port} (TCP), aborting.");
    assert!(log.lines().last().unwrap().ends_with(&line), "{log}");
}

/// Returns a snapshot with one key.
fn snapshot(folder: &std::path::Path) -> Vec<u8> {
    let server = Server::builder()
        .port(0)
        .option("dir", folder.to_str().unwrap())
        .spawn()
        .unwrap();
    Wire::open(&server).expect(&["HSET hash field value", "SAVE"], ":1|+OK|");
    fs::read(folder.join("dump.rdb")).unwrap()
}

#[test]
fn a_damaged_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let whole = snapshot(folder.path());
    let path = folder.path().join("dump.rdb");
    let ending = "Terminating server after rdb file reading failure.";
    let mut bytes = whole.clone();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, &bytes).unwrap();
    let log = refused(folder.path(), &[]);
    assert!(log.contains("CRC error"), "{log}");
    assert_eq!(log.matches(ending).count(), 1, "{log}");
    // The changed byte is the length that readers need to step backwards over the field in the
    // listpack.
    let mut bytes = whole;
    let at = bytes.windows(5).position(|part| part == b"field").unwrap() + 5;
    bytes[at] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let log = refused(folder.path(), &[]);
    assert!(
        log.contains("Internal error in RDB reading offset"),
        "{log}"
    );
    assert!(
        log.contains("Hash listpack integrity check failed"),
        "{log}"
    );
    assert_eq!(log.matches(ending).count(), 1, "{log}");
}

#[test]
fn a_damaged_append_only_file() {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("appendonlydir");
    fs::create_dir(&files).unwrap();
    let manifest = "file appendonly.aof.1.incr.aof seq 1 type i\n";
    fs::write(files.join("appendonly.aof.manifest"), manifest).unwrap();
    let set = "*3\r\n$3\r\nset\r\n$1\r\nk\r\n$1\r\nv\r\n";
    for (rest, expected) in [
        ("!!!", "Bad file format reading the append only file"),
        (
            &set[..10],
            "Unexpected end of file reading the append only file",
        ),
        (
            "*1\r\n$5\r\nmulti\r\n",
            "Unexpected end of file reading the append only file",
        ),
    ] {
        fs::write(
            files.join("appendonly.aof.1.incr.aof"),
            format!("{set}{rest}"),
        )
        .unwrap();
        let log = refused(
            folder.path(),
            &["--appendonly", "yes", "--aof-load-truncated", "no"],
        );
        // Redis's test suite reads the last line.
        assert!(log.lines().last().unwrap().contains(expected), "{log}");
    }
    fs::remove_file(files.join("appendonly.aof.1.incr.aof")).unwrap();
    let log = refused(folder.path(), &["--appendonly", "yes"]);
    let expected = "appendonly.aof.1.incr.aof (No such file or directory";
    assert!(log.lines().last().unwrap().contains(expected), "{log}");
    // Redis's test suite searches for the process ID, which is logged before any step that may
    // fail.
    fs::write(files.join("appendonly.aof.manifest"), "file a\n").unwrap();
    let log = refused(folder.path(), &["--appendonly", "yes"]);
    assert!(
        log.contains(" PID: ") && log.contains("FATAL AOF MANIFEST FILE ERROR"),
        "{log}"
    );
}

#[test]
fn a_payload_that_restore_refuses() {
    let (lines, log) = mpsc::channel();
    let server = configured("enable-debug-command yes")
        .logger(Logger::lines(Level::Warning, move |_, line| {
            let _ = lines.send(line.to_owned());
        }))
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    c.expect(&["DEBUG SET-SKIP-CHECKSUM-VALIDATION 1"], "+OK|");
    let footer = b"\x09\x00........";
    for (body, expected) in [
        (&b"\x10\x03abc"[..], "Hash listpack integrity check failed"),
        (b"\x0d\x03abc", "Hash ziplist integrity check failed"),
        (b"\x0c\x03abc", "Zset ziplist integrity check failed"),
        (b"\x0b\x03abc", "Intset integrity check failed"),
        (
            b"\x0f\x01\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x03abc",
            "Stream listpack integrity check failed",
        ),
    ] {
        let payload = [body, footer].concat();
        let refused = c.ask(&[&b"RESTORE"[..], b"key", b"0", &payload]);
        assert!(refused.is_error(), "{refused:?}");
        let line = log.recv().unwrap();
        assert!(
            line.contains("Bad data format in RESTORE of 'key'"),
            "{line}"
        );
        assert!(line.contains(expected), "{line}");
    }
    // Other errors of RESTORE are not logged.
    c.expect(&["SET key v"], "+OK|");
    assert!(c.ask(&["RESTORE", "key", "0", "x"]).is_error());
    assert!(log.try_recv().is_err());
}

#[test]
fn a_rewrite_that_is_aborted() {
    let folder = tempfile::tempdir().unwrap();
    let (lines, log) = mpsc::channel();
    let server = configured("appendonly yes|rdb-key-save-delay 2147483647")
        .option("dir", folder.path().to_str().unwrap())
        .logger(Logger::lines(Level::Notice, move |_, line| {
            let _ = lines.send(line.to_owned());
        }))
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    c.expect(&["SET k v"], "+OK|");
    assert!(!c.ask(&["BGREWRITEAOF"]).is_error());
    assert_eq!(c.info("persistence", "aof_rewrite_in_progress"), "1");
    c.expect(&["CONFIG SET appendonly no"], "+OK|");
    assert!(
        log.try_iter()
            .any(|line| line.contains("Killing AOF child"))
    );
}

#[test]
fn empty_keys_of_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = b"REDIS0007\xfe\x00".to_vec();
    for number in 0..12u8 {
        // An empty set.
        bytes.extend_from_slice(&[2, 2, b'k', b'a' + number, 0]);
    }
    bytes.extend_from_slice(b"\xff\0\0\0\0\0\0\0\0");
    fs::write(folder.path().join("dump.rdb"), bytes).unwrap();
    let (lines, log) = mpsc::channel();
    let server = Server::builder()
        .port(0)
        .option("dir", folder.path().to_str().unwrap())
        .logger(Logger::lines(Level::Notice, move |_, line| {
            let _ = lines.send(line.to_owned());
        }))
        .spawn()
        .unwrap();
    Wire::open(&server).expect(&["DBSIZE"], ":0|");
    let lines: Vec<String> = log.try_iter().collect();
    let skipped = lines
        .iter()
        .filter(|line| line.contains("skipping empty key: k"));
    assert_eq!(skipped.count(), 10, "{lines:?}");
    assert!(
        lines
            .iter()
            .any(|line| line.ends_with("empty keys skipped: 12.")),
        "{lines:?}"
    );
}

#[test]
fn lines_as_json() {
    let server = Process::start(&["--logfile", "server.log", "--log-format", "json"]);
    let mut c = Wire::to(server.port);
    let id = c.info("server", "process_id");
    // Clients are served before this line is written.
    eventually(|| server.log().contains("Ready to accept"));
    c.run("CONFIG SET log-format legacy");
    c.run("CONFIG SET log-format json");
    let log = server.log();
    assert!(log.lines().count() > 1, "{log}");
    for line in log.lines() {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(object["pid"].to_string(), id, "{line}");
        for field in ["timestamp", "role", "level", "message"] {
            assert!(object[field].is_string(), "{line}");
        }
    }
    let ready = log.lines().find(|line| line.contains("Ready to accept"));
    assert!(
        ready.is_some_and(|line| line.contains(r#""role":"primary""#)),
        "{log}"
    );
}
