//! Minimises a difference: finds the preceding commands that are needed for it.
//!
//! For each candidate list of commands, both servers are emptied and receive the list on new
//! connections. A list that still shows a difference replaces the previous list. First half of the
//! list is removed, then smaller chunks, and single commands last (delta debugging: Zeller and
//! Hildebrandt, 2002).

use std::time::{Duration, Instant};

use crate::command::{Command, Step};
use crate::compare::{Judge, Tolerance};
use crate::events::Events;
use crate::generate::{ALL_EVENTS, EXPIRY_PHASE_PREFIX, Protocol};
use crate::link::{Addresses, LinkError, Pair};

/// Maximum time for shrinking, so that the report does not come late.
const PATIENCE: Duration = Duration::from_secs(10);

/// Commands that may be relevant for every key: they select, empty or swap databases, change the
/// server or the connection, or run scripts.
const GLOBAL: [&str; 10] = [
    "SELECT", "FLUSHDB", "FLUSHALL", "SWAPDB", "RESET", "CONFIG", "EVAL", "EVALSHA", "SCRIPT",
    "FUNCTION",
];

/// Returns a short list of commands that starts with commands of `history`, ends with `probes` and
/// shows a difference on empty servers. Returns `None` if the whole history shows no difference.
/// Deletes the data of both servers.
pub fn shrink<'s>(
    addresses: Addresses,
    protocol: Protocol,
    with_events: bool,
    history: impl Iterator<Item = &'s (u64, Step)>,
    keys: &[Vec<u8>],
    probes: &[Command],
) -> Option<Vec<Command>> {
    let all: Vec<Command> = history
        .filter_map(|(_, step)| replayable(&step.command))
        .collect();
    let related: Vec<Command> = all
        .iter()
        .filter(|command| {
            GLOBAL.contains(&command.name().as_str())
                || keys.iter().any(|key| command.mentions(key))
        })
        .cloned()
        .collect();
    let fails = |commands: &[Command]| {
        differs(addresses, protocol, with_events, commands, probes).unwrap_or(false)
    };
    let list = [related, all].into_iter().find(|list| fails(list))?;
    Some([minimal(list, fails), probes.to_vec()].concat())
}

/// Returns a form of the command that can be replayed in one pipeline with one reply per command.
fn replayable(command: &Command) -> Option<Command> {
    match (command.name().as_str(), command.word(1).as_str()) {
        // Replies are not suppressed in a replay.
        ("CLIENT", "REPLY") => None,
        // SPOP removes random members, and a list may lack the command that deletes the rest.
        ("SPOP", _) => None,
        // A new connection starts in the first database.
        ("QUIT", _) => Some(Command::of(&["SELECT", "0"])),
        // Short TTLs expire at another moment in each run.
        _ if command
            .args()
            .iter()
            .any(|argument| argument.starts_with(EXPIRY_PHASE_PREFIX)) =>
        {
            None
        }
        _ => Some(command.clone()),
    }
}

/// Removes elements of the list as long as `fails` returns true.
fn minimal(mut list: Vec<Command>, mut fails: impl FnMut(&[Command]) -> bool) -> Vec<Command> {
    let started = Instant::now();
    let mut chunk = list.len().div_ceil(2);
    while chunk > 0 && !list.is_empty() {
        let mut start = 0;
        let mut progress = false;
        while start < list.len() {
            if started.elapsed() > PATIENCE {
                return list;
            }
            let end = (start + chunk).min(list.len());
            let without = [&list[..start], &list[end..]].concat();
            if fails(&without) {
                list = without;
                progress = true;
            } else {
                start = end;
            }
        }
        if !(progress && chunk == 1) {
            chunk /= 2;
        }
    }
    list
}

fn differs(
    addresses: Addresses,
    protocol: Protocol,
    with_events: bool,
    commands: &[Command],
    probes: &[Command],
) -> Result<bool, LinkError> {
    let mut pair = Pair::connect(addresses)?;
    let set_up = [
        Command::of(&["FLUSHALL"]),
        Command::of(&["SCRIPT", "FLUSH"]),
        Command::of(&["FUNCTION", "FLUSH"]),
        // All scripts share one sequence of random numbers, so both servers start it anew.
        Command::of(&["EVAL", "math.randomseed(1)", "0"]),
        Command::of(&["CONFIG", "SET", "notify-keyspace-events", ALL_EVENTS]),
        protocol.hello(),
    ];
    if let Some(error) = pair.exchange(&set_up, set_up.len()).failure {
        return Err(error);
    }
    let mut events = if with_events {
        Events::subscribe(addresses, protocol)?
    } else {
        Events::disabled()
    };
    let fence = events.fence();
    // A list may have lost its EXEC; the fence must not be queued.
    let discard = Command::of(&["DISCARD"]);
    let ends = [&discard, &fence];
    let sent: Vec<&Command> = commands.iter().chain(probes).chain(ends).collect();
    let exchange = pair.exchange(sent.iter().copied(), sent.len());
    if let Some(error) = exchange.failure {
        return Err(error);
    }
    let mut tolerance = Tolerance::default();
    tolerance.record(exchange.elapsed);
    let mut judge = Judge::beside(addresses.peer);
    if sent
        .iter()
        .zip(&exchange.replies)
        .any(|(command, (a, b))| !judge.same(command, a, b, tolerance))
    {
        return Ok(true);
    }
    Ok(events.collect()?.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_needed_commands_are_kept() {
        let list: Vec<Command> = (0..100)
            .map(|n| Command::of(&["SET", "k", &n.to_string()]))
            .collect();
        let needed = [list[3].clone(), list[57].clone(), list[99].clone()];
        let small = minimal(list, |list| {
            needed.iter().all(|command| list.contains(command))
        });
        assert_eq!(small, needed);
    }

    #[test]
    fn a_failure_that_needs_nothing_shrinks_to_nothing() {
        let list: Vec<Command> = (0..9)
            .map(|n| Command::of(&["SET", "k", &n.to_string()]))
            .collect();
        assert!(minimal(list, |_| true).is_empty());
    }
}
