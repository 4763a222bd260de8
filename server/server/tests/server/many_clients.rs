//! Many clients that connect and disconnect: each receives exactly the replies to its own commands.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use punctual_harness::eventually;

use crate::process::{Process, Start as _, connect, exchange, read_to_end};
use punctual_server::Server;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Number of client threads.
const THREADS: u64 = 4;
/// Number of connections per thread.
const CONNECTIONS: usize = 40;
/// Number of steps per thread: a pipeline sent, replies read, or a connection replaced.
const STEPS: usize = 6_000;

/// A connection, and the replies that it expects.
struct Tagged {
    stream: TcpStream,
    due: VecDeque<Vec<u8>>,
}

impl Tagged {
    fn new(port: u16) -> Self {
        Self {
            stream: connect(port),
            due: VecDeque::new(),
        }
    }

    /// Sends some commands with unique replies.
    fn send(&mut self, random: &mut StdRng, serial: &mut u64) {
        let mut pipeline = Vec::new();
        for _ in 0..random.random_range(1..30) {
            *serial += 1;
            let tag = format!("{serial:x}-{}", "x".repeat(random.random_range(0..300)));
            let (kind, len) = (random.random_range(0..4), tag.len());
            if kind == 0 {
                // SET and GET of this connection's own key.
                let key = format!("own:{}", self.stream.local_addr().unwrap().port());
                write!(
                    pipeline,
                    "*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${len}\r\n{tag}\r\nGET {key}\r\n",
                    key.len()
                )
                .unwrap();
                self.due.push_back(b"+OK\r\n".to_vec());
            } else {
                write!(pipeline, "*2\r\n$4\r\nECHO\r\n${len}\r\n{tag}\r\n").unwrap();
            }
            self.due
                .push_back(format!("${len}\r\n{tag}\r\n").into_bytes());
        }
        self.stream.write_all(&pipeline).unwrap();
    }

    /// Publishes a message and reads all outstanding replies. The number of receivers may be any
    /// number.
    fn publish(&mut self) -> u64 {
        self.stream
            .write_all(b"PUBLISH news for-subscribers-only\r\nPING\r\n")
            .unwrap();
        let compared = self.check(self.due.len());
        let (mut answer, mut byte) = (Vec::new(), [0]);
        while !answer.ends_with(b"+PONG\r\n") {
            self.stream.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        let count = answer
            .strip_prefix(b":")
            .and_then(|a| a.strip_suffix(b"\r\n+PONG\r\n"));
        let is_number = count.is_some_and(|c| c.iter().all(u8::is_ascii_digit));
        assert!(is_number, "{}", answer.escape_ascii());
        compared + 1
    }

    /// Reads and compares the next `count` replies, or all outstanding ones if these are fewer.
    /// Returns `count`.
    fn check(&mut self, count: usize) -> u64 {
        let expected: Vec<u8> = self
            .due
            .drain(..count.min(self.due.len()))
            .flatten()
            .collect();
        let mut got = vec![0; expected.len()];
        self.stream.read_exact(&mut got).unwrap();
        assert!(
            got == expected,
            "{} instead of {}",
            got.escape_ascii(),
            expected.escape_ascii()
        );
        count as u64
    }
}

/// Sends, reads and reconnects at random; returns an upper bound of the number of compared replies.
fn run_random_steps(port: u16, seed: u64) -> u64 {
    let mut random = StdRng::seed_from_u64(seed);
    let mut serial = seed << 40;
    let mut clients: Vec<Tagged> = (0..CONNECTIONS).map(|_| Tagged::new(port)).collect();
    let mut compared = 0;
    for _ in 0..STEPS {
        let client = &mut clients[random.random_range(0..CONNECTIONS)];
        match random.random_range(0..10) {
            // Disconnects while replies are outstanding. The next client reuses the slot in the
            // loop.
            0 => *client = Tagged::new(port),
            // Subscribes, and disconnects while messages are being delivered.
            1 => {
                *client = Tagged::new(port);
                client.stream.write_all(b"SUBSCRIBE news\r\n").unwrap();
                *client = Tagged::new(port);
            }
            2 => compared += client.publish(),
            3..=6 => client.send(&mut random, &mut serial),
            _ => compared += client.check(random.random_range(1..60)),
        }
        if client.due.len() > 500 {
            compared += client.check(client.due.len());
        }
    }
    for client in &mut clients {
        compared += client.check(client.due.len());
    }
    compared
}

fn check_that_replies_reach_their_client(threads: &str) {
    const SEED: u64 = 0x7a6;
    println!("seed {SEED:#x}");
    let server = Process::start(&["--threads", threads]);
    let port = server.port;
    let clients: Vec<_> = (0..THREADS)
        .map(|n| thread::spawn(move || run_random_steps(port, SEED + n)))
        .collect();
    let compared: u64 = clients.into_iter().map(|c| c.join().unwrap()).sum();
    println!("at most {compared} replies compared");
    assert!(compared > 10_000);
    server.stop();
}

#[test]
fn replies_reach_their_client() {
    check_that_replies_reach_their_client("1");
}

#[test]
fn replies_reach_their_client_with_four_loops() {
    check_that_replies_reach_their_client("4");
}

#[test]
fn a_half_closed_client_receives_all_replies() {
    for threads in [1, 4] {
        let server = Server::builder().port(0).threads(threads).spawn().unwrap();
        // Small replies, and some larger than any socket buffer.
        for (len, count) in [(10, 20_000), (1_000_000, 60)] {
            let value = "v".repeat(len);
            let mut stream = connect(server.port());
            let set = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${len}\r\n{value}\r\n");
            exchange(&mut stream, set.as_bytes(), b"+OK\r\n");
            stream.write_all(&b"GET k\r\n".repeat(count)).unwrap();
            // An incomplete command at the end gets no reply.
            stream.write_all(b"*2\r\n$3\r\nGE").unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            thread::sleep(Duration::from_millis(20));
            let answers = read_to_end(&mut stream);
            assert!(
                answers == format!("${len}\r\n{value}\r\n").repeat(count).into_bytes(),
                "{} bytes",
                answers.len()
            );
        }
    }
}

#[test]
fn quit_and_protocol_errors_follow_the_earlier_replies() {
    let server = Server::builder().port(0).spawn().unwrap();
    let value = "v".repeat(1_000_000);
    exchange(
        &mut connect(server.port()),
        format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\n{value}\r\n").as_bytes(),
        b"+OK\r\n",
    );
    for (last, answer) in [
        ("QUIT\r\n", "+OK\r\n"),
        (
            "*x\r\n",
            "-ERR Protocol error: invalid multibulk length\r\n",
        ),
    ] {
        let mut stream = connect(server.port());
        stream
            .write_all(format!("{}{last}", "GET k\r\n".repeat(40)).as_bytes())
            .unwrap();
        thread::sleep(Duration::from_millis(20));
        let answers = read_to_end(&mut stream);
        let expected = format!("{}{answer}", format!("$1000000\r\n{value}\r\n").repeat(40));
        assert!(
            answers == expected.as_bytes(),
            "{} bytes of {}",
            answers.len(),
            expected.len()
        );
    }
}

/// Starts clients that send pipelines until the connection ends, and counts the replies in
/// `answered`.
fn busy_clients(port: u16, answered: &Arc<AtomicU64>) -> Vec<thread::JoinHandle<()>> {
    let busy = move |number: usize, mut stream: TcpStream, answered: Arc<AtomicU64>| {
        let pipeline = format!("SET busy:{number} 1 PX 1\r\nECHO {number:04}\r\n").repeat(100);
        let answers = format!("+OK\r\n$4\r\n{number:04}\r\n").repeat(100);
        let mut got = vec![0; answers.len()];
        loop {
            let exchanged = stream
                .write_all(pipeline.as_bytes())
                .and_then(|()| stream.read_exact(&mut got));
            match exchanged {
                Ok(()) => assert!(got == answers.as_bytes()),
                Err(e) => {
                    let gone = [
                        ErrorKind::UnexpectedEof,
                        ErrorKind::ConnectionReset,
                        ErrorKind::BrokenPipe,
                    ];
                    assert!(gone.contains(&e.kind()), "{e}");
                    return;
                }
            }
            answered.fetch_add(1, Ordering::Relaxed);
        }
    };
    (0..20)
        .map(|number| {
            // The connection is made here, because the server may stop before the last thread runs.
            let (stream, answered) = (connect(port), Arc::clone(answered));
            thread::spawn(move || busy(number, stream, answered))
        })
        .collect()
}

#[test]
fn a_server_stops_while_its_clients_are_busy() {
    for threads in [1, 4] {
        let server = Server::builder().port(0).threads(threads).spawn().unwrap();
        let answered = Arc::default();
        let clients = busy_clients(server.port(), &answered);
        eventually(|| answered.load(Ordering::Relaxed) > 200);
        let started = Instant::now();
        server.shutdown();
        assert!(
            started.elapsed() < crate::process::PATIENCE,
            "{:?}",
            started.elapsed()
        );
        for client in clients {
            client.join().unwrap();
        }
    }
}

#[test]
fn a_process_exits_cleanly_under_load_and_new_connections() {
    let server = Process::start(&["--threads", "2"]);
    let answered = Arc::default();
    let clients = busy_clients(server.port, &answered);
    let (port, over) = (server.port, Arc::new(AtomicBool::new(false)));
    let comers = {
        let over = Arc::clone(&over);
        thread::spawn(move || {
            while !over.load(Ordering::Relaxed) && TcpStream::connect(("127.0.0.1", port)).is_ok() {
            }
        })
    };
    eventually(|| answered.load(Ordering::Relaxed) > 200);
    server.stop();
    over.store(true, Ordering::Relaxed);
    comers.join().unwrap();
    for client in clients {
        client.join().unwrap();
    }
}
