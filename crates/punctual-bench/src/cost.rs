//! One measurement of `bench server`: a workload at one pipeline depth on one server.

use std::time::Duration;

use indicatif::ProgressBar;
use punctual_resp::Value;

use crate::client::{Client, error_text};
use crate::error::{Error, Result};
use crate::keyload;
use crate::launch::Server;
use crate::load::{Generator, Load, Outcome};
use crate::process::CpuTime;
use crate::report::Report;
use crate::scripts;
use crate::workload::{Before, Each, Template, Workload};

/// Delay after the last reply, so that the server sleeps and the kernel updates its CPU time.
const SETTLE: Duration = Duration::from_millis(5);

/// Delay after FLUSHALL, in which the server frees the keys.
const FREED: Duration = Duration::from_millis(200);

/// One measurement.
#[derive(Debug)]
pub(crate) struct Cost {
    /// Server CPU per command in µs; `None` for a server on another machine.
    pub(crate) cpu: Option<f64>,
    /// Commands per second.
    pub(crate) throughput: f64,
    /// Median time from the sending of a batch to its last reply, in ms.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// CPU of the generator in cores. Near 1 per thread, the generator limits the throughput.
    pub(crate) generator: f64,
    /// Batches of the connection that was served least, by the mean of all.
    pub(crate) least_share: f64,
}

/// A server with open connections.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    pub(crate) server: &'a Server,
    generator: Generator,
    client: Client,
    /// Delay after the last reply. Longer than [`SETTLE`] if the server works on after it.
    pub(crate) settle: Duration,
}

/// Parameters common to all measurements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) size: usize,
    pub(crate) keyspace: Option<u64>,
}

/// Result of the check whether a server can run a workload.
#[derive(Debug)]
pub(crate) enum Known {
    Yes,
    /// The server's error text.
    No(String),
}

impl<'a> Bench<'a> {
    pub(crate) fn open(server: &'a Server, clients: u32, generators: u32) -> Result<Self> {
        Ok(Self {
            server,
            generator: Generator::connect(server.addr, server.password(), clients, generators)?,
            client: server.client()?,
            settle: SETTLE,
        })
    }

    /// Removes all keys if the server was started for the run or `given` allows it.
    pub(crate) fn flush(&mut self, given: bool) -> Result<()> {
        if self.server.started || given {
            self.client.expect(&["FLUSHALL"])?;
        }
        Ok(())
    }

    /// Runs a workload once to check that the server supports it. An error other than "unknown command" is an `Err`.
    pub(crate) fn knows(&mut self, workload: &Workload, shape: Shape) -> Result<Known> {
        self.prepare(workload, shape, 1)?;
        self.client.send(workload.template(shape.size).bytes())?;
        let answer = self.client.reply()?;
        if !answer.is_error() {
            return Ok(Known::Yes);
        }
        unknown(self.server, workload.name, &answer)
    }

    /// Prepares the script and the keys that the workload needs for `requests` commands.
    fn prepare(&mut self, workload: &Workload, shape: Shape, requests: u64) -> Result<()> {
        if let Some(script) = scripts::of(workload.name) {
            script.load(&mut self.client)?;
        }
        let (without, filling) = match workload.before {
            Before::Anything => return Ok(()),
            Before::Nothing => {
                self.flush(false)?;
                std::thread::sleep(FREED);
                return Ok(());
            }
            Before::Without(keys) => (keys, None),
            Before::Filled {
                with,
                each,
                without,
            } => (without, Some((with, each))),
        };
        if !without.is_empty() {
            let words: Vec<&str> = ["DEL"].into_iter().chain(without.iter().copied()).collect();
            self.client.expect(&words)?;
        }
        let Some((with, each)) = filling else {
            return Ok(());
        };
        let count = match each {
            Each::Key => shape.keyspace.unwrap_or(1),
            Each::Request => requests,
            Each::Times(times) => times,
        };
        let mut filler = Template::new(with, shape.size);
        let name = with.first().copied().unwrap_or_default();
        keyload::load(
            &mut self.client,
            count,
            name,
            &ProgressBar::hidden(),
            |index, out| {
                filler.fill(|_| index);
                out.extend_from_slice(filler.bytes());
            },
        )
    }

    /// Prepares, warms up and measures a workload once.
    pub(crate) fn measure(
        &mut self,
        workload: &Workload,
        shape: Shape,
        pipeline: u32,
        requests: u64,
        seed: u64,
    ) -> Result<Cost> {
        let requests = scripts::requests(workload.name, requests);
        let template = workload.template(shape.size);
        let mut load = Load {
            template: &template,
            pipeline,
            requests: requests / 20,
            keyspace: shape.keyspace,
            seed: !seed,
            end: None,
        };
        self.prepare(workload, shape, requests + requests / 20)?;
        self.generator.run(load)?;
        load.requests = requests;
        load.seed = seed;
        std::thread::sleep(self.settle);
        let before = self.server.pid.and_then(CpuTime::of);
        let outcome = self.generator.run(load)?;
        std::thread::sleep(self.settle);
        let after = self.server.pid.and_then(CpuTime::of);
        let used = after
            .zip(before)
            .map(|(after, before)| after.since(&before));
        Ok(Cost::of(&outcome, used))
    }
}

/// Interprets an error reply: an unknown command is skipped, any other error is an `Err`.
fn unknown(server: &Server, name: &str, answer: &Value) -> Result<Known> {
    let text = error_text(answer);
    if is_unknown(&text) {
        return Ok(Known::No(text));
    }
    Err(Error::Refused {
        addr: server.addr,
        command: name.to_owned(),
        answer: text,
    })
}

/// Returns true for the error that a server replies to commands and subcommands that it does not have.
pub(crate) fn is_unknown(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("unknown command") || text.contains("unknown subcommand")
}

impl Cost {
    fn of(outcome: &Outcome, used: Option<Duration>) -> Self {
        let millis = |percentile| outcome.latency.value_at_percentile(percentile) as f64 / 1e6;
        let wall = outcome.wall.as_secs_f64();
        Self {
            cpu: used.map(|used| used.as_secs_f64() * 1e6 / outcome.requests as f64),
            throughput: outcome.requests as f64 / wall,
            p50: millis(50.0),
            p99: millis(99.0),
            generator: outcome.generator_cpu.as_secs_f64() / wall,
            least_share: outcome.least_share(),
        }
    }

    /// Writes the measurement to the CSV file.
    pub(crate) fn record(
        &self,
        report: &mut Report,
        server: &str,
        case: &str,
        round: u32,
    ) -> Result<()> {
        let figures = [
            ("cpu_per_command", "us", self.cpu),
            ("throughput", "commands/s", Some(self.throughput)),
            ("batch_latency_p50", "ms", Some(self.p50)),
            ("batch_latency_p99", "ms", Some(self.p99)),
            ("generator_cpu", "cores", Some(self.generator)),
            (
                "least_served_connection",
                "of the mean",
                Some(self.least_share),
            ),
        ];
        report.record_all("server", server, case, round, figures)?;
        Ok(())
    }
}
