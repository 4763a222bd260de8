//! Two servers, one stream: every act is done to both and compared.

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

/// Commands kept for reports and for shrinking.
const HISTORY: usize = 20_000;

/// What stream to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Gives the stream, together with the protocol and the families.
    pub seed: u64,
    /// At least so many commands are sent.
    pub commands: u64,
    /// Of the connections.
    pub protocol: Protocol,
    /// Which commands.
    pub families: BTreeSet<Family>,
    /// Commands left out of it; see [`Generator::without`].
    pub without: BTreeSet<String>,
    /// Whether keyspace events are compared too.
    pub events: bool,
    /// Whether a difference is made small before it is reported.
    pub shrink: bool,
}

impl Options {
    /// A stream of every family.
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

/// What was compared, nothing differing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Commands sent to each server.
    pub commands: u64,
    /// How many of these each family drew.
    pub families: BTreeMap<Family, u64>,
    /// Times the whole state was compared.
    pub audits: u64,
    /// Phases in which keys ran out.
    pub lapses: u64,
    /// Of these, how many told nothing because the machine stalled.
    pub lapses_void: u64,
    /// Times the deadlines were aligned after a stall.
    pub stalls: u64,
    /// How far deadlines were ever allowed to lie apart, in milliseconds.
    pub tolerance_ms: i64,
}

/// Why a duel ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DuelError {
    /// The servers do not agree.
    #[error("{0}")]
    Differ(Box<Difference>),
    /// A server cannot be reached or stopped answering outside any command.
    #[error("{source} (seed {seed}, near command {number})")]
    Link {
        /// Of the stream.
        seed: u64,
        /// Commands sent before.
        number: u64,
        /// What went wrong.
        source: LinkError,
    },
}

/// Why an act ended early.
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

/// `Some(finding)` as an error.
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
    /// Empties both servers and runs the stream; `progress` hears how many commands are done.
    ///
    /// # Errors
    /// The first difference, or a server that cannot be reached.
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
        .without(options.without.iter().cloned());
        loop {
            let last = duel.summary.commands >= options.commands;
            let act = if last {
                Act::Audit
            } else {
                generator.next_act()
            };
            match duel.act(&act) {
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
                Events::deaf()
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
