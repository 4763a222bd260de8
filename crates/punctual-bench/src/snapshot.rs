//! `bench snapshot`: the latency of commands during a BGSAVE, and the duration of a start with a snapshot.
//!
//! One connection writes as fast as it receives replies, another one sends one GET after the other. The longest GET before
//! and during the BGSAVE is the stall that a client sees. Then fresh servers start with the file that the reference
//! server has written.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use punctual_resp::encode_command;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::client::Client;
use crate::csv::Measurement;
use crate::error::{Error, Result};
use crate::launch::{self, Candidate, Server};
use crate::load::latency_histogram;
use crate::options::SnapshotOptions;
use crate::report::{self, Report, describe};
use crate::sheet::{Sheet, hundredths, spreads};
use crate::table::{millis, thousands};
use crate::{bars, keyload, process};

/// Duration of the measurement under load before the BGSAVE.
const CALM: Duration = Duration::from_secs(3);
/// Interval of the reads of INFO and memory during the snapshot.
const POLL: Duration = Duration::from_millis(20);
/// Number of writes in flight.
const WRITES: usize = 16;
/// Name of the snapshot file.
const FILE: &str = "dump.rdb";

/// Results of one server's BGSAVE.
struct Saved {
    calm: Histogram<u64>,
    during: Histogram<u64>,
    took: Duration,
    /// Resident bytes of the server's own process before the snapshot, and their maximum growth during it.
    resident: Option<(u64, u64)>,
    /// Bytes copied, as the server reports them (redis: by its child).
    copied: u64,
    writes: u64,
    file_bytes: u64,
}

fn key(index: u64) -> [u8; 16] {
    let mut name = *b"key:000000000000";
    let text = index.to_string();
    name[16 - text.len()..].copy_from_slice(text.as_bytes());
    name
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
        record(report, server, &one)?;
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
    let mut client = server.client()?;
    let bar = report::progress(keys, &format!("{}: loading", server.label));
    keyload::load(&mut client, keys, "SET", &bar, |index, out| {
        encode_command(out, &[b"SET", &key(index)[..], keyload::VALUE]);
    })?;
    bar.finish_and_clear();
    let stop = AtomicBool::new(false);
    let saving = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(server, keys, &stop));
        let probe = scope.spawn(|| probe(server, keys, &stop, &saving));
        let watched = watch(server, &mut client, &saving);
        stop.store(true, Ordering::Relaxed);
        let died = || Error::Options("a thread of the benchmark has panicked".into());
        let (calm, during) = probe.join().map_err(|_| died())??;
        let writes = writer.join().map_err(|_| died())??;
        let (took, resident, copied) = watched?;
        let file = server.directory().map(|d| d.join(FILE)).unwrap_or_default();
        Ok(Saved {
            calm,
            during,
            took,
            resident,
            copied,
            writes,
            file_bytes: fs::metadata(file).map_or(0, |m| m.len()),
        })
    })
}

/// Sends SETs of random keys until it is stopped. Returns their number.
fn write(server: &Server, keys: u64, stop: &AtomicBool) -> Result<u64> {
    let mut client = server.client()?;
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let (mut bytes, mut count) = (Vec::new(), 0);
    while !stop.load(Ordering::Relaxed) {
        bytes.clear();
        for _ in 0..WRITES {
            let name = key(rng.random_range(0..keys));
            encode_command(&mut bytes, &[b"SET", &name[..], keyload::VALUE]);
        }
        client.send(&bytes)?;
        client.replies(WRITES, "SET")?;
        count += WRITES as u64;
    }
    Ok(count)
}

/// Sends GETs one by one until it is stopped. Returns their latencies before and during the snapshot.
fn probe(
    server: &Server,
    keys: u64,
    stop: &AtomicBool,
    saving: &AtomicBool,
) -> Result<(Histogram<u64>, Histogram<u64>)> {
    let mut client = server.client()?;
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let (mut calm, mut during) = (latency_histogram(), latency_histogram());
    while !stop.load(Ordering::Relaxed) {
        let meanwhile = saving.load(Ordering::Relaxed);
        let begun = Instant::now();
        client.expect(&[b"GET", &key(rng.random_range(0..keys))[..]])?;
        let into = if meanwhile { &mut during } else { &mut calm };
        into.saturating_record(begun.elapsed().as_nanos() as u64);
    }
    Ok((calm, during))
}

type Watched = (Duration, Option<(u64, u64)>, u64);

/// Starts the snapshot and blocks until its end.
fn watch(server: &Server, client: &mut Client, saving: &AtomicBool) -> Result<Watched> {
    let resident = || server.pid.and_then(process::resident_bytes);
    std::thread::sleep(CALM);
    let before = resident();
    let mut most = before;
    // A GET in flight at the start of the snapshot counts as during it.
    saving.store(true, Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(1));
    let begun = Instant::now();
    client.expect(&["BGSAVE"])?;
    loop {
        std::thread::sleep(POLL);
        most = most.max(resident());
        let info = client.expect(&["INFO", "persistence"])?;
        let info = String::from_utf8_lossy(info.as_bytes().unwrap_or_default()).into_owned();
        let field = |name: &str| {
            let value = info.lines().find_map(|line| line.strip_prefix(name));
            value
                .and_then(|v| v.trim().parse::<u64>().ok())
                .unwrap_or(0)
        };
        if field("rdb_bgsave_in_progress:") == 0 {
            let took = begun.elapsed();
            saving.store(false, Ordering::Relaxed);
            if !info.contains("rdb_last_bgsave_status:ok") {
                return Err(Error::Refused {
                    addr: server.addr,
                    command: "BGSAVE".into(),
                    answer: "rdb_last_bgsave_status is not ok".into(),
                });
            }
            let resident = before.zip(most).map(|(b, m)| (b, m.saturating_sub(b)));
            return Ok((took, resident, field("rdb_last_cow_size:")));
        }
    }
}

fn ms(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

fn print_saves(report: &mut Report, servers: &[Server], saved: &[Saved]) {
    let mut sheet = Sheet::new("BGSAVE", servers);
    let bar = format!("<= {}", bars::SNAPSHOT_STALL.as_millis());
    let longest = saved.iter().map(|s| {
        let stall = Duration::from_nanos(s.during.max());
        (millis(ms(s.during.max())), stall <= bars::SNAPSHOT_STALL)
    });
    sheet.judged(report, "longest GET during BGSAVE, ms", &bar, longest);
    let row = |show: fn(&Saved) -> String| saved.iter().map(show).collect::<Vec<_>>();
    sheet.row(
        "longest GET before BGSAVE, ms",
        row(|s| millis(ms(s.calm.max()))),
    );
    sheet.row(
        "p99.9 during BGSAVE, ms",
        row(|s| millis(ms(s.during.value_at_quantile(0.999)))),
    );
    sheet.row(
        "p99.9 before BGSAVE, ms",
        row(|s| millis(ms(s.calm.value_at_quantile(0.999)))),
    );
    sheet.row(
        "duration of BGSAVE, s",
        row(|s| format!("{:.2}", s.took.as_secs_f64())),
    );
    sheet.row(
        "GETs during BGSAVE",
        row(|s| thousands(s.during.len() as f64)),
    );
    sheet.row("SETs in total", row(|s| thousands(s.writes as f64)));
    sheet.row(
        "resident before, MiB",
        row(|s| s.resident.map_or("-".into(), |(b, _)| mib(b))),
    );
    sheet.row(
        "maximum growth, own process, MiB",
        row(|s| s.resident.map_or("-".into(), |(_, m)| mib(m))),
    );
    sheet.row("copied as reported, MiB", row(|s| mib(s.copied)));
    sheet.row("file, MiB", row(|s| mib(s.file_bytes)));
    say!("{sheet}");
}

fn record(report: &mut Report, server: &Server, saved: &Saved) -> Result<()> {
    for (metric, unit, value) in [
        ("longest_get_during", "ms", ms(saved.during.max())),
        ("longest_get_before", "ms", ms(saved.calm.max())),
        ("bgsave", "s", saved.took.as_secs_f64()),
        ("copied", "bytes", saved.copied as f64),
    ] {
        report.record(Measurement {
            benchmark: "snapshot",
            server: &server.product,
            case: "bgsave",
            round: 1,
            metric,
            unit,
            value,
        })?;
    }
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
