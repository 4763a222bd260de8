//! Primaries and replicas for tests, and their state.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;

use punctual_server::{Builder, Server};

use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire, configured, eventually, fill_large, fill_small};

/// Starts a redis-server as a primary that begins full synchronizations at once.
pub fn primary(options: &[&str]) -> Redis {
    let mut all = vec![
        "--repl-diskless-sync-delay",
        "0",
        "--enable-debug-command",
        "yes",
    ];
    all.extend(options);
    Redis::start(&all)
}

pub fn builder() -> Builder {
    configured("enable-debug-command yes")
}

/// Starts a replica of the server on `port`.
pub fn follow(port: u16, builder: Builder) -> Server {
    let server = builder
        .option("replicaof", &format!("127.0.0.1 {port}"))
        .spawn()
        .unwrap();
    eventually(|| info(&mut Wire::open(&server), "master_link_status") == "up");
    server
}

/// Returns a field of the section `replication` of INFO.
pub fn info(c: &mut Wire, name: &str) -> String {
    c.info("replication", name)
}

/// Blocks until the replica has applied the stream up to the primary's current offset.
#[track_caller]
pub fn caught_up(theirs: &mut Wire, ours: &mut Wire) {
    let sent = info(theirs, "master_repl_offset").parse::<u64>().unwrap();
    eventually(|| {
        let applied = info(ours, "slave_repl_offset");
        applied.parse::<u64>().unwrap() >= sent && info(ours, "master_link_status") == "up"
    });
}

/// Asserts that both servers have the same dataset.
#[track_caller]
pub fn same_data(theirs: &mut Wire, ours: &mut Wire) {
    caught_up(theirs, ours);
    assert_eq!(theirs.text("DEBUG DIGEST"), ours.text("DEBUG DIGEST"));
}

/// Writes values of every type except streams in two databases, some with a deadline, and loads a
/// library.
pub fn fill(c: &mut Wire) {
    for db in ["0", "5"] {
        c.ask(&["SELECT", db]);
        fill_small(c);
        c.run("PEXPIRE zset 200000000");
        fill_large(c);
    }
    c.ask(&["SELECT", "0"]);
    load(c, "lib", "answer", "42");
}

/// Loads a library with one function that returns a constant.
pub fn load(c: &mut Wire, library: &str, function: &str, value: &str) {
    let code = format!(
        "#!lua name={library}\nredis.register_function{{function_name='{function}', \
         callback=function() return {value} end, flags={{'no-writes'}}}}"
    );
    c.succeed(&["FUNCTION", "LOAD", "REPLACE", &code]);
}

/// Starts a redis-server that is a replica of the server on `port`.
pub fn follow_with_redis(port: u16) -> Redis {
    let primary = format!("127.0.0.1 {port}");
    let redis = Redis::start(&["--enable-debug-command", "yes", "--replicaof", &primary]);
    let mut c = Wire::to(redis.port);
    eventually(|| info(&mut c, "master_link_status") == "up");
    redis
}

/// Starts a primary that announces a snapshot of `len` bytes to each replica, sends these bytes,
/// and then keeps the connection open.
pub fn primary_with(len: usize, snapshot: Vec<u8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut kept = Vec::new();
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut words = BufReader::new(connection.try_clone().unwrap()).lines();
            // Reads the commands line by line. Lines with lengths match no word.
            while let Some(Ok(word)) = words.next() {
                let reply = match &word[..] {
                    "PING" => b"+PONG\r\n".to_vec(),
                    "REPLCONF" => b"+OK\r\n".to_vec(),
                    "PSYNC" => {
                        let head = format!("+FULLRESYNC {} 1\r\n${len}\r\n", "a".repeat(40));
                        [head.as_bytes(), &snapshot].concat()
                    }
                    _ => continue,
                };
                if connection.write_all(&reply).is_err() || word == "PSYNC" {
                    break;
                }
            }
            kept.push(connection);
        }
    });
    port
}
