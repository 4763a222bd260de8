//! Generators of streams: random commands of every family, grouped in acts that can be compared.
//!
//! A [`Generator`] is a pure function of its seed, its protocol and its families: it never reads a
//! reply or a clock. Commands are grouped in [`Act`]s, because some results can only be compared as
//! a whole: an iteration of SCAN, a phase in which keys expire, a pub/sub session. Most acts
//! consist of [`Step`]s: commands, and whether they get a reply.

mod bitmaps;
mod blocking;
mod connection;
mod dumps;
mod errors;
mod expiry;
mod expiry_phases;
mod family;
mod fields;
mod geo;
mod hashes;
mod hyperloglog;
mod keys;
mod line;
mod lists;
mod pubsub;
mod scans;
mod scenes;
mod scripts;
mod server;
mod sets;
mod sort;
mod streams;
mod strings;
mod transactions;
mod wire;
mod zsets;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use dumps::Carry;
pub use expiry_phases::{EXPIRY_PHASE_PREFIX, ExpiryPhase};
pub use family::{Family, UnknownFamily};
pub use pubsub::{Round, Session};
pub use scans::Scan;
pub use scenes::{Move, SCENE_DATABASE, Scene};
pub use sort::SORT_PREFIXES;
pub use wire::Wire;

use punctual_harness::Peer;

use crate::command::{Command, Step};
use crate::differences;
use crate::draw::Draw;

/// The usual value of `notify-keyspace-events`: all classes.
pub const ALL_EVENTS: &str = "KEAmn";

/// The RESP version of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// RESP2.
    Resp2,
    /// RESP3.
    Resp3,
}

impl Protocol {
    /// Returns the HELLO that switches a connection to this version.
    pub fn hello(self) -> Command {
        Command::of(&[
            "HELLO",
            match self {
                Protocol::Resp2 => "2",
                Protocol::Resp3 => "3",
            },
        ])
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Resp2 => "RESP2",
            Protocol::Resp3 => "RESP3",
        })
    }
}

/// A group of commands that is run on both servers and compared as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// A pipeline, whose replies and keyspace events are compared one by one.
    Pipeline(Vec<Step>),
    /// Commands, then QUIT, then commands that must not get a reply; the connection must close.
    Quit {
        /// Commands with replies.
        before: Vec<Step>,
        /// Commands after QUIT.
        after: Vec<Command>,
    },
    /// A connection that subscribes, and messages to it.
    Session(Session),
    /// An iteration over keys or over a collection.
    Scan(Scan),
    /// Several connections, some of which block or watch keys.
    Scene(Scene),
    /// Values copied from each server to the other.
    Carry(Carry),
    /// A phase in which short TTLs expire.
    ExpiryPhase(ExpiryPhase),
    /// Raw bytes on a fresh connection.
    Wire(Wire),
    /// Every key of every database, with value, deadline and encoding.
    Audit,
}

impl Act {
    /// Returns the number of commands in the act, without audits.
    pub fn commands(&self) -> u64 {
        let count = match self {
            Act::Pipeline(steps) => steps.len(),
            Act::Quit { before, after } => before.len() + after.len() + 1,
            Act::Session(session) => session
                .rounds
                .iter()
                .map(|round| round.commands.len() + round.publish.len())
                .sum(),
            Act::ExpiryPhase(phase) => phase.arm.len() + phase.probe.len() + 1,
            Act::Scene(scene) => scene.commands(),
            Act::Carry(carry) => 2 * carry.keys.len(),
            Act::Scan(_) | Act::Wire(_) => 1,
            Act::Audit => 0,
        };
        count as u64
    }
}

/// A kind of command of a family, or a short group of related ones.
#[derive(Clone, Copy)]
enum Maker {
    /// The command of this [`line`].
    Line(&'static str),
    /// The commands that this function appends.
    Call(Call),
}

/// Appends one command, or a short group of related ones.
type Call = fn(&mut Draw, &mut Vec<Step>);

/// Appends the commands of one of the makers, drawn by weight.
fn make(draw: &mut Draw, makers: &[(u32, Maker)], steps: &mut Vec<Step>) {
    match draw.weighted(makers) {
        Maker::Line(line) => steps.push(line::command(draw, line).into()),
        Maker::Call(call) => call(draw, steps),
    }
}

/// Returns a command without arguments; its name is sometimes in mixed case.
fn named(draw: &mut Draw, name: &str) -> Command {
    Command::new(draw.case(name))
}

/// Number of commands per pipeline. A smaller number would make the comparison slow. With a larger
/// number, the two servers would set relative TTLs more than a few milliseconds apart.
const PIPELINE: usize = 200;

/// An endless stream of acts.
#[derive(Debug)]
pub struct Generator {
    draw: Draw,
    protocol: Protocol,
    families: BTreeSet<Family>,
    weights: Vec<(u32, Family)>,
    without: BTreeSet<String>,
    peer: Option<Peer>,
    acts: u64,
    sent: BTreeMap<Family, u64>,
}

impl Generator {
    /// Returns a stream that is determined by `seed`, `protocol` and `families`.
    ///
    /// # Panics
    /// If `families` is empty.
    pub fn new(seed: u64, protocol: Protocol, families: impl IntoIterator<Item = Family>) -> Self {
        let families: BTreeSet<Family> = families.into_iter().collect();
        assert!(
            !families.is_empty(),
            "a stream draws from at least one family"
        );
        let weights = families
            .iter()
            .map(|family| (family.weight(), *family))
            .filter(|(weight, _)| *weight > 0)
            .collect();
        Self {
            draw: Draw::new(seed),
            protocol,
            families,
            weights,
            without: BTreeSet::new(),
            peer: None,
            acts: 0,
            sent: BTreeMap::new(),
        }
    }

    /// Omits some commands from the stream's pipelines; the names are like `strlen` or
    /// `client|info`. Omit commands with known differences, which would hide later differences.
    #[must_use]
    pub fn without(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.without = names
            .into_iter()
            .map(|name| name.to_ascii_uppercase())
            .collect();
        self
    }

    /// Omits the commands that [`differences::omits`] names for this kind
    /// of reference server.
    #[must_use]
    pub fn beside(mut self, peer: Option<Peer>) -> Self {
        self.peer = peer;
        self
    }

    /// Returns the number of commands of each family so far.
    pub fn sent(&self) -> &BTreeMap<Family, u64> {
        &self.sent
    }

    /// Returns the next act.
    pub fn next_act(&mut self) -> Act {
        self.acts += 1;
        let Some((family, mut act)) = self.special_act() else {
            return Act::Pipeline(self.pipeline(PIPELINE));
        };
        match &mut act {
            Act::Scene(scene) => {
                for step in &mut scene.moves {
                    if let Move::Run(_, commands) = step {
                        commands.retain(|command| !self.omits(command));
                    }
                }
            }
            Act::ExpiryPhase(phase) => {
                phase.arm.retain(|step| !self.omits(&step.command));
                phase.probe.retain(|step| !self.omits(&step.command));
            }
            Act::Session(session) => {
                for round in &mut session.rounds {
                    round.publish.retain(|step| !self.omits(&step.command));
                }
            }
            Act::Scan(scan) if self.omits(&scan.page(b"0")) => return self.next_act(),
            _ => {}
        }
        if let Some(family) = family {
            *self.sent.entry(family).or_default() += act.commands();
        }
        act
    }

    /// Returns an act other than a pipeline, and its family, if one is due. Each kind is due at a
    /// fixed interval; without a family for pipelines, [`Act::Wire`] is always due.
    fn special_act(&mut self) -> Option<(Option<Family>, Act)> {
        let acts = self.acts;
        let due = |every: u64, offset: u64| acts % every == offset;
        let has = |family| self.families.contains(&family);
        let draw = &mut self.draw;
        Some(if due(20, 0) {
            (None, Act::Audit)
        } else if due(8, 3) && has(Family::Pubsub) {
            (Some(Family::Pubsub), Act::Session(pubsub::session(draw)))
        } else if due(10, 4)
            && let Some(scan) = scans::scan(draw, has)
        {
            (None, Act::Scan(scan))
        } else if due(25, 6) && has(Family::Expiry) {
            (
                Some(Family::Expiry),
                Act::ExpiryPhase(expiry_phases::phase(draw, acts, has)),
            )
        } else if due(15, 7) && has(Family::Blocking) {
            (Some(Family::Blocking), Act::Scene(scenes::queue(draw)))
        } else if due(15, 13) && has(Family::Streams) {
            (
                Some(Family::Streams),
                Act::Scene(streams::scene(draw, self.peer != Some(Peer::Redis7))),
            )
        } else if due(15, 11) && has(Family::Scripts) {
            (Some(Family::Scripts), Act::Scene(scripts::scene(draw)))
        } else if due(30, 8) && has(Family::Transactions) {
            (Some(Family::Transactions), Act::Scene(scenes::watch(draw)))
        } else if due(20, 9) && has(Family::Dumps) {
            (Some(Family::Dumps), Act::Carry(dumps::carry(draw)))
        } else if (due(6, 1) || self.weights.is_empty()) && has(Family::Wire) {
            (Some(Family::Wire), Act::Wire(wire::conversation(draw)))
        } else if due(15, 5) && has(Family::Connection) {
            let before = self.pipeline(5);
            let after = self
                .pipeline(5)
                .into_iter()
                .map(|step| step.command)
                .collect();
            (None, Act::Quit { before, after })
        } else {
            return None;
        })
    }

    /// Draws at least `length` steps, in whole groups, and omits those of [`Generator::without`].
    fn pipeline(&mut self, length: usize) -> Vec<Step> {
        let mut steps = Vec::with_capacity(length + 8);
        while steps.len() < length && !self.weights.is_empty() {
            let before = steps.len();
            let family = self.draw.weighted(&self.weights);
            let weights = &self.weights;
            match family {
                Family::Connection => {
                    connection::commands(&mut self.draw, self.protocol, &mut steps);
                }
                Family::Transactions => {
                    let mut data =
                        |draw: &mut Draw, steps: &mut Vec<Step>| queued(draw, weights, steps);
                    transactions::commands(&mut self.draw, &mut data, &mut steps);
                }
                _ => group(&mut self.draw, family, &mut steps),
            }
            *self.sent.entry(family).or_default() += (steps.len() - before) as u64;
        }
        // Keeps steps without a reply: `CLIENT REPLY SKIP` before such a step suppresses one reply.
        steps.retain(|step| !step.answered || !self.omits(&step.command));
        steps
    }

    fn omits(&self, command: &Command) -> bool {
        differences::omits(self.peer, command)
            || (self.without.contains(&command.name())
                || self
                    .without
                    .contains(&format!("{}|{}", command.name(), command.word(1))))
    }
}

/// Appends a group of steps of a family whose commands may be in a transaction, if there is such a
/// family.
fn queued(draw: &mut Draw, weights: &[(u32, Family)], steps: &mut Vec<Step>) {
    let weights: Vec<(u32, Family)> = weights
        .iter()
        .copied()
        .filter(|(_, family)| transactions::may_be_queued(*family))
        .collect();
    if !weights.is_empty() {
        let family = draw.weighted(&weights);
        group(draw, family, steps);
    }
}

/// Appends a group of steps of a family that does not depend on the state of the connection.
fn group(draw: &mut Draw, family: Family, steps: &mut Vec<Step>) {
    let (make, any_arguments): (Call, &str) = match family {
        Family::Strings => (strings::commands, ""),
        Family::Keys => (keys::commands, ""),
        Family::Expiry => (expiry::commands, ""),
        Family::Lists => (lists::commands, lists::ANY_ARGUMENTS),
        Family::Hashes => (hashes::commands, hashes::ANY_ARGUMENTS),
        Family::Fields => (fields::commands, ""),
        Family::Sets => (sets::commands, sets::ANY_ARGUMENTS),
        Family::Zsets => (zsets::commands, zsets::ANY_ARGUMENTS),
        Family::Streams => (streams::commands, streams::ANY_ARGUMENTS),
        Family::Bitmaps => (bitmaps::commands, bitmaps::ANY_ARGUMENTS),
        Family::Hyperloglog => (hyperloglog::commands, hyperloglog::ANY_ARGUMENTS),
        Family::Geo => (geo::commands, geo::ANY_ARGUMENTS),
        Family::Sort => (sort::commands, ""),
        Family::Dumps => (dumps::commands, ""),
        Family::Blocking => (blocking::commands, ""),
        Family::Server => (server::commands, ""),
        Family::Pubsub => (pubsub::commands, ""),
        Family::Scripts => (scripts::commands, ""),
        Family::Errors => (errors::commands, ""),
        Family::Connection | Family::Transactions | Family::Wire => {
            unreachable!("these families are generated by `pipeline`, or as separate acts")
        }
    };
    if !any_arguments.is_empty() && draw.chance(3) {
        errors::any_arguments(draw, any_arguments, steps);
        return;
    }
    let first = steps.len();
    make(draw, steps);
    if !any_arguments.is_empty() && steps.len() == first + 1 {
        errors::spoil(draw, &mut steps[first].command);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_stream() {
        let stream = |seed| {
            let mut generator = Generator::new(seed, Protocol::Resp2, Family::ALL);
            (0..60).map(|_| generator.next_act()).collect::<Vec<_>>()
        };
        assert_eq!(stream(5), stream(5));
        assert_ne!(stream(5), stream(6));
    }

    #[test]
    fn every_kind_of_act_and_every_family_is_generated() {
        let mut generator = Generator::new(1, Protocol::Resp3, Family::ALL);
        let acts: Vec<Act> = (0..200).map(|_| generator.next_act()).collect();
        let kinds: std::collections::HashSet<_> = acts.iter().map(std::mem::discriminant).collect();
        assert_eq!(kinds.len(), 9);
        assert_eq!(generator.sent().len(), Family::ALL.len());
        let names: BTreeSet<String> = acts
            .iter()
            .filter_map(|act| {
                if let Act::Pipeline(steps) = act {
                    Some(steps)
                } else {
                    None
                }
            })
            .flatten()
            .map(|step| step.command.name())
            .collect();
        #[rustfmt::skip]
        let generated = [
            "SET", "GETEX", "LCS", "COPY", "SCAN", "PEXPIREAT", "PERSIST", "SWAPDB", "HELLO",
            "CLIENT", "PUBLISH", "COMMAND", "CONFIG", "LMPOP", "HRANDFIELD", "SINTERCARD",
            "ZRANGESTORE", "XREADGROUP", "BITFIELD_RO", "PFMERGE", "GEOSEARCHSTORE", "SORT_RO",
            "RESTORE", "EXEC", "BZMPOP", "EVALSHA_RO", "FCALL",
        ];
        for name in generated {
            assert!(names.contains(name), "{name}");
        }
    }

    #[test]
    fn every_family_alone_generates_acts() {
        for family in Family::ALL {
            let mut generator = Generator::new(9, Protocol::Resp2, [family]);
            let sent: u64 = (0..40).map(|_| generator.next_act().commands()).sum();
            assert!(sent >= 30, "{family:?} sent {sent}");
        }
    }

    /// SPOP removes random members. So it must remove all members, or the rest must be deleted
    /// before any command reads it.
    #[test]
    fn no_command_reads_the_rest_of_a_random_pop() {
        let mut generator =
            Generator::new(3, Protocol::Resp2, [Family::Sets, Family::Transactions]);
        let mut pops = 0;
        for _ in 0..100 {
            let Act::Pipeline(steps) = generator.next_act() else {
                continue;
            };
            for (at, step) in steps.iter().enumerate() {
                let command = &step.command;
                if command.name() != "SPOP"
                    || command.word(2).len() > 6 && command.word(2).starts_with(['1', '9'])
                {
                    continue;
                }
                pops += 1;
                let delete = &steps[at + 2].command;
                assert_eq!(
                    (delete.name().as_str(), &delete.args()[1]),
                    ("DEL", &command.args()[1])
                );
            }
        }
        assert!(pops > 20);
    }

    /// If a command subscribed or closed the main connection, or left its replies off, all later
    /// replies would be missing.
    #[test]
    fn nothing_in_a_pipeline_silences_or_closes_the_connection_for_good() {
        let mut generator = Generator::new(2, Protocol::Resp2, Family::ALL);
        for _ in 0..300 {
            let Act::Pipeline(steps) = generator.next_act() else {
                continue;
            };
            let mut silenced = false;
            for step in &steps {
                let command = &step.command;
                assert!(
                    ![
                        "SUBSCRIBE",
                        "PSUBSCRIBE",
                        "SSUBSCRIBE",
                        "MONITOR",
                        "QUIT",
                        "SHUTDOWN"
                    ]
                    .contains(&command.name().as_str()),
                    "{command}"
                );
                if command.name() == "CLIENT" && command.word(1) == "REPLY" {
                    silenced = match command.word(2).as_str() {
                        "OFF" => true,
                        "ON" => false,
                        _ => silenced,
                    };
                }
                assert!(!(silenced && step.answered), "{command}");
            }
            assert!(!silenced);
        }
    }
}
