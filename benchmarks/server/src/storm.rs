//! `bench expiry --storm`: all keys expire in one millisecond, while a client reads.
//!
//! A separate connection polls DBSIZE to find the time at which the last key has expired. The
//! client sends one GET at a time, of live keys (which do not expire) and of due keys in turn. It
//! records the latency of each reply and checks it: a due key must exist before its deadline and
//! must not be readable after it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use punctual_resp::{Value, encode_command};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::client::Client;
use crate::clock::{sleep_until, unix_micros};
use crate::error::{Error, Result};
use crate::expiry::{COUNTER, Entries, patience_ms};
use crate::keyload::{self, due_name, set_keys};
use crate::late::histogram;
use crate::launch::{self, Program, Server};
use crate::options::ExpiryOptions;
use crate::plot::{self, Curve, Point};
use crate::report::Report;
use crate::sheet::{self, Bar, Figures, Sheet};
use crate::table::{millis, thousands};
use crate::workload::key_name;

/// Number of live keys, which do not expire.
const LIVE_KEYS: u64 = 10_000;
/// Time for which the reader runs before the deadline, to measure GETs on a quiet server.
const CALM_MS: u64 = 1_000;
/// Time for which the reader runs after the last key has expired.
const AFTER_LAST: Duration = Duration::from_millis(300);
/// Interval of the polls of DBSIZE.
const POLL: Duration = Duration::from_millis(5);
/// Resolution of the plot, in ms.
const BUCKET_MS: f64 = 10.0;
/// Delay until an idle server sleeps, so that the kernel has updated its CPU time.
const SETTLE: Duration = Duration::from_millis(5);

/// A GET: the time of sending in µs after the deadline (negative before it), and the latency in ns.
#[derive(Debug, Clone, Copy)]
struct Sample {
    sent: i64,
    took: u64,
}

/// Results of the reader.
#[derive(Debug, Default)]
struct Readings {
    samples: Vec<Sample>,
    /// GETs sent after the deadline that found a due key.
    readable_late: u64,
    /// GETs completed before the deadline that did not find a due key.
    gone_early: u64,
    /// GETs that did not find a live key.
    lost: u64,
}

/// Runs the benchmark and prints the report.
pub(crate) fn run(
    options: &ExpiryOptions,
    programs: &[Program],
    report: &mut Report,
) -> Result<()> {
    let (entries, common) = (Entries::of(options), &options.common);
    let keys = common.keys(200_000, 1_000_000);
    let title = format!(
        "Storm: {} {} due in the same millisecond",
        thousands(keys as f64),
        entries.names().0
    );
    report.header(
        &title,
        programs,
        &["GETs of 10,000 live keys and of the due keys in turn, no pipelining; counted from the deadline until the last key is expired"],
    );
    let servers = launch::start_all(programs, &[])?;
    let done = if entries == Entries::Timers {
        5_000.0
    } else {
        1_500.0
    };
    let bars = [
        ("the last is gone after, ms", Bar::AtMost(done)),
        ("commands missing or twice", Bar::Never(0.0)),
        ("GET p99, ms", Bar::AtMost(2.0)),
        ("GET max, ms", Bar::AtMost(20.0)),
        ("due keys readable after the deadline", Bar::Never(0.0)),
        ("due keys missing before the deadline", Bar::Never(0.0)),
        ("live keys lost", Bar::Never(0.0)),
    ];
    let mut curves: Vec<Option<(Curve, Curve)>> = programs.iter().map(|_| None).collect();
    let mut sheet = Sheet::new("expiry", sheet::columns(programs));
    sheet.measure(report, "storm", &bars, common.rounds(1, 3), |at, round| {
        let (readings, figures) = once(
            &servers[at],
            entries,
            keys,
            round.into(),
            patience_ms(common),
        )?;
        curves[at].get_or_insert_with(|| {
            let (worst, median) = over_time(&readings.samples);
            let gone = millis(
                figures
                    .get("the last is gone after, ms")
                    .unwrap_or(f64::NAN),
            );
            let product = &programs[at].product;
            let label =
                format!("{product}: slowest of {BUCKET_MS} ms (all expired after {gone} ms)");
            let median_label = format!("{product}: median");
            (
                Curve {
                    label,
                    points: worst,
                },
                Curve {
                    label: median_label,
                    points: median,
                },
            )
        });
        Ok(figures)
    })?;
    sheet.show(report)?;
    let curves: Vec<_> = curves.into_iter().flatten().collect();
    let title = format!(
        "GET latency while {} keys expire in one millisecond (at 0)",
        thousands(keys as f64)
    );
    report.plot("expiry-storm.svg", |path, foot| {
        plot::storm(path, &title, foot, &curves)
    })
}

fn once(
    server: &Server,
    entries: Entries,
    keys: u64,
    seed: u64,
    patience_ms: u64,
) -> Result<(Readings, Figures)> {
    let mut client = server.client()?;
    set_keys(&mut client, LIVE_KEYS)?;
    client.expect(&["SET", COUNTER, "0"])?;
    let size_before = client.integer(&["DBSIZE"])?;
    let deadline = |first_ms: u64| first_ms + CALM_MS;
    let first_ms = keyload::load_due(
        &mut client,
        keys,
        entries.weight(),
        "SET",
        |first_ms, index, out| {
            entries.write(deadline(first_ms), index, out);
        },
    )?;
    let deadline_ms = deadline(first_ms);
    sleep_until(first_ms * 1000);
    // Timers are not keys, so only live keys are read.
    let due = if entries == Entries::Timers { 0 } else { keys };
    let stop = AtomicBool::new(false);
    let (watched, readings) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(server, deadline_ms, due, seed, &stop));
        sleep_until(deadline_ms * 1000 - 2 * SETTLE.as_micros() as u64);
        let watched = server.cpu_of(SETTLE, || {
            sleep_until(deadline_ms * 1000);
            watch(&mut client, deadline_ms, size_before, patience_ms)
        });
        std::thread::sleep(AFTER_LAST);
        stop.store(true, Ordering::Relaxed);
        let readings = reader
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (watched, readings)
    });
    let ((gone_ms, left), cpu) = watched?;
    let readings = readings?;
    let runs = match entries {
        Entries::Timers => client.integer(&["INCRBY", COUNTER, "0"])? - keys as i64,
        _ => 0,
    };
    let (mut calm, mut storm) = (histogram(), histogram());
    for sample in &readings.samples {
        // A GET in flight at the deadline belongs to the storm.
        if sample.sent + ((sample.took / 1000) as i64) < 0 {
            calm.saturating_record(sample.took);
        } else if sample.sent as f64 <= gone_ms * 1e3 {
            storm.saturating_record(sample.took);
        }
    }
    let mut figures = Figures::from([
        ("the last is gone after, ms", gone_ms),
        ("left", left as f64),
        ("commands missing or twice", runs.unsigned_abs() as f64),
        ("GETs during the storm", storm.len() as f64),
    ]);
    for (name, percentile) in [
        ("p50", 50.0),
        ("p99", 99.0),
        ("p99.9", 99.9),
        ("max", 100.0),
    ] {
        figures.put(
            format!("GET {name}, ms"),
            storm.value_at_percentile(percentile) as f64 / 1e6,
        );
    }
    for (name, percentile) in [("p50", 50.0), ("p99", 99.0)] {
        let value = calm.value_at_percentile(percentile) as f64 / 1e6;
        figures.put(format!("GET {name} before the deadline, ms"), value);
    }
    figures.put(
        "due keys readable after the deadline",
        readings.readable_late as f64,
    );
    figures.put(
        "due keys missing before the deadline",
        readings.gone_early as f64,
    );
    figures.put("live keys lost", readings.lost as f64);
    figures.put("server CPU, s", cpu);
    Ok((readings, figures))
}

/// Polls DBSIZE until it has the value from before loading. Returns the time after the deadline in
/// ms, which is infinite if keys remain, and the number of remaining keys.
fn watch(
    client: &mut Client,
    deadline_ms: u64,
    size_before: i64,
    patience_ms: u64,
) -> Result<(f64, i64)> {
    loop {
        let left = client.integer(&["DBSIZE"])? - size_before;
        let after_ms = unix_micros().saturating_sub(deadline_ms * 1000) as f64 / 1e3;
        if left <= 0 {
            return Ok((after_ms, 0));
        }
        if after_ms > patience_ms as f64 {
            return Ok((f64::INFINITY, left));
        }
        std::thread::sleep(POLL);
    }
}

/// Sends GETs until it is stopped. Every second GET is of a due key, unless `keys` is 0.
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
        due = !due && keys > 0;
        bytes.clear();
        if due {
            let name = due_name(deadline_ms, rng.random_range(0..keys));
            encode_command(&mut bytes, &[b"GET", &name[..]]);
        } else {
            let name = key_name(rng.random_range(0..LIVE_KEYS));
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
            other => return Err(Error::Invalid(format!("GET: {other:?}"))),
        };
        // As in Redis, a key may be read during the millisecond of its deadline, but not after it.
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

/// Returns the maximum and the median of each bucket as `(ms after the deadline, ms of latency)`.
fn over_time(samples: &[Sample]) -> (Vec<Point>, Vec<Point>) {
    let mut buckets: BTreeMap<i64, Vec<u64>> = BTreeMap::new();
    for sample in samples {
        let bucket = (sample.sent as f64 / 1e3 / BUCKET_MS).floor() as i64;
        buckets.entry(bucket).or_default().push(sample.took);
    }
    let point = |bucket: i64, nanos: u64| ((bucket as f64 + 0.5) * BUCKET_MS, nanos as f64 / 1e6);
    let both = |(bucket, mut took): (i64, Vec<u64>)| {
        took.sort_unstable();
        (
            point(bucket, took[took.len() - 1]),
            point(bucket, took[took.len() / 2]),
        )
    };
    buckets.into_iter().map(both).unzip()
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
