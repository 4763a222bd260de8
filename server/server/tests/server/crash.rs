//! Crashes of the binary: the report in the log and the exit status.

use std::os::unix::process::ExitStatusExt;

use punctual_server::Server;
use rustix::process::Signal;

use crate::process::{Process, Start as _};
use crate::wire::{Wire, eventually};

const BEGINS: &str = "=== PUNCTUAL CRASH REPORT BEGINS";
const ENDS: &str = "=== PUNCTUAL CRASH REPORT ENDS";

fn start(options: &[&str]) -> Process {
    let mine = ["--logfile", "server.log", "--enable-debug-command", "yes"];
    Process::start(&[&mine[..], options].concat())
}

/// Returns the only report in a log, and asserts that it is complete.
#[track_caller]
fn report(log: &str) -> &str {
    assert_eq!(log.matches(BEGINS).count(), 1, "{log}");
    let (_, rest) = log.split_once(BEGINS).unwrap();
    let (report, _) = rest.split_once(ENDS).unwrap_or_else(|| panic!("{log}"));
    for part in ["STACK TRACE", "LAST COMMANDS", "INFO"] {
        assert!(
            report.contains(&format!("------ {part} ------")),
            "{report}"
        );
    }
    for line in ["redis_version:", "rdb_changes_since_last_save:"] {
        assert!(report.contains(line), "{report}");
    }
    report
}

#[test]
fn a_fatal_signal_leaves_a_report_and_ends_the_process() {
    for (signal, number) in [
        (Signal::SEGV, "crashed by signal: 11 (SIGSEGV)"),
        (Signal::BUS, "crashed by signal: 7 (SIGBUS)"),
        (Signal::FPE, "crashed by signal: 8 (SIGFPE)"),
        (Signal::ILL, "crashed by signal: 4 (SIGILL)"),
        (Signal::ABORT, "crashed by signal: 6 (SIGABRT)"),
    ] {
        let mut process = start(&[]);
        eventually(|| process.log().contains("Ready to accept connections"));
        process.signal(signal);
        let (status, _) = process.wait_for_exit();
        assert_eq!(status.signal(), Some(signal.as_raw()));
        let log = process.log();
        assert!(report(&log).contains(number), "{log}");
    }
}

#[test]
fn the_report_names_the_command_and_takes_no_lock() {
    let mut process = start(&["--threads", "2", "--shards", "1"]);
    let mut c = Wire::to(process.port);
    // At the crash, the transaction holds the lock of the only shard.
    c.send(&[
        "SET key value",
        "MULTI",
        "SET key other",
        "DEBUG SEGFAULT",
        "EXEC",
    ]);
    let (status, _) = process.wait_for_exit();
    assert_eq!(status.signal(), Some(Signal::SEGV.as_raw()));
    let log = process.log();
    let report = report(&log);
    assert!(report.contains("exec of client id="), "{report}");
    assert!(report.contains("/command/debug.rs:"), "{report}");
    assert!(
        report.contains("# Commandstats") && !report.contains("# Keyspace"),
        "{report}"
    );
}

#[test]
fn a_panic_of_an_event_loop_leaves_a_report_and_an_exit_status() {
    for (line, message) in [
        ("DEBUG PANIC", "called by DEBUG PANIC"),
        ("DEBUG ASSERT", "called by DEBUG ASSERT"),
    ] {
        let mut process = start(&["--threads", "2"]);
        Wire::to(process.port).send(&["SET key value", line]);
        let (status, complaints) = process.wait_for_exit();
        assert_eq!(status.code(), Some(1), "{complaints}");
        assert!(complaints.contains(message), "{complaints}");
        let log = process.log();
        let report = report(&log);
        assert!(report.contains(message), "{report}");
        assert!(report.contains("debug of client id="), "{report}");
    }
}

#[test]
fn reports_can_be_disabled() {
    for (at_start, line) in [
        ("no", "DEBUG SEGFAULT"),
        ("no", "DEBUG PANIC"),
        ("yes", "DEBUG SEGFAULT"),
    ] {
        let mut process = start(&["--crash-log-enabled", at_start]);
        let mut c = Wire::to(process.port);
        c.expect(&["CONFIG SET crash-log-enabled no"], "+OK|");
        c.send(&[line]);
        let (status, _) = process.wait_for_exit();
        assert!(!status.success());
        let log = process.log();
        assert!(!log.contains("CRASH REPORT"), "{log}");
    }
}

/// Checks `SigCgt`, whose bit n - 1 is set if signal n has a handler.
#[test]
fn an_embedded_server_installs_no_handlers() {
    let _server = Server::builder().port(0).spawn().unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let caught = status
        .lines()
        .find_map(|l| l.strip_prefix("SigCgt:"))
        .unwrap();
    let caught = u64::from_str_radix(caught.trim(), 16).unwrap();
    for signal in [Signal::FPE, Signal::ILL, Signal::ABORT] {
        assert_eq!(caught >> (signal.as_raw() - 1) & 1, 0, "{signal:?}");
    }
}
