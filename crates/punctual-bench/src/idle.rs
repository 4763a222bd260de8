//! `bench server --idle`: the cost of idle connections.
//!
//! The servers have a long idle timeout, so that they must track each connection; the cost of a periodic scan of all
//! connections is visible. CPU is measured over some seconds without the connections, then over as many with them.

use std::net::TcpStream;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::{Error, Result};
use crate::launch::{self, Server};
use crate::options::ServerOptions;
use crate::process::CpuTime;
use crate::report::{self, Report, describe};
use crate::table::{Table, thousands};
use crate::{bars, process};

/// Idle timeout of started servers, longer than the run.
const TIMEOUT_SECONDS: &str = "300";

/// Descriptors for the program's own files and other clients.
const SPARE: u64 = 200;

/// Results of one server.
struct Idle {
    /// CPU in the window, without and with the connections.
    cpu: Option<(Duration, Duration)>,
    /// Resident bytes per connection.
    bytes: Option<f64>,
    /// Number of connections still open at the end.
    alive: Option<u64>,
}

/// Runs the benchmark and prints the report.
pub(crate) fn run(options: &ServerOptions, report: &mut Report) -> Result<()> {
    let wanted = options.idle.unwrap_or(0);
    let window = Duration::from_secs(if options.output.quick { 3 } else { 10 });
    // The servers inherit the limit, so it is raised before they start.
    raise_descriptor_limit(u64::from(wanted) + SPARE)?;
    let (candidates, mut notes) = launch::candidates(&options.target)?;
    let most = (u64::from(wanted) + SPARE / 2).to_string();
    let servers = launch::open_all(
        &candidates,
        &[("timeout", TIMEOUT_SECONDS), ("maxclients", &most)],
    )?;
    notes.push(format!(
        "started servers have `timeout {TIMEOUT_SECONDS}` and `maxclients {most}`"
    ));
    notes.push(format!(
        "CPU over {} s without the connections, then with them; a tick of an idle server costs something too",
        window.as_secs()
    ));
    report.header(
        &format!("Idle connections: {}", thousands(f64::from(wanted))),
        &servers.iter().map(describe).collect::<Vec<_>>(),
        &notes,
    );
    let mut table = Table::new(
        1,
        [
            "server",
            "CPU without, ms",
            "CPU with, ms",
            "share of a core",
            "bar",
            "",
            "bytes per connection",
            "still open",
        ],
    );
    for server in &servers {
        let idle = once(server, wanted, window)?;
        record(report, server, &idle)?;
        let mut row = vec![server.label.clone()];
        match idle.cpu {
            Some((without, with)) => {
                let share = with.saturating_sub(without).as_secs_f64() / window.as_secs_f64();
                let verdict = report.timed_verdict(server.ours, share <= bars::IDLE_CPU_SHARE);
                row.push(format!("{:.2}", without.as_secs_f64() * 1e3));
                row.push(format!("{:.2}", with.as_secs_f64() * 1e3));
                row.push(format!(
                    "{:+.4} %",
                    share_difference(without, with, window) * 100.0
                ));
                row.push(format!("<= {} %", bars::IDLE_CPU_SHARE * 100.0));
                row.push(verdict.into());
            }
            None => row.extend(["-"; 5].map(String::from)),
        }
        row.push(idle.bytes.map_or("-".into(), thousands));
        row.push(
            idle.alive
                .map_or("-".into(), |alive| thousands(alive as f64)),
        );
        table.row(row);
    }
    say!("{table}");
    Ok(())
}

/// Returns the difference as a share of one core; it may be negative because of noise.
fn share_difference(without: Duration, with: Duration, window: Duration) -> f64 {
    (with.as_secs_f64() - without.as_secs_f64()) / window.as_secs_f64()
}

fn once(server: &Server, wanted: u32, window: Duration) -> Result<Idle> {
    let mut control = server.client()?;
    control.expect(&["PING"])?;
    let without = cpu_over(server, window);
    let resident_before = server.pid.and_then(process::resident_bytes);
    let bar = report::progress(u64::from(wanted), &format!("{}: connecting", server.label));
    let mut connections: Vec<TcpStream> = Vec::new();
    for _ in 0..wanted {
        let mut client = server.client()?;
        // Each connection is used once, so that buffers allocated at the first command count.
        client.expect(&["PING"])?;
        connections.push(client.into_stream());
        bar.inc(1);
    }
    bar.finish_and_clear();
    std::thread::sleep(Duration::from_secs(1));
    let resident_after = server.pid.and_then(process::resident_bytes);
    let with = cpu_over(server, window);
    let answer = control.command(&["INFO", "clients"])?;
    let alive = String::from_utf8_lossy(answer.as_bytes().unwrap_or_default())
        .lines()
        .find_map(|line| {
            line.strip_prefix("connected_clients:")?
                .trim()
                .parse::<u64>()
                .ok()
        })
        // The control connection is one of them.
        .map(|connected| connected.saturating_sub(1));
    drop(connections);
    Ok(Idle {
        cpu: without.zip(with),
        bytes: resident_after
            .zip(resident_before)
            .map(|(after, before)| (after as f64 - before as f64) / f64::from(wanted)),
        alive,
    })
}

/// Returns the server's CPU time in a window without commands.
fn cpu_over(server: &Server, window: Duration) -> Option<Duration> {
    let before = CpuTime::of(server.pid?)?;
    std::thread::sleep(window);
    Some(CpuTime::of(server.pid?)?.since(&before))
}

fn record(report: &mut Report, server: &Server, idle: &Idle) -> Result<()> {
    let figures = [
        (
            "cpu_without",
            "ms",
            idle.cpu.map(|(without, _)| without.as_secs_f64() * 1e3),
        ),
        (
            "cpu_with",
            "ms",
            idle.cpu.map(|(_, with)| with.as_secs_f64() * 1e3),
        ),
        ("resident_per_connection", "bytes", idle.bytes),
        (
            "still_open",
            "connections",
            idle.alive.map(|alive| alive as f64),
        ),
    ];
    report.record_all("idle", &server.product, "idle connections", 1, figures)?;
    Ok(())
}

/// Raises the limit of descriptors to `needed`, as far as the hard limit allows.
pub(crate) fn raise_descriptor_limit(needed: u64) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(most) = limit.maximum.filter(|most| *most < needed) {
        return Err(Error::Options(format!(
            "{needed} descriptors are needed and {most} are allowed: run fewer connections, \
             or raise the hard limit (ulimit -Hn)"
        )));
    }
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(needed),
            maximum: limit.maximum,
        },
    )
    .map_err(|error| Error::System {
        doing: "raising the limit of open files",
        source: error.into(),
    })
}
