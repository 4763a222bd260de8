//! Clients that send and expect exact bytes, and servers to compare with.

pub mod pair;
pub mod redis;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use punctual_harness::{Wire, eventually};
use punctual_resp::Value;
use punctual_server::{Builder, Server};

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

/// Returns a builder of a server on a free port, with these lines of redis.conf. `|` ends a line,
/// and a name alone has an empty value: `save|appendonly yes`.
pub fn configured(lines: &str) -> Builder {
    lines
        .split('|')
        .fold(Server::builder().port(0), |builder, line| {
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            builder.option(name, value)
        })
}

/// Starts a server with the default configuration on a free port.
#[track_caller]
pub fn start() -> Server {
    Server::builder().port(0).spawn().unwrap()
}

/// Starts a server that is [`configured`] by these lines.
#[track_caller]
pub fn server_with(lines: &str) -> Server {
    configured(lines).spawn().unwrap()
}

/// Runs lines, and panics if a reply is an error.
#[track_caller]
pub fn run(c: &mut Wire, lines: &[&str]) {
    for line in lines {
        c.run(line);
    }
}

/// Writes small values of every type of Redis except streams to the selected database.
pub fn fill_small(c: &mut Wire) {
    let lines = [
        "SET int 12345678901",
        "SET text hello",
        "SET timed soon PX 100000000",
        "SETBIT bits 5000 1",
        "PFADD hll a b c",
        "RPUSH list a 1 -300 b",
        "SADD ints 1 2 70000 -5",
        "SADD words a b 3",
        "HSET hash f v g 12",
        "ZADD zset 1 a 2.5 b inf c -inf d 3.0000000000000004 e",
        "GEOADD geo 13.361389 38.115556 Palermo",
    ];
    run(c, &lines);
}

/// Writes a list, a set, a hash and a sorted set of 700 elements to the selected database.
pub fn fill_large(c: &mut Wire) {
    for n in 0..700 {
        let (name, score) = (format!("element:{n}"), format!("{}.25", n * 7 % 500));
        c.ask(&["RPUSH", "long list", &name]);
        c.ask(&["SADD", "large set", &name]);
        c.ask(&["HSET", "large hash", &name, &n.to_string()]);
        c.ask(&["ZADD", "large zset", &score, &name]);
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

/// Returns the Unix time of the system clock.
pub fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// Returns a field of a line of CLIENT LIST.
pub fn field<'l>(line: &'l str, name: &str) -> &'l str {
    line.split_whitespace()
        .find_map(|f| f.strip_prefix(name)?.strip_prefix('='))
        .unwrap_or_else(|| panic!("no {name} in {line}"))
}
