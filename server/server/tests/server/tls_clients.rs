//! Clients with TLS: replies of any size, messages, and peers that violate the protocol.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use punctual_resp::{Value, encode_command};
use punctual_server::Server;

use crate::tls::{Authority, Encrypt as _, TlsWire};
use crate::wire::{Open as _, Wire, eventually, field};

fn start(threads: usize) -> (Authority, Server) {
    let authority = Authority::new();
    let server = authority.builder().threads(threads).spawn().unwrap();
    (authority, server)
}

#[test]
fn redis_cli_speaks_to_the_encrypted_port() {
    let (authority, server) = start(1);
    let output = Command::new("redis-cli")
        .args(["-p", &server.tls_port().to_string(), "--tls"])
        .args(["--cacert", &authority.path("ca.crt"), "ECHO", "hello"])
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"hello\n", "{output:?}");
}

#[test]
fn pipelines_and_large_replies_arrive_whole() {
    let (authority, server) = start(2);
    let config = Arc::new(authority.client(None));
    let mut c = TlsWire::connect(server.tls_port(), &config);
    let mut bytes = Vec::new();
    for number in 0..20_000 {
        encode_command(
            &mut bytes,
            &[
                "SET".to_owned(),
                format!("key:{number}"),
                number.to_string(),
            ],
        );
        encode_command(&mut bytes, &["GET".to_owned(), format!("key:{number}")]);
    }
    let mut writer = &bytes[..];
    let mut replies = 0;
    // The client sends all commands before it reads a reply. The replies fit into the buffers of
    // the sockets and of the server.
    while !writer.is_empty() {
        let count = writer.len().min(50_000);
        c.stream.write_all(&writer[..count]).unwrap();
        writer = &writer[count..];
    }
    while replies < 20_000 {
        assert_eq!(c.value(), Value::Simple(b"OK".into()));
        assert_eq!(c.value().as_bytes(), Some(replies.to_string().as_bytes()));
        replies += 1;
    }
    // Two replies of 100 MB each.
    let mut plain = Wire::open(&server);
    plain.ask(&["SETRANGE", "large", "99999999", "x"]);
    let (mut rest, mut end) = (vec![0; 1 << 20], Vec::new());
    c.send(&["GET large", "GET large", "PING"]);
    let mut left = 2 * (b"$100000000\r\n".len() + 100_000_000 + 2) + b"+PONG\r\n".len();
    while left > 0 {
        let count = c.stream.read(&mut rest).unwrap();
        assert!(count > 0, "closed with {left} bytes left");
        left -= count;
        // A read may end within the last replies.
        end.extend_from_slice(&rest[count.saturating_sub(16)..count]);
        end.drain(..end.len().saturating_sub(16));
    }
    assert!(end.ends_with(b"x\r\n+PONG\r\n"));
    // A large amount in the other direction.
    let large = vec![b'y'; 30 << 20];
    assert_eq!(
        c.ask(&[b"SET", &b"mine"[..], &large]),
        Value::Simple(b"OK".into())
    );
    assert_eq!(plain.int("STRLEN mine"), 30 << 20);
}

#[test]
fn messages_reach_subscribers() {
    let (authority, server) = start(2);
    let config = Arc::new(authority.client(None));
    let mut subscribers: Vec<TlsWire> = (0..4)
        .map(|_| {
            let mut c = TlsWire::connect(server.tls_port(), &config);
            c.ask(&["SUBSCRIBE", "news"]);
            c
        })
        .collect();
    let mut plain = Wire::open(&server);
    for number in 0..100 {
        assert_eq!(plain.int(&format!("PUBLISH news {number}")), 4);
    }
    for c in &mut subscribers {
        for number in 0..100 {
            let message = c.value();
            let text = message.as_slice().unwrap()[2].as_bytes().unwrap().to_vec();
            assert_eq!(text, number.to_string().as_bytes());
        }
    }
}

#[test]
fn plain_text_on_the_encrypted_port_ends_only_its_connection() {
    let (authority, server) = start(1);
    let config = Arc::new(authority.client(None));
    for bytes in [
        &b"PING\r\n"[..],
        b"*1\r\n$4\r\nPING\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
        b"\x16\x03\x01\xff\xff",
        &[0; 4096],
        &[0x17, 3, 3, 0, 1, 0, 0x17, 3, 3, 0, 1, 0],
        &[0x15, 3, 3, 0, 2, 2, 40],
    ] {
        let mut peer = TcpStream::connect(("127.0.0.1", server.tls_port())).unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        peer.write_all(bytes).unwrap();
        let mut rest = Vec::new();
        match peer.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(e) => assert_eq!(e.kind(), ErrorKind::ConnectionReset, "{e}"),
        }
        // The server sends at most a TLS alert.
        assert!(rest.len() <= 7, "{}", rest.escape_ascii());
    }
    // Garbage after a handshake.
    let mut c = TlsWire::connect(server.tls_port(), &config);
    c.text("PING");
    c.stream
        .sock
        .write_all(b"\x17\x03\x03\x00\x20garbagegarbagegarbagegarbagegarb")
        .unwrap();
    assert!(c.try_ping().is_err());
    TlsWire::connect(server.tls_port(), &config).text("PING");
    // The plain port replies to a client with TLS with an error, and closes the connection.
    let mut c = TlsWire::connect(server.port(), &config);
    assert!(c.try_ping().is_err());
    Wire::open(&server).expect(&["PING"], "+PONG|");
}

#[test]
fn an_alert_in_the_middle_of_replies_is_harmless() {
    let (authority, server) = start(1);
    let config = Arc::new(authority.client(None));
    let mut c = TlsWire::connect(server.tls_port(), &config);
    // The last command and the end of the stream arrive together.
    c.text("PING");
    c.stream.conn.writer().write_all(b"SET last 1\r\n").unwrap();
    c.stream.conn.send_close_notify();
    let mut bytes = Vec::new();
    while c.stream.conn.wants_write() {
        c.stream.conn.write_tls(&mut bytes).unwrap();
    }
    c.stream.sock.write_all(&bytes).unwrap();
    let mut rest = Vec::new();
    c.stream.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"+OK\r\n");
    Wire::open(&server).expect(&["GET last"], "$1|1|");
}

#[test]
fn a_handshake_that_does_not_end_costs_a_socket_and_ends_in_time() {
    let authority = Authority::new();
    let server = authority.builder().virtual_clock().spawn().unwrap();
    let mut idle: Vec<TcpStream> = (0..50)
        .map(|_| TcpStream::connect(("127.0.0.1", server.tls_port())).unwrap())
        .collect();
    // These peers send half of a client's first record.
    for peer in &mut idle[25..] {
        peer.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
            .unwrap();
    }
    let mut plain = Wire::open(&server);
    eventually(|| plain.text("CLIENT LIST").lines().count() == 51);
    let config = Arc::new(authority.client(None));
    TlsWire::connect(server.tls_port(), &config).text("PING");
    server.advance(Duration::from_secs(9)).unwrap();
    eventually(|| plain.text("CLIENT LIST").lines().count() == 51);
    let mut done = TlsWire::connect(server.tls_port(), &config);
    done.text("PING");
    server.advance(Duration::from_secs(1)).unwrap();
    // Only peers without a complete handshake were disconnected.
    eventually(|| plain.text("CLIENT LIST").lines().count() == 2);
    server.advance(Duration::from_secs(100)).unwrap();
    done.text("PING");
    for peer in &mut idle {
        peer.set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        assert_eq!(peer.read(&mut [0; 16]).unwrap_or(0), 0);
    }
}

#[test]
fn a_client_is_killed_in_its_handshake() {
    let (_authority, server) = start(1);
    let mut peer = TcpStream::connect(("127.0.0.1", server.tls_port())).unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let addr = peer.local_addr().unwrap().to_string();
    let mut plain = Wire::open(&server);
    eventually(|| {
        let list = plain.text("CLIENT LIST");
        list.lines().any(|line| field(line, "addr") == addr)
    });
    assert_eq!(plain.int(&format!("CLIENT KILL ADDR {addr}")), 1);
    assert_eq!(peer.read(&mut [0; 16]).unwrap_or(0), 0);
    // This peer disconnects by itself.
    drop(TcpStream::connect(("127.0.0.1", server.tls_port())).unwrap());
    eventually(|| plain.text("CLIENT LIST").lines().count() == 1);
}

#[test]
fn a_handshake_byte_by_byte_succeeds_and_counts_toward_maxclients() {
    let authority = Authority::new();
    let server = authority
        .builder()
        .option("maxclients", "2")
        .spawn()
        .unwrap();
    let config = Arc::new(authority.client(None));
    let mut slow = TlsWire::connect(server.tls_port(), &config);
    let mut bytes = Vec::new();
    slow.stream.conn.write_tls(&mut bytes).unwrap();
    for byte in &bytes[..bytes.len() - 1] {
        slow.stream.sock.write_all(&[*byte]).unwrap();
    }
    let mut plain = Wire::open(&server);
    eventually(|| plain.text("CLIENT LIST").lines().count() == 2);
    let mut third = TlsWire::connect(server.tls_port(), &config);
    assert!(third.try_ping().is_err());
    slow.stream
        .sock
        .write_all(&bytes[bytes.len() - 1..])
        .unwrap();
    slow.text("PING");
}

#[test]
fn new_clients_end_a_script_that_does_not_end() {
    let authority = Authority::new();
    let server = authority
        .builder()
        .option("busy-reply-threshold", "1")
        .spawn()
        .unwrap();
    let config = Arc::new(authority.client(None));
    let mut script = TlsWire::connect(server.tls_port(), &config);
    script.text("PING");
    script.send(&["EVAL \"while true do end\" 0"]);
    let mut plain = Wire::open(&server);
    eventually(|| plain.text("PING").starts_with("BUSY"));
    // The handshakes take longer than the time that one turn of a loop has for handshakes.
    let mut all: Vec<TlsWire> = (0..20)
        .map(|_| TlsWire::connect(server.tls_port(), &config))
        .collect();
    for c in &mut all {
        assert!(c.text("PING").starts_with("BUSY"));
    }
    assert_eq!(all[19].text("SCRIPT KILL"), "OK");
    assert!(script.value().is_error());
    assert_eq!(all[0].text("PING"), "PONG");
}
