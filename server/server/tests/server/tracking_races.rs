//! Client-side caches under load: no cache keeps a stale value. The modes and errors match
//! redis-server's.

use std::collections::HashMap;
use std::thread;

use punctual_resp::Value;
use punctual_server::Server;

use crate::wire::pair::Pair;
use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire, eventually};

/// A cache that processes every message in the order of its connection.
struct Cache {
    wire: Wire,
    kept: HashMap<Vec<u8>, Value>,
}

impl Cache {
    fn open(server: &Server, options: &str) -> Self {
        let mut wire = Wire::open(server);
        wire.ask(&["HELLO", "3"]);
        wire.expect(&[&format!("CLIENT TRACKING on {options}")], "+OK|");
        let kept = HashMap::new();
        Self { wire, kept }
    }

    /// Returns the next reply. Processes the messages before it.
    fn reply(&mut self) -> Value {
        loop {
            match self.wire.value() {
                Value::Push(parts) => match &parts[..] {
                    [_, Value::Array(keys)] => {
                        for key in keys {
                            self.kept.remove(key.as_bytes().unwrap());
                        }
                    }
                    _ => self.kept.clear(),
                },
                reply => return reply,
            }
        }
    }

    /// Reads keys in one pipeline, and caches their values.
    fn read(&mut self, keys: &[String]) {
        let lines: Vec<String> = keys.iter().map(|k| format!("GET {k}")).collect();
        self.wire
            .send(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        for key in keys {
            let value = self.reply();
            self.kept.insert(key.clone().into_bytes(), value);
        }
    }
}

#[test]
fn no_cache_keeps_a_stale_value() {
    const KEYS: u64 = 20;
    const ROUNDS: u64 = 400;
    for (threads, options) in [(1, ""), (4, ""), (4, "BCAST"), (4, "NOLOOP")] {
        let server = Server::builder().port(0).threads(threads).spawn().unwrap();
        let name = |n: u64| format!("k{}", n % KEYS);
        let mut caches: Vec<Cache> = thread::scope(|scope| {
            for writer in 0..2 {
                let server = &server;
                scope.spawn(move || {
                    let mut wire = Wire::open(server);
                    for n in 0..ROUNDS {
                        let key = name(n * 7 + writer);
                        match n % 5 {
                            0 => assert!(wire.int(&format!("DEL {key}")) < 2),
                            1 => wire.expect(&[&format!("SET {key} {n} PX 1")], "+OK|"),
                            _ => wire.expect(&[&format!("SET {key} {n}.{writer}")], "+OK|"),
                        }
                    }
                });
            }
            let readers: Vec<_> = (0..4)
                .map(|reader| {
                    let server = &server;
                    scope.spawn(move || {
                        let mut cache = Cache::open(server, options);
                        for n in 0..ROUNDS {
                            let keys: Vec<String> =
                                (0..3).map(|k| name(n * 3 + k + reader)).collect();
                            cache.read(&keys);
                        }
                        cache
                    })
                })
                .collect();
            readers.into_iter().map(|r| r.join().unwrap()).collect()
        });
        // Due keys must have expired before the actual values are read.
        let mut wire = Wire::open(&server);
        let truth: Vec<(String, Value)> = loop {
            let all: Vec<_> = (0..KEYS).map(name).collect();
            let gone = |key: &String| wire.int(&format!("PTTL {key}")) < 0;
            if all.iter().all(gone) {
                break all
                    .into_iter()
                    .map(|k| (k.clone(), wire.ask(&["GET", &k])))
                    .collect();
            }
        };
        for cache in &mut caches {
            // Another loop sends its batch at the end of a turn, which may still be running.
            eventually(|| {
                cache.wire.send(&["PING"]);
                cache.reply();
                let kept = |key: &str| cache.kept.get(key.as_bytes());
                truth.iter().all(|(key, value)| {
                    kept(key).is_none_or(|kept| kept.as_bytes() == value.as_bytes())
                })
            });
        }
    }
}

#[test]
fn modes_and_errors_are_those_of_redis() {
    let server = Server::builder().port(0).spawn().unwrap();
    let redis = Redis::start(&[]);
    for protocol in ["2", "3"] {
        let mut pair = Pair::open(&server, &redis, protocol);
        for line in [
            "TRACKING",
            "TRACKING maybe",
            "TRACKING on PREFIX a",
            "TRACKING off foo",
            "TRACKING on REDIRECT",
            "TRACKING on REDIRECT x",
            "TRACKING on REDIRECT 99999",
            "TRACKING on REDIRECT 0",
            "TRACKING on REDIRECT -1",
            "TRACKING on OPTIN OPTOUT",
            "TRACKING on BCAST OPTIN",
            "CACHING yes",
            "CACHING",
            "CACHING yes no",
            "TRACKINGINFO",
            "GETREDIR",
            "TRACKING on OPTIN",
            "CACHING no",
            "CACHING x",
            "CACHING yes",
            "TRACKINGINFO",
            "GETREDIR",
            "TRACKINGINFO",
            "TRACKING on OPTOUT",
            "TRACKING on BCAST",
            "TRACKING off PREFIX x",
            "GETREDIR",
            "CACHING yes",
            "TRACKING on OPTOUT NOLOOP",
            "CACHING no",
            "TRACKINGINFO",
            "TRACKING on",
            "TRACKINGINFO",
            "CACHING no",
            "CACHING yes",
            "TRACKING off",
            "TRACKING on BCAST PREFIX foo PREFIX bar",
            "TRACKINGINFO",
            "TRACKING on BCAST PREFIX fo",
            "TRACKING on BCAST PREFIX food",
            "TRACKING on BCAST PREFIX q PREFIX queue",
            "TRACKINGINFO",
            "TRACKING on",
            "TRACKING on BCAST NOLOOP PREFIX zz",
            "TRACKINGINFO",
            "TRACKING on BCAST",
            "TRACKINGINFO",
            "TRACKING on BCAST PREFIX zzz",
            "TRACKING off",
            "TRACKINGINFO",
            "TRACKING on BCAST",
            "TRACKINGINFO",
        ] {
            let line = format!("CLIENT {line}");
            let args: Vec<&str> = line.split(' ').collect();
            pair.ask(&args);
        }
        pair.ask(&["RESET"]);
        pair.ask(&["CLIENT", "TRACKINGINFO"]);
    }
}
