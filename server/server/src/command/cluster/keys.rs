//! CLUSTER subcommands about the keys of slots: KEYSLOT, COUNTKEYSINSLOT, GETKEYSINSLOT,
//! SLOT-STATS.

use punctual_cluster::slot::{SLOTS, of_key};
use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, OwnedArgs, Reply};
use punctual_store::{Error, Turn};

use super::arguments::{node, range, slot_of_number};
use crate::cluster::usage::Used;
use crate::command::replies::wrong_form;
use crate::node::call::Call;
use crate::table::Run;

pub(super) fn key_slot(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    node(call.shared)?;
    reply.int(of_key(args.at(2)).into());
    Ok(())
}

pub(super) fn count(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    node(call.shared)?;
    let slot = parse_i64(args.at(2)).ok_or(Error::NotInteger)?;
    let slot = slot_of_number(slot).ok_or(Error::fixed("ERR Invalid slot"))?;
    reply.int(call.turn.count_keys_in_slot(slot) as i64);
    Ok(())
}

pub(super) fn get(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    node(call.shared)?;
    let number = |at| parse_i64(args.at(at)).ok_or(Error::NotInteger);
    let (slot, most) = (number(2)?, number(3)?);
    let (Some(slot), Ok(most)) = (slot_of_number(slot), usize::try_from(most)) else {
        return Err(Error::fixed("ERR Invalid slot or number of keys"));
    };
    let mut keys: Vec<Box<[u8]>> = Vec::new();
    call.turn
        .keys_in_slot(slot, most, |key| keys.push(key.into()));
    reply.array(keys.len());
    keys.iter().for_each(|key| reply.bulk(key));
    Ok(())
}

/// The slots that SLOT-STATS shows.
enum Filter {
    Range(u16, u16),
    /// The slots with the greatest or the smallest values.
    By {
        metric: usize,
        most: usize,
        ascending: bool,
    },
}

/// Names of the figures of a slot. Those after the first one need `cluster-slot-stats-enabled`.
const METRICS: [&str; 4] = [
    "key-count",
    "cpu-usec",
    "network-bytes-in",
    "network-bytes-out",
];

impl Filter {
    /// Parses the arguments, of which `metrics` are the known figures.
    fn parse(args: Args, metrics: &[&str]) -> Result<Self, Error> {
        if args.len() == 5 && args.at(2).eq_ignore_ascii_case(b"slotsrange") {
            let (first, last) = range(args.at(3), args.at(4), "Start")?;
            return Ok(Self::Range(first, last));
        }
        if !args.at(2).eq_ignore_ascii_case(b"orderby") {
            return Err(wrong_form("CLUSTER", args));
        }
        let is_named = |name: &&str| args.at(3).eq_ignore_ascii_case(name.as_bytes());
        let metric = metrics.iter().position(is_named);
        let metric = metric.ok_or(Error::fixed("ERR Unrecognized sort metric for ORDERBY."))?;
        let (mut limit, mut ascending) = (None, None);
        let mut at = 4;
        while at < args.len() {
            let word = args.at(at).to_ascii_lowercase();
            let again = match word.as_slice() {
                b"limit" if at + 1 < args.len() => {
                    at += 1;
                    let most =
                        parse_i64(args.at(at)).filter(|most| (1..=SLOTS.into()).contains(most));
                    let most = most.ok_or(Error::fixed(
                        "ERR Limit has to lie in between 1 and 16384 (maximum number of slots).",
                    ))?;
                    limit.replace(most as usize).is_some()
                }
                b"asc" | b"desc" => ascending.replace(word == b"asc").is_some(),
                _ => return Err(Error::Syntax),
            };
            if again {
                return Err(Error::fixed(
                    "ERR Multiple filters of the same type are disallowed.",
                ));
            }
            at += 1;
        }
        Ok(Self::By {
            metric,
            most: limit.unwrap_or(SLOTS.into()),
            ascending: ascending.unwrap_or(false),
        })
    }
}

pub(super) fn stats(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let cluster = node(call.shared)?;
    let usage = cluster.usage.active();
    let metrics = match usage {
        Some(_) => &METRICS[..],
        None => &METRICS[..1],
    };
    let filter = Filter::parse(args, metrics)?;
    let served = cluster.read(|machine| machine.nodes().own_primary().slots.clone());
    let is_shown = |slot: &u16| match filter {
        Filter::Range(first, last) => (first..=last).contains(slot),
        Filter::By { .. } => true,
    };
    let mut figures = |slot: u16| {
        let keys = call.turn.count_keys_in_slot(slot) as u64;
        let used = usage.map_or_else(Used::default, |usage| usage.of(slot));
        [keys, used.nanos / 1000, used.bytes_in, used.bytes_out]
    };
    let shown = served.iter().filter(is_shown);
    let mut shown: Vec<(u16, [u64; METRICS.len()])> =
        shown.map(|slot| (slot, figures(slot))).collect();
    if let Filter::By {
        metric,
        most,
        ascending,
    } = filter
    {
        shown.sort_by(|(_, a), (_, b)| match ascending {
            true => a[metric].cmp(&b[metric]),
            false => b[metric].cmp(&a[metric]),
        });
        shown.truncate(most);
    }
    reply.array(shown.len());
    for (slot, figures) in shown {
        reply.array(2);
        reply.int(slot.into());
        reply.map(metrics.len());
        for (name, figure) in metrics.iter().zip(figures) {
            reply.bulk(name.as_bytes());
            reply.int(figure as i64);
        }
    }
    Ok(())
}

/// Returns whether database 0 has keys.
pub(super) fn has_keys(turn: &mut Turn) -> bool {
    turn.lock_all();
    turn.held_dbs(0).any(|(_, part)| !part.is_empty())
}

/// Removes all keys, as FLUSHALL does.
pub(super) fn remove_all_keys(call: &mut Call) -> Result<(), Error> {
    let words: OwnedArgs = ["FLUSHALL"].into_iter().collect();
    let entry = call.shared.commands.table().get(b"flushall");
    let Some(Run::Keyspace(command)) = entry.map(|entry| entry.run) else {
        return Ok(());
    };
    let mut unused = Vec::new();
    let mut reply = Reply::new(&mut unused, call.session.protocol);
    call.turn
        .run(command, 0, false, words.as_args(), &mut reply)
}
