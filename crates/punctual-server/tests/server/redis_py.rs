//! Runs a script of redis-py, Python's client library, with queues, pipelines and iterators.
//!
//! Needs a Python with the module `redis`, which `scripts/setup python` installs. Without one the test reports that it
//! was not run.

use std::path::{Path, PathBuf};
use std::process::Command;

use punctual_server::Server;

/// Returns a Python that has the module: that of `scripts/setup`, or the system's.
fn python() -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python-venv/bin/python");
    [own, PathBuf::from("python3")].into_iter().find(|python| {
        Command::new(python)
            .args(["-c", "import redis"])
            .output()
            .is_ok_and(|output| output.status.success())
    })
}

#[test]
fn redis_py_works() {
    let Some(python) = python() else {
        eprintln!(
            "NOT RUN: no Python has the module redis; scripts/setup python makes one that has"
        );
        return;
    };
    for protocol in ["2", "3"] {
        let server = Server::builder().port(0).spawn().unwrap();
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/redis_py/everyday.py");
        let output = Command::new(&python)
            .arg(script)
            .args([&server.port().to_string(), protocol])
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "protocol {protocol}:\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
