//! Scripted nodes of a cluster, for one real node: state machines of `punctual-cluster` on one
//! thread.
//!
//! The connections to the real node are sockets. The connections between the scripted nodes are a
//! queue, because 99 of them would need 19,404 sockets. The real node sees no difference: it has
//! two connections with each peer, and the peers gossip about each other.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use punctual_cluster::NodeId;
use punctual_cluster::config::Config;
use punctual_cluster::nodes::{Flags, Node};
use punctual_cluster::slot::SlotSet;
use punctual_cluster::state::{LinkId, Machine, Output, Settings};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::clock::unix_micros;
use crate::error::{Error, Result};

const HOST: &str = "127.0.0.1";
/// Maximum time between two looks at the flag that stops the thread.
const LOOK: Duration = Duration::from_millis(50);
const READ_BYTES: usize = 1 << 16;

/// Peers that run on a thread until this is dropped.
pub(super) struct Peers {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// Ports of the node that is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct RealNode {
    pub(super) port: u16,
    pub(super) bus_port: u16,
}

impl Peers {
    /// Starts peers that know each other, each with an equal part of the slots before `slots`. One
    /// of them meets the real node.
    pub(super) fn start(
        count: usize,
        slots: u16,
        node_timeout_ms: u64,
        node: RealNode,
    ) -> Result<Self> {
        let fleet = Fleet::new(count, slots, node_timeout_ms, node);
        let mut fleet = fleet.map_err(Error::system("starting the scripted nodes"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = std::thread::spawn(move || fleet.run(&asked));
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }

    /// Stops the peers.
    pub(super) fn stop(mut self) -> Result<()> {
        self.join()
            .map_err(Error::system("running the scripted nodes"))
    }

    fn join(&mut self) -> io::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        ended.map_or(Ok(()), |ended| {
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        let _ = self.join();
    }
}

/// One side of a connection: the peer's index, and its machine's ID of the connection.
type End = (usize, LinkId);

enum Other {
    Peer(End),
    Socket(usize),
}

enum Event {
    Connected,
    Bytes(Vec<u8>),
    Closed,
}

struct Peer {
    machine: Machine,
    listener: TcpListener,
    deadline_ms: u64,
}

struct Socket {
    stream: TcpStream,
    end: End,
    connected: bool,
    output: Vec<u8>,
}

struct Fleet {
    poll: Poll,
    peers: Vec<Peer>,
    by_port: HashMap<u16, usize>,
    others: BTreeMap<End, Other>,
    /// Sockets by token. The listeners have the first tokens.
    sockets: HashMap<usize, Socket>,
    last_token: usize,
    queue: VecDeque<(End, Event)>,
}

fn now_ms() -> u64 {
    unix_micros() / 1000
}

impl Fleet {
    fn new(count: usize, slots: u16, timeout_ms: u64, node: RealNode) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let (mut listeners, mut nodes) = (Vec::new(), Vec::new());
        let mut by_port = HashMap::new();
        for at in 0..count {
            let mut listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
            let token = Token(at);
            poll.registry()
                .register(&mut listener, token, Interest::READABLE)?;
            let port = listener.local_addr()?.port();
            by_port.insert(port, at);
            listeners.push(listener);
            nodes.push(described(at, count, slots, port, &mut random));
        }
        let settings = Settings {
            node_timeout_ms: timeout_ms,
            ..Settings::default()
        };
        let peers = listeners.into_iter().enumerate().map(|(at, listener)| {
            let own = &nodes[at];
            let mut config = Config::of_new_node(own.id, own.id);
            *config.nodes.own_mut() = own.clone();
            config.nodes.own_mut().flags.set(Flags::MYSELF, true);
            let others = nodes.iter().filter(|node| node.id != own.id);
            others.for_each(|node| config.nodes.insert(node.clone()));
            config.current_epoch = count as u64;
            let mut numbers = ChaCha8Rng::seed_from_u64(at as u64 + 2);
            let numbers = Box::new(move || numbers.next_u64());
            Peer {
                machine: Machine::new(settings, config, numbers, now_ms()),
                listener,
                deadline_ms: 0,
            }
        });
        let mut fleet = Self {
            poll,
            peers: peers.collect(),
            by_port,
            others: BTreeMap::new(),
            sockets: HashMap::new(),
            last_token: count,
            queue: VecDeque::new(),
        };
        let first = &mut fleet.peers[0].machine;
        first
            .meet(HOST, node.port, node.bus_port, now_ms())
            .map_err(io::Error::other)?;
        Ok(fleet)
    }

    /// Runs the peers until `stop` is set.
    fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        while !stop.load(Ordering::Relaxed) {
            while let Some((end, event)) = self.queue.pop_front() {
                self.handle(end, event)?;
            }
            let now = now_ms();
            for at in 0..self.peers.len() {
                if self.peers[at].deadline_ms <= now {
                    self.peers[at].machine.tick(now);
                    self.carry_out(at)?;
                }
            }
            if !self.queue.is_empty() {
                continue;
            }
            let deadline = self.peers.iter().map(|peer| peer.deadline_ms).min();
            let wait = deadline.unwrap_or(0).saturating_sub(now_ms());
            self.poll
                .poll(&mut events, Some(Duration::from_millis(wait).min(LOOK)))?;
            for event in &events {
                match event.token().0 {
                    at if at < self.peers.len() => self.accept(at)?,
                    token => self.serve(token)?,
                }
            }
        }
        Ok(())
    }

    /// Passes an event to the machine of its connection.
    fn handle(&mut self, end: End, event: Event) -> io::Result<()> {
        let (at, link) = end;
        let machine = &mut self.peers[at].machine;
        match event {
            Event::Connected => machine.connected(link, now_ms()),
            Event::Bytes(bytes) => machine.received(link, &bytes, now_ms()),
            Event::Closed => {
                if self.others.remove(&end).is_some() {
                    machine.closed(link, now_ms());
                }
            }
        }
        self.carry_out(at)
    }

    /// Carries out a machine's orders, and notes its deadline.
    fn carry_out(&mut self, at: usize) -> io::Result<()> {
        while let Some(output) = self.peers[at].machine.poll() {
            match output {
                Output::Connect { link, port, .. } => self.connect((at, link), port)?,
                Output::Send { link, bytes } => self.send((at, link), bytes)?,
                Output::Close(link) => match self.others.remove(&(at, link)) {
                    Some(Other::Peer(other)) => self.queue.push_back((other, Event::Closed)),
                    Some(Other::Socket(token)) => drop(self.sockets.remove(&token)),
                    None => {}
                },
                _ => {}
            }
        }
        self.peers[at].deadline_ms = self.peers[at].machine.deadline();
        Ok(())
    }

    fn connect(&mut self, end: End, port: u16) -> io::Result<()> {
        if let Some(other) = self.by_port.get(&port) {
            let link = self.peers[*other].machine.accepted(HOST, HOST, now_ms());
            self.others.insert(end, Other::Peer((*other, link)));
            self.others.insert((*other, link), Other::Peer(end));
            self.queue.push_back((end, Event::Connected));
            return Ok(());
        }
        let stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        self.add(stream, end, false)
    }

    fn accept(&mut self, at: usize) -> io::Result<()> {
        loop {
            match self.peers[at].listener.accept() {
                Ok((stream, _)) => {
                    let link = self.peers[at].machine.accepted(HOST, HOST, now_ms());
                    self.add(stream, (at, link), true)?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn add(&mut self, mut stream: TcpStream, end: End, connected: bool) -> io::Result<()> {
        self.last_token += 1;
        let both = Interest::READABLE | Interest::WRITABLE;
        let token = Token(self.last_token);
        self.poll.registry().register(&mut stream, token, both)?;
        self.others.insert(end, Other::Socket(self.last_token));
        let socket = Socket {
            stream,
            end,
            connected,
            output: Vec::new(),
        };
        self.sockets.insert(self.last_token, socket);
        Ok(())
    }

    fn send(&mut self, end: End, bytes: Vec<u8>) -> io::Result<()> {
        match self.others.get(&end) {
            Some(Other::Peer(other)) => self.queue.push_back((*other, Event::Bytes(bytes))),
            Some(Other::Socket(token)) => {
                let token = *token;
                if let Some(socket) = self.sockets.get_mut(&token) {
                    socket.output.extend(bytes);
                    if !socket.flush() {
                        self.drop_socket(token);
                    }
                }
            }
            None => {}
        }
        Ok(())
    }

    /// Reads and writes what a socket is ready for.
    fn serve(&mut self, token: usize) -> io::Result<()> {
        let mut bytes = vec![0; READ_BYTES];
        while let Some(socket) = self.sockets.get_mut(&token) {
            let end = socket.end;
            if !socket.connected && socket.stream.peer_addr().is_ok() {
                socket.connected = true;
                self.queue.push_back((end, Event::Connected));
            }
            if !socket.flush() {
                self.drop_socket(token);
                break;
            }
            match socket.stream.read(&mut bytes) {
                Ok(0) => self.drop_socket(token),
                Ok(count) => {
                    let received = bytes[..count].to_vec();
                    self.queue.push_back((end, Event::Bytes(received)));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.drop_socket(token),
            }
        }
        Ok(())
    }

    fn drop_socket(&mut self, token: usize) {
        if let Some(socket) = self.sockets.remove(&token) {
            self.queue.push_back((socket.end, Event::Closed));
        }
    }
}

impl Socket {
    /// Writes as much as the socket takes. Returns false if the connection has failed.
    fn flush(&mut self) -> bool {
        while self.connected && !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(count) => drop(self.output.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        true
    }
}

/// Returns a peer as all peers know it.
fn described(at: usize, count: usize, slots: u16, port: u16, random: &mut ChaCha8Rng) -> Node {
    let id = NodeId::random(|| random.next_u64());
    let mut node = Node::new(id, Flags::PRIMARY.and(Flags::EXTENSIONS), now_ms());
    node.shard = Some(NodeId::random(|| random.next_u64()));
    node.address.host = HOST.into();
    (node.address.port, node.address.bus_port) = (port, port);
    node.config_epoch = at as u64 + 1;
    let bound = |at: usize| (usize::from(slots) * at / count) as u16;
    node.slots = SlotSet::from_iter(bound(at)..bound(at + 1));
    node
}
