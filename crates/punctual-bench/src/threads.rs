//! `bench server --threads`: the same load on different numbers of event loops, and what more loops cost beside one.
//!
//! Punctual gets `threads N`, redis `io-threads N` with `io-threads-do-reads`, its nearest equivalent: redis still runs
//! all commands on one thread.

use crate::bars;
use crate::cost::{Bench, Cost, Known, Shape};
use crate::cpu;
use crate::error::Result;
use crate::launch::{self, Candidate, Server};
use crate::options::{Program, ServerOptions};
use crate::plot::{self, Bars};
use crate::process;
use crate::report::{Report, describe};
use crate::rounds::{self, Case};
use crate::spread::{self, Spread};
use crate::table::{Table, thousands};
use crate::workload::Workload;

/// A server with a number of threads.
struct Variant {
    server: Server,
    threads: u32,
}

/// Runs the benchmark and prints the report.
pub(crate) fn run(options: &ServerOptions, report: &mut Report) -> Result<()> {
    let workloads = cpu::workloads(options)?;
    let (candidates, mut notes) = launch::fresh_candidates(&options.target, "--threads")?;
    let mut variants = Vec::new();
    for candidate in &candidates {
        for &threads in &options.threads {
            variants.push(start(candidate, threads)?);
        }
    }
    let shape = Shape::of(options);
    notes.push(format!(
        "{} round(s), alternating variants; medians, with (least..greatest)",
        options.rounds()
    ));
    notes.push(
        "redis: io-threads N with io-threads-do-reads; its commands still run on one thread".into(),
    );
    notes.push(format!(
        "{} load generator thread(s) share the machine; near 1.0 cores each, they limit the throughput",
        options.generators
    ));
    report.header(
        &format!("Threads: {}", shape.written(options.clients())),
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
    let mut known = Vec::new();
    for workload in workloads {
        if known_to_all(&mut benches, workload, shape)? {
            known.push(workload);
        }
    }
    let cases = rounds::run(
        &known,
        &mut benches,
        options,
        report,
        |_, _| false,
        |at| format!(" threads={}", variants[at].threads),
    )?;
    print_table(&variants, &cases);
    print_ratios(report, &variants, &cases);
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

/// Returns true if all servers can run the workload. Prints a note on each server that cannot.
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
                "least served",
            ],
        );
        for (variant, costs) in variants.iter().zip(&case.costs) {
            let of = |value: fn(&Cost) -> Option<f64>| rounds::spread(costs, value);
            let all_threads = variant.server.pid.and_then(process::thread_count);
            table.row([
                variant.server.product.clone(),
                variant.threads.to_string(),
                all_threads.map_or("-".into(), |count| count.to_string()),
                of(|cost| Some(cost.throughput)).map_or("-".into(), |rate| rate.written(thousands)),
                spread::text(of(|cost| cost.cpu), 3),
                spread::text(of(|cost| Some(cost.p50)), 2),
                spread::text(of(|cost| Some(cost.p99)), 2),
                spread::text(of(|cost| Some(cost.generator)), 2),
                spread::text(of(|cost| Some(cost.least_share)), 2),
            ]);
        }
        say!("{table}");
    }
}

/// Prints the CPU per command of several loops by that of one, as medians of each round's own ratio.
fn print_ratios(report: &mut Report, variants: &[Variant], cases: &[Case]) {
    let one = |variant: &&Variant| variant.server.ours && variant.threads == 1;
    let Some(one) = variants.iter().position(|variant| one(&variant)) else {
        return;
    };
    say!(
        "CPU per command by that of one loop; and batches of the connection that is served least, by the mean:"
    );
    let head = [
        "test",
        "pipeline",
        "loops",
        "1 loop, µs",
        "by 1 loop",
        "bar",
        "",
        "least served",
        "bar",
        "",
    ];
    let mut table = Table::new(1, head);
    for case in cases {
        let name = case.workload.name;
        for (variant, costs) in variants.iter().zip(&case.costs) {
            if !variant.server.ours || variant.threads == 1 {
                continue;
            }
            let pairs = costs.iter().zip(&case.costs[one]);
            let ratio = Spread::of(pairs.filter_map(|(some, one)| Some(some.cpu? / one.cpu?)));
            let share = rounds::spread(costs, |cost| Some(cost.least_share));
            let mut row = vec![
                name.to_owned(),
                case.pipeline.to_string(),
                variant.threads.to_string(),
                spread::text(rounds::spread(&case.costs[one], |cost| cost.cpu), 3),
                spread::text(ratio, 2),
            ];
            match (
                bars::loops_ratio(name, case.pipeline, variant.threads),
                ratio,
            ) {
                (Some(bound), Some(ratio)) => row.extend([
                    format!("<= {bound}"),
                    report.verdict(true, ratio.median <= bound).into(),
                ]),
                _ => row.extend([String::new(), String::new()]),
            }
            row.push(spread::text(share, 2));
            let contended = bars::CONTENDED_TESTS.contains(&name);
            match share.filter(|_| contended) {
                Some(share) => row.extend([
                    format!(">= {}", bars::CONTENDED_LEAST_SHARE),
                    report
                        .verdict(true, share.median >= bars::CONTENDED_LEAST_SHARE)
                        .into(),
                ]),
                None => row.extend([String::new(), String::new()]),
            }
            table.row(row);
        }
    }
    say!("{table}");
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
            let plot = Bars {
                y_axis: y_axis.into(),
                series: series.clone(),
                groups: rounds::groups(cases, value),
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
