//! `bench expiry`: the lateness of the events of expired keys, of expired hash fields (`--fields`),
//! or of timers (`--timers`).
//!
//! The deadlines are uniformly distributed over some seconds after the end of loading. No command
//! accesses the entries again. The name of each key contains its deadline. The event of a field
//! contains only the name of the hash. So this name contains the deadline of the first field, and
//! the other fields are due at equal intervals after it: the n-th event of a hash belongs to its
//! n-th field.

use std::time::Duration;

use punctual_resp::encode_command;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::client::Client;
use crate::clock::sleep_until;
use crate::error::Result;
use crate::events::{Expected, Receiver};
use crate::keyload::{self, due_name, set_due};
use crate::late::Late;
use crate::launch::{self, Program, Server};
use crate::options::ExpiryOptions;
use crate::plot::{self, Curve};
use crate::report::Report;
use crate::sheet::{self, Bar, Figures, Sheet};
use crate::table::thousands;

/// Number of fields per hash.
const FIELDS: u64 = 10;

/// The counter that the commands of timers increment.
pub(crate) const COUNTER: &str = "pb:timers";

/// Delay after the last event until the server sleeps, so that the kernel has updated its CPU time.
const SETTLE: Duration = Duration::from_millis(20);

/// The kind of entries that expire or fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entries {
    Keys,
    Fields,
    Timers,
}

impl Entries {
    pub(crate) fn of(options: &ExpiryOptions) -> Self {
        match (options.fields, options.timers) {
            (true, _) => Self::Fields,
            (_, true) => Self::Timers,
            _ => Self::Keys,
        }
    }

    /// Returns a description, the name of the event, and the file name of the plot.
    pub(crate) fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Keys => ("keys", "expired", "expiry-lateness.svg"),
            Self::Fields => ("fields", "hexpired", "field-expiry-lateness.svg"),
            Self::Timers => ("timers", "timer", "timer-lateness.svg"),
        }
    }

    fn expected(self, keys: u64, spread: Duration) -> Expected {
        let (_, event, _) = self.names();
        let each = if self == Self::Fields { FIELDS } else { 1 };
        Expected {
            event,
            names: keys.div_ceil(each),
            each: each as u8,
            step_ms: (spread.as_millis() as u64 / each).max(1),
        }
    }

    /// Returns the time to load an entry, as a multiple of the time to load a key.
    pub(crate) fn weight(self) -> u32 {
        if self == Self::Keys { 1 } else { 2 }
    }

    /// Appends the command that sets a key with a deadline, or a timer.
    pub(crate) fn write(self, deadline_ms: u64, index: u64, out: &mut Vec<u8>) {
        if self != Self::Timers {
            return set_due(deadline_ms, index, out);
        }
        let (name, at) = (due_name(deadline_ms, index), deadline_ms.to_string());
        let words: [&[u8]; 8] = [
            b"TIMER",
            b"SET",
            &name,
            b"AT",
            at.as_bytes(),
            b"DO",
            b"INCR",
            COUNTER.as_bytes(),
        ];
        encode_command(out, &words);
    }
}

/// Loads keys or timers whose deadlines are spread over a duration, in random order. Returns the
/// first deadline in Unix milliseconds. `weight` is the expected time to load an entry, as a
/// multiple of the time to load a key.
pub(crate) fn load_spread(
    client: &mut Client,
    entries: Entries,
    keys: u64,
    weight: u32,
    spread: Duration,
    round: u32,
) -> Result<u64> {
    let (mut rng, spread_ms) = (
        ChaCha8Rng::seed_from_u64(round.into()),
        (spread.as_millis() as u64).max(1),
    );
    keyload::load_due(client, keys, weight, "SET", |first_ms, index, out| {
        entries.write(first_ms + rng.random_range(0..spread_ms), index, out);
    })
}

/// Loads hashes whose fields have deadlines. Returns the first deadline in Unix milliseconds.
fn load_fields(client: &mut Client, expected: Expected, round: u32) -> Result<u64> {
    let mut rng = ChaCha8Rng::seed_from_u64(round.into());
    let (commands, mut offset) = (FIELDS + 1, 0);
    keyload::load_due(
        client,
        expected.names * commands,
        2,
        "HSET or HPEXPIREAT",
        |first_ms, index, out| {
            let (hash, nth) = (index / commands, index % commands);
            if nth == 0 {
                offset = rng.random_range(0..expected.step_ms);
            }
            let name = due_name(first_ms + offset, hash);
            let field = |n: u64| [b'f', b'0' + n as u8];
            let Some(nth) = nth.checked_sub(1) else {
                let fields: Vec<[u8; 2]> = (0..FIELDS).map(field).collect();
                let pairs = fields.iter().flat_map(|field| [&field[..], keyload::VALUE]);
                let words: Vec<&[u8]> = [b"HSET", &name[..]].into_iter().chain(pairs).collect();
                return encode_command(out, &words);
            };
            let at = (first_ms + offset + nth * expected.step_ms).to_string();
            let words: [&[u8]; 6] = [
                b"HPEXPIREAT",
                &name,
                at.as_bytes(),
                b"FIELDS",
                b"1",
                &field(nth),
            ];
            encode_command(out, &words);
        },
    )
}

/// Returns the time to wait for missing events after the last deadline.
pub(crate) fn patience_ms(options: &crate::options::Common) -> u64 {
    options.usual(6_000, 40_000)
}

/// Runs the benchmark and prints the report.
pub(crate) fn run(
    options: &ExpiryOptions,
    programs: &[Program],
    report: &mut Report,
) -> Result<()> {
    let (entries, common) = (Entries::of(options), &options.common);
    let (keys, spread) = (common.keys(50_000, 1_000_000), common.seconds(4, 45));
    let (what, event, plot_name) = entries.names();
    let title = format!(
        "Lateness of `{event}` events: {} {what}, deadlines over {} s, never touched again",
        thousands(keys as f64),
        spread.as_secs_f64()
    );
    report.header(
        &title,
        programs,
        &["lateness = time of reception - deadline"],
    );
    let servers = launch::start_all(programs, &[launch::EVENTS])?;
    let mut bars = vec![
        ("late p50, ms", Bar::AtMost(0.5)),
        ("late p99, ms", Bar::AtMost(1.0)),
        ("late p99.9, ms", Bar::AtMost(5.0)),
        ("missing", Bar::Never(0.0)),
        ("early", Bar::Never(0.0)),
        ("again", Bar::Never(0.0)),
    ];
    if entries == Entries::Keys && (keys, spread) == (1_000_000, Duration::from_secs(45)) {
        bars.push(("server CPU, s", Bar::AtMost(1.6)));
    }
    let mut curves: Vec<Option<Curve>> = programs.iter().map(|_| None).collect();
    let mut sheet = Sheet::new("expiry", sheet::columns(programs));
    sheet.measure(report, what, &bars, common.rounds(1, 1), |at, round| {
        let patience = patience_ms(common);
        let (late, figures) = once(
            &servers[at],
            entries,
            entries.expected(keys, spread),
            spread,
            round,
            patience,
        )?;
        curves[at].get_or_insert(Curve {
            label: programs[at].product.clone(),
            points: late.distribution(),
        });
        Ok(figures)
    })?;
    sheet.show(report)?;
    let curves: Vec<Curve> = curves.into_iter().flatten().collect();
    report.plot(plot_name, |path, foot| {
        let title = format!(
            "How late {event} events arrive: {} {what}, deadlines over {} s",
            thousands(keys as f64),
            spread.as_secs_f64()
        );
        plot::lateness(path, &title, foot, &curves)
    })
}

/// Loads, waits and collects the events of one round on one server.
fn once(
    server: &Server,
    entries: Entries,
    expected: Expected,
    spread: Duration,
    round: u32,
    patience_ms: u64,
) -> Result<(Late, Figures)> {
    let mut client = server.client()?;
    let empty = server.resident()?;
    let receiver = Receiver::subscribe(server, expected)?;
    let first_ms = match entries {
        Entries::Fields => load_fields(&mut client, expected, round)?,
        _ => load_spread(
            &mut client,
            entries,
            expected.names,
            entries.weight(),
            spread,
            round,
        )?,
    };
    sleep_until((first_ms - 40) * 1000);
    let loaded = server.resident()?;
    let until_ms = first_ms + spread.as_millis() as u64 + patience_ms;
    let (late, cpu) = server.cpu_of(SETTLE, || receiver.wait(expected.all(), until_ms))?;
    let mut figures = Figures::default();
    late.put(&mut figures);
    figures.put("server CPU, s", cpu);
    for (name, bytes) in [
        ("empty", empty),
        ("loaded", loaded),
        ("after", server.resident()?),
    ] {
        figures.put(
            format!("RSS {name}, MiB"),
            bytes as f64 / f64::from(1 << 20),
        );
    }
    Ok((late, figures))
}
