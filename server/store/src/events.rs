//! Keyspace events and the [`Sink`] that receives them.
//!
//! Commands and expiry send events to a [`Sink`]; the server turns them into keyspace
//! notifications. The caller holds the shard's lock, so the events of one key arrive in the order
//! in which they happened.

pub use crate::classes::Classes;
use crate::effects::Effects;
use crate::hash_table::KeyHash;
use crate::keyspace::tracked::Readers;
use crate::keyspace::waiters::Waiter;
use crate::time::Now;

/// Entries stay pending because they cannot move to the dead-letter stream.
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

/// Receiver of events. The caller holds the key's shard lock, so an implementation must not run
/// commands.
pub trait Sink {
    /// Receives an `event` of `key` in database `db`. Called only for enabled classes.
    fn keyspace(&mut self, db: usize, class: Classes, event: &str, key: &[u8]);

    /// Receives a key that expired at `now`; `value` is the last value if the key held a string.
    /// Called for every expiry, before the `expired` event.
    fn expired(&mut self, now: Now, db: usize, key: &[u8], value: Option<&[u8]>, deadline_ms: u64);

    /// Receives a field of the hash `key` that expired at `now`. Called for each field, before the
    /// `hexpired` event, which several fields of a hash may share.
    fn field_expired(&mut self, now: Now, db: usize, key: &[u8], field: &[u8], deadline_ms: u64) {
        let _ = (now, db, key, field, deadline_ms);
    }

    /// Receives that at `now` entries of a stream have left because of their age, the first of
    /// which was due at `deadline_ms`; or that a job whose time or whose lease's end was
    /// `deadline_ms` is ready, or waits again.
    fn became_due(&mut self, now: Now, deadline_ms: u64) {
        let _ = (now, deadline_ms);
    }

    /// Receives that the timer `key`, whose deadline was `deadline_ms`, fires at `now`. Called
    /// before its command runs.
    fn timer_fires(&mut self, now: Now, db: usize, key: &[u8], deadline_ms: u64) {
        let _ = (now, db, key, deadline_ms);
    }

    /// Receives that entries of a group cannot move to its dead-letter stream.
    fn dead_letter_failed(&mut self, failed: &DeadLetterFailed<'_>) {
        let _ = failed;
    }

    /// Receives what a turn has changed, before it unlocks anything: whoever reads the log of
    /// changes sees the turns in an order in which they happened. Called only while
    /// [`Store::is_logged`](crate::Store::is_logged), and not without effects.
    fn log(&mut self, effects: &Effects) {
        let _ = effects;
    }

    /// Receives the hash of a changed key, before the turn's [`Sink::log`]. Called only while
    /// [`Store::notes_changes`](crate::Store::notes_changes).
    fn changed(&mut self, key: KeyHash) {
        let _ = key;
    }

    /// Makes the keys of [`Sink::changed`] known to the caller, which is about to look for one of
    /// them.
    fn note_changes(&mut self) {}

    /// Receives the name of a changed key and the clients that have read it since it last changed.
    /// `by` is the client whose command has changed it; 0 if it was none's.
    fn invalidate(&mut self, key: &[u8], readers: &Readers, by: u64) {
        let _ = (key, readers, by);
    }

    /// Receives the name of a changed key while
    /// [`Store::set_broadcasts`](crate::Store::set_broadcasts) is on, and the client as in
    /// [`Sink::invalidate`].
    fn broadcast(&mut self, key: &[u8], by: u64) {
        let _ = (key, by);
    }

    /// Receives that the command of a waiting client runs now. The events that follow are events of
    /// this command.
    fn serves(&mut self, waiter: &Waiter) {
        let _ = waiter;
    }

    /// Receives that every key may have changed.
    fn invalidate_all(&mut self) {}

    /// Reports that the next wake-up of `shard` moved to `deadline_ms`, which is earlier than
    /// before.
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
