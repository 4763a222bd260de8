//! `argument_fuzz --server target/debug/punctual --seconds 600`: sends random commands to one
//! server, which must neither end nor leave a client without a reply. A failure prints the last
//! commands and the state of the server; the exit code is then 1.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use punctual_compat::Oracle;
use punctual_compat::fuzz::{self, Options, grammar};

/// Settings of the started server. They keep values small, limit the memory for data and for unread
/// replies, and log slow commands.
#[rustfmt::skip]
const SETTINGS: &[&str] = &[
    "--proto-max-bulk-len", "1mb", "--maxmemory", "300mb", "--maxmemory-policy", "allkeys-random",
    "--client-output-buffer-limit", "normal 64mb 0 0 pubsub 8mb 0 0", "--slowlog-log-slower-than",
    "200000", "--loglevel", "notice",
];

/// Sends random commands from many connections to one server, WHOSE DATA IT DELETES.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// The server program to start
    #[arg(long, default_value = "target/debug/punctual")]
    server: PathBuf,
    /// The address of a running server, instead of a program
    #[arg(long, value_name = "ADDRESS")]
    address: Option<SocketAddr>,
    /// A server whose COMMAND DOCS describes the arguments; by default the tested server
    #[arg(long, value_name = "ADDRESS")]
    documented: Option<SocketAddr>,
    /// Number of event loops of the started server; 0 leaves out the option, which redis-server
    /// does not know
    #[arg(long, default_value_t = 4)]
    threads: u32,
    /// Length of the run in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seed of the commands; without this option, a random seed is chosen and printed
    #[arg(long)]
    seed: Option<u64>,
    /// Seconds without any byte after which a client counts as left without a reply
    #[arg(long, default_value_t = 5)]
    silence: u64,
    /// Number of sessions
    #[arg(long, default_value_t = 12)]
    sessions: u64,
    /// Number of short-lived connections a second
    #[arg(long, default_value_t = 200)]
    short_lived: u32,
    /// Print the commands that are never sent, with the reasons, and exit
    #[arg(long)]
    excluded: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the fuzzer and prints the report. Returns true if there was no failure.
fn run(arguments: &Arguments) -> Result<bool, Box<dyn std::error::Error>> {
    if arguments.excluded {
        print!("{}", grammar::EXCLUDED);
        return Ok(true);
    }
    let seed = arguments.seed.unwrap_or_else(rand::random);
    println!("seed {seed}");
    let threads = arguments.threads.to_string();
    let mut settings = SETTINGS.to_vec();
    if arguments.threads > 0 {
        settings.extend(["--threads", &threads]);
    }
    let server = match arguments.address {
        Some(_) => None,
        None => Some(RefCell::new(Oracle::start_program(
            &arguments.server,
            &settings,
        )?)),
    };
    let started = server
        .as_ref()
        .map(|server| (server.borrow().address(), server.borrow().id()));
    let options = Options {
        address: arguments
            .address
            .or(started.map(|started| started.0))
            .ok_or("no server")?,
        documented: arguments.documented,
        seed,
        duration: Duration::from_secs(arguments.seconds),
        silence: Duration::from_secs(arguments.silence),
        sessions: arguments.sessions,
        short_lived: arguments.short_lived,
    };
    let ended = || {
        server
            .as_ref()
            .is_some_and(|server| server.borrow_mut().try_exit().is_some())
    };
    let report = fuzz::run(&options, &ended, &|| {
        started.map_or_else(String::new, |(_, pid)| threads_of(pid))
    })?;
    println!(
        "{} commands, {} with described arguments; {} replies in sessions, {} of them errors; {} sessions were closed; {} short-lived \
         connections; slowest GET {:?}",
        report.grammar.0,
        report.grammar.1,
        report.replies.0,
        report.replies.1,
        report.closed,
        report.short_lived,
        report.slowest
    );
    println!("seed {seed}: {} failures", report.failures.len());
    let mut fine = report.failures.is_empty();
    if let Some(server) = &server {
        let mut server = server.borrow_mut();
        let log = server.log();
        if let Some(status) = server.try_exit() {
            println!("the server has ended: {status}");
            fine = false;
        }
        fine &= !log.contains("panicked") && !log.contains("CRASH REPORT");
        if !fine {
            println!("its log:\n{log}");
        }
    }
    Ok(fine)
}

/// Returns a line for each thread of a process: its name, how long it has run and has waited for a
/// processor, and the kernel function in which it sleeps.
fn threads_of(pid: u32) -> String {
    let folder = std::fs::read_dir(format!("/proc/{pid}/task"));
    let tasks = folder.into_iter().flatten().flatten().map(|task| {
        let part = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let times: Vec<u64> = part("schedstat")
            .split_whitespace()
            .filter_map(|number| number.parse().ok())
            .collect();
        let ms = |at: usize| times.get(at).map_or(0, |ns| ns / 1_000_000);
        let (name, sleeps) = (part("comm"), part("wchan"));
        let name = name.trim();
        format!(
            "thread {name}: ran {} ms, waited for a processor {} ms; {sleeps}\n",
            ms(0),
            ms(1)
        )
    });
    tasks.collect()
}
