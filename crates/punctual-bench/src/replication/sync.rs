//! Full sync of many keys: its duration, and the longest GET on the primary.

use std::time::{Duration, Instant};

use super::{Name, SETTINGS, attach, check_limit, is_attached, redis};
use crate::bars;
use crate::error::{Error, Result};
use crate::launch::{Candidate, Server};
use crate::options::ReplicationOptions;
use crate::report::Report;
use crate::sheet::{Bound, Sheet, hundredths, ratios, spreads};
use crate::stall::{self, Stall, ms};
use punctual_figures::table::{millis, thousands};

/// Measures and prints a table with a column per pair.
pub(super) fn run(
    options: &ReplicationOptions,
    programs: &[(&Candidate, Name)],
    report: &mut Report,
) -> Result<()> {
    let keys = options.common.keys();
    let count = programs.len();
    let mut rounds: Vec<Vec<Stall>> = (0..count * count).map(|_| Vec::new()).collect();
    for round in 1..=options.common.rounds() {
        for (at, (primary, name)) in programs.iter().enumerate() {
            let primary = primary.open(&SETTINGS)?;
            stall::load(&primary, keys)?;
            for (to, (replica, replica_name)) in programs.iter().enumerate() {
                let stall = once(&primary, &replica.open(&SETTINGS)?, keys)?;
                let case = format!("full sync to {}", replica_name.label);
                let figures = [
                    ("duration", "s", stall.took.as_secs_f64()),
                    ("longest_get_during", "ms", ms(stall.during.max())),
                    ("longest_get_before", "ms", ms(stall.calm.max())),
                ];
                report.record_all("replication", &name.product, &case, round, figures)?;
                rounds[at * count + to].push(stall);
            }
        }
    }
    let columns: Vec<(String, bool)> = programs
        .iter()
        .flat_map(|(_, from)| {
            let label = |to: &Name| format!("{} -> {}", from.label, to.label);
            programs.iter().map(move |(_, to)| (label(to), from.ours))
        })
        .collect();
    say!(
        "Full sync of {} keys; a client of the primary sends one GET after the other:",
        thousands(keys as f64)
    );
    let mut sheet = Sheet::with_columns("full sync", &columns);
    let of = |value: &dyn Fn(&Stall) -> f64| spreads(&rounds, |stall| Some(value(stall)));
    let seconds = of(&|s| s.took.as_secs_f64());
    sheet.shown("from REPLICAOF to link up, s", &seconds, hundredths);
    if let Some(redis) = redis(programs) {
        let base = redis * count + redis;
        // A replica of ours of a redis-server has no bar.
        let base_of = |at: usize| columns[at].1.then_some(base);
        let ratio =
            |one: &Stall, base: &Stall| Some(one.took.as_secs_f64() / base.took.as_secs_f64());
        let name = format!("ratio to {}", columns[base].0);
        let bound = Bound::AtMost(bars::SYNC_RATIO);
        sheet.ratio(report, &name, &ratios(&rounds, base_of, ratio), bound);
    }
    let longest = of(&|s| ms(s.during.max()));
    sheet.within(
        report,
        "longest GET during it, ms",
        &longest,
        bars::SYNC_STALL,
    );
    sheet.shown(
        "longest GET before it, ms",
        &of(&|s| ms(s.calm.max())),
        millis,
    );
    let p999 = of(&|s| ms(s.during.value_at_quantile(0.999)));
    sheet.shown("p99.9 during it, ms", &p999, millis);
    let growth = spreads(&rounds, |s| Some(s.resident?.1 as f64 / f64::from(1 << 20)));
    sheet.shown("primary's growth, MiB", &growth, hundredths);
    say!("{sheet}");
    Ok(())
}

/// Attaches a fresh replica and measures until it is up. Detaches it.
fn once(primary: &Server, replica: &Server, keys: u64) -> Result<Stall> {
    let (mut starter, mut watcher) = (replica.client()?, replica.client()?);
    let begun = Instant::now();
    let stall = stall::measure(
        primary,
        keys,
        false,
        || attach(&mut starter, primary),
        || {
            check_limit(replica, begun)?;
            Ok(is_attached(&mut watcher)?.then_some(0))
        },
    )?;
    let size = watcher.integer(&["DBSIZE"])?;
    if size != keys as i64 {
        return Err(Error::Refused {
            addr: replica.addr,
            command: "DBSIZE".into(),
            answer: format!("{size} keys after a full sync of {keys}"),
        });
    }
    starter.expect(&["REPLICAOF", "NO", "ONE"])?;
    // The primary notices the end of the link before the next measurement.
    std::thread::sleep(Duration::from_millis(100));
    Ok(stall)
}
