//! The longest stall of a client while a server runs a large operation in the background: for
//! `bench snapshot`, and for the parts of other benchmarks that rewrite an append-only file or
//! synchronize a replica.
//!
//! One connection sends one GET after the other. Another connection may send SETs, 16 at a time.
//! The stall is the latency of the slowest GET.

use std::fs;
use std::time::{Duration, Instant};

use crate::client::field;
use crate::error::{Error, Result};
use crate::keyload::set_keys;
use crate::launch::{self, Program, Server};
use crate::load::{Generator, Load};
use crate::options::Common;
use crate::report::Report;
use crate::sheet::{self, Bar, Figures, Sheet};
use crate::table::thousands;
use crate::workload::Template;

/// Duration of the measurement before the operation.
const CALM: Duration = Duration::from_secs(3);
/// Interval at which memory and progress are read during the operation.
const POLL: Duration = Duration::from_millis(20);
/// Bytes of a MiB.
pub(crate) const MIB: f64 = 1_048_576.0;

/// Measures an operation on a server with `keys` keys. Sends SETs during the operation if `writes`
/// is true.
///
/// Calls `start` to begin the operation, and polls `ended` until it returns true.
pub(crate) fn stall(
    server: &Server,
    keys: u64,
    writes: bool,
    start: impl FnOnce() -> Result<()>,
    mut ended: impl FnMut() -> Result<bool>,
) -> Result<Figures> {
    let get = Template::new(&["GET", "key:{n}"], 0);
    let set = Template::new(&["SET", "key:{n}", "{data}"], 16);
    let load = |template, pipeline| Load {
        template,
        pipeline,
        requests: u64::MAX,
        keys: 0..keys,
        seed: 1,
        stop: None,
    };
    let mut reader = Generator::connect(server.addr, 1)?;
    let measure = || {
        let sleep = || -> Result<()> {
            std::thread::sleep(CALM);
            Ok(())
        };
        let ((), calm) = reader.run_while(&load(&get, 1), sleep)?;
        let before = server.resident()?;
        let ((took, most), during) = reader.run_while(&load(&get, 1), || {
            // Waits until a GET is in flight.
            std::thread::sleep(Duration::from_millis(1));
            let (begun, mut most) = (Instant::now(), before);
            start()?;
            loop {
                std::thread::sleep(POLL);
                most = most.max(server.resident()?);
                if ended()? {
                    return Ok((begun.elapsed(), most));
                }
            }
        })?;
        Ok(Figures::from([
            ("longest GET during it, ms", during.ms(100.0)),
            ("longest GET before it, ms", calm.ms(100.0)),
            ("GET p99.9 during it, ms", during.ms(99.9)),
            ("GET p99.9 before it, ms", calm.ms(99.9)),
            ("duration, s", took.as_secs_f64()),
            ("GETs during it", during.requests as f64),
            ("resident before, MiB", before as f64 / MIB),
            ("growth of its process, MiB", (most - before) as f64 / MIB),
        ]))
    };
    if !writes {
        return measure();
    }
    let (mut figures, written) =
        Generator::connect(server.addr, 1)?.run_while(&load(&set, 16), measure)?;
    figures.put("SETs in total", written.requests as f64);
    Ok(figures)
}

/// A background operation of a server: the command, and the names of three fields of INFO. The
/// first field is 1 while the operation runs, the second is `ok` if it has succeeded, the third is
/// the number of copied bytes.
pub(crate) type Operation = [&'static str; 4];
const BGSAVE: Operation = [
    "BGSAVE",
    "rdb_bgsave_in_progress",
    "rdb_last_bgsave_status",
    "rdb_last_cow_size",
];

/// Measures an operation of a server while another client writes.
pub(crate) fn operation(server: &Server, keys: u64, of: Operation) -> Result<Figures> {
    let [command, in_progress, status, copied] = of;
    let (mut starter, mut watcher) = (server.client()?, server.client()?);
    let start = || starter.expect(&[command]).map(drop);
    let mut figures = stall(server, keys, true, start, || {
        let info = watcher.info("persistence")?;
        let ended = field(&info, in_progress) == Some("0");
        if ended && field(&info, status) != Some("ok") {
            return Err(Error::Invalid(format!("{status} is not ok")));
        }
        Ok(ended)
    })?;
    let copied = watcher.info_number("persistence", copied)?;
    figures.put("copied as reported, MiB", copied as f64 / MIB);
    Ok(figures)
}

/// Runs `bench snapshot` and prints the report. Measures BGSAVE on each server, and then how long
/// each server takes to load the snapshot that the first server other than Punctual has written,
/// because the oldest server reads no newer format.
pub(crate) fn snapshot(common: &Common, programs: &[Program], report: &mut Report) -> Result<()> {
    let keys = common.keys(500_000, 5_000_000);
    let title = format!(
        "BGSAVE of {} keys under full write load, and the load of its file",
        thousands(keys as f64)
    );
    report.header(
        &title,
        programs,
        &["keys of 16 bytes with values of 16 bytes"],
    );
    let folder = launch::temporary_directory()?;
    let mut sheet = Sheet::new("snapshot", sheet::columns(programs));
    let bars = [("longest GET during it, ms", Bar::AtMost(5.0))];
    sheet.measure(report, "BGSAVE", &bars, 1, |at, _| {
        let server = programs[at].start(&[])?;
        set_keys(&mut server.client()?, keys)?;
        let mut figures = operation(&server, keys, BGSAVE)?;
        let kept = folder.path().join(format!("{at}.rdb"));
        let bytes = fs::copy(server.path("dump.rdb"), kept);
        let bytes = bytes.map_err(Error::system("keeping a snapshot"))?;
        figures.put("file, MiB", bytes as f64 / MIB);
        Ok(figures)
    })?;
    let of = programs.iter().position(|program| !program.ours);
    let of = of.unwrap_or(0);
    let (folder, file) = (folder.path().display().to_string(), format!("{of}.rdb"));
    let bars = [("until all keys are loaded, s", Bar::RatioAtMost(0.6))];
    sheet.measure(
        report,
        "start with a snapshot",
        &bars,
        common.rounds(1, 3),
        |at, _| {
            let begun = Instant::now();
            let server = programs[at].start(&[("dir", &folder), ("dbfilename", &file)])?;
            let size = server.client()?.integer(&["DBSIZE"])?;
            match size.cast_unsigned() == keys {
                true => Ok(Figures::from([(
                    "until all keys are loaded, s",
                    begun.elapsed().as_secs_f64(),
                )])),
                false => Err(Error::Invalid(format!("{size} keys after the load"))),
            }
        },
    )?;
    sheet.show(report)?;
    Ok(())
}
