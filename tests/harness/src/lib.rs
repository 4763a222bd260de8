//! Support for the tests and benchmarks of several crates.
//!
//! - [`Launch`] starts a redis-server, or a program with the same options. The result is a
//!   [`Process`], which is killed on drop.
//! - [`Peer`] names the servers of other projects, and finds their programs.
//! - [`Proxy`] forwards connections between servers, and cuts them when a test says so.
//! - [`Wire`] is a blocking RESP client. It panics if a reply is not the expected one; its `try_`
//!   functions return errors of the connection.
//! - [`Random`] generates the same numbers on every machine. [`seed`] returns the seed of a test.
//!
//! Of the project's crates, this one depends only on `punctual-resp`, so that the tests of every
//! other crate can use it.
#![forbid(unsafe_code)]

mod peer;
mod process;
mod proxy;
mod random;
mod wire;

use std::net::{Ipv4Addr, TcpListener};
use std::str::FromStr;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

pub use peer::Peer;
pub use process::{Launch, LaunchError, Process, Ready, Running, last_lines, resident_bytes};
pub use proxy::Proxy;
pub use random::{Random, seed};
pub use wire::Wire;

/// Time limit for a reply, and for actions of a server without a command. It is long enough for a
/// busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a port of 127.0.0.1 that is free at the time of the call.
///
/// # Panics
/// If no port is free.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    listener.local_addr().expect("it is bound").port()
}

/// Raises this process's limit of open files to the smaller of `wanted` and the hard limit, unless
/// it is higher already. Returns this smaller number. Children inherit the limit.
///
/// # Panics
/// If the operating system refuses.
pub fn raise_open_file_limit(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let possible = limit.maximum.map_or(wanted, |hard| hard.min(wanted));
    if limit.current.is_some_and(|current| current < possible) {
        let raised = Rlimit {
            current: Some(possible),
            maximum: limit.maximum,
        };
        setrlimit(Resource::Nofile, raised).expect("the hard limit allows it");
    }
    possible
}

/// Returns the number in an environment variable. Tests read their seed and their length in this
/// way.
///
/// # Panics
/// If the value of the variable is not a number.
#[track_caller]
pub fn number<T: FromStr>(variable: &str) -> Option<T> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable}={text} is not a number")))
}

/// Blocks until a condition holds. Polls it, because a server may need time to fulfil it.
///
/// # Panics
/// If the condition does not hold within [`PATIENCE`].
#[track_caller]
pub fn eventually(mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "the condition still does not hold");
        std::thread::sleep(Duration::from_millis(2));
    }
}
