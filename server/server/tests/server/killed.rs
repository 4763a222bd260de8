//! Servers that are killed, and the snapshots that they load on restart.

use std::path::Path;
use std::time::Duration;

use punctual_harness::{Launch, Process, free_port};

use crate::wire::Wire;

/// Starts the binary in `folder` and blocks until its data is loaded.
pub(crate) fn start(folder: &Path, port: u16, options: &[&str]) -> Process {
    start_program(env!("CARGO_BIN_EXE_punctual"), folder, port, options)
}

/// Starts a server in `folder` and blocks until its data is loaded.
pub(crate) fn start_program(program: &str, folder: &Path, port: u16, options: &[&str]) -> Process {
    let launch = Launch::of(program)
        .options(["--save", ""])
        .options(options)
        .folder(folder)
        .port(port);
    launch.start().unwrap_or_else(|error| panic!("{error}"))
}

/// Kills a server at least fifty times, at different moments during a save or soon after it. Each
/// start loads a complete snapshot: the last snapshot that was reported as saved, or a later one.
#[test]
fn a_kill_during_a_save_loses_no_snapshot() {
    const KEYS: usize = 40_000;
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut unfinished = 0;
    let mut least = 0;
    for round in 1..1_000u64 {
        // On a busy machine, more saves end before the kill, so more rounds are needed.
        if round > 50 && unfinished >= 20 {
            break;
        }
        let mut child = start(folder.path(), port, &[]);
        let mut c = Wire::to(port);
        let generation = c.ask(&["GET", "generation"]);
        let generation = generation.as_bytes().unwrap_or(b"0");
        let generation = String::from_utf8_lossy(generation).into_owned();
        let generation: u64 = generation
            .parse()
            .unwrap_or_else(|_| panic!("round {round}: {generation}"));
        assert!(
            generation >= least,
            "round {round}: {generation}, but {least} was saved"
        );
        let size = c.int("DBSIZE");
        assert!(
            size == 0 && generation == 0 || size as usize == KEYS + 1,
            "round {round}: {size} keys"
        );
        if generation > 0 {
            // All keys are of one generation, so the snapshot shows one instant.
            let wanted = format!("v{generation}");
            for n in [0, KEYS / 2, KEYS - 1] {
                assert_eq!(
                    c.ask(&["GET", &format!("k{n}")]).as_bytes(),
                    Some(wanted.as_bytes())
                );
            }
        }
        let value = format!("v{round}");
        let mut lines: Vec<String> = (0..KEYS).map(|n| format!("SET k{n} {value}")).collect();
        lines.insert(0, "MULTI".into());
        lines.push(format!("SET generation {round}"));
        lines.push("EXEC".into());
        c.send(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        for _ in 0..lines.len() - 1 {
            c.value();
        }
        assert!(!c.value().is_error());
        c.expect(&["BGSAVE"], "+Background saving started|");
        // The delays range from zero to well after the end of a save.
        std::thread::sleep(Duration::from_micros(round % 50 * 80));
        if c.text("INFO persistence").contains("rdb_saves:1") {
            least = round;
        } else {
            unfinished += 1;
        }
        child.kill();
    }
    assert!(
        unfinished >= 20,
        "only {unfinished} kills happened during a save"
    );
}

/// Kills a server after FLUSHALL has replied: no earlier key is restored.
#[test]
fn a_kill_after_flushall_restores_no_key() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    for round in 0..8 {
        let threads = (round % 2 + 1).to_string();
        let options = [
            "--save",
            "3600 1",
            "--enable-debug-command",
            "yes",
            "--threads",
            &threads,
        ];
        let mut child = start(folder.path(), port, &options);
        let mut c = Wire::to(port);
        c.expect(&["DBSIZE", "MSET a 1 b 2", "SAVE"], ":0|+OK|+OK|");
        match round / 2 {
            0 => c.expect(&["FLUSHALL"], "+OK|"),
            1 => c.expect(&["FLUSHALL ASYNC"], "+OK|"),
            2 => c.expect(
                &["MULTI", "SET c 1", "FLUSHALL", "SET c 2", "EXEC"],
                "+OK|+QUEUED|+QUEUED|+QUEUED|*3|+OK|+OK|+OK|",
            ),
            // FLUSHALL aborts a running background save.
            _ => c.expect(
                &["DEBUG POPULATE 100000", "BGSAVE", "FLUSHALL"],
                "+OK|+Background saving started|+OK|",
            ),
        }
        child.kill();
    }
    start(folder.path(), port, &[]);
}
