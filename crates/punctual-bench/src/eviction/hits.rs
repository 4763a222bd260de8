//! Hit rates: a client reads keys of a trace, and sets those that are missing.
//!
//! A trace has keys with frequencies after Zipf's law. In the one that shifts, other keys are the frequent ones after each
//! fifth. All servers get the same trace, after half of it once to fill the store. A limit in bytes is what a
//! tenth of the keys takes in the reference server. At an equal number of keys, each server's limit is corrected throughout the
//! trace so that it keeps that tenth: what a key takes depends on the keys before it, in tables that have grown and in free places.

use punctual_resp::encode_command;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{begin, limit, used_memory};
use crate::error::Result;
use crate::launch::{self, Server};
use crate::options::EvictionOptions;
use crate::report::{self, Report};
use crate::sheet::{Bound, Sheet, ratios};
use crate::stall::key;
use crate::{bars, keyload};
use punctual_figures::spread::Spread;
use punctual_figures::table::thousands;

const POLICIES: [&str; 2] = ["allkeys-lru", "allkeys-lfu"];
/// Exponent of Zipf's law.
const EXPONENT: f64 = 0.9;
/// Number of times that other keys become the frequent ones.
const SHIFTS: u64 = 5;
/// Reads in flight.
const READS: usize = 64;
/// Number of times that a limit is corrected in a trace and its first half.
const CORRECTIONS: u64 = 60;

/// Draws ranks after Zipf's law.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(ranks: u64) -> Self {
        let mut sum = 0.0;
        let mut add = |rank: u64| {
            sum += (rank as f64).powf(-EXPONENT);
            sum
        };
        Self((1..=ranks).map(&mut add).collect())
    }

    fn draw(&self, rng: &mut ChaCha8Rng) -> u64 {
        let all = self.0.last().copied().unwrap_or(0.0);
        let at = rng.random::<f64>() * all;
        self.0
            .partition_point(|sum| *sum <= at)
            .min(self.0.len() - 1) as u64
    }
}

/// Result of a trace: share of hits, and keys on average.
#[derive(Debug, Clone, Copy)]
struct Hits {
    rate: f64,
    keys: f64,
}

/// Limit of memory for a trace.
#[derive(Debug, Clone, Copy)]
enum Limit {
    Bytes(u64),
    /// The limit at which a server keeps this many keys, beginning with what `Usage` says.
    Keys(u64, Usage),
}

/// Memory of an empty server, and of one with a tenth of the keys.
#[derive(Debug, Clone, Copy)]
struct Usage {
    empty: u64,
    full: u64,
}

/// Runs all traces, and prints a table per policy and trace.
pub(super) fn run(
    options: &EvictionOptions,
    servers: &[Server],
    report: &mut Report,
) -> Result<()> {
    let zipf = Zipf::new(options.keys());
    let of = launch::reference(servers);
    let fitting = options.keys() / 10;
    let usage: Vec<Usage> = servers
        .iter()
        .map(|server| usage_of(server, fitting))
        .collect::<Result<_>>()?;
    let equal = Limit::Bytes(usage[of.unwrap_or(0)].full);
    let bar = report::progress((2 * 2 * 2 * servers.len()) as u64, "traces");
    let mut tables = Vec::new();
    for policy in POLICIES {
        for shifts in [false, true] {
            let mut found = Vec::new();
            for (server, usage) in servers.iter().zip(&usage) {
                let bytes = trace(options, server, policy, &zipf, shifts, equal)?;
                bar.inc(1);
                let own = Limit::Keys(fitting, *usage);
                let keys = trace(options, server, policy, &zipf, shifts, own)?;
                bar.inc(1);
                let case = format!("{policy} {}", name(shifts));
                let figures = [
                    ("hits_equal_bytes", "%", Some(bytes.rate * 100.0)),
                    ("hits_equal_keys", "%", Some(keys.rate * 100.0)),
                ];
                report.record_all("eviction", &server.product, &case, 1, figures)?;
                found.push((bytes, keys));
            }
            tables.push((policy, shifts, found));
        }
    }
    bar.finish_and_clear();
    for (policy, shifts, found) in tables {
        let title = format!("{policy}, Zipf {EXPONENT}, {}", name(shifts));
        let mut sheet = Sheet::new(&title, servers);
        let parts: [(&str, Part); 2] = [
            ("equal maxmemory", |(bytes, _)| *bytes),
            ("equal number of keys", |(_, keys)| *keys),
        ];
        for (case, part) in parts {
            let rates = found
                .iter()
                .map(|one| format!("{:.2}", part(one).rate * 100.0));
            sheet.row(&format!("{case}: hits, %"), rates);
            let keys = found.iter().map(|one| thousands(part(one).keys));
            sheet.row("  keys on average", keys);
            if let Some(of) = of {
                let rounds: Vec<Vec<Hits>> = found.iter().map(|one| vec![part(one)]).collect();
                let base = |at| (at != of).then_some(of);
                let found: Vec<Option<Spread>> =
                    ratios(&rounds, base, |one, base| Some(one.rate / base.rate));
                let bound = Bound::AtLeast(bars::EVICTION_HITS_RATIO);
                let name = format!("  ratio to {}", servers[of].label);
                sheet.counted_ratio(report, &name, &found, bound);
            }
        }
        say!("{sheet}");
    }
    Ok(())
}

type Part = fn(&(Hits, Hits)) -> Hits;

fn name(shifts: bool) -> &'static str {
    if shifts { "shifting" } else { "steady" }
}

/// Returns the bytes in use without keys and with `keys` keys.
fn usage_of(server: &Server, keys: u64) -> Result<Usage> {
    let mut client = server.client()?;
    begin(&mut client, "noeviction")?;
    let empty = used_memory(&mut client)?;
    let bar = indicatif::ProgressBar::hidden();
    keyload::load(&mut client, keys, "SET", &bar, |index, out| {
        encode_command(out, &[b"SET", &key(index)[..], keyload::VALUE]);
    })?;
    let full = used_memory(&mut client)?;
    Ok(Usage { empty, full })
}

/// Runs a trace at a limit of memory.
fn trace(
    options: &EvictionOptions,
    server: &Server,
    policy: &str,
    zipf: &Zipf,
    shifts: bool,
    room: Limit,
) -> Result<Hits> {
    let mut client = server.client()?;
    begin(&mut client, policy)?;
    let mut bytes = match room {
        Limit::Bytes(bytes) => bytes,
        Limit::Keys(_, usage) => usage.full,
    };
    limit(&mut client, bytes)?;
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let (total, fill) = (options.trace(), options.trace() / 2);
    let (mut hits, mut reads) = (0u64, 0u64);
    let (mut batch, mut names) = (Vec::new(), Vec::new());
    let mut sent = 0;
    let mut corrections = 0;
    let mut counts = Vec::new();
    while sent < fill + total {
        if sent * CORRECTIONS / (fill + total) > corrections {
            corrections += 1;
            let held = client.integer(&["DBSIZE"])?;
            if sent >= fill {
                counts.push(held as f64);
            }
            if let Limit::Keys(wanted, usage) = room {
                let a_key = usage.full.saturating_sub(usage.empty) as f64 / wanted as f64;
                let more = ((wanted as f64 - held as f64) * a_key) as i64;
                // Before the store is full there is nothing to correct.
                if more < 0 || used_memory(&mut client)? >= bytes / 100 * 99 {
                    bytes = bytes.saturating_add_signed(more);
                    limit(&mut client, bytes)?;
                }
            }
        }
        let shift = if shifts {
            sent.saturating_sub(fill) * SHIFTS / total
        } else {
            0
        };
        batch.clear();
        names.clear();
        for _ in 0..READS {
            // Ranks are no neighbours in the keyspace, and those of a shift are other keys.
            let rank = zipf.draw(&mut rng) + shift * options.keys() / 50;
            let name = key(rank % options.keys() * 7_919 % options.keys());
            encode_command(&mut batch, &[b"GET", &name[..]]);
            names.push(name);
        }
        client.send(&batch)?;
        batch.clear();
        let mut missing = 0;
        for name in &names {
            if client.reply()?.is_null() {
                encode_command(&mut batch, &[b"SET", &name[..], keyload::VALUE]);
                missing += 1;
            }
        }
        client.send(&batch)?;
        client.replies(missing, "SET")?;
        if sent >= fill {
            hits += (READS - missing) as u64;
            reads += READS as u64;
        }
        sent += READS as u64;
    }
    let keys = counts.iter().sum::<f64>() / counts.len() as f64;
    begin(&mut client, "noeviction")?;
    Ok(Hits {
        rate: hits as f64 / reads as f64,
        keys,
    })
}
