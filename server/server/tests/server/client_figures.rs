//! Figures about clients in CLIENT LIST and INFO, and the memory that their keys, prefixes and
//! values use.

use std::io::Write as _;

use punctual_server::Server;

use crate::process::{Process, Start as _};
use crate::wire::{Open as _, Wire, eventually, field};

/// Returns a number of a client's line of CLIENT LIST.
fn number(c: &mut Wire, id: i64, name: &str) -> u64 {
    let line = c.text(&format!("CLIENT LIST ID {id}"));
    field(&line, name).parse().unwrap()
}

#[test]
fn watched_keys_and_prefixes_count_as_memory() {
    let server = Server::builder().port(0).spawn().unwrap();
    let (mut client, mut c) = (Wire::open(&server), Wire::open(&server));
    let id = client.int("CLIENT ID");
    let before = number(&mut c, id, "tot-mem");
    let key = "k".repeat(1_000);
    client.expect(
        &[&format!("WATCH {key}"), &format!("WATCH {key}")],
        "+OK|+OK|",
    );
    let watching = number(&mut c, id, "tot-mem");
    assert!(
        (before + 1_000..before + 1_100).contains(&watching),
        "{before} {watching}"
    );
    client.expect(&["UNWATCH"], "+OK|");
    assert_eq!(number(&mut c, id, "tot-mem"), before);
    let track = format!("CLIENT TRACKING ON BCAST PREFIX {key}");
    client.ask(&["HELLO", "3"]);
    client.expect(&[&track], "+OK|");
    let tracking = number(&mut c, id, "tot-mem");
    assert!(
        (before + 1_000..before + 1_100).contains(&tracking),
        "{before} {tracking}"
    );
    client.expect(&["CLIENT TRACKING OFF"], "+OK|");
    assert_eq!(number(&mut c, id, "tot-mem"), before);
}

#[test]
fn clients_with_many_watched_keys_or_prefixes_are_disconnected() {
    let server = Process::start(&["--maxmemory-clients", "200kb"]);
    for begin in ["WATCH", "CLIENT TRACKING ON BCAST PREFIX"] {
        let mut client = Wire::to(server.port);
        client.ask(&["HELLO", "3"]);
        let lines: Vec<String> = (0..20_000).map(|n| format!("{begin} {n:012}")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        for part in lines.chunks(500) {
            client.send(part);
        }
        client.ends();
        let mut c = Wire::to(server.port);
        eventually(|| c.info("clients", "connected_clients") == "1");
    }
    let evicted = Wire::to(server.port).info("stats", "evicted_clients");
    assert_eq!(evicted, "2");
}

#[test]
fn parsed_arguments_are_no_part_of_the_query_buffer() {
    let server = Server::builder().port(0).spawn().unwrap();
    let (mut client, mut c) = (Wire::open(&server), Wire::open(&server));
    let id = client.int("CLIENT ID");
    let idle = number(&mut c, id, "tot-mem");
    assert_eq!(number(&mut c, id, "qbuf"), 0);
    let begun = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\n";
    client.stream.write_all(begun.as_bytes()).unwrap();
    client.stream.write_all(&[b'v'; 50_000]).unwrap();
    eventually(|| number(&mut c, id, "qbuf") == 50_000);
    assert_eq!(number(&mut c, id, "argv-mem"), begun.len() as u64);
    let free = number(&mut c, id, "qbuf-free");
    let held = number(&mut c, id, "tot-mem");
    assert_eq!(held, idle + 50_000 + begun.len() as u64 + free);
    client.stream.write_all(&[b'v'; 50_000]).unwrap();
    client.stream.write_all(b"\r\n").unwrap();
    client.receive("+OK|");
    assert_eq!(number(&mut c, id, "qbuf"), 0);
    assert_eq!(number(&mut c, id, "tot-mem"), idle);
}

#[test]
fn a_stream_of_many_blocks_is_freed_lazily() {
    let server = Server::builder().port(0).spawn().unwrap();
    let mut c = Wire::open(&server);
    c.expect(&["CONFIG SET stream-node-max-entries 5"], "+OK|");
    let freed = |c: &mut Wire| {
        eventually(|| c.info("memory", "lazyfree_pending_objects") == "0");
        c.info("memory", "lazyfreed_objects")
    };
    // A stream of more than 64 blocks is freed by another thread. Here a block has 5 entries.
    for (entries, expected) in [(320, "0"), (330, "1")] {
        for number in 1..=entries {
            c.text(&format!("XADD s {number}-1 f v"));
        }
        c.expect(&["UNLINK s"], ":1|");
        assert_eq!(freed(&mut c), expected, "{entries}");
    }
    // The pending entries of a group also count.
    for number in 1..=70 {
        c.text(&format!("XADD s {number}-1 f v"));
    }
    c.ask(&["XGROUP", "CREATE", "s", "g", "0"]);
    c.ask(&["XREADGROUP", "GROUP", "g", "a", "STREAMS", "s", ">"]);
    c.expect(&["UNLINK s"], ":1|");
    assert_eq!(freed(&mut c), "2");
}
