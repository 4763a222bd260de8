//! `bench server`: the server's CPU time per command; with `--threads`, for different numbers of
//! event loops.
//!
//! Punctual is started with `threads N`. The other servers are started with `io-threads N` and
//! `io-threads-do-reads`, their nearest equivalent, although they run all commands on one thread.

use std::time::Duration;

use punctual_resp::encode_command;

use crate::client::Client;
use crate::error::Result;
use crate::keyload;
use crate::launch::{Program, Server, start_all};
use crate::load::{Generator, Load};
use crate::options::{Kind, ServerOptions};
use crate::report::Report;
use crate::scripts;
use crate::sheet::{self, Bar, BarList, Column, Figures, Sheet};
use crate::table::thousands;
use crate::workload::{self, Before, Each, Template, Workload};

/// Delay after the last reply until the server sleeps, so that the kernel has updated its CPU time.
const SETTLE: Duration = Duration::from_millis(5);

/// Delay after FLUSHALL, in which the server frees the keys.
const FREED: Duration = Duration::from_millis(200);

/// Limits for the ratio of Punctual's CPU time per command to each other server's: names of
/// commands, then pairs of a pipeline depth and the limit.
type RatioBars = (&'static [&'static str], &'static [(u32, f64)]);
const CPU_RATIOS: [RatioBars; 8] = [
    (&["set", "get", "incr"], &[(64, 0.5), (16, 0.65), (1, 0.95)]),
    (
        &[
            "eval_get",
            "eval_set_get",
            "eval_limiter",
            "eval_cjson",
            "fcall",
        ],
        &[(64, 0.75), (16, 0.75), (1, 0.95)],
    ),
    (&["lpush", "hset", "sadd"], &[(64, 0.5), (16, 0.65)]),
    (&["rpush", "lpop"], &[(64, 0.7), (16, 0.7)]),
    (
        &["zadd", "mset", "mget", "zrange_100"],
        &[(64, 0.45), (16, 0.45)],
    ),
    (&["zrank"], &[(64, 0.5), (16, 0.5)]),
    (&["lindex", "lindex_10m"], &[(64, 1.0), (16, 1.0)]),
    (&["eval_loop"], &[(1, 1.0)]),
];
/// Number of keys from which [`LARGE_RATIOS`] apply: the store is larger than a processor's caches.
const LARGE: u64 = 1_000_000;
/// Limits with at least [`LARGE`] keys.
const LARGE_RATIOS: [RatioBars; 1] = [(
    &["get", "set", "hget", "expire"],
    &[(64, 0.55), (16, 0.7), (1, 0.9)],
)];

/// Commands on many keys. With several event loops, their CPU time per command is at most
/// [`SPREAD_RATIO`] times the CPU time with one loop.
const SPREAD_TESTS: [&str; 7] = [
    "set",
    "get",
    "incr",
    "lpush_many",
    "zadd_many",
    "mset",
    "mixed",
];
const SPREAD_RATIO: f64 = 1.15;
/// Commands on one key, or on keys with frequencies by Zipf's law. For these commands, the maximum
/// ratio is [`CONTENDED_RATIO`].
const CONTENDED_TESTS: [&str; 8] = [
    "set_one",
    "get_one",
    "incr_one",
    "lpush",
    "zadd",
    "set_zipf",
    "get_zipf",
    "incr_zipf",
];
const CONTENDED_RATIO: f64 = 1.5;
const LOOPS_PIPELINES: [u32; 3] = [1, 16, 64];

/// Returns the bars of a command with a server's default number of loops.
fn bars_of(test: &str, pipeline: u32, keyspace: u64) -> Vec<(&'static str, Bar)> {
    let ratios = if keyspace >= LARGE {
        &LARGE_RATIOS[..]
    } else {
        &CPU_RATIOS
    };
    let bounds = ratios.iter().find(|(tests, _)| tests.contains(&test));
    let bound = bounds.and_then(|(_, bounds)| bounds.iter().find(|(depth, _)| *depth == pipeline));
    bound
        .map(|(_, bound)| ("CPU, µs", Bar::RatioAtMost(*bound)))
        .into_iter()
        .collect()
}

/// Returns the bars of a command with several loops.
fn loops_bars_of(test: &str, pipeline: u32) -> Vec<(&'static str, Bar)> {
    let at_depth = LOOPS_PIPELINES.contains(&pipeline);
    let ratio = |bound| at_depth.then_some(("CPU, µs", Bar::RatioAtMost(bound)));
    if SPREAD_TESTS.contains(&test) {
        return ratio(SPREAD_RATIO).into_iter().collect();
    }
    if CONTENDED_TESTS.contains(&test) {
        let share = ("least served connection, of the mean", Bar::AtLeast(0.5));
        return ratio(CONTENDED_RATIO).into_iter().chain([share]).collect();
    }
    Vec::new()
}

/// A server with open connections.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    server: &'a Server,
    generator: Generator,
    client: Client,
    size: usize,
    keyspace: u64,
    settle: Duration,
}

/// Runs the benchmark and prints the report.
pub(crate) fn run(
    options: &ServerOptions,
    programs: &[Program],
    report: &mut Report,
) -> Result<()> {
    let common = &options.common;
    let loops = !options.threads.is_empty();
    let usual = if loops {
        [&SPREAD_TESTS[..], &CONTENDED_TESTS].concat()
    } else {
        vec!["set", "get", "incr"]
    };
    let workloads = match common.tests.as_slice() {
        [] => workload::find(&usual)?,
        given => workload::find(given)?,
    };
    let clients = options.clients.unwrap_or(if loops { 200 } else { 50 });
    let title = format!(
        "Server CPU per command: {clients} connections, {}-byte values, keys at random out of {}",
        options.size,
        thousands(options.keyspace as f64)
    );
    let note = "the load generator shares the machine; near 1 core it limits the throughput";
    report.header(&title, programs, &[note]);
    let (servers, columns) = match loops {
        true => variants(&options.threads, programs)?,
        false => (start_all(programs, &[])?, sheet::columns(programs)),
    };
    let open = |server| {
        Bench::open(
            server,
            clients,
            options.size as usize,
            options.keyspace,
            SETTLE,
        )
    };
    let mut benches = servers.iter().map(open).collect::<Result<Vec<_>>>()?;
    let mut sheet = Sheet::new("server", columns);
    for workload in workloads {
        for &pipeline in &options.pipeline {
            if !scripts::allows(workload.name, pipeline) {
                continue;
            }
            let bars = if loops {
                loops_bars_of(workload.name, pipeline)
            } else {
                bars_of(workload.name, pipeline, options.keyspace)
            };
            let bars: BarList<'_> = &bars;
            let usual = match pipeline {
                0..=3 => 60_000,
                4..=31 => 500_000,
                _ => 1_000_000,
            };
            let requests = options.requests.unwrap_or(common.usual(usual / 4, usual));
            let case = format!("{} P={pipeline}", workload.name);
            sheet.measure(report, &case, bars, common.rounds(3, 5), |at, round| {
                benches[at].measure(workload, pipeline, requests, round.into())
            })?;
        }
    }
    sheet.show(report)?;
    let title = "What a command costs the server (P: pipeline depth; medians)";
    let file = if loops {
        "server-threads-cpu.svg"
    } else {
        "server-cpu.svg"
    };
    sheet.plot(report, file, title, "CPU, µs")
}

/// Starts each program with each number of threads. The ratios are to the same program with one
/// thread.
fn variants(threads: &[u32], programs: &[Program]) -> Result<(Vec<Server>, Vec<Column>)> {
    let (mut servers, mut columns) = (Vec::new(), Vec::new());
    for program in programs {
        let first = columns.len();
        let one = threads.iter().position(|threads| *threads == 1);
        for threads in threads {
            let number = threads.to_string();
            let settings: &[(&str, &str)] = match program.kind {
                Kind::Redis7 | Kind::Redis8 | Kind::Valkey9 => {
                    &[("io-threads", &number), ("io-threads-do-reads", "yes")]
                }
                Kind::Punctual => &[("threads", &number)],
            };
            servers.push(program.start(settings)?);
            columns.push(Column {
                label: format!("{} x{threads}", program.label),
                product: format!("{} x{threads}", program.product),
                ours: program.ours,
                bases: one
                    .map(|one| first + one)
                    .filter(|_| *threads != 1)
                    .into_iter()
                    .collect(),
            });
        }
    }
    Ok((servers, columns))
}

impl<'a> Bench<'a> {
    /// Opens the connections. `settle` is the delay after the last reply until the server sleeps.
    pub(crate) fn open(
        server: &'a Server,
        clients: u32,
        size: usize,
        keyspace: u64,
        settle: Duration,
    ) -> Result<Self> {
        Ok(Self {
            server,
            generator: Generator::connect(server.addr, clients)?,
            client: server.client()?,
            size,
            keyspace,
            settle,
        })
    }

    /// Prepares the script and the keys that the workload needs for `requests` commands.
    fn prepare(&mut self, workload: &Workload, requests: u64) -> Result<()> {
        if let Some(script) = scripts::of(workload.name) {
            script.load(&mut self.client)?;
        }
        let (with, each, without) = match workload.before {
            Before::Anything => return Ok(()),
            Before::Nothing => {
                self.client.expect(&["FLUSHALL"])?;
                std::thread::sleep(FREED);
                return Ok(());
            }
            Before::Without(keys) => (&[][..], Each::Times(0), keys),
            Before::Filled {
                with,
                each,
                without,
            } => (with, each, without),
        };
        let mut delete = Vec::new();
        for key in without {
            encode_command(&mut delete, &["DEL", key]);
        }
        self.client.send(&delete)?;
        self.client.replies(without.len(), "DEL")?;
        let count = match each {
            Each::Key => self.keyspace,
            Each::Request => requests,
            Each::Times(times) => times,
        };
        let mut filler = Template::new(with, self.size);
        keyload::load(&mut self.client, count, workload.name, |index, out| {
            filler.fill(|_| index);
            out.extend_from_slice(filler.bytes());
        })
    }

    /// Prepares, warms up and measures a workload once.
    pub(crate) fn measure(
        &mut self,
        workload: &Workload,
        pipeline: u32,
        requests: u64,
        seed: u64,
    ) -> Result<Figures> {
        let requests = scripts::requests(workload.name, requests);
        self.prepare(workload, requests + requests / 20)?;
        let mut load = Load {
            template: &workload.template(self.size),
            pipeline,
            requests: requests / 20,
            keys: 0..self.keyspace,
            seed: !seed,
            stop: None,
        };
        self.generator.run(&load)?;
        (load.requests, load.seed) = (requests, seed);
        let generator = &mut self.generator;
        let (outcome, cpu) = self.server.cpu_of(self.settle, || generator.run(&load))?;
        Ok(Figures::from([
            ("CPU, µs", cpu * 1e6 / outcome.requests as f64),
            ("commands, 1/s", outcome.rate()),
            ("batch p50, ms", outcome.ms(50.0)),
            ("batch p99, ms", outcome.ms(99.0)),
            (
                "generator, cores",
                outcome.generator_cpu.as_secs_f64() / outcome.wall.as_secs_f64(),
            ),
            (
                "least served connection, of the mean",
                outcome.least_share(),
            ),
        ]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_commands_and_depths_have_bars() {
        let bound = |bars: Vec<(&str, Bar)>| bars.first().map(|(_, bar)| bar.to_string());
        let ratio = |test, pipeline| bound(bars_of(test, pipeline, 100_000));
        assert_eq!(ratio("get", 64).as_deref(), Some("<= 0.5 x"));
        let large = bound(bars_of("get", 64, 3_000_000));
        assert_eq!(large.as_deref(), Some("<= 0.55 x"));
        assert_eq!(ratio("get", 2), None);
        assert_eq!(ratio("lpush", 64).as_deref(), Some("<= 0.5 x"));
        assert_eq!(ratio("lpush", 1), None);
        assert_eq!(ratio("rpop", 64), None);
        assert_eq!(ratio("eval_get", 1).as_deref(), Some("<= 0.95 x"));
        assert_eq!(ratio("eval_loop", 1).as_deref(), Some("<= 1 x"));
        assert_eq!(
            bound(loops_bars_of("set", 16)).as_deref(),
            Some("<= 1.15 x")
        );
        assert_eq!(
            bound(loops_bars_of("lpush", 64)).as_deref(),
            Some("<= 1.5 x")
        );
        assert_eq!(loops_bars_of("lpush", 64).len(), 2);
        let tests = CPU_RATIOS.iter().flat_map(|(tests, _)| *tests);
        for test in tests.chain(&SPREAD_TESTS).chain(&CONTENDED_TESTS) {
            workload::find(&[test]).unwrap();
        }
    }
}
