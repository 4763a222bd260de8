//! `bench durability`: the cost of the append-only file.
//!
//! Every part starts the servers anew with the settings that it measures, and without automatic rewrites. The files are in
//! the directory for temporary files: the time of an fsync there decides the figures of `appendfsync always`.

mod always;
mod everysec;
mod rewrite;

use crate::error::Result;
use crate::launch::{self, Candidate, Server};
use crate::options::{DurabilityOptions, DurabilityTest};
use crate::report::{Report, describe};
use punctual_figures::table::thousands;

/// The settings of an append-only file with this `appendfsync`.
fn settings(fsync: &'static str) -> [(&'static str, &'static str); 3] {
    [
        ("appendonly", "yes"),
        ("appendfsync", fsync),
        ("auto-aof-rewrite-percentage", "0"),
    ]
}

/// Servers of the same programs, without and with an append-only file.
struct Variants {
    plain: Vec<Server>,
    logged: Vec<Server>,
}

impl Variants {
    fn open(candidates: &[Candidate], fsync: &'static str) -> Result<Self> {
        Ok(Self {
            plain: launch::open_all(candidates, &[])?,
            logged: launch::open_all(candidates, &settings(fsync))?,
        })
    }

    /// Returns the servers' indices in the order of a round: every other round begins at the end.
    fn order(&self, round: u32) -> Vec<usize> {
        let order = 0..self.logged.len();
        if round.is_multiple_of(2) {
            order.rev().collect()
        } else {
            order.collect()
        }
    }
}

/// Runs the benchmark and prints the report.
pub(crate) fn run(options: &DurabilityOptions, report: &mut Report) -> Result<()> {
    let (candidates, mut notes) =
        launch::fresh_candidates(&options.common.target, "an append-only file")?;
    notes.push(format!(
        "append-only files in {}, without automatic rewrites",
        std::env::temp_dir().display()
    ));
    notes.push(format!(
        "{} round(s), alternating servers; medians, with (least..greatest); ratios are medians of each round's own ratio",
        options.common.rounds()
    ));
    notes.push("CPU: user + system time of the server's process per SET".into());
    let servers = launch::open_all(&candidates, &[])?;
    report.header(
        &format!(
            "Append-only file: SETs with fsync every second (CPU) and always (throughput), a rewrite of {} keys",
            thousands(options.common.keys() as f64)
        ),
        &servers.iter().map(describe).collect::<Vec<_>>(),
        &notes,
    );
    drop(servers);
    if options.has(DurabilityTest::Everysec) {
        everysec::run(options, &candidates, report)?;
    }
    if options.has(DurabilityTest::Always) {
        always::run(options, &candidates, report)?;
    }
    if options.has(DurabilityTest::Rewrite) {
        rewrite::run(options, &candidates, report)?;
    }
    Ok(())
}
