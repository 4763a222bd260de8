//! `bench expiry --storm`: all keys fall due in one millisecond, while a client reads.
//!
//! Readers send one GET at a time, in turn for a key that lives on and for one that is due. Every
//! answer is timed, and checked: a due key must not be readable after its deadline, nor be gone
//! before it. DBSIZE, polled from a connection of its own, says when the last key is gone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use punctual_resp::{Value, encode_command};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::clock::{sleep_until, unix_micros};
use crate::csv::Measurement;
use crate::error::{Error, Result};
use crate::events::{Receiver, key_name};
use crate::lateness::check_lead;
use crate::launch::{self, Server};
use crate::load::latency_histogram;
use crate::options::ExpiryOptions;
use crate::plot::{self, Curve};
use crate::process::CpuTime;
use crate::report::{self, Report, describe};
use crate::spread::{self, Spread};
use crate::table::{Table, millis, thousands};
use crate::workload::write_digits;
use crate::{bars, keyload};

/// Keys that live on and are read meanwhile.
const LIVE_KEYS: u64 = 10_000;

/// Readers begin so long before the deadline: what a GET takes on a quiet server.
const CALM: Duration = Duration::from_secs(1);

/// And go on so long after the last key is gone.
const AFTERMATH: Duration = Duration::from_millis(300);

/// How often DBSIZE is asked for.
const POLL: Duration = Duration::from_millis(5);

/// The plot's resolution.
const BUCKET_MS: f64 = 10.0;

/// One GET: when it was sent, in microseconds from the deadline, and how long it took in
/// nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Sample {
    sent: i64,
    took: u64,
}

/// What one reader saw.
#[derive(Debug, Default)]
struct Readings {
    samples: Vec<Sample>,
    /// Due keys that a GET sent after their deadline still found.
    readable_late: u64,
    /// Due keys that a GET answered before their deadline did not find.
    gone_early: u64,
    /// Live keys that were not found.
    lost: u64,
}

/// One server, one round.
#[derive(Debug)]
struct Run {
    readings: Readings,
    /// From the deadline until no due key was left; `None`: some stayed.
    gone: Option<Duration>,
    left: i64,
    calm: Histogram<u64>,
    storm: Histogram<u64>,
    cpu: Option<Duration>,
    /// Events received, where they were asked for, and when the last came after the deadline.
    events: Option<(u64, Duration)>,
}

/// Runs it on every server and reports.
pub(crate) fn run(options: &ExpiryOptions, report: &mut Report) -> Result<()> {
    let (candidates, mut notes) = launch::candidates(&options.target)?;
    let servers = launch::open_all(&candidates, &[])?;
    let (keys, rounds) = (options.keys(), options.rounds());
    notes.push("one server after the other, never at once".into());
    notes.push(format!(
        "GETs of {LIVE_KEYS} living keys and of the due keys in turn, no pipelining; counted from the deadline until the last key is gone"
    ));
    report.header(
        &format!(
            "Storm: {} keys due in the same millisecond, {} reading connection(s); {rounds} round(s)",
            thousands(keys as f64),
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
    print_tables(report, &servers, &runs);
    draw(report, &servers, &runs, keys)
}

fn live_name(index: u64) -> [u8; 16] {
    let mut name = *b"pb:live:00000000";
    write_digits(&mut name[8..], index);
    name
}

fn once(options: &ExpiryOptions, server: &Server, seed: u64) -> Result<Run> {
    let keys = options.keys();
    let mut client = server.client()?;
    let hidden = indicatif::ProgressBar::hidden();
    let receiver = match options.events {
        true => Some((
            server.set_for_now("notify-keyspace-events", "Ex")?,
            Receiver::subscribe(server, keys)?,
        )),
        false => None,
    };
    keyload::load(&mut client, LIVE_KEYS, "SET", &hidden, |index, out| {
        encode_command(out, &[b"SET", &live_name(index)[..], keyload::VALUE]);
    })?;
    let lead = match options.lead {
        Some(lead) => lead,
        None => keyload::lead(&mut client, keys)?,
    } + CALM;
    let size_before = client.integer(&["DBSIZE"])?;
    let begun = Instant::now();
    let deadline_ms = unix_micros() / 1000 + lead.as_millis() as u64;
    let deadline_text = deadline_ms.to_string();
    let bar = report::progress(keys, &format!("{}: loading", server.label));
    keyload::load(&mut client, keys, "SET", &bar, |index, out| {
        let name = key_name(deadline_ms, index);
        encode_command(
            out,
            &[
                b"SET",
                &name[..],
                keyload::VALUE,
                b"PXAT",
                deadline_text.as_bytes(),
            ],
        );
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
                scope.spawn(move || read(server, deadline_ms, keys, seed, stop))
            })
            .collect();
        let watched = watch(options, server, &mut client, deadline_ms, size_before);
        if watched.is_ok() {
            std::thread::sleep(AFTERMATH);
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
    let mut all = Readings::default();
    for readings in readings {
        all.add(readings?);
    }
    keyload::load(&mut client, LIVE_KEYS, "UNLINK", &hidden, |index, out| {
        encode_command(out, &[b"UNLINK", &live_name(index)[..]]);
    })?;
    let events = match receiver {
        Some((_guard, receiver)) => {
            let received = receiver.finish()?;
            let last = received.last_at.saturating_sub(deadline_ms * 1000);
            Some((received.keys, Duration::from_micros(last)))
        }
        None => None,
    };
    let end = gone.map_or(i64::MAX, |gone| gone.as_micros() as i64);
    let (mut calm, mut storm) = (latency_histogram(), latency_histogram());
    for sample in &all.samples {
        match sample.sent {
            sent if sent < 0 => calm.saturating_record(sample.took),
            sent if sent <= end => storm.saturating_record(sample.took),
            _ => {}
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
    })
}

/// Polls DBSIZE until it is what it was before loading: when that was after the deadline, how many
/// keys were left in the end, and the server's CPU time from the deadline on.
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

/// One reader: GETs until told to stop.
fn read(
    server: &Server,
    deadline_ms: u64,
    keys: u64,
    seed: u64,
    stop: &AtomicBool,
) -> Result<Readings> {
    let mut client = server.client()?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut readings = Readings::default();
    let mut bytes = Vec::new();
    let mut due = false;
    while !stop.load(Ordering::Relaxed) {
        due = !due;
        bytes.clear();
        if due {
            let name = key_name(deadline_ms, rng.random_range(0..keys));
            encode_command(&mut bytes, &[b"GET", &name[..]]);
        } else {
            let name = live_name(rng.random_range(0..LIVE_KEYS));
            encode_command(&mut bytes, &[b"GET", &name[..]]);
        }
        let sent = unix_micros();
        let begun = Instant::now();
        client.send(&bytes)?;
        let answer = client.reply()?;
        let took = begun.elapsed();
        let answered = unix_micros();
        let found = match answer {
            Value::NullBulk | Value::Null => false,
            Value::Bulk(_) => true,
            other => {
                return Err(Error::Refused {
                    addr: server.addr,
                    command: "GET".into(),
                    answer: format!("{other:?}"),
                });
            }
        };
        // Redis's rule: in the deadline's own millisecond a key may still be read, after it never.
        readings.readable_late += u64::from(due && found && sent / 1000 > deadline_ms);
        readings.gone_early += u64::from(due && !found && answered / 1000 < deadline_ms);
        readings.lost += u64::from(!due && !found);
        readings.samples.push(Sample {
            sent: sent as i64 - (deadline_ms * 1000) as i64,
            took: took.as_nanos() as u64,
        });
    }
    Ok(readings)
}

impl Readings {
    fn add(&mut self, other: Self) {
        self.samples.extend(other.samples);
        self.readable_late += other.readable_late;
        self.gone_early += other.gone_early;
        self.lost += other.lost;
    }

    fn sound(&self) -> bool {
        self.readable_late == 0 && self.gone_early == 0 && self.lost == 0
    }
}

/// Milliseconds at a percentile; `None` of nothing.
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
    for (metric, unit, value) in figures {
        let Some(value) = value else { continue };
        report.record(Measurement {
            benchmark: "expiry",
            server: &server.product,
            case: "storm",
            round,
            metric,
            unit,
            value,
        })?;
    }
    Ok(())
}

fn print_tables(report: &mut Report, servers: &[Server], runs: &[Vec<Run>]) {
    let mut table = Table::new(
        1,
        [
            "storm",
            "all gone, ms",
            "GETs",
            "p50, ms",
            "p99",
            "p99.9",
            "max",
            "calm p50",
            "calm p99",
            "readable late",
            "gone early",
            "lost",
            "server CPU, s",
            "events",
        ],
    );
    let mut verdicts = Table::new(2, ["server", "bar", "bound, ms", "median, ms", ""]);
    for (server, runs) in servers.iter().zip(runs) {
        let of = |value: &dyn Fn(&Run) -> Option<f64>| Spread::of(runs.iter().filter_map(value));
        let sum =
            |value: &dyn Fn(&Run) -> u64| thousands(runs.iter().map(value).sum::<u64>() as f64);
        let gone = of(&|run| run.gone.map(|gone| gone.as_secs_f64() * 1e3));
        let stayed = runs.iter().map(|run| run.left).max().unwrap_or(0);
        let p99 = of(&|run| at(&run.storm, 99.0));
        let max = of(&|run| at(&run.storm, 100.0));
        table.row([
            server.label.clone(),
            match stayed {
                0 => spread::text(gone, 0),
                left => format!("never ({} left)", thousands(left as f64)),
            },
            sum(&|run| run.storm.len()),
            spread::text(of(&|run| at(&run.storm, 50.0)), 3),
            spread::text(p99, 3),
            spread::text(of(&|run| at(&run.storm, 99.9)), 3),
            spread::text(max, 2),
            spread::text(of(&|run| at(&run.calm, 50.0)), 3),
            spread::text(of(&|run| at(&run.calm, 99.0)), 3),
            sum(&|run| run.readings.readable_late),
            sum(&|run| run.readings.gone_early),
            sum(&|run| run.readings.lost),
            spread::text(of(&|run| run.cpu.map(|cpu| cpu.as_secs_f64())), 2),
            spread::text(of(&|run| run.events.map(|(count, _)| count as f64)), 0),
        ]);
        let gone = gone.filter(|_| stayed == 0);
        let judged = [
            ("all gone", bars::STORM_GONE, gone),
            ("GET p99", bars::STORM_GET_P99, p99),
            ("GET max", bars::STORM_GET_MAX, max),
        ];
        for (name, bound, figure) in judged {
            let bound = bound.as_secs_f64() * 1e3;
            let met = figure.is_some_and(|figure| figure.median <= bound);
            let verdict = report.verdict(server.ours, met);
            let figure = figure.map_or("-".into(), |figure| millis(figure.median));
            verdicts.row([
                server.label.clone(),
                name.into(),
                millis(bound),
                figure,
                verdict.into(),
            ]);
        }
        let sound = runs.iter().all(|run| run.readings.sound());
        let verdict = report.verdict(server.ours, sound);
        verdicts.row([
            server.label.as_str(),
            "no due key readable, no other lost",
            "",
            "",
            verdict,
        ]);
    }
    println!("{table}\n{verdicts}");
}

/// Latency over time of each server's first round: the slowest and the median GET of each bucket.
fn draw(report: &mut Report, servers: &[Server], runs: &[Vec<Run>], keys: u64) -> Result<()> {
    let Some(path) = report.plot_path("expiry-storm.svg") else {
        return Ok(());
    };
    let mut curves = Vec::new();
    for (server, runs) in servers.iter().zip(runs) {
        let run = &runs[0];
        let (worst, median) = over_time(&run.readings.samples);
        let gone = match run.gone {
            Some(gone) => format!("all gone after {} ms", millis(gone.as_secs_f64() * 1e3)),
            None => format!("{} never gone", thousands(run.left as f64)),
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

/// `(ms after the deadline, ms of latency)`: the maximum and the median of each bucket.
#[allow(clippy::type_complexity)]
fn over_time(samples: &[Sample]) -> (Vec<(f64, f64)>, Vec<(f64, f64)>) {
    let mut buckets: std::collections::BTreeMap<i64, Vec<u64>> = Default::default();
    for sample in samples {
        let bucket = (sample.sent as f64 / 1e3 / BUCKET_MS).floor() as i64;
        buckets.entry(bucket).or_default().push(sample.took);
    }
    let point = |bucket: i64, nanos: u64| ((bucket as f64 + 0.5) * BUCKET_MS, nanos as f64 / 1e6);
    buckets
        .into_iter()
        .map(|(bucket, mut took)| {
            took.sort_unstable();
            (
                point(bucket, took[took.len() - 1]),
                point(bucket, took[took.len() / 2]),
            )
        })
        .unzip()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_before_and_after_the_deadline() {
        let sample = |sent, took| Sample { sent, took };
        let (worst, median) = over_time(&[
            sample(-1, 1_000_000),
            sample(0, 2_000_000),
            sample(9_999, 4_000_000),
            sample(5_000, 3_000_000),
        ]);
        assert_eq!(worst, [(-5.0, 1.0), (5.0, 4.0)]);
        assert_eq!(median, [(-5.0, 1.0), (5.0, 3.0)]);
    }
}
