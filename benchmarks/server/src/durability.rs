//! `bench durability`: the cost of the append-only file.
//!
//! Every part starts new servers with the settings that it measures, and without automatic
//! rewrites. The append-only files are in the directory for temporary files: the duration of an
//! fsync on that disk determines the figures of `appendfsync always`.

use std::time::Duration;

use crate::background::{self, Operation};
use crate::error::{Error, Result};
use crate::keyload::set_keys;
use crate::launch::{Program, Server, start_all};
use crate::load::{Generator, Load, Outcome};
use crate::options::Common;
use crate::report::Report;
use crate::server::Bench;
use crate::sheet::{self, Bar, Figures, Sheet};
use crate::workload::{self, Template};

/// Number of clients that write, and number of clients that read.
const CLIENTS: u32 = 50;
const KEYS: u64 = 100_000;
/// Pipeline depths for the CPU per SET with an append-only file, and on a replica.
pub(crate) const PIPELINES: [u32; 2] = [64, 16];
/// Delay until the write and the fsync of the last second are done, and their CPU time is counted.
const SETTLE: Duration = Duration::from_millis(1_200);
const REWRITE: Operation = [
    "BGREWRITEAOF",
    "aof_rewrite_in_progress",
    "aof_last_bgrewrite_status",
    "aof_last_cow_size",
];

/// The settings of an append-only file with this `appendfsync`.
fn settings(fsync: &'static str) -> [(&'static str, &'static str); 3] {
    [
        ("appendonly", "yes"),
        ("appendfsync", fsync),
        ("auto-aof-rewrite-percentage", "0"),
    ]
}

/// Starts two servers of each program: one without an append-only file, and one with it.
fn without_and_with_file(programs: &[Program], fsync: &'static str) -> Result<[Vec<Server>; 2]> {
    Ok([
        start_all(programs, &[])?,
        start_all(programs, &settings(fsync))?,
    ])
}

/// Returns the number of SETs in a measurement of CPU.
pub(crate) fn requests(common: &Common, pipeline: u32) -> u64 {
    let full = if pipeline < 32 { 500_000 } else { 1_000_000 };
    common.usual(full / 4, full)
}

/// Runs the benchmark and prints the report.
pub(crate) fn run(common: &Common, programs: &[Program], report: &mut Report) -> Result<()> {
    let parts = common.parts(&["everysec", "always", "rewrite"])?;
    let note = format!(
        "append-only files in {}, without automatic rewrites",
        std::env::temp_dir().display()
    );
    report.header("Append-only file", programs, &[&note]);
    let mut sheet = Sheet::new("durability", sheet::columns(programs));
    if parts.contains(&"everysec") {
        everysec(common, programs, report, &mut sheet)?;
    }
    if parts.contains(&"always") {
        always(common, programs, report, &mut sheet)?;
    }
    if parts.contains(&"rewrite") {
        rewrite(common, programs, report, &mut sheet)?;
    }
    sheet.show(report)?;
    Ok(())
}

/// Server CPU per SET with `appendfsync everysec`.
fn everysec(
    common: &Common,
    programs: &[Program],
    report: &mut Report,
    sheet: &mut Sheet,
) -> Result<()> {
    fn open(server: &Server) -> Result<Bench<'_>> {
        Bench::open(server, CLIENTS, 32, KEYS, SETTLE)
    }
    let [plain, logged] = without_and_with_file(programs, "everysec")?;
    let mut plain = plain.iter().map(open).collect::<Result<Vec<_>>>()?;
    let mut logged = logged.iter().map(open).collect::<Result<Vec<_>>>()?;
    let set = workload::find(&["set"])?[0];
    let bars = [
        ("with AOF, µs", Bar::RatioAtMost(0.5)),
        ("by no AOF, x", Bar::AtMost(1.3)),
    ];
    for pipeline in PIPELINES {
        let case = format!("everysec, SET, P={pipeline}");
        sheet.measure(report, &case, &bars, common.rounds(2, 5), |at, round| {
            let cpu = |bench: &mut Bench<'_>| {
                let figures =
                    bench.measure(set, pipeline, requests(common, pipeline), round.into())?;
                Ok::<_, Error>(figures.get("CPU, µs").unwrap_or(f64::NAN))
            };
            let (plain, logged) = (cpu(&mut plain[at])?, cpu(&mut logged[at])?);
            Ok(Figures::from([
                ("no AOF, µs", plain),
                ("with AOF, µs", logged),
                ("by no AOF, x", logged / plain),
            ]))
        })?;
    }
    Ok(())
}

/// Connections to one server.
struct Clients<'a> {
    server: &'a Server,
    writers: Generator,
    readers: Generator,
}

/// The results of SETs alone, the server's CPU time for them in seconds, and the results of SETs
/// and of GETs that run at the same time.
type Measured = (Outcome, f64, Outcome, Outcome);

impl<'a> Clients<'a> {
    fn open(server: &'a Server) -> Result<Self> {
        set_keys(&mut server.client()?, KEYS)?;
        Ok(Self {
            server,
            writers: Generator::connect(server.addr, CLIENTS)?,
            readers: Generator::connect(server.addr, CLIENTS)?,
        })
    }

    fn measure(&mut self, duration: Duration, seed: u64) -> Result<Measured> {
        let set = Template::new(&["SET", "key:{n}", "{data}"], 32);
        let get = Template::new(&["GET", "key:{n}"], 32);
        let load = |template| Load {
            template,
            pipeline: 1,
            requests: u64::MAX,
            keys: 0..KEYS,
            seed,
            stop: None,
        };
        let sleep = |duration: Duration| -> Result<()> {
            std::thread::sleep(duration);
            Ok(())
        };
        let Self {
            server,
            writers,
            readers,
        } = self;
        writers.run_while(&load(&set), || sleep(Duration::from_millis(200)))?;
        let settle = Duration::from_millis(5);
        let (((), alone), cpu) = server.cpu_of(settle, || {
            writers.run_while(&load(&set), || sleep(duration))
        })?;
        let (((), reads), writes) = writers.run_while(&load(&set), || {
            readers.run_while(&load(&get), || sleep(duration))
        })?;
        Ok((alone, cpu, writes, reads))
    }
}

/// `appendfsync always`: SETs of clients that wait for each reply, alone, and with GETs of other
/// clients at the same time.
fn always(
    common: &Common,
    programs: &[Program],
    report: &mut Report,
    sheet: &mut Sheet,
) -> Result<()> {
    let [plain, logged] = without_and_with_file(programs, "always")?;
    let open = Clients::open;
    let mut plain = plain.iter().map(open).collect::<Result<Vec<_>>>()?;
    let mut logged = logged.iter().map(open).collect::<Result<Vec<_>>>()?;
    let bars = [
        ("SETs alone, 1/s", Bar::RatioAtLeast(1.5)),
        ("SETs beside GETs, 1/s", Bar::RatioAtLeast(1.5)),
        ("GET p99 by no AOF, x", Bar::AtMost(1.3)),
    ];
    let case = format!("always: {CLIENTS} clients with SET, {CLIENTS} with GET");
    sheet.measure(report, &case, &bars, common.rounds(2, 5), |at, round| {
        let seconds = common.seconds(1, 5);
        let (_, _, plain_writes, plain_reads) = plain[at].measure(seconds, round.into())?;
        let (alone, cpu, writes, reads) = logged[at].measure(seconds, round.into())?;
        Ok(Figures::from([
            ("SETs alone, 1/s", alone.rate()),
            (
                "server CPU per SET alone, µs",
                cpu * 1e6 / alone.requests as f64,
            ),
            (
                "generator alone, cores",
                alone.generator_cpu.as_secs_f64() / alone.wall.as_secs_f64(),
            ),
            ("SETs beside GETs, 1/s", writes.rate()),
            ("SETs without AOF, 1/s", plain_writes.rate()),
            ("GETs, 1/s", reads.rate()),
            ("GETs without AOF, 1/s", plain_reads.rate()),
            ("GET p50, ms", reads.ms(50.0)),
            ("GET p50 without AOF, ms", plain_reads.ms(50.0)),
            ("GET p99, ms", reads.ms(99.0)),
            ("GET p99 without AOF, ms", plain_reads.ms(99.0)),
            (
                "GET p99 by no AOF, x",
                reads.ms(99.0) / plain_reads.ms(99.0),
            ),
        ]))
    })
}

/// A rewrite of the append-only file under write load.
fn rewrite(
    common: &Common,
    programs: &[Program],
    report: &mut Report,
    sheet: &mut Sheet,
) -> Result<()> {
    let keys = common.keys(200_000, 5_000_000);
    let bars = [
        ("longest GET during it, ms", Bar::AtMost(5.0)),
        ("additional memory, %", Bar::AtMost(5.0)),
    ];
    sheet.measure(
        report,
        &format!("BGREWRITEAOF of {keys} keys"),
        &bars,
        1,
        |at, _| {
            let server = programs[at].start(&settings("everysec"))?;
            set_keys(&mut server.client()?, keys)?;
            let mut figures = background::operation(&server, keys, REWRITE)?;
            let mib = |name| figures.get(name).unwrap_or(f64::NAN);
            // redis-server's child process shares its pages. Pages that were copied count as extra
            // memory.
            let copied = if programs[at].ours {
                0.0
            } else {
                mib("copied as reported, MiB")
            };
            let extra = (mib("growth of its process, MiB") + copied) / mib("resident before, MiB");
            figures.put("additional memory, %", extra * 100.0);
            Ok(figures)
        },
    )
}
