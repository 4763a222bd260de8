//! `bench snapshot`: the latency of commands during a BGSAVE, and the duration of a start with a snapshot.
//!
//! [`stall`](crate::stall) measures the BGSAVE. Then fresh servers start with the file that the reference server has
//! written.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::csv::Measurement;
use crate::error::{Error, Result};
use crate::launch::{self, Candidate, Server};
use crate::options::SnapshotOptions;
use crate::report::{Report, describe};
use crate::sheet::{Sheet, hundredths, spreads};
use crate::stall::{self, Background, Stall, WRITES, mib, ms};
use crate::table::thousands;
use crate::{bars, keyload};

/// Name of the snapshot file.
const FILE: &str = "dump.rdb";

/// The operation that is measured.
const BGSAVE: Background = Background {
    command: "BGSAVE",
    in_progress: "rdb_bgsave_in_progress",
    status: "rdb_last_bgsave_status",
    copied: "rdb_last_cow_size",
};

/// Results of one server's BGSAVE.
struct Saved {
    stall: Stall,
    file_bytes: u64,
}

/// Runs the benchmark and prints the report.
pub(crate) fn run(options: &SnapshotOptions, report: &mut Report) -> Result<()> {
    let (candidates, mut notes) = launch::fresh_candidates(&options.target, "a snapshot")?;
    let servers = launch::open_all(&candidates, &[])?;
    let keys = options.keys();
    notes.push(format!(
        "keys of 16 bytes with values of {} bytes; while one connection sends SETs, {WRITES} at a time, another sends \
         one GET after the other",
        keyload::VALUE.len()
    ));
    notes.push("one server after the other, never at the same time".into());
    report.header(
        &format!(
            "BGSAVE of {} keys under full write load, and the load of its file",
            thousands(keys as f64)
        ),
        &servers.iter().map(describe).collect::<Vec<_>>(),
        &notes,
    );
    let mut files: Vec<PathBuf> = Vec::new();
    let mut saved = Vec::new();
    let keep = tempfile::Builder::new()
        .prefix("punctual-bench-files-")
        .tempdir()
        .map_err(system("making a directory for snapshots"))?;
    for (at, server) in servers.iter().enumerate() {
        let one = save(server, keys)?;
        record(report, server, &one.stall)?;
        let file = keep.path().join(format!("{at}.rdb"));
        let written = server.directory().map(|d| d.join(FILE)).unwrap_or_default();
        fs::copy(&written, &file).map_err(system("keeping a snapshot"))?;
        // Free the memory for the next server.
        server.client()?.expect(&["FLUSHALL"])?;
        files.push(file);
        saved.push(one);
    }
    print_saves(report, &servers, &saved);
    let of = launch::reference(&servers).unwrap_or(0);
    let labels: Vec<Server> = servers;
    let times = load_times(options, &candidates, &labels, &files[of])?;
    print_loads(report, &labels, &times, of)
}

fn system(doing: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::System { doing, source }
}

/// Loads the keys and makes a snapshot under load.
fn save(server: &Server, keys: u64) -> Result<Saved> {
    stall::load(server, keys)?;
    let stall = BGSAVE.measure(server, keys)?;
    let file = server.directory().map(|d| d.join(FILE)).unwrap_or_default();
    Ok(Saved {
        stall,
        file_bytes: fs::metadata(file).map_or(0, |m| m.len()),
    })
}

fn print_saves(report: &mut Report, servers: &[Server], saved: &[Saved]) {
    let mut sheet = Sheet::new("BGSAVE", servers);
    let stalls: Vec<&Stall> = saved.iter().map(|s| &s.stall).collect();
    stall::print_latency(&mut sheet, report, "BGSAVE", &stalls, bars::SNAPSHOT_STALL);
    stall::print_rest(&mut sheet, "BGSAVE", &stalls);
    sheet.row("file, MiB", saved.iter().map(|s| mib(s.file_bytes)));
    say!("{sheet}");
}

fn record(report: &mut Report, server: &Server, saved: &Stall) -> Result<()> {
    let figures = [
        ("longest_get_during", "ms", ms(saved.during.max())),
        ("longest_get_before", "ms", ms(saved.calm.max())),
        ("bgsave", "s", saved.took.as_secs_f64()),
        ("copied", "bytes", saved.copied as f64),
    ];
    report.record_all("snapshot", &server.product, "bgsave", 1, figures)?;
    Ok(())
}

/// Returns the seconds from the start of a server until it replies to DBSIZE, by server and round.
fn load_times(
    options: &SnapshotOptions,
    candidates: &[Candidate],
    labels: &[Server],
    file: &std::path::Path,
) -> Result<Vec<Vec<f64>>> {
    let folder = file.parent().unwrap_or(file).display().to_string();
    let name = file
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let settings = [("dir", folder.as_str()), ("dbfilename", name.as_str())];
    let mut times: Vec<Vec<f64>> = candidates.iter().map(|_| Vec::new()).collect();
    for _ in 0..options.rounds() {
        for ((candidate, label), times) in candidates.iter().zip(labels).zip(&mut times) {
            let begun = Instant::now();
            let server = candidate.open(&settings)?;
            let mut client = server.client()?;
            let size = loop {
                let answer = client.command(&["DBSIZE"])?;
                if let Some(size) = answer.as_int() {
                    break size;
                }
                std::thread::sleep(Duration::from_millis(5));
            };
            times.push(begun.elapsed().as_secs_f64());
            if size != options.keys() as i64 {
                return Err(Error::Refused {
                    addr: server.addr,
                    command: "DBSIZE".into(),
                    answer: format!("{size} keys after the load by {}", label.label),
                });
            }
        }
    }
    Ok(times)
}

fn print_loads(
    report: &mut Report,
    servers: &[Server],
    times: &[Vec<f64>],
    of: usize,
) -> Result<()> {
    let mut sheet = Sheet::new("from the start until all keys are loaded", servers);
    let spreads = spreads(times, |seconds| Some(*seconds));
    sheet.shown("s", &spreads, hundredths);
    if servers.len() > 1 {
        let base = spreads[of].map_or(f64::NAN, |s| s.median);
        let ratios = spreads.iter().map(|s| {
            let ratio = s.map_or(f64::NAN, |s| s.median) / base;
            (format!("{ratio:.2}"), ratio <= bars::SNAPSHOT_LOAD_RATIO)
        });
        let bar = format!("<= {}", bars::SNAPSHOT_LOAD_RATIO);
        sheet.judged(
            report,
            &format!("ratio to {}", servers[of].label),
            &bar,
            ratios,
        );
    }
    say!("{sheet}");
    for (server, times) in servers.iter().zip(times) {
        for (round, &value) in (1..).zip(times) {
            report.record(Measurement {
                benchmark: "snapshot",
                server: &server.product,
                case: "load",
                round,
                metric: "start",
                unit: "s",
                value,
            })?;
        }
    }
    Ok(())
}
