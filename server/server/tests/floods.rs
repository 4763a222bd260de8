//! Clients that send too much or do not read their replies; memory is released afterwards. A
//! separate test binary, because it raises its limit of open files and uses nearly all of them.

mod process;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use process::{Process, Start as _, exchange, read_to_end};
use punctual_harness::{number, raise_open_file_limit};

/// MiB by which resident memory may exceed its size before a flood, once the flood is over. Peaks
/// have the same margin.
const LEFT_MIB: f64 = 24.0;

const MIB: usize = 1 << 20;
/// Bytes of an encoded ECHO of eight digits, and of its reply.
const ECHO_BYTES: usize = 28;
const ANSWER_BYTES: usize = 14;
/// Number of ECHO commands that fill 100 MB.
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

/// Reads the replies and compares each.
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
        assert!(
            answers == expected.as_slice(),
            "wrong reply among those from {first}"
        );
    }
}

#[test]
fn a_pipeline_of_100_mb_with_a_concurrent_reader() {
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
        server.wait_for_resident_mib(before + LEFT_MIB)
    );
    server.stop();
}

#[test]
fn a_pipeline_of_100_mb_written_before_any_read() {
    let server = Process::start(&[]);
    let before = server.resident_mib();
    let mut stream = server.connect();
    send_echos(&mut stream);
    let held = server.resident_mib();
    // Other clients are served meanwhile.
    exchange(&mut server.connect(), b"PING\r\n", b"+PONG\r\n");
    check_echos(&mut stream);
    exchange(&mut stream, b"PING\r\n", b"+PONG\r\n");
    let after = server.wait_for_resident_mib(before + LEFT_MIB);
    println!("{before:.1} MiB before, {held:.1} with the replies buffered, {after:.1} after");
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
    // The buffers are freed; one copy of the value remains.
    let held = server.wait_for_resident_mib(before + 64.0 + LEFT_MIB);
    exchange(&mut stream, b"DEL key\r\n", b":1\r\n");
    let after = server.wait_for_resident_mib(before + LEFT_MIB);
    println!("{before:.1} MiB before, {held:.1} with the value, {after:.1} after");
    server.stop();
}

/// Requests 100 MB of replies and reads no bytes of them.
fn request_without_reading(server: &Process) -> TcpStream {
    let mut stream = server.connect();
    let set = [
        b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\n",
        vec![b'v'; 100_000].as_slice(),
        b"\r\n",
    ]
    .concat();
    exchange(&mut stream, &set, b"+OK\r\n");
    // The server may close the connection before everything is sent.
    let _ = stream.write_all(&b"GET k\r\n".repeat(1_000));
    stream
}

fn info(server: &Process, name: &str) -> u64 {
    let mut c = server.wire();
    let value = c.info("", name);
    c.send(&["QUIT"]);
    c.ends();
    value.parse().unwrap()
}

/// Blocks until the server has only the connection that this function opens.
fn wait_for_disconnections(server: &Process) {
    let end = Instant::now() + process::PATIENCE;
    while info(server, "connected_clients") > 1 {
        assert!(Instant::now() < end, "connections are still open");
    }
}

/// Returns whether the server's end of a connection is still open. Asks the kernel, because a
/// command would wake the loop, and because the client's end stays open until it has read
/// everything.
fn is_established(client: &TcpStream) -> bool {
    const ESTABLISHED: &str = "01";
    let port = |address: std::io::Result<std::net::SocketAddr>| address.unwrap().port();
    let ends = [port(client.peer_addr()), port(client.local_addr())];
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().skip(1).any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let port = |address: &str| u16::from_str_radix(address.split(':').nth(1).unwrap(), 16);
        [port(fields[1]).unwrap(), port(fields[2]).unwrap()] == ends && fields[3] == ESTABLISHED
    })
}

#[test]
fn a_client_that_does_not_read_is_closed_at_the_hard_limit() {
    let server = Process::start(&["--client-output-buffer-limit", "normal 8mb 0 0"]);
    let before = server.resident_mib();
    for round in 1..=5 {
        let mut slow = request_without_reading(&server);
        let got = read_to_end(&mut slow).len();
        assert!(got < 100_000_000, "the client received all {got} bytes");
        assert_eq!(
            info(&server, "client_output_buffer_limit_disconnections"),
            round
        );
    }
    println!(
        "{before:.1} MiB before, {:.1} after",
        server.wait_for_resident_mib(before + LEFT_MIB)
    );
    server.stop();
}

#[test]
fn an_idle_client_that_does_not_read_is_closed_at_the_soft_limit() {
    let server = Process::start(&["--client-output-buffer-limit", "normal 0 1mb 1"]);
    let before = server.resident_mib();
    wait_for_disconnections(&server);
    let began = Instant::now();
    let mut slow = request_without_reading(&server);
    // All connections are idle, so only the loop's timer can enforce the limit.
    let end = Instant::now() + process::PATIENCE;
    while is_established(&slow) {
        assert!(Instant::now() < end, "the connection is still open");
        thread::sleep(Duration::from_millis(20));
    }
    assert!(
        began.elapsed() >= Duration::from_secs(1),
        "closed before the soft limit's time"
    );
    assert_eq!(
        info(&server, "client_output_buffer_limit_disconnections"),
        1
    );
    let got = read_to_end(&mut slow).len();
    assert!(got < 100_000_000, "the client received all {got} bytes");
    println!(
        "{before:.1} MiB before, {:.1} after",
        server.wait_for_resident_mib(before + LEFT_MIB)
    );
    server.stop();
}

#[test]
fn a_subscriber_that_does_not_read_is_closed() {
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
        "closed after {published} messages; {before:.1} MiB before, {:.1} after",
        server.wait_for_resident_mib(before + LEFT_MIB)
    );
    server.stop();
}

#[test]
fn a_client_that_does_not_read_its_invalidations_is_closed() {
    let server = Process::start(&["--client-output-buffer-limit", "normal 4mb 0 0"]);
    let before = server.resident_mib();
    wait_for_disconnections(&server);
    let mut slow = server.connect();
    slow.write_all(b"HELLO 3\r\nCLIENT TRACKING on BCAST\r\n")
        .unwrap();
    let mut writer = server.connect();
    let mut sets = Vec::new();
    for number in 0..100 {
        write!(
            sets,
            "*3\r\n$3\r\nSET\r\n$1000\r\n{number:01000}\r\n$1\r\nv\r\n"
        )
        .unwrap();
    }
    // 100 KB of keys a round; the kernel's buffers take some megabytes.
    let mut rounds = 0;
    while info(&server, "tracking_clients") > 0 || rounds == 0 {
        assert!(rounds < 1_000, "still tracked");
        exchange(&mut writer, &sets, &b"+OK\r\n".repeat(100));
        rounds += 1;
    }
    read_to_end(&mut slow);
    println!(
        "closed after {rounds} rounds; {before:.1} MiB before, {:.1} after",
        server.wait_for_resident_mib(before + LEFT_MIB)
    );
    server.stop();
}

/// Sets `k` to a value of 1 MiB.
fn set_mebibyte(server: &Process) {
    let value = vec![b'v'; MIB];
    let set = [
        b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048576\r\n",
        &value[..],
        b"\r\n",
    ]
    .concat();
    exchange(&mut server.connect(), &set, b"+OK\r\n");
}

#[test]
fn a_long_reply_is_in_memory_once() {
    const COUNT: usize = 150;
    let mget = format!("MGET{}\r\n", " k".repeat(COUNT));
    let script = format!(
        "EVAL \"local v, t = redis.call('get', KEYS[1]), {{}} for n = 1, {COUNT} do t[n] = v end return t\" 1 k\r\n"
    );
    for command in [mget, script] {
        let server = Process::start(&[]);
        set_mebibyte(&server);
        let before = server.peak_mib();
        let mut c = server.connect();
        c.write_all(command.as_bytes()).unwrap();
        let mut reply = vec![0; format!("*{COUNT}\r\n").len() + COUNT * (MIB + 12)];
        c.read_exact(&mut reply).unwrap();
        assert!(reply.ends_with(b"vv\r\n"));
        exchange(&mut c, b"PING\r\n", b"+PONG\r\n");
        let peak = server.peak_mib();
        println!("{before:.1} MiB before, {peak:.1} at the peak");
        assert!(
            peak < before + COUNT as f64 * 1.1 + LEFT_MIB,
            "{peak:.1} MiB"
        );
        server.stop();
    }
}

/// A single reply that exceeds the output limit of its client is dropped before it is complete.
#[test]
fn a_reply_beyond_the_hard_limit_takes_no_memory() {
    let server = Process::start(&["--client-output-buffer-limit", "normal 8mb 0 0"]);
    set_mebibyte(&server);
    let before = server.peak_mib();
    let keys = " k".repeat(500);
    let gets = "GET k\r\n".repeat(500);
    for (number, commands) in [
        format!("MGET{keys}\r\n"),
        format!("MULTI\r\n{gets}SET after 1\r\nEXEC\r\n"),
        format!("RPUSH l{keys}\r\nSORT l BY nosort GET * GET *\r\n"),
    ]
    .iter()
    .enumerate()
    {
        let mut c = server.connect();
        c.write_all(commands.as_bytes()).unwrap();
        read_to_end(&mut c);
        assert_eq!(
            info(&server, "client_output_buffer_limit_disconnections"),
            number as u64 + 1
        );
    }
    // The transaction is complete, although its reply was dropped.
    exchange(&mut server.connect(), b"GET after\r\n", b"$1\r\n1\r\n");
    let peak = server.peak_mib();
    println!("{before:.1} MiB before, {peak:.1} at the peak");
    assert!(peak < before + 8.0 + LEFT_MIB, "{peak:.1} MiB");
    server.stop();
}

/// Messages that one command publishes are dropped beyond the output limit, whether the subscriber
/// is another client or the client that sent the command.
#[test]
fn messages_beyond_the_hard_limit_take_no_memory() {
    let server = Process::start(&["--client-output-buffer-limit", "pubsub 8mb 0 0"]);
    let before = server.peak_mib();
    let patterns: String = (1..=9).map(|n| format!(" {}", "*".repeat(n))).collect();
    let subscribe = format!("PSUBSCRIBE{patterns}\r\n");
    let publish = "EVAL \"local v = string.rep('v', 100000) for n = 1, 1000 do redis.call('publish', 'c', v) end \
                   return 1\" 0\r\n";
    let mut silent = server.connect();
    silent.write_all(subscribe.as_bytes()).unwrap();
    let mut byte = [0];
    silent.read_exact(&mut byte).unwrap();
    let mut c = server.connect();
    exchange(&mut c, publish.as_bytes(), b":1\r\n");
    exchange(&mut c, b"PING\r\n", b"+PONG\r\n");
    assert_eq!(
        info(&server, "client_output_buffer_limit_disconnections"),
        1
    );
    let own = format!("HELLO 3\r\n{subscribe}{publish}");
    c.write_all(own.as_bytes()).unwrap();
    read_to_end(&mut c);
    assert_eq!(
        info(&server, "client_output_buffer_limit_disconnections"),
        2
    );
    let peak = server.peak_mib();
    println!("{before:.1} MiB before, {peak:.1} at the peak");
    assert!(peak < before + 2.0 * 8.0 + LEFT_MIB, "{peak:.1} MiB");
    server.stop();
}

#[test]
fn twenty_thousand_connections_with_maxclients_ten_thousand() {
    // The limit of open files concerns this process as well: accepted connections stay open, and
    // the connections to be refused are opened in rounds.
    let files = raise_open_file_limit(20_200) as usize;
    let limit = 10_000.min((files - 200) * 2 / 3);
    if limit < 10_000 {
        println!("only {files} files may be open: {limit} instead of 10,000 connections");
    }
    let server = Process::start(&["--maxclients", &limit.to_string()]);
    let before = server.resident_mib();
    // The server accepts connections in order. So once this connection has a reply, the server has
    // closed the connection with which `start` checked that it is ready.
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
    // Accepted clients are still served; new clients are accepted when some of them disconnect.
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
    let after = server.wait_for_resident_mib(before + LEFT_MIB);
    println!(
        "{limit} served, {refused} refused; {before:.1} MiB before, {held:.1} with all ({:.0} bytes each), {after:.1} after",
        (held - before) * MIB as f64 / limit as f64
    );
    assert_eq!(info(&server, "rejected_connections"), limit as u64);
    wait_for_disconnections(&server);
    server.stop();
}

/// Number of elements that are pushed after all waiting clients have disconnected.
const ELEMENTS: u64 = 1_000;

/// Opens `clients` connections that send BLPOP and `len` bytes after it, and closes them. Prints
/// the time from the last close until the server has closed its ends, and checks that elements
/// pushed afterwards stay in the list. Returns the memory of a waiting client in bytes.
fn block_and_leave(server: &Process, name: &str, clients: usize, len: usize) -> u64 {
    let before = info(server, "used_memory");
    let received_before = info(server, "total_net_input_bytes");
    let mut bytes = b"BLPOP q 0\r\n".to_vec();
    bytes.extend(b"PING\r\n".repeat(len / 6));
    let mut waiting: Vec<TcpStream> = (0..clients).map(|_| server.connect()).collect();
    for stream in &mut waiting {
        stream.write_all(&bytes).unwrap();
    }
    let end = Instant::now() + process::PATIENCE;
    let received = || info(server, "total_net_input_bytes") - received_before;
    while received() < (clients * bytes.len()) as u64 {
        assert!(
            Instant::now() < end,
            "the server has not read the input after BLPOP"
        );
        thread::sleep(Duration::from_millis(20));
    }
    let held = info(server, "used_memory").saturating_sub(before) / clients as u64;
    drop(waiting);
    let closed = Instant::now();
    wait_for_disconnections(server);
    let took = closed.elapsed();
    let mut c = server.connect();
    for number in 1..=ELEMENTS {
        exchange(
            &mut c,
            b"RPUSH q x\r\n",
            format!(":{number}\r\n").as_bytes(),
        );
    }
    exchange(&mut c, b"DEL q\r\n", b":1\r\n");
    let peak = server.peak_mib();
    println!(
        "{name}: {clients} clients, {len} bytes after BLPOP: {held} bytes each, peak {peak:.0} MiB, gone {took:.2?} after the last close"
    );
    held
}

/// `PUNCTUAL_LEAVERS` is the number of clients; `make proofs` runs 10,000.
#[test]
fn clients_that_block_and_leave_are_gone_and_take_no_element() {
    let count = number("PUNCTUAL_LEAVERS").unwrap_or(300);
    assert!(raise_open_file_limit(count as u64 + 200) >= count as u64 + 200);
    let redis = Process::start_program("redis-server", None, &["--maxclients", "20000"]);
    let server = Process::start(&["--maxclients", "20000"]);
    wait_for_disconnections(&redis);
    wait_for_disconnections(&server);
    for (clients, len) in [(count, 128 << 10), (100, MIB)] {
        let theirs = block_and_leave(&redis, "redis-server", clients, len);
        let ours = block_and_leave(&server, "punctual", clients, len);
        assert!(ours <= theirs, "{ours} bytes, redis-server {theirs}");
    }
    redis.stop();
    server.stop();
}
