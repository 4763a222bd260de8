//! `bench jobs --tests peers`: other people's job queues on redis-server, and our clients, as their users run them.
//!
//! Each is two programs: one adds jobs, and the other one works, ten at a time (Celery: a process for each core, as always). They know
//! nothing of the benchmark but a file, to which each handler appends how late it begins. The file's length tells when all are
//! done. The servers are fresh, one after the other, without persistence.
//!
//! The programs are compiled in; their packages are where `scripts/setup job-peers` puts them.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use super::{Late, cost, late};
use crate::bars;
use crate::cleanup::Guard;
use crate::clock::unix_micros;
use crate::csv::Measurement;
use crate::error::{Error, Result};
use crate::lateness::millis_of;
use crate::launch::{self, Candidate, Server, installed, last_lines};
use crate::load::latency_histogram;
use crate::options::{JobPeer, JobsOptions, Program};
use crate::process::CpuTime;
use crate::report::{self, Report};
use punctual_figures::table::{Table, millis, thousands};

/// Jobs that pass before the measurement: they prove that a worker works, and tell how long adding takes.
const FIRST_JOBS: u64 = 500;
/// Time before the first delayed job is due, beside twice the time that adding is expected to take.
const LEAD: Duration = Duration::from_secs(5);
/// Time without a job after which the others count as lost.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time that a server needs for the last acknowledgement.
const CALM: Duration = Duration::from_millis(500);

/// Programs of the peers that need an interpreter.
const BULLMQ: &str = include_str!("../../peers/bullmq.js");
const CELERY: &str = include_str!("../../peers/celery_tasks.py");
const SIDEKIQ: &str = include_str!("../../peers/sidekiq_jobs.rb");
const PYTHON: &str = include_str!("../../peers/punctual_jobs.py");

/// A way to start the programs of a peer.
struct Peer {
    name: String,
    ours: bool,
    words: Vec<PathBuf>,
    packages: PathBuf,
}

/// Results of one peer.
#[derive(Debug, Default)]
struct Figures {
    late: Option<Late>,
    /// Seconds of CPU of the server for the delayed jobs.
    late_cpu: Option<f64>,
    /// Jobs a second, from the first addition to the last one done.
    rate: f64,
    /// Microseconds of CPU of the server of a job.
    cpu_us: Option<f64>,
}

/// Measures all peers, and prints the table.
pub(super) fn run(options: &JobsOptions, report: &mut Report) -> Result<()> {
    let (candidates, mut notes) = launch::fresh_candidates(&options.target, "--tests peers")?;
    let title = format!(
        "Job queues: {} delayed jobs over {} s, added before; then as many that are added and run at the same time",
        thousands(options.peer_jobs() as f64),
        options.peer_spread().as_secs_f64(),
    );
    report.header(&title, &[], &[]);
    let server = |program| {
        let mut found = candidates.iter();
        found.find(|candidate| candidate.program() == Some(program))
    };
    let folder = tempfile::tempdir().map_err(system("making a directory for peers"))?;
    let mut rows = Vec::new();
    for one in options.peers() {
        let program = if one.ours() {
            Program::Punctual
        } else {
            Program::Redis
        };
        let Some(candidate) = server(program) else {
            continue;
        };
        if one == JobPeer::Raw {
            rows.push((
                "JOB, raw connection".to_owned(),
                true,
                raw(options, candidate)?,
            ));
            continue;
        }
        match peer(one, &options.packages, folder.path())? {
            Ok(peer) => match measure(&peer, options, candidate, &folder) {
                Ok(figures) => rows.push((peer.name, peer.ours, figures)),
                // The others are still worth their time.
                Err(Error::Invalid(reason)) => notes.push(reason),
                Err(error) => return Err(error),
            },
            Err(missing) => notes.push(missing),
        }
    }
    for (name, _, figures) in &rows {
        record(report, name, figures)?;
    }
    print_table(report, &rows, &notes);
    Ok(())
}

fn system(doing: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::System { doing, source }
}

/// Returns how to start a peer; an inner error says what is missing.
fn peer(
    which: JobPeer,
    packages: &Path,
    folder: &Path,
) -> Result<std::result::Result<Peer, String>> {
    // Programs run in a folder of their own.
    let packages = packages.canonicalize().unwrap_or_else(|_| packages.into());
    let python = packages.join("python");
    let (name, interpreter, file, source, needs) = match which {
        JobPeer::Bullmq => {
            let package = packages.join("node_modules/bullmq/package.json");
            let version = quoted_version(&package);
            (
                format!("BullMQ {version}"),
                "node",
                "bullmq.js",
                BULLMQ,
                vec![package],
            )
        }
        JobPeer::Celery => (
            format!("Celery {}", wheel_version(&python, "celery-")),
            "python3",
            "celery_tasks.py",
            CELERY,
            vec![python.join("celery"), python.join("redis")],
        ),
        JobPeer::Sidekiq => (
            format!("Sidekiq {}", sidekiq_version()),
            "ruby",
            "sidekiq_jobs.rb",
            SIDEKIQ,
            vec!["sidekiq".into()],
        ),
        JobPeer::Python => (
            "JOB, Python client".to_owned(),
            "python3",
            "punctual_jobs.py",
            PYTHON,
            vec![python.join("jobs.py"), python.join("redis")],
        ),
        JobPeer::Rust | JobPeer::Raw => {
            let program = packages.join("job_peer");
            let peer = Peer {
                name: "JOB, Rust client".into(),
                ours: true,
                words: vec![program.clone()],
                packages,
            };
            let missing = "JOB, Rust client, is not built: scripts/setup job-peers";
            return Ok(installed(&program).then_some(peer).ok_or(missing.into()));
        }
    };
    let there = |path: &PathBuf| path.exists() || installed(path);
    if !needs.iter().all(there) || !installed(Path::new(interpreter)) {
        return Ok(Err(format!(
            "{} is not installed: scripts/setup job-peers",
            name.trim_end()
        )));
    }
    let path = folder.join(file);
    fs::write(&path, source).map_err(system("writing a peer's program"))?;
    Ok(Ok(Peer {
        name,
        ours: which.ours(),
        words: vec![interpreter.into(), path],
        packages,
    }))
}

/// Returns the version in a package.json.
fn quoted_version(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let after = text.split("\"version\"").nth(1).unwrap_or_default();
    after.split('"').nth(1).unwrap_or_default().to_owned()
}

/// Returns the version of an installed wheel, from the name of its `dist-info`.
fn wheel_version(folder: &Path, prefix: &str) -> String {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let version = |name: String| {
        let version = name.strip_prefix(prefix)?.strip_suffix(".dist-info")?;
        Some(version.to_owned())
    };
    names.filter_map(version).next().unwrap_or_default()
}

fn sidekiq_version() -> String {
    let output = Command::new("sidekiq").arg("--version").output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.split_whitespace().nth(1).unwrap_or_default().into()
}

/// A worker with its children, which are killed on drop or when a signal ends the run.
struct Worker {
    child: Child,
    guard: Option<Guard>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.guard.take();
        let _ = self.child.wait();
    }
}

impl Peer {
    fn command(&self, log: &Path) -> Result<Command> {
        let log = File::options().append(true).create(true).open(log);
        let log = log.map_err(system("opening a peer's log"))?;
        let errors = log.try_clone().map_err(system("opening a peer's log"))?;
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

    fn work(&self, port: u16, out: &Path, log: &Path) -> Result<Worker> {
        let mut command = self.command(log)?;
        command.arg("work").arg(port.to_string()).arg(out);
        let child = command.process_group(0).spawn();
        let child = child.map_err(|source| self.cannot_start(source))?;
        let pid = Pid::from_child(&child);
        let guard = Guard::new(move || {
            // The jobs are done, and the server goes too.
            let _ = kill_process_group(pid, Signal::KILL);
        });
        Ok(Worker {
            child,
            guard: Some(guard),
        })
    }

    /// Adds jobs and waits for the program's end.
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

/// Waits until the file has `lines` lines, or none comes for a long time. Returns the lines.
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

fn cpu(server: &Server) -> Option<CpuTime> {
    server.pid.and_then(CpuTime::of)
}

fn used(server: &Server, before: Option<CpuTime>) -> Option<f64> {
    std::thread::sleep(CALM);
    let after = cpu(server)?;
    Some(after.since(&before?).as_secs_f64())
}

fn measure(
    peer: &Peer,
    options: &JobsOptions,
    candidate: &Candidate,
    folder: &TempDir,
) -> Result<Figures> {
    let server = candidate.open(&[])?;
    let port = server.addr.port();
    let log = folder.path().join("log");
    let mut figures = Figures::default();
    let mut done = 0;
    let out = folder.path().join(format!("out-{port}"));
    let worker = peer.work(port, &out, &log)?;
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
        return Err(peer.failed(&log, "the worker does nothing"));
    }

    let (count, spread_ms) = (options.peer_jobs(), millis_of(options.peer_spread()));
    let bar = report::progress(1, &format!("{}: delayed jobs", peer.name));
    let before = cpu(&server);
    let lead = LEAD + adding.mul_f64(2.0 * (count as f64 / FIRST_JOBS as f64).max(1.0));
    let first_ms = unix_micros() / 1000 + millis_of(lead);
    peer.produce(port, count, first_ms, spread_ms, &log)?;
    if unix_micros() / 1000 >= first_ms {
        return Err(peer.failed(&log, "adding took longer than expected"));
    }
    let late = expect(count, first_ms + spread_ms);
    figures.late_cpu = used(&server, before);
    let mut lateness = latency_histogram();
    for micros in &late {
        lateness.saturating_record((*micros).max(1));
    }
    let ran = late.len() as u64;
    figures.late = Some(Late {
        lateness,
        // Handlers that begin early write 0.
        early: 0,
        lost: count.saturating_sub(ran),
        again: ran.saturating_sub(count),
        end_us: unix_micros(),
    });
    bar.finish_and_clear();

    let count = options.peer_jobs();
    let bar = report::progress(1, &format!("{}: jobs a second", peer.name));
    let (before, begun) = (cpu(&server), Instant::now());
    peer.produce(port, count, 0, 0, &log)?;
    let passed = expect(count, 0).len() as u64;
    figures.rate = passed as f64 / begun.elapsed().as_secs_f64();
    if passed < count {
        return Err(peer.failed(&log, "jobs are lost"));
    }
    figures.cpu_us = used(&server, before).map(|seconds| seconds * 1e6 / count as f64);
    bar.finish_and_clear();
    drop(worker);
    Ok(figures)
}

/// Measures a connection without a client library, which sends 16 commands at once.
fn raw(options: &JobsOptions, candidate: &Candidate) -> Result<Figures> {
    let server = candidate.open(&[])?;
    let before = cpu(&server);
    let late = late(options.peer_jobs(), options.peer_spread(), 0, &server)?;
    let late_cpu = used(&server, before);
    let (count, begun) = (options.peer_jobs(), Instant::now());
    let cpu_us = cost(count, &server)?;
    Ok(Figures {
        late: Some(late),
        late_cpu,
        rate: count as f64 / begun.elapsed().as_secs_f64(),
        cpu_us,
    })
}

const PERCENTILES: [(&str, f64); 3] = [("p50", 50.0), ("p99", 99.0), ("max", 100.0)];

fn at(lateness: &Histogram<u64>, percentile: f64) -> f64 {
    lateness.value_at_percentile(percentile) as f64 / 1e3
}

fn record(report: &mut Report, name: &str, figures: &Figures) -> Result<()> {
    let mut write = |metric: &str, unit: &str, value: Option<f64>| match value {
        None => Ok(()),
        Some(value) => report.record(Measurement {
            benchmark: "jobs",
            server: name,
            case: "peers",
            round: 1,
            metric,
            unit,
            value,
        }),
    };
    if let Some(late) = &figures.late {
        for (name, percentile) in PERCENTILES {
            let value = at(&late.lateness, percentile);
            write(&format!("lateness_{name}"), "ms", Some(value))?;
        }
    }
    write("late_cpu", "s", figures.late_cpu)?;
    write("rate", "jobs/s", Some(figures.rate))?;
    write("cpu", "us", figures.cpu_us)
}

fn print_table(report: &mut Report, rows: &[(String, bool, Figures)], notes: &[String]) {
    let mut table = Table::new(
        1,
        [
            "queue",
            "late p50, ms",
            "p99",
            "max",
            "lost",
            "again",
            "server CPU, s",
            "jobs/s",
            "server CPU/job, us",
            "to BullMQ",
            "bar",
            "",
        ],
    );
    let bullmq = rows.iter().find(|(name, ..)| name.starts_with("BullMQ"));
    let bullmq = bullmq.and_then(|(.., figures)| figures.cpu_us);
    for (name, ours, figures) in rows {
        let mut row = vec![name.clone()];
        if let Some(late) = &figures.late {
            row.extend(PERCENTILES.map(|(_, percentile)| millis(at(&late.lateness, percentile))));
            row.extend([late.lost, late.again].map(|count| count.to_string()));
        }
        let text = |value: Option<f64>, digits: usize| {
            value.map_or("-".into(), |value| format!("{value:.digits$}"))
        };
        row.push(text(figures.late_cpu, 2));
        row.push(thousands(figures.rate));
        row.push(text(figures.cpu_us, 1));
        let ratio = figures.cpu_us.zip(bullmq).map(|(own, bullmq)| own / bullmq);
        row.push(text(ratio, 3));
        if let Some(ratio) = ratio.filter(|_| *ours) {
            row.push(format!("<= {}", bars::JOB_CPU_RATIO));
            let met = ratio <= bars::JOB_CPU_RATIO;
            row.push(report.timed_verdict(true, met).to_owned());
        }
        table.row(row);
    }
    say!("{table}");
    for note in notes {
        say!("{note}");
    }
}
