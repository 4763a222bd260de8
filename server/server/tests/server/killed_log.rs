//! Servers with an append-only file that are killed under load. No acknowledged write is lost, and
//! no transaction is torn.
//!
//! `PUNCTUAL_KILLS` is the number of kills with each value of `appendfsync`.
//! `PUNCTUAL_KILLED=redis-server` kills another program, to check the tests themselves.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use punctual_harness::{Process, free_port};
use punctual_resp::Value;
use rand::RngExt;

use crate::killed::start_program;
use crate::wire::{Wire, eventually};

/// Number of clients that write.
const WRITERS: usize = 4;
/// Maximum number of writes that a client sends at once.
const PIPELINE: u64 = 8;
/// Number of keys that make a rewrite take some time.
const FILLING: usize = 20_000;

/// A server, its folder and its port.
struct Killed {
    folder: tempfile::TempDir,
    port: u16,
    fsync: &'static str,
    threads: &'static str,
}

/// Writes of one client.
struct Written {
    /// Number of the last write that was sent.
    sent: u64,
    /// Number of the last write that was acknowledged, or that the server had at its start.
    acknowledged: u64,
}

/// Returns the commands of a client's write `n`. Odd writes are transactions; the counter `t` shows
/// whether one was applied twice.
fn commands(client: usize, n: u64) -> Vec<String> {
    if n.is_multiple_of(2) {
        return vec![format!("SET w{client} {n}")];
    }
    vec![
        "MULTI".into(),
        format!("SET w{client} {n}"),
        format!("SET x{client} {n}"),
        format!("INCR t{client}"),
        "EXEC".into(),
    ]
}

/// Writes from number `first` on until the server is killed.
fn write(port: u16, client: usize, first: u64, total: &AtomicU64) -> Written {
    let mut written = Written {
        sent: first - 1,
        acknowledged: first - 1,
    };
    let mut run = || -> std::io::Result<()> {
        let mut connection = Wire::try_to(port)?;
        let mut rng = rand::rng();
        loop {
            let from = written.sent + 1;
            let to = written.sent + rng.random_range(1..=PIPELINE);
            written.sent = to;
            let lines: Vec<Vec<String>> = (from..=to).map(|n| commands(client, n)).collect();
            connection.try_send(&lines.concat())?;
            for (n, lines) in (from..).zip(lines) {
                for line in lines {
                    let reply = connection.try_value()?;
                    assert!(!reply.is_error(), "{line}: {reply:?}");
                }
                written.acknowledged = n;
                total.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    // The error is the end of the connection.
    let _ = run();
    written
}

/// Reads until the server is killed. Returns the largest numbers that it has read.
fn read(port: u16) -> [u64; WRITERS] {
    let mut seen = [0; WRITERS];
    let mut run = || -> std::io::Result<()> {
        let mut connection = Wire::try_to(port)?;
        let names: Vec<String> = (0..WRITERS).map(|client| format!("w{client}")).collect();
        loop {
            connection.try_send(&[format!("MGET {}", names.join(" "))])?;
            let values = connection.try_value()?;
            for (seen, value) in seen.iter_mut().zip(values.as_slice().unwrap()) {
                *seen = (*seen).max(number(value));
            }
        }
    };
    let _ = run();
    seen
}

/// Returns the number in a reply, or 0 for no value.
fn number(value: &Value) -> u64 {
    let text = value.as_bytes().unwrap_or(b"0");
    String::from_utf8_lossy(text).parse().unwrap()
}

impl Killed {
    fn new(fsync: &'static str, threads: &'static str) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            port: free_port(),
            fsync,
            threads,
        }
    }

    fn start(&self) -> Process {
        let program = std::env::var("PUNCTUAL_KILLED");
        let ours = env!("CARGO_BIN_EXE_punctual");
        let mut options = vec!["--appendonly", "yes", "--appendfsync", self.fsync];
        if program.is_err() {
            options.extend(["--threads", self.threads]);
        }
        let program = program.as_deref().unwrap_or(ours);
        let folder: &Path = self.folder.path();
        start_program(program, folder, self.port, &options)
    }

    /// Checks the keyspace, and returns each client's last write.
    fn check(&self) -> [u64; WRITERS] {
        let mut c = Wire::to(self.port);
        std::array::from_fn(|client| {
            let names = ["w", "x", "t"].map(|name| format!("{name}{client}"));
            let [w, x, t] = names.map(|name| number(&c.ask(&["GET", &name])));
            let odd = if w.is_multiple_of(2) {
                w.saturating_sub(1)
            } else {
                w
            };
            assert_eq!(
                (x, t),
                (odd, w.div_ceil(2)),
                "a torn or repeated transaction: w is {w}"
            );
            w
        })
    }

    /// Writes, and kills the server after `enough` acknowledged writes. Returns the clients'
    /// writes, and the largest numbers that a reader has read.
    fn round(
        &self,
        child: &mut Process,
        last: [u64; WRITERS],
        rewrites: bool,
        enough: u64,
    ) -> (Vec<Written>, [u64; WRITERS]) {
        let (total, killed) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|client| {
                    let (total, last) = (&total, last[client]);
                    scope.spawn(move || write(self.port, client, last + 1, total))
                })
                .collect();
            let reader = scope.spawn(|| read(self.port));
            if rewrites {
                scope.spawn(|| {
                    // A rewrite runs most of the time. The error is the end of the connection.
                    let Ok(mut connection) = Wire::try_to(self.port) else {
                        return;
                    };
                    while !killed.load(Ordering::Relaxed) {
                        let asked = connection.try_send(&["BGREWRITEAOF"]);
                        if asked.and_then(|()| connection.try_value()).is_err() {
                            return;
                        }
                        std::thread::sleep(Duration::from_millis(5));
                    }
                });
            }
            eventually(|| total.load(Ordering::Relaxed) >= enough);
            child.kill();
            killed.store(true, Ordering::Relaxed);
            let written = writers.into_iter().map(|writer| writer.join().unwrap());
            (written.collect(), reader.join().unwrap())
        })
    }

    /// Kills the server many times. Each start must load all writes that were acknowledged or read.
    fn kill(&self, kills: u64) {
        let mut child = self.start();
        let mut c = Wire::to(self.port);
        let lines: Vec<String> = (0..FILLING)
            .map(|n| format!("SET filling{n} {n}"))
            .collect();
        c.send(&lines);
        for _ in lines {
            c.receive("+OK|");
        }
        let mut last = [0; WRITERS];
        for kill in 0..kills {
            let enough = rand::random_range(1..1_500);
            let (written, seen) = self.round(&mut child, last, kill % 2 == 1, enough);
            child = self.start();
            last = self.check();
            assert!(Wire::to(self.port).int("DBSIZE") >= FILLING as i64);
            for (client, Written { sent, acknowledged }) in written.into_iter().enumerate() {
                let (found, least) = (last[client], acknowledged.max(seen[client]));
                assert!(
                    (least..=sent).contains(&found),
                    "kill {kill}: client {client} finds write {found}, not {least} to {sent}"
                );
            }
        }
        println!(
            "{kills} kills with appendfsync {}, {} threads: none of {} acknowledged writes lost",
            self.fsync,
            self.threads,
            last.iter().sum::<u64>()
        );
    }
}

/// Returns the number of kills: `usual`, unless `PUNCTUAL_KILLS` sets another.
pub(crate) fn kills(usual: u64) -> u64 {
    punctual_harness::number("PUNCTUAL_KILLS").unwrap_or(usual)
}

/// Acknowledged writes, and writes that a client has read, survive with each value of
/// `appendfsync`.
#[test]
fn a_kill_loses_nothing_that_was_acknowledged() {
    let runs = [
        ("always", "1"),
        ("always", "2"),
        ("everysec", "1"),
        ("everysec", "3"),
        ("no", "1"),
        ("no", "2"),
    ];
    for (fsync, threads) in runs {
        Killed::new(fsync, threads).kill(kills(8).div_ceil(2));
    }
}
