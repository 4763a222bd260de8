//! SETs into a full store: CPU, memory, and the latency of GETs beside them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use punctual_resp::encode_command;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{begin, limit, used_memory};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::launch::{self, Server};
use crate::load::latency_histogram;
use crate::options::EvictionOptions;
use crate::process::CpuTime;
use crate::report::{self, Report};
use crate::sheet::{Bound, Sheet, hundredths, ratios, spreads};
use crate::stall::{WRITES, key, ms};
use crate::{bars, keyload};

const POLICIES: [&str; 7] = [
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
];
/// Delay until the server sleeps and the kernel has updated its CPU time.
const SETTLE: Duration = Duration::from_millis(20);
/// Interval of the looks at the memory.
const LOOK: Duration = Duration::from_millis(3);
/// Connections that send the SETs whose CPU is measured; with few, a server mostly pays for waking up.
pub(super) const WRITERS: usize = 50;
/// Duration of the GETs in each state of the store.
const PROBE: Duration = Duration::from_secs(2);

/// Results of one round.
#[derive(Debug, Clone, Copy)]
struct Round {
    /// µs of CPU per SET into the full store.
    cpu: Option<f64>,
    /// Greatest memory above the limit, in percent of it; negative if it stayed below.
    above: f64,
    /// p99 of GETs in ms, before the store was full and afterwards.
    calm: f64,
    full: f64,
}

/// Appends a SET of key `index`, with a deadline for policies that need one.
fn set(out: &mut Vec<u8>, index: u64, volatile: bool) {
    let name = key(index);
    let seconds = 10_000 + index * 7_919 % 100_003;
    if volatile {
        let seconds = seconds.to_string();
        encode_command(
            out,
            &[b"SET", &name[..], keyload::VALUE, b"EX", seconds.as_bytes()],
        );
    } else {
        encode_command(out, &[b"SET", &name[..], keyload::VALUE]);
    }
}

/// Measures, and prints a table per policy.
pub(super) fn run(
    options: &EvictionOptions,
    servers: &[Server],
    report: &mut Report,
) -> Result<()> {
    let policies = POLICIES.iter().filter(|policy| options.has_policy(policy));
    let bar = report::progress(
        (policies.clone().count() * servers.len()) as u64 * u64::from(options.rounds()),
        "full store",
    );
    let mut tables = Vec::new();
    for &policy in policies {
        let mut rounds: Vec<Vec<Round>> = servers.iter().map(|_| Vec::new()).collect();
        for round in 1..=options.rounds() {
            let mut order: Vec<usize> = (0..servers.len()).collect();
            if round.is_multiple_of(2) {
                order.reverse();
            }
            for at in order {
                bar.inc(1);
                let one = measure(options, &servers[at], policy)?;
                let figures = [
                    ("cpu_per_set", "us", one.cpu),
                    ("above_limit", "%", Some(one.above)),
                    ("get_p99_before", "ms", Some(one.calm)),
                    ("get_p99_full", "ms", Some(one.full)),
                ];
                report.record_all("eviction", &servers[at].product, policy, round, figures)?;
                rounds[at].push(one);
            }
        }
        tables.push((policy, rounds));
    }
    bar.finish_and_clear();
    let of = launch::reference(servers);
    for (policy, rounds) in tables {
        let mut sheet = Sheet::new(&format!("full store, {policy}"), servers);
        sheet.shown("µs CPU per SET", &spreads(&rounds, |r| r.cpu), |v| {
            format!("{v:.3}")
        });
        if let Some(of) = of {
            let base = |at| (at != of).then_some(of);
            let found = ratios(&rounds, base, |one, base| Some(one.cpu? / base.cpu?));
            let bound = Bound::AtMost(bars::EVICTION_CPU_RATIO);
            sheet.ratio(
                report,
                &format!("ratio to {}", servers[of].label),
                &found,
                bound,
            );
        }
        let above = spreads(&rounds, |r| Some(r.above));
        let judged = above.iter().map(|spread| {
            let most = spread.map_or(f64::NAN, |spread| spread.max);
            (format!("{most:.2}"), most <= bars::EVICTION_ABOVE_PERCENT)
        });
        let bound = format!("<= {}", bars::EVICTION_ABOVE_PERCENT);
        sheet.counted(report, "most above maxmemory, %", &bound, judged);
        sheet.shown(
            "p99 of GETs before, ms",
            &spreads(&rounds, |r| Some(r.calm)),
            hundredths,
        );
        sheet.shown(
            "p99 of GETs, full, ms",
            &spreads(&rounds, |r| Some(r.full)),
            hundredths,
        );
        let own = ratios(&rounds, Some, |one, own| Some(one.full / own.calm));
        let bound = Bound::AtMost(bars::EVICTION_GET_P99_RATIO);
        sheet.ratio(report, "ratio", &own, bound);
        say!("{sheet}");
    }
    Ok(())
}

fn measure(options: &EvictionOptions, server: &Server, policy: &str) -> Result<Round> {
    let volatile = policy.starts_with("volatile");
    let mut client = server.client()?;
    begin(&mut client, policy)?;
    let bar = indicatif::ProgressBar::hidden();
    let keys = options.keys();
    keyload::load(&mut client, keys, "SET", &bar, |index, out| {
        set(out, index, volatile)
    })?;
    let next = AtomicU64::new(keys);
    let mut writers = (0..WRITERS)
        .map(|_| server.client())
        .collect::<Result<Vec<_>>>()?;
    // The same writes, before there is a limit.
    let calm = latency(server, volatile, &next, keys)?;
    let most = used_memory(&mut client)?;
    limit(&mut client, most)?;
    // The store becomes full, and what is set up at the first eviction is.
    sets(&mut writers, volatile, &next, keys / 20)?;
    let cpu = || server.pid.and_then(CpuTime::of);
    let stop = AtomicBool::new(false);
    let (used, greatest) = std::thread::scope(|scope| {
        // Another connection looks at the memory; its commands are a part of the cost of both servers.
        let looks = scope.spawn(|| greatest_memory(server, &stop));
        std::thread::sleep(SETTLE);
        let before = cpu();
        let done = sets(&mut writers, volatile, &next, options.requests());
        std::thread::sleep(SETTLE);
        let after = cpu();
        stop.store(true, Ordering::Relaxed);
        let greatest = looks.join();
        done?;
        let used = after
            .zip(before)
            .map(|(after, before)| after.since(&before));
        Ok::<_, Error>((used, greatest.map_err(|_| died())??))
    })?;
    let full = latency(server, volatile, &next, keys)?;
    begin(&mut client, "noeviction")?;
    Ok(Round {
        cpu: used.map(|used| used.as_secs_f64() * 1e6 / options.requests() as f64),
        above: (greatest as f64 / most as f64 - 1.0) * 100.0,
        calm: ms(calm.value_at_quantile(0.99)),
        full: ms(full.value_at_quantile(0.99)),
    })
}

fn died() -> Error {
    Error::Options("a thread of the benchmark has panicked".into())
}

/// Sends SETs of new keys, some in flight on each connection.
fn sets(clients: &mut [Client], volatile: bool, next: &AtomicU64, count: u64) -> Result<()> {
    let mut bytes = Vec::new();
    for _ in 0..count.div_ceil((WRITES * clients.len()) as u64) {
        for client in &mut *clients {
            let first = next.fetch_add(WRITES as u64, Ordering::Relaxed);
            bytes.clear();
            for index in first..first + WRITES as u64 {
                set(&mut bytes, index, volatile);
            }
            client.send(&bytes)?;
        }
        for client in &mut *clients {
            client.replies(WRITES, "SET")?;
        }
    }
    Ok(())
}

/// Returns the greatest number of bytes in use until it is stopped.
fn greatest_memory(server: &Server, stop: &AtomicBool) -> Result<u64> {
    let mut client = server.client()?;
    let mut most = 0;
    while !stop.load(Ordering::Relaxed) {
        most = most.max(used_memory(&mut client)?);
        std::thread::sleep(LOOK);
    }
    Ok(most)
}

/// Returns the nanoseconds of single GETs beside SETs of new keys.
fn latency(server: &Server, volatile: bool, next: &AtomicU64, keys: u64) -> Result<Histogram<u64>> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| -> Result<()> {
            let mut client = server.client()?;
            while !stop.load(Ordering::Relaxed) {
                sets(
                    std::slice::from_mut(&mut client),
                    volatile,
                    next,
                    WRITES as u64,
                )?;
            }
            Ok(())
        });
        let get = || -> Result<Histogram<u64>> {
            let mut client = server.client()?;
            let mut rng = ChaCha8Rng::seed_from_u64(7);
            let mut latency = latency_histogram();
            let end = Instant::now() + PROBE;
            while Instant::now() < end {
                let last = next.load(Ordering::Relaxed);
                let name = key(rng.random_range(last - keys..last));
                let begun = Instant::now();
                client.expect(&[b"GET", &name[..]])?;
                latency.saturating_record(begun.elapsed().as_nanos() as u64);
            }
            Ok(latency)
        };
        let found = get();
        stop.store(true, Ordering::Relaxed);
        writer.join().map_err(|_| died())??;
        found
    })
}
