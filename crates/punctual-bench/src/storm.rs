//! `bench expiry --storm`: all keys expire in one millisecond, while a client reads.
//!
//! A separate connection polls DBSIZE to find the time when the last key is expired.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use punctual_resp::encode_command;

use crate::clock::{sleep_until, unix_micros};
use crate::error::Result;
use crate::events::{Receiver, key_name};
use crate::expiring::{COUNTER, command, expected, remove_unsupported, setting, what, write_key};
use crate::lateness::check_lead;
use crate::launch::{self, Server};
use crate::load::latency_histogram;
use crate::options::ExpiryOptions;
use crate::plot::{self, Curve};
use crate::process::CpuTime;
use crate::reader::{BUCKET_MS, LIVE_KEYS, Readings, live_name, over_time, read};
use crate::report::{self, Report, describe};
use crate::sheet::{Sheet, hundredths, spreads};
use crate::table::{millis, thousands};
use crate::{bars, keyload};

/// Time for which the readers run before the deadline, to measure GETs on a quiet server.
const CALM: Duration = Duration::from_secs(1);

/// Time for which the readers run after the last key is expired.
const AFTER_LAST: Duration = Duration::from_millis(300);

/// Interval of the polls of DBSIZE.
const POLL: Duration = Duration::from_millis(5);

/// Time limit for the events of all keys.
const EVENTS_TIME_LIMIT: Duration = Duration::from_secs(10);

/// Results of one server in one round.
#[derive(Debug)]
struct Run {
    readings: Readings,
    /// Time from the deadline until no due key was left; `None` if keys remained.
    gone: Option<Duration>,
    left: i64,
    calm: Histogram<u64>,
    storm: Histogram<u64>,
    cpu: Option<Duration>,
    /// Number of received events, and the time of the last one after the deadline; `None` without `--events`.
    events: Option<(u64, Duration)>,
    /// Commands of timers that have run, less the number of timers.
    wrong_runs: i64,
}

/// Getter of a count of one run.
type Count = fn(&Run) -> u64;

/// Runs the benchmark on every server and prints the report.
pub(crate) fn run(options: &ExpiryOptions, report: &mut Report) -> Result<()> {
    let (candidates, mut notes) = launch::candidates(&options.target)?;
    let events = [setting(options)];
    let settings = if options.events { &events[..] } else { &[] };
    let mut servers = launch::open_all(&candidates, settings)?;
    remove_unsupported(options, &mut servers, &mut notes)?;
    let (keys, rounds) = (options.keys(), options.rounds());
    notes.push("one server after the other, never at the same time".into());
    notes.push(format!(
        "GETs of {LIVE_KEYS} live keys and of the due keys in turn, no pipelining; counted from the deadline until the last key is expired"
    ));
    report.header(
        &format!(
            "Storm: {} {} due in the same millisecond, {} reading connection(s); {rounds} round(s)",
            thousands(keys as f64),
            what(options),
            options.readers
        ),
        &servers.iter().map(describe).collect::<Vec<_>>(),
        &notes,
    );
    let mut runs: Vec<Vec<Run>> = servers.iter().map(|_| Vec::new()).collect();
    for round in 1..=rounds {
        for (server, runs) in servers.iter().zip(&mut runs) {
            let run = once(options, server, u64::from(round))?;
            record(report, server, round, &run)?;
            runs.push(run);
        }
    }
    print_sheet(report, options, &servers, &runs);
    draw(report, &servers, &runs, keys)
}

fn once(options: &ExpiryOptions, server: &Server, seed: u64) -> Result<Run> {
    let keys = options.keys();
    let mut client = server.client()?;
    let hidden = indicatif::ProgressBar::hidden();
    let receiver = match options.events {
        true => Some((
            server.publish_events(setting(options))?,
            Receiver::subscribe(server, expected(options))?,
        )),
        false => None,
    };
    keyload::load(&mut client, LIVE_KEYS, "SET", &hidden, |index, out| {
        encode_command(out, &[b"SET", &live_name(index)[..], keyload::VALUE]);
    })?;
    let lead = match options.lead {
        Some(lead) => lead,
        None => keyload::lead(&mut client, keys * if options.timers { 2 } else { 1 })?,
    } + CALM;
    client.expect(&["SET", COUNTER, "0"])?;
    let size_before = client.integer(&["DBSIZE"])?;
    let begun = Instant::now();
    let deadline_ms = unix_micros() / 1000 + lead.as_millis() as u64;
    let bar = report::progress(keys, &format!("{}: loading", server.label));
    keyload::load(&mut client, keys, command(options), &bar, |index, out| {
        write_key(options, &key_name(deadline_ms, index), deadline_ms, out);
    })?;
    bar.finish_and_clear();
    check_lead(begun.elapsed(), lead.saturating_sub(CALM))?;
    sleep_until(deadline_ms * 1000 - CALM.as_micros() as u64);

    let stop = AtomicBool::new(false);
    let (watched, readings) = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..options.readers)
            .map(|reader| {
                let stop = &stop;
                let seed = seed << 32 | u64::from(reader);
                // A GET of a timer is an error.
                let due = if options.timers { 0 } else { keys };
                scope.spawn(move || read(server, deadline_ms, due, seed, stop))
            })
            .collect();
        let watched = watch(options, server, &mut client, deadline_ms, size_before);
        if watched.is_ok() {
            std::thread::sleep(AFTER_LAST);
        }
        stop.store(true, Ordering::Relaxed);
        let join = |reader: std::thread::ScopedJoinHandle<'_, _>| match reader.join() {
            Ok(readings) => readings,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let readings: Vec<Result<Readings>> = readers.into_iter().map(join).collect();
        (watched, readings)
    });
    let (gone, left, cpu) = watched?;
    let runs = match options.timers {
        true => client.integer(&["INCRBY", COUNTER, "0"])? - keys as i64,
        false => 0,
    };
    client.expect(&["UNLINK", COUNTER])?;
    let mut all = Readings::default();
    for readings in readings {
        all.add(readings?);
    }
    keyload::load(&mut client, LIVE_KEYS, "UNLINK", &hidden, |index, out| {
        encode_command(out, &[b"UNLINK", &live_name(index)[..]]);
    })?;
    let events = match receiver {
        Some((_guard, receiver)) => {
            // The last events may still be on their way.
            let end = Instant::now() + EVENTS_TIME_LIMIT;
            while receiver.count() < keys && Instant::now() < end {
                std::thread::sleep(POLL);
            }
            let received = receiver.finish()?;
            let last = received.last_at.saturating_sub(deadline_ms * 1000);
            Some((received.keys, Duration::from_micros(last)))
        }
        None => None,
    };
    let end = gone.map_or(i64::MAX, |gone| gone.as_micros() as i64);
    let (mut calm, mut storm) = (latency_histogram(), latency_histogram());
    for sample in &all.samples {
        let answered = sample.sent + (sample.took / 1000) as i64;
        // A GET in flight at the deadline belongs to the storm.
        if answered < 0 {
            calm.saturating_record(sample.took);
        } else if sample.sent <= end {
            storm.saturating_record(sample.took);
        }
    }
    Ok(Run {
        readings: all,
        gone,
        left,
        calm,
        storm,
        cpu,
        events,
        wrong_runs: runs,
    })
}

/// Polls DBSIZE until it has the value from before loading. Returns the time of that after the deadline, the number of
/// remaining keys, and the server's CPU time since the deadline.
fn watch(
    options: &ExpiryOptions,
    server: &Server,
    client: &mut crate::client::Client,
    deadline_ms: u64,
    size_before: i64,
) -> Result<(Option<Duration>, i64, Option<Duration>)> {
    let deadline = deadline_ms * 1000;
    let cpu_now = || server.pid.and_then(CpuTime::of);
    let bar = report::progress(options.keys(), &format!("{}: storm", server.label));
    sleep_until(deadline);
    let cpu_before = cpu_now();
    loop {
        let left = client.integer(&["DBSIZE"])? - size_before;
        let after = Duration::from_micros(unix_micros().saturating_sub(deadline));
        if left <= 0 || after > options.wait() {
            bar.finish_and_clear();
            let cpu = cpu_now()
                .zip(cpu_before)
                .map(|(now, then)| now.since(&then));
            return Ok(((left <= 0).then_some(after), left.max(0), cpu));
        }
        bar.set_position(options.keys().saturating_sub(left as u64));
        std::thread::sleep(POLL);
    }
}

/// Returns milliseconds at a percentile; `None` for an empty histogram.
fn at(histogram: &Histogram<u64>, percentile: f64) -> Option<f64> {
    (!histogram.is_empty()).then(|| histogram.value_at_percentile(percentile) as f64 / 1e6)
}

fn record(report: &mut Report, server: &Server, round: u32, run: &Run) -> Result<()> {
    let figures = [
        (
            "gone_after",
            "ms",
            run.gone.map(|gone| gone.as_secs_f64() * 1e3),
        ),
        ("left", "keys", Some(run.left as f64)),
        ("calm_get_p50", "ms", at(&run.calm, 50.0)),
        ("calm_get_p99", "ms", at(&run.calm, 99.0)),
        ("storm_gets", "commands", Some(run.storm.len() as f64)),
        ("storm_get_p50", "ms", at(&run.storm, 50.0)),
        ("storm_get_p99", "ms", at(&run.storm, 99.0)),
        ("storm_get_p99.9", "ms", at(&run.storm, 99.9)),
        ("storm_get_max", "ms", at(&run.storm, 100.0)),
        (
            "readable_late",
            "keys",
            Some(run.readings.readable_late as f64),
        ),
        ("gone_early", "keys", Some(run.readings.gone_early as f64)),
        ("lost", "keys", Some(run.readings.lost as f64)),
        ("server_cpu", "s", run.cpu.map(|cpu| cpu.as_secs_f64())),
        (
            "events",
            "events",
            run.events.map(|(count, _)| count as f64),
        ),
        (
            "last_event",
            "ms",
            run.events.map(|(_, last)| last.as_secs_f64() * 1e3),
        ),
    ];
    report.record_all("expiry", &server.product, "storm", round, figures)?;
    Ok(())
}

fn print_sheet(
    report: &mut Report,
    options: &ExpiryOptions,
    servers: &[Server],
    runs: &[Vec<Run>],
) {
    let mut sheet = Sheet::new("storm", servers);
    let of = |value: &dyn Fn(&Run) -> Option<f64>| spreads(runs, value);
    // A round with remaining keys counts as infinitely long.
    let gone = of(&|run| {
        Some(
            run.gone
                .map_or(f64::INFINITY, |gone| gone.as_secs_f64() * 1e3),
        )
    });
    if options.timers {
        sheet.within(report, "all run after, ms", &gone, bars::TIMER_STORM_DONE);
        let wrong = of(&|run| Some(run.wrong_runs.unsigned_abs() as f64));
        sheet.none(report, "commands missing or twice", &wrong);
    } else {
        sheet.within(report, "all expired after, ms", &gone, bars::STORM_GONE);
    }
    let gets = of(&|run| Some(run.storm.len() as f64));
    sheet.shown("GETs during the storm", &gets, thousands);
    for (name, percentile, bound) in [
        ("GET p50, ms", 50.0, None),
        ("GET p99, ms", 99.0, Some(bars::STORM_GET_P99)),
        ("GET p99.9, ms", 99.9, None),
        ("GET max, ms", 100.0, Some(bars::STORM_GET_MAX)),
    ] {
        let figures = of(&|run| at(&run.storm, percentile));
        match bound {
            Some(bound) => sheet.within(report, name, &figures, bound),
            None => sheet.shown(name, &figures, millis),
        }
    }
    for (name, percentile) in [
        ("GET p50 before the deadline, ms", 50.0),
        ("GET p99 before the deadline, ms", 99.0),
    ] {
        sheet.shown(name, &of(&|run| at(&run.calm, percentile)), millis);
    }
    let counts: [(&str, Count); 3] = [
        ("due keys readable after the deadline", |run| {
            run.readings.readable_late
        }),
        ("due keys missing before the deadline", |run| {
            run.readings.gone_early
        }),
        ("live keys lost", |run| run.readings.lost),
    ];
    for (name, count) in counts {
        sheet.none(report, name, &of(&|run| Some(count(run) as f64)));
    }
    let cpu = of(&|run| Some(run.cpu?.as_secs_f64()));
    sheet.shown("server CPU, s", &cpu, hundredths);
    if runs.iter().flatten().any(|run| run.events.is_some()) {
        let count = of(&|run| Some(run.events?.0 as f64));
        sheet.shown("events received", &count, thousands);
        let last = of(&|run| Some(run.events?.1.as_secs_f64() * 1e3));
        sheet.shown("last event after, ms", &last, millis);
    }
    say!("{sheet}");
    for (server, runs) in servers.iter().zip(runs) {
        if let Some(left) = runs
            .iter()
            .map(|run| run.left)
            .max()
            .filter(|left| *left > 0)
        {
            say!(
                "{}: up to {} keys were never removed",
                server.label,
                thousands(left as f64)
            );
        }
    }
}

/// Plots latency over time of each server's first round: the slowest and the median GET of each bucket.
fn draw(report: &mut Report, servers: &[Server], runs: &[Vec<Run>], keys: u64) -> Result<()> {
    let Some(path) = report.plot_path("expiry-storm.svg") else {
        return Ok(());
    };
    let mut curves = Vec::new();
    for (server, runs) in servers.iter().zip(runs) {
        let run = &runs[0];
        let (worst, median) = over_time(&run.readings.samples);
        let gone = match run.gone {
            Some(gone) => format!("all expired after {} ms", millis(gone.as_secs_f64() * 1e3)),
            None => format!("{} never expired", thousands(run.left as f64)),
        };
        curves.push((
            Curve {
                label: format!("{}: slowest of {BUCKET_MS} ms ({gone})", server.product),
                points: worst,
            },
            Curve {
                label: format!("{}: median", server.product),
                points: median,
            },
        ));
    }
    let title = format!(
        "GET latency while {} keys expire in one millisecond (at 0)",
        thousands(keys as f64)
    );
    plot::storm(&path, &title, &report.provenance(), &curves)
}
