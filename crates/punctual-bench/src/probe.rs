//! `bench expiry --probe`: the lateness of a few keys among many whose deadlines are far away (redis#15620).
//!
//! A server that samples keys to find due ones meets the few only after it has sampled the many. The keys with far
//! deadlines grow from size to size; the probes are new each time. Probes whose event does not arrive in time count as
//! infinitely late, so a run takes seconds a size.

use std::time::{Duration, Instant};

use punctual_resp::encode_command;

use crate::clock::unix_micros;
use crate::error::Result;
use crate::events::{Expected, Receiver, key_name};
use crate::lateness::{check_lead, millis_of};
use crate::launch::{self, Server};
use crate::options::ExpiryOptions;
use crate::report::{self, Report, describe};
use crate::sheet::{Sheet, spreads};
use crate::table::{millis, thousands};
use crate::{bars, keyload, spread};

/// Number of probes at each size.
const PROBES: u64 = 1_000;

/// Numbers of keys with far deadlines.
const SIZES: [u64; 4] = [0, 10_000, 100_000, 1_000_000];

/// TTL of these keys in ms: a day.
const FAR_MS: &[u8] = b"86400000";

/// Time from the start of loading the probes to their first deadline.
const LEAD: Duration = Duration::from_millis(500);

/// Interval at which the number of received events is checked.
const POLL: Duration = Duration::from_millis(20);

/// The percentiles of the table, by name.
const PERCENTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("max", 1.0)];

/// Results of one server at one size in one round.
#[derive(Debug)]
struct Run {
    /// Lateness in ms of each received event, in ascending order.
    late: Vec<f64>,
    early: u64,
}

impl Run {
    /// Returns the lateness in ms that this share of the probes did not exceed.
    fn lateness(&self, share: f64) -> f64 {
        let rank = (share * PROBES as f64).ceil() as usize;
        let at = rank.clamp(1, PROBES as usize) - 1;
        self.late.get(at).copied().unwrap_or(f64::INFINITY)
    }

    fn missing(&self) -> u64 {
        PROBES.saturating_sub(self.late.len() as u64)
    }
}

/// Runs the benchmark on every server and prints the report.
pub(crate) fn run(options: &ExpiryOptions, report: &mut Report) -> Result<()> {
    let (candidates, mut notes) = launch::candidates(&options.target)?;
    let servers = launch::open_all(&candidates, &[launch::EVENTS])?;
    let sizes: Vec<u64> = SIZES
        .into_iter()
        .filter(|size| *size <= options.keys())
        .collect();
    notes.push(
        "one server after the other, never at the same time; lateness = time of reception - deadline".into(),
    );
    report.header(
        &format!(
            "Lateness of `expired` events: {} keys, deadlines over {} s, among others due in a day; {} round(s)",
            thousands(PROBES as f64),
            options.spread().as_secs_f64(),
            options.rounds()
        ),
        &servers.iter().map(describe).collect::<Vec<_>>(),
        &notes,
    );
    let mut runs: Vec<Vec<Vec<Run>>> = sizes
        .iter()
        .map(|_| servers.iter().map(|_| Vec::new()).collect())
        .collect();
    for round in 1..=options.rounds() {
        for (at, server) in servers.iter().enumerate() {
            let _notify = server.publish_events(launch::EVENTS)?;
            let mut loaded = 0;
            for (&size, runs) in sizes.iter().zip(&mut runs) {
                far_keys(server, "SET", loaded..size)?;
                loaded = size;
                let run = once(options, server, size)?;
                record(report, server, size, round, &run)?;
                runs[at].push(run);
            }
            far_keys(server, "UNLINK", 0..loaded)?;
        }
    }
    print_sheet(report, options, &servers, &sizes, &runs);
    Ok(())
}

/// Sets or removes the keys with these numbers, whose deadlines are far away.
fn far_keys(server: &Server, command: &str, numbers: std::ops::Range<u64>) -> Result<()> {
    let count = numbers.end.saturating_sub(numbers.start);
    let bar = report::progress(count, &format!("{}: {command}", server.label));
    keyload::load(&mut server.client()?, count, command, &bar, |index, out| {
        let name = format!("pb:far:{:09}", numbers.start + index);
        let name = name.as_bytes();
        match command {
            "SET" => encode_command(out, &[b"SET", name, keyload::VALUE, b"PX", FAR_MS]),
            _ => encode_command(out, &[command.as_bytes(), name]),
        }
    })?;
    bar.finish_and_clear();
    Ok(())
}

/// Sets the probes and collects their events.
fn once(options: &ExpiryOptions, server: &Server, size: u64) -> Result<Run> {
    let spread_ms = millis_of(options.spread()).max(1);
    let mut client = server.client()?;
    let receiver = Receiver::subscribe(
        server,
        Expected {
            event: "expired",
            names: PROBES,
            each: 1,
            step_ms: 0,
        },
    )?;
    let begun = Instant::now();
    let first_ms = unix_micros() / 1000 + millis_of(LEAD);
    let deadline = |index: u64| first_ms + index * spread_ms / PROBES;
    let what = format!("{}: among {}", server.label, thousands(size as f64));
    let bar = report::progress(PROBES, &what);
    let hidden = indicatif::ProgressBar::hidden();
    keyload::load(&mut client, PROBES, "SET", &hidden, |index, out| {
        let at = deadline(index);
        let (name, at) = (key_name(at, index), at.to_string());
        let words = [b"SET", &name[..], keyload::VALUE, b"PXAT", at.as_bytes()];
        encode_command(out, &words);
    })?;
    check_lead(begun.elapsed(), LEAD)?;
    let give_up = (first_ms + spread_ms + millis_of(options.wait())) * 1000;
    while receiver.count() < PROBES && unix_micros() < give_up {
        std::thread::sleep(POLL);
        bar.set_position(receiver.count());
    }
    bar.finish_and_clear();
    let received = receiver.finish()?;
    let mut late = Vec::new();
    for step in received.lateness.iter_recorded() {
        let ms = step.value_iterated_to() as f64 / 1e3;
        late.extend((0..step.count_since_last_iteration()).map(|_| ms));
    }
    keyload::load(&mut client, PROBES, "UNLINK", &hidden, |index, out| {
        encode_command(out, &[b"UNLINK", &key_name(deadline(index), index)[..]]);
    })?;
    Ok(Run {
        late,
        early: received.early,
    })
}

fn record(report: &mut Report, server: &Server, size: u64, round: u32, run: &Run) -> Result<()> {
    let case = case(size);
    let late = PERCENTILES.map(|(name, share)| (name, "ms", run.lateness(share)));
    let missing = [("missing", "keys", run.missing() as f64)];
    let figures = late.into_iter().chain(missing);
    report.record_all(
        "expiry",
        &server.product,
        &case,
        round,
        figures.filter(|(_, _, value)| value.is_finite()),
    )?;
    Ok(())
}

/// Returns the name of a size in the CSV file.
fn case(size: u64) -> String {
    format!("probe among {size}")
}

fn print_sheet(
    report: &mut Report,
    options: &ExpiryOptions,
    servers: &[Server],
    sizes: &[u64],
    runs: &[Vec<Vec<Run>>],
) {
    let mut sheet = Sheet::new("keys due in a day", servers);
    let bound = bars::PROBE_LATENESS.as_secs_f64() * 1e3;
    let wait = options.wait().as_secs_f64();
    let show = |late: f64| match late.is_finite() {
        true => millis(late),
        false => format!("> {wait} s"),
    };
    for (&size, runs) in sizes.iter().zip(runs) {
        for (name, share) in PERCENTILES {
            let late = spreads(runs, |run| Some(run.lateness(share)));
            let name_ms = format!("{}: {name}, ms", thousands(size as f64));
            if name != "p99" {
                sheet.shown(&name_ms, &late, show);
                continue;
            }
            let judged = late.into_iter().map(|late| {
                let met = late.is_some_and(|late| late.median <= bound);
                (spread::text_with(late, show), met)
            });
            sheet.judged(report, &name_ms, &format!("<= {bound}"), judged);
        }
        let missing = spreads(runs, |run| Some(run.missing() as f64));
        sheet.shown(
            &format!("{}: events missing", thousands(size as f64)),
            &missing,
            thousands,
        );
        let early = spreads(runs, |run| Some(run.early as f64));
        sheet.none(
            report,
            &format!("{}: events early", thousands(size as f64)),
            &early,
        );
    }
    say!("{sheet}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_probes_are_infinitely_late() {
        let mut run = Run {
            late: (1..=990).map(f64::from).collect(),
            early: 0,
        };
        assert_eq!((run.lateness(0.5), run.lateness(0.99)), (500.0, 990.0));
        assert_eq!((run.lateness(1.0), run.missing()), (f64::INFINITY, 10));
        run.late.pop();
        assert_eq!(run.lateness(0.99), f64::INFINITY);
    }
}
