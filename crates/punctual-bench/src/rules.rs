//! `bench server --rules`: what the rules of a user cost: the same load on two servers of a kind. In the second one the user of the
//! connections has three key patterns and lacks a category.

use crate::bars;
use crate::cost::{Bench, Shape};
use crate::cpu;
use crate::error::Result;
use crate::launch::{self, Server};
use crate::options::ServerOptions;
use crate::report::{Report, describe};
use crate::rounds::{self, Case};
use crate::spread::{self, Spread};
use crate::table::Table;

/// The rules, with the names of the workloads' keys. They are set for the default user, which needs no password.
#[rustfmt::skip]
const RULES: [&str; 8] = ["ACL", "SETUSER", "default", "resetkeys", "~my*", "~counter:*", "~key:*", "-@admin"];

/// Runs the benchmark and prints the report.
pub(crate) fn run(options: &ServerOptions, report: &mut Report) -> Result<()> {
    let workloads = cpu::workloads(options)?;
    let (candidates, mut notes) = launch::fresh_candidates(&options.target, "--rules")?;
    let mut servers = Vec::new();
    for candidate in &candidates {
        servers.push(candidate.open(&[])?);
        let mut ruled = candidate.open(&[])?;
        ruled.label.push_str(", rules");
        ruled.client()?.expect(&RULES)?;
        servers.push(ruled);
    }
    let shape = Shape::of(options);
    notes.push(format!(
        "{} round(s), alternating servers; medians, with (least..greatest); ratios are medians of each round's own ratio",
        options.rounds()
    ));
    notes.push(format!("rules: {}", RULES[3..].join(" ")));
    report.header(
        &format!(
            "Server CPU per command of a user with rules: {}",
            shape.written(options.clients())
        ),
        &servers.iter().map(describe).collect::<Vec<_>>(),
        &notes,
    );
    let mut benches = servers
        .iter()
        .map(|server| Bench::open(server, options.clients(), options.generators))
        .collect::<Result<Vec<_>>>()?;
    let suffix = |at: usize| ["", " rules"][at % 2].to_owned();
    let cases = rounds::run(
        &workloads,
        &mut benches,
        options,
        report,
        |_, _| false,
        suffix,
    )?;
    print_table(report, &servers, &cases);
    Ok(())
}

/// Prints CPU per command and the ratio, one row for each test and kind of server.
fn print_table(report: &mut Report, servers: &[Server], cases: &[Case]) {
    let head = [
        "test",
        "pipeline",
        "server",
        "without rules, µs CPU",
        "with rules",
        "ratio",
        "bar",
        "",
    ];
    let mut table = Table::new(1, head);
    for case in cases {
        let name = case.workload.name;
        for (server, costs) in servers.chunks(2).zip(case.costs.chunks(2)) {
            let [without, with] = costs else { continue };
            let pairs = with.iter().zip(without);
            let ratio =
                Spread::of(pairs.filter_map(|(with, without)| Some(with.cpu? / without.cpu?)));
            let cpu = |costs| spread::text(rounds::spread(costs, |cost| cost.cpu), 3);
            let mut row = vec![
                name.to_owned(),
                case.pipeline.to_string(),
                server[0].label.clone(),
                cpu(without),
                cpu(with),
                spread::text(ratio, 3),
            ];
            let (pipeline, bound) = bars::RULES_CPU_RATIO;
            let judged = pipeline == case.pipeline && bars::RULES_TESTS.contains(&name);
            match ratio.filter(|_| judged) {
                Some(ratio) => {
                    let met = ratio.median <= bound;
                    let verdict = report.case_verdict(&case.measured(), server[0].ours, met);
                    row.extend([format!("<= {bound}"), verdict.into()]);
                }
                None => row.extend([String::new(), String::new()]),
            }
            table.row(row);
        }
    }
    say!("{table}");
}
