//! `bench server --memory`: resident bytes per key.
//!
//! Each measurement has a fresh server: resident memory before loading (connections open and used)
//! is taken from resident memory after, and divided by the number of keys.

use std::time::Duration;

use punctual_resp::encode_command;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::csv::Measurement;
use crate::error::{Error, Result};
use crate::keyload;
use crate::launch::{self, Candidate, Server};
use crate::options::ServerOptions;
use crate::plot::{self, Bars};
use crate::report::{self, Report, describe};
use crate::spread::{self, Spread};
use crate::table::{Table, thousands};
use crate::workload::write_digits;
use crate::{bars, process};

/// Connections opened and used before the first reading, as a server in service has.
const CONNECTIONS: usize = 50;

/// A server may go on rehashing or giving memory back after the last reply.
const SETTLE: Duration = Duration::from_millis(1500);

/// Deadlines of keys with a TTL lie between one and two hours ahead: none comes during the run.
const TTL_MS: std::ops::Range<u64> = 3_600_000..7_200_000;

/// Runs it and reports.
pub(crate) fn run(options: &ServerOptions, report: &mut Report) -> Result<()> {
    let (candidates, mut notes) = launch::fresh_candidates(&options.target, "--memory")?;
    let (keys, rounds, size) = (options.keys(), options.rounds(), options.size());
    if size < 12 {
        return Err(Error::Options(
            "--size with --memory must be 12 or more: values carry their number, so that no two are alike".into(),
        ));
    }
    // Opened once for the header alone; every measurement has its own.
    let servers = launch::open_all(&candidates, &[])?;
    let (labels, products): (Vec<_>, Vec<_>) = servers
        .iter()
        .map(|server| (server.label.clone(), server.product.clone()))
        .unzip();
    let ours: Vec<bool> = servers.iter().map(|server| server.ours).collect();
    notes.push(format!(
        "bytes per key = (resident memory after loading - before) / keys; a fresh server each time; {rounds} round(s)"
    ));
    report.header(
        &format!(
            "Resident memory per key: {} keys of 16 bytes, values of {size} bytes",
            thousands(keys as f64)
        ),
        &servers.iter().map(describe).collect::<Vec<_>>(),
        &notes,
    );
    drop(servers);
    let variants = [("with TTL", true), ("without TTL", false)];
    let mut bytes: Vec<[Vec<f64>; 2]> = candidates
        .iter()
        .map(|_| [Vec::new(), Vec::new()])
        .collect();
    for round in 1..=rounds {
        for (variant, (name, ttl)) in variants.into_iter().enumerate() {
            for (at, candidate) in candidates.iter().enumerate() {
                let what = format!("{} {name}", labels[at]);
                let value = once(candidate, keys, size, ttl, u64::from(round), &what)?;
                report.record(Measurement {
                    benchmark: "memory",
                    server: &products[at],
                    case: name,
                    round,
                    metric: "resident_per_key",
                    unit: "bytes",
                    value,
                })?;
                bytes[at][variant].push(value);
            }
        }
    }
    let mut table = Table::new(2, ["server", "keys", "bytes per key", "bar", ""]);
    let judged = keys == 1_000_000 && size == 16;
    for (variant, (name, ttl)) in variants.into_iter().enumerate() {
        let bound = if ttl {
            bars::BYTES_PER_KEY_WITH_TTL
        } else {
            bars::BYTES_PER_KEY_WITHOUT_TTL
        };
        for at in 0..candidates.len() {
            let spread = Spread::of(bytes[at][variant].iter().copied());
            let mut row = vec![labels[at].clone(), name.to_owned(), spread::text(spread, 1)];
            match spread {
                Some(spread) if judged => {
                    row.push(format!("<= {bound}"));
                    row.push(report.verdict(ours[at], spread.median <= bound).into());
                }
                _ => row.push("(for 1,000,000 keys, 16-byte values)".into()),
            }
            table.row(row);
        }
    }
    println!("{table}");
    let Some(path) = report.plot_path("server-memory.svg") else {
        return Ok(());
    };
    let median = |at: usize, variant: usize| {
        Spread::of(bytes[at][variant].iter().copied()).map(|all| all.median)
    };
    let plot = Bars {
        y_axis: "resident memory per key, bytes".into(),
        groups: variants
            .iter()
            .enumerate()
            .map(|(variant, (name, _))| {
                let heights = (0..candidates.len())
                    .map(|at| median(at, variant))
                    .collect();
                ((*name).to_owned(), heights)
            })
            .collect(),
        series: products,
        digits: 1,
    };
    let title = format!(
        "Memory: {} keys of 16 bytes with values of {size} bytes (medians)",
        thousands(keys as f64)
    );
    plot::bars(&path, &title, &report.provenance(), &plot)
}

/// One fresh server: its resident bytes per key.
fn once(
    candidate: &Candidate,
    keys: u64,
    size: usize,
    ttl: bool,
    seed: u64,
    what: &str,
) -> Result<f64> {
    let server = candidate.open(&[])?;
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut client = server.client()?;
        client.expect(&["PING"])?;
        connections.push(client);
    }
    let mut client = server.client()?;
    warm_up(&mut client)?;
    std::thread::sleep(Duration::from_millis(200));
    let before = resident(&server)?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut value = vec![b'v'; size];
    let bar = report::progress(keys, what);
    keyload::load(&mut client, keys, "SET", &bar, |index, out| {
        let name = key_name(index);
        // Its number in the value's last digits, a letter in front: no integer, no two alike.
        write_digits(&mut value[size - 11..], index);
        if ttl {
            let millis = rng.random_range(TTL_MS).to_string();
            encode_command(out, &[b"SET", &name[..], &value, b"PX", millis.as_bytes()]);
        } else {
            encode_command(out, &[b"SET", &name[..], &value]);
        }
    })?;
    bar.finish_and_clear();
    let size_now = client.integer(&["DBSIZE"])?;
    if u64::try_from(size_now) != Ok(keys) {
        return Err(Error::Invalid(format!(
            "{size_now} keys are there after loading {keys}"
        )));
    }
    std::thread::sleep(SETTLE);
    let after = resident(&server)?;
    Ok((after as f64 - before as f64) / keys as f64)
}

/// Sets and removes a few keys over the loading connection, so that its buffers have their size.
fn warm_up(client: &mut crate::client::Client) -> Result<()> {
    let hidden = indicatif::ProgressBar::hidden();
    keyload::load(client, 2_000, "SET", &hidden, |index, out| {
        encode_command(
            out,
            &[
                b"SET",
                &key_name(index)[..],
                keyload::VALUE,
                b"PX",
                b"3600000",
            ],
        );
    })?;
    keyload::load(client, 2_000, "DEL", &hidden, |index, out| {
        encode_command(out, &[b"DEL", &key_name(index)[..]]);
    })
}

fn resident(server: &Server) -> Result<u64> {
    server
        .pid
        .and_then(process::resident_bytes)
        .ok_or_else(|| Error::System {
            doing: "reading a server's resident memory",
            source: std::io::ErrorKind::Unsupported.into(),
        })
}

/// `key:` and twelve digits, as the workloads name keys.
fn key_name(index: u64) -> [u8; 16] {
    let mut name = *b"key:000000000000";
    write_digits(&mut name[4..], index);
    name
}
