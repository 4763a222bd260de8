//! More than a client should send, or less than it should read. Memory returns when it is over. A program of its own: it has
//! as many files open as a process may.

mod process;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use process::{Process, exchange, make_room_for_files, read_to_end};

/// How much more memory may be resident after a flood than before it.
const LEFT_MIB: f64 = 24.0;

const MIB: usize = 1 << 20;
/// An ECHO of eight digits on the wire, and its answer.
const ECHO_BYTES: usize = 28;
const ANSWER_BYTES: usize = 14;
/// Commands in 100 MB.
const COMMANDS: usize = 100_000_000 / ECHO_BYTES + 1;

/// Writes all the commands of the pipeline.
fn send_echos(stream: &mut TcpStream) {
    let mut part = Vec::with_capacity(MIB);
    for number in 0..COMMANDS {
        write!(part, "*2\r\n$4\r\nECHO\r\n$8\r\n{number:08}\r\n").unwrap();
        if part.len() + ECHO_BYTES > MIB || number + 1 == COMMANDS {
            stream.write_all(&part).unwrap();
            part.clear();
        }
    }
}

/// Reads their answers and compares each.
fn check_echos(stream: &mut TcpStream) {
    const AT_ONCE: usize = 10_000;
    let mut answers = vec![0; AT_ONCE * ANSWER_BYTES];
    let mut expected = Vec::with_capacity(answers.len());
    for first in (0..COMMANDS).step_by(AT_ONCE) {
        expected.clear();
        for number in first..COMMANDS.min(first + AT_ONCE) {
            write!(expected, "$8\r\n{number:08}\r\n").unwrap();
        }
        let answers = &mut answers[..expected.len()];
        stream.read_exact(answers).unwrap();
        assert!(answers == expected.as_slice(), "after answer {first}");
    }
}

#[test]
fn a_pipeline_of_100_mb_read_as_it_comes() {
    let server = Process::start(&[]);
    let before = server.resident_mib();
    let mut stream = server.connect();
    let mut reader = stream.try_clone().unwrap();
    let writer = thread::spawn(move || {
        send_echos(&mut stream);
        stream.shutdown(Shutdown::Write).unwrap();
    });
    check_echos(&mut reader);
    writer.join().unwrap();
    assert_eq!(read_to_end(&mut reader), b"");
    println!(
        "{before:.1} MiB before, {:.1} after",
        server.settles_at(before + LEFT_MIB)
    );
    server.stop();
}

#[test]
fn a_pipeline_of_100_mb_written_before_anything_is_read() {
    let server = Process::start(&[]);
    let before = server.resident_mib();
    let mut stream = server.connect();
    send_echos(&mut stream);
    let held = server.resident_mib();
    // Nobody waits for it.
    exchange(&mut server.connect(), b"PING\r\n", b"+PONG\r\n");
    check_echos(&mut stream);
    exchange(&mut stream, b"PING\r\n", b"+PONG\r\n");
    let after = server.settles_at(before + LEFT_MIB);
    println!("{before:.1} MiB before, {held:.1} with its answers, {after:.1} after");
    server.stop();
}

#[test]
fn a_value_of_64_mib() {
    const LEN: usize = 64 * MIB;
    let server = Process::start(&[]);
    let before = server.resident_mib();
    let value: Vec<u8> = (0..LEN)
        .map(|at| (at as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0])
        .collect();
    let head = format!("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n${LEN}\r\n");
    let mut stream = server.connect();
    for round in 0..3 {
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&value).unwrap();
        exchange(
            &mut stream,
            b"\r\nSTRLEN key\r\n",
            format!("+OK\r\n:{LEN}\r\n").as_bytes(),
        );
        stream.write_all(b"GET key\r\n").unwrap();
        let mut answer = vec![0; format!("${LEN}\r\n").len() + LEN + 2];
        stream.read_exact(&mut answer).unwrap();
        let at = answer.len() - LEN - 2;
        assert!(answer[at..at + LEN] == value, "round {round}");
    }
    // The copies on the way have gone, the value is there once.
    let held = server.settles_at(before + 64.0 + LEFT_MIB);
    exchange(&mut stream, b"DEL key\r\n", b":1\r\n");
    let after = server.settles_at(before + LEFT_MIB);
    println!("{before:.1} MiB before, {held:.1} with the value, {after:.1} after");
    server.stop();
}

/// Asks for 100 MB in answers and reads none.
fn ask_and_do_not_read(server: &Process) -> TcpStream {
    let mut stream = server.connect();
    let set = [
        b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\n",
        vec![b'v'; 100_000].as_slice(),
        b"\r\n",
    ]
    .concat();
    exchange(&mut stream, &set, b"+OK\r\n");
    // It may be cut off before it has sent everything.
    let _ = stream.write_all(&b"GET k\r\n".repeat(1_000));
    stream
}

fn info(server: &Process, name: &str) -> u64 {
    let mut stream = server.connect();
    stream.write_all(b"INFO\r\nQUIT\r\n").unwrap();
    let text = String::from_utf8(read_to_end(&mut stream)).unwrap();
    let value = text
        .lines()
        .find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
    value
        .unwrap_or_else(|| panic!("no {name} in {text}"))
        .trim()
        .parse()
        .unwrap()
}

/// Waits until the server has closed all connections that have ended.
fn wait_for_ends(server: &Process) {
    let end = Instant::now() + process::PATIENCE;
    while info(server, "connected_clients") > 1 {
        assert!(Instant::now() < end, "some have not gone");
    }
}

#[test]
fn a_client_that_does_not_read_is_cut_off_at_the_hard_limit() {
    let server = Process::start(&["--client-output-buffer-limit", "normal 8mb 0 0"]);
    let before = server.resident_mib();
    for round in 1..=5 {
        let mut slow = ask_and_do_not_read(&server);
        let got = read_to_end(&mut slow).len();
        assert!(got < 100_000_000, "it got all {got} bytes");
        assert_eq!(
            info(&server, "client_output_buffer_limit_disconnections"),
            round
        );
    }
    println!(
        "{before:.1} MiB before, {:.1} after",
        server.settles_at(before + LEFT_MIB)
    );
    server.stop();
}

#[test]
fn a_client_that_does_not_read_is_cut_off_at_the_soft_limit_by_time_alone() {
    let server = Process::start(&["--client-output-buffer-limit", "normal 0 1mb 1"]);
    let before = server.resident_mib();
    wait_for_ends(&server);
    let (began, idle) = (Instant::now(), server.open_files());
    let mut slow = ask_and_do_not_read(&server);
    // Nothing more happens on any connection: the loop's own timer must see it.
    let end = Instant::now() + process::PATIENCE;
    while server.open_files() > idle {
        assert!(Instant::now() < end, "it is not cut off");
        thread::sleep(Duration::from_millis(20));
    }
    assert!(began.elapsed() >= Duration::from_secs(1), "cut off early");
    assert_eq!(
        info(&server, "client_output_buffer_limit_disconnections"),
        1
    );
    let got = read_to_end(&mut slow).len();
    assert!(got < 100_000_000, "it got all {got} bytes");
    println!(
        "{before:.1} MiB before, {:.1} after",
        server.settles_at(before + LEFT_MIB)
    );
    server.stop();
}

#[test]
fn a_subscriber_that_does_not_read_is_cut_off() {
    let server = Process::start(&["--client-output-buffer-limit", "pubsub 4mb 0 0"]);
    let before = server.resident_mib();
    let mut slow = server.connect();
    exchange(
        &mut slow,
        b"SUBSCRIBE c\r\n",
        b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n",
    );
    let mut publisher = server.connect();
    let message = [
        b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n$100000\r\n",
        vec![b'm'; 100_000].as_slice(),
        b"\r\n",
    ]
    .concat();
    let mut receivers = [0; 4];
    let mut published = 0;
    while receivers != *b":0\r\n" {
        assert!(published < 1_000, "still subscribed");
        publisher.write_all(&message).unwrap();
        publisher.read_exact(&mut receivers).unwrap();
        published += 1;
    }
    read_to_end(&mut slow);
    println!(
        "cut off after {published} messages; {before:.1} MiB before, {:.1} after",
        server.settles_at(before + LEFT_MIB)
    );
    server.stop();
}

#[test]
fn twenty_thousand_connections_to_a_limit_of_ten_thousand() {
    // The files of this process bound how many there can be: those that are served stay open, the others come in turns.
    let files = make_room_for_files(20_200) as usize;
    let limit = 10_000.min((files - 200) * 2 / 3);
    if limit < 10_000 {
        println!("only {files} files may be open: {limit} instead of 10,000 connections");
    }
    let server = Process::start(&["--maxclients", &limit.to_string()]);
    let before = server.resident_mib();
    // The connection of `start` has gone when this one has been answered: both are in the same queue.
    let mut first = server.connect();
    exchange(&mut first, b"PING\r\n", b"+PONG\r\n");
    let mut served: Vec<TcpStream> = (1..limit).map(|_| server.connect()).collect();
    served.push(first);
    let held = server.resident_mib();
    let refused_text = b"-ERR max number of clients reached\r\n";
    let (mut refused, at_once) = (0, files - 200 - limit);
    while refused < limit {
        let others: Vec<TcpStream> = (0..at_once.min(limit - refused))
            .map(|_| server.connect())
            .collect();
        for mut other in others {
            assert_eq!(read_to_end(&mut other), refused_text);
            refused += 1;
        }
    }
    // All who were let in are served as before, and their places are given to others when they leave.
    for (number, stream) in served.iter_mut().enumerate() {
        exchange(
            stream,
            format!("ECHO {number:05}\r\n").as_bytes(),
            format!("$5\r\n{number:05}\r\n").as_bytes(),
        );
    }
    served.truncate(limit - 500);
    exchange(&mut served[0], b"PING\r\n", b"+PONG\r\n");
    let mut more: Vec<TcpStream> = (0..500).map(|_| server.connect()).collect();
    for stream in &mut more {
        exchange(stream, b"PING\r\n", b"+PONG\r\n");
    }
    drop((served, more));
    let after = server.settles_at(before + LEFT_MIB);
    println!(
        "{limit} served, {refused} refused; {before:.1} MiB before, {held:.1} with all ({:.0} bytes each), {after:.1} after",
        (held - before) * MIB as f64 / limit as f64
    );
    assert_eq!(info(&server, "rejected_connections"), limit as u64);
    wait_for_ends(&server);
    server.stop();
}
