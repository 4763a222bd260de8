//! A shutdown that waits for a replica.

use std::time::Duration;

use punctual_server::Server;
use rustix::process::Signal;

use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire, eventually};

/// Starts a server with a virtual clock, and a redis-server as its replica.
fn start(threads: usize) -> (Server, Redis) {
    let builder = Server::builder().port(0).threads(threads);
    let builder = builder.option("repl-diskless-sync-delay", "0");
    let server = builder.virtual_clock().spawn().unwrap();
    let address = format!("127.0.0.1 {}", server.port());
    let replica = Redis::start(&["--replicaof", &address]);
    let (mut c, mut r) = (Wire::open(&server), Wire::to(replica.port));
    eventually(|| c.text("INFO replication").contains("state=online"));
    // The connection of the replica does not count as a client.
    assert_eq!(c.info("clients", "connected_clients"), "1");
    c.expect(&["SET k v"], "+OK|");
    eventually(|| r.text("INFO replication").contains("link_status:up"));
    eventually(|| r.int("EXISTS k") == 1);
    (server, replica)
}

/// Makes the replica lag, and returns a client whose SHUTDOWN waits for the replica.
fn wait(server: &Server, replica: &Redis) -> Wire {
    replica.freeze();
    let (mut client, mut c) = (Wire::open(server), Wire::open(server));
    client.expect(&["SET k w"], "+OK|");
    client.send(&["SHUTDOWN"]);
    eventually(|| c.text("INFO clients").contains("blocked_clients:1\r\n"));
    client
}

#[test]
fn writes_wait_and_the_shutdown_can_be_aborted() {
    for threads in [1, 2] {
        let (server, replica) = start(threads);
        let mut client = wait(&server, &replica);
        let (mut writer, mut other) = (Wire::open(&server), Wire::open(&server));
        writer.send(&["SET k x"]);
        other.expect(&["GET k"], "$1|w|");
        writer.expect_silence();
        other.expect(
            &["SHUTDOWN ABORT", "SHUTDOWN ABORT"],
            "+OK|-ERR No shutdown in progress.|",
        );
        client.receive("-ERR Errors trying to SHUTDOWN. Check logs.|");
        writer.receive("+OK|");
        assert!(
            !other
                .text("INFO server")
                .contains("shutdown_in_milliseconds")
        );
        // SHUTDOWN NOW does not wait.
        client.send(&["GET k", "SHUTDOWN NOW"]);
        client.receive("$1|x|");
        assert_eq!(client.ends(), 0);
        server.join();
    }
}

#[test]
fn the_shutdown_ends_when_the_replica_is_in_sync() {
    let (server, replica) = start(2);
    let mut client = wait(&server, &replica);
    // As in Redis, a second SHUTDOWN waits for the end of the first, even with NOW.
    let mut second = Wire::open(&server);
    second.send(&["SHUTDOWN NOW"]);
    second.expect_silence();
    replica.signal(Signal::CONT);
    assert_eq!((client.ends(), second.ends()), (0, 0));
    server.join();
    Wire::to(replica.port).expect(&["GET k"], "$1|w|");
}

#[test]
fn the_shutdown_ends_when_the_time_is_over() {
    let (server, replica) = start(1);
    let mut client = wait(&server, &replica);
    server.advance(Duration::from_millis(9_999)).unwrap();
    assert!(server.is_running());
    let left = Wire::open(&server).info("server", "shutdown_in_milliseconds");
    assert_eq!(left, "1");
    // The server may stop before it has replied.
    let _ = server.advance(Duration::from_millis(1));
    assert_eq!(client.ends(), 0);
    server.join();
}
