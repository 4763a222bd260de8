//! A client that reads during a storm: one GET at a time, alternating between live keys and due keys.
//!
//! Every reply is timed and checked: a due key must exist before its deadline and must not be readable after it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use punctual_resp::{Value, encode_command};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::clock::unix_micros;
use crate::error::{Error, Result};
use crate::events::key_name;
use crate::launch::Server;
use crate::plot::Point;
use crate::workload::write_digits;

/// Number of live keys, which do not expire during the storm.
pub(crate) const LIVE_KEYS: u64 = 10_000;

/// Resolution of the plot, in ms.
pub(crate) const BUCKET_MS: f64 = 10.0;

/// A GET: the time of sending in µs from the deadline, and the latency in ns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) sent: i64,
    pub(crate) took: u64,
}

/// Results of one reader.
#[derive(Debug, Default)]
pub(crate) struct Readings {
    pub(crate) samples: Vec<Sample>,
    /// GETs sent after the deadline that found a due key.
    pub(crate) readable_late: u64,
    /// GETs completed before the deadline that did not find a due key.
    pub(crate) gone_early: u64,
    /// GETs that did not find a live key.
    pub(crate) lost: u64,
}

impl Readings {
    pub(crate) fn add(&mut self, other: Self) {
        self.samples.extend(other.samples);
        self.readable_late += other.readable_late;
        self.gone_early += other.gone_early;
        self.lost += other.lost;
    }
}

/// Returns the name of a live key.
pub(crate) fn live_name(index: u64) -> [u8; 16] {
    let mut name = *b"pb:live:00000000";
    write_digits(&mut name[8..], index);
    name
}

/// Sends GETs until it is stopped, every other one of a due key unless `keys` is 0.
pub(crate) fn read(
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
pub(crate) fn over_time(samples: &[Sample]) -> (Vec<Point>, Vec<Point>) {
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
