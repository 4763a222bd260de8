//! Primaries that are killed or frozen while a client writes: what a replica has acknowledged
//! (WAIT) survives, and each node comes back as a replica.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use punctual_harness::{PATIENCE, Process, eventually, free_port, number};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::killed;

/// Node timeout in ms.
const TIMEOUT_MS: &str = "1000";
/// Time limit for a reply to the writing client; a frozen node sends none.
const REPLY_LIMIT: Duration = Duration::from_secs(2);
const PRIMARIES: usize = 3;

struct Member {
    folder: TempDir,
    port: u16,
    bus_port: u16,
    process: Process,
}

impl Member {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (port, bus_port) = (free_port(), free_port());
        Self {
            process: launch(&folder, port, bus_port),
            folder,
            port,
            bus_port,
        }
    }

    fn restart(&mut self) {
        self.process = launch(&self.folder, self.port, self.bus_port);
    }

    fn text(&self, line: &str) -> String {
        self.process.wire().text(line)
    }
}

fn launch(folder: &TempDir, port: u16, bus_port: u16) -> Process {
    let bus_port = bus_port.to_string();
    let options = [
        "--cluster-enabled",
        "yes",
        "--cluster-port",
        &bus_port,
        "--cluster-node-timeout",
        TIMEOUT_MS,
        "--repl-diskless-sync-delay",
        "0",
    ];
    killed::start(folder.path(), port, &options)
}

/// A client that follows MOVED, and gives up on any other error.
struct Client {
    ports: Vec<u16>,
    open: BTreeMap<u16, BufReader<TcpStream>>,
}

impl Client {
    fn ask(&mut self, port: u16, line: &str) -> io::Result<String> {
        let stream = match self.open.entry(port) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(place) => {
                let stream = TcpStream::connect(("127.0.0.1", port))?;
                stream.set_read_timeout(Some(REPLY_LIMIT))?;
                place.insert(BufReader::new(stream))
            }
        };
        write!(stream.get_mut(), "{line}\r\n")?;
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

    /// Sends commands of one key to its owner. Returns the replies, or `None` after an error.
    fn run(&mut self, lines: &[String]) -> Option<Vec<String>> {
        for first in self.ports.clone() {
            let mut port = first;
            // A slot that two nodes name as each other's would redirect for ever.
            for _ in 0..PRIMARIES {
                let mut replies = Vec::new();
                for line in lines {
                    match self.ask(port, line) {
                        Ok(reply) => replies.push(reply),
                        Err(_) => {
                            self.open.remove(&port);
                            break;
                        }
                    }
                    if replies[replies.len() - 1].starts_with('-') {
                        break;
                    }
                }
                let moved = replies.last().and_then(|reply| {
                    let address = reply.strip_prefix("-MOVED ")?;
                    address.rsplit_once(':')?.1.parse().ok()
                });
                match moved {
                    Some(owner) => port = owner,
                    None if replies.len() == lines.len() && !replies[0].starts_with('-') => {
                        return Some(replies);
                    }
                    None => break,
                }
            }
        }
        None
    }
}

fn create_cluster() -> Vec<Member> {
    let members: Vec<Member> = (0..2 * PRIMARIES).map(|_| Member::start()).collect();
    for (at, member) in members.iter().enumerate() {
        let mut wire = member.process.wire();
        if at < PRIMARIES {
            let (first, end) = (16_384 * at / PRIMARIES, 16_384 * (at + 1) / PRIMARIES);
            wire.run(&format!("CLUSTER ADDSLOTSRANGE {first} {}", end - 1));
            wire.run(&format!("CLUSTER SET-CONFIG-EPOCH {}", at + 1));
        }
        let Member { port, bus_port, .. } = members[0];
        wire.run(&format!("CLUSTER MEET 127.0.0.1 {port} {bus_port}"));
    }
    for member in &members {
        eventually(|| {
            member
                .text("CLUSTER INFO")
                .contains("cluster_known_nodes:6")
        });
        eventually(|| member.text("CLUSTER INFO").contains("cluster_state:ok"));
    }
    for at in 0..PRIMARIES {
        let primary = members[at].text("CLUSTER MYID");
        let replica = &members[PRIMARIES + at];
        replica
            .process
            .wire()
            .run(&format!("CLUSTER REPLICATE {primary}"));
    }
    members.iter().skip(PRIMARIES).for_each(wait_until_replica);
    members
}

fn wait_until_replica(member: &Member) {
    eventually(|| {
        member
            .text("INFO replication")
            .contains("master_link_status:up")
    });
}

fn is_primary(member: &Member) -> bool {
    member.text("INFO replication").contains("role:master")
}

/// Writes keys of all slots until `stop`. Adds each key that a replica has acknowledged.
fn write(ports: Vec<u16>, stop: &AtomicBool, acknowledged: &Mutex<Vec<u64>>) {
    let mut client = Client {
        ports,
        open: BTreeMap::new(),
    };
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let lines = [format!("SET k{number} v{number}"), "WAIT 1 500".to_owned()];
        if let Some(replies) = client.run(&lines)
            // A primary that becomes a replica replies UNBLOCKED.
            && replies[1] == ":1"
        {
            acknowledged.lock().unwrap().push(number);
        }
    }
}

/// Ends the writing client, also after a failed assertion.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn acknowledged_writes_survive_killed_and_frozen_primaries() {
    let rounds = number("PUNCTUAL_CLUSTER_KILLS").unwrap_or(2usize);
    let mut members = create_cluster();
    let ports: Vec<u16> = members.iter().map(|member| member.port).collect();
    let (stop, acknowledged) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let count = || acknowledged.lock().unwrap().len();
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| write(ports.clone(), &stop, &acknowledged));
        for round in 0..rounds {
            let before = count();
            eventually(|| count() >= before + 20);
            let at = (0..members.len())
                .cycle()
                .skip(round * 5 % members.len())
                .find(|at| is_primary(&members[*at]))
                .unwrap();
            let freezes = round % 2 == 1;
            let own = members[at].text("CLUSTER MYID");
            if freezes {
                members[at].process.freeze();
            } else {
                members[at].process.kill();
            }
            let others: Vec<&Member> = members
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != at)
                .map(|(_, member)| member)
                .collect();
            let end = Instant::now() + PATIENCE;
            while !others.iter().all(|member| {
                let table = member.text("CLUSTER NODES");
                let line = table.lines().find(|line| line.starts_with(&own));
                let has_slots = line.is_none_or(|line| line.split(' ').count() > 8);
                !has_slots && member.text("CLUSTER INFO").contains("cluster_state:ok")
            }) {
                assert!(Instant::now() < end, "round {round}: nobody replaces {own}");
                std::thread::sleep(Duration::from_millis(20));
            }
            if freezes {
                members[at].process.signal(Signal::CONT);
            } else {
                members[at].restart();
            }
            wait_until_replica(&members[at]);
        }
        let before = count();
        eventually(|| count() >= before + 20);
    });
    let mut reader = Client {
        ports,
        open: BTreeMap::new(),
    };
    let numbers = acknowledged.into_inner().unwrap();
    for number in &numbers {
        let mut found = None;
        eventually(|| {
            found = reader.run(&[format!("GET k{number}")]);
            found.is_some()
        });
        assert_eq!(
            found.unwrap()[0],
            format!("v{number}"),
            "of {}",
            numbers.len()
        );
    }
}
