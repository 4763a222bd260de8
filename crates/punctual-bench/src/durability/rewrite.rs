//! A rewrite of the append-only file under write load.

use super::settings;
use crate::error::Result;
use crate::launch::{self, Candidate, Server};
use crate::options::DurabilityOptions;
use crate::report::Report;
use crate::sheet::Sheet;
use crate::stall::{self, Background, Stall, WRITES, ms};
use crate::{bars, keyload};
use punctual_figures::table::thousands;

/// The operation that is measured.
const REWRITE: Background = Background {
    command: "BGREWRITEAOF",
    in_progress: "aof_rewrite_in_progress",
    status: "aof_last_bgrewrite_status",
    copied: "aof_last_cow_size",
};

/// Measures and prints a table.
pub(super) fn run(
    options: &DurabilityOptions,
    candidates: &[Candidate],
    report: &mut Report,
) -> Result<()> {
    let servers = launch::open_all(candidates, &settings("everysec"))?;
    let keys = options.common.keys();
    let mut stalls = Vec::new();
    for server in &servers {
        stall::load(server, keys)?;
        let stall = REWRITE.measure(server, keys)?;
        let figures = [
            ("longest_get_during", "ms", ms(stall.during.max())),
            ("longest_get_before", "ms", ms(stall.calm.max())),
            ("rewrite", "s", stall.took.as_secs_f64()),
            (
                "extra_memory",
                "share",
                extra(server, &stall).unwrap_or(f64::NAN),
            ),
        ];
        report.record_all("durability", &server.product, "rewrite", 1, figures)?;
        // Free the memory for the next server.
        server.client()?.expect(&["FLUSHALL"])?;
        stalls.push(stall);
    }
    say!(
        "Rewrite of {} keys of 16 bytes with values of {} bytes, with AOF everysec; one connection sends SETs, {WRITES} at a \
         time, another one GET after the other:",
        thousands(keys as f64),
        keyload::VALUE.len()
    );
    let mut sheet = Sheet::new("BGREWRITEAOF", &servers);
    let all: Vec<&Stall> = stalls.iter().collect();
    stall::print_latency(&mut sheet, report, "the rewrite", &all, bars::REWRITE_STALL);
    let extra = servers.iter().zip(&stalls).map(|(server, stall)| {
        let share = extra(server, stall);
        let text = share.map_or("-".into(), |share| format!("{:.1}", share * 100.0));
        (
            text,
            share.is_some_and(|share| share <= bars::REWRITE_MEMORY),
        )
    });
    let bar = format!("<= {}", bars::REWRITE_MEMORY * 100.0);
    sheet.counted(report, "extra memory, % of resident", &bar, extra);
    stall::print_rest(&mut sheet, "the rewrite", &all);
    say!("{sheet}");
    Ok(())
}

/// Returns the additional memory as a share of the memory before the rewrite: the growth of the process, and for a
/// redis-server also the pages that were copied because its child shares them.
fn extra(server: &Server, stall: &Stall) -> Option<f64> {
    let (before, growth) = stall.resident?;
    let copied = if server.ours { 0 } else { stall.copied };
    Some((growth + copied) as f64 / before as f64)
}
