//! CPU of a replica per SET that it applies. All replicas have the same primary, a redis-server if there is one.

use std::time::Duration;

use super::{Name, SETTINGS, attach, redis, wait_for_replica, wait_until_attached};
use crate::bars;
use crate::csv::Measurement;
use crate::error::{Error, Result};
use crate::launch::{Candidate, Server};
use crate::load::{Generator, Load};
use crate::options::ReplicationOptions;
use crate::process::CpuTime;
use crate::report::{self, Report};
use crate::sheet::{Bound, Sheet, ratios, spreads};
use crate::workload::Template;

const CLIENTS: u32 = 50;
const KEYS: u64 = 100_000;
/// Delay after the last acknowledgement, so that the replica sleeps and the kernel updates its CPU time.
const SETTLE: Duration = Duration::from_millis(20);

/// The primary, and the connections that write to it.
struct Source {
    server: Server,
    generator: Generator,
    set: Template,
}

/// Measures and prints a table per pipeline depth.
pub(super) fn run(
    options: &ReplicationOptions,
    programs: &[(&Candidate, Name)],
    report: &mut Report,
) -> Result<()> {
    let reference = redis(programs);
    let (primary, primary_name) = &programs[reference.unwrap_or(0)];
    let server = primary.open(&SETTINGS)?;
    let mut source = Source {
        generator: Generator::connect(server.addr, server.password(), CLIENTS, 1)?,
        server,
        set: Template::new(&["SET", "key:{n}", "{data}"], 32),
    };
    let replicas: Vec<Server> = programs
        .iter()
        .map(|(program, _)| program.open(&SETTINGS))
        .collect::<Result<_>>()?;
    let work = bars::LOG_PIPELINES.len() * replicas.len() * options.common.rounds() as usize;
    let bar = report::progress(work as u64, "a replica's CPU");
    let mut tables = Vec::new();
    for pipeline in bars::LOG_PIPELINES {
        let mut rounds: Vec<Vec<f64>> = replicas.iter().map(|_| Vec::new()).collect();
        for round in 1..=options.common.rounds() {
            for ((replica, (_, name)), rounds) in replicas.iter().zip(programs).zip(&mut rounds) {
                bar.inc(1);
                let requests = options.common.requests(pipeline);
                let value = source.measure(replica, pipeline, requests, round.into())?;
                report.record(Measurement {
                    benchmark: "replication",
                    server: &name.product,
                    case: &format!("apply pipeline={pipeline}"),
                    round,
                    metric: "cpu_per_command",
                    unit: "us",
                    value,
                })?;
                rounds.push(value);
            }
        }
        tables.push((pipeline, rounds));
    }
    bar.finish_and_clear();
    let columns: Vec<(String, bool)> = programs
        .iter()
        .map(|(_, name)| (name.label.clone(), name.ours))
        .collect();
    for (pipeline, rounds) in tables {
        let title = format!(
            "replica of {}, SETs at pipeline {pipeline}",
            primary_name.label
        );
        let mut sheet = Sheet::with_columns(&title, &columns);
        let micros = |value: f64| format!("{value:.3}");
        sheet.shown(
            "µs CPU per SET",
            &spreads(&rounds, |cpu| Some(*cpu)),
            micros,
        );
        if let Some(of) = reference {
            let base = |at| (at != of).then_some(of);
            let found = ratios(&rounds, base, |one, base| Some(one / base));
            let name = format!("ratio to {}", columns[of].0);
            sheet.ratio(report, &name, &found, Bound::AtMost(bars::APPLY_CPU_RATIO));
        }
        say!("{sheet}");
    }
    Ok(())
}

impl Source {
    /// Attaches the replica, writes, and returns the replica's CPU per SET in µs.
    fn measure(
        &mut self,
        replica: &Server,
        pipeline: u32,
        requests: u64,
        seed: u64,
    ) -> Result<f64> {
        let mut load = Load {
            template: &self.set,
            pipeline,
            requests: requests / 20,
            keyspace: Some(KEYS),
            seed: !seed,
            end: None,
        };
        let mut client = self.server.client()?;
        let mut control = replica.client()?;
        attach(&mut control, &self.server)?;
        wait_until_attached(replica, &mut control)?;
        // The warm-up.
        self.generator.run(load)?;
        (load.requests, load.seed) = (requests, seed);
        let cpu = |client: &mut _, server: &Server| {
            wait_for_write(client, server)?;
            std::thread::sleep(SETTLE);
            let pid = server_pid(replica)?;
            CpuTime::of(pid).ok_or_else(|| unreadable(replica))
        };
        let before = cpu(&mut client, &self.server)?;
        let outcome = self.generator.run(load)?;
        let after = cpu(&mut client, &self.server)?;
        control.expect(&["REPLICAOF", "NO", "ONE"])?;
        Ok(after.since(&before).as_secs_f64() * 1e6 / outcome.requests as f64)
    }
}

/// Blocks until the replica has applied everything that was written so far.
fn wait_for_write(client: &mut crate::client::Client, primary: &Server) -> Result<()> {
    // WAIT covers the writes of its own connection.
    client.expect(&["SET", "punctual-bench:last", "x"])?;
    wait_for_replica(primary, client)
}

fn server_pid(server: &Server) -> Result<rustix::process::Pid> {
    server.pid.ok_or_else(|| unreadable(server))
}

fn unreadable(server: &Server) -> Error {
    Error::Invalid(format!("the CPU time of {} cannot be read", server.label))
}
