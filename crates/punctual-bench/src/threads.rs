//! `bench server --threads`: the same load on different numbers of event loops.
//!
//! Punctual gets `threads N`; redis `io-threads N` with reads on them too, which is the nearest it
//! has: its commands still run on one thread.

use crate::cost::{Bench, Cost, Known, Shape};
use crate::cpu;
use crate::error::Result;
use crate::launch::{self, Candidate, Server};
use crate::options::{Program, ServerOptions};
use crate::plot::{self, Bars};
use crate::process;
use crate::report::{self, Report, describe};
use crate::spread::{self, Spread};
use crate::table::{Table, thousands};
use crate::workload::Workload;

/// A server with a number of threads.
struct Variant {
    server: Server,
    threads: u32,
}

/// A workload at a pipeline depth, and for each variant what its rounds cost.
struct Case {
    workload: &'static Workload,
    pipeline: u32,
    costs: Vec<Vec<Cost>>,
}

/// Runs it and reports.
pub(crate) fn run(options: &ServerOptions, report: &mut Report) -> Result<()> {
    let workloads = cpu::workloads(options)?;
    let (candidates, mut notes) = launch::fresh_candidates(&options.target, "--threads")?;
    let mut variants = Vec::new();
    for candidate in &candidates {
        for &threads in &options.threads {
            variants.push(start(candidate, threads)?);
        }
    }
    let rounds = options.rounds();
    let shape = Shape {
        size: options.size(),
        keyspace: options.keyspace(),
    };
    notes.push(format!(
        "{rounds} round(s), all variants taking turns; medians, with (least..greatest)"
    ));
    notes.push(
        "redis: io-threads N with io-threads-do-reads; its commands still run on one thread".into(),
    );
    notes.push(format!(
        "{} load generator thread(s) share the machine; near 1.0 cores each, they are what limits the throughput",
        options.generators
    ));
    report.header(
        &format!(
            "Threads: {} connections, {}-byte values, {}",
            options.clients(),
            shape.size,
            match shape.keyspace {
                Some(keys) => format!("keys at random out of {}", thousands(keys as f64)),
                None => "a single key".into(),
            }
        ),
        &variants
            .iter()
            .map(|variant| describe(&variant.server))
            .collect::<Vec<_>>(),
        &notes,
    );
    let mut benches = variants
        .iter()
        .map(|variant| Bench::open(&variant.server, options.clients(), options.generators))
        .collect::<Result<Vec<_>>>()?;
    let mut cases: Vec<Case> = Vec::new();
    for workload in workloads {
        if !known_to_all(&mut benches, workload, shape)? {
            continue;
        }
        cases.extend(options.pipeline().into_iter().map(|pipeline| Case {
            workload,
            pipeline,
            costs: variants.iter().map(|_| Vec::new()).collect(),
        }));
    }
    let bar = report::progress(
        (cases.len() * variants.len()) as u64 * u64::from(rounds),
        "measuring",
    );
    for round in 1..=rounds {
        for case in &mut cases {
            let mut order: Vec<usize> = (0..variants.len()).collect();
            if round % 2 == 0 {
                order.reverse();
            }
            for at in order {
                let variant = &variants[at];
                bar.set_message(format!(
                    "{} {} pipeline {}",
                    variant.server.label, case.workload.name, case.pipeline
                ));
                let requests = options.requests(case.pipeline);
                let cost = benches[at].measure(
                    case.workload,
                    shape,
                    case.pipeline,
                    requests,
                    u64::from(round),
                )?;
                let name = format!(
                    "{} pipeline={} threads={}",
                    case.workload.name, case.pipeline, variant.threads
                );
                cost.record(report, &variant.server.product, &name, round)?;
                case.costs[at].push(cost);
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    print_table(&variants, &cases);
    draw(report, &variants, &cases, options.clients())
}

fn start(candidate: &Candidate, threads: u32) -> Result<Variant> {
    let number = threads.to_string();
    let settings = match candidate.program() {
        Some(Program::Redis) if threads > 1 => {
            vec![
                ("io-threads", number.as_str()),
                ("io-threads-do-reads", "yes"),
            ]
        }
        Some(Program::Redis) => Vec::new(),
        _ => vec![("threads", number.as_str())],
    };
    let mut server = candidate.open(&settings)?;
    server.label = format!("{} x{threads}", server.label);
    Ok(Variant { server, threads })
}

/// Whether all can run it; says who cannot.
fn known_to_all(benches: &mut [Bench<'_>], workload: &Workload, shape: Shape) -> Result<bool> {
    for bench in benches {
        if let Known::No(words) = bench.knows(workload, shape)? {
            say!(
                "{}: {} is skipped: {words}",
                bench.server.label,
                workload.name
            );
            return Ok(false);
        }
    }
    Ok(true)
}

fn print_table(variants: &[Variant], cases: &[Case]) {
    for case in cases {
        say!("{}, pipeline {}:", case.workload.name, case.pipeline);
        let mut table = Table::new(
            1,
            [
                "server",
                "threads",
                "of the process",
                "commands/s",
                "CPU, µs",
                "batch p50, ms",
                "batch p99, ms",
                "generator, cores",
            ],
        );
        for (variant, costs) in variants.iter().zip(&case.costs) {
            let of =
                |value: &dyn Fn(&Cost) -> Option<f64>| Spread::of(costs.iter().filter_map(value));
            let all_threads = variant.server.pid.and_then(process::thread_count);
            table.row([
                variant.server.product.clone(),
                variant.threads.to_string(),
                all_threads.map_or("-".into(), |count| count.to_string()),
                of(&|cost| Some(cost.throughput))
                    .map_or("-".into(), |rate| rate.written(thousands)),
                spread::text(of(&|cost| cost.cpu), 3),
                spread::text(of(&|cost| Some(cost.p50)), 2),
                spread::text(of(&|cost| Some(cost.p99)), 2),
                spread::text(of(&|cost| Some(cost.generator)), 2),
            ]);
        }
        say!("{table}");
    }
}

fn draw(report: &mut Report, variants: &[Variant], cases: &[Case], clients: u32) -> Result<()> {
    let series: Vec<String> = variants
        .iter()
        .map(|variant| format!("{}, {} thread(s)", variant.server.product, variant.threads))
        .collect();
    let name = |what: &str| {
        format!("{what} by threads, {clients} connections (P: pipeline depth; medians)")
    };
    let mut one =
        |file: &str, title: String, y_axis: &str, digits, value: &dyn Fn(&Cost) -> Option<f64>| {
            let Some(path) = report.plot_path(file) else {
                return Ok(());
            };
            let median = |costs: &Vec<Cost>| {
                Spread::of(costs.iter().filter_map(value)).map(|all| all.median)
            };
            let groups = cases
                .iter()
                .map(|case| {
                    let name = format!("{} P={}", case.workload.name, case.pipeline);
                    (name, case.costs.iter().map(median).collect())
                })
                .collect();
            let plot = Bars {
                y_axis: y_axis.into(),
                series: series.clone(),
                groups,
                digits,
            };
            plot::bars(&path, &title, &report.provenance(), &plot)
        };
    one(
        "server-threads-throughput.svg",
        name("Throughput"),
        "thousand commands per second",
        0,
        &|cost| Some(cost.throughput / 1e3),
    )?;
    one(
        "server-threads-cpu.svg",
        name("Server CPU"),
        "server CPU per command, µs (user + system)",
        2,
        &|cost| cost.cpu,
    )
}
