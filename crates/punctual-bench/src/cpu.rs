//! `bench server`: what a command costs the server, in its own CPU time.
//!
//! A measurement is one workload at one pipeline depth on one server. Servers take turns within a
//! round, and the order turns round with each round, so that whatever else the machine does meets
//! all of them alike; ratios are taken within a round, between neighbours.

use std::time::Duration;

use indicatif::ProgressBar;
use punctual_resp::Value;

use crate::bars;
use crate::client::{Client, error_text};
use crate::csv::Measurement;
use crate::error::{Error, Result};
use crate::keyload;
use crate::launch::{self, Server};
use crate::load::{Generator, Load, Outcome};
use crate::options::ServerOptions;
use crate::plot::{self, Bars};
use crate::process::CpuTime;
use crate::report::{self, Report, describe};
use crate::spread::{self, Spread};
use crate::table::{Table, thousands};
use crate::workload::{self, Before, Each, Template, Workload, write_digits};

/// After the last reply: the server goes to sleep, and the kernel books its CPU time.
const SETTLE: Duration = Duration::from_millis(5);

/// One measurement.
#[derive(Debug)]
pub(crate) struct Cost {
    /// Microseconds of server CPU per command; `None` for a server on another machine.
    pub(crate) cpu: Option<f64>,
    /// Commands per second.
    pub(crate) throughput: f64,
    /// Milliseconds from the sending of a batch to its last reply.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// The generator's share of a core: near 1 per thread, it is what limits the throughput.
    pub(crate) generator: f64,
}

/// One server with open connections.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    pub(crate) server: &'a Server,
    generator: Generator,
    client: Client,
}

/// What does not change from one measurement to the next.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) size: usize,
    pub(crate) keyspace: Option<u64>,
}

/// Whether a server can run a workload.
#[derive(Debug)]
pub(crate) enum Known {
    Yes,
    /// The server's words.
    No(String),
}

impl<'a> Bench<'a> {
    pub(crate) fn open(server: &'a Server, clients: u32, generators: u32) -> Result<Self> {
        Ok(Self {
            server,
            generator: Generator::connect(server.addr, server.password(), clients, generators)?,
            client: server.client()?,
        })
    }

    /// Removes all keys, where the data is ours to remove.
    pub(crate) fn flush(&mut self, given: bool) -> Result<()> {
        if self.server.started || given {
            self.client.expect(&["FLUSHALL"])?;
        }
        Ok(())
    }

    /// Tries a workload once. An error other than "unknown command" is an `Err`.
    pub(crate) fn knows(&mut self, workload: &Workload, shape: Shape) -> Result<Known> {
        self.prepare(workload, shape, 1)?;
        self.client.send(workload.template(shape.size).bytes())?;
        let answer = self.client.reply()?;
        if !answer.is_error() {
            return Ok(Known::Yes);
        }
        unknown(self.server, workload.name, &answer)
    }

    /// Brings about what the workload needs before `requests` commands.
    fn prepare(&mut self, workload: &Workload, shape: Shape, requests: u64) -> Result<()> {
        let (without, filling) = match workload.before {
            Before::Anything => return Ok(()),
            Before::Without(keys) => (keys, None),
            Before::Filled {
                with,
                each,
                without,
            } => (without, Some((with, each))),
        };
        if !without.is_empty() {
            let words: Vec<&str> = ["DEL"].into_iter().chain(without.iter().copied()).collect();
            self.client.expect(&words)?;
        }
        let Some((with, each)) = filling else {
            return Ok(());
        };
        let count = match each {
            Each::Key => shape.keyspace.unwrap_or(1),
            Each::Request => requests,
            Each::Times(times) => times,
        };
        let mut filler = Template::new(with, shape.size);
        let name = with.first().copied().unwrap_or_default();
        keyload::load(
            &mut self.client,
            count,
            name,
            &ProgressBar::hidden(),
            |index, out| {
                filler.fill(|| index);
                out.extend_from_slice(filler.bytes());
            },
        )
    }

    /// Runs a workload once: prepares, warms up, measures.
    pub(crate) fn measure(
        &mut self,
        workload: &Workload,
        shape: Shape,
        pipeline: u32,
        requests: u64,
        seed: u64,
    ) -> Result<Cost> {
        let template = workload.template(shape.size);
        let mut load = Load {
            template: &template,
            pipeline,
            requests: requests / 20,
            keyspace: shape.keyspace,
            seed: !seed,
        };
        self.prepare(workload, shape, requests + requests / 20)?;
        self.generator.run(load)?;
        load.requests = requests;
        load.seed = seed;
        std::thread::sleep(SETTLE);
        let before = self.server.pid.and_then(CpuTime::of);
        let outcome = self.generator.run(load)?;
        std::thread::sleep(SETTLE);
        let after = self.server.pid.and_then(CpuTime::of);
        let used = after
            .zip(before)
            .map(|(after, before)| after.since(&before));
        Ok(Cost::of(&outcome, used))
    }
}

/// Reads an error reply: a command that is not known is skipped, anything else is a failure.
fn unknown(server: &Server, name: &str, answer: &Value) -> Result<Known> {
    let text = error_text(answer);
    if text.to_ascii_lowercase().contains("unknown command") {
        return Ok(Known::No(text));
    }
    Err(Error::Refused {
        addr: server.addr,
        command: name.to_owned(),
        answer: text,
    })
}

impl Cost {
    fn of(outcome: &Outcome, used: Option<Duration>) -> Self {
        let millis = |percentile| outcome.latency.value_at_percentile(percentile) as f64 / 1e6;
        let wall = outcome.wall.as_secs_f64();
        Self {
            cpu: used.map(|used| used.as_secs_f64() * 1e6 / outcome.requests as f64),
            throughput: outcome.requests as f64 / wall,
            p50: millis(50.0),
            p99: millis(99.0),
            generator: outcome.generator_cpu.as_secs_f64() / wall,
        }
    }

    /// Writes it to the CSV file.
    pub(crate) fn record(
        &self,
        report: &mut Report,
        server: &str,
        case: &str,
        round: u32,
    ) -> Result<()> {
        let figures = [
            ("cpu_per_command", "us", self.cpu),
            ("throughput", "commands/s", Some(self.throughput)),
            ("batch_latency_p50", "ms", Some(self.p50)),
            ("batch_latency_p99", "ms", Some(self.p99)),
            ("generator_cpu", "cores", Some(self.generator)),
        ];
        for (metric, unit, value) in figures {
            let Some(value) = value else { continue };
            report.record(Measurement {
                benchmark: "server",
                server,
                case,
                round,
                metric,
                unit,
                value,
            })?;
        }
        Ok(())
    }
}

/// A workload at a pipeline depth, and for each server what its rounds cost (none: skipped).
struct Case {
    workload: &'static Workload,
    pipeline: u32,
    costs: Vec<Vec<Cost>>,
}

/// The workloads that the options name.
pub(crate) fn workloads(options: &ServerOptions) -> Result<Vec<&'static Workload>> {
    workload::find(&options.tests()).map_err(|name| {
        let known: Vec<&str> = workload::WORKLOADS
            .iter()
            .map(|workload| workload.name)
            .collect();
        Error::Options(format!(
            "--tests {name}: known are {} and all",
            known.join(", ")
        ))
    })
}

/// Runs it and reports.
pub(crate) fn run(options: &ServerOptions, report: &mut Report) -> Result<()> {
    let workloads = workloads(options)?;
    let (candidates, mut notes) = launch::candidates(&options.target)?;
    let servers = launch::open_all(&candidates, &[])?;
    let rounds = options.rounds();
    let shape = Shape {
        size: options.size(),
        keyspace: options.keyspace(),
    };
    notes.push(format!(
        "{rounds} rounds, the servers taking turns; medians, with (least..greatest); ratios are medians of each round's own ratio"
    ));
    notes.push("CPU: user + system time of the server's process per command".into());
    report.header(
        &format!(
            "Server CPU per command: {} connections, {}-byte values, {}",
            options.clients(),
            shape.size,
            match shape.keyspace {
                Some(keys) => format!("keys at random out of {}", thousands(keys as f64)),
                None => "a single key".into(),
            }
        ),
        &servers.iter().map(describe).collect::<Vec<_>>(),
        &notes,
    );
    let mut benches = servers
        .iter()
        .map(|server| Bench::open(server, options.clients(), options.generators))
        .collect::<Result<Vec<_>>>()?;
    let skipped = find_unknown(&mut benches, &workloads, shape, options.flush)?;
    let mut cases: Vec<Case> = Vec::new();
    for workload in &workloads {
        cases.extend(options.pipeline().into_iter().map(|pipeline| Case {
            workload,
            pipeline,
            costs: servers.iter().map(|_| Vec::new()).collect(),
        }));
    }
    let bar = report::progress(
        (cases.len() * servers.len()) as u64 * u64::from(rounds),
        "measuring",
    );
    for round in 1..=rounds {
        for case in &mut cases {
            let mut order: Vec<usize> = (0..servers.len()).collect();
            if round % 2 == 0 {
                order.reverse();
            }
            for at in order {
                bar.inc(1);
                if skipped.contains(&(at, case.workload.name)) {
                    continue;
                }
                bar.set_message(format!(
                    "{} {} pipeline {}",
                    servers[at].label, case.workload.name, case.pipeline
                ));
                let requests = options.requests(case.pipeline);
                let cost = benches[at].measure(
                    case.workload,
                    shape,
                    case.pipeline,
                    requests,
                    u64::from(round),
                )?;
                let name = format!("{} pipeline={}", case.workload.name, case.pipeline);
                cost.record(report, &servers[at].product, &name, round)?;
                case.costs[at].push(cost);
            }
        }
    }
    bar.finish_and_clear();
    for bench in &mut benches {
        bench.flush(options.flush)?;
    }
    print_table(report, &servers, &cases);
    print_rates(&servers, &cases);
    draw(report, &servers, &cases)
}

/// Tries every workload on every server; notes those that a server does not know.
fn find_unknown(
    benches: &mut [Bench<'_>],
    workloads: &[&'static Workload],
    shape: Shape,
    flush: bool,
) -> Result<Vec<(usize, &'static str)>> {
    let mut skipped = Vec::new();
    for (at, bench) in benches.iter_mut().enumerate() {
        bench.flush(flush)?;
        for workload in workloads {
            let known = match bench.knows(workload, shape) {
                // Its filling command may be what is not known.
                Err(Error::Refused { answer, .. })
                    if answer.to_ascii_lowercase().contains("unknown command") =>
                {
                    Known::No(answer)
                }
                other => other?,
            };
            if let Known::No(words) = known {
                println!(
                    "{}: {} is skipped: {words}",
                    bench.server.label, workload.name
                );
                skipped.push((at, workload.name));
            }
        }
    }
    Ok(skipped)
}

/// CPU per command, side by side.
fn print_table(report: &mut Report, servers: &[Server], cases: &[Case]) {
    let reference = launch::reference(servers);
    let mut head: Vec<String> = vec!["test".into(), "pipeline".into()];
    head.extend(
        servers
            .iter()
            .map(|server| format!("{}, µs CPU", server.label)),
    );
    for (at, server) in servers.iter().enumerate() {
        if let Some(reference) = reference.filter(|reference| *reference != at) {
            head.push(format!("{} / {}", server.label, servers[reference].label));
            head.extend(["bar".into(), String::new()]);
        }
    }
    let mut table = Table::new(1, head);
    for case in cases {
        let mut row = vec![case.workload.name.to_owned(), case.pipeline.to_string()];
        let cpu = |costs: &[Cost]| Spread::of(costs.iter().filter_map(|cost| cost.cpu));
        row.extend(case.costs.iter().map(|costs| spread::text(cpu(costs), 3)));
        for (at, server) in servers.iter().enumerate() {
            let Some(reference) = reference.filter(|reference| *reference != at) else {
                continue;
            };
            let pairs = case.costs[at].iter().zip(&case.costs[reference]);
            let ratio =
                Spread::of(pairs.filter_map(|(ours, theirs)| Some(ours.cpu? / theirs.cpu?)));
            row.push(spread::text(ratio, 2));
            match (bars::cpu_ratio(case.workload.name, case.pipeline), ratio) {
                (Some(bound), Some(ratio)) => {
                    row.push(format!("<= {bound}"));
                    row.push(report.verdict(server.ours, ratio.median <= bound).into());
                }
                (Some(bound), None) => row.extend([format!("<= {bound}"), String::new()]),
                (None, _) => row.extend([String::new(), String::new()]),
            }
        }
        table.row(row);
    }
    if !table.is_empty() {
        println!("{table}");
    }
}

/// Throughput and latency, which mostly show the load generator.
fn print_rates(servers: &[Server], cases: &[Case]) {
    println!(
        "Throughput and latency as the load generator saw them (it shares the machine with the servers):"
    );
    let mut table = Table::new(
        2,
        [
            "test",
            "server",
            "pipeline",
            "commands/s",
            "batch p50, ms",
            "batch p99, ms",
            "generator, cores",
        ],
    );
    for case in cases {
        for (server, costs) in servers.iter().zip(&case.costs) {
            let of = |value: &dyn Fn(&Cost) -> f64| Spread::of(costs.iter().map(value));
            let Some(throughput) = of(&|cost| cost.throughput) else {
                continue;
            };
            table.row([
                case.workload.name.to_owned(),
                server.label.clone(),
                case.pipeline.to_string(),
                rate(throughput),
                spread::text(of(&|cost| cost.p50), 3),
                spread::text(of(&|cost| cost.p99), 3),
                spread::text(of(&|cost| cost.generator), 2),
            ]);
        }
    }
    println!("{table}");
}

/// Commands per second with their spread.
pub(crate) fn rate(spread: Spread) -> String {
    format!(
        "{} ({}..{})",
        thousands(spread.median),
        thousands(spread.min),
        thousands(spread.max)
    )
}

fn draw(report: &mut Report, servers: &[Server], cases: &[Case]) -> Result<()> {
    if servers.iter().all(|server| server.pid.is_none()) {
        return Ok(());
    }
    let Some(path) = report.plot_path("server-cpu.svg") else {
        return Ok(());
    };
    let median = |costs: &Vec<Cost>| {
        Spread::of(costs.iter().filter_map(|cost| cost.cpu)).map(|cpu| cpu.median)
    };
    let groups = cases
        .iter()
        .map(|case| {
            let name = format!("{} P={}", case.workload.name, case.pipeline);
            (name, case.costs.iter().map(median).collect())
        })
        .collect();
    let plot = Bars {
        y_axis: "server CPU per command, µs (user + system)".into(),
        series: servers
            .iter()
            .map(|server| server.product.clone())
            .collect(),
        groups,
        digits: 2,
    };
    plot::bars(
        &path,
        "What a command costs the server (P: pipeline depth; medians)",
        &report.provenance(),
        &plot,
    )
}

/// `key:` and twelve digits, as the workloads name keys.
pub(crate) fn key_name(index: u64) -> [u8; 16] {
    let mut name = *b"key:000000000000";
    write_digits(&mut name[4..], index);
    name
}
