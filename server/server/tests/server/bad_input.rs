//! Malformed input leads to an error or a closed connection, and the server continues to serve
//! other clients.

use crate::wire::{server_with, start};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use crate::process::{Process, Start as _, connect, exchange, read_to_end};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Sends bytes that end the connection, and returns the replies.
#[track_caller]
fn replies_until_close(port: u16, bytes: &[u8]) -> String {
    let mut stream = connect(port);
    stream.write_all(bytes).unwrap();
    read_to_end(&mut stream).escape_ascii().to_string()
}

#[track_caller]
fn still_serves(port: u16) {
    exchange(&mut connect(port), b"PING\r\n", b"+PONG\r\n");
}

#[test]
fn lengths_beyond_the_limits_are_protocol_errors() {
    let server = start();
    let multibulk = "-ERR Protocol error: invalid multibulk length\\r\\n";
    let bulk = "-ERR Protocol error: invalid bulk length\\r\\n";
    for (bytes, answer) in [
        ("*1048577\r\n", multibulk),
        ("*99999999999\r\n", multibulk),
        ("*9223372036854775808\r\n", multibulk),
        ("*1x\r\n", multibulk),
        ("*\r\n", multibulk),
        ("* 1\r\n", multibulk),
        ("*+1\r\n", multibulk),
        ("*2\r\n$3\r\nGET\r\n$536870913\r\n", bulk),
        ("*2\r\n$3\r\nGET\r\n$-1\r\n", bulk),
        ("*1\r\n$-2\r\n", bulk),
        ("*1\r\n$99999999999\r\n", bulk),
        ("*1\r\n$18446744073709551616\r\n", bulk),
        ("*1\r\n$\r\n", bulk),
        ("*1\r\n$4x\r\nPING\r\n", bulk),
        (
            "*1\r\n:4\r\nPING\r\n",
            "-ERR Protocol error: expected \\'$\\', got \\':\\'\\r\\n",
        ),
        (
            "*1\r\n\r\n\r\n",
            "-ERR Protocol error: expected \\'$\\', got \\' \\'\\r\\n",
        ),
        (
            "GET 'a\r\n",
            "-ERR Protocol error: unbalanced quotes in request\\r\\n",
        ),
        (
            "GET \"a\"b\r\n",
            "-ERR Protocol error: unbalanced quotes in request\\r\\n",
        ),
    ] {
        assert_eq!(
            replies_until_close(server.port(), bytes.as_bytes()),
            answer,
            "{bytes:?}"
        );
        // Commands before the error have replies, commands after it have none.
        let among = format!("PING\r\n{bytes}PING\r\n");
        let answers = replies_until_close(server.port(), among.as_bytes());
        assert_eq!(answers, format!("+PONG\\r\\n{answer}"), "{among:?}");
    }
    still_serves(server.port());
}

#[test]
fn empty_commands_are_ignored() {
    let server = start();
    let mut stream = connect(server.port());
    for nothing in [
        "*0\r\n",
        "*-1\r\n",
        "*-5\r\n",
        "*-9223372036854775808\r\n",
        "\r\n",
        "\n",
        " \t \r\n",
    ] {
        exchange(
            &mut stream,
            format!("{nothing}PING\r\n").as_bytes(),
            b"+PONG\r\n",
        );
        exchange(
            &mut stream,
            format!("PING\r\n{nothing}{nothing}").as_bytes(),
            b"+PONG\r\n",
        );
    }
    // A million empty commands need little time and no memory.
    let mut many = b"*0\r\n".repeat(1_000_000);
    many.extend_from_slice(b"PING\r\n");
    exchange(&mut stream, &many, b"+PONG\r\n");
}

#[test]
fn endless_lines_are_protocol_errors() {
    const LINE_MAX: usize = 64 << 10;
    let server = start();
    let inline = "-ERR Protocol error: too big inline request\\r\\n";
    for (line, answer) in [
        (vec![b'x'; LINE_MAX + 1], inline),
        (
            [b"ECHO ".as_slice(), &vec![b'x'; LINE_MAX]].concat(),
            inline,
        ),
        (
            [b"*".as_slice(), &vec![b'1'; LINE_MAX]].concat(),
            "-ERR Protocol error: too big mbulk count string\\r\\n",
        ),
        (
            [b"*1\r\n$".as_slice(), &vec![b'1'; LINE_MAX]].concat(),
            "-ERR Protocol error: too big bulk count string\\r\\n",
        ),
    ] {
        assert_eq!(replies_until_close(server.port(), &line), answer);
    }
    // A line that is one byte shorter is a command.
    let argument = vec![b'x'; LINE_MAX - 7];
    let line = [b"ECHO ", argument.as_slice(), b"\r\n"].concat();
    let answer = [
        format!("${}\r\n", argument.len()).as_bytes(),
        &argument,
        b"\r\n",
    ]
    .concat();
    exchange(&mut connect(server.port()), &line, &answer);
}

/// Returns bytes that resemble RESP, so that they reach more code of the parser than noise does.
fn garbage(random: &mut StdRng) -> Vec<u8> {
    #[rustfmt::skip]
    const PIECES: [&[u8]; 24] = [
        b"*", b"$", b"\r\n", b"\n", b"\r", b"-", b"1", b"3", b"0", b"*3\r\n$3\r\nSET\r\n",
        b"$1\r\nk\r\n", b"GET k\r\n", b"$5\r\n", b"'", b"\"", b"\\x", b"\0", b"\xff\xfe",
        b"PING\r\n", b"*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n", b"99999999",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"+OK\r\n",
    ];
    let mut bytes = Vec::new();
    for _ in 0..random.random_range(1..40) {
        if random.random_ratio(1, 3) {
            bytes.extend((0..random.random_range(1..30)).map(|_| random.random::<u8>()));
        } else {
            bytes.extend_from_slice(PIECES[random.random_range(0..PIECES.len())]);
        }
    }
    bytes
}

#[test]
fn ten_thousand_connections_of_garbage() {
    const SEED: u64 = 0x6a5b_19c4_77aa_0001;
    println!("seed {SEED:#x}");
    let server = Process::start(&["--threads", "2"]);
    let mut random = StdRng::seed_from_u64(SEED);
    let mut good = server.connect();
    let start_mib = server.resident_mib();
    for round in 0..100 {
        let mut streams: Vec<TcpStream> = (0..100).map(|_| server.connect()).collect();
        for stream in &mut streams {
            let garbage = garbage(&mut random);
            // The bytes are sent in two writes. The second write fails if the server has closed the
            // connection.
            let (one, two) = garbage.split_at(random.random_range(0..=garbage.len()));
            let _ = stream.write_all(one).and_then(|()| stream.write_all(two));
        }
        for mut stream in streams {
            // Some clients disconnect at once. Others end their stream and wait until the server
            // closes.
            if random.random() {
                let _ = stream.shutdown(Shutdown::Write);
                read_to_end(&mut stream);
            }
        }
        exchange(
            &mut good,
            format!("ECHO {round:05}\r\n").as_bytes(),
            format!("$5\r\n{round:05}\r\n").as_bytes(),
        );
    }
    let end_mib = server.wait_for_resident_mib(start_mib + 16.0);
    println!("{start_mib:.1} MiB before, {end_mib:.1} after");
    server.stop();
}

#[test]
fn incomplete_commands_hold_little_memory() {
    let server = Process::start(&[]);
    let start_mib = server.resident_mib();
    let announced = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\n".as_slice();
    let part = [announced, &[b'x'; 100_000]].concat();
    for n in 0..4_000 {
        let mut stream = server.connect();
        let bytes = match n % 4 {
            0 => &announced[..1 + n % (announced.len() - 1)],
            1 => announced,
            2 => &part,
            _ => b"SET k no-line-end",
        };
        stream.write_all(bytes).unwrap();
    }
    // Idle connections hold the bytes that were sent, not the announced length.
    let waiting: Vec<TcpStream> = (0..500)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(announced).unwrap();
            stream.write_all(b"*1048576\r\n").unwrap();
            stream
        })
        .collect();
    let mut good = server.connect();
    exchange(&mut good, b"EXISTS k\r\n", b":0\r\n");
    let held_mib = server.wait_for_resident_mib(start_mib + 16.0);
    drop(waiting);
    exchange(&mut good, b"PING\r\n", b"+PONG\r\n");
    println!("{start_mib:.1} MiB before, {held_mib:.1} with 500 idle connections");
    server.stop();
}

#[test]
fn commands_split_at_every_byte() {
    let server = start();
    let (mut cut, mut other) = (connect(server.port()), connect(server.port()));
    let commands = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$12\r\nab\r\ncd\0$1*2\xff\r\n\r\n  GET \"k\\x65y\"\r\n*0\r\n*2\r\n$6\r\nSTRLEN\r\n$3\r\nkey\r\n";
    let answers = b"+OK\r\n$12\r\nab\r\ncd\0$1*2\xff\r\n:12\r\n";
    // A reply to another client proves that the loop has read the earlier bytes.
    let mut barrier = || exchange(&mut other, b"PING\r\n", b"+PONG\r\n");
    for at in 1..commands.len() {
        cut.write_all(&commands[..at]).unwrap();
        barrier();
        exchange(&mut cut, &commands[at..], answers);
    }
    for byte in &commands[..commands.len() - 1] {
        cut.write_all(&[*byte]).unwrap();
        barrier();
    }
    exchange(&mut cut, &commands[commands.len() - 1..], answers);
}

#[test]
fn limits_before_authentication() {
    let server = server_with("requirepass secret");
    let port = server.port();
    let refused = "-NOAUTH Authentication required.\r\n";
    let eleven = "*11\r\n";
    assert_eq!(
        replies_until_close(port, eleven.as_bytes()),
        "-ERR Protocol error: unauthenticated multibulk length\\r\\n"
    );
    assert_eq!(
        replies_until_close(port, b"*2\r\n$4\r\nECHO\r\n$16385\r\n"),
        "-ERR Protocol error: unauthenticated bulk length\\r\\n"
    );
    let mut stream = connect(port);
    let ten = b"*10\r\n$4\r\nMGET\r\n"
        .iter()
        .copied()
        .chain(b"$1\r\nk\r\n".repeat(9))
        .collect::<Vec<u8>>();
    exchange(&mut stream, &ten, refused.as_bytes());
    let long = format!("*2\r\n$4\r\nECHO\r\n$16384\r\n{}\r\n", "x".repeat(16_384));
    exchange(&mut stream, long.as_bytes(), refused.as_bytes());
    // In one pipeline, commands and higher limits apply only after AUTH.
    let eleven = [
        b"*11\r\n$4\r\nMGET\r\n".as_slice(),
        &b"$1\r\nk\r\n".repeat(10),
    ]
    .concat();
    let pipeline = [
        b"SET k 1\r\nAUTH wrong\r\nSET k 2\r\nAUTH secret\r\nEXISTS k\r\n".as_slice(),
        &eleven,
    ]
    .concat();
    let answers = [
        refused,
        "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
        refused,
        "+OK\r\n:0\r\n*10\r\n",
        &"$-1\r\n".repeat(10),
    ]
    .concat();
    exchange(&mut stream, &pipeline, answers.as_bytes());
    // RESET restores the lower limits.
    exchange(&mut stream, b"RESET\r\n", b"+RESET\r\n");
    stream.write_all(b"*11\r\n").unwrap();
    let end = read_to_end(&mut stream);
    assert!(
        end.starts_with(b"-ERR Protocol error: unauthenticated multibulk length"),
        "{}",
        end.escape_ascii()
    );
}

#[test]
fn a_protocol_error_arrives_while_the_client_still_sends() {
    let server = start();
    let mut stream = connect(server.port());
    // The bytes exceed one read of the server, so some bytes stay unread.
    let mut bytes = b"*1\r\n$-7\r\n".to_vec();
    bytes.resize(1 << 20, b'x');
    let _ = stream.write_all(&bytes);
    let mut answer = [0; 5];
    if let Ok(n) = stream.read(&mut answer) {
        assert_eq!(&answer[..n], &b"-ERR "[..n]);
    }
    still_serves(server.port());
}
