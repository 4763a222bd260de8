//! What tests and benchmarks of several crates start and ask.
//!
//! - [`Launch`] starts a redis-server, or a program that takes its options; a [`Process`] is killed
//!   on drop.
//! - [`Proxy`] is a link between servers that a test cuts.
//! - [`Wire`] is a blocking client that speaks RESP. It panics when a server breaks a promise; its
//!   `try_` functions do not.
//! - [`Random`] has the same numbers on every machine; [`seed`] is what to start it with in a test.
//!
//! The crate depends on `punctual-resp` only, so that the tests of every other crate may depend on
//! it.
#![forbid(unsafe_code)]

mod process;
mod proxy;
mod random;
mod wire;

use std::net::{Ipv4Addr, TcpListener};
use std::str::FromStr;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

pub use process::{Launch, LaunchError, Process, Ready, Running, last_lines, resident_bytes};
pub use proxy::Proxy;
pub use random::{Random, seed};
pub use wire::Wire;

/// Time limit of a reply, or of what a server does by itself; generous, for a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a port of 127.0.0.1 that is free at the time of the call.
///
/// # Panics
/// If no port is free.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    listener.local_addr().expect("it is bound").port()
}

/// Raises this process's limit of open files to `wanted` or the hard limit, and returns the new
/// limit. Children inherit it.
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

/// Returns the number in an environment variable, with which a run of a test may be made longer or
/// repeated.
///
/// # Panics
/// If the variable is set to what is no number.
#[track_caller]
pub fn number<T: FromStr>(variable: &str) -> Option<T> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// Blocks until a condition holds that a server reaches by itself.
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
