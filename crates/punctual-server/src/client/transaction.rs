//! MULTI to EXEC: commands that are queued, and then run with nobody between them.
//!
//! What a queued command needs of the keyspace is known before it runs, from its row. EXEC locks all of it at once,
//! looks whether a watched key has changed, and lets go when the last command is done; so nobody sees half a
//! transaction, in whatever shards its keys lie. The instant stands still meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_resp::{Args, OwnedArgs, Reply};
use punctual_store::keyspace::watch::{WatchFlag, WatchedKey};
use punctual_store::spec::{Flags, Keys};
use punctual_store::{Error, Store, Turn};

use crate::client::registry::ClientInfo;
use crate::client::session::{ReplyMode, Session};
use crate::dispatch::table::{Entry, Run};

/// The commands of a client between MULTI and EXEC.
#[derive(Default)]
pub struct Transaction {
    queue: Vec<Queued>,
    /// Bytes of all arguments.
    bytes: usize,
    /// Bytes that the arguments take on the heap.
    memory: usize,
    /// A command was refused: EXEC runs none.
    refused: bool,
    /// One of them may change the keyspace or what others see of it.
    writes: bool,
    /// One of them reads keys.
    reads: bool,
}

struct Queued {
    entry: &'static Entry,
    args: OwnedArgs,
}

/// Bytes of a queued command besides its arguments.
pub(crate) const QUEUED_BYTES: usize = size_of::<Queued>();

impl Transaction {
    /// Whether a command changes what others see.
    pub(crate) fn writes(&self) -> bool {
        self.writes
    }

    /// Whether a command reads or changes keys.
    pub(crate) fn touches_data(&self) -> bool {
        self.reads || self.writes
    }

    /// Whether a command may change keys. O(commands).
    pub(crate) fn changes_keys(&self) -> bool {
        let mut queued = self.queue.iter();
        queued.any(|queued| queued.entry.row.flags.has(Flags::WRITE))
    }

    /// Whether a command was refused.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused
    }

    /// Bytes of the queued arguments.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The commands in their order.
    pub(crate) fn commands(&self) -> impl ExactSizeIterator<Item = (&'static Entry, Args<'_>)> {
        self.queue.iter().map(|q| (q.entry, q.args.as_args()))
    }

    /// Locks what all commands need, and the watched keys.
    pub(crate) fn pin(&self, turn: &mut Turn<'_>, watched: &BTreeSet<WatchedKey>) {
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
    /// Whether the command may reach keys that it does not name.
    fn needs_everything(&self) -> bool {
        match self.entry.run {
            Run::Keyspace(command) => {
                command.reaches_unnamed(self.args.as_args()) || matches!(command.keys, Keys::None)
            }
            Run::Server(_) => !self.entry.row.flags.has(Flags::KEYLESS),
            Run::Container => false,
        }
    }

    fn add_shards(&self, store: &Store, shards: &mut Vec<usize>) {
        if let Run::Keyspace(command) = self.entry.run {
            let args = self.args.as_args();
            command.keys.each(args, &mut |at| {
                shards.extend(args.get(at).map(|key| store.shard_of(key)));
            });
        }
    }
}

/// What EXEC answers when a command before it was refused.
pub(crate) const ABORTED: Error =
    Error::fixed("EXECABORT Transaction discarded because of previous errors.");

/// What EXEC answers when it is refused itself.
pub(crate) fn aborted_by(error: &Error) -> Error {
    let text = error.bytes();
    let text = text.strip_prefix(b"ERR ").unwrap_or(&text);
    Error::Bytes(
        [b"EXECABORT Transaction discarded because of: ", text]
            .concat()
            .into(),
    )
}

impl Session {
    /// Begins a transaction, or ends it.
    pub(crate) fn set_multi(&mut self, transaction: Option<Box<Transaction>>) {
        self.multi = transaction;
        self.show_multi();
    }

    /// Queues a command. A transaction that cannot be carried out any more keeps nothing.
    pub(crate) fn queue(&mut self, entry: &'static Entry, args: Args<'_>) {
        let hopeless = self.watch_flag().is_some_and(WatchFlag::is_raised);
        let Some(transaction) = &mut self.multi else {
            return;
        };
        if !transaction.refused && !hopeless {
            let args = OwnedArgs::from(args);
            transaction.bytes += args.as_args().iter().map(<[u8]>::len).sum::<usize>();
            transaction.memory += args.memory();
            transaction.writes |= entry.writes();
            transaction.reads |= entry.row.flags.has(Flags::READONLY);
            transaction.queue.push(Queued { entry, args });
            self.show_multi();
        }
    }

    /// A command was refused: if it was to be queued, EXEC will run none.
    pub(crate) fn refuse_transaction(&mut self) {
        if let Some(transaction) = &mut self.multi {
            transaction.refused = true;
        }
    }

    /// Tells the other loops what is queued.
    fn show_multi(&self) {
        let (count, bytes) = match &self.multi {
            None => (-1, 0),
            Some(transaction) => (transaction.queue.len() as i64, transaction.memory),
        };
        self.info.multi.store(count, Ordering::Relaxed);
        self.info.multi_bytes.store(bytes as u64, Ordering::Relaxed);
    }

    /// The flag that tells of changes of the watched keys, if there was ever one.
    pub(crate) fn watch_flag(&self) -> Option<&WatchFlag> {
        self.info.watch.get().map(|flag| &**flag)
    }

    /// Watches keys of the selected database.
    pub(crate) fn watch<'k>(&mut self, turn: &mut Turn<'_>, keys: impl Iterator<Item = &'k [u8]>) {
        let ClientInfo { id, watch, .. } = &*self.info;
        let flag = watch.get_or_init(|| Arc::new(WatchFlag::new(*id)));
        if flag.is_raised() {
            return;
        }
        let mut new: Vec<&[u8]> = Vec::new();
        for key in keys {
            if self.watched.insert((self.db, key.into())) {
                new.push(key);
            }
        }
        turn.watch(self.db, new.iter().copied(), flag);
    }

    /// Ends all watches, and forgets the changes.
    pub(crate) fn unwatch(&mut self, turn: &mut Turn<'_>) {
        if let Some(flag) = self.info.watch.get() {
            turn.unwatch(self.watched.iter(), flag);
            self.watched = BTreeSet::new();
        }
    }

    /// Ends the transaction and all watches.
    pub(crate) fn discard(&mut self, turn: &mut Turn<'_>) {
        self.set_multi(None);
        self.unwatch(turn);
    }
}

/// Takes a reply within EXEC back that the client does not want. The head of EXEC's reply is sent already, and counts
/// what was taken back: so it is in Redis.
pub(crate) fn silence_within(session: &mut Session, out: &mut Vec<u8>, start: usize) {
    let unsilenced = std::mem::take(&mut session.unsilenced);
    if matches!(session.reply_mode, ReplyMode::Off | ReplyMode::SkipNext) && !unsilenced {
        out.truncate(start);
    }
}

/// Writes the head of EXEC's reply.
pub(crate) fn head(session: &Session, count: usize, out: &mut Vec<u8>) {
    if matches!(session.reply_mode, ReplyMode::On) {
        Reply::new(out, session.protocol).array(count);
    }
}
