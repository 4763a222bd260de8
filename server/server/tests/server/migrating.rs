//! Runs the commands of docs/migrating.md, from a redis-server to Punctual and back, while clients
//! write.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::wire::redis::Redis;
use crate::wire::{Wire, configured, eventually};

/// A part of the page.
#[derive(Clone, Copy)]
pub enum Part {
    Server,
    Cluster,
}

/// Returns the `sh` blocks of a part of the page with these ports, without the indentation of
/// lists.
pub fn commands(part: Part, old: u16, new: u16) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/migrating.md");
    let page = fs::read_to_string(page).unwrap();
    let (server, cluster) = page.split_once("\n## A cluster, node by node\n").unwrap();
    let lines = match part {
        Part::Server => server.lines(),
        Part::Cluster => cluster.lines(),
    };
    let (mut inside, mut text) = (false, String::from("set -eu\n"));
    for line in lines.map(str::trim) {
        match line {
            "```sh" => inside = true,
            "```" => inside = false,
            _ if inside => text += &format!("{line}\n"),
            _ => {}
        }
    }
    text.replace("7000", &new.to_string())
        .replace("6379", &old.to_string())
}

#[test]
fn the_page_moves_all_data_there_and_back() {
    let redis = Redis::start(&[
        "--repl-diskless-sync-delay",
        "0",
        "--enable-debug-command",
        "yes",
    ]);
    let builder = configured("threads 2");
    let ours = builder
        .option("repl-diskless-sync-delay", "0")
        .option("enable-debug-command", "yes")
        .spawn()
        .unwrap();
    let ports = [redis.port, ours.port()];
    let mut old = Wire::to(ports[0]);
    old.expect(
        &[
            "SET timed soon PX 100000000",
            "RPUSH list a 1 -300 b",
            "SADD ints 1 2 70000 -5",
            "HSET hash f v g 12",
            "ZADD zset 1 a 2.5 b inf c",
            "SELECT 3",
            "SET other 1",
        ],
        "+OK|:4|:4|:2|:3|+OK|+OK|",
    );
    let (ended, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let acknowledged = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            // A client that connects to the other server when this server refuses a write.
            let mut clients = ports.map(Wire::to);
            let (mut at, mut numbers) = (0, Vec::new());
            for number in 0.. {
                if ended.load(Ordering::Relaxed) {
                    break;
                }
                let reply = clients[at].text(&format!("SET key:{number} {number}"));
                if reply == "OK" {
                    numbers.push(number);
                    written.fetch_add(1, Ordering::Relaxed);
                } else {
                    assert!(reply.starts_with("READONLY"), "{reply}");
                    at = 1 - at;
                }
            }
            numbers
        });
        eventually(|| written.load(Ordering::Relaxed) > 100);
        let page = commands(Part::Server, ports[0], ports[1]);
        let output = Command::new("timeout")
            .args(["60", "bash", "-c", &page])
            .output()
            .unwrap();
        let before = written.load(Ordering::Relaxed);
        eventually(|| {
            ended.load(Ordering::Relaxed) || written.load(Ordering::Relaxed) > before + 100
        });
        ended.store(true, Ordering::Relaxed);
        let (out, errors) = (&output.stdout, &output.stderr);
        assert!(
            output.status.success() && errors.is_empty(),
            "{}{}",
            String::from_utf8_lossy(out),
            String::from_utf8_lossy(errors)
        );
        writer.join().unwrap()
    });
    let mut new = Wire::to(ports[1]);
    eventually(|| old.text("DEBUG DIGEST") == new.text("DEBUG DIGEST"));
    assert!(old.text("INFO replication").contains("role:master"));
    assert!(new.text("INFO replication").contains("role:slave"));
    // There is one full synchronization. Both exchanges of roles continue the stream.
    for (c, counts) in [
        (&mut old, "sync_full:1\r\nsync_partial_ok:1\r\n"),
        (&mut new, "sync_full:0\r\nsync_partial_ok:1\r\n"),
    ] {
        let stats = c.text("INFO stats");
        assert!(stats.contains(counts), "{stats}");
    }
    old.expect(&["SELECT 0"], "+OK|");
    assert!(acknowledged.len() > 200);
    for number in acknowledged {
        assert_eq!(old.text(&format!("GET key:{number}")), number.to_string());
    }
}
