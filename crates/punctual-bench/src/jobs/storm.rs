//! The storm of `bench jobs`: all delayed jobs are due in one millisecond. One worker takes and acknowledges them, while another
//! client reads keys.

use std::sync::atomic::{AtomicBool, Ordering};

use hdrhistogram::Histogram;
use punctual_resp::encode_command;

use super::{KEY, Late, Run, add, first_ms, work};
use crate::bars;
use crate::error::Result;
use crate::keyload;
use crate::launch::Server;
use crate::load::latency_histogram;
use crate::options::JobsOptions;
use crate::reader::{LIVE_KEYS, live_name, read};
use crate::report::Report;
use crate::sheet::{Sheet, spreads};
use punctual_figures::table::millis;

/// Results of one server in one round.
#[derive(Debug)]
pub(super) struct Storm {
    late: Late,
    /// Time from the due time to the last acknowledgement.
    done_ms: f64,
    /// Latency of the GETs meanwhile, in ns.
    gets: Histogram<u64>,
}

impl Storm {
    /// Returns figures in ms by name.
    pub(super) fn figures(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("storm_done", self.done_ms),
            ("storm_get_p99", self.get(99.0)),
            ("storm_get_max", self.get(100.0)),
        ]
    }

    /// Returns the milliseconds of GETs at a percentile.
    fn get(&self, percentile: f64) -> f64 {
        self.gets.value_at_percentile(percentile) as f64 / 1e6
    }
}

/// Measures one server.
pub(super) fn run(options: &JobsOptions, server: &Server) -> Result<Storm> {
    let (mut worker, count) = (server.client()?, options.delayed());
    let hidden = indicatif::ProgressBar::hidden();
    keyload::load(&mut worker, LIVE_KEYS, "SET", &hidden, |index, out| {
        encode_command(out, &[b"SET", &live_name(index)[..], keyload::VALUE]);
    })?;
    worker.expect(&["DEL", KEY])?;
    let due_ms = first_ms(&mut worker, count)?;
    add(server, count, |_| due_ms)?;
    let stop = AtomicBool::new(false);
    let (late, readings) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(server, due_ms, 0, 1, &stop));
        let late = work(server, &mut worker, count, due_ms, 0);
        stop.store(true, Ordering::Relaxed);
        let readings = reader.join();
        (
            late,
            readings.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        )
    });
    let (late, readings) = (late?, readings?);
    worker.expect(&["DEL", KEY])?;
    keyload::load(&mut worker, LIVE_KEYS, "UNLINK", &hidden, |index, out| {
        encode_command(out, &[b"UNLINK", &live_name(index)[..]]);
    })?;
    let done_us = late.end_us.saturating_sub(due_ms * 1000);
    let mut gets = latency_histogram();
    for sample in &readings.samples {
        // A GET in flight at the due time belongs to the storm.
        if sample.sent + (sample.took / 1000) as i64 >= 0 && sample.sent <= done_us as i64 {
            gets.saturating_record(sample.took);
        }
    }
    Ok(Storm {
        late,
        done_ms: done_us as f64 / 1e3,
        gets,
    })
}

/// Prints the results, if there are any.
pub(super) fn print(report: &mut Report, sheet: &mut Sheet, runs: &[Vec<Run>]) {
    let of = |value: &dyn Fn(&Storm) -> f64| spreads(runs, |run| Some(value(run.storm.as_ref()?)));
    let done = of(&|storm| storm.done_ms);
    if done.iter().all(Option::is_none) {
        return;
    }
    sheet.within(
        report,
        "storm: all done after, ms",
        &done,
        bars::JOB_STORM_DONE,
    );
    let get = |percentile| of(&move |storm: &Storm| storm.get(percentile));
    sheet.shown("storm: GET p50, ms", &get(50.0), millis);
    sheet.within(
        report,
        "storm: GET p99, ms",
        &get(99.0),
        bars::STORM_GET_P99,
    );
    sheet.shown("storm: GET max, ms", &get(100.0), millis);
    let wrong = of(&|storm| (storm.late.lost + storm.late.early + storm.late.again) as f64);
    sheet.none(report, "storm: jobs lost, early or again", &wrong);
}
