//! Transactions and queues through a real client library, the `redis` crate, in both protocols.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::thread;
use std::time::Duration;

use punctual_server::Server;
use redis::{
    Client, Commands, Connection, Direction, ErrorKind, ServerErrorKind, pipe, transaction,
};

/// Timeout for a reply, generous for a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

fn connect(server: &Server, query: &str) -> Connection {
    let url = format!("redis://127.0.0.1:{}/{query}", server.port());
    let connection = Client::open(url).unwrap().get_connection().unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection
}

/// Runs `test` in RESP2 with one loop, and in RESP3 with three loops.
fn in_both_protocols(test: impl Fn(&Server, &str)) {
    for (query, threads) in [("?protocol=resp2", "1"), ("?protocol=resp3", "3")] {
        let server = Server::builder().port(0).option("threads", threads);
        test(&server.spawn().unwrap(), query);
    }
}

#[test]
fn atomic_pipelines() {
    in_both_protocols(|server, query| {
        let mut con = connect(server, query);
        let (first, second): (i64, Vec<String>) = pipe()
            .atomic()
            .incr("visits", 41)
            .rpush("log", &["a", "b"])
            .ignore()
            .lrange("log", 0, -1)
            .query(&mut con)
            .unwrap();
        assert_eq!((first, second), (41, vec!["a".into(), "b".into()]));
        let failed = pipe().atomic().cmd("NOSUCH").arg(1).query::<()>(&mut con);
        let kind = failed.unwrap_err().kind();
        assert_eq!(kind, ErrorKind::Server(ServerErrorKind::ExecAbort));
        assert_eq!(con.incr::<_, _, i64>("visits", 1).unwrap(), 42);
    });
}

/// Eight threads increment a counter with WATCH and MULTI: no increment is lost.
#[test]
fn optimistic_counters() {
    in_both_protocols(|server, query| {
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(move || {
                    let mut con = connect(server, query);
                    for _ in 0..25 {
                        let key = "counter";
                        let (new,): (i64,) = transaction(&mut con, &[key], |con, pipe| {
                            let old: Option<i64> = con.get(key)?;
                            pipe.set(key, old.unwrap_or(0) + 1)
                                .ignore()
                                .get(key)
                                .query(con)
                        })
                        .unwrap();
                        assert!(new > 0);
                    }
                });
            }
        });
        let mut con = connect(server, query);
        assert_eq!(con.get::<_, i64>("counter").unwrap(), 200);
    });
}

/// Producers and workers with a list of the jobs in progress.
#[test]
fn reliable_queue() {
    in_both_protocols(|server, query| {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let mut con = connect(server, query);
                thread::spawn(move || {
                    let mut done = Vec::new();
                    loop {
                        let job: Option<i64> = con
                            .blmove("jobs", "doing", Direction::Left, Direction::Right, 0.0)
                            .unwrap();
                        let job = job.expect("the worker received no job");
                        let removed: i64 = con.lrem("doing", 1, job).unwrap();
                        assert_eq!(removed, 1);
                        if job < 0 {
                            return done;
                        }
                        done.push(job);
                    }
                })
            })
            .collect();
        let mut con = connect(server, query);
        for job in 0..200 {
            let _: i64 = con.rpush("jobs", job).unwrap();
        }
        let _: i64 = con.rpush("jobs", &[-1, -1, -1, -1]).unwrap();
        let done: Vec<i64> = workers
            .into_iter()
            .flat_map(|w| w.join().unwrap())
            .collect();
        assert_eq!(done.len(), 200);
        assert_eq!(
            done.into_iter().collect::<BTreeSet<_>>(),
            (0..200).collect()
        );
        assert!(!con.exists::<_, bool>("doing").unwrap());
    });
}

#[test]
fn blocking_and_timeouts() {
    in_both_protocols(|server, query| {
        let mut con = connect(server, query);
        assert_eq!(
            con.blpop::<_, Option<(String, String)>>("none", 0.01)
                .unwrap(),
            None
        );
        let nothing: Option<(String, String, f64)> = con.bzpopmin("none", 0.01).unwrap();
        assert_eq!(nothing, None);
        let mut other = connect(server, query);
        let waiter = thread::spawn(move || {
            let popped: (String, String, f64) = other.bzpopmax(&["board", "more"], 0.0).unwrap();
            let many: Option<(String, Vec<String>)> =
                other.blmpop(0.0, 1, "list", Direction::Left, 2).unwrap();
            (popped, many)
        });
        let _: usize = con
            .zadd_multiple("more", &[(1.5, "a"), (2.5, "b")])
            .unwrap();
        let _: usize = con.rpush("list", &["x", "y", "z"]).unwrap();
        let (popped, many) = waiter.join().unwrap();
        assert_eq!(popped, ("more".into(), "b".into(), 2.5));
        assert_eq!(many, Some(("list".into(), vec!["x".into(), "y".into()])));
        let left: Vec<String> = con.lpop("list", NonZeroUsize::new(5)).unwrap();
        assert_eq!(left, ["z"]);
    });
}
