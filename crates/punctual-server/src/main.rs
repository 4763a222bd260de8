//! The binary `punctual`: a Redis-compatible server whose keys expire on time, and its benchmarks.

#![deny(unsafe_code)]

mod allocator;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use punctual_server::config::Config;
use punctual_server::log::{self, Logger};
use punctual_server::{REDIS_VERSION, Server, StartError};

const HELP: &str = "\
Punctual: a Redis-compatible server whose keys expire on time.

Usage: punctual [redis.conf] [--name value ...]
       punctual bench <expiry|blocking|server|snapshot> [options]
       punctual -v | --version
       punctual -h | --help

Every directive of redis.conf may be given as an option. Some of Punctual's own:
  --threads N                   event loops, one per thread
  --clock virtual               time stands still until CLOCK ADVANCE or CLOCK SET
  --notify-expired-values yes   expired strings also publish their last value

Examples:
  punctual --port 7777 --notify-keyspace-events Ex
  punctual /etc/redis/redis.conf --loglevel verbose
  punctual --port 0 --unixsocket /run/punctual.sock
  punctual bench expiry --keys 1000000
";

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    match args.first().and_then(|a| a.to_str()) {
        Some("bench") => return punctual_bench::run(args.into_iter().skip(1)),
        Some("-h" | "--help") => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Some("-v" | "--version") => {
            println!("Punctual server v={}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    // As Redis: huge pages keep memory resident that has been given back. A kernel that cannot do this has none.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    match serve(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

/// Serves until SHUTDOWN, SIGTERM or SIGINT.
fn serve(args: Vec<OsString>) -> Result<(), StartError> {
    let configured = !args.is_empty();
    let config = Config::from_args(args)?;
    let logger = Logger::from_settings(&config.settings()).map_err(StartError::Log)?;
    log::notice!(logger, "oO0OoO0OoO0Oo Punctual is starting oO0OoO0OoO0Oo");
    log::notice!(
        logger,
        "Punctual version={}, speaks as Redis version={REDIS_VERSION}, bits={}, pid={}, just started",
        env!("CARGO_PKG_VERSION"),
        usize::BITS,
        std::process::id()
    );
    if configured {
        log::notice!(logger, "Configuration loaded");
    } else {
        log::warning!(
            logger,
            "Warning: no config file specified, using the default config. In order to specify a config file use punctual \
             /path/to/redis.conf"
        );
    }
    let ignored = config.without_effect();
    let pidfile = config.settings().pidfile.clone();
    let server = Server::builder()
        .config(config)
        .logger(logger.clone())
        .reclaim(allocator::RECLAIM)
        .spawn()?;
    if !ignored.is_empty() {
        log::warning!(
            logger,
            "These directives are known but have no effect here yet: {}",
            ignored.join(", ")
        );
    }
    let mut signals = signal_hook::iterator::Signals::new([
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGINT,
    ])?;
    let shared = Arc::clone(server.shared());
    std::thread::Builder::new()
        .name("punctual-signals".into())
        .spawn(move || {
            for signal in &mut signals {
                let name = if signal == signal_hook::consts::SIGINT {
                    "SIGINT"
                } else {
                    "SIGTERM"
                };
                log::warning!(shared.logger, "Received {name} scheduling shutdown...");
                shared.save_and_stop();
            }
        })?;
    if let Some(path) = &pidfile
        && let Err(e) = std::fs::write(path, format!("{}\n", std::process::id()))
    {
        log::warning!(logger, "Failed to write PID file: {e}");
    }
    server.join();
    if let Some(path) = &pidfile
        && std::fs::remove_file(path).is_ok()
    {
        log::notice!(logger, "Removing the pid file.");
    }
    log::warning!(logger, "Punctual is now ready to exit, bye bye...");
    Ok(())
}
