//! Random commands from many connections, for a few seconds. `PUNCTUAL_SEED` sets the seed. The
//! binary `argument_fuzz` does the same for longer.

use std::time::Duration;

use punctual_compat::fuzz::{Options, run};
use punctual_server::Server;

#[test]
fn no_client_is_left_without_a_reply() {
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let server = Server::builder()
        .port(0)
        .option("dir", folder.path().to_str().expect("UTF-8"))
        .threads(4)
        .option("enable-debug-command", "yes")
        .option("proto-max-bulk-len", "1mb")
        .option("client-output-buffer-limit", "normal 64mb 0 0")
        .spawn()
        .unwrap_or_else(|error| panic!("{error}"));
    let options = Options {
        address: server.addr().expect("it listens on TCP"),
        documented: None,
        seed: punctual_harness::number("PUNCTUAL_SEED").unwrap_or(29),
        duration: Duration::from_secs(6),
        // Long enough for a busy machine.
        silence: Duration::from_secs(20),
        sessions: 6,
        short_lived: 100,
    };
    println!("seed {}", options.seed);
    let report = run(&options, &|| false, &String::new).unwrap_or_else(|error| panic!("{error}"));
    assert!(report.failures.is_empty(), "{}", report.failures.join("\n"));
    assert!(report.replies.0 > 1_000, "{report:?}");
    assert!(
        report.replies.1 < report.replies.0 * 9 / 10,
        "most are errors: {report:?}"
    );
    server.shutdown();
}
