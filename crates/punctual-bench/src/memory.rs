//! `bench server --memory`: resident bytes per key, and per member of collections.
//!
//! Each measurement starts a fresh server. The result is the growth of resident memory during loading, divided by the
//! number of keys, members or items; connections are open and used before.

mod loads;

pub(crate) use loads::Type;

use std::time::Duration;

use punctual_resp::encode_command;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::csv::Measurement;
use crate::error::{Error, Result};
use crate::keyload;
use crate::launch::{self, Candidate, Server};
use crate::options::ServerOptions;
use crate::plot::{self, Bars};
use crate::process;
use crate::report::{self, Report, describe};
use crate::spread::{self, Spread};
use crate::table::{Table, thousands};

use loads::{Bar, LOADS, Load, Writer, key_name};

/// Connections opened and used before the first reading, as on a production server.
const CONNECTIONS: usize = 50;

/// Delay after the last reply, for a server that is rehashing or returning memory.
const SETTLE: Duration = Duration::from_millis(1500);

/// Runs the benchmark and prints the report.
pub(crate) fn run(options: &ServerOptions, report: &mut Report) -> Result<()> {
    let (candidates, mut notes) = launch::fresh_candidates(&options.target, "--memory")?;
    let (keys, rounds, size) = (options.keys(), options.rounds(), options.size());
    if size < 12 {
        return Err(Error::Options(
            "--size with --memory must be 12 or more: values carry their number, so that no two are alike".into(),
        ));
    }
    let wanted = options.types();
    let loads: Vec<&Load> = LOADS
        .iter()
        .filter(|load| wanted.contains(&load.of) || wanted.is_empty() && load.of != Type::Timers)
        .collect();
    // These servers are only for the header; every measurement starts its own.
    let servers = launch::open_all(&candidates, &[])?;
    let (labels, products): (Vec<_>, Vec<_>) = servers
        .iter()
        .map(|server| (server.label.clone(), server.product.clone()))
        .unzip();
    let ours: Vec<bool> = servers.iter().map(|server| server.ours).collect();
    let reference = launch::reference(&servers);
    notes.push(format!(
        "bytes each = (resident memory after loading - before) / number; a fresh server each time; {rounds} round(s)"
    ));
    report.header(
        &format!(
            "Resident memory: {} keys of 16 bytes with values of {size} bytes; as many hashes, members and items",
            thousands(keys as f64)
        ),
        &servers.iter().map(describe).collect::<Vec<_>>(),
        &notes,
    );
    drop(servers);
    let mut bytes: Vec<Vec<Vec<f64>>> = vec![vec![Vec::new(); loads.len()]; candidates.len()];
    for round in 1..=rounds {
        for (variant, load) in loads.iter().enumerate() {
            for (at, candidate) in candidates.iter().enumerate() {
                let what = format!("{} {}", labels[at], load.name);
                let Some(value) = once(candidate, load, keys, size, u64::from(round), &what)?
                else {
                    continue;
                };
                report.record(Measurement {
                    benchmark: "memory",
                    server: &products[at],
                    case: load.name,
                    round,
                    metric: "resident_per_key",
                    unit: "bytes",
                    value,
                })?;
                bytes[at][variant].push(value);
            }
        }
    }
    let median = |at: usize, variant: usize| {
        Spread::of(bytes[at][variant].iter().copied()).map(|all| all.median)
    };
    let mut table = Table::new(2, ["server", "what", "bytes each", "bar", ""]);
    for (variant, load) in loads.iter().enumerate() {
        for at in 0..candidates.len() {
            let spread = Spread::of(bytes[at][variant].iter().copied());
            let mut row = vec![
                labels[at].clone(),
                load.name.to_owned(),
                spread::text(spread, 1),
            ];
            let theirs = reference
                .filter(|reference| *reference != at)
                .and_then(|at| median(at, variant));
            let bound = match load.bar {
                Bar::Bytes(bound) if size == 16 => Some(bound),
                Bar::Bytes(_) => None,
                Bar::Ratio(share) => theirs.map(|theirs| share * theirs),
            };
            match (spread, bound) {
                (Some(spread), Some(bound)) if keys == 1_000_000 => {
                    row.push(format!("<= {bound:.1}"));
                    row.push(report.verdict(ours[at], spread.median <= bound).into());
                }
                (None, _) => row.push("(unsupported)".into()),
                _ if matches!(load.bar, Bar::Bytes(_)) || theirs.is_some() => {
                    row.push("(for 1,000,000 of them, 16-byte values)".into());
                }
                _ => {}
            }
            table.row(row);
        }
    }
    say!("{table}");
    let Some(path) = report.plot_path("server-memory.svg") else {
        return Ok(());
    };
    let plot = Bars {
        y_axis: "resident memory each, bytes".into(),
        groups: loads
            .iter()
            .enumerate()
            .map(|(variant, load)| {
                let heights = (0..candidates.len())
                    .map(|at| median(at, variant))
                    .collect();
                (load.name.to_owned(), heights)
            })
            .collect(),
        series: products,
        digits: 1,
    };
    let title = format!(
        "Memory: {} keys of 16 bytes with values of {size} bytes, and as many of each other (medians)",
        thousands(keys as f64)
    );
    plot::bars(&path, &title, &report.provenance(), &plot)
}

/// Returns the resident bytes per loaded element on a fresh server; `None` if the command is unknown.
fn once(
    candidate: &Candidate,
    load: &Load,
    keys: u64,
    size: usize,
    seed: u64,
    what: &str,
) -> Result<Option<f64>> {
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
    let mut writer = Writer::new(ChaCha8Rng::seed_from_u64(seed), size);
    let bar = report::progress(keys, what);
    let loaded = keyload::load(&mut client, keys, load.command, &bar, |index, out| {
        (load.write)(&mut writer, index, out);
    });
    bar.finish_and_clear();
    match loaded {
        Err(Error::Refused { answer, .. })
            if answer.to_ascii_lowercase().contains("unknown command") =>
        {
            return Ok(None);
        }
        other => other?,
    }
    let size_now = client.integer(load.count)?;
    if u64::try_from(size_now) != Ok(keys) {
        return Err(Error::Invalid(format!(
            "{size_now} {} exist after loading {keys}",
            load.name
        )));
    }
    std::thread::sleep(SETTLE);
    let after = resident(&server)?;
    Ok(Some((after as f64 - before as f64) / keys as f64))
}

/// Sets and removes a few keys over the loading connection, so that its buffers reach their final size.
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
