//! The check of a command's slot in cluster mode: all keys have one slot, which this node serves.
//!
//! With several loops, the slot may leave between the check and the command. Invariant: **a command
//! runs only if its slot was checked under the lock of the slot's shard, and the shard stays locked
//! until the command has run.** So admission's check, which holds no lock, only orders the errors,
//! and the check is repeated under the lock ([`Dispatcher::misplaced_meanwhile`]). A command that
//! takes a slot away publishes the new routes and then locks the shard, or holds the lock
//! meanwhile: SETSLOT NODE holds it while it counts the keys and publishes; MIGRATE deletes keys,
//! and loop 0 deletes the keys of a lost slot, under it. Each of them sees the writes of all
//! commands that ran under the old routes, and no such command runs later. With one loop, commands
//! and changes of routes take turns anyway.

use punctual_cluster::slot;
use punctual_resp::Args;
use punctual_store::spec::{Flags, Group};
use punctual_store::{Error, Source, Turn};

use super::{Dispatcher, Flow};
use crate::cluster::Cluster;
use crate::cluster::routes::{Refused, Request, Routes};
use crate::cluster::usage::{SlotUsage, Used};
use crate::config::Shown;
use crate::session::Session;
use crate::session::transaction::Transaction;
use crate::table::{Entry, Run};

const CROSS_SLOT: Error = Error::fixed("CROSSSLOT Keys in request don't hash to the same slot");

/// The slots of the keys of one command, or of all commands of a transaction.
#[derive(Default)]
struct Slots {
    /// The first key's slot.
    first: Option<u16>,
    keys: usize,
    /// Whether another key has another slot.
    differ: bool,
}

impl Slots {
    #[inline]
    fn add(&mut self, turn: &Turn, entry: &Entry, args: Args) {
        // The stream that NOTIFY SET names stands for the streams of all slots.
        if entry.row.flags.has(Flags::WHOLE) {
            return;
        }
        entry.row.keys.each(args, &mut |at| {
            let slot = turn.slot_of(args.at(at));
            self.keys += 1;
            self.differ |= *self.first.get_or_insert(slot) != slot;
        });
    }

    fn of(turn: &Turn, checked: Checked) -> Self {
        let mut slots = Self::default();
        checked.each(|entry, args| slots.add(turn, entry, args));
        slots
    }
}

/// A command whose keys are checked: its own ones, or those of the transaction that it executes.
#[derive(Clone, Copy)]
struct Checked<'c> {
    entry: &'c Entry,
    args: Args<'c>,
    transaction: Option<&'c Transaction>,
}

impl<'c> Checked<'c> {
    fn new(session: &'c Session, entry: &'c Entry, args: Args<'c>) -> Self {
        Self {
            entry,
            args,
            transaction: session.executed_by(entry),
        }
    }

    fn each(self, mut visit: impl FnMut(&Entry, Args)) {
        match self.transaction {
            Some(transaction) => transaction
                .commands()
                .for_each(|(entry, args)| visit(entry, args)),
            None => visit(self.entry, self.args),
        }
    }
}

/// Checks that all keys of a command have the slot of `key`.
///
/// # Errors
/// Returns the error to reply.
pub(super) fn entry_has_slot_of(
    turn: &Turn,
    key: &[u8],
    entry: &Entry,
    args: Args,
) -> Result<(), Error> {
    let mut slots = Slots {
        first: Some(slot::of_key(key)),
        ..Slots::default()
    };
    slots.add(turn, entry, args);
    if slots.differ {
        Err(CROSS_SLOT)
    } else {
        Ok(())
    }
}

/// Returns the number of bytes of a command in RESP.
fn bytes_of(args: Args) -> u64 {
    let digits = |number: usize| u64::from(number.checked_ilog10().unwrap_or(0)) + 1;
    let words = args.iter().map(|word| {
        // `$`, the length, the word, and two line ends.
        5 + digits(word.len()) + word.len() as u64
    });
    3 + digits(args.len()) + words.sum::<u64>()
}

/// Bytes of MULTI in RESP, which count for the transaction's slot.
const MULTI_BYTES: u64 = 15;

impl Dispatcher<'_, '_> {
    /// Same as [`Dispatcher::run_entry`], and counts CPU time and traffic for the slot of the keys.
    /// A command that is refused does not count. A transaction's queued commands count when they
    /// are queued, as in Redis.
    #[cold]
    #[inline(never)]
    pub(super) fn run_counted(
        &mut self,
        usage: &SlotUsage,
        session: &mut Session,
        entry: &'static Entry,
        args: Args,
        out: &mut Vec<u8>,
    ) -> Flow {
        let executes = session.executed_by(entry).is_some();
        let is_queued = session.multi.is_some() && !executes;
        let (began, start) = (self.command_start, self.output_len(out));
        let flow = self.run_entry(session, entry, args, out);
        // Each command that runs or is queued moves `command_start`. Its admission noted the slot.
        if let Some(slot) = self.slot
            && self.command_start != began
        {
            let multi = if executes { MULTI_BYTES } else { 0 };
            let written = self.output_len(out).saturating_sub(start) as u64;
            let nanos = self.clock.delta_as_nanos(began, self.command_start);
            let used = Used {
                nanos: if is_queued { 0 } else { nanos },
                bytes_in: bytes_of(args) + multi,
                bytes_out: if is_queued { 0 } else { written },
            };
            usage.add(slot, used);
        }
        flow
    }

    /// Returns whether a command has one key whose slot this node serves without further checks.
    #[inline]
    pub(super) fn has_stable_slot(
        &mut self,
        source: Source,
        cluster: &Cluster,
        entry: &Entry,
        args: Args,
    ) -> bool {
        if entry.slot_key == 0 {
            return false;
        }
        let Some(key) = args.get(entry.slot_key) else {
            return false;
        };
        // A client's arguments stay where they are until the end of the pipeline.
        let slot = match source {
            Source::Client => self.turn.slot_of_next(key),
            _ => self.turn.slot_of(key),
        };
        self.slot = Some(slot);
        cluster.stable.contains(slot)
    }

    /// Returns the error for a command of a client or a timer that does not run at this node.
    #[inline(never)]
    pub(super) fn misplaced(
        &mut self,
        cluster: &Cluster,
        session: &Session,
        entry: &Entry,
        args: Args,
    ) -> Option<Error> {
        self.misplaced_command(cluster, session, Checked::new(session, entry, args))
    }

    fn misplaced_command(
        &mut self,
        cluster: &Cluster,
        session: &Session,
        checked: Checked,
    ) -> Option<Error> {
        let entry = checked.entry;
        if entry.row.flags.has(Flags::NO_CLUSTER) {
            let name = entry.name.to_ascii_uppercase();
            let text = format!("ERR {name} is not allowed in cluster mode");
            return Some(Error::Text(text.into()));
        }
        let slots = Slots::of(self.turn, checked);
        self.slot = slots.first;
        let slot = slots.first?;
        if cluster.stable.contains(slot) && !slots.differ {
            return None;
        }
        let shown = Shown::to_client(&self.shared.settings(), session.info.tls);
        let routes = cluster.routes();
        let refused = self.refused(&routes, session, checked, &slots);
        if slots.differ && refused != Some(Refused::NoOwner) {
            return Some(CROSS_SLOT);
        }
        refused.map(|refused| routes.error(refused, slot, shown))
    }

    /// Locks the slot of an admitted command, and returns the error if the command may not run here
    /// any more. The command then runs without the release of the lock. EXEC is checked when all of
    /// its shards are locked ([`Dispatcher::misplaced_transaction`]).
    pub(super) fn misplaced_meanwhile(
        &mut self,
        session: &Session,
        entry: &Entry,
        args: Args,
    ) -> Option<Error> {
        // A channel has no keys. A loop follows new routes between two commands.
        let shared = self.shared;
        let (cluster, slot) = (shared.cluster.as_ref()?, self.slot?);
        if entry.row.flags.has(Flags::EXECUTES) || entry.row.group == Group::Pubsub {
            return None;
        }
        match entry.run {
            Run::Keyspace(command) if command.reaches_unnamed(args) => self.turn.lock_all(),
            _ => self.turn.lock_slot(slot),
        }
        if cluster.stable.contains(slot) {
            return None;
        }
        self.misplaced(cluster, session, entry, args)
    }

    /// Returns the error for a transaction whose slot has left since EXEC was admitted. All of its
    /// shards are locked.
    pub(super) fn misplaced_transaction(
        &mut self,
        session: &Session,
        exec: &Entry,
        args: Args,
        transaction: &Transaction,
    ) -> Option<Error> {
        let shared = self.shared;
        let (cluster, slot) = (shared.cluster.as_ref()?, self.slot?);
        if shared.mailboxes.len() == 1 || cluster.stable.contains(slot) {
            return None;
        }
        let checked = Checked {
            entry: exec,
            args,
            transaction: Some(transaction),
        };
        self.misplaced_command(cluster, session, checked)
    }

    #[cold]
    fn refused(
        &mut self,
        routes: &Routes,
        session: &Session,
        checked: Checked,
        slots: &Slots,
    ) -> Option<Refused> {
        let flags = checked.entry.row.flags;
        let settings = self.shared.settings();
        let request = Request {
            slot: slots.first?,
            several: slots.keys > 1,
            writes: match checked.transaction {
                Some(transaction) => transaction.writes(),
                None => self.may_write(checked.entry, checked.args),
            },
            channels: checked.entry.row.group == Group::Pubsub,
            moves: flags.has(Flags::MIGRATES),
            read_only: session.reads_replica,
            asking: session.asking > 0 || flags.has(Flags::ASKING),
            reads_when_down: settings.cluster.reads_when_down,
            channels_when_down: settings.cluster.channels_when_down,
        };
        routes
            .check(request, || self.count_keys(session, checked))
            .err()
    }

    /// Returns the number of a command's keys that exist, and the number of missing ones.
    fn count_keys(&mut self, session: &Session, checked: Checked) -> (usize, usize) {
        let (mut present, mut missing) = (0, 0);
        checked.each(|entry, args| {
            entry.row.keys.each(
                args,
                &mut |at| match self.turn.has_key(session.db, args.at(at)) {
                    true => present += 1,
                    false => missing += 1,
                },
            );
        });
        (present, missing)
    }

    /// Returns the error for a script's command whose keys this node does not serve, or have
    /// another slot than the script's other keys.
    #[cold]
    pub(super) fn misplaced_in_script(
        &mut self,
        cluster: &Cluster,
        session: &Session,
        entry: &Entry,
        args: Args,
    ) -> Option<Error> {
        let checked = Checked::new(session, entry, args);
        let slots = Slots::of(self.turn, checked);
        let slot = slots.first?;
        let of_script = *self.script.slot.get_or_insert(slot);
        if slots.differ {
            let text = format!(
                "ERR Command '{}' in script attempted to access keys that don't hash to the same slot",
                entry.name
            );
            return Some(Error::Text(text.into()));
        }
        if !self.script.crosses_slots && slot != of_script {
            return Some(Error::fixed(
                "ERR Script attempted to access keys that do not hash to the same slot",
            ));
        }
        if self.shared.mailboxes.len() > 1 {
            // The script keeps the shard until it ends.
            self.turn.lock_slot(slot);
        }
        let refused = match cluster.stable.contains(slot) {
            true => None,
            false => self.refused(&cluster.routes(), session, checked, &slots),
        };
        let text = match refused? {
            Refused::DownForWrites => {
                "ERR Script attempted to execute a write command while the cluster is down and readonly"
            }
            Refused::Down | Refused::NoOwner => {
                "ERR Script attempted to execute a command while the cluster is down"
            }
            _ => "ERR Script attempted to access a non local key in a cluster node",
        };
        Some(Error::fixed(text))
    }
}
