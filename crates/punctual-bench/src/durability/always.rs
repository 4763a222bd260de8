//! `appendfsync always`: SETs of clients that wait for each reply, and the GETs of other clients meanwhile.

use std::time::{Duration, Instant};

use super::Variants;
use crate::bars;
use crate::error::{Error, Result};
use crate::keyload;
use crate::launch::{self, Candidate, Server};
use crate::load::{Generator, Load, Outcome};
use crate::options::DurabilityOptions;
use crate::process::CpuTime;
use crate::report::{self, Report};
use crate::sheet::{Bound, Sheet, hundredths, ratios, spreads};
use crate::workload::Template;
use punctual_figures::table::{millis, thousands};
use rustix::process::Pid;

/// Number of clients that write, and of clients that read.
const CLIENTS: u32 = 50;
const KEYS: u64 = 100_000;
/// Duration of the load before a measurement.
const WARM_UP: Duration = Duration::from_millis(200);

/// Results of a server in one round.
#[derive(Debug, Clone, Copy)]
struct Figures {
    /// SETs a second without other clients.
    sets_alone: f64,
    /// CPU time of the server per SET in µs, and cores that the load generator used meanwhile.
    cpu: Option<f64>,
    generator: f64,
    /// SETs and GETs a second of both groups together.
    sets: f64,
    gets: f64,
    /// Milliseconds of the GETs.
    get_p50: f64,
    get_p99: f64,
}

/// Results without and with an append-only file.
#[derive(Debug, Clone, Copy)]
struct Round {
    plain: Figures,
    logged: Figures,
}

/// Connections to one server.
struct Clients {
    writers: Generator,
    readers: Generator,
    set: Template,
    get: Template,
    pid: Option<Pid>,
}

impl Clients {
    fn open(server: &Server) -> Result<Self> {
        let generator = || Generator::connect(server.addr, server.password(), CLIENTS, 1);
        let set = Template::new(&["SET", "key:{n}", "{data}"], 32);
        let mut filler = set.clone();
        let bar = indicatif::ProgressBar::hidden();
        keyload::load(&mut server.client()?, KEYS, "SET", &bar, |index, out| {
            filler.fill(|_| index);
            out.extend_from_slice(filler.bytes());
        })?;
        Ok(Self {
            writers: generator()?,
            readers: generator()?,
            set,
            get: Template::new(&["GET", "key:{n}"], 32),
            pid: server.pid,
        })
    }

    fn measure(&mut self, duration: Duration, seed: u64) -> Result<Figures> {
        let load = |template, duration| Load {
            template,
            pipeline: 1,
            requests: u64::MAX,
            keyspace: Some(KEYS),
            seed,
            end: Some(Instant::now() + duration),
        };
        self.writers.run(load(&self.set, WARM_UP))?;
        let cpu_time = || self.pid.and_then(CpuTime::of);
        let before = cpu_time();
        let alone = self.writers.run(load(&self.set, duration))?;
        let used = before
            .zip(cpu_time())
            .map(|(before, after)| after.since(&before));
        let (writes, reads) = std::thread::scope(|scope| {
            let (readers, load_of_readers) = (&mut self.readers, load(&self.get, duration));
            let reads = scope.spawn(move || readers.run(load_of_readers));
            let writes = self.writers.run(load(&self.set, duration));
            let died = |_| Error::Options("a thread of the benchmark has panicked".into());
            Ok::<_, Error>((writes?, reads.join().map_err(died)??))
        })?;
        let rate = |outcome: &Outcome| outcome.requests as f64 / outcome.wall.as_secs_f64();
        let at = |percentile| reads.latency.value_at_percentile(percentile) as f64 / 1e6;
        Ok(Figures {
            sets_alone: rate(&alone),
            cpu: used.map(|used| used.as_secs_f64() * 1e6 / alone.requests as f64),
            generator: alone.generator_cpu.as_secs_f64() / alone.wall.as_secs_f64(),
            sets: rate(&writes),
            gets: rate(&reads),
            get_p50: at(50.0),
            get_p99: at(99.0),
        })
    }
}

/// Measures and prints a table.
pub(super) fn run(
    options: &DurabilityOptions,
    candidates: &[Candidate],
    report: &mut Report,
) -> Result<()> {
    let variants = Variants::open(candidates, "always")?;
    let clients = |servers: &[Server]| {
        servers
            .iter()
            .map(Clients::open)
            .collect::<Result<Vec<_>>>()
    };
    let (mut plain, mut logged) = (clients(&variants.plain)?, clients(&variants.logged)?);
    let mut rounds: Vec<Vec<Round>> = plain.iter().map(|_| Vec::new()).collect();
    let work = 2 * plain.len() as u64 * u64::from(options.common.rounds());
    let bar = report::progress(work, "appendfsync always");
    for round in 1..=options.common.rounds() {
        for at in variants.order(round) {
            let measure = |clients: &mut Clients| {
                bar.inc(1);
                clients.measure(options.duration(), round.into())
            };
            let one = Round {
                plain: measure(&mut plain[at])?,
                logged: measure(&mut logged[at])?,
            };
            record(report, &variants.logged[at], round, &one)?;
            rounds[at].push(one);
        }
    }
    bar.finish_and_clear();
    print(report, &variants.logged, &rounds);
    Ok(())
}

fn record(report: &mut Report, server: &Server, round: u32, one: &Round) -> Result<()> {
    for (case, figures) in [("no aof", one.plain), ("always", one.logged)] {
        let figures = [
            ("sets_alone", "commands/s", figures.sets_alone),
            ("cpu_per_set", "us", figures.cpu.unwrap_or(f64::NAN)),
            ("generator", "cores", figures.generator),
            ("sets", "commands/s", figures.sets),
            ("gets", "commands/s", figures.gets),
            ("get_p50", "ms", figures.get_p50),
            ("get_p99", "ms", figures.get_p99),
        ];
        report.record_all("durability", &server.product, case, round, figures)?;
    }
    Ok(())
}

fn print(report: &mut Report, servers: &[Server], rounds: &[Vec<Round>]) {
    let title = format!("appendfsync always, {CLIENTS} clients with SET, {CLIENTS} with GET");
    let mut sheet = Sheet::new(&title, servers);
    let of = |value: &dyn Fn(&Round) -> f64| spreads(rounds, |round| Some(value(round)));
    let reference = launch::reference(servers);
    type Rate = fn(&Figures) -> f64;
    let rates: [(&str, Rate); 2] = [
        ("SETs alone", |f| f.sets_alone),
        ("SETs beside GETs", |f| f.sets),
    ];
    for (name, rate) in rates {
        sheet.shown(
            &format!("{name}, 1/s"),
            &of(&|r| rate(&r.logged)),
            thousands,
        );
        if let Some(of) = reference {
            let base = |at| (at != of).then_some(of);
            let ratio = |one: &Round, base: &Round| Some(rate(&one.logged) / rate(&base.logged));
            let name = format!("{name}, ratio to {}", servers[of].label);
            let bound = Bound::AtLeast(bars::ALWAYS_SETS_RATIO);
            sheet.ratio(report, &name, &ratios(rounds, base, ratio), bound);
        }
    }
    // The load generator may be the bottleneck.
    let cpu = spreads(rounds, |round| round.logged.cpu);
    sheet.shown("SETs alone, server's CPU, µs", &cpu, hundredths);
    let generator = of(&|r| r.logged.generator);
    sheet.shown("SETs alone, generator's cores", &generator, hundredths);
    sheet.shown("GET p99, ms", &of(&|r| r.logged.get_p99), millis);
    sheet.shown("GET p99 without AOF, ms", &of(&|r| r.plain.get_p99), millis);
    let own = ratios(rounds, Some, |one, own| {
        Some(one.logged.get_p99 / own.plain.get_p99)
    });
    let bound = Bound::AtMost(bars::ALWAYS_GET_P99_RATIO);
    sheet.ratio(report, "GET p99, ratio to no AOF", &own, bound);
    sheet.shown("GET p50, ms", &of(&|r| r.logged.get_p50), millis);
    sheet.shown("GET p50 without AOF, ms", &of(&|r| r.plain.get_p50), millis);
    sheet.shown("GETs, 1/s", &of(&|r| r.logged.gets), thousands);
    sheet.shown("GETs without AOF, 1/s", &of(&|r| r.plain.gets), thousands);
    sheet.shown("SETs without AOF, 1/s", &of(&|r| r.plain.sets), thousands);
    say!("{sheet}");
}
