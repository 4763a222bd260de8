//! Compares CONFIG commands with a real redis-server, where one is installed.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{DIRECTIVES, VALUES, config, loaded};

pub(super) struct Redis {
    process: Child,
    stream: BufReader<UnixStream>,
    _folder: tempfile::TempDir,
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Redis {
    /// Starts redis-server. Prints a note and returns `None` if it is not installed.
    fn start(args: &[&str]) -> Option<Self> {
        Self::spawn(Command::new("redis-server").args(args))
    }

    /// Starts redis-server with this configuration file.
    pub(super) fn with_file(path: &Path) -> Option<Self> {
        Self::spawn(Command::new("redis-server").arg(path))
    }

    fn spawn(command: &mut Command) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("redis.sock");
        let spawned = command
            .args(["--port", "0", "--dir"])
            .arg(folder.path())
            .arg("--unixsocket")
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(process) = spawned else {
            eprintln!("skipped: redis-server is not installed");
            return None;
        };
        Some(Self {
            process,
            stream: BufReader::new(connect(&socket)),
            _folder: folder,
        })
    }

    pub(super) fn ask(&mut self, words: &[&str]) -> Vec<String> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.stream.get_mut().write_all(request.as_bytes()).unwrap();
        self.reply()
    }

    fn reply(&mut self) -> Vec<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let rest = line.trim_end();
        match rest.as_bytes().first() {
            Some(b'*') => {
                let count: usize = rest[1..].parse().unwrap();
                (0..count).flat_map(|_| self.reply()).collect()
            }
            Some(b'$') => {
                let mut bytes = vec![0; rest[1..].parse::<usize>().unwrap() + 2];
                self.stream.read_exact(&mut bytes).unwrap();
                bytes.truncate(bytes.len() - 2);
                vec![String::from_utf8(bytes).unwrap()]
            }
            _ => vec![rest.to_owned()],
        }
    }
}

fn connect(socket: &Path) -> UnixStream {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return stream,
            Err(error) => assert!(
                Instant::now() < deadline,
                "redis-server did not start: {error}"
            ),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn names_and_defaults_match_redis() {
    /// Directives of Punctual only, or newer than Debian's Redis 7.0.
    const NOT_THERE: [&str; 15] = [
        "stream-idmp-duration",
        "stream-idmp-maxsize",
        "metrics-port",
        "metrics-bind",
        "metrics-password",
        "threads",
        "shards",
        "clock",
        "notify-expired-values",
        "import-skip-unknown",
        "compatibility-version",
        "locale-collate",
        "set-max-listpack-entries",
        "set-max-listpack-value",
        "cluster-announce-human-nodename",
    ];
    /// Directives set for this test.
    const OTHER_VALUE: [&str; 3] = ["port", "dir", "unixsocket"];
    let Some(mut redis) = Redis::start(&[]) else {
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
    /// Directives that act on the redis-server process (sockets, keys, limits, scores, this connection), or that differ
    /// between 7.2 or later (`maxmemory-policy`) and Debian's 7.0.
    const SKIPPED: [&str; 18] = [
        "maxmemory-policy",
        "tls-port",
        "tls-replication",
        "tls-cluster",
        "repl-backlog-size",
        "unixsocket",
        "port",
        "bind",
        "maxclients",
        "maxmemory-clients",
        "oom-score-adj",
        "oom-score-adj-values",
        "proc-title-template",
        "activedefrag",
        "watchdog-period",
        "dir",
        "bind-source-addr",
        "timeout",
    ];
    let Some(mut redis) = Redis::start(&["--enable-protected-configs", "yes"]) else {
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
            if matches!(directive.effect, super::super::directive::Effect::Fixed(_))
                && theirs == "+OK"
            {
                assert!(
                    reply == "+OK" || reply.contains("not implemented"),
                    "{question}: {reply}"
                );
                continue;
            }
            if reply != theirs {
                differences.push(format!("{question}: {reply} but Redis {theirs}"));
            }
            let theirs = redis.ask(&["CONFIG", "GET", directive.name]).remove(1);
            let value = super::get(&ours, directive.name);
            if value != theirs {
                differences.push(format!("after {question}: {value:?} but Redis {theirs:?}"));
            }
            compared += 1;
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
    assert!(compared > 2_000, "only {compared} compared");
}
