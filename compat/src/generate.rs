//! The stream: weighted random commands of every family, in acts that can be compared.
//!
//! A [`Generator`] is a pure function of its seed, its protocol and its families: it never sees a
//! reply or a clock. Commands come in [`Act`]s because some things can only be compared as a whole:
//! an iteration of SCAN, a phase in which keys run out, a pub/sub session.

mod connection;
mod errors;
mod expiry;
mod keys;
mod pubsub;
mod server;
mod strings;
mod wire;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

pub use expiry::{LAPSE_PREFIX, Lapse};
pub use pubsub::{Session, Turn};
pub use wire::Wire;

use crate::command::{Command, Step};
use crate::draw::Draw;

/// The value of `notify-keyspace-events` outside the groups that change it: every class there is.
pub const ALL_EVENTS: &str = "KEAmn";

/// Which RESP version the connections speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// RESP2.
    Resp2,
    /// RESP3.
    Resp3,
}

impl Protocol {
    /// The greeting that switches a connection to this version.
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

/// A family of commands; a stream draws from any set of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// String commands.
    Strings,
    /// Commands on keys of any type.
    Keys,
    /// Deadlines, and phases in which keys run out.
    Expiry,
    /// Databases as a whole, configuration, introspection.
    Server,
    /// Greetings, databases, names, QUIT.
    Connection,
    /// Messages and sessions that subscribe.
    Pubsub,
    /// Commands that are wrong.
    Errors,
    /// Requests that are wrong as bytes.
    Wire,
}

impl Family {
    /// Every family.
    pub const ALL: [Family; 8] = [
        Family::Strings,
        Family::Keys,
        Family::Expiry,
        Family::Server,
        Family::Connection,
        Family::Pubsub,
        Family::Errors,
        Family::Wire,
    ];

    /// How many of a hundred-odd commands in a pipeline are of this family.
    fn weight(self) -> u32 {
        match self {
            Family::Strings => 46,
            Family::Keys => 20,
            Family::Expiry => 18,
            Family::Server => 4,
            Family::Connection => 6,
            Family::Pubsub => 3,
            Family::Errors => 8,
            // Conversations are acts of their own.
            Family::Wire => 0,
        }
    }
}

/// A name that is no family's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no family '{name}'; there are strings, keys, expiry, server, connection, pubsub, errors and wire"
)]
pub struct UnknownFamily {
    /// The name given.
    pub name: String,
}

impl FromStr for Family {
    type Err = UnknownFamily;

    fn from_str(name: &str) -> Result<Self, UnknownFamily> {
        Ok(match name {
            "strings" => Family::Strings,
            "keys" => Family::Keys,
            "expiry" => Family::Expiry,
            "server" => Family::Server,
            "connection" => Family::Connection,
            "pubsub" => Family::Pubsub,
            "errors" => Family::Errors,
            "wire" => Family::Wire,
            _ => {
                return Err(UnknownFamily {
                    name: name.to_owned(),
                });
            }
        })
    }
}

/// What is done to both servers and compared as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Commands sent at once; the replies and the keyspace events compared one by one.
    Pipeline(Vec<Step>),
    /// Commands, then QUIT, then more that must not be answered; the connection must close.
    Quit {
        /// Answered.
        before: Vec<Step>,
        /// Sent after QUIT.
        after: Vec<Command>,
    },
    /// A connection that subscribes, and messages to it.
    Session(Session),
    /// SCAN with these options from cursor 0 to the end; what was seen is compared as a set.
    Scan(Vec<Vec<u8>>),
    /// Short TTLs run out.
    Lapse(Lapse),
    /// Raw bytes on a fresh connection.
    Wire(Wire),
    /// Every key of every database, with value, deadline and encoding.
    Audit,
}

impl Act {
    /// How many commands the act sends, audits apart.
    pub fn commands(&self) -> u64 {
        let count = match self {
            Act::Pipeline(steps) => steps.len(),
            Act::Quit { before, after } => before.len() + after.len() + 1,
            Act::Session(session) => session
                .turns
                .iter()
                .map(|turn| turn.say.len() + turn.publish.len())
                .sum(),
            Act::Lapse(lapse) => lapse.arm.len() + lapse.probe.len() + 1,
            Act::Scan(_) | Act::Wire(_) => 1,
            Act::Audit => 0,
        };
        count as u64
    }
}

/// Commands per pipeline. Deep enough to be fast, short enough that relative TTLs are set within a few
/// milliseconds of each other on the two servers.
const PIPELINE: usize = 200;

/// An endless stream of acts.
#[derive(Debug)]
pub struct Generator {
    draw: Draw,
    protocol: Protocol,
    families: BTreeSet<Family>,
    weights: Vec<(u32, Family)>,
    without: BTreeSet<String>,
    acts: u64,
}

impl Generator {
    /// A stream that follows from `seed`, `protocol` and `families` alone.
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
            acts: 0,
        }
    }

    /// The same stream with some commands left out of its pipelines, named as in `strlen` or `client|info`: what is known
    /// to differ would otherwise hide what comes after it.
    #[must_use]
    pub fn without(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.without = names
            .into_iter()
            .map(|name| name.to_ascii_uppercase())
            .collect();
        self
    }

    /// The next act.
    pub fn next_act(&mut self) -> Act {
        self.acts += 1;
        let due = |every: u64, offset: u64| self.acts % every == offset;
        let has = |family| self.families.contains(&family);
        if due(20, 0) {
            Act::Audit
        } else if due(8, 3) && has(Family::Pubsub) {
            Act::Session(pubsub::session(&mut self.draw))
        } else if due(10, 4) && has(Family::Keys) {
            Act::Scan(self.scan_options())
        } else if due(25, 6) && has(Family::Expiry) {
            Act::Lapse(expiry::lapse(&mut self.draw, self.acts))
        } else if (due(6, 1) || self.weights.is_empty()) && has(Family::Wire) {
            Act::Wire(wire::conversation(&mut self.draw))
        } else if due(15, 5) && has(Family::Connection) {
            let before = self.pipeline(5);
            let after = self
                .pipeline(5)
                .into_iter()
                .map(|step| step.command)
                .collect();
            Act::Quit { before, after }
        } else {
            Act::Pipeline(self.pipeline(PIPELINE))
        }
    }

    /// At least `length` steps; groups are never torn apart.
    fn pipeline(&mut self, length: usize) -> Vec<Step> {
        let mut steps = Vec::with_capacity(length + 8);
        while steps.len() < length && !self.weights.is_empty() {
            let draw = &mut self.draw;
            match draw.weighted(&self.weights) {
                Family::Strings => strings::commands(draw, &mut steps),
                Family::Keys => keys::commands(draw, &mut steps),
                Family::Expiry => expiry::commands(draw, &mut steps),
                Family::Server => server::commands(draw, &mut steps),
                Family::Connection => connection::commands(draw, self.protocol, &mut steps),
                Family::Pubsub => pubsub::commands(draw, &mut steps),
                Family::Errors => errors::commands(draw, &mut steps),
                Family::Wire => unreachable!("conversations have no weight in pipelines"),
            }
        }
        // A silenced step stays: the one before it silences whatever comes next.
        steps.retain(|step| !step.answered || !self.leaves_out(&step.command));
        steps
    }

    fn leaves_out(&self, command: &Command) -> bool {
        !self.without.is_empty()
            && (self.without.contains(&command.name())
                || self
                    .without
                    .contains(&format!("{}|{}", command.name(), command.word(1))))
    }

    fn scan_options(&mut self) -> Vec<Vec<u8>> {
        let draw = &mut self.draw;
        let mut options = Vec::new();
        if draw.chance(50) {
            options.extend([b"MATCH".to_vec(), draw.pattern()]);
        }
        if draw.chance(50) {
            options.extend([
                b"COUNT".to_vec(),
                draw.between(1..=40).to_string().into_bytes(),
            ]);
        }
        if draw.chance(30) {
            let kind = draw.pick(&["string", "string", "list", "nosuchtype"]);
            options.extend([b"TYPE".to_vec(), kind.as_bytes().to_vec()]);
        }
        options
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
    fn every_kind_of_act_comes_up_and_commands_of_every_family() {
        let mut generator = Generator::new(1, Protocol::Resp3, Family::ALL);
        let acts: Vec<Act> = (0..200).map(|_| generator.next_act()).collect();
        let kinds: std::collections::HashSet<_> = acts.iter().map(std::mem::discriminant).collect();
        assert_eq!(kinds.len(), 7);
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
        for name in [
            "SET",
            "GETEX",
            "LCS",
            "COPY",
            "SCAN",
            "PEXPIREAT",
            "PERSIST",
            "SWAPDB",
            "HELLO",
            "CLIENT",
            "PUBLISH",
            "COMMAND",
            "CONFIG",
        ] {
            assert!(names.contains(name), "{name}");
        }
    }

    #[test]
    fn every_family_alone_makes_acts() {
        for family in Family::ALL {
            let mut generator = Generator::new(9, Protocol::Resp2, [family]);
            let sent: u64 = (0..40).map(|_| generator.next_act().commands()).sum();
            assert!(sent >= 30, "{family:?} sent {sent}");
        }
    }

    /// A silenced or blocked main connection would take every later reply with it.
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
