//! Compares CONFIG commands with a real redis-server, where one is installed.

use std::collections::BTreeMap;
use std::path::Path;

use punctual_harness::{Launch, Process, Ready, Wire};
use punctual_resp::Value;

use crate::config::tests::{DIRECTIVES, VALUES, config, loaded};

pub(super) struct Redis {
    wire: Wire,
    _process: Process,
}

impl Redis {
    /// Starts redis-server, with a configuration file if there is one. Prints a note and returns
    /// `None` if redis-server is not installed.
    pub(super) fn start(file: Option<&Path>, options: &[&str]) -> Option<Self> {
        let launch = Launch::of("redis-server").file(file).options(options);
        // A connection shows that the server is ready, because the file may disable the log line.
        let process = launch.ready(Ready::Answers).start_if_installed()?;
        Some(Self {
            wire: process.wire(),
            _process: process,
        })
    }

    /// Returns the texts in a reply. Errors and simple strings begin with `-` and `+`.
    pub(super) fn ask(&mut self, words: &[&str]) -> Vec<String> {
        fn texts(reply: Value) -> Vec<String> {
            let (first, text) = match reply {
                Value::Array(parts) => return parts.into_iter().flat_map(texts).collect(),
                Value::Bulk(text) => ("", text),
                Value::Simple(text) => ("+", text),
                Value::Error(text) => ("-", text),
                other => panic!("{other:?}"),
            };
            vec![first.to_owned() + std::str::from_utf8(&text).unwrap()]
        }
        texts(self.wire.ask(words))
    }
}

#[test]
fn names_and_defaults_match_redis() {
    /// Directives that only Punctual has, or that are newer than Debian's Redis 7.0.
    #[rustfmt::skip]
    const NOT_THERE: &[&str] = &[
        "default-ttl", "max-ttl", "ttl-rule", "log-format", "stream-idmp-duration",
        "stream-idmp-maxsize", "metrics-port", "metrics-bind", "metrics-password", "threads",
        "shards", "clock", "seed", "notify-expired-values", "import-skip-unknown",
        "reported-version", "huge-pages", "locale-collate", "set-max-listpack-entries",
        "set-max-listpack-value", "cluster-announce-human-nodename",
        "cluster-bus-port-protected-mode", "backupdirname", "backup-sealed-ttl",
        "cluster-slot-stats-enabled",
    ];
    /// Directives that the test harness sets for redis-server.
    const OTHER_VALUE: [&str; 2] = ["port", "dir"];
    let Some(mut redis) = Redis::start(None, &[]) else {
        return;
    };
    let reply = redis.ask(&["CONFIG", "GET", "*"]);
    let mut theirs: BTreeMap<String, String> = reply
        .chunks_exact(2)
        .map(|pair| (pair[0].clone(), pair[1].clone()))
        .collect();
    for (name, value) in config().get([&b"*"[..]]) {
        let (name, value) = (
            String::from_utf8(name).unwrap(),
            String::from_utf8(value).unwrap(),
        );
        match theirs.remove(&name) {
            None => assert!(NOT_THERE.contains(&name.as_str()), "Redis has no {name}"),
            Some(default) if OTHER_VALUE.contains(&name.as_str()) => drop(default),
            Some(default) => assert_eq!(value, default, "default of {name}"),
        }
    }
    assert!(theirs.is_empty(), "not in our table: {theirs:?}");
}

#[test]
fn every_directive_accepts_and_refuses_the_values_that_redis_does() {
    /// Directives that this test does not set. They open sockets, need TLS files, allocate memory,
    /// or change the redis-server process or this test's connection. The values of
    /// `maxmemory-policy` differ between Punctual and Debian's Redis 7.0.
    #[rustfmt::skip]
    const SKIPPED: [&str; 18] = [
        "maxmemory-policy", "tls-port", "tls-replication", "tls-cluster", "repl-backlog-size",
        "unixsocket", "port", "bind", "maxclients", "maxmemory-clients", "oom-score-adj",
        "oom-score-adj-values", "proc-title-template", "activedefrag", "watchdog-period", "dir",
        "bind-source-addr", "timeout",
    ];
    let Some(mut redis) = Redis::start(None, &["--enable-protected-configs", "yes"]) else {
        return;
    };
    let mut ours = loaded("enable-protected-configs yes\n");
    let mut differences = Vec::new();
    let mut compared = 0;
    for directive in DIRECTIVES {
        let known = redis.ask(&["CONFIG", "GET", directive.name]);
        if known.is_empty() || SKIPPED.contains(&directive.name) {
            continue;
        }
        for value in VALUES {
            let theirs = redis
                .ask(&["CONFIG", "SET", directive.name, value])
                .join(" ");
            let pair: [(&[u8], &[u8]); 1] = [(directive.name.as_bytes(), value.as_bytes())];
            let reply = match ours.set(&pair, true, false) {
                Ok(_) => "+OK".to_owned(),
                Err(error) => format!("-ERR {error}"),
            };
            let question = format!("CONFIG SET {} {value:?}", directive.name);
            if reply != theirs {
                differences.push(format!("{question}: {reply} but Redis {theirs}"));
            }
            let theirs = redis.ask(&["CONFIG", "GET", directive.name]).remove(1);
            let value = crate::config::tests::get(&ours, directive.name);
            if value != theirs {
                differences.push(format!("after {question}: {value:?} but Redis {theirs:?}"));
            }
            compared += 1;
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
    assert!(compared > 2_000, "only {compared} compared");
}
