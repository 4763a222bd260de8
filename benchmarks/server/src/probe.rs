//! `bench expiry --probe`: the lateness of some keys among many keys whose deadlines are far away
//! (redis#15620).
//!
//! A server that samples random keys to find due keys needs many samples until it finds the few
//! that are due.

use punctual_resp::encode_command;

use crate::error::Result;
use crate::events::{Expected, Receiver};
use crate::keyload;
use crate::launch::{self, Program};
use crate::options::ExpiryOptions;
use crate::report::Report;
use crate::sheet::{self, Bar, Figures, Sheet};
use crate::table::thousands;
use crate::workload::key_name;

/// Number of keys whose lateness is measured at each size.
const PROBES: u64 = 1_000;

/// Numbers of keys with far deadlines.
const SIZES: [u64; 4] = [0, 10_000, 100_000, 1_000_000];

/// TTL of the keys with far deadlines in ms: a day.
const FAR_MS: &[u8] = b"86400000";

/// Runs the benchmark and prints the report.
pub(crate) fn run(
    options: &ExpiryOptions,
    programs: &[Program],
    report: &mut Report,
) -> Result<()> {
    let common = &options.common;
    let (most, spread) = (common.keys(50_000, 1_000_000), common.seconds(4, 5));
    let (spread_ms, patience_ms) = (spread.as_millis() as u64, common.usual(6_000, 10_000));
    let title = format!(
        "Lateness of `expired` events: {} keys, deadlines over {} s, among others due in a day",
        thousands(PROBES as f64),
        spread.as_secs_f64()
    );
    report.header(
        &title,
        programs,
        &["lateness = time of reception - deadline; inf: the event did not arrive"],
    );
    let bars = [
        ("late p99, ms", Bar::AtMost(0.5)),
        ("early", Bar::Never(0.0)),
    ];
    let mut sheet = Sheet::new("expiry", sheet::columns(programs));
    for size in SIZES.into_iter().filter(|size| *size <= most) {
        let servers = launch::start_all(programs, &[launch::EVENTS])?;
        for server in &servers {
            keyload::load(&mut server.client()?, size, "SET", |index, out| {
                encode_command(
                    out,
                    &[b"SET", &key_name(index)[..], keyload::VALUE, b"PX", FAR_MS],
                );
            })?;
        }
        let case = format!("among {}", thousands(size as f64));
        sheet.measure(report, &case, &bars, common.rounds(1, 1), |at, _| {
            let expected = Expected {
                event: "expired",
                names: PROBES,
                each: 1,
                step_ms: 0,
            };
            let receiver = Receiver::subscribe(&servers[at], expected)?;
            let mut client = servers[at].client()?;
            let first_ms =
                keyload::load_due(&mut client, PROBES, 1, "SET", |first_ms, index, out| {
                    keyload::set_due(first_ms + index * spread_ms / PROBES, index, out);
                })?;
            let late = receiver.wait(PROBES, first_ms + spread_ms + patience_ms)?;
            let mut figures = Figures::default();
            late.put(&mut figures);
            Ok(figures)
        })?;
    }
    sheet.show(report)?;
    Ok(())
}
