//! The operator that moves slots, in the order that Redis's tools use: SETSLOT IMPORTING at the
//! new owner, SETSLOT MIGRATING at the old one, MIGRATE until the slot is empty, SETSLOT NODE at
//! the new owner and then at the old one.

use punctual_resp::Value;

use super::errand::{Errand, Heard};
use super::watch::Watch;
use crate::clients::PORT;
use crate::kernel::draws::Draws;
use crate::kernel::network::Address;
use crate::kernel::streams::EndId;
use crate::kernel::{MILLI, Nanos, NodeId, SECOND};
use crate::{verdict, world};

/// Time after which a move is given up.
const MOVE: Nanos = 20 * SECOND;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Import,
    Migrate,
    List,
    Send(Vec<String>),
    AssignAtNew,
    AssignAtOld,
}

/// A slot that moves.
#[derive(Clone, Debug)]
pub struct Move {
    pub slot: u16,
    pub from: NodeId,
    pub to: NodeId,
    step: Step,
    /// Number of keys of the next list.
    batch: usize,
    /// Replaces keys that the new owner has already: copies of a transfer without a reply.
    replaces: bool,
    until: Nanos,
    has_ended: bool,
    /// Time between two steps.
    pause: Nanos,
    /// A failure has met the move.
    pub is_doubtful: bool,
}

#[derive(Default)]
pub struct Mover {
    pub now: Option<Move>,
    errand: Errand,
    /// Slots whose move was given up.
    pub open: Vec<u16>,
    pub done: u64,
}

/// Progress of the move.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// Call [`Mover::act`] at this time.
    At(Nanos),
    Ended(u16),
    GivenUp(u16),
}

impl Mover {
    /// Begins to move one of these slots. Returns false if it cannot be moved.
    pub fn begin(&mut self, slots: &[u16], watch: &Watch, draws: &mut Draws) -> bool {
        let slot = slots[draws.index(slots.len())];
        let Some(from) = watch.owner(slot) else {
            return false;
        };
        let others: Vec<NodeId> = watch
            .owners()
            .into_iter()
            .filter(|to| *to != from && !watch.has_foreign_keys(*to))
            .collect();
        if others.is_empty() || self.open.contains(&slot) {
            return false;
        }
        self.now = Some(Move {
            slot,
            from,
            to: others[draws.index(others.len())],
            step: Step::Import,
            batch: 3,
            replaces: false,
            until: world::now() + MOVE,
            has_ended: false,
            pause: draws.one_of(&[0, 10 * MILLI, 200 * MILLI]),
            is_doubtful: false,
        });
        self.errand.lose();
        true
    }

    /// Returns the node that is being told that it owns a slot.
    pub fn named_now(&self) -> Option<NodeId> {
        let named = |moving: &&Move| matches!(moving.step, Step::AssignAtNew | Step::AssignAtOld);
        self.now.as_ref().filter(named).map(|moving| moving.to)
    }

    /// Returns whether a node is being told that it owns a slot.
    pub fn names(&self, slot: u16, node: NodeId) -> bool {
        let moves = self.now.as_ref().is_some_and(|moving| moving.slot == slot);
        moves && self.named_now() == Some(node)
    }

    pub fn owns(&self, end: EndId) -> bool {
        self.errand.owns(end)
    }

    /// Does the next thing. `names` are the IDs of the nodes.
    pub fn act(&mut self, names: &[String]) -> Progress {
        let now = world::now();
        let Some(moving) = &mut self.now else {
            return Progress::At(now + SECOND);
        };
        if now >= moving.until || moving.is_doubtful {
            let slot = moving.slot;
            self.open.push(slot);
            self.now = None;
            self.errand.lose();
            return Progress::GivenUp(slot);
        }
        if let Some(until) = self.errand.waits() {
            if now < until {
                return Progress::At(until);
            }
            self.errand.lose();
        }
        let at_new = matches!(moving.step, Step::Import | Step::AssignAtNew);
        let node = if at_new { moving.to } else { moving.from };
        if matches!(moving.step, Step::Send(_)) && moving.replaces {
            // A copy that is still on its way must not replace a later one.
            let (node, port) = (moving.to, PORT);
            let to = Address { node, port };
            if world::with(|kernel| kernel.has_remains(moving.from, to)) {
                return Progress::At(now + 100 * MILLI);
            }
        }
        Progress::At(self.errand.send(node, &moving.line(names)))
    }

    /// Handles a change of the connection. Returns the progress of the move.
    pub fn changed(&mut self, watch: &mut Watch) -> Progress {
        let now = world::now();
        let soon = Progress::At(now + 20 * MILLI);
        let reply = match self.errand.hear() {
            Heard::Reply(reply) => reply,
            Heard::Connected => return Progress::At(now),
            Heard::Lost => {
                self.errand.lose();
                return soon;
            }
            Heard::Nothing => return Progress::At(self.errand.until),
        };
        let Some(moving) = &mut self.now else {
            return Progress::At(now + SECOND);
        };
        let tell = || format!("move {moving:?}: {reply:.300?}");
        world::with(|kernel| kernel.trace.tell(tell));
        moving.replied(&reply);
        let (slot, to, pause) = (moving.slot, moving.to, moving.pause);
        if moving.step == Step::AssignAtOld {
            watch.named.insert(slot, to);
        }
        if moving.has_ended {
            self.now = None;
            self.done += 1;
            self.errand.lose();
            return Progress::Ended(slot);
        }
        match reply {
            Value::Error(_) => soon,
            _ => Progress::At(now + pause),
        }
    }
}

impl Move {
    /// Returns the command of the present step.
    fn line(&self, names: &[String]) -> Vec<String> {
        let slot = self.slot.to_string();
        let set_slot = |words: [&str; 2]| -> Vec<String> {
            let line = ["CLUSTER", "SETSLOT", &slot, words[0], words[1]];
            line.map(str::to_owned).to_vec()
        };
        match &self.step {
            Step::Import => set_slot(["IMPORTING", &names[self.from]]),
            Step::Migrate => set_slot(["MIGRATING", &names[self.to]]),
            Step::AssignAtNew | Step::AssignAtOld => set_slot(["NODE", &names[self.to]]),
            Step::List => {
                let line = ["CLUSTER", "GETKEYSINSLOT", &slot, &self.batch.to_string()];
                line.map(str::to_owned).to_vec()
            }
            Step::Send(keys) => {
                let (host, port) = (format!("10.0.0.{}", self.to), PORT.to_string());
                let line = ["MIGRATE", &host, &port, "", "0", "1000"];
                let mut line = line.map(str::to_owned).to_vec();
                if self.replaces {
                    line.push("REPLACE".into());
                }
                line.push("KEYS".into());
                line.extend_from_slice(keys);
                line
            }
        }
    }

    /// Handles the reply to the present step.
    fn replied(&mut self, reply: &Value) {
        if let Value::Error(text) = reply {
            let text = String::from_utf8_lossy(text);
            let known = [
                "ERR Can't assign hashslot",
                "ERR Target instance replied with error: ",
                "ERR I'm not the owner",
                "ERR I'm already the owner",
                "ERR Please use SETSLOT only with masters",
                "ERR Target node is not a master",
                "ERR I don't know about node",
                "ERR Unknown node",
                "IOERR ",
                "READONLY ",
                "UNBLOCKED ",
                "MOVED ",
                "LOADING ",
                "CLUSTERDOWN ",
                "MISCONF ",
                "TRYAGAIN ",
            ];
            if !known.iter().any(|known| text.starts_with(known)) {
                verdict::stop(&format!("an unexpected error in {:?}: {text}", self.step));
            }
            self.replaces |= text.starts_with("IOERR") || text.contains("BUSYKEY");
            if matches!(self.step, Step::Send(_)) || text.starts_with("ERR Can't assign") {
                self.step = Step::List;
            }
            return;
        }
        self.step = match std::mem::replace(&mut self.step, Step::List) {
            Step::Import => Step::Migrate,
            Step::Migrate | Step::Send(_) => Step::List,
            Step::AssignAtNew => Step::AssignAtOld,
            Step::AssignAtOld => {
                self.has_ended = true;
                Step::AssignAtOld
            }
            Step::List => {
                let Value::Array(keys) = reply else {
                    verdict::stop(&format!("GETKEYSINSLOT: {reply:.100?}"));
                };
                self.batch = (2 * self.batch).min(1_000);
                let name = |key: &Value| match key {
                    Value::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                    other => verdict::stop(&format!("GETKEYSINSLOT: {other:.100?}")),
                };
                match keys.is_empty() {
                    true => Step::AssignAtNew,
                    false => Step::Send(keys.iter().map(name).collect()),
                }
            }
        };
    }
}
