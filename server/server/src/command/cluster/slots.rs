//! CLUSTER subcommands that change the owners of slots: ADDSLOTS, DELSLOTS, both with RANGE,
//! FLUSHSLOTS and SETSLOT.

use punctual_cluster::NodeId;
use punctual_cluster::nodes::Nodes;
use punctual_cluster::slot::SlotSet;
use punctual_resp::{Args, Reply};
use punctual_store::Error;

use super::arguments::{find, node, range, refused, slot};
use super::keys::has_keys;
use super::saved::reply_when_saved;
use crate::node::call::Call;

/// What happens to the named slots.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Add,
    Remove,
}

/// The slots that the arguments name, checked one after the other.
struct Named {
    owned: SlotSet,
    change: Change,
    slots: SlotSet,
}

impl Named {
    fn new(table: &Nodes, change: Change) -> Self {
        Self {
            owned: table.owned(),
            change,
            slots: SlotSet::default(),
        }
    }

    fn add(&mut self, slot: u16) -> Result<(), Error> {
        let flaw = match self.change {
            Change::Remove if !self.owned.contains(slot) => "is already unassigned",
            Change::Add if self.owned.contains(slot) => "is already busy",
            _ if self.slots.contains(slot) => "specified multiple times",
            _ => {
                self.slots.insert(slot);
                return Ok(());
            }
        };
        Err(Error::Text(format!("ERR Slot {slot} {flaw}").into()))
    }
}

pub(super) fn add(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    change_slots(call, args, Change::Add, reply)
}

pub(super) fn remove(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    change_slots(call, args, Change::Remove, reply)
}

pub(super) fn add_ranges(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    change_ranges(call, args, Change::Add, reply)
}

pub(super) fn remove_ranges(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    change_ranges(call, args, Change::Remove, reply)
}

fn change_slots(
    call: &mut Call,
    args: Args,
    change: Change,
    reply: &mut Reply,
) -> Result<(), Error> {
    node(call.shared)?;
    let all: Result<Vec<u16>, Error> = args.skip(2).iter().map(slot).collect();
    let all = all?;
    assign(call, change, reply, |named| {
        all.iter().try_for_each(|slot| named.add(*slot))
    })
}

fn change_ranges(
    call: &mut Call,
    args: Args,
    change: Change,
    reply: &mut Reply,
) -> Result<(), Error> {
    node(call.shared)?;
    if args.len() % 2 == 1 {
        return Err(Error::Arity(match change {
            Change::Add => "cluster|addslotsrange".into(),
            Change::Remove => "cluster|delslotsrange".into(),
        }));
    }
    assign(call, change, reply, |named| {
        for at in (2..args.len()).step_by(2) {
            let (first, last) = range(args.at(at), args.at(at + 1), "start")?;
            (first..=last).try_for_each(|slot| named.add(slot))?;
        }
        Ok(())
    })
}

/// Adds or removes the slots that `name` collects.
fn assign(
    call: &mut Call,
    change: Change,
    reply: &mut Reply,
    name: impl FnOnce(&mut Named) -> Result<(), Error>,
) -> Result<(), Error> {
    let cluster = node(call.shared)?;
    call.turn.release();
    call.shared.in_cluster(cluster, |machine, now_ms| {
        let mut named = Named::new(machine.nodes(), change);
        name(&mut named)?;
        let changed = match change {
            Change::Add => machine.add_slots(&named.slots, now_ms),
            Change::Remove => machine.remove_slots(&named.slots, now_ms),
        };
        changed.map_err(refused)
    })?;
    reply_when_saved(call, "OK", reply)
}

pub(super) fn flush(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let cluster = node(call.shared)?;
    if has_keys(call.turn) {
        return Err(Error::fixed(
            "ERR DB must be empty to perform CLUSTER FLUSHSLOTS.",
        ));
    }
    // The shards stay locked, so that no key is added meanwhile.
    call.shared
        .in_cluster(cluster, |machine, now_ms| machine.flush_slots(now_ms));
    reply_when_saved(call, "OK", reply)
}

/// An action of CLUSTER SETSLOT with its valid number of arguments.
enum Action {
    Migrate,
    Import,
    Keep,
    Assign,
}

impl Action {
    fn of(args: Args) -> Result<Self, Error> {
        Ok(
            match (args.at(3).to_ascii_lowercase().as_slice(), args.len()) {
                (b"migrating", 5) => Self::Migrate,
                (b"importing", 5) => Self::Import,
                (b"stable", 4) => Self::Keep,
                (b"node", 5) => Self::Assign,
                _ => {
                    return Err(Error::fixed(
                        "ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP",
                    ));
                }
            },
        )
    }
}

pub(super) fn set(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let cluster = node(call.shared)?;
    if cluster.read(|machine| !machine.nodes().own().is_primary()) {
        return Err(Error::fixed("ERR Please use SETSLOT only with masters."));
    }
    let slot = slot(args.at(2))?;
    let action = Action::of(args)?;
    // The slot's shard stays locked until it has its owner, so that no key is added meanwhile.
    let keys = match action {
        Action::Assign => call.turn.count_keys_in_slot(slot),
        _ => 0,
    };
    call.shared.in_cluster(cluster, |machine, now_ms| {
        let table = machine.nodes();
        let owned = table.own().slots.contains(slot);
        let flaw = |text: String| Err(Error::Text(format!("ERR {text}").into()));
        match action {
            Action::Migrate if !owned => flaw(format!("I'm not the owner of hash slot {slot}")),
            Action::Migrate => {
                let to = primary(table, args.at(4), "ERR I don't know about node ")?;
                machine.migrate_slot(slot, to).map_err(refused)
            }
            Action::Import if owned => {
                flaw(format!("I'm already the owner of hash slot {slot}"))
            }
            Action::Import => {
                let from = primary(table, args.at(4), "ERR I don't know about node ")?;
                machine.import_slot(slot, from).map_err(refused)
            }
            Action::Keep => {
                machine.keep_slot(slot);
                Ok(())
            }
            Action::Assign => {
                let owner = primary(table, args.at(4), "ERR Unknown node ")?;
                if owned && owner != table.own().id && keys > 0 {
                    return flaw(format!(
                        "Can't assign hashslot {slot} to a different node while I still hold keys for this hash slot."
                    ));
                }
                let set = machine.set_slot(slot, owner, keys == 0, now_ms);
                set.map_err(refused)
            }
        }
    })?;
    reply_when_saved(call, "OK", reply)
}

/// Returns the primary that an argument names. `unknown` begins the error for an unknown node.
fn primary(table: &Nodes, argument: &[u8], unknown: &str) -> Result<NodeId, Error> {
    let node = find(table, argument).ok_or_else(|| Error::repeating(unknown, argument, ""))?;
    match node.is_primary() {
        true => Ok(node.id),
        false => Err(Error::fixed("ERR Target node is not a master")),
    }
}
