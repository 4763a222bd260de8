//! Input that clients send while their command waits. The server reads it, so that it notices the
//! end of the stream, and runs it after the wait.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use punctual_server::{Builder, Server};

use crate::process::connect;
use crate::tls::{Authority, Encrypt as _, TlsWire};
use crate::waiters::{assert_no_waiters, waiting};
use crate::wire::{Open as _, Wire, configured, eventually, field};

/// More bytes than one read of the server takes.
const BEHIND: usize = 256 << 10;

fn builder(threads: usize) -> Builder {
    configured("clock virtual").threads(threads)
}

/// Returns `line`, followed by `len` bytes of PINGs.
fn with_input_behind(line: &str, len: usize) -> Vec<u8> {
    let mut bytes = format!("{line}\r\n").into_bytes();
    bytes.extend(b"PING\r\n".repeat(len / 6));
    bytes
}

/// Sends `line` and further input, and returns the connection.
fn send_behind(server: &Server, line: &str, len: usize) -> TcpStream {
    let mut stream = connect(server.port());
    stream.write_all(&with_input_behind(line, len)).unwrap();
    stream
}

/// Asserts that the observer is the only remaining client.
#[track_caller]
fn assert_alone(server: &Server, observer: &mut Wire) {
    assert_no_waiters(server);
    eventually(|| observer.text("CLIENT LIST").lines().count() == 1);
}

#[test]
fn a_client_that_disconnects_after_much_input_takes_no_element() {
    for threads in [1, 4] {
        let server = builder(threads).spawn().unwrap();
        let mut c = Wire::open(&server);
        c.expect(&["XGROUP CREATE s g $ MKSTREAM"], "+OK|");
        for line in [
            "BLPOP q 0",
            "BLMOVE q other LEFT LEFT 1000",
            "JOB TAKE jobs BLOCK 0",
            "XREADGROUP GROUP g me BLOCK 0 STREAMS s >",
            "WAIT 1 0",
        ] {
            let clients: Vec<TcpStream> = (0..40)
                .map(|_| send_behind(&server, line, BEHIND))
                .collect();
            eventually(|| waiting(&server) == 40);
            drop(clients);
            assert_alone(&server, &mut c);
        }
        // One client has sent more input than a turn reads. Another has shut down only its sending
        // side.
        let long = send_behind(&server, "BLPOP q 0", 3 << 20);
        let half = send_behind(&server, "BLPOP q 0", BEHIND);
        eventually(|| waiting(&server) == 2);
        half.shutdown(Shutdown::Write).unwrap();
        drop(long);
        assert_alone(&server, &mut c);
        c.expect(&["RPUSH q a b", "LLEN q", "LLEN other"], ":2|:2|:0|");
        c.expect(
            &["XADD s 1-1 f v", "XPENDING s g"],
            "$3|1-1|*4|:0|$-1|$-1|*-1|",
        );
        c.text("JOB ADD jobs payload");
        assert!(c.ask(&["JOB", "TAKE", "jobs"]).as_slice().is_some());
    }
}

#[test]
fn a_client_that_leaves_during_a_pause_runs_nothing() {
    let server = builder(1).spawn().unwrap();
    let mut c = Wire::open(&server);
    let mut admin = Wire::open(&server);
    c.expect(&["PING", "CLIENT PAUSE 100000 WRITE"], "+PONG|+OK|");
    let clients: Vec<TcpStream> = (0..40)
        .map(|_| send_behind(&server, "INCR n", BEHIND))
        .collect();
    eventually(|| waiting(&server) == 40);
    drop(clients);
    eventually(|| admin.text("CLIENT LIST").lines().count() == 2);
    c.expect(&["CLIENT UNPAUSE", "GET n"], "+OK|$-1|");
}

#[test]
fn encrypted_and_local_clients_that_leave_take_no_element() {
    let authority = Authority::new();
    let path = authority.path("socket");
    for threads in [1, 2] {
        let builder = authority.builder().threads(threads);
        let server = builder.option("unixsocket", &path).spawn().unwrap();
        let mut c = Wire::open(&server);
        let config = Arc::new(authority.client(None));
        let bytes = with_input_behind("BLPOP q 0", BEHIND);
        let encrypted: Vec<TlsWire> = (0..20)
            .map(|_| {
                let mut wire = TlsWire::connect(server.tls_port(), &config);
                wire.stream.write_all(&bytes).unwrap();
                wire
            })
            .collect();
        let local: Vec<UnixStream> = (0..20)
            .map(|_| {
                let mut stream = UnixStream::connect(&path).unwrap();
                stream.write_all(&bytes).unwrap();
                stream
            })
            .collect();
        eventually(|| waiting(&server) == 40);
        drop((encrypted, local));
        assert_alone(&server, &mut c);
        c.expect(&["RPUSH q x", "LLEN q"], ":1|:1|");
    }
}

#[test]
fn the_limit_of_the_input_holds_while_a_command_waits() {
    let server = builder(1)
        .option("client-query-buffer-limit", "1mb")
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    for line in ["BLPOP q 0", "WAIT 1 0"] {
        let mut stream = connect(server.port());
        // The server closes the connection before all bytes are sent.
        let _ = stream.write_all(&with_input_behind(line, 4 << 20));
        assert_alone(&server, &mut c);
    }
    c.expect(&["RPUSH q x", "LLEN q"], ":1|:1|");
    let stats = c.text("INFO stats");
    assert!(
        stats.contains("client_query_buffer_limit_disconnections:2\r\n"),
        "{stats}"
    );
}

/// The buffers are little larger than the input. The input runs in order, including further waits.
#[test]
fn held_input_takes_its_bytes_and_runs_after_the_wait() {
    const CLIENTS: usize = 20;
    const COUNTS: usize = 15_000;
    for threads in [1, 4] {
        let server = builder(threads).spawn().unwrap();
        let mut c = Wire::open(&server);
        let input = |number: usize| {
            let wait = format!("BLPOP q:{number:02} 0\r\n").into_bytes();
            let counts = b"INCR n\r\n".repeat(COUNTS);
            [&wait[..], &counts, &wait, &counts].concat()
        };
        let held = input(0).len() - b"BLPOP q:00 0\r\n".len();
        let mut clients: Vec<Wire> = (0..CLIENTS).map(|_| Wire::open(&server)).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            client.stream.write_all(&input(number)).unwrap();
        }
        let qbuf = held.to_string();
        eventually(|| {
            let list = c.text("CLIENT LIST");
            list.lines().filter(|l| field(l, "qbuf") == qbuf).count() == CLIENTS
        });
        for line in c.text("CLIENT LIST").lines() {
            let free: usize = field(line, "qbuf-free").parse().unwrap();
            assert!(free <= 16 << 10, "{line}");
        }
        for (number, client) in clients.iter_mut().enumerate() {
            c.int("DEL n");
            for first in [1, COUNTS + 1] {
                c.int(&format!("RPUSH q:{number:02} x"));
                let counts = (first..first + COUNTS).map(|n| format!(":{n}|"));
                let expected: String = counts.collect();
                client.receive(&format!("*2|$4|q:{number:02}|$1|x|{expected}"));
            }
        }
        drop(clients);
        assert_alone(&server, &mut c);
    }
}
