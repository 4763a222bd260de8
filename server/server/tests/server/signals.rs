//! SIGTERM and SIGINT: the options of `shutdown-on-sigterm` and `shutdown-on-sigint`, and a second
//! SIGINT.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::process::{Process, Start as _};
use crate::wire::{Wire, eventually};

/// Starts a server with save points and one key.
fn start(folder: &Path, options: &[&str]) -> Process {
    let dir = folder.to_str().unwrap();
    let fixed = ["--dir", dir, "--save", "3600 1000", "--logfile", "log"];
    let server = Process::start(&[&fixed, options].concat());
    Wire::to(server.port).expect(&["SET a 1"], "+OK|");
    server
}

fn log(folder: &Path) -> String {
    fs::read_to_string(folder.join("log")).unwrap_or_default()
}

#[test]
fn options_of_the_two_signals() {
    for (signal, options, saves) in [
        (Signal::TERM, &[][..], true),
        (Signal::INT, &[], true),
        (Signal::TERM, &["--shutdown-on-sigterm", "nosave"], false),
        (Signal::INT, &["--shutdown-on-sigterm", "nosave"], true),
        (Signal::INT, &["--shutdown-on-sigint", "nosave now"], false),
        (
            Signal::TERM,
            &["--save", "", "--shutdown-on-sigterm", "save"],
            true,
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut server = start(folder.path(), options);
        server.signal(signal);
        let (status, _) = server.wait_for_exit();
        let log = log(folder.path());
        assert!(status.success(), "{options:?}: {status}: {log}");
        let saved = folder.path().join("dump.rdb").exists();
        assert_eq!(saved, saves, "{signal:?} {options:?}: {log}");
        assert!(log.contains("User requested shutdown..."), "{log}");
    }
}

#[test]
fn a_failed_save_prevents_a_shutdown_unless_forced() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = start(folder.path(), &[]);
    // The snapshot cannot replace a folder.
    fs::create_dir_all(folder.path().join("dump.rdb/in the way")).unwrap();
    for round in 1..=2 {
        server.signal(Signal::INT);
        const FAILED: &str = "Errors trying to shut down the server.";
        eventually(|| log(folder.path()).matches(FAILED).count() == round);
        let log = log(folder.path());
        assert!(log.contains("Error trying to save the DB, can't exit."));
        assert!(!log.contains("You insist"), "the first shutdown has ended");
    }
    let mut c = Wire::to(server.port);
    c.expect(
        &["GET a", "CONFIG SET shutdown-on-sigint force"],
        "$1|1|+OK|",
    );
    server.signal(Signal::INT);
    let (status, _) = server.wait_for_exit();
    assert!(status.success(), "{status}");
    assert!(log(folder.path()).contains("Error trying to save the DB. Exit anyway."));
}

#[test]
fn a_second_interrupt_exits_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = start(folder.path(), &[]);
    let mut c = Wire::to(server.port);
    let info = c.text("INFO server");
    let pid = info
        .lines()
        .find_map(|line| line.strip_prefix("process_id:"));
    // The save blocks until this pipe has a reader, so the shutdown does not end.
    let pipe = folder.path().join(format!("temp-{}.rdb", pid.unwrap()));
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    server.signal(Signal::TERM);
    eventually(|| log(folder.path()).contains("Saving the final RDB snapshot"));
    server.signal(Signal::TERM);
    eventually(|| log(folder.path()).matches("Received SIGTERM").count() == 2);
    server.signal(Signal::INT);
    let (status, _) = server.wait_for_exit();
    assert_eq!(status.code(), Some(1));
    assert!(log(folder.path()).contains("You insist... exiting now."));
    assert!(!pipe.exists());
}

/// The load usually takes long enough that the signal arrives during it. The result does not depend
/// on that.
#[test]
fn a_signal_ends_a_load() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = start(folder.path(), &["--enable-debug-command", "yes"]);
    let mut c = Wire::to(server.port);
    c.expect(&["DEBUG POPULATE 200000", "SAVE"], "+OK|+OK|");
    c.send(&["SHUTDOWN NOSAVE"]);
    server.wait_for_exit();
    let saved = fs::read(folder.path().join("dump.rdb")).unwrap();
    let dir = folder.path().to_str().unwrap();
    let mut server = Process::start(&["--dir", dir, "--save", "3600 1"]);
    // Before the server exists, a signal has its default effect. LOADING is also a reply.
    Wire::to(server.port).text("PING");
    server.signal(Signal::TERM);
    let (status, stderr) = server.wait_for_exit();
    assert!(status.success(), "{status}: {stderr}");
    assert!(fs::read(folder.path().join("dump.rdb")).unwrap() == saved);
}
