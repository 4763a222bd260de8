//! `bench server`: the server's CPU time per command.
//!
//! The servers alternate within a round, and each round reverses the order, so that other load on the machine affects
//! all of them equally. Ratios are computed within a round.

use crate::bars;
use crate::cost::{Bench, Cost, Known, Shape, is_unknown};
use crate::error::{Error, Result};
use crate::launch::{self, Server};
use crate::options::ServerOptions;
use crate::plot::{self, Bars};
use crate::report::{Report, describe};
use crate::rounds::{self, Case};
use crate::spread::{self, Spread};
use crate::table::{Table, thousands};
use crate::workload::{self, Workload};

/// Returns the workloads that the options name.
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

/// Runs the benchmark and prints the report.
pub(crate) fn run(options: &ServerOptions, report: &mut Report) -> Result<()> {
    let workloads = workloads(options)?;
    let (candidates, mut notes) = launch::candidates(&options.target)?;
    let servers = launch::open_all(&candidates, &[])?;
    let shape = Shape::of(options);
    notes.push(format!(
        "{} round(s), alternating servers; medians, with (least..greatest); ratios are medians of each round's own ratio",
        options.rounds()
    ));
    notes.push("CPU: user + system time of the server's process per command".into());
    report.header(
        &format!(
            "Server CPU per command: {}",
            shape.written(options.clients())
        ),
        &servers.iter().map(describe).collect::<Vec<_>>(),
        &notes,
    );
    let mut benches = servers
        .iter()
        .map(|server| Bench::open(server, options.clients(), options.generators))
        .collect::<Result<Vec<_>>>()?;
    let skipped = find_unknown(&mut benches, &workloads, shape, options.flush)?;
    let skips = |at, workload: &Workload| skipped.contains(&(at, workload.name));
    let cases = rounds::run(&workloads, &mut benches, options, report, skips, |_| {
        String::new()
    })?;
    for bench in &mut benches {
        bench.flush(options.flush)?;
    }
    print_table(report, &servers, &cases);
    print_rates(&servers, &cases);
    draw(report, &servers, &cases)
}

/// Runs every workload once on every server. Returns the unsupported ones with the server's index.
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
                // The command that fills its keys may be unknown, too.
                Err(Error::Refused { answer, .. }) if is_unknown(&answer) => Known::No(answer),
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

/// Prints CPU per command, one column per server.
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
        let cpu = |costs: &Vec<Cost>| spread::text(rounds::spread(costs, |cost| cost.cpu), 3);
        row.extend(case.costs.iter().map(cpu));
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
                    let met = ratio.median <= bound;
                    row.push(
                        report
                            .case_verdict(&case.measured(), server.ours, met)
                            .into(),
                    );
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

/// Prints throughput and latency, which mostly depend on the load generator.
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
            let of = |value: fn(&Cost) -> f64| rounds::spread(costs, |cost| Some(value(cost)));
            let Some(throughput) = of(|cost| cost.throughput) else {
                continue;
            };
            table.row([
                case.workload.name.to_owned(),
                server.label.clone(),
                case.pipeline.to_string(),
                throughput.written(thousands),
                spread::text(of(|cost| cost.p50), 3),
                spread::text(of(|cost| cost.p99), 3),
                spread::text(of(|cost| cost.generator), 2),
            ]);
        }
    }
    say!("{table}");
}

/// Maximum number of groups of bars in one plot; beyond it each pipeline depth has its own plot.
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
    let plot = Bars {
        y_axis: "server CPU per command, µs (user + system)".into(),
        series: servers
            .iter()
            .map(|server| server.product.clone())
            .collect(),
        groups: rounds::groups(cases.iter().copied(), &|cost| cost.cpu),
        digits: 2,
    };
    let title = "What a command costs the server (P: pipeline depth; medians)";
    plot::bars(&path, title, &report.provenance(), &plot)
}
