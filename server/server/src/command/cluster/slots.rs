//! CLUSTER subcommands that change the owners of slots: ADDSLOTS, ADDSLOTSRANGE, SETSLOT.

use punctual_cluster::nodes::{Node, Nodes};
use punctual_cluster::slot::{SLOTS, SlotSet};
use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use punctual_store::Error;

use super::keys::count_keys;
use super::{find, node, refused};
use crate::node::call::Call;

pub(super) fn add(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let cluster = node(call.shared)?;
    let named = each_slot(args)?;
    call.turn.release();
    call.shared.in_cluster(cluster, |machine, now_ms| {
        let slots = free_slots(machine.nodes(), &named)?;
        machine.add_slots(&slots, now_ms).map_err(refused)
    })?;
    reply.ok();
    Ok(())
}

pub(super) fn add_range(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let cluster = node(call.shared)?;
    let named = each_range(args, "cluster|addslotsrange")?;
    call.turn.release();
    call.shared.in_cluster(cluster, |machine, now_ms| {
        let slots = free_slots(machine.nodes(), &named)?;
        machine.add_slots(&slots, now_ms).map_err(refused)
    })?;
    reply.ok();
    Ok(())
}

/// Reads a slot's number.
fn slot(argument: &[u8]) -> Result<u16, Error> {
    let number = parse_i64(argument).and_then(|slot| u16::try_from(slot).ok());
    number
        .filter(|slot| *slot < SLOTS)
        .ok_or(Error::fixed("ERR Invalid or out of range slot"))
}

fn each_slot(args: Args) -> Result<Vec<u16>, Error> {
    args.skip(2).iter().map(slot).collect()
}

fn each_range(args: Args, command: &'static str) -> Result<Vec<u16>, Error> {
    if args.len() % 2 == 1 {
        return Err(Error::Arity(command.into()));
    }
    let mut slots = Vec::new();
    for at in (2..args.len()).step_by(2) {
        let (first, last) = (slot(args.at(at))?, slot(args.at(at + 1))?);
        if first > last {
            let text =
                format!("ERR start slot number {first} is greater than end slot number {last}");
            return Err(Error::Text(text.into()));
        }
        slots.extend(first..=last);
    }
    Ok(slots)
}

/// Returns the named slots as a set, if nobody owns them.
fn free_slots(table: &Nodes, named: &[u16]) -> Result<SlotSet, Error> {
    let owned = table.owned();
    let mut slots = SlotSet::default();
    for slot in named {
        let flaw = if owned.contains(*slot) {
            "is already busy"
        } else if slots.contains(*slot) {
            "specified multiple times"
        } else {
            slots.insert(*slot);
            continue;
        };
        return Err(Error::Text(format!("ERR Slot {slot} {flaw}").into()));
    }
    Ok(slots)
}

pub(super) fn set(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let cluster = node(call.shared)?;
    if cluster.read(|machine| !machine.nodes().own().is_primary()) {
        return Err(Error::fixed("ERR You can use SETSLOT only with masters."));
    }
    let slot = slot(args.at(2))?;
    let action = args.at(3).to_ascii_lowercase();
    let keys = match action.as_slice() {
        b"node" => count_keys(call.turn, slot),
        _ => 0,
    };
    call.turn.release();
    call.shared.in_cluster(cluster, |machine, now_ms| {
        let table = machine.nodes();
        let owned = table.own().slots.contains(slot);
        let target = |unknown: &str| primary(table, args.at(4), unknown);
        match (action.as_slice(), args.len()) {
            (b"migrating", 5) if !owned => {
                let text = format!("ERR I'm not the owner of hash slot {slot}");
                Err(Error::Text(text.into()))
            }
            (b"migrating", 5) => {
                let to = target("ERR I don't know about node ")?;
                machine.migrate_slot(slot, to).map_err(refused)
            }
            (b"importing", 5) if owned => {
                let text = format!("ERR I'm already the owner of hash slot {slot}");
                Err(Error::Text(text.into()))
            }
            (b"importing", 5) => {
                let from = target("ERR I don't know about node ")?;
                machine.import_slot(slot, from).map_err(refused)
            }
            (b"stable", 4) => {
                machine.keep_slot(slot);
                Ok(())
            }
            (b"node", 5) => {
                let owner = target("ERR Unknown node ")?;
                if owned && owner != table.own().id && keys > 0 {
                    let text = format!(
                        "ERR Can't assign hashslot {slot} to a different node while I still hold keys for this hash slot."
                    );
                    return Err(Error::Text(text.into()));
                }
                machine.set_slot(slot, owner, now_ms).map_err(refused)
            }
            _ => Err(Error::fixed(
                "ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP",
            )),
        }
    })?;
    reply.ok();
    Ok(())
}

/// Returns the primary that an argument names. `unknown` begins the error for an unknown node.
fn primary(
    table: &Nodes,
    argument: &[u8],
    unknown: &str,
) -> Result<punctual_cluster::NodeId, Error> {
    let node: &Node =
        find(table, argument).ok_or_else(|| Error::repeating(unknown, argument, ""))?;
    match node.is_primary() {
        true => Ok(node.id),
        false => Err(Error::fixed("ERR Target node is not a master")),
    }
}
