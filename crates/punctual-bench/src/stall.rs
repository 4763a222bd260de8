//! The longest stall of a client while a server does something large in the background: a snapshot, a rewrite of the
//! append-only file, a full sync.
//!
//! One connection sends one GET after the other, another one (optionally) SETs. The longest GET before and during the
//! operation is the stall that a client sees.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use punctual_resp::encode_command;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::launch::Server;
use crate::load::latency_histogram;
use crate::report::{self, Report};
use crate::sheet::Sheet;
use crate::table::{millis, thousands};
use crate::{keyload, process};

/// Duration of the measurement before the operation.
const CALM: Duration = Duration::from_secs(3);
/// Interval of the reads of memory and progress during the operation.
const POLL: Duration = Duration::from_millis(20);
/// Number of writes in flight.
pub(crate) const WRITES: usize = 16;

/// Results of one operation.
pub(crate) struct Stall {
    /// Nanoseconds of the GETs before and during the operation.
    pub(crate) calm: Histogram<u64>,
    pub(crate) during: Histogram<u64>,
    pub(crate) took: Duration,
    /// Resident bytes of the server's own process before the operation, and their maximum growth during it.
    pub(crate) resident: Option<(u64, u64)>,
    /// Bytes copied, as the server reports them (redis: by its child).
    pub(crate) copied: u64,
    /// Number of SETs in total.
    pub(crate) writes: u64,
}

pub(crate) fn key(index: u64) -> [u8; 16] {
    let mut name = *b"key:000000000000";
    let text = index.to_string();
    name[16 - text.len()..].copy_from_slice(text.as_bytes());
    name
}

/// Loads the keys that the connections use.
pub(crate) fn load(server: &Server, keys: u64) -> Result<()> {
    let bar = report::progress(keys, &format!("{}: loading", server.label));
    keyload::load(&mut server.client()?, keys, "SET", &bar, |index, out| {
        encode_command(out, &[b"SET", &key(index)[..], keyload::VALUE]);
    })?;
    bar.finish_and_clear();
    Ok(())
}

/// Measures an operation on a server with [loaded](load) keys.
///
/// `start` begins the operation. `ended` is polled, and returns the number of copied bytes when the operation has ended.
pub(crate) fn measure(
    server: &Server,
    keys: u64,
    writes: bool,
    start: impl FnOnce() -> Result<()>,
    ended: impl FnMut() -> Result<Option<u64>>,
) -> Result<Stall> {
    let stop = AtomicBool::new(false);
    let running = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = writes.then(|| scope.spawn(|| write(server, keys, &stop)));
        let probe = scope.spawn(|| probe(server, keys, &stop, &running));
        let watched = watch(server, &running, start, ended);
        stop.store(true, Ordering::Relaxed);
        let died = || Error::Options("a thread of the benchmark has panicked".into());
        let (calm, during) = probe.join().map_err(|_| died())??;
        let writes = match writer {
            Some(writer) => writer.join().map_err(|_| died())??,
            None => 0,
        };
        let (took, resident, copied) = watched?;
        Ok(Stall {
            calm,
            during,
            took,
            resident,
            copied,
            writes,
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

/// Sends GETs one by one until it is stopped. Returns their latencies before and during the operation.
fn probe(
    server: &Server,
    keys: u64,
    stop: &AtomicBool,
    running: &AtomicBool,
) -> Result<(Histogram<u64>, Histogram<u64>)> {
    let mut client = server.client()?;
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let (mut calm, mut during) = (latency_histogram(), latency_histogram());
    while !stop.load(Ordering::Relaxed) {
        let meanwhile = running.load(Ordering::Relaxed);
        let begun = Instant::now();
        client.expect(&[b"GET", &key(rng.random_range(0..keys))[..]])?;
        let into = if meanwhile { &mut during } else { &mut calm };
        into.saturating_record(begun.elapsed().as_nanos() as u64);
    }
    Ok((calm, during))
}

type Watched = (Duration, Option<(u64, u64)>, u64);

/// Starts the operation and blocks until its end.
fn watch(
    server: &Server,
    running: &AtomicBool,
    start: impl FnOnce() -> Result<()>,
    mut ended: impl FnMut() -> Result<Option<u64>>,
) -> Result<Watched> {
    let resident = || server.pid.and_then(process::resident_bytes);
    std::thread::sleep(CALM);
    let before = resident();
    let mut most = before;
    // A GET in flight at the start of the operation counts as during it.
    running.store(true, Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(1));
    let begun = Instant::now();
    start()?;
    loop {
        std::thread::sleep(POLL);
        most = most.max(resident());
        if let Some(copied) = ended()? {
            let took = begun.elapsed();
            running.store(false, Ordering::Relaxed);
            let resident = before.zip(most).map(|(b, m)| (b, m.saturating_sub(b)));
            return Ok((took, resident, copied));
        }
    }
}

/// A background operation of a server, as INFO shows it.
pub(crate) struct Background {
    /// The command that begins it.
    pub(crate) command: &'static str,
    /// Field of INFO persistence that is 1 while it runs.
    pub(crate) in_progress: &'static str,
    /// Field that is `ok` if the last one succeeded.
    pub(crate) status: &'static str,
    /// Field with the number of copied bytes.
    pub(crate) copied: &'static str,
}

impl Background {
    /// Measures the operation under writes.
    pub(crate) fn measure(&self, server: &Server, keys: u64) -> Result<Stall> {
        let (mut starter, mut watcher) = (server.client()?, server.client()?);
        let start = || starter.expect(&[self.command]).map(drop);
        measure(server, keys, true, start, || {
            self.ended(server, &mut watcher)
        })
    }

    fn ended(&self, server: &Server, client: &mut Client) -> Result<Option<u64>> {
        let info = info(client, "persistence")?;
        let number = |name| field(&info, name).and_then(|v| v.parse::<u64>().ok());
        if number(self.in_progress) != Some(0) {
            return Ok(None);
        }
        if field(&info, self.status) != Some("ok") {
            return Err(Error::Refused {
                addr: server.addr,
                command: self.command.into(),
                answer: format!("{} is not ok", self.status),
            });
        }
        Ok(Some(number(self.copied).unwrap_or(0)))
    }
}

/// Appends rows with the latency of GETs. `name` is the operation's.
pub(crate) fn print_latency(
    sheet: &mut Sheet,
    report: &mut Report,
    name: &str,
    stalls: &[&Stall],
    bound: Duration,
) {
    let longest = stalls.iter().map(|s| {
        let stall = Duration::from_nanos(s.during.max());
        (millis(ms(s.during.max())), stall <= bound)
    });
    let bar = format!("<= {}", bound.as_millis());
    sheet.judged(
        report,
        &format!("longest GET during {name}, ms"),
        &bar,
        longest,
    );
    let mut row = |title: &str, show: fn(&Stall) -> u64| {
        let values = stalls.iter().map(|s| millis(ms(show(s))));
        sheet.row(&format!("{title} {name}, ms"), values);
    };
    row("longest GET before", |s| s.calm.max());
    row("p99.9 during", |s| s.during.value_at_quantile(0.999));
    row("p99.9 before", |s| s.calm.value_at_quantile(0.999));
}

/// Appends rows with durations, counts and memory.
pub(crate) fn print_rest(sheet: &mut Sheet, name: &str, stalls: &[&Stall]) {
    let row = |show: fn(&Stall) -> String| stalls.iter().map(|s| show(s)).collect::<Vec<_>>();
    let duration = row(|s| format!("{:.2}", s.took.as_secs_f64()));
    sheet.row(&format!("duration of {name}, s"), duration);
    let gets = row(|s| thousands(s.during.len() as f64));
    sheet.row(&format!("GETs during {name}"), gets);
    sheet.row("SETs in total", row(|s| thousands(s.writes as f64)));
    let before = row(|s| s.resident.map_or("-".into(), |(b, _)| mib(b)));
    sheet.row("resident before, MiB", before);
    let growth = row(|s| s.resident.map_or("-".into(), |(_, m)| mib(m)));
    sheet.row("maximum growth, own process, MiB", growth);
    sheet.row("copied as reported, MiB", row(|s| mib(s.copied)));
}

/// Returns a section of INFO.
pub(crate) fn info(client: &mut Client, section: &str) -> Result<String> {
    let info = client.expect(&["INFO", section])?;
    Ok(String::from_utf8_lossy(info.as_bytes().unwrap_or_default()).into_owned())
}

/// Returns the value of a field of INFO.
pub(crate) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.strip_prefix(name)?.strip_prefix(':');
    info.lines().find_map(value).map(str::trim)
}

/// Returns milliseconds.
pub(crate) fn ms(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

/// Returns mebibytes with one decimal.
pub(crate) fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_info_have_whole_names() {
        let info = "# P\r\naof_rewrite_in_progress:0\r\naof_rewrite:7\r\n";
        assert_eq!(field(info, "aof_rewrite"), Some("7"));
        assert_eq!(field(info, "aof"), None);
    }
}
