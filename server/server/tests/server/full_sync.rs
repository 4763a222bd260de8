//! Full synchronizations of replicas that read slowly or disconnect.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::Duration;

use punctual_server::log::{Level, Logger};
use punctual_server::{Builder, Server};

use crate::follower::{Follower, Synced};
use crate::primary::info;
use crate::wire::{Open as _, Wire, configured, eventually};

fn builder(diskless: &str) -> Builder {
    configured(
        "threads 1|save|dbfilename no-such-file.rdb|rdbcompression no|repl-diskless-sync-delay 0",
    )
    .option("dir", std::env::temp_dir().to_str().unwrap())
    .option("repl-diskless-sync", diskless)
}

/// Adds more data than sockets and the queue of a replica can hold, and a replica that does not
/// read.
fn stuck(server: &Server, c: &mut Wire) -> Follower {
    let value = "v".repeat(1 << 20);
    for n in 0..64 {
        c.ask(&["SET", &n.to_string(), &value]);
    }
    let mut stuck = Follower::able(server.port());
    stuck.ask("?", -1);
    assert!(matches!(stuck.answer(), Synced::Full(..)));
    eventually(|| {
        let sent = info(c, "stats", "total_net_repl_output_bytes");
        sent.parse::<u64>().unwrap() > 1 << 10
    });
    stuck
}

#[test]
fn a_full_synchronization_ends_with_its_last_replica() {
    for diskless in ["yes", "no"] {
        let (lines, log) = mpsc::channel();
        let logger = Logger::lines(Level::Notice, move |_, line| {
            let _ = lines.send(line.to_owned());
        });
        let server = builder(diskless).logger(logger).spawn().unwrap();
        let mut c = Wire::open(&server);
        let stuck = stuck(&server, &mut c);
        // The loop of the replica serves other clients meanwhile.
        assert_eq!(c.int("STRLEN 1"), 1 << 20);
        drop(stuck);
        let expected = "No replica is left for the RDB transfer";
        while !log
            .recv_timeout(Duration::from_secs(20))
            .unwrap()
            .contains(expected)
        {}
        eventually(|| info(&mut c, "persistence", "rdb_bgsave_in_progress") == "0");
        let (follower, _) = Follower::synced(server.port());
        drop(follower);
    }
}

#[test]
fn a_shutdown_does_not_wait_for_a_stuck_full_synchronization() {
    for diskless in ["yes", "no"] {
        let server = builder(diskless).spawn().unwrap();
        let mut c = Wire::open(&server);
        let mut stuck = stuck(&server, &mut c);
        c.send(&["SHUTDOWN NOSAVE NOW"]);
        c.ends();
        stuck.ends();
        drop(server);
    }
}

/// A replica with a time limit must not disconnect while the server writes the file.
#[test]
fn newlines_keep_a_replica_until_its_file_is_complete() {
    let server = builder("no")
        .option("rdb-key-save-delay", "60000000")
        .spawn()
        .unwrap();
    Wire::open(&server).ask(&["SET", "k", "v"]);
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let patience = Some(Duration::from_secs(20));
    stream.set_read_timeout(patience).unwrap();
    stream.write_all(b"PSYNC ? -1\r\n").unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while !line.starts_with("+FULLRESYNC") {
        line.clear();
        reader.read_line(&mut line).unwrap();
    }
    for _ in 0..2 {
        line.clear();
        reader.read_line(&mut line).unwrap();
        assert_eq!(line, "\n");
    }
}
