//! Keyspace events and the [`Sink`] that receives them.
//!
//! Commands and expiry call a [`Sink`]; the server's sink publishes keyspace notifications,
//! collects the log of changes and wakes event loops. The key's shard is locked during a call
//! about a key, so the events of one key arrive in the order of its changes.

pub use crate::classes::Classes;
use crate::effects::Effects;
use crate::hash_table::KeyHash;
use crate::keyspace::tracked::Readers;
use crate::keyspace::waiters::Waiter;
use crate::time::Now;

/// Report of entries that stay pending because they cannot move to their group's dead-letter
/// stream.
#[derive(Clone, Copy, Debug)]
pub struct DeadLetterFailed<'a> {
    /// The database of both streams.
    pub db: usize,
    /// Key of the stream.
    pub key: &'a [u8],
    /// The group whose entries stay.
    pub group: &'a [u8],
    /// Key of the dead-letter stream.
    pub dead_letter: &'a [u8],
    /// The cause.
    pub reason: &'static str,
}

/// Receiver of a turn's events and reports. Shards may be locked during a call, so an
/// implementation must neither run commands nor block.
pub trait Sink {
    /// Receives the keyspace event `event` of `key` in database `db`. Called only for classes that
    /// are on.
    fn keyspace(&mut self, db: usize, class: Classes, event: &str, key: &[u8]);

    /// Receives the subkeys of an event: the fields or members of `key` that it is about, at least
    /// one, and in the order of the command, which may name one twice. Called after
    /// [`Sink::keyspace`], only for classes that are on and while a channel of subkeys is on. The
    /// subkeys of elements that expire together may come in several calls.
    fn subkeys(&mut self, db: usize, event: &str, key: &[u8], subkeys: &[&[u8]]) {
        let _ = (db, event, key, subkeys);
    }

    /// Receives a key that expired at `now`; `value` is its last value if that was a string. Called
    /// for every key that expires, before the `expired` event.
    fn expired(&mut self, now: Now, db: usize, key: &[u8], value: Option<&[u8]>, deadline_ms: u64);

    /// Receives a field of the hash `key` that expired at `now`. Called for each field, before the
    /// `hexpired` event, which several fields of a hash may share.
    fn field_expired(&mut self, now: Now, db: usize, key: &[u8], field: &[u8], deadline_ms: u64) {
        let _ = (now, db, key, field, deadline_ms);
    }

    /// Called when an entry of a stream was removed at `now`, because its maximum age was reached
    /// at the deadline, or when a job was moved, because its delay or lease ended at the deadline.
    /// Called once for all entries that are removed together, with the first deadline, and once for
    /// each job.
    fn became_due(&mut self, now: Now, deadline_ms: u64) {
        let _ = (now, deadline_ms);
    }

    /// Receives the timer `key` with the deadline `deadline_ms` when it fires at `now`, before its
    /// command runs.
    fn timer_fires(&mut self, now: Now, db: usize, key: &[u8], deadline_ms: u64) {
        let _ = (now, db, key, deadline_ms);
    }

    /// Receives a report of entries that cannot move to a dead-letter stream.
    fn dead_letter_failed(&mut self, failed: &DeadLetterFailed<'_>) {
        let _ = failed;
    }

    /// Receives the effects of a turn before the turn unlocks a shard, so that the order of the log
    /// agrees with the order of the changes of each key. Called only while
    /// [`Store::is_logged`](crate::Store::is_logged) returns true, and only with effects.
    fn log(&mut self, effects: &Effects) {
        let _ = effects;
    }

    /// Receives the hash of a changed key, before the turn's [`Sink::log`]. Called only while
    /// [`Store::notes_changes`](crate::Store::notes_changes) returns true.
    fn changed(&mut self, key: KeyHash) {
        let _ = key;
    }

    /// Adds the keys that [`Sink::changed`] has received to the sink's table of the changes that a
    /// crash could still lose. A caller looks up keys in that table only after this call.
    fn note_changes(&mut self) {}

    /// Receives the name of a changed key and the clients that have read it since it last changed.
    /// `by` is the client whose command has changed the key; 0 if no client's command has.
    fn invalidate(&mut self, key: &[u8], readers: &Readers, by: u64) {
        let _ = (key, readers, by);
    }

    /// Receives the name of a changed key, for clients that track prefixes. `by` is the same as in
    /// [`Sink::invalidate`]. Called only after a call of
    /// [`Store::set_broadcasts`](crate::Store::set_broadcasts) that turned broadcasts on.
    fn broadcast(&mut self, key: &[u8], by: u64) {
        let _ = (key, by);
    }

    /// Called before the command of a waiting client runs again. The calls that follow belong to
    /// that command.
    fn serves(&mut self, waiter: &Waiter) {
        let _ = waiter;
    }

    /// Called when every key may have changed.
    fn invalidate_all(&mut self) {}

    /// Called when the wake-up of shard `shard`, the time at which its loop must expire keys, has
    /// moved to the earlier time `deadline_ms`.
    fn wake(&mut self, shard: usize, deadline_ms: u64);
}

/// A sink that ignores all events, for tests and tools.
#[derive(Debug, Default)]
pub struct Silent;

impl Sink for Silent {
    fn keyspace(&mut self, _: usize, _: Classes, _: &str, _: &[u8]) {}
    fn expired(&mut self, _: Now, _: usize, _: &[u8], _: Option<&[u8]>, _: u64) {}
    fn wake(&mut self, _: usize, _: u64) {}
}
