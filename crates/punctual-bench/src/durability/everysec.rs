//! Server CPU per SET with `appendfsync everysec`.

use std::time::Duration;

use super::Variants;
use crate::bars;
use crate::cost::{Bench, Shape};
use crate::csv::Measurement;
use crate::error::{Error, Result};
use crate::launch::{self, Candidate};
use crate::options::DurabilityOptions;
use crate::report::{self, Report};
use crate::sheet::{Bound, Sheet, ratios, spreads};
use crate::workload;

const CLIENTS: u32 = 50;
const SHAPE: Shape = Shape {
    size: 32,
    keyspace: Some(100_000),
};
/// Delay until the last second's write and fsync are done and counted.
const SETTLE: Duration = Duration::from_millis(1_200);

/// CPU per SET in µs of one round; `None` where it cannot be read.
#[derive(Debug, Clone, Copy)]
struct Round {
    plain: Option<f64>,
    logged: Option<f64>,
}

/// Measures, and prints a table per pipeline depth.
pub(super) fn run(
    options: &DurabilityOptions,
    candidates: &[Candidate],
    report: &mut Report,
) -> Result<()> {
    let variants = Variants::open(candidates, "everysec")?;
    let open = |server| {
        let mut bench = Bench::open(server, CLIENTS, 1)?;
        bench.settle = SETTLE;
        Ok::<_, Error>(bench)
    };
    let mut plain = variants
        .plain
        .iter()
        .map(open)
        .collect::<Result<Vec<_>>>()?;
    let mut logged = variants
        .logged
        .iter()
        .map(open)
        .collect::<Result<Vec<_>>>()?;
    let set = workload::find(&["set"]).map_err(|name| Error::Options(name.to_owned()))?[0];
    let work = bars::LOG_PIPELINES.len() * plain.len() * 2;
    let bar = report::progress(work as u64 * u64::from(options.common.rounds()), "everysec");
    let mut tables = Vec::new();
    for pipeline in bars::LOG_PIPELINES {
        let mut rounds: Vec<Vec<Round>> = plain.iter().map(|_| Vec::new()).collect();
        for round in 1..=options.common.rounds() {
            for at in variants.order(round) {
                let cpu = |bench: &mut Bench<'_>| {
                    bar.inc(1);
                    let requests = options.common.requests(pipeline);
                    let cost = bench.measure(set, SHAPE, pipeline, requests, round.into());
                    cost.map(|cost| cost.cpu)
                };
                let one = Round {
                    plain: cpu(&mut plain[at])?,
                    logged: cpu(&mut logged[at])?,
                };
                rounds[at].push(one);
                let product = &variants.logged[at].product;
                for (metric, value) in [("cpu_without_aof", one.plain), ("cpu_aof", one.logged)] {
                    let Some(value) = value else { continue };
                    report.record(Measurement {
                        benchmark: "durability",
                        server: product,
                        case: &format!("everysec pipeline={pipeline}"),
                        round,
                        metric,
                        unit: "us",
                        value,
                    })?;
                }
            }
        }
        tables.push((pipeline, rounds));
    }
    bar.finish_and_clear();
    let of = launch::reference(&variants.logged);
    for (pipeline, rounds) in tables {
        let title = format!("SET, pipeline {pipeline}");
        let mut sheet = Sheet::new(&title, &variants.logged);
        let micros = |value: f64| format!("{value:.3}");
        sheet.shown("no AOF, µs CPU", &spreads(&rounds, |r| r.plain), micros);
        sheet.shown(
            "AOF everysec, µs CPU",
            &spreads(&rounds, |r| r.logged),
            micros,
        );
        let own = ratios(&rounds, Some, |one, own| Some(one.logged? / own.plain?));
        let bound = Bound::AtMost(bars::EVERYSEC_CPU_RATIO);
        sheet.ratio(report, "ratio to no AOF", &own, bound);
        if let Some(of) = of {
            let base = |at| (at != of).then_some(of);
            let theirs = ratios(&rounds, base, |one, base| Some(one.logged? / base.logged?));
            let bound = Bound::AtMost(bars::EVERYSEC_CPU_RATIO_TO_REDIS);
            let name = format!("ratio to {} with AOF", variants.logged[of].label);
            sheet.ratio(report, &name, &theirs, bound);
        }
        say!("{sheet}");
    }
    Ok(())
}
