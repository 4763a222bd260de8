//! `bench time`: timers in a program. Measures the lateness of sleeps and ticks, and the CPU cost
//! of timeouts in a polling loop.
//!
//! Lateness: each way of waiting has its own thread. The threads sleep nearly all the time, so they
//! run at the same time. A tick is due at a multiple of the ticker's period after its start;
//! growing lateness is drift.
//!
//! The polling loop sleeps [`POLLS`] times per second. Phases of some seconds without timeouts and
//! with timeouts alternate; with timeouts, the loop arms a timeout before each sleep and cancels it
//! afterwards. A third loop only sleeps for equal times, like `usleep` in C: no poller takes less.
//! The result is the CPU time of the whole process, including the timer driver.

use std::thread::sleep as std_sleep;
use std::time::{Duration, Instant};

use punctual::time::{self, Ticker, Timer};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::time::ClockId;

use crate::error::Result;
use crate::late::Late;
use crate::options::Common;
use crate::process::own_cpu;
use crate::report::Report;
use crate::sheet::{Bar, Column, Figures, Sheet};

const PERIOD: Duration = Duration::from_millis(10);

/// Number of polls per second. A timeout of [`TIMEOUT`] is armed at each poll.
const POLLS: u32 = 1000;
const TIMEOUT: Duration = Duration::from_millis(100);

/// A function that waits again and again in one way until `end`, and records each wait.
type Way = fn(Instant, &mut Waits);

/// A loop that runs for a time, and returns its CPU time in a second.
type Loop = fn(Duration) -> f64;

/// The ways of waiting: the name, true for Punctual's own timers, and the function.
const WAYS: [(&str, bool, Way); 4] = [
    ("time::sleep", true, |end, waits| {
        sleeps(end, waits, time::sleep)
    }),
    ("time::after", true, |end, waits| {
        sleeps(end, waits, |delay| {
            // The channel sends once, and is never closed.
            let _ = time::after(delay).recv();
        });
    }),
    ("Ticker", true, ticks),
    ("std::thread::sleep", false, |end, waits| {
        sleeps(end, waits, std_sleep)
    }),
];

/// The waits of one way: the due time and the end of each wait, in µs since the start.
struct Waits {
    begun: Instant,
    waits: Vec<(u64, u64)>,
}

impl Waits {
    fn record(&mut self, due: Instant) {
        let micros = |at: Instant| (at - self.begun).as_micros() as u64;
        self.waits.push((micros(due), micros(Instant::now())));
    }
}

/// Runs both measurements and prints the report.
pub(crate) fn run(common: &Common, report: &mut Report) -> Result<()> {
    let lasting = common.seconds(5, 60);
    report.header(
        &format!(
            "Timers of a program: lateness over {} s, a poller",
            lasting.as_secs()
        ),
        &[],
        &["sleeps of 1 to 10 ms, tickers of 10 ms; one thread for each, side by side"],
    );
    report.begin_case();
    let all = std::thread::scope(|scope| {
        let threads = WAYS.map(|(_, _, way)| {
            scope.spawn(move || {
                let begun = Instant::now();
                let mut waits = Waits {
                    begun,
                    waits: Vec::new(),
                };
                way(begun + lasting, &mut waits);
                waits.waits
            })
        });
        threads.map(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    });
    let figures = |waits: Vec<(u64, u64)>| {
        let mut late = Late::new(waits.len() as u64);
        waits.iter().for_each(|(due, now)| late.record(*now, *due));
        let mut figures = Figures::default();
        late.put(&mut figures);
        // The lateness of the last wait. A ticker that is late by more than its period has drifted.
        let last = waits.last().map_or(f64::INFINITY, |(due, now)| {
            now.saturating_sub(*due) as f64 / 1e3
        });
        figures.put("the last, ms", last);
        vec![figures]
    };
    let column = |(label, ours, _): (&str, bool, Way)| Column {
        label: label.into(),
        product: label.into(),
        ours,
        bases: Vec::new(),
    };
    let bars = [
        ("late p99, ms", Bar::AtMost(0.3)),
        ("early", Bar::Never(0.0)),
        ("the last, ms", Bar::AtMost(10.0)),
    ];
    let mut sheet = Sheet::new("time", WAYS.map(column).into());
    sheet.add(report, "lateness", &bars, &all.map(figures))?;
    sheet.show(report)?;
    let turn = Duration::from_secs(common.usual(1, 3));
    let loops: [(&str, Loop); 3] = [
        ("with timeouts", |lasting| poll(lasting, true)),
        ("without", |lasting| poll(lasting, false)),
        ("usleep in C", usleep),
    ];
    let columns = [0, 1, 2].map(|at| Column {
        label: loops[at].0.into(),
        product: loops[at].0.into(),
        ours: at == 0,
        bases: if at == 0 { vec![1, 2] } else { Vec::new() },
    });
    let mut sheet = Sheet::new("time", columns.into());
    let bars = [("CPU a second, ms", Bar::RatioAtMost(1.2))];
    sheet.measure(
        report,
        "1,000 polls a second",
        &bars,
        common.rounds(2, 5),
        |at, _| {
            Ok(Figures::from([(
                "CPU a second, ms",
                loops[at].1(turn) * 1e3,
            )]))
        },
    )?;
    sheet.show(report)?;
    Ok(())
}

fn sleeps(end: Instant, waits: &mut Waits, sleep: impl Fn(Duration)) {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    while Instant::now() < end {
        let delay = Duration::from_micros(random.random_range(1_000..=10_000));
        let due = Instant::now() + delay;
        sleep(delay);
        waits.record(due);
    }
}

fn ticks(end: Instant, waits: &mut Waits) {
    let started = Instant::now();
    let Ok(ticker) = Ticker::new(PERIOD) else {
        unreachable!("the period is not zero");
    };
    for number in 1.. {
        if started + PERIOD * number > end || ticker.c().recv().is_err() {
            return;
        }
        waits.record(started + PERIOD * number);
    }
}

/// Only sleeps, [`POLLS`] times for each second of `lasting`. Returns the CPU time of `POLLS`
/// sleeps. Sleeps end a little late, so the loop takes longer than `lasting`.
fn usleep(lasting: Duration) -> f64 {
    let sleeps = (lasting * POLLS).as_secs() as u32;
    let cpu = own_cpu(ClockId::ProcessCPUTime);
    for _ in 0..sleeps {
        // The system call is the one of `usleep`.
        std_sleep(Duration::from_secs(1) / POLLS);
    }
    (own_cpu(ClockId::ProcessCPUTime) - cpu).as_secs_f64() / f64::from(sleeps) * f64::from(POLLS)
}

/// Runs the polling loop for the duration `lasting`. Returns the CPU time per second.
fn poll(lasting: Duration, with_timeouts: bool) -> f64 {
    let begun = Instant::now();
    let cpu = own_cpu(ClockId::ProcessCPUTime);
    let mut due = begun;
    while due - begun < lasting {
        due += Duration::from_secs(1) / POLLS;
        let timeout = with_timeouts.then(|| Timer::new(TIMEOUT));
        std_sleep(due.saturating_duration_since(Instant::now()));
        if let Some(timeout) = timeout {
            timeout.stop();
        }
    }
    (own_cpu(ClockId::ProcessCPUTime) - cpu).as_secs_f64() / begun.elapsed().as_secs_f64()
}
