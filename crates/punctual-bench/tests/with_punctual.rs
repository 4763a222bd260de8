//! The program itself, and a run against a server of ours.

use std::ffi::OsString;
use std::process::{Command, ExitCode, Stdio};

use punctual_server::Server;

const PROGRAM: &str = env!("CARGO_BIN_EXE_punctual-bench");

/// The benchmark receives exactly one event per field, none of them early.
#[test]
fn every_event_of_a_field_is_received() {
    let server = Server::builder().port(0).spawn().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let csv = directory.path().join("a.csv");
    let line = format!(
        "expiry --fields --keys 3000 --spread 0.5 --lead 3 --wait 20 --addr 127.0.0.1:{} --csv {}",
        server.port(),
        csv.display()
    );
    let code = punctual_bench::run(line.split(' ').map(OsString::from));
    assert_eq!(code, ExitCode::SUCCESS);
    let text = std::fs::read_to_string(&csv).unwrap();
    let value = |metric: &str| {
        let line = text
            .lines()
            .find(|line| line.split(',').any(|cell| cell == metric))
            .unwrap_or_else(|| panic!("{metric} in {text}"));
        assert!(line.contains(",fields,"), "{line}");
        line.split(',').next_back().unwrap().parse::<f64>().unwrap()
    };
    assert_eq!(
        (value("received"), value("missing"), value("early")),
        (3000.0, 0.0, 0.0)
    );
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
    // Standard error is closed, too.
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
