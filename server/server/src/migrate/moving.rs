//! A running migration: packs keys into parcels (a key and its DUMP payload), and after their
//! transfer deletes the keys or packs them again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_resp::{OwnedArgs, Protocol, Reply};
use punctual_store::keyspace::waiters::Waiter;
use punctual_store::keyspace::watch::{WatchFlag, WatchedKey};
use punctual_store::planted::Bug;
use punctual_store::{Command, Error, Turn, command};

use crate::migrate::target::{Failure, Parcel, Target, Transfer};
use crate::world::clock::ServerClock;

/// Maximum number of transfers between other commands. A key that changes during all of them is
/// sent with its shard locked.
pub(crate) const TRIES: u32 = 3;

/// The state of a MIGRATE.
#[derive(Debug)]
pub(crate) struct Migration {
    pub(crate) transfer: Transfer,
    db: usize,
    /// COPY: the keys stay on this server.
    copy: bool,
    /// One flag for each parcel, raised when the parcel's key changes. Empty with COPY, and while
    /// the shards are locked for the whole migration.
    flags: Vec<Arc<WatchFlag>>,
    /// Number of transfers so far.
    transfers: u32,
    /// The waiting command of the client.
    waiter: Option<Arc<Waiter>>,
}

/// Next step after a transfer.
pub(crate) enum Next {
    /// The migration is over, with this result for the client.
    Done(Result<(), Error>),
    /// Changed keys were packed and must be sent.
    Send(Migration),
}

impl Migration {
    /// Packs the keys that exist. Returns `None` if no key exists. With `watched` and without COPY,
    /// changes of the keys are recorded from now on. Without `watched`, the caller keeps the keys'
    /// shards pinned (locked).
    pub(crate) fn pack<'k>(
        turn: &mut Turn,
        target: Target,
        db: usize,
        copy: bool,
        keys: impl Iterator<Item = &'k [u8]>,
        watched: bool,
    ) -> Option<Self> {
        let mut migration = Self {
            transfer: Transfer::new(target),
            db,
            copy,
            flags: Vec::new(),
            transfers: 0,
            waiter: None,
        };
        let keys: Vec<&[u8]> = keys.collect();
        if watched {
            let shards = keys.iter().map(|key| turn.store.shard_of(key)).collect();
            turn.pin(Some(shards));
        }
        for key in keys {
            migration.add(turn, key, false);
        }
        if watched {
            if !copy {
                migration.watch(turn);
            }
            turn.unpin();
        }
        (!migration.transfer.parcels.is_empty()).then_some(migration)
    }

    /// Packs a key. If `again` is set and the key no longer exists, the parcel deletes the target's
    /// copy.
    fn add(&mut self, turn: &mut Turn, key: &[u8], again: bool) {
        let (payload, deadline_ms) = match dump(turn, self.db, key) {
            Some((payload, deadline_ms)) => (Some(payload), deadline_ms),
            None if again => (None, None),
            None => return,
        };
        self.transfer.parcels.push(Parcel {
            key: key.into(),
            payload,
            deadline_ms,
            again,
            accepted: false,
        });
    }

    fn watched(&self) -> impl Iterator<Item = (WatchedKey, &Arc<WatchFlag>)> {
        let keys = (self.transfer.parcels.iter()).map(|p| (self.db, p.key.clone()));
        keys.zip(&self.flags)
    }

    fn watch(&mut self, turn: &mut Turn) {
        /// Number of the next flag, in a range that no client's flag uses.
        static NEXT: AtomicU64 = AtomicU64::new(1 << 63);
        self.flags.clear();
        for parcel in &self.transfer.parcels {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let flag = Arc::new(WatchFlag::of_all_changes(number));
            turn.watch(self.db, std::iter::once(&*parcel.key), &flag);
            self.flags.push(flag);
        }
    }

    /// Counts a transfer, and resets the state of the connection for it.
    pub(crate) fn begin_transfer(&mut self) {
        self.transfers += 1;
        self.transfer.begin();
    }

    /// Sets the client's waiting command, which gets the result.
    pub(crate) fn set_waiter(&mut self, waiter: Arc<Waiter>) {
        self.waiter = Some(waiter);
    }

    /// Returns the client's waiting command.
    pub(crate) fn waiter(&self) -> Option<&Arc<Waiter>> {
        self.waiter.as_ref()
    }

    /// Sends the parcels, and deletes the keys that were accepted (not with COPY), without
    /// interruption. The shards stay pinned meanwhile.
    pub(crate) fn run(mut self, turn: &mut Turn, clock: &ServerClock) -> Result<(), Error> {
        self.transfer.run(clock);
        if !self.copy {
            let moved = self
                .transfer
                .parcels
                .iter()
                .filter(|parcel| parcel.accepted);
            delete(turn, self.db, moved);
        }
        self.result()
    }

    /// Ends a transfer. Without COPY, deletes the keys that were moved, and packs again the keys
    /// that have changed meanwhile. After [`TRIES`] transfers, sends these keys at once, with their
    /// shards locked. With `is_replica` the server has become a replica and keeps the keys.
    pub(crate) fn settle(self, turn: &mut Turn, clock: &ServerClock, is_replica: bool) -> Next {
        if self.copy {
            return Next::Done(self.result());
        }
        let store = turn.store;
        let shards = self.transfer.parcels.iter().map(|p| store.shard_of(&p.key));
        turn.pin(Some(shards.collect()));
        let next = self.settle_pinned(turn, clock, is_replica);
        turn.unpin();
        next
    }

    fn settle_pinned(mut self, turn: &mut Turn, clock: &ServerClock, is_replica: bool) -> Next {
        let changed: Vec<bool> = self.flags.iter().map(|flag| flag.is_raised()).collect();
        for (key, flag) in self.watched() {
            turn.unwatch(std::iter::once(&key), flag);
        }
        if is_replica {
            return Next::Done(Err(Error::fixed(
                "READONLY You can't write against a read only replica.",
            )));
        }
        let parcels = std::mem::take(&mut self.transfer.parcels);
        let (mut moved, mut again) = (Vec::new(), Vec::new());
        for (parcel, changed) in parcels.into_iter().zip(changed) {
            if (parcel.accepted || Bug::DeletedUnaccepted.is_active()) && !changed {
                moved.push(parcel);
            } else if parcel.accepted {
                again.push(parcel.key);
            }
        }
        delete(turn, self.db, moved.iter());
        let broken = !matches!(self.transfer.failure, None | Some(Failure::Reply(_)));
        for key in again {
            self.add(turn, &key, true);
        }
        if self.transfer.parcels.is_empty() || broken {
            return Next::Done(self.result());
        }
        if self.transfers < TRIES {
            self.watch(turn);
            return Next::Send(self);
        }
        let earlier = self.transfer.failure.take();
        let last = self.run(turn, clock);
        Next::Done(earlier.map_or(last, |failure| Err(failure.error())))
    }

    fn result(&self) -> Result<(), Error> {
        match &self.transfer.failure {
            None => Ok(()),
            Some(failure) => Err(failure.error()),
        }
    }
}

fn row(name: &str) -> &'static Command {
    command::find(name.as_bytes()).expect("a command of the keyspace")
}

/// Runs a command of the keyspace and returns its reply.
fn run(turn: &mut Turn, db: usize, args: &OwnedArgs) -> Vec<u8> {
    let mut out = Vec::new();
    let mut reply = Reply::new(&mut out, Protocol::Resp2);
    let name = String::from_utf8_lossy(args.as_args().at(0)).into_owned();
    // DUMP, PEXPIRETIME and DEL do not fail.
    let _ = turn.run(row(&name), db, true, args.as_args(), &mut reply);
    out
}

/// Returns the DUMP payload and the deadline of a key.
fn dump(turn: &mut Turn, db: usize, key: &[u8]) -> Option<(Vec<u8>, Option<u64>)> {
    let words = |name: &'static [u8]| [name, key].iter().collect::<OwnedArgs>();
    let mut payload = run(turn, db, &words(b"dump"));
    let start = payload.iter().position(|byte| *byte == b'\n')? + 1;
    if payload.starts_with(b"$-") {
        return None;
    }
    payload.drain(..start);
    payload.truncate(payload.len().saturating_sub(2));
    let deadline = run(turn, db, &words(b"pexpiretime"));
    let text = std::str::from_utf8(&deadline).ok()?.trim_end();
    Some((payload, text.strip_prefix(':')?.parse().ok()))
}

/// Deletes the keys of these parcels with one DEL. Keys that move to another node of a cluster live
/// on, so a rule of NOTIFY gets no event.
fn delete<'p>(turn: &mut Turn, db: usize, parcels: impl Iterator<Item = &'p Parcel>) {
    let keys = parcels
        .filter(|parcel| parcel.payload.is_some())
        .map(|parcel| &*parcel.key);
    let words: Vec<&[u8]> = std::iter::once(&b"del"[..]).chain(keys).collect();
    if words.len() > 1 {
        turn.set_moves_keys(true);
        run(turn, db, &words.iter().collect());
        turn.set_moves_keys(false);
    }
}
