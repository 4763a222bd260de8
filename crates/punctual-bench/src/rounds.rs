//! The rounds of `bench server`: every workload at every pipeline depth, on alternating servers.

use crate::cost::{Bench, Cost, Shape};
use crate::error::Result;
use crate::options::ServerOptions;
use crate::report::{self, Report};
use crate::scripts;
use crate::spread::Spread;
use crate::table::thousands;
use crate::workload::Workload;

/// A workload at a pipeline depth, and each server's costs per round (empty if skipped).
pub(crate) struct Case {
    pub(crate) workload: &'static Workload,
    pub(crate) pipeline: u32,
    pub(crate) costs: Vec<Vec<Cost>>,
}

impl Case {
    /// Returns the name in the CSV file, without a server's variant.
    pub(crate) fn measured(&self) -> String {
        format!("{} pipeline={}", self.workload.name, self.pipeline)
    }

    /// Returns the name in plots.
    fn name(&self) -> String {
        format!("{} P={}", self.workload.name, self.pipeline)
    }
}

impl Shape {
    /// Returns the parameters in the options.
    pub(crate) fn of(options: &ServerOptions) -> Self {
        Shape {
            size: options.size(),
            keyspace: options.keyspace(),
        }
    }

    /// Returns a description of the load.
    pub(crate) fn written(&self, clients: u32) -> String {
        let keys = match self.keyspace {
            Some(keys) => format!("keys at random out of {}", thousands(keys as f64)),
            None => "a single key".into(),
        };
        format!("{clients} connections, {}-byte values, {keys}", self.size)
    }
}

/// Measures all workloads on all servers, except where `skips`. `suffix` is the server's variant in the CSV file.
pub(crate) fn run(
    workloads: &[&'static Workload],
    benches: &mut [Bench<'_>],
    options: &ServerOptions,
    report: &mut Report,
    skips: impl Fn(usize, &Workload) -> bool,
    suffix: impl Fn(usize) -> String,
) -> Result<Vec<Case>> {
    let (rounds, shape) = (options.rounds(), Shape::of(options));
    let mut cases: Vec<Case> = Vec::new();
    for workload in workloads {
        let depths = options.pipeline().into_iter();
        let depths = depths.filter(|&pipeline| scripts::allows(workload.name, pipeline));
        cases.extend(depths.map(|pipeline| Case {
            workload,
            pipeline,
            costs: benches.iter().map(|_| Vec::new()).collect(),
        }));
    }
    let bar = report::progress(
        (cases.len() * benches.len()) as u64 * u64::from(rounds),
        "measuring",
    );
    for round in 1..=rounds {
        for case in &mut cases {
            let mut order: Vec<usize> = (0..benches.len()).collect();
            if round % 2 == 0 {
                order.reverse();
            }
            for at in order {
                bar.inc(1);
                if skips(at, case.workload) {
                    continue;
                }
                let (bench, name, pipeline) = (&mut benches[at], case.workload.name, case.pipeline);
                bar.set_message(format!("{} {name} pipeline {pipeline}", bench.server.label));
                let cost = bench.measure(
                    case.workload,
                    shape,
                    pipeline,
                    options.requests(pipeline),
                    u64::from(round),
                )?;
                let name = format!("{}{}", case.measured(), suffix(at));
                cost.record(report, &bench.server.product, &name, round)?;
                case.costs[at].push(cost);
            }
        }
    }
    bar.finish_and_clear();
    Ok(cases)
}

/// Returns the spread of a measurement over rounds.
pub(crate) fn spread(costs: &[Cost], value: impl Fn(&Cost) -> Option<f64>) -> Option<Spread> {
    Spread::of(costs.iter().filter_map(value))
}

/// Returns the medians of a measurement as groups of bars.
pub(crate) fn groups<'a>(
    cases: impl IntoIterator<Item = &'a Case>,
    value: &dyn Fn(&Cost) -> Option<f64>,
) -> Vec<(String, Vec<Option<f64>>)> {
    let median = |costs: &Vec<Cost>| spread(costs, value).map(|spread| spread.median);
    cases
        .into_iter()
        .map(|case| (case.name(), case.costs.iter().map(median).collect()))
        .collect()
}
