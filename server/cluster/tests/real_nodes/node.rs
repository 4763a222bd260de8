//! A machine on real sockets: its bus listens on 127.0.0.1.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use punctual_cluster::NodeId;
use punctual_cluster::config::Config;
use punctual_cluster::state::{LinkId, Machine, Output, Replication, Settings};
use punctual_harness::{PATIENCE, Random, seed};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub const TIMEOUT_MS: u64 = 2_000;

pub struct Node {
    pub machine: Machine,
    pub id: NodeId,
    pub published: Vec<(Vec<u8>, Vec<u8>)>,
    pub promoted: bool,
    pub bus_port: u16,
    /// Numbers of messages with a light header that were sent and received.
    pub light: (usize, usize),
    listener: TcpListener,
    streams: BTreeMap<LinkId, TcpStream>,
}

pub fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_millis() as u64
}

impl Node {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let bus_port = listener.local_addr().unwrap().port();
        let mut random = Random::new(seed(&["PUNCTUAL_SEED"]));
        let id = NodeId::random(|| random.bits());
        let mut config = Config::of_new_node(id, NodeId::random(|| random.bits()));
        let own = config.nodes.own_mut();
        (own.address.port, own.address.bus_port) = (1, bus_port);
        own.address.hostname = "ours.example".into();
        let settings = Settings {
            node_timeout_ms: TIMEOUT_MS,
            ..Settings::default()
        };
        let random = Box::new(move || random.bits());
        Self {
            machine: Machine::new(settings, config, random, now_ms()),
            id,
            published: Vec::new(),
            promoted: false,
            bus_port,
            light: (0, 0),
            listener,
            streams: BTreeMap::new(),
        }
    }

    /// Handles everything that is ready or due.
    pub fn step(&mut self) {
        while let Ok((stream, peer)) = self.listener.accept() {
            stream.set_nonblocking(true).unwrap();
            let link = self.machine.accepted(&peer.ip().to_string(), "", now_ms());
            self.streams.insert(link, stream);
        }
        let mut bytes = [0; 1 << 16];
        let links: Vec<LinkId> = self.streams.keys().copied().collect();
        for link in links {
            while let Some(stream) = self.streams.get_mut(&link) {
                match stream.read(&mut bytes) {
                    Ok(0) => self.closed(link),
                    Ok(count) => {
                        self.light.1 += bytes[..count].windows(14).filter(is_light).count();
                        self.machine.received(link, &bytes[..count], now_ms());
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(_) => self.closed(link),
                }
                self.carry_out();
            }
        }
        if self.machine.deadline() <= now_ms() {
            self.machine.tick(now_ms());
        }
        // Instead of a stream, a replica gets the news that it has all data.
        self.machine.set_replication(Replication {
            offset: 1 << 40,
            last_input_ms: now_ms(),
            has_data: true,
        });
        self.carry_out();
    }

    fn closed(&mut self, link: LinkId) {
        self.streams.remove(&link);
        self.machine.closed(link, now_ms());
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.machine.poll() {
            match output {
                Output::Connect { link, host, port } => {
                    match TcpStream::connect((host.as_str(), port)) {
                        Ok(stream) => {
                            stream.set_nonblocking(true).unwrap();
                            self.streams.insert(link, stream);
                            self.machine.connected(link, now_ms());
                        }
                        Err(_) => self.machine.closed(link, now_ms()),
                    }
                }
                Output::Send { link, bytes } => {
                    self.light.0 += usize::from(is_light(&&bytes[..14]));
                    // A packet is smaller than the socket's buffer.
                    let sent = self
                        .streams
                        .get_mut(&link)
                        .map(|stream| stream.write_all(&bytes));
                    if matches!(sent, Some(Err(_))) {
                        self.closed(link);
                    }
                }
                Output::Close(link) => drop(self.streams.remove(&link)),
                Output::Publish {
                    channel, message, ..
                } => self.published.push((channel, message)),
                Output::Promoted => self.promoted = true,
                _ => {}
            }
        }
    }
}

/// Returns whether a packet with these first bytes is a message with a light header.
fn is_light(head: &&[u8]) -> bool {
    head.starts_with(b"RCmb") && matches!(head[12..14], [0x80, 4 | 10])
}

/// Runs the nodes until a condition holds.
#[track_caller]
pub fn until(nodes: &mut [Node], what: &str, mut condition: impl FnMut(&mut [Node]) -> bool) {
    let end = Instant::now() + PATIENCE;
    loop {
        nodes.iter_mut().for_each(Node::step);
        if condition(nodes) {
            return;
        }
        if Instant::now() > end {
            let texts: Vec<String> = nodes
                .iter()
                .map(|node| {
                    node.machine
                        .config()
                        .text(punctual_cluster::config::Style::Named)
                })
                .collect();
            panic!("{what}\n{}", texts.join("\n"));
        }
        // At most 50 ms, because the condition also asks the real nodes.
        let deadline = nodes.iter().map(|node| node.machine.deadline()).min();
        let wait_ms = deadline.unwrap_or(0).saturating_sub(now_ms()).min(50);
        let sockets = nodes.iter().flat_map(|node| {
            let listener = PollFd::new(&node.listener, PollFlags::IN);
            let streams = node.streams.values();
            streams
                .map(|stream| PollFd::new(stream, PollFlags::IN))
                .chain([listener])
        });
        let mut sockets: Vec<PollFd<'_>> = sockets.collect();
        let wait = Timespec {
            tv_sec: 0,
            tv_nsec: wait_ms as i64 * 1_000_000,
        };
        poll(&mut sockets, Some(&wait)).unwrap();
    }
}
