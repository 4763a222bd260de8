//! Clients with and without TLS: each kind gets the ports of its own kind, as since Redis 7.2.
//! (redis-server 7.0 gives all clients one kind, and the later peers are built without TLS.)

use std::sync::Arc;

use punctual_harness::{Wire, free_port};
use punctual_resp::Value;

use super::session::shown;
use super::{Node, Program};
use crate::tls::{Authority, Encrypt as _, TlsWire};

struct Encrypted {
    node: Node,
    port: u16,
    client: TlsWire,
}

impl Encrypted {
    fn start(authority: &Authority) -> Self {
        let port = free_port();
        let text = port.to_string();
        let files = authority.options();
        let mut options: Vec<&str> = files.iter().map(String::as_str).collect();
        options.extend(["--tls-port", &text, "--tls-auth-clients", "no"]);
        let node = Node::start_with(Program::Ours, &options).expect("it is built");
        let client = TlsWire::connect(port, &Arc::new(authority.client(None)));
        Self { node, port, client }
    }
}

#[track_caller]
fn ask<S: std::io::Read + std::io::Write>(wire: &mut Wire<S>, line: &str) -> String {
    wire.send(&[line]);
    shown(&wire.value())
}

#[test]
fn each_kind_of_client_gets_its_ports() {
    let authority = Authority::new();
    let [mut a, mut b] = [(); 2].map(|()| Encrypted::start(&authority));
    a.node.wire.run("CLUSTER ADDSLOTSRANGE 0 8000");
    b.node.wire.run("CLUSTER ADDSLOTSRANGE 8001 16383");
    a.node.meet(&mut b.node);
    a.node.wait_for("cluster_state:ok");
    b.node.wait_for("cluster_state:ok");

    let (plain, encrypted) = (b.node.port(), b.port);
    let moved = |port: u16| format!("-MOVED 12182 127.0.0.1:{port}");
    assert_eq!(ask(&mut a.node.wire, "GET foo"), moved(plain));
    assert_eq!(ask(&mut a.client, "GET foo"), moved(encrypted));
    let slots = |port: u16| format!("[\"127.0.0.1\" :{port} \"{}\" []]", b.node.id);
    assert!(ask(&mut a.node.wire, "CLUSTER SLOTS").contains(&slots(plain)));
    assert!(ask(&mut a.client, "CLUSTER SLOTS").contains(&slots(encrypted)));
    let bus_port = b.node.bus_port;
    let line = |port: u16| format!("{} 127.0.0.1:{port}@{bus_port} master", b.node.id);
    assert!(ask(&mut a.node.wire, "CLUSTER NODES").contains(&line(plain)));
    assert!(ask(&mut a.client, "CLUSTER NODES").contains(&line(encrypted)));
    // SHARDS shows both ports to both.
    let both = format!("\"port\" :{plain} \"tls-port\" :{encrypted}");
    assert!(ask(&mut a.node.wire, "CLUSTER SHARDS").contains(&both));
    let Value::Array(shards) = a.client.run("CLUSTER SHARDS") else {
        panic!("not an array");
    };
    assert_eq!(shards.len(), 2);
}
