//! `bench snapshot --large`: the longest stall of other commands while a server works on one very large value.
//!
//! One value of each type in turn. One connection sends one GET of a small key after the other, while another one runs the command
//! under test, or waits for a BGSAVE, during which a third may change the large value.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use punctual_resp::encode_command;

use crate::client::Client;
use crate::csv::Measurement;
use crate::error::{Error, Result};
use crate::launch::{self, Server};
use crate::options::SnapshotOptions;
use crate::report::{self, Report, describe};
use crate::sheet::Sheet;
use crate::stall::{self, ms};
use crate::table::{millis, thousands};
use crate::{bars, keyload};

/// Number of small keys that the GETs read: they are on all shards.
const SMALL: u64 = 64;
/// Elements of one command that loads.
const BATCH: u64 = 100;
/// Time of GETs before and after each command.
const MARGIN: Duration = Duration::from_millis(100);

/// A type of large value.
struct Kind {
    name: &'static str,
    /// The command that adds elements.
    add: &'static str,
    /// Arguments of an element, of which `{}` is its number.
    element: &'static [&'static str],
    /// Commands that change the value while it is saved. `{}` is a number that grows.
    changes: &'static [&'static [&'static str]],
}

const KINDS: &[Kind] = &[
    Kind {
        name: "list",
        add: "RPUSH",
        element: &["element:{}"],
        changes: &[
            &["LPUSH", "large", "new:{}"],
            &["RPOP", "large"],
            &["LSET", "large", "-{}", "changed"],
        ],
    },
    Kind {
        name: "hash",
        add: "HSET",
        element: &["field:{}", "{}"],
        changes: &[
            &["HSET", "large", "field:{}", "new"],
            &["HDEL", "large", "field:1{}"],
        ],
    },
    Kind {
        name: "set",
        add: "SADD",
        element: &["member:{}"],
        changes: &[
            &["SADD", "large", "new:{}"],
            &["SREM", "large", "member:1{}"],
        ],
    },
    Kind {
        name: "zset",
        add: "ZADD",
        element: &["{}", "member:{}"],
        changes: &[
            &["ZADD", "large", "7", "member:{}"],
            &["ZREM", "large", "member:1{}"],
        ],
    },
    Kind {
        name: "stream",
        add: "XADD",
        element: &["*", "field", "{}"],
        changes: &[
            &["XADD", "large", "*", "field", "{}"],
            &["XTRIM", "large", "MAXLEN", "~", "1000000"],
        ],
    },
];

/// What happens to the value, in this order. The BGSAVEs are repeated.
const CASES: &[(&str, &[&str])] = &[
    ("BGSAVE", &["BGSAVE"]),
    (CHANGED, &["BGSAVE"]),
    ("COPY", &["COPY", "large", "copy"]),
    ("DEL of the copy", &["DEL", "copy"]),
    ("RENAME", &["RENAME", "large", "{renamed}"]),
    ("MOVE", &["MOVE", "{renamed}", "1"]),
    ("expiry", &["PEXPIRE", "{renamed}", "1"]),
];
const CHANGED: &str = "BGSAVE, the value changed meanwhile";

/// Runs the benchmark and prints the report.
pub(crate) fn run(options: &SnapshotOptions, elements: u64, report: &mut Report) -> Result<()> {
    let (candidates, mut notes) = launch::fresh_candidates(&options.target, "a large value")?;
    let rounds = options.rounds();
    notes.push(format!(
        "BGSAVE: the least of {rounds} rounds, because other programs on the machine delay a GET too"
    ));
    notes.push("one value at a time; while the command runs, another connection sends one GET after the other".into());
    let servers = launch::open_all(&candidates, &[])?;
    report.header(
        &format!("values of {} elements", thousands(elements as f64)),
        &servers.iter().map(describe).collect::<Vec<_>>(),
        &notes,
    );
    for kind in KINDS {
        let mut all = Vec::new();
        for server in &servers {
            all.push(measure(server, kind, elements, rounds)?);
            server.client()?.expect(&["FLUSHALL"])?;
        }
        let mut sheet = Sheet::new(&format!("{}: longest GET, ms", kind.name), &servers);
        for (at, (case, _)) in CASES.iter().enumerate() {
            let longest: Vec<Duration> = all.iter().map(|of| of[at].0).collect();
            let judged = longest
                .iter()
                .map(|d| (millis(ms(d.as_nanos() as u64)), *d <= bars::SNAPSHOT_STALL));
            let bar = format!("<= {}", bars::SNAPSHOT_STALL.as_millis());
            sheet.judged(report, case, &bar, judged);
            let took = all.iter().map(|of| millis(ms(of[at].1.as_nanos() as u64)));
            sheet.row(&format!("  duration of {case}, ms"), took);
            for (server, longest) in servers.iter().zip(longest) {
                report.record(Measurement {
                    benchmark: "large",
                    server: &server.product,
                    case: &format!("{} {case}", kind.name),
                    round: 1,
                    metric: "longest_get",
                    unit: "ms",
                    value: ms(longest.as_nanos() as u64),
                })?;
            }
        }
        say!("{sheet}");
    }
    Ok(())
}

/// Returns the longest GET and the duration of each case.
fn measure(
    server: &Server,
    kind: &Kind,
    elements: u64,
    rounds: u32,
) -> Result<Vec<(Duration, Duration)>> {
    stall::load(server, SMALL)?;
    load(server, kind, elements)?;
    let mut client = server.client()?;
    let mut all = Vec::new();
    for (case, command) in CASES {
        if *case == "expiry" {
            client.expect(&["SELECT", "1"])?;
        }
        let mut once = || {
            longest_get(server, || match command[0] {
                "BGSAVE" => {
                    let changed = (*case == CHANGED).then_some((kind, elements));
                    save(server, &mut client, changed)
                }
                "PEXPIRE" => {
                    client.expect(command)?;
                    while client.integer(&["DBSIZE"])? > 0 {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    Ok(())
                }
                _ => client.expect(command).map(drop),
            })
        };
        let mut least = once()?;
        if command[0] == "BGSAVE" {
            for _ in 1..rounds {
                least = least.min(once()?);
            }
        }
        all.push(least);
    }
    Ok(all)
}

fn load(server: &Server, kind: &Kind, elements: u64) -> Result<()> {
    // A command adds one entry to a stream.
    let per_command = if kind.add == "XADD" { 1 } else { BATCH };
    let commands = elements / per_command;
    let bar = report::progress(commands, &format!("{}: {}", server.label, kind.name));
    let mut client = server.client()?;
    keyload::load(&mut client, commands, kind.add, &bar, |batch, out| {
        let mut words = vec![kind.add.to_owned(), "large".to_owned()];
        for number in batch * per_command..(batch + 1) * per_command {
            let number = number.to_string();
            words.extend(kind.element.iter().map(|word| word.replace("{}", &number)));
        }
        encode_command(out, &words);
    })?;
    bar.finish_and_clear();
    Ok(())
}

/// Runs `work` while GETs are sent. Returns the longest GET, and the duration of the work.
fn longest_get(server: &Server, work: impl FnOnce() -> Result<()>) -> Result<(Duration, Duration)> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let probe = scope.spawn(|| -> Result<Duration> {
            let mut client = server.client()?;
            let mut longest = Duration::ZERO;
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) {
                number = (number + 1) % SMALL;
                let begun = Instant::now();
                client.expect(&[b"GET", &stall::key(number)[..]])?;
                longest = longest.max(begun.elapsed());
            }
            Ok(longest)
        });
        std::thread::sleep(MARGIN);
        let begun = Instant::now();
        let done = work();
        let took = begun.elapsed();
        std::thread::sleep(MARGIN);
        stop.store(true, Ordering::Relaxed);
        let longest = probe.join();
        done?;
        let died = || Error::Options("a thread of the benchmark has panicked".into());
        Ok((longest.map_err(|_| died())??, took))
    })
}

/// Makes a snapshot, while the value is changed if it is given.
fn save(server: &Server, client: &mut Client, changed: Option<(&Kind, u64)>) -> Result<()> {
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = changed
            .map(|(kind, elements)| scope.spawn(move || change(server, kind, elements, stop)));
        let mut wait = || -> Result<()> {
            client.expect(&["BGSAVE"])?;
            loop {
                std::thread::sleep(Duration::from_millis(5));
                let info = stall::info(client, "persistence")?;
                if stall::field(&info, "rdb_bgsave_in_progress") == Some("0") {
                    return Ok(());
                }
            }
        };
        let saved = wait();
        stop.store(true, Ordering::Relaxed);
        if let Some(writer) = writer {
            let died = |_| Error::Options("a thread of the benchmark has panicked".into());
            writer.join().map_err(died)??;
        }
        saved
    })
}

/// Changes the value until it is stopped, with one command at a time.
fn change(server: &Server, kind: &Kind, elements: u64, stop: &AtomicBool) -> Result<()> {
    let mut client = server.client()?;
    // A stride that meets elements everywhere.
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        number = (number + 7_919) % (elements / 2) + 1;
        let text = number.to_string();
        for command in kind.changes {
            let words: Vec<String> = command
                .iter()
                .map(|word| word.replace("{}", &text))
                .collect();
            client.expect(&words)?;
        }
    }
    Ok(())
}
