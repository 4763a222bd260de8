//! `bench time`: the timers of a program: lateness of sleeps and ticks, and the cost of a poller's timeouts.
//!
//! Lateness: each way of waiting has its own thread. The threads sleep nearly all the time, so they run concurrently. A
//! ticker is compared with the multiples of its period since its start; growing lateness is drift.
//!
//! The poller sleeps a thousand times per second, without timeouts or with a timeout armed before and cancelled after
//! each sleep, in alternating phases of some seconds. The result is the CPU time of the whole process, including the
//! driver.

use std::thread::sleep as std_sleep;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use hdrhistogram::Histogram;
use punctual::time::{self, Ticker, Timer};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::bars;
use crate::csv::Measurement;
use crate::error::Result;
use crate::lateness::distribution;
use crate::load::latency_histogram;
use crate::options::TimeOptions;
use crate::plot::{self, Curve};
use crate::process::own_cpu;
use crate::report::{self, Report};
use crate::spread::Spread;
use crate::table::{Table, millis};

const PERIOD: Duration = Duration::from_millis(10);

/// Polls per second, and the timeout armed at each.
const POLLS: u32 = 1000;
const TIMEOUT: Duration = Duration::from_millis(100);

/// Duration of a phase of the poller.
const TURN: Duration = Duration::from_secs(3);

/// The percentiles of the table, by name.
const COLUMNS: [(&str, f64); 4] = [
    ("p50", 50.0),
    ("p99", 99.0),
    ("p99.9", 99.9),
    ("max", 100.0),
];

/// One way of waiting.
#[derive(Debug)]
struct Waits {
    name: &'static str,
    ours: bool,
    /// Microseconds.
    lateness: Histogram<u64>,
    early: u64,
    /// Distance of the last tick from its multiple of the period.
    drift: Option<Duration>,
}

/// Runs both measurements and prints the report.
pub(crate) fn run(options: &TimeOptions, report: &mut Report) -> Result<()> {
    report.header(
        &format!(
            "Timers of a program: lateness over {} s, a poller for {} s",
            options.lateness().as_secs(),
            options.poller().as_secs()
        ),
        &[],
        &["sleeps of 1 to 10 ms, tickers of 10 ms; one thread for each, side by side".into()],
    );
    lateness(options, report)?;
    say!();
    poller(options, report)
}

fn lateness(options: &TimeOptions, report: &mut Report) -> Result<()> {
    let lasting = options.lateness();
    let bar = report::progress(lasting.as_secs(), "waiting");
    let all = std::thread::scope(|scope| {
        let ways: [fn(Duration) -> Waits; 5] = [
            |lasting| sleeps("time::sleep", true, lasting, time::sleep),
            |lasting| {
                sleeps("time::after", true, lasting, |delay| {
                    // The channel sends once, and is never closed.
                    let _ = time::after(delay).recv();
                })
            },
            ticker,
            |lasting| sleeps("std::thread::sleep", false, lasting, std_sleep),
            |lasting| {
                let started = Instant::now();
                let receiver = crossbeam_channel::tick(PERIOD);
                ticks("crossbeam tick", false, started, &receiver, lasting)
            },
        ];
        let threads = ways.map(|way| scope.spawn(move || way(lasting)));
        for _ in 0..lasting.as_secs() {
            std_sleep(Duration::from_secs(1));
            bar.inc(1);
        }
        threads.map(|thread| match thread.join() {
            Ok(waits) => waits,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    });
    bar.finish_and_clear();

    let head = ["lateness, ms"]
        .into_iter()
        .chain(COLUMNS.map(|(name, _)| name))
        .chain(["bar, p99", "", "waits", "early", "drift"]);
    let mut table = Table::new(1, head);
    for waits in &all {
        let at = |percentile| waits.lateness.value_at_percentile(percentile) as f64 / 1e3;
        let mut row = vec![waits.name.to_owned()];
        row.extend(COLUMNS.map(|(_, percentile)| millis(at(percentile))));
        let bar = bars::WAIT_LATENESS.as_secs_f64() * 1e3;
        let met = at(bars::WAIT_PERCENTILE) <= bar
            && waits.early == 0
            && waits.drift.is_none_or(|drift| drift <= PERIOD);
        row.push(if waits.ours {
            millis(bar)
        } else {
            String::new()
        });
        row.push(report.timed_verdict(waits.ours, met).to_owned());
        row.push(waits.lateness.len().to_string());
        row.push(waits.early.to_string());
        row.push(
            waits
                .drift
                .map_or_else(String::new, |drift| millis(drift.as_secs_f64() * 1e3)),
        );
        table.row(row);
        for (name, percentile) in COLUMNS {
            report.record(measured(waits.name, 1, name, "us", at(percentile) * 1e3))?;
        }
    }
    say!("{table}");
    draw(report, &all)
}

fn sleeps(name: &'static str, ours: bool, lasting: Duration, sleep: impl Fn(Duration)) -> Waits {
    let mut waits = Waits::new(name, ours);
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let end = Instant::now() + lasting;
    while Instant::now() < end {
        let delay = Duration::from_micros(random.random_range(1_000..=10_000));
        let due = Instant::now() + delay;
        sleep(delay);
        waits.record(due, Instant::now());
    }
    waits
}

fn ticker(lasting: Duration) -> Waits {
    let started = Instant::now();
    match Ticker::new(PERIOD) {
        Ok(ticker) => ticks("Ticker", true, started, ticker.c(), lasting),
        Err(_) => unreachable!("the period is not zero"),
    }
}

/// Measures the ticks of a ticker created right after `started`.
fn ticks(
    name: &'static str,
    ours: bool,
    started: Instant,
    receiver: &Receiver<Instant>,
    lasting: Duration,
) -> Waits {
    let mut waits = Waits::new(name, ours);
    let slack = Instant::now() - started;
    let mut ticks = 0;
    while receiver.recv().is_ok() {
        let now = Instant::now();
        ticks += 1;
        waits.record(started + PERIOD * ticks, now);
        waits.drift = Some((now - started).saturating_sub(PERIOD * ticks + slack));
        if now - started >= lasting {
            break;
        }
    }
    waits
}

impl Waits {
    fn new(name: &'static str, ours: bool) -> Self {
        Waits {
            name,
            ours,
            lateness: latency_histogram(),
            early: 0,
            drift: None,
        }
    }

    fn record(&mut self, due: Instant, now: Instant) {
        self.early += u64::from(now < due);
        let late = now.saturating_duration_since(due).as_micros();
        self.lateness
            .saturating_record(u64::try_from(late).unwrap_or(u64::MAX));
    }
}

/// Measures the CPU time per second of polling.
fn poller(options: &TimeOptions, report: &mut Report) -> Result<()> {
    let turn = TURN.min(options.poller());
    let turns = (options.poller().as_secs_f64() / turn.as_secs_f64())
        .round()
        .max(1.0) as u32;
    let bar = report::progress(u64::from(2 * turns), "polling");
    let (mut alone, mut armed) = (Vec::new(), Vec::new());
    for turn_number in 1..=turns {
        for (with, costs) in [(false, &mut alone), (true, &mut armed)] {
            let cost = poll(turn, with);
            let name = if with {
                "poller with timeouts"
            } else {
                "poller alone"
            };
            report.record(measured(name, turn_number, "cpu", "ms/s", cost * 1e3))?;
            costs.push(cost);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let ratios = armed.iter().zip(&alone).map(|(armed, alone)| armed / alone);
    let ratio = Spread::of(ratios);
    let met = ratio.is_some_and(|ratio| ratio.median <= bars::POLLER_RATIO);
    let mut table = Table::new(
        1,
        [
            "1,000 polls per second, CPU ms per second",
            "median",
            "",
            "",
        ],
    );
    let written = |costs: Vec<f64>| {
        Spread::of(costs).map_or_else(String::new, |spread| {
            spread.written(|cost| millis(cost * 1e3))
        })
    };
    table.row(["sleeping alone".to_owned(), written(alone)]);
    table.row([
        "a timer armed and cancelled each time".to_owned(),
        written(armed),
    ]);
    table.row([
        "ratio".to_owned(),
        ratio.map_or_else(String::new, |ratio| {
            ratio.written(|ratio| format!("{ratio:.2}"))
        }),
        format!("bar {}", bars::POLLER_RATIO),
        report.timed_verdict(true, met).to_owned(),
    ]);
    say!("{table}");
    Ok(())
}

/// Polls for the duration `lasting`. Returns the CPU time per second.
fn poll(lasting: Duration, with_timeouts: bool) -> f64 {
    let begun = Instant::now();
    let cpu = own_cpu();
    let mut due = begun;
    while due - begun < lasting {
        due += Duration::from_secs(1) / POLLS;
        let timeout = with_timeouts.then(|| Timer::new(TIMEOUT));
        std_sleep(due.saturating_duration_since(Instant::now()));
        if let Some(timeout) = timeout {
            timeout.stop();
        }
    }
    (own_cpu() - cpu).as_secs_f64() / begun.elapsed().as_secs_f64()
}

fn draw(report: &mut Report, all: &[Waits]) -> Result<()> {
    let Some(path) = report.plot_path("time-lateness.svg") else {
        return Ok(());
    };
    let curves: Vec<Curve> = all
        .iter()
        .map(|waits| Curve {
            label: waits.name.to_owned(),
            points: distribution(&waits.lateness, waits.lateness.len()),
        })
        .collect();
    plot::lateness(
        &path,
        "Lateness of sleeps and ticks",
        &report.provenance(),
        "waits completed, % of all",
        &curves,
    )
}

fn measured<'a>(
    case: &'a str,
    round: u32,
    metric: &'a str,
    unit: &'a str,
    value: f64,
) -> Measurement<'a> {
    Measurement {
        benchmark: "time",
        server: "",
        case,
        round,
        metric,
        unit,
        value,
    }
}
