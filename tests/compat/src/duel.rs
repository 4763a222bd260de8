//! Runs one stream against two servers. An *act* is a step of the stream, for example a batch of
//! commands. A *duel* runs each act on both servers, and compares the results.

mod acts;
mod carry;
mod scans;
mod scenes;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::command::{Command, Step};
use crate::compare::Tolerance;
use crate::events::Events;
use crate::generate::{ALL_EVENTS, Act, Family, Generator, Protocol};
use crate::link::{Addresses, LinkError, Pair};
use crate::report::{self, Difference, Finding};
use crate::shrink;

/// Number of commands kept for reports and for shrinking.
const HISTORY: usize = 20_000;

/// The options of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The seed, which determines the stream together with the protocol and the families.
    pub seed: u64,
    /// Minimum number of commands to send.
    pub commands: u64,
    /// The protocol of the connections.
    pub protocol: Protocol,
    /// The families of commands.
    pub families: BTreeSet<Family>,
    /// Commands to omit; see [`Generator::without`].
    pub without: BTreeSet<String>,
    /// True if keyspace events are compared as well.
    pub events: bool,
    /// True if a difference is minimised before it is reported.
    pub shrink: bool,
}

impl Options {
    /// Returns options for a stream of all families.
    pub fn new(seed: u64, commands: u64, protocol: Protocol) -> Self {
        Self {
            seed,
            commands,
            protocol,
            families: Family::ALL.into(),
            without: BTreeSet::new(),
            events: true,
            shrink: true,
        }
    }
}

/// The statistics of a comparison without differences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of commands sent to each server.
    pub commands: u64,
    /// Number of commands per family.
    pub families: BTreeMap<Family, u64>,
    /// Number of comparisons of the whole state.
    pub audits: u64,
    /// Number of phases in which keys expired.
    pub expiry_phases: u64,
    /// Number of these phases without a comparison, because the machine stalled.
    pub void_expiry_phases: u64,
    /// Number of alignments of deadlines after a stall; see [`crate::audit::align`].
    pub stalls: u64,
    /// The maximum tolerance for deadlines in milliseconds.
    pub tolerance_ms: i64,
}

/// The error of a duel that ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DuelError {
    /// The servers differ.
    #[error("{0}")]
    Differ(Box<Difference>),
    /// A server is unreachable, or stopped replying and no command of the stream is the cause.
    #[error("{source} (seed {seed}, near command {number})")]
    Link {
        /// The seed of the stream.
        seed: u64,
        /// Number of commands sent before.
        number: u64,
        /// Why the connection failed.
        source: LinkError,
    },
}

/// The reason for which an act ended early.
enum Stop {
    Found(Box<Finding>),
    Link(LinkError),
}

impl From<LinkError> for Stop {
    fn from(error: LinkError) -> Self {
        Stop::Link(error)
    }
}

impl From<Finding> for Stop {
    fn from(finding: Finding) -> Self {
        Stop::Found(Box::new(finding))
    }
}

/// Converts `Some(finding)` to an error.
fn agree(finding: Option<Finding>) -> Result<(), Stop> {
    finding.map_or(Ok(()), |finding| Err(finding.into()))
}

/// A run of one stream against two servers.
#[derive(Debug)]
pub struct Duel<'o> {
    addresses: Addresses,
    options: &'o Options,
    main: Pair,
    auditor: Pair,
    events: Events,
    tolerance: Tolerance,
    history: VecDeque<(u64, Step)>,
    summary: Summary,
}

impl<'o> Duel<'o> {
    /// Empties both servers and runs the stream; calls `progress` with the number of commands sent.
    ///
    /// # Errors
    /// The first difference, or an unreachable server.
    pub fn run(
        addresses: Addresses,
        options: &'o Options,
        mut progress: impl FnMut(u64),
    ) -> Result<Summary, DuelError> {
        let broken = |number, source| DuelError::Link {
            seed: options.seed,
            number,
            source,
        };
        let mut duel = Self::begin(addresses, options).map_err(|source| broken(0, source))?;
        let mut generator = Generator::new(
            options.seed,
            options.protocol,
            options.families.iter().copied(),
        )
        .without(options.without.iter().cloned())
        .beside(addresses.peer);
        loop {
            let last = duel.summary.commands >= options.commands;
            let act = if last {
                Act::Audit
            } else {
                generator.next_act()
            };
            let done = duel.act(&act);
            let done = if last {
                done.and_then(|()| duel.check())
            } else {
                done
            };
            match done {
                Ok(()) => progress(duel.summary.commands),
                Err(Stop::Found(finding)) => {
                    return Err(DuelError::Differ(Box::new(duel.difference(*finding))));
                }
                Err(Stop::Link(source)) => return Err(broken(duel.summary.commands, source)),
            }
            if last {
                duel.summary.families = generator.sent().clone();
                return Ok(duel.summary);
            }
        }
    }

    fn begin(addresses: Addresses, options: &'o Options) -> Result<Self, LinkError> {
        let mut main = Pair::connect(addresses)?;
        let set_up = [
            Command::of(&["FLUSHALL"]),
            Command::of(&["SCRIPT", "FLUSH"]),
            Command::of(&["FUNCTION", "FLUSH"]),
            // All scripts share one sequence of random numbers, so both servers start it anew.
            Command::of(&["EVAL", "math.randomseed(1)", "0"]),
            Command::of(&["CONFIG", "SET", "notify-keyspace-events", ALL_EVENTS]),
            options.protocol.hello(),
        ];
        for command in &set_up {
            main.ask(command)?;
        }
        Ok(Self {
            addresses,
            options,
            main,
            auditor: Pair::connect(addresses)?,
            events: if options.events {
                Events::subscribe(addresses, options.protocol)?
            } else {
                Events::disabled()
            },
            tolerance: Tolerance::default(),
            history: VecDeque::with_capacity(HISTORY),
            summary: Summary::default(),
        })
    }

    fn difference(&self, finding: Finding) -> Difference {
        let recent = report::recent(self.history.iter(), &finding.keys);
        let repro = match &finding.probes {
            Some(probes) if self.options.shrink => shrink::shrink(
                self.addresses,
                self.options.protocol,
                self.options.events,
                self.history.iter(),
                &finding.keys,
                probes,
            ),
            _ => None,
        };
        Difference {
            seed: self.options.seed,
            protocol: self.options.protocol,
            number: self.summary.commands,
            finding,
            recent,
            repro: repro.unwrap_or_default(),
        }
    }
}
