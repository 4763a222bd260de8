//! `bench jobs --tests peers`: job queues of other projects on redis-server, and Punctual's own
//! clients, with their usual settings.
//!
//! A peer is a program with two modes. In the mode `produce` it adds jobs. In the mode `work` it is
//! a worker that runs ten jobs at a time (Celery, by default, runs one process for each core). The
//! handler of a job appends the lateness of the job to a file. The number of lines in the file
//! shows when all jobs are done. Each measurement starts a new server without persistence.
//!
//! The sources of the scripts are compiled into this binary. `scripts/setup job-peers` installs
//! their packages, and builds the Rust client.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use punctual_harness::{Running, last_lines};
use rustix::process::{Pid, Signal, kill_process_group};

use super::{cost, late};
use crate::cleanup::Guard;
use crate::clock::unix_micros;
use crate::error::{Error, Result};
use crate::late::Late;
use crate::launch::{Program, Server, installed, temporary_directory};
use crate::options::JobsOptions;
use crate::report::Report;
use crate::sheet::{Bar, Column, Figures, Sheet};

/// Number of jobs that run before the measurement. They show that the worker works, and how long
/// adding jobs takes.
const FIRST_JOBS: u64 = 500;
/// Time until the first delayed job is due, in addition to twice the expected time for adding the
/// jobs.
const LEAD: Duration = Duration::from_secs(5);
/// Time without a completed job after which the remaining jobs count as lost.
const PATIENCE: Duration = Duration::from_secs(60);
/// Delay until the server has processed the last acknowledgement.
const CALM: Duration = Duration::from_millis(500);

/// A peer's program, which runs in an interpreter.
struct Script {
    name: &'static str,
    interpreter: &'static str,
    file: &'static str,
    source: &'static str,
    /// Commands or files (below the folder of packages) that must be installed.
    needs: &'static [&'static str],
    on_punctual: bool,
}

const SCRIPTS: [Script; 4] = [
    Script {
        name: "JOB, Python client",
        interpreter: "python3",
        file: "punctual_jobs.py",
        source: include_str!("../../peers/punctual_jobs.py"),
        needs: &["python/jobs.py", "python/redis"],
        on_punctual: true,
    },
    Script {
        name: "BullMQ",
        interpreter: "node",
        file: "bullmq.js",
        source: include_str!("../../peers/bullmq.js"),
        needs: &["node_modules/bullmq/package.json"],
        on_punctual: false,
    },
    Script {
        name: "Celery",
        interpreter: "python3",
        file: "celery_tasks.py",
        source: include_str!("../../peers/celery_tasks.py"),
        needs: &["python/celery", "python/redis"],
        on_punctual: false,
    },
    Script {
        name: "Sidekiq",
        interpreter: "ruby",
        file: "sidekiq_jobs.rb",
        source: include_str!("../../peers/sidekiq_jobs.rb"),
        needs: &["sidekiq"],
        on_punctual: false,
    },
];

/// A job queue, and the command line of its program.
struct Peer {
    name: String,
    on_punctual: bool,
    /// The words before the mode; empty for the peer without a client library, which runs in this
    /// process.
    words: Vec<PathBuf>,
    packages: PathBuf,
}

/// Measures all peers that are installed, and prints the table.
pub(super) fn run(options: &JobsOptions, programs: &[Program], report: &mut Report) -> Result<()> {
    let common = &options.common;
    let (jobs, spread) = (common.keys(1_000, 10_000), common.seconds(6, 60));
    say!(
        "Job queues: {jobs} delayed jobs over {} s, added before; then as many that are added and run at the same time",
        spread.as_secs_f64()
    );
    let folder = temporary_directory()?;
    let mut peers = peers(&options.packages, folder.path())?;
    // A peer without Punctual runs on the first server that is not Punctual.
    peers.retain(|peer| {
        programs
            .iter()
            .any(|program| program.ours == peer.on_punctual)
    });
    let bullmq = peers
        .iter()
        .position(|peer| peer.name.starts_with("BullMQ"));
    let column = |(at, peer): (usize, &Peer)| Column {
        label: peer.name.clone(),
        product: peer.name.clone(),
        ours: peer.on_punctual,
        bases: bullmq.filter(|bullmq| *bullmq != at).into_iter().collect(),
    };
    let mut sheet = Sheet::new("jobs", peers.iter().enumerate().map(column).collect());
    let bars = [("server CPU per job, µs", Bar::RatioAtMost(0.2))];
    sheet.measure(report, "job queues", &bars, 1, |at, _| {
        let peer = &peers[at];
        let program = programs
            .iter()
            .find(|program| program.ours == peer.on_punctual);
        let server = program.map_or_else(
            || Err(Error::NoServer(peer.name.clone())),
            |program| program.start(&[]),
        )?;
        if peer.words.is_empty() {
            return raw(&server, jobs, spread);
        }
        match measure(peer, &server, jobs, spread, folder.path()) {
            // The failure of one peer does not end the measurement of the other peers.
            Err(Error::Invalid(reason)) => {
                say!("{reason}");
                Ok(Figures::default())
            }
            figures => figures,
        }
    })?;
    sheet.show(report)?;
    Ok(())
}

/// Returns the peers that are installed. Prints a message about the peers that are not.
fn peers(packages: &Path, folder: &Path) -> Result<Vec<Peer>> {
    // Programs run in another folder, so the path must be absolute.
    let packages = packages.canonicalize().unwrap_or_else(|_| packages.into());
    let peer = |name: &str, on_punctual, words| Peer {
        name: name.to_owned(),
        on_punctual,
        words,
        packages: packages.clone(),
    };
    let mut found = vec![peer("JOB, raw connection", true, Vec::new())];
    let rust = packages.join("job_peer");
    match installed(&rust) {
        true => found.push(peer("JOB, Rust client", true, vec![rust])),
        false => say!("JOB, Rust client, is not built: scripts/setup job-peers"),
    }
    for script in &SCRIPTS {
        let there = |need: &&str| packages.join(need).exists() || installed(Path::new(need));
        if !script.needs.iter().all(there) || !installed(Path::new(script.interpreter)) {
            say!("{} is not installed: scripts/setup job-peers", script.name);
            continue;
        }
        let path = folder.join(script.file);
        fs::write(&path, script.source).map_err(Error::system("writing a peer's program"))?;
        let name = format!("{} {}", script.name, version(script.name, &packages));
        found.push(peer(
            name.trim_end(),
            script.on_punctual,
            vec![script.interpreter.into(), path],
        ));
    }
    Ok(found)
}

/// Returns the version of an installed package.
fn version(name: &str, packages: &Path) -> String {
    match name {
        "BullMQ" => {
            let text = fs::read_to_string(packages.join("node_modules/bullmq/package.json"))
                .unwrap_or_default();
            let after = text.split("\"version\"").nth(1).unwrap_or_default();
            after.split('"').nth(1).unwrap_or_default().to_owned()
        }
        "Celery" => {
            let entries = fs::read_dir(packages.join("python"))
                .into_iter()
                .flatten()
                .flatten();
            let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
            let version = |name: String| {
                Some(
                    name.strip_prefix("celery-")?
                        .strip_suffix(".dist-info")?
                        .to_owned(),
                )
            };
            names.filter_map(version).next().unwrap_or_default()
        }
        "Sidekiq" => {
            let output = Command::new("sidekiq").arg("--version").output();
            let text = output.map(|output| output.stdout).unwrap_or_default();
            String::from_utf8_lossy(&text)
                .split_whitespace()
                .nth(1)
                .unwrap_or_default()
                .into()
        }
        _ => String::new(),
    }
}

impl Peer {
    fn command(&self, log: &Path) -> Result<Command> {
        let log = File::options().append(true).create(true).open(log);
        let log = log.map_err(Error::system("opening a peer's log"))?;
        let errors = log
            .try_clone()
            .map_err(Error::system("opening a peer's log"))?;
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        command.env("NODE_PATH", self.packages.join("node_modules"));
        command.env("PYTHONPATH", self.packages.join("python"));
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        Ok(command)
    }

    fn cannot_start(&self, source: std::io::Error) -> Error {
        Error::Start {
            program: self.words[0].clone(),
            source,
        }
    }

    fn failed(&self, log: &Path, how: &str) -> Error {
        Error::Invalid(format!("{}: {how}\n{}", self.name, last_lines(log)))
    }

    /// Starts a worker. The guard kills it together with its child processes.
    fn work(&self, port: u16, out: &Path, log: &Path) -> Result<(Guard, Running)> {
        let mut command = self.command(log)?;
        command.arg("work").arg(port.to_string()).arg(out);
        let child = command.process_group(0).spawn();
        let child = child.map_err(|source| self.cannot_start(source))?;
        let pid = Pid::from_child(&child);
        let guard = Guard::new(move || {
            // A clean end is not necessary: the jobs are done, and the server is killed as well.
            let _ = kill_process_group(pid, Signal::KILL);
        });
        Ok((guard, Running(child)))
    }

    /// Runs the program that adds jobs, and waits for its end.
    fn produce(
        &self,
        port: u16,
        count: u64,
        first_ms: u64,
        spread_ms: u64,
        log: &Path,
    ) -> Result<()> {
        let mut command = self.command(log)?;
        command.arg("produce").arg(port.to_string());
        command.args([count, first_ms, spread_ms].map(|number| number.to_string()));
        let status = command.status();
        let status = status.map_err(|source| self.cannot_start(source))?;
        match status.success() {
            true => Ok(()),
            false => Err(self.failed(log, &format!("adding ended with {status}"))),
        }
    }
}

/// Waits until the file has `lines` lines, or until no line was added for [`PATIENCE`] after the
/// Unix time `until_ms`. Returns the numbers in the lines.
fn wait_for(out: &Path, lines: usize, until_ms: u64) -> Vec<u64> {
    let mut seen = (0, Instant::now());
    loop {
        let text = fs::read_to_string(out).unwrap_or_default();
        let count = text.lines().count();
        if count != seen.0 || unix_micros() / 1000 < until_ms {
            seen = (count, Instant::now());
        }
        if count >= lines && text.ends_with('\n') || seen.1.elapsed() > PATIENCE {
            return text.lines().filter_map(|line| line.parse().ok()).collect();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn measure(
    peer: &Peer,
    server: &Server,
    count: u64,
    spread: Duration,
    folder: &Path,
) -> Result<Figures> {
    let port = server.addr.port();
    let (log, out) = (folder.join("log"), folder.join(format!("out-{port}")));
    let mut done = 0;
    let _worker = peer.work(port, &out, &log)?;
    let mut expect = |jobs: u64, until_ms: u64| {
        let all = wait_for(&out, done + jobs as usize, until_ms);
        let new = all.get(done..).unwrap_or_default().to_vec();
        done = all.len();
        new
    };
    let begun = Instant::now();
    peer.produce(port, FIRST_JOBS, 0, 0, &log)?;
    let adding = begun.elapsed();
    if (expect(FIRST_JOBS, 0).len() as u64) < FIRST_JOBS {
        return Err(peer.failed(&log, "the worker completes no jobs"));
    }
    let spread_ms = spread.as_millis() as u64;
    let (micros, late_cpu) = server.cpu_of(CALM, || {
        let lead = LEAD + adding.mul_f64(2.0 * (count as f64 / FIRST_JOBS as f64).max(1.0));
        let first_ms = unix_micros() / 1000 + lead.as_millis() as u64;
        peer.produce(port, count, first_ms, spread_ms, &log)?;
        match unix_micros() / 1000 < first_ms {
            true => Ok(expect(count, first_ms + spread_ms)),
            false => Err(peer.failed(&log, "adding took longer than expected")),
        }
    })?;
    let mut late = Late::new(count);
    late.again = (micros.len() as u64).saturating_sub(count);
    micros.iter().for_each(|micros| late.record(*micros, 0));
    let (rate, cpu) = server.cpu_of(CALM, || {
        let begun = Instant::now();
        peer.produce(port, count, 0, 0, &log)?;
        match expect(count, 0).len() as u64 {
            passed if passed < count => Err(peer.failed(&log, "jobs are lost")),
            passed => Ok(passed as f64 / begun.elapsed().as_secs_f64()),
        }
    })?;
    Ok(figures(&late, late_cpu, rate, cpu * 1e6 / count as f64))
}

/// Measures connections without a client library, which send 16 commands at once.
fn raw(server: &Server, count: u64, spread: Duration) -> Result<Figures> {
    let (late, late_cpu) = server.cpu_of(CALM, || late(server, count, spread, 0))?;
    let begun = Instant::now();
    let cpu = cost(server, count)?;
    Ok(figures(
        &late,
        late_cpu,
        count as f64 / begun.elapsed().as_secs_f64(),
        cpu,
    ))
}

fn figures(late: &Late, late_cpu: f64, rate: f64, cpu: f64) -> Figures {
    let mut figures = Figures::default();
    late.put(&mut figures);
    figures.put("server CPU of delayed jobs, s", late_cpu);
    figures.put("jobs, 1/s", rate);
    figures.put("server CPU per job, µs", cpu);
    figures
}
