//! Random nodes that are killed or frozen under load, in clusters of our nodes and of real ones:
//! what a replica has acknowledged (WAIT) survives, and each node serves again in the end.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use punctual_harness::{
    Launch, PATIENCE, Peer, Process, Random, eventually, free_port, number, seed,
};
use rustix::process::Signal;
use tempfile::TempDir;

use super::Program;

/// Node timeout in ms.
const TIMEOUT_MS: &str = "1000";
/// Time limit for a reply to a client; a frozen node sends none.
const REPLY_LIMIT: Duration = Duration::from_secs(2);
const PRIMARIES: usize = 3;
const WRITERS: usize = 3;
/// Number of acknowledged writes after which a short freeze ends, and after which a round does.
const WRITES: usize = 20;

struct Member {
    launch: Launch,
    bus_port: u16,
    id: String,
    process: Process,
    _folder: TempDir,
}

impl Member {
    /// Starts a node. Returns `None` if its program is not installed.
    fn start(program: Program) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let (port, bus_port) = (free_port(), free_port());
        let launch = match program {
            Program::Ours => Launch::of(env!("CARGO_BIN_EXE_punctual")).options(["--save", ""]),
            // With everysec, a real server puts off its writes to the file while a sync lasts, for
            // up to two seconds. Killed then, it comes back without writes that its replica has
            // acknowledged.
            Program::Real(peer) => peer.launch().options(["--appendfsync", "always"]),
        };
        let bus = bus_port.to_string();
        // A node that returns before it is replaced must still have its keys.
        let options = [
            "--appendonly",
            "yes",
            "--cluster-enabled",
            "yes",
            "--cluster-port",
            &bus,
            "--cluster-node-timeout",
            TIMEOUT_MS,
            "--repl-diskless-sync-delay",
            "0",
        ];
        let launch = launch.options(options).folder(folder.path()).port(port);
        let process = launch.start_if_installed()?;
        let id = process.wire().text("CLUSTER MYID");
        Some(Self {
            launch,
            bus_port,
            id,
            process,
            _folder: folder,
        })
    }

    fn restart(&mut self) {
        let end = Instant::now() + PATIENCE;
        self.process = loop {
            match self.launch.start() {
                Ok(process) => break process,
                // Another program's connection may have the port for a moment.
                Err(error) => assert!(Instant::now() < end, "{error}"),
            }
        };
    }

    fn text(&self, line: &str) -> String {
        self.process.wire().text(line)
    }

    /// Returns whether the cluster serves all slots in this node's view, and this node replicates
    /// or is replicated.
    fn is_healthy(&self) -> bool {
        let replication = self.text("INFO replication");
        let has_link = ["master_link_status:up", "state=online"];
        has_link.iter().any(|text| replication.contains(text))
            && self.text("CLUSTER INFO").contains("cluster_state:ok")
            && !self.text("CLUSTER NODES").contains("fail")
    }

    /// Returns whether the cluster serves all slots without another node, in this node's view.
    fn does_without(&self, id: &str) -> bool {
        let table = self.text("CLUSTER NODES");
        let line = table.lines().find(|line| line.starts_with(id));
        let words: Vec<&str> = line.expect("the node is known").split(' ').collect();
        // The words after the state of the link are slots.
        let failed = words[2].split(',').any(|flag| flag == "fail") && words.len() == 8;
        failed && self.text("CLUSTER INFO").contains("cluster_state:ok")
    }
}

/// A client that follows MOVED, and gives up on any other error.
struct Client {
    ports: Vec<u16>,
    open: BTreeMap<u16, BufReader<TcpStream>>,
}

impl Client {
    fn new(members: &[Member]) -> Self {
        Self {
            ports: members.iter().map(|member| member.process.port).collect(),
            open: BTreeMap::new(),
        }
    }

    fn ask(&mut self, port: u16, line: &str) -> io::Result<String> {
        let stream = match self.open.entry(port) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(place) => {
                let stream = TcpStream::connect(("127.0.0.1", port))?;
                stream.set_read_timeout(Some(REPLY_LIMIT))?;
                stream.set_nodelay(true)?;
                place.insert(BufReader::new(stream))
            }
        };
        let line = format!("{line}\r\n");
        stream.get_mut().write_all(line.as_bytes())?;
        let mut reply = String::new();
        stream.read_line(&mut reply)?;
        if reply.starts_with('$') && !reply.starts_with("$-1") {
            reply.clear();
            stream.read_line(&mut reply)?;
        }
        match reply.trim_end() {
            "" => Err(io::ErrorKind::UnexpectedEof.into()),
            text => Ok(text.to_owned()),
        }
    }

    /// Sends a command to the owner of its key. Returns the reply and the owner's port, or `None`
    /// after an error.
    fn run(&mut self, line: &str) -> Option<(String, u16)> {
        for _ in 0..self.ports.len() {
            let first = self.ports[0];
            let mut port = first;
            // A slot that two nodes name as each other's would redirect for ever.
            for _ in 0..PRIMARIES {
                let Ok(reply) = self.ask(port, line) else {
                    self.open.remove(&port);
                    if port == first {
                        // Later commands do not wait for this node again.
                        self.ports.rotate_left(1);
                        break;
                    }
                    // The owner does not reply, so asking the other nodes would not help.
                    return None;
                };
                let Some(moved) = reply.strip_prefix("-MOVED ") else {
                    return (!reply.starts_with('-')).then_some((reply, port));
                };
                port = moved.rsplit_once(':')?.1.parse().ok()?;
            }
        }
        None
    }

    /// Writes a key, and returns whether a replica has acknowledged it.
    fn write(&mut self, number: usize) -> bool {
        let Some((_, port)) = self.run(&format!("SET k{number} v{number}")) else {
            return false;
        };
        let acknowledged = self.ask(port, "WAIT 1 500");
        if acknowledged.is_err() {
            self.open.remove(&port);
        }
        // A primary that becomes a replica replies UNBLOCKED.
        acknowledged.is_ok_and(|reply| reply == ":1")
    }
}

/// Starts primaries, and a replica of each one. Returns `None` if a program is not installed.
fn create_cluster(programs: [Program; 2 * PRIMARIES]) -> Option<Vec<Member>> {
    let members: Option<Vec<Member>> = programs.into_iter().map(Member::start).collect();
    let members = members?;
    for (at, member) in members.iter().enumerate() {
        let mut wire = member.process.wire();
        if at < PRIMARIES {
            let (first, end) = (16_384 * at / PRIMARIES, 16_384 * (at + 1) / PRIMARIES);
            wire.run(&format!("CLUSTER ADDSLOTSRANGE {first} {}", end - 1));
            wire.run(&format!("CLUSTER SET-CONFIG-EPOCH {}", at + 1));
        }
        if at > 0 {
            let (port, bus_port) = (members[0].process.port, members[0].bus_port);
            wire.run(&format!("CLUSTER MEET 127.0.0.1 {port} {bus_port}"));
        }
    }
    for member in &members {
        let knows = |text| member.text("CLUSTER INFO").contains(text);
        eventually(|| knows("cluster_known_nodes:6") && knows("cluster_state:ok"));
    }
    let (primaries, replicas) = members.split_at(PRIMARIES);
    for (replica, Member { id, .. }) in replicas.iter().zip(primaries) {
        let replicate = format!("CLUSTER REPLICATE {id}");
        replica.process.wire().run(&replicate);
    }
    eventually(|| members.iter().all(Member::is_healthy));
    Some(members)
}

/// Ends the writing clients, also after a failed assertion.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a wait or a check, and prints the views and logs of these nodes if it fails.
fn told<'m>(members: impl Iterator<Item = &'m Member>, work: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
        for member in members {
            let (table, info) = (member.text("CLUSTER NODES"), member.text("CLUSTER INFO"));
            println!("node at port {}:\n{table}\n{info}", member.process.port);
            let log = member.process.log();
            let lines: Vec<&str> = log.lines().collect();
            println!("{}", lines[lines.len().saturating_sub(80)..].join("\n"));
        }
        resume_unwind(panic);
    }
}

/// Kills or freezes a node, and lets it return: after some writes, or when the cluster does without
/// it. Returns a description for the log.
fn disturb(members: &mut [Member], random: &mut Random, some_writes: impl Fn()) -> String {
    let at = random.below(members.len() as u64) as usize;
    let (kills, lasts) = (random.below(2) == 0, random.below(2) == 0);
    let victim = &mut members[at].process;
    if kills {
        victim.kill();
    } else {
        victim.freeze();
    }
    if lasts {
        let id = members[at].id.clone();
        let others = || members.iter().filter(|member| member.id != id);
        told(others(), || {
            eventually(|| others().all(|member| member.does_without(&id)));
        });
    } else if !kills {
        some_writes();
    }
    if kills {
        members[at].restart();
    } else {
        members[at].process.signal(Signal::CONT);
    }
    let what = if kills { "killed" } else { "frozen" };
    let long = if lasts { ", and replaced" } else { "" };
    format!("node {at} was {what}{long}")
}

/// Checks that the keys of these numbers exist.
#[track_caller]
fn check(reader: &mut Client, numbers: &[usize]) {
    let mut lost = Vec::new();
    for (place, number) in numbers.iter().enumerate() {
        let mut found = None;
        eventually(|| {
            found = reader.run(&format!("GET k{number}"));
            found.is_some()
        });
        let (value, port) = found.unwrap_or_default();
        if value != format!("v{number}") {
            lost.push((place, number, value, port));
        }
    }
    let (all, some) = (numbers.len(), &lost[..lost.len().min(20)]);
    assert!(
        lost.is_empty(),
        "{} of {all} lost, first {some:?}",
        lost.len()
    );
}

fn run(programs: [Program; 2 * PRIMARIES]) {
    let rounds = number("PUNCTUAL_CLUSTER_KILLS").unwrap_or(2usize);
    let mut random = Random::new(seed(&["PUNCTUAL_SEED"]));
    let Some(mut members) = create_cluster(programs) else {
        return;
    };
    let (stop, acknowledged) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let count = || acknowledged.lock().unwrap().len();
    let some_writes = || {
        let end = count() + WRITES;
        eventually(|| count() >= end);
    };
    let mut reader = Client::new(&members);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        for writer in 0..WRITERS {
            let mut client = Client::new(&members);
            let (stop, acknowledged) = (&stop, &acknowledged);
            scope.spawn(move || {
                let numbers = (writer..).step_by(WRITERS);
                for number in numbers.take_while(|_| !stop.load(Ordering::Relaxed)) {
                    if client.write(number) {
                        acknowledged.lock().unwrap().push(number);
                    }
                }
            });
        }
        let mut checked = 0;
        for round in 0..rounds {
            some_writes();
            let what = disturb(&mut members, &mut random, some_writes);
            told(members.iter(), || {
                eventually(|| members.iter().all(Member::is_healthy));
            });
            let numbers = acknowledged.lock().unwrap()[checked..].to_vec();
            println!("round {round}: {what}; {} writes", numbers.len());
            told(members.iter(), || check(&mut reader, &numbers));
            checked += numbers.len();
        }
        some_writes();
    });
    check(&mut reader, &acknowledged.into_inner().unwrap());
}

fn run_beside(peer: Peer) {
    let (ours, real) = (Program::Ours, Program::Real(peer));
    run([ours, real, ours, real, ours, real]);
}

#[test]
fn acknowledged_writes_survive_killed_and_frozen_nodes() {
    run([Program::Ours; 2 * PRIMARIES]);
}

#[test]
fn acknowledged_writes_survive_beside_redis_7() {
    run_beside(Peer::Redis7);
}

#[test]
fn acknowledged_writes_survive_beside_redis_8() {
    run_beside(Peer::Redis8);
}

#[test]
fn acknowledged_writes_survive_beside_valkey_9() {
    run_beside(Peer::Valkey9);
}
