//! A cluster under `redis-cli --cluster`, and a transcript of its output and of the final state.
//! Clusters of different programs must write the same transcript.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use punctual_harness::{PATIENCE, Peer};

use super::{Node, Program};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

pub(super) struct Managed {
    pub(super) nodes: Vec<Node>,
    transcript: String,
}

impl Managed {
    /// Starts nodes that know each other. `slots` has each node's first and last slot. Returns
    /// `None` if a program is not installed.
    #[track_caller]
    pub(super) fn start(programs: &[Program], slots: &[(u16, u16)]) -> Option<Self> {
        let mut nodes = Vec::new();
        for program in programs {
            // The manager compares values of a key that two nodes have by DEBUG DIGEST-VALUE.
            let debug = ["--enable-debug-command", "yes"];
            nodes.push(Node::start_with(*program, &debug)?);
        }
        for (node, (first, last)) in nodes.iter_mut().zip(slots) {
            node.wire
                .run(&format!("CLUSTER ADDSLOTSRANGE {first} {last}"));
        }
        for at in 0..nodes.len() {
            // Two primaries of the same epoch would have to agree first.
            nodes[at]
                .wire
                .run(&format!("CLUSTER SET-CONFIG-EPOCH {}", at + 1));
            let (port, bus_port) = (nodes[0].port(), nodes[0].bus_port);
            if at > 0 {
                nodes[at]
                    .wire
                    .run(&format!("CLUSTER MEET 127.0.0.1 {port} {bus_port}"));
            }
        }
        let mut managed = Self {
            nodes,
            transcript: String::new(),
        };
        let known = format!("cluster_known_nodes:{}", programs.len());
        for node in &mut managed.nodes {
            node.wait_for(&known);
            node.wait_for("cluster_state:ok");
        }
        managed.agree();
        Some(managed)
    }

    /// Replaces `<a>` by a node's ID, `<a:at>` by its address.
    fn named(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, node) in NAMES.iter().zip(&self.nodes) {
            text = text
                .replace(&format!("<{name}>"), &node.id)
                .replace(&format!("<{name}:at>"), &address(node.port()));
        }
        text
    }

    fn anonymous(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, node) in NAMES.iter().zip(&self.nodes) {
            text = text
                .replace(&node.id, &format!("<{name}>"))
                .replace(&node.id[..8], &format!("<{name}>"))
                .replace(&address(node.port()), &format!("<{name}:at>"));
        }
        text
    }

    /// Runs the manager, which must succeed, and notes its output.
    #[track_caller]
    pub(super) fn manage(&mut self, words: &str) -> String {
        let (succeeds, text) = self.ask_manager(words);
        assert!(succeeds, "{words}: {text}");
        self.agree();
        // The manager lists nodes in the order of the first node's table, which is random in Redis.
        let text = self.anonymous(&text).replace("\n   ", " | ");
        let mut lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        lines.sort_unstable();
        let _ = writeln!(self.transcript, "== {words}\n{}", lines.join("\n"));
        text
    }

    /// Runs the manager, whose questions are answered with yes. Returns whether it succeeds, and
    /// its output.
    pub(super) fn ask_manager(&self, words: &str) -> (bool, String) {
        let mut process = Command::new("redis-cli")
            .arg("--cluster")
            .args(self.named(words).split(' '))
            // Without the colors of a terminal.
            .env_remove("TERM")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("redis-cli is installed with redis-server");
        let mut input = process.stdin.take().expect("it is a pipe");
        // The manager may end before it has asked.
        let _ = input.write_all(&b"yes\n".repeat(8));
        drop(input);
        let output = process.wait_with_output().expect("redis-cli ends");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success(), text)
    }

    /// Removes the end of lines after a text, because the manager chooses the node there at random.
    pub(super) fn hide_choice(&mut self, before: &str) {
        let mut lines: Vec<&str> = Vec::new();
        for line in self.transcript.lines() {
            let end = line.find(before).map(|at| at + before.len());
            lines.push(&line[..end.unwrap_or(line.len())]);
        }
        self.transcript = lines.join("\n") + "\n";
    }

    /// Notes a text in the transcript.
    pub(super) fn note(&mut self, text: &str) {
        let text = self.anonymous(text);
        let _ = writeln!(self.transcript, "{text}");
    }

    /// Sends a command, which must succeed.
    #[track_caller]
    pub(super) fn run(&mut self, at: usize, line: &str) {
        let line = self.named(line);
        self.nodes[at].wire.run(&line);
    }

    /// Waits until all nodes see the same roles and owners of slots.
    #[track_caller]
    pub(super) fn agree(&mut self) {
        let end = Instant::now() + PATIENCE;
        loop {
            let views: Vec<_> = self.nodes.iter_mut().map(owners).collect();
            if views.iter().all(|view| *view == views[0]) {
                return;
            }
            assert!(Instant::now() < end, "different views: {views:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Notes the slots of each node, its moving slots, and its keys.
    pub(super) fn note_state(&mut self) {
        let mut lines = Vec::new();
        for (name, node) in NAMES.iter().zip(&mut self.nodes) {
            let view = owners(node);
            let table = node.wire.text("CLUSTER NODES");
            let own = table.lines().find(|line| line.contains("myself"));
            let own = own.unwrap_or_default().to_owned();
            let moving: Vec<&str> = own
                .split(' ')
                .filter(|word| word.starts_with('['))
                .collect();
            let keys = node.wire.int("DBSIZE");
            let slots = view.get(&node.id).cloned().unwrap_or_default();
            let moving = moving.join(" ");
            lines.push(format!("{name}: {slots} {moving} {keys} keys"));
        }
        for line in lines {
            self.note(&line);
        }
    }

    pub(super) fn transcript(self) -> String {
        self.transcript
    }
}

pub(super) fn address(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

/// Returns the role and the slots of each node, as a node sees them.
fn owners(node: &mut Node) -> BTreeMap<String, String> {
    let table = node.wire.text("CLUSTER NODES");
    let mut owners = BTreeMap::new();
    for line in table.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let slots = words.iter().skip(8).filter(|word| !word.starts_with('['));
        let slots: Vec<&str> = slots.copied().collect();
        let role = words[2].trim_start_matches("myself,");
        let view = format!("{role} {} {}", words[3], slots.join(" "));
        owners.insert(words[0].to_owned(), view);
    }
    owners
}

/// Compares the transcripts of our nodes, and of our nodes beside real ones, with the transcript of
/// real nodes.
#[track_caller]
pub(super) fn compare(peer: Peer, scenario: fn(&[Program]) -> Option<String>) {
    let (ours, real) = (Program::Ours, Program::Real(peer));
    let Some(wanted) = scenario(&[real; 4]) else {
        return;
    };
    for programs in [[ours; 4], [ours, real, ours, real]] {
        let transcript = scenario(&programs).expect("all are installed");
        assert!(
            transcript == wanted,
            "{programs:?}:\n{transcript}\n---- {peer}:\n{wanted}"
        );
    }
}
