//! `bench server`: what a command costs the server, in its own CPU time.
//!
//! Servers take turns within a round, and the order turns round with each round, so that whatever
//! else the machine does meets all of them alike; ratios are taken within a round, between
//! neighbours.

use crate::bars;
use crate::cost::{Bench, Cost, Known, Shape};
use crate::error::{Error, Result};
use crate::launch::{self, Server};
use crate::options::ServerOptions;
use crate::plot::{self, Bars};
use crate::report::{self, Report, describe};
use crate::spread::{self, Spread};
use crate::table::{Table, thousands};
use crate::workload::{self, Workload};

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
        "{rounds} round(s), the servers taking turns; medians, with (least..greatest); ratios are medians of each round's own ratio"
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
                let words = words.split(", with args").next().unwrap_or_default();
                say!(
                    "{}: {} is skipped: {words}",
                    bench.server.label,
                    workload.name
                );
                skipped.push((at, workload.name));
            }
        }
    }
    if !skipped.is_empty() {
        say!();
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
        say!("{table}");
    }
}

/// Throughput and latency, which mostly show the load generator.
fn print_rates(servers: &[Server], cases: &[Case]) {
    say!(
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
                throughput.written(thousands),
                spread::text(of(&|cost| cost.p50), 3),
                spread::text(of(&|cost| cost.p99), 3),
                spread::text(of(&|cost| cost.generator), 2),
            ]);
        }
    }
    say!("{table}");
}

/// More bars than this side by side are hard to read: then each pipeline depth has its own plot.
const MOST_GROUPS: usize = 12;

fn draw(report: &mut Report, servers: &[Server], cases: &[Case]) -> Result<()> {
    if servers.iter().all(|server| server.pid.is_none()) {
        return Ok(());
    }
    if cases.len() <= MOST_GROUPS {
        return draw_one(
            report,
            servers,
            &cases.iter().collect::<Vec<_>>(),
            "server-cpu.svg",
        );
    }
    let mut depths: Vec<u32> = cases.iter().map(|case| case.pipeline).collect();
    depths.sort_unstable();
    depths.dedup();
    for depth in depths {
        let of_depth: Vec<&Case> = cases.iter().filter(|case| case.pipeline == depth).collect();
        draw_one(
            report,
            servers,
            &of_depth,
            &format!("server-cpu-pipeline-{depth}.svg"),
        )?;
    }
    Ok(())
}

fn draw_one(report: &mut Report, servers: &[Server], cases: &[&Case], file: &str) -> Result<()> {
    let Some(path) = report.plot_path(file) else {
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
    let title = "What a command costs the server (P: pipeline depth; medians)";
    plot::bars(&path, title, &report.provenance(), &plot)
}
