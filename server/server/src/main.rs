//! The binary `punctual`: a Redis-compatible server whose keys expire on time, and `punctual top`.

#![deny(unsafe_code)]

mod allocator;
mod crash;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use punctual_server::REDIS_VERSION;
use punctual_server::program::{self, Host};

const USAGE: &str = "\
Punctual: a Redis-compatible server whose keys expire on time.

Usage: punctual [redis.conf] [--name value ...]
       punctual top [-h host] [-p port] [options]
       punctual --directives | -v | --version | -h | --help
";

const EXAMPLES: &str = "\
Examples:
  punctual --port 7777 --notify-keyspace-events Ex
  punctual /etc/redis/redis.conf --loglevel verbose
  punctual --port 0 --unixsocket /run/punctual.sock
  punctual top -p 7777 --interval 0.5
";

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    match args.first().and_then(|a| a.to_str()) {
        Some("top") => return punctual_top::run(args.into_iter().skip(1)),
        Some("-h" | "--help") => {
            print(&format!("{USAGE}\n{}\n{EXAMPLES}", program::OPTIONS));
            return ExitCode::SUCCESS;
        }
        Some("--directives") => {
            program::directives().for_each(|name| print(&format!("{name}\n")));
            return ExitCode::SUCCESS;
        }
        Some("-v" | "--version") => {
            print(&version());
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    allocator::configure();
    let host = Host {
        reclaim: Some(allocator::RECLAIM),
        watch_crashes: Some(crash::watch),
    };
    match program::serve(args, host) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            let _ = writeln!(io::stderr(), "{e}");
            ExitCode::FAILURE
        }
    }
}

/// Returns our version, and the Redis version in the format of `redis-server --version`: tools
/// search for `v=`.
fn version() -> String {
    format!(
        "Punctual {} v={REDIS_VERSION} sha=00000000:0 malloc=mimalloc bits={} build=0\n",
        env!("CARGO_PKG_VERSION"),
        usize::BITS
    )
}

/// Writes to standard output. Ignores a closed pipe, as in `punctual --help | head -1`.
fn print(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}
