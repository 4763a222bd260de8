//! Slots that move, and roles that change, while clients write to nodes with four event loops.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_cluster::slot;
use punctual_harness::Wire;
use punctual_resp::Value;
use rustix::process::Signal;

use super::session::shown;
use super::{Node, Program};

/// The slot that moves.
const SLOT: u16 = 7;
const WRITERS: usize = 6;

/// Starts two nodes that know each other. The first one owns all slots.
fn pair(more: &[&str]) -> [Node; 2] {
    // A node whose last slot leaves stays a primary.
    let own = ["--threads", "4", "--cluster-allow-replica-migration", "no"];
    let options = [&own, more].concat();
    let mut nodes = [(); 2].map(|()| Node::start_with(Program::Ours, &options).expect("built"));
    let [a, b] = &mut nodes;
    a.wire.run("CLUSTER ADDSLOTSRANGE 0 16383");
    a.meet(b);
    for node in &mut nodes {
        node.wait_for("cluster_state:ok");
    }
    nodes
}

/// Runs `work` while other threads call `write` with their numbers until `work` ends.
fn beside_writers<R: Send>(
    write: impl Fn(usize, &AtomicBool) -> R + Sync,
    work: impl FnOnce(),
) -> Vec<R> {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (write, ended) = (&write, &ended);
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| scope.spawn(move || write(number, ended)))
            .collect();
        let worked = catch_unwind(AssertUnwindSafe(work));
        ended.store(true, Ordering::Relaxed);
        if let Err(panic) = worked {
            std::panic::resume_unwind(panic);
        }
        let joined = writers.into_iter().map(|writer| writer.join().unwrap());
        joined.collect()
    })
}

/// The clients' keys exist for moments only, so the slot is often empty and may leave. A write that
/// was admitted before and ran afterwards would leave its key at a node that does not own the slot.
#[test]
fn no_write_reaches_a_slot_that_has_left() {
    let [mut a, b] = pair(&[]);
    let (tag, port) = (slot::tag(SLOT), a.port());
    let write = |number: usize, ended: &AtomicBool| {
        let mut wire = Wire::to(port);
        let key = format!("{{{tag}}}:{number}");
        let lines = match number % 3 {
            0 => vec![format!("SET {key} 1"), format!("DEL {key}")],
            1 => vec![
                "MULTI".to_owned(),
                format!("SET {key} 1"),
                "EXEC".to_owned(),
                format!("DEL {key}"),
            ],
            _ => vec![
                format!("EVAL \"return redis.call('SET',KEYS[1],1)\" 1 {key}"),
                format!("DEL {key}"),
            ],
        };
        while !ended.load(Ordering::Relaxed) {
            wire.send(&lines);
            for _ in &lines {
                wire.value();
            }
        }
    };
    let [own, other] = [&a.id, &b.id].map(|id| format!("CLUSTER SETSLOT {SLOT} NODE {id}"));
    let count = format!("CLUSTER COUNTKEYSINSLOT {SLOT}");
    beside_writers(write, || {
        for round in 0..200 {
            loop {
                let reply = a.wire.text(&other);
                if reply == "OK" {
                    break;
                }
                assert!(reply.contains("still hold keys"), "{reply}");
            }
            for _ in 0..10 {
                assert_eq!(a.wire.int(&count), 0, "round {round}");
            }
            assert_eq!(a.wire.text(&own), "OK");
        }
    });
}

/// A client of two nodes, which follows redirections.
struct Client {
    ports: [u16; 2],
    nodes: [Wire; 2],
    at: usize,
}

impl Client {
    fn increment(&mut self, key: &str) -> i64 {
        let (mut node, mut asks) = (self.at, false);
        loop {
            if asks {
                self.nodes[node].run("ASKING");
            }
            self.nodes[node].send(&[format!("INCR {key}")]);
            let reply = self.nodes[node].value();
            let text = match &reply {
                Value::Int(count) => return *count,
                other => String::from_utf8_lossy(other.as_bytes().expect("an error")).into_owned(),
            };
            let (_, port) = text.rsplit_once(':').expect("a redirection");
            let port: u16 = port.parse().expect("a redirection");
            let known = self.ports.iter().position(|known| *known == port);
            node = known.expect("one of the two nodes");
            asks = text.starts_with("ASK ");
            if !asks {
                self.at = node;
            }
        }
    }
}

#[test]
fn no_increment_is_lost_while_its_slot_moves() {
    let [mut a, mut b] = pair(&[]);
    let (tag, ports) = (slot::tag(SLOT), [a.port(), b.port()]);
    let key = |number: usize| format!("{{{tag}}}:{number}");
    let write = |number: usize, ended: &AtomicBool| {
        let mut client = Client {
            ports,
            nodes: ports.map(Wire::to),
            at: 0,
        };
        let mut count = 0;
        while !ended.load(Ordering::Relaxed) {
            count += 1;
            assert_eq!(client.increment(&key(number)), count);
        }
        count
    };
    let rounds = 10;
    let counts = beside_writers(write, || {
        for round in 0..rounds {
            let (from, to) = match round % 2 {
                0 => (&mut a, &mut b),
                _ => (&mut b, &mut a),
            };
            move_slot(from, to);
        }
    });
    for (number, count) in counts.into_iter().enumerate() {
        let at = a.wire.text(&format!("GET {}", key(number)));
        assert_eq!(at, count.to_string());
    }
}

/// Moves the slot as `redis-cli --cluster reshard` does.
fn move_slot(from: &mut Node, to: &mut Node) {
    let set = |word: &str, id: &str| format!("CLUSTER SETSLOT {SLOT} {word} {id}");
    to.wire.run(&set("IMPORTING", &from.id));
    from.wire.run(&set("MIGRATING", &to.id));
    loop {
        let keys = from.wire.run(&format!("CLUSTER GETKEYSINSLOT {SLOT} 2"));
        let keys: Vec<_> = (keys.as_slice().expect("an array").iter())
            .map(|key| String::from_utf8_lossy(key.as_bytes().expect("a key")).into_owned())
            .collect();
        if keys.is_empty() {
            break;
        }
        let keys = keys.join(" ");
        let port = to.port();
        from.wire.run(&format!(
            "MIGRATE 127.0.0.1 {port} \"\" 0 60000 KEYS {keys}"
        ));
    }
    to.wire.run(&set("NODE", &to.id));
    from.wire.run(&set("NODE", &to.id));
}

/// CLUSTER REPLICATE leaves the start of replication to loop 0. A RESET that comes first must win.
#[test]
fn a_reset_after_replicate_leaves_a_primary() {
    let [mut a, mut b] = pair(&[]);
    let replicate = format!("CLUSTER REPLICATE {}", a.id);
    for round in 0..8 {
        let mut clients: Vec<Wire> = (0..4).map(|_| b.process.wire()).collect();
        clients[round % 4].expect(&[&replicate, "CLUSTER RESET"], "+OK|+OK|");
        // One of the clients is at loop 0. Its second command runs after the order.
        for client in &mut clients {
            client.expect(&["PING"], "+PONG|");
            client.expect(&["PING"], "+PONG|");
        }
        assert_eq!(
            b.wire.info("replication", "role"),
            "master",
            "round {round}"
        );
        a.meet(&mut b);
    }
}

#[test]
fn a_link_with_too_many_unsent_bytes_is_closed() {
    let [mut a, b] = pair(&["--cluster-node-timeout", "600000"]);
    let unsent = |a: &mut Node| {
        let links = shown(&a.wire.run("CLUSTER LINKS"));
        let sizes = links.split("\"send-buffer-used\" :").skip(1);
        sizes
            .map(|rest| rest.split(']').next().unwrap().parse::<u64>().unwrap())
            .max()
            .unwrap_or(0)
    };
    let message = "m".repeat(500_000);
    let publish = |a: &mut Node| a.wire.succeed(&["PUBLISH", "channel", &message]);
    b.process.freeze();
    while unsent(&mut a) < 2_000_000 {
        publish(&mut a);
    }
    a.wait_for("total_cluster_links_buffer_limit_exceeded:0\r\n");
    a.wire.run("CONFIG SET cluster-link-sendbuf-limit 1mb");
    publish(&mut a);
    a.wait_for("total_cluster_links_buffer_limit_exceeded:1\r\n");
    assert!(unsent(&mut a) < 1_000_000);
    b.process.signal(Signal::CONT);
}
