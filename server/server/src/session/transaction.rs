//! Transactions: MULTI queues commands, EXEC runs them atomically.
//!
//! The row of a queued command says which of its arguments are keys. EXEC locks the shards of all
//! commands and watched keys, checks the watched keys, and unlocks the shards after the last
//! command. So no client sees half a transaction, even across shards. All commands run at the same
//! instant.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_resp::{Args, OwnedArgs, Reply};
use punctual_store::keyspace::watch::{WatchFlag, WatchedKey};
use punctual_store::spec::{Flags, Keys};
use punctual_store::{Error, Store, Turn};

use crate::client::registry::ClientInfo;
use crate::session::{ReplyMode, Session};
use crate::table::{Entry, Run};

/// The commands of a client between MULTI and EXEC.
#[derive(Default)]
pub struct Transaction {
    queue: Vec<Queued>,
    /// Total bytes of all arguments.
    bytes: usize,
    /// Bytes of heap memory that the arguments use.
    memory: usize,
    /// A command was rejected, so EXEC runs no command.
    refused: bool,
    /// A command may change the keyspace or publish messages.
    writes: bool,
    /// A command reads keys.
    reads: bool,
}

struct Queued {
    entry: &'static Entry,
    args: OwnedArgs,
}

impl Transaction {
    /// Returns true if a command may change the keyspace or publish messages.
    pub(crate) fn writes(&self) -> bool {
        self.writes
    }

    /// Returns true if a command reads keys, or may change the keyspace or publish messages.
    pub(crate) fn touches_data(&self) -> bool {
        self.reads || self.writes
    }

    /// Returns true if a command may change keys. O(commands).
    pub(crate) fn changes_keys(&self) -> bool {
        self.has(Flags::WRITE)
    }

    /// Returns true if a command has this flag. O(commands).
    pub(crate) fn has(&self, flag: Flags) -> bool {
        let mut queued = self.queue.iter();
        queued.any(|queued| queued.entry.row.flags.has(flag))
    }

    /// Returns true if a command lacks this flag. O(commands).
    fn lacks(&self, flag: Flags) -> bool {
        let mut queued = self.queue.iter();
        queued.any(|queued| !queued.entry.row.flags.has(flag))
    }

    /// Returns true if a command was rejected.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused
    }

    /// Returns the bytes of the queued arguments.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the commands in their order.
    pub(crate) fn commands(&self) -> impl ExactSizeIterator<Item = (&'static Entry, Args<'_>)> {
        self.queue.iter().map(|q| (q.entry, q.args.as_args()))
    }

    /// Locks the shards of all commands and watched keys until [`Turn::unpin`].
    pub(crate) fn pin(&self, turn: &mut Turn, watched: &BTreeSet<WatchedKey>) {
        let store = turn.store;
        if store.shards() == 1 || self.queue.iter().any(Queued::needs_everything) {
            return turn.pin(None);
        }
        let mut shards: Vec<usize> = watched.iter().map(|(_, key)| store.shard_of(key)).collect();
        for queued in &self.queue {
            queued.add_shards(store, &mut shards);
        }
        turn.pin(Some(shards));
    }
}

impl Queued {
    fn needs_everything(&self) -> bool {
        needs_everything(self.entry, self.args.as_args())
    }

    fn add_shards(&self, store: &Store, shards: &mut Vec<usize>) {
        add_shards(self.entry, self.args.as_args(), store, shards);
    }
}

/// Returns true if a command may access keys that its arguments do not name.
fn needs_everything(entry: &Entry, args: Args) -> bool {
    match entry.run {
        Run::Keyspace(command) => {
            command.reaches_unnamed(args) || matches!(command.keys, Keys::None)
        }
        Run::Server(_) => !entry.row.flags.has(Flags::KEYLESS),
        Run::Container => false,
    }
}

fn add_shards(entry: &Entry, args: Args, store: &Store, shards: &mut Vec<usize>) {
    if let Run::Keyspace(command) = entry.run {
        command.keys.each(args, &mut |at| {
            shards.extend(args.get(at).map(|key| store.shard_of(key)));
        });
    }
}

/// Locks the shards of a timer and of the timer's command.
pub(crate) fn pin_for_timer(turn: &mut Turn, timer: &[u8], entry: &Entry, args: Args) {
    let store = turn.store;
    if store.shards() == 1 || needs_everything(entry, args) {
        return turn.pin(None);
    }
    let mut shards = vec![store.shard_of(timer)];
    add_shards(entry, args, store, &mut shards);
    turn.pin(Some(shards));
}

/// Error of EXEC after a queued command was rejected.
pub(crate) const ABORTED: Error =
    Error::fixed("EXECABORT Transaction discarded because of previous errors.");

/// First words of the errors by which a node of a cluster does not serve a command's keys.
const UNSERVED: [&[u8]; 5] = [
    b"MOVED ",
    b"ASK ",
    b"TRYAGAIN ",
    b"CROSSSLOT ",
    b"CLUSTERDOWN ",
];

/// Returns the error for an EXEC that is itself rejected. As in Redis, the reply to an EXEC that
/// another node must run is the redirection itself.
pub(crate) fn aborted_by(error: &Error) -> Error {
    let text = error.bytes();
    if UNSERVED.iter().any(|word| text.starts_with(word)) {
        return error.clone();
    }
    let text = text.strip_prefix(b"ERR ").unwrap_or(&text);
    Error::Bytes(
        [b"EXECABORT Transaction discarded because of: ", text]
            .concat()
            .into(),
    )
}

impl Session {
    /// Returns the open transaction if `entry` runs it, as EXEC does.
    pub(crate) fn executed_by(&self, entry: &Entry) -> Option<&Transaction> {
        let executes = entry.row.flags.has(Flags::EXECUTES);
        self.multi.as_deref().filter(|_| executes)
    }

    /// Returns true if the command runs scripts, either itself or in the transaction that it runs.
    /// O(commands).
    pub(crate) fn runs_scripts(&self, entry: &Entry) -> bool {
        entry.row.flags.has(Flags::RUNS_SCRIPTS)
            || self
                .executed_by(entry)
                .is_some_and(|queued| queued.has(Flags::RUNS_SCRIPTS))
    }

    /// Returns true if the command lacks this flag, or runs a transaction with a command that lacks
    /// it. O(commands).
    pub(crate) fn lacks(&self, entry: &Entry, flag: Flags) -> bool {
        !entry.row.flags.has(flag)
            || self
                .executed_by(entry)
                .is_some_and(|queued| queued.lacks(flag))
    }

    /// Begins a transaction; `None` ends the open one.
    pub(crate) fn set_multi(&mut self, transaction: Option<Box<Transaction>>) {
        self.multi = transaction;
        self.update_multi_info();
    }

    /// Queues a command, unless EXEC is already certain to fail.
    pub(crate) fn queue(&mut self, entry: &'static Entry, args: Args, writes: bool) {
        let will_abort = !self.stale_watches && self.watch_flag().is_some_and(WatchFlag::is_raised);
        let Some(transaction) = &mut self.multi else {
            return;
        };
        if !transaction.refused && !will_abort {
            let args = OwnedArgs::from(args);
            transaction.bytes += args.as_args().iter().map(<[u8]>::len).sum::<usize>();
            transaction.memory += args.memory();
            transaction.writes |= writes;
            transaction.reads |= entry.row.flags.has(Flags::READONLY);
            transaction.queue.push(Queued { entry, args });
            self.update_multi_info();
        }
    }

    /// Makes EXEC fail because a command of the open transaction was rejected.
    pub(crate) fn refuse_transaction(&mut self) {
        if let Some(transaction) = &mut self.multi {
            transaction.refused = true;
        }
    }

    /// Copies the size of the queue to [`ClientInfo`].
    fn update_multi_info(&self) {
        let (count, bytes) = match &self.multi {
            None => (-1, 0),
            Some(transaction) => (transaction.queue.len() as i64, transaction.memory),
        };
        self.info.multi.store(count, Ordering::Relaxed);
        self.info.multi_bytes.store(bytes as u64, Ordering::Relaxed);
    }

    /// Returns the flag that a change of a watched key raises, if the client has ever sent WATCH.
    pub(crate) fn watch_flag(&self) -> Option<&WatchFlag> {
        self.info.watch.get().map(|flag| &**flag)
    }

    /// Watches keys of the selected database.
    pub(crate) fn watch<'k>(&mut self, turn: &mut Turn, keys: impl Iterator<Item = &'k [u8]>) {
        self.end_stale_watches(turn);
        let ClientInfo { id, watch, .. } = &*self.info;
        let flag = watch.get_or_init(|| Arc::new(WatchFlag::new(*id)));
        if flag.is_raised() {
            return;
        }
        let mut new: Vec<&[u8]> = Vec::new();
        let mut bytes = 0;
        for key in keys {
            if self.watched.insert((self.db, key.into())) {
                new.push(key);
                bytes += size_of::<WatchedKey>() + key.len();
            }
        }
        self.info
            .watched_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
        turn.watch(self.db, new.iter().copied(), flag);
    }

    /// Removes the watches that ended while a script had locked their shards.
    pub(crate) fn end_stale_watches(&mut self, turn: &mut Turn) {
        if std::mem::take(&mut self.stale_watches) {
            self.unwatch(turn);
        }
    }

    /// Removes all watches and lowers the flag. If the turn may not lock shards, the removal is put
    /// off.
    pub(crate) fn unwatch(&mut self, turn: &mut Turn) {
        if !turn.may_lock {
            self.stale_watches = !self.watched.is_empty();
            return;
        }
        if let Some(flag) = self.info.watch.get() {
            turn.unwatch(self.watched.iter(), flag);
            self.watched = BTreeSet::new();
            self.info.watched_bytes.store(0, Ordering::Relaxed);
        }
    }

    /// Ends the transaction and removes all watches.
    pub(crate) fn discard(&mut self, turn: &mut Turn) {
        self.set_multi(None);
        self.unwatch(turn);
    }
}

/// Returns true if CLIENT REPLY suppresses a queued command's reply. As in Redis, the header of
/// EXEC's reply still counts it.
pub(crate) fn is_unwanted_queued_reply(session: &mut Session) -> bool {
    let ignore_reply_mode = std::mem::take(&mut session.ignore_reply_mode);
    matches!(session.reply_mode, ReplyMode::Off | ReplyMode::SkipNext) && !ignore_reply_mode
}

/// Writes the header of EXEC's reply.
pub(crate) fn write_reply_header(session: &Session, count: usize, out: &mut Vec<u8>) {
    if matches!(session.reply_mode, ReplyMode::On) {
        Reply::new(out, session.protocol).array(count);
    }
}
