//! Short runs of the whole program with real servers. A test is skipped, with a message, if its
//! server is not installed.

use std::path::Path;
use std::process::{Command, Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_punctual-bench");

fn run(line: &str) -> Output {
    Command::new(PROGRAM)
        .args(line.split_whitespace())
        .output()
        .unwrap()
}

/// Runs a benchmark on one kind of server with a CSV file. Returns the file's text; `None` if the
/// server is not installed.
fn measured(start: &str, line: &str) -> Option<String> {
    let directory = tempfile::tempdir().unwrap();
    let (csv, out) = (directory.path().join("a.csv"), directory.path().display());
    let output = run(&format!(
        "{line} --start {start} --csv {} --out {out}",
        csv.display()
    ));
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("is not installed") {
        eprintln!("skipped: {errors}");
        return None;
    }
    assert!(output.status.success(), "{line}: {errors}");
    Some(std::fs::read_to_string(csv).unwrap())
}

/// Returns the value of a figure, which must occur once in the file.
fn value(csv: &str, figure: &str) -> f64 {
    let quoted = format!(",\"{figure}\",");
    let plain = format!(",{figure},");
    let has = |line: &&str| line.contains(&quoted) || line.contains(&plain);
    let found: Vec<&str> = csv.lines().filter(has).collect();
    assert_eq!(found.len(), 1, "{figure} in\n{csv}");
    found[0].rsplit(',').next().unwrap().parse().unwrap()
}

#[test]
fn expiry_counts_every_key() {
    let Some(csv) = measured("redis7", "expiry --keys 3000 --seconds 0.5") else {
        return;
    };
    assert_eq!(value(&csv, "received"), 3000.0);
    assert_eq!((value(&csv, "missing"), value(&csv, "early")), (0.0, 0.0));
    assert!(value(&csv, "late p50, ms") > 0.0);
}

/// Punctual has deadlines of hash fields: the benchmark receives one event per field, and no event
/// is early.
#[test]
fn every_event_of_a_field_is_received() {
    // `cargo test` of the whole workspace builds `punctual`.
    if !Path::new(PROGRAM).with_file_name("punctual").is_file() {
        eprintln!("skipped: punctual is not built");
        return;
    }
    let line = "expiry --fields --keys 3000 --seconds 0.5";
    let csv = measured("punctual", line).unwrap();
    assert_eq!(value(&csv, "received"), 3000.0);
    let wrong = ["missing", "early", "again"].map(|name| value(&csv, name));
    assert_eq!(wrong, [0.0; 3]);
}

#[test]
fn a_server_without_a_command_has_no_figures() {
    let Some(csv) = measured("redis7", "jobs --tests cost --keys 1000") else {
        return;
    };
    assert_eq!(csv.lines().count(), 1, "{csv}");
}

#[test]
fn storm_finds_all_keys_gone_and_none_readable() {
    let Some(csv) = measured("redis7", "expiry --storm --keys 5000 --rounds 1") else {
        return;
    };
    let wrong = [
        "left",
        "due keys readable after the deadline",
        "due keys missing before the deadline",
        "live keys lost",
    ];
    assert_eq!(wrong.map(|name| value(&csv, name)), [0.0; 4]);
}

#[test]
fn blocking_waits_for_every_timeout() {
    let line = "blocking --keys 50 --seconds 0.3";
    let Some(csv) = measured("redis7", line) else {
        return;
    };
    assert_eq!(
        (value(&csv, "received"), value(&csv, "missing")),
        (50.0, 0.0)
    );
}

#[test]
fn server_measures_cpu() {
    let line =
        "server --tests lrange --pipeline 8 --clients 5 --requests 4000 --rounds 1 --keyspace 2000";
    let Some(csv) = measured("redis7", line) else {
        return;
    };
    let cost = value(&csv, "CPU, µs");
    assert!((0.1..1000.0).contains(&cost), "{cost} µs");
    assert!(value(&csv, "commands, 1/s") > 0.0);
}

#[test]
fn mistakes_end_with_their_exit_code() {
    let code = |line| run(line).status.code();
    assert_eq!(code("server --redis /nowhere --start redis7"), Some(1));
    assert_eq!(code("server --tests nonsense"), Some(1));
    assert_eq!(code("nonsense"), Some(2));
}

#[test]
fn a_closed_pipe_causes_no_panic() {
    for (line, code) in [
        ("--help", 0),
        ("time --help", 0),
        ("time --quick", 128 + 13),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let words = line.split(' ');
        let output = Command::new(PROGRAM).args(words).stdout(writer).output();
        let output = output.unwrap();
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(!complaints.contains("panicked"), "{line}: {complaints}");
        assert_eq!(output.status.code(), Some(code), "{line}: {complaints}");
    }
    // Standard error is closed.
    for line in ["nosuch", "expiry --url nosuch"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(PROGRAM);
        command
            .args(line.split(' '))
            .stdout(Stdio::null())
            .stderr(writer);
        let status = command.status().unwrap();
        assert!(matches!(status.code(), Some(1 | 2)), "{line}: {status}");
    }
}
