//! Where the commands of a slot run: here, or at another node.
//!
//! [`Routes`] is immutable; a change of the cluster publishes new ones. [`StableSlots`] has one bit
//! for each slot whose commands run here without further checks, so a command of a stable slot
//! reads one word.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_cluster::NodeId;
use punctual_cluster::nodes::Address;
use punctual_cluster::slot::{SLOTS, SlotSet};
use punctual_cluster::state::Machine;
use punctual_store::Error;
use punctual_store::planted::Bug;

use crate::config::Shown;

const NO_OWNER: u16 = u16::MAX;

/// Owners and states of all slots, as this node sees them.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    nodes: Vec<(NodeId, Address)>,
    /// Indices into `nodes`; [`NO_OWNER`] without an owner. Empty before the first view.
    owners: Vec<u16>,
    own: u16,
    /// The own primary's index, if this node is a replica.
    primary: Option<u16>,
    /// Whether the cluster can serve.
    ok: bool,
    migrating: BTreeMap<u16, u16>,
    importing: BTreeMap<u16, u16>,
    /// Slots whose commands run here without further checks.
    stable: SlotSet,
}

/// What the check of a slot must know about a command and its client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) slot: u16,
    /// Whether the command names several keys.
    pub(crate) several: bool,
    pub(crate) writes: bool,
    /// Whether the names are sharded channels.
    pub(crate) channels: bool,
    /// Whether this is MIGRATE, which runs in a slot that moves.
    pub(crate) moves: bool,
    /// The client has sent READONLY.
    pub(crate) read_only: bool,
    /// The client has sent ASKING, or the command is RESTORE-ASKING.
    pub(crate) asking: bool,
    pub(crate) reads_when_down: bool,
    pub(crate) channels_when_down: bool,
}

/// Reason for which a command does not run at this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    NoOwner,
    Down,
    DownForWrites,
    Moving,
    Ask(u16),
    Moved(u16),
}

impl Routes {
    pub(super) fn of(machine: &Machine) -> Self {
        let table = machine.nodes();
        let mut routes = Self {
            owners: vec![NO_OWNER; usize::from(SLOTS)],
            ok: machine.is_ok(),
            ..Self::default()
        };
        for node in table.iter() {
            let index = routes.nodes.len() as u16;
            if node.id == table.own().id {
                routes.own = index;
            }
            for (first, last) in node.slots.ranges() {
                routes.owners[usize::from(first)..=usize::from(last)].fill(index);
            }
            routes.nodes.push((node.id, node.address.clone()));
        }
        let index = |id: &NodeId| {
            let found = routes.nodes.iter().position(|(known, _)| known == id);
            found.map(|index| index as u16)
        };
        let moving = |slots: &BTreeMap<u16, NodeId>| {
            let known = slots
                .iter()
                .filter_map(|(slot, id)| Some((*slot, index(id)?)));
            known.collect()
        };
        let config = machine.moving_slots();
        let (migrating, importing) = (moving(config.0), moving(config.1));
        let primary = table.own().primary.as_ref().and_then(index);
        let mut stable = SlotSet::default();
        if machine.is_ok() {
            stable.add(&table.own().slots);
            config.0.keys().for_each(|slot| stable.remove(*slot));
        }
        Self {
            stable,
            migrating,
            importing,
            primary,
            ..routes
        }
    }

    /// Returns whether clients that wait, or subscribers of sharded channels, may have to leave
    /// after a change of the routes.
    pub(super) fn moves_clients_of(&self, old: &Self) -> bool {
        let arrives = |slot: &u16| self.importing.contains_key(slot);
        let serves = |routes: &Self| (routes.own, routes.primary, routes.ok);
        serves(self) != serves(old)
            || self.owners != old.owners
            || !old.importing.keys().all(arrives)
    }

    /// Decides whether a command runs here. `count` returns how many of its keys exist, and how
    /// many are missing. Follows Redis's order of the reasons.
    pub(crate) fn check(
        &self,
        request: Request,
        count: impl FnOnce() -> (usize, usize),
    ) -> Result<(), Refused> {
        let slot = request.slot;
        let owner = self.owner(slot).ok_or(Refused::NoOwner)?;
        if !self.ok {
            if request.channels {
                if !request.channels_when_down {
                    return Err(Refused::Down);
                }
            } else if !request.reads_when_down {
                return Err(Refused::Down);
            } else if request.writes {
                return Err(Refused::DownForWrites);
            }
        }
        let to = self.migrating.get(&slot).filter(|_| owner == self.own);
        let importing = self.importing.contains_key(&slot);
        if !request.channels && (to.is_some() || importing) {
            if request.moves {
                return Ok(());
            }
            let (present, missing) = count();
            if let Some(to) = to
                && missing > 0
            {
                return match present {
                    // As in Redis, a slot may leave for its own node.
                    0 if *to == self.own => Ok(()),
                    0 => Err(Refused::Ask(*to)),
                    _ => Err(Refused::Moving),
                };
            }
            if importing && (request.asking || Bug::AskingIgnored.is_active()) {
                return match request.several && missing > 0 {
                    true => Err(Refused::Moving),
                    false => Ok(()),
                };
            }
        }
        let replicates = self.primary == Some(owner);
        // As in Redis, a replica serves channels without READONLY.
        let reads = request.channels || request.read_only && !request.writes;
        if owner == self.own || replicates && reads {
            return Ok(());
        }
        Err(Refused::Moved(owner))
    }

    /// Decides whether a client goes on waiting for the keys of a slot.
    pub(crate) fn check_waiting(
        &self,
        slot: u16,
        writes: bool,
        read_only: bool,
    ) -> Result<(), Refused> {
        let request = Request {
            slot,
            several: false,
            writes,
            channels: false,
            moves: false,
            read_only,
            // A slot that arrives or leaves is still served.
            asking: true,
            reads_when_down: false,
            channels_when_down: false,
        };
        self.check(request, || (1, 0))
    }

    /// Returns whether this node's shard serves the channels of a slot.
    pub(crate) fn serves_channels(&self, slot: u16) -> bool {
        let owner = self.owner(slot);
        owner == Some(self.own) || owner.is_some() && owner == self.primary
    }

    /// Returns the error for a client.
    pub(crate) fn error(&self, refused: Refused, slot: u16, shown: Shown) -> Error {
        let redirect = |word: &str, node: u16| {
            let address = self
                .nodes
                .get(usize::from(node))
                .map(|(_, address)| address);
            let host = address.map_or("", |address| shown.endpoint.of(address));
            let port = address.map_or(0, |address| shown.port(address));
            Error::Text(format!("{word} {slot} {host}:{port}").into())
        };
        match refused {
            Refused::NoOwner => Error::fixed("CLUSTERDOWN Hash slot not served"),
            Refused::Down => Error::fixed("CLUSTERDOWN The cluster is down"),
            Refused::DownForWrites => {
                Error::fixed("CLUSTERDOWN The cluster is down and only accepts read commands")
            }
            Refused::Moving => {
                Error::fixed("TRYAGAIN Multiple keys request during rehashing of slot")
            }
            Refused::Ask(node) => redirect("ASK", node),
            Refused::Moved(node) => redirect("MOVED", node),
        }
    }

    /// Returns the slots that leave this node, and the slots that arrive.
    pub(crate) fn moving(&self) -> (impl Iterator<Item = u16>, impl Iterator<Item = u16>) {
        let slots = |moving: &BTreeMap<u16, u16>| moving.keys().copied().collect::<Vec<_>>();
        (
            slots(&self.migrating).into_iter(),
            slots(&self.importing).into_iter(),
        )
    }

    fn owner(&self, slot: u16) -> Option<u16> {
        let owner = *self.owners.get(usize::from(slot))?;
        (owner != NO_OWNER).then_some(owner)
    }
}

/// Slots whose commands run here without further checks: this node owns them, they do not move, and
/// the cluster can serve.
pub(crate) struct StableSlots([AtomicU64; SLOTS as usize / 64]);

impl Default for StableSlots {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; SLOTS as usize / 64])
    }
}

impl StableSlots {
    #[inline]
    pub(crate) fn contains(&self, slot: u16) -> bool {
        let word = self.0[usize::from(slot % SLOTS) / 64].load(Ordering::Relaxed);
        word >> (slot % 64) & 1 == 1
    }

    pub(super) fn set(&self, routes: &Routes) {
        for (word, bits) in self.0.iter().zip(routes.stable.words()) {
            word.store(*bits, Ordering::Release);
        }
    }
}
