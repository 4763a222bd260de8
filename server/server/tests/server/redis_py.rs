//! Runs Python programs that use redis-py: everyday use, workers of `punctual.jobs`, and the
//! programs of docs/jobs.md.
//!
//! The tests need a Python with the module `redis`, which `scripts/setup python` installs. Without
//! it, they print that they were skipped.

use crate::wire::server_with;
use std::path::{Path, PathBuf};
use std::process::Command;

use punctual_server::Server;

use crate::tls::Authority;

/// Returns a Python that has the module: the Python of `scripts/setup`, or the system's. If neither
/// has it, prints that the test was skipped.
pub fn python_with(module: &str) -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python-venv/bin/python");
    let found = [own, PathBuf::from("python3")].into_iter().find(|python| {
        Command::new(python)
            .args(["-c", &format!("import {module}")])
            .output()
            .is_ok_and(|output| output.status.success())
    });
    if found.is_none() {
        eprintln!(
            "NOT RUN: no Python has the module {module}, which scripts/setup python installs"
        );
    }
    found
}

/// Runs a script with these arguments, if there is a Python for it.
fn run(script: &str, args: &[&str]) {
    let Some(python) = python_with("redis") else {
        return;
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/redis_py");
    let output = Command::new(&python)
        .arg(folder.join(script))
        .args(args)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{script} {args:?}:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn redis_py_works() {
    for protocol in ["2", "3"] {
        let server = Server::builder().port(0).spawn().unwrap();
        run("everyday.py", &[&server.port().to_string(), protocol]);
    }
}

/// The same script over TLS. The client verifies the server's certificate and name, and needs a
/// certificate of its own.
#[test]
fn redis_py_works_encrypted() {
    let authority = Authority::new();
    let server = authority
        .builder()
        .option("tls-auth-clients", "yes")
        .spawn()
        .unwrap();
    let port = server.tls_port().to_string();
    let [ca, certificate, key] = ["ca.crt", "client.crt", "client.key"].map(|n| authority.path(n));
    run("everyday.py", &[&port, "3", &ca, &certificate, &key]);
}

#[test]
fn workers_of_the_python_package_work() {
    let module =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings/python/python/punctual/jobs.py");
    let server = Server::builder().port(0).spawn().unwrap();
    let port = server.port().to_string();
    run("jobs.py", &[&port, module.to_str().unwrap()]);
}

#[test]
fn programs_of_the_page_of_jobs_work() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let server = server_with("clock virtual");
    let paths = [
        "docs/jobs.md",
        "bindings/python/python/punctual/jobs.py",
        "target/job-peers/python",
    ];
    let paths = paths.map(|path| root.join(path).to_str().unwrap().to_owned());
    let port = server.port().to_string();
    run("moving.py", &[&port, &paths[0], &paths[1], &paths[2]]);
}
