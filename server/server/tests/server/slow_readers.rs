//! Clients that read their replies long after they have sent the requests.

use punctual_server::Server;

use crate::wire::{Open as _, Wire, configured, eventually, field};

/// Lengths around the size at which a connection moves its output to chunks, and lengths far from
/// it.
const LENGTHS: [usize; 8] = [
    1,
    20_000,
    (256 << 10) - 20,
    256 << 10,
    3,
    1 << 20,
    300_000,
    5_000,
];
/// Number of times that the client requests all values: more bytes than sockets hold.
const ROUNDS: usize = 16;

/// Requests values and writes in one pipeline, and reads the replies after the server has prepared
/// all of them.
fn check(server: &Server) {
    let mut other = Wire::open(server);
    let value = |n: usize| vec![b'a' + n as u8; LENGTHS[n]];
    for n in 0..LENGTHS.len() {
        let key = format!("key:{n}");
        other.ask(&[b"SET".as_slice(), key.as_bytes(), &value(n)]);
    }
    let mut slow = Wire::open(server);
    slow.expect(&["CLIENT SETNAME slow"], "+OK|");
    let mut lines = Vec::new();
    for _ in 0..ROUNDS {
        for n in 0..LENGTHS.len() {
            lines.push(format!("GET key:{n}"));
            lines.push("INCR writes".to_owned());
        }
    }
    // The second half is sent while replies of the first half wait for the reader.
    let unread = |other: &mut Wire, what| {
        let list = other.text("CLIENT LIST");
        let line = list.lines().find(|line| line.contains("name=slow"));
        field(line.unwrap(), what).parse::<usize>().unwrap()
    };
    let half: Vec<&str> = lines.iter().map(String::as_str).collect();
    let (first, second) = half.split_at(lines.len() / 2);
    for (part, writes) in [(first, lines.len() / 4), (second, lines.len() / 2)] {
        slow.send(part);
        eventually(|| other.text("GET writes") == writes.to_string());
        eventually(|| unread(&mut other, "omem") > 1 << 20);
    }
    // The buffers are little larger than their contents.
    let (omem, held) = (unread(&mut other, "omem"), unread(&mut other, "tot-mem"));
    assert!(held < omem * 3 / 2, "{held} bytes for {omem}");
    for n in 0..lines.len() / 2 {
        let got = slow.value();
        let expected = value(n % LENGTHS.len());
        assert!(got.as_bytes() == Some(&expected), "reply {n}");
        assert_eq!(slow.value().as_int(), Some(n as i64 + 1));
    }
    eventually(|| unread(&mut other, "omem") == 0);
    slow.expect(&["PING"], "+PONG|");
}

#[test]
fn replies_arrive_complete_and_in_order() {
    check(&Server::builder().port(0).spawn().unwrap());
}

#[test]
fn held_replies_arrive_complete_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let server = configured("appendonly yes|appendfsync always")
        .option("dir", folder.path().to_str().unwrap())
        .spawn()
        .unwrap();
    check(&server);
}
