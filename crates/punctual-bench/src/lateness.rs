//! `bench expiry`: the lateness of events of expired keys, or (`--fields`) of fields of hashes, or (`--timers`) of timers.
//!
//! Many keys get deadlines uniformly distributed over some seconds, all after the end of loading, and are never accessed
//! again: see [`expiring`](crate::expiring). Each name contains its deadline, so lateness is the time of reception minus
//! that deadline.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use punctual_resp::encode_command;

use crate::clock::{sleep_until, unix_micros};
use crate::csv::Measurement;
use crate::error::{Error, Result};
use crate::events::{Received, Receiver};
use crate::expiring::{expected, load, plot_name, remove_unsupported, setting, what};
use crate::launch::{self, Server};
use crate::options::ExpiryOptions;
use crate::plot::{self, Curve};
use crate::process::{self, CpuTime};
use crate::report::{self, Report, describe};
use crate::sheet::{Sheet, hundredths, spreads};
use crate::spread::{self, Spread};
use crate::table::{millis, thousands};
use crate::{bars, keyload};

/// The percentiles of the table, by name.
const COLUMNS: [(&str, f64); 6] = [
    ("min", 0.0),
    ("p50", 50.0),
    ("p90", 90.0),
    ("p99", 99.0),
    ("p99.9", 99.9),
    ("max", 100.0),
];

/// Results of one server in one round.
#[derive(Debug)]
struct Run {
    received: Received,
    /// Keys whose event did not arrive in time.
    missing: u64,
    /// Server CPU from the first deadline to the last event, and that duration.
    cpu: Option<Duration>,
    wall: Duration,
    /// Resident bytes of the server: before loading, after loading, and after the last event.
    resident: [Option<u64>; 3],
    /// Latency of a PUBLISH to a subscriber in µs, a lower bound for the lateness.
    floor: hdrhistogram::Histogram<u64>,
}

/// Getter of a count of one run.
type Count = fn(&Run) -> u64;

/// Runs the benchmark on every server and prints the report.
pub(crate) fn run(options: &ExpiryOptions, report: &mut Report) -> Result<()> {
    let (candidates, mut notes) = launch::candidates(&options.target)?;
    let mut servers = launch::open_all(&candidates, &[setting(options)])?;
    remove_unsupported(options, &mut servers, &mut notes)?;
    let expected = expected(options);
    let (keys, rounds) = (expected.all(), options.rounds());
    notes.push(
        "one server after the other, never at the same time; lateness = time of reception - deadline".into(),
    );
    if servers.iter().any(|server| server.pid.is_none()) {
        notes.push(
            "lateness at a server on another machine includes the difference of the clocks".into(),
        );
    }
    report.header(
        &format!(
            "Lateness of `{}` events: {} {}, deadlines over {} s, never touched again; {rounds} round(s)",
            expected.event,
            thousands(keys as f64),
            what(options),
            options.spread().as_secs_f64()
        ),
        &servers.iter().map(describe).collect::<Vec<_>>(),
        &notes,
    );
    let mut runs: Vec<Vec<Run>> = servers.iter().map(|_| Vec::new()).collect();
    for round in 1..=rounds {
        for (server, runs) in servers.iter().zip(&mut runs) {
            let run = once(options, server, round)?;
            record(report, options, server, round, &run)?;
            runs.push(run);
        }
    }
    print_table(report, options, &servers, &runs);
    for (server, runs) in servers.iter().zip(&runs) {
        print_sanity(server, &runs[runs.len() - 1]);
    }
    draw(report, &servers, &runs, options)
}

/// Runs one round on one server: loads, waits and collects the results.
fn once(options: &ExpiryOptions, server: &Server, round: u32) -> Result<Run> {
    let expected = expected(options);
    let (keys, spread_ms) = (expected.all(), millis_of(options.spread()));
    let mut client = server.client()?;
    let _notify = server.publish_events(setting(options))?;
    let resident_before = server.pid.and_then(process::resident_bytes);
    let lead = match options.lead {
        Some(lead) => lead,
        // Deadlines of fields need one command each, which is slower than SET.
        None if options.fields || options.timers => keyload::lead(&mut client, keys * 2)?,
        None => keyload::lead(&mut client, keys)?,
    };
    let receiver = Receiver::subscribe(server, expected)?;
    let begun = Instant::now();
    let first_ms = unix_micros() / 1000 + millis_of(lead);
    let bar = report::progress(keys, &format!("{}: loading", server.label));
    load(options, &mut client, first_ms, round, &bar)?;
    bar.finish_and_clear();
    check_lead(begun.elapsed(), lead)?;
    sleep_until((first_ms - 20) * 1000);
    let resident_loaded = server.pid.and_then(process::resident_bytes);
    let cpu_before = server.pid.and_then(CpuTime::of);
    let window = Instant::now();

    let bar = report::progress(keys, &format!("{}: expiring", server.label));
    let give_up = (first_ms + spread_ms + millis_of(options.wait())) * 1000;
    while receiver.count() < keys && unix_micros() < give_up {
        std::thread::sleep(Duration::from_millis(100));
        bar.set_position(receiver.count());
    }
    bar.finish_and_clear();
    let wall = window.elapsed();
    let cpu = server
        .pid
        .and_then(CpuTime::of)
        .zip(cpu_before)
        .map(|(now, then)| now.since(&then));
    let resident_after = server.pid.and_then(process::resident_bytes);
    let received = receiver.finish()?;
    let floor = delivery_floor(server)?;
    Ok(Run {
        missing: keys - received.keys,
        received,
        cpu,
        wall,
        resident: [resident_before, resident_loaded, resident_after],
        floor,
    })
}

/// Returns an error if loading ended after the first deadline.
pub(crate) fn check_lead(took: Duration, lead: Duration) -> Result<()> {
    if took + Duration::from_millis(50) < lead {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "loading took {:.1} s, longer than the time before the first deadline; increase it with --lead {:.0}",
        took.as_secs_f64(),
        took.as_secs_f64() * 2.0 + 2.0
    )))
}

/// Measures the latency of a PUBLISH to a subscriber of an idle server.
fn delivery_floor(server: &Server) -> Result<hdrhistogram::Histogram<u64>> {
    const SAMPLES: u32 = 500;
    let channel = "punctual-bench:floor";
    let mut publisher = server.client()?;
    let mut subscriber = server.client()?;
    subscriber.expect(&["SUBSCRIBE", channel])?;
    let mut floor = crate::load::latency_histogram();
    for _ in 0..SAMPLES {
        // Both sides sleep by then, as between two deadlines.
        std::thread::sleep(Duration::from_millis(1));
        let mut bytes = Vec::new();
        encode_command(&mut bytes, &["PUBLISH", channel, "x"]);
        let begun = Instant::now();
        publisher.send(&bytes)?;
        subscriber.reply()?;
        floor.saturating_record(begun.elapsed().as_micros() as u64);
        publisher.replies(1, "PUBLISH")?;
    }
    Ok(floor)
}

pub(crate) fn millis_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Run {
    /// Returns the lateness in ms at a percentile; `None` without events.
    fn lateness(&self, percentile: f64) -> Option<f64> {
        let lateness = &self.received.lateness;
        let micros = match percentile {
            _ if lateness.is_empty() => return None,
            0.0 => lateness.min(),
            100.0 => lateness.max(),
            other => lateness.value_at_percentile(other),
        };
        Some(micros as f64 / 1000.0)
    }
}

fn record(
    report: &mut Report,
    options: &ExpiryOptions,
    server: &Server,
    round: u32,
    run: &Run,
) -> Result<()> {
    let mut write = |metric: &str, unit: &str, value: f64| {
        report.record(Measurement {
            benchmark: "expiry",
            server: &server.product,
            case: match what(options) {
                "keys" => "spread",
                "timers" => "timers",
                _ => "fields",
            },
            round,
            metric,
            unit,
            value,
        })
    };
    for (name, percentile) in COLUMNS {
        if let Some(late) = run.lateness(percentile) {
            write(&format!("lateness_{name}"), "ms", late)?;
        }
    }
    write("received", "keys", run.received.keys as f64)?;
    write("missing", "keys", run.missing as f64)?;
    write("early", "keys", run.received.early as f64)?;
    if let Some(cpu) = run.cpu {
        write("server_cpu", "s", cpu.as_secs_f64())?;
    }
    for (name, bytes) in ["before", "loaded", "after"].into_iter().zip(run.resident) {
        if let Some(bytes) = bytes {
            write(&format!("resident_{name}"), "bytes", bytes as f64)?;
        }
    }
    Ok(())
}

fn print_table(
    report: &mut Report,
    options: &ExpiryOptions,
    servers: &[Server],
    runs: &[Vec<Run>],
) {
    let mut sheet = Sheet::new("lateness", servers);
    let of = |value: &dyn Fn(&Run) -> Option<f64>| spreads(runs, value);
    for (name, percentile) in COLUMNS {
        let late = of(&|run| run.lateness(percentile));
        let name_ms = format!("{name}, ms");
        match bars::LATENESS.iter().find(|(bar, _, _)| *bar == name) {
            None => sheet.shown(&name_ms, &late, millis),
            Some((_, _, bound)) => {
                let bound = bound.as_secs_f64() * 1e3;
                let judged = late.iter().zip(runs).map(|(late, runs)| {
                    // Percentiles are not valid if events are missing.
                    let all = runs.iter().all(|run| run.missing == 0);
                    let met = all && late.is_some_and(|late| late.median <= bound);
                    (spread::text_with(*late, millis), met)
                });
                sheet.judged(report, &name_ms, &format!("<= {bound}"), judged);
            }
        }
    }
    let counts: [(&str, Count); 3] = [
        ("events missing", |run| run.missing),
        ("events early", |run| run.received.early),
        ("events twice", |run| run.received.repeated),
    ];
    let received = of(&|run| Some(run.received.keys as f64));
    sheet.shown("events received", &received, thousands);
    for (name, count) in counts {
        sheet.none(report, name, &of(&|run| Some(count(run) as f64)));
    }
    let mebibytes = |bytes: Option<u64>| Some(bytes? as f64 / f64::from(1 << 20));
    let cpu = of(&|run| Some(run.cpu?.as_secs_f64()));
    if options.is_full() {
        let bound = bars::EXPIRY_CPU.as_secs_f64();
        let judged = cpu.iter().map(|cpu| {
            let met = cpu.is_some_and(|cpu| cpu.median <= bound);
            (spread::text_with(*cpu, hundredths), met)
        });
        sheet.judged(report, "server CPU, s", &format!("<= {bound}"), judged);
    } else {
        sheet.shown("server CPU, s", &cpu, hundredths);
    }
    let rest: [(&str, Vec<Option<Spread>>); 4] = [
        (
            "from first deadline to last event, s",
            of(&|run| Some(run.wall.as_secs_f64())),
        ),
        (
            "server RSS empty, MiB",
            of(&|run| mebibytes(run.resident[0])),
        ),
        (
            "server RSS loaded, MiB",
            of(&|run| mebibytes(run.resident[1])),
        ),
        (
            "server RSS after, MiB",
            of(&|run| mebibytes(run.resident[2])),
        ),
    ];
    for (name, figures) in rest {
        sheet.shown(name, &figures, hundredths);
    }
    say!("{sheet}");
}

/// Prints the load of the receiver and the latency of delivery alone.
fn print_sanity(server: &Server, run: &Run) {
    let received = &run.received;
    say!(
        "{}: the receiver used {:.2} s of CPU in {:.1} s; {} reads, {:.2} events each, at most {}; {} events of other keys",
        server.label,
        received.cpu.as_secs_f64(),
        run.wall.as_secs_f64(),
        thousands(received.reads as f64),
        received.keys as f64 / received.reads.max(1) as f64,
        thousands(received.most_in_one_read as f64),
        thousands(received.foreign as f64),
    );
    let floor = |percentile| millis(run.floor.value_at_percentile(percentile) as f64 / 1000.0);
    say!(
        "{}: a PUBLISH to an idle subscriber takes {} ms (p50), {} (p99), {} (max): delivery is part of the lateness",
        server.label,
        floor(50.0),
        floor(99.0),
        floor(100.0),
    );
}

/// Plots the cumulative distribution of each server's first round.
fn draw(
    report: &mut Report,
    servers: &[Server],
    runs: &[Vec<Run>],
    options: &ExpiryOptions,
) -> Result<()> {
    let expected = expected(options);
    let (keys, spread) = (expected.all(), options.spread());
    let Some(path) = report.plot_path(plot_name(options)) else {
        return Ok(());
    };
    let curves: Vec<Curve> = servers
        .iter()
        .zip(runs)
        .map(|(server, runs)| Curve {
            label: server.product.clone(),
            points: distribution(&runs[0].received.lateness, keys),
        })
        .collect();
    let title = format!(
        "How late {} events arrive: {} {}, deadlines over {} s",
        expected.event,
        thousands(keys as f64),
        what(options),
        spread.as_secs_f64()
    );
    plot::lateness(
        &path,
        &title,
        &report.provenance(),
        "events received by then, % of all keys",
        &curves,
    )
}

/// Returns points of lateness in ms and the percentage of `all` events up to it.
pub(crate) fn distribution(lateness: &Histogram<u64>, all: u64) -> Vec<plot::Point> {
    let mut come = 0;
    lateness
        .iter_recorded()
        .map(|step| {
            come += step.count_since_last_iteration();
            let late = step.value_iterated_to() as f64 / 1000.0;
            (late, 100.0 * come as f64 / all as f64)
        })
        .collect()
}
