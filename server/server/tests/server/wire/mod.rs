//! Clients that send and expect exact bytes, and servers for them.

pub mod pair;
pub mod redis;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use punctual_harness::{Wire, eventually};
use punctual_resp::Value;
use punctual_server::Server;

/// Opens clients of servers in this process.
pub trait Open {
    /// Connects to a server.
    fn open(server: &Server) -> Self;
}

impl Open for Wire {
    #[track_caller]
    fn open(server: &Server) -> Self {
        Self::to(server.port())
    }
}

/// Runs lines that must succeed.
#[track_caller]
pub fn run(c: &mut Wire, lines: &[&str]) {
    for line in lines {
        c.run(line);
    }
}

/// Runs a line and returns its reply as text.
#[track_caller]
pub fn show(c: &mut Wire, line: &str) -> String {
    c.send(&[line]);
    shown(&c.value())
}

/// Returns a reply as text.
pub fn shown(value: &Value) -> String {
    match (value.as_slice(), value.as_bytes(), value.as_int()) {
        (Some(members), ..) => {
            let members: Vec<String> = members.iter().map(shown).collect();
            format!("[{}]", members.join(" "))
        }
        (_, Some(bytes), _) => String::from_utf8_lossy(bytes).into_owned(),
        (_, _, Some(int)) => int.to_string(),
        _ => format!("{value:?}"),
    }
}

/// Returns the time of the system clock since the epoch.
pub fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// Returns a field of a line of CLIENT LIST.
pub fn field<'l>(line: &'l str, name: &str) -> &'l str {
    line.split_whitespace()
        .find_map(|f| f.strip_prefix(name)?.strip_prefix('='))
        .unwrap_or_else(|| panic!("no {name} in {line}"))
}
