//! The server's role, and its position in a replication history.
//!
//! The offset of a byte is the number of bytes of the stream up to it, so the first byte has offset
//! one. A history has an id of 40 hexadecimal digits. A server that leaves a history keeps the
//! history's id as its *second id*. The second id is valid up to the offset at which the server
//! left. So replicas that know only the old history can continue from this server without a full
//! synchronization.
//!
//! Ground rules:
//! - `Shared::append_to_stream` advances the **offset** under the lock of the stream. Apart from
//!   that, only [`Replication::adopt`] sets the offset.
//! - **Role and ids** change in a turn that holds every shard. So no effect is appended meanwhile,
//!   and a client's write belongs to one history. Servers without a history to keep are exceptions:
//!   at their start, and in [`Replication::begin_history`].
//! - Any thread may read at any time. [`Replication::ids`] returns a consistent set of ids; the
//!   offset may advance meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use punctual_store::planted::Bug;

use crate::replication::failover::Failover;
use crate::replication::replicas::Replicas;
use crate::replication::upstream::Upstream;
use crate::world::World;

/// Id of a replication history, 40 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplicationId([u8; 40]);

impl ReplicationId {
    /// Second id of a server that has left no history.
    pub(crate) const NONE: Self = Self([b'0'; 40]);

    /// Returns a new random id.
    pub(crate) fn random(world: World) -> Self {
        Self(world.hex_digits())
    }

    /// Parses an id from a peer or a file. Returns `None` unless the text has 40 printable ASCII
    /// characters without spaces.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let id: [u8; 40] = text.try_into().ok()?;
        id.iter().all(u8::is_ascii_graphic).then_some(Self(id))
    }

    /// Returns the id as text.
    pub(crate) fn as_str(&self) -> &str {
        // All constructors ensure ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Returns true if `text` is this id. As in Redis, case is ignored.
    pub(crate) fn is(&self, text: &[u8]) -> bool {
        self.0.eq_ignore_ascii_case(text)
    }
}

impl std::fmt::Display for ReplicationId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::fmt::Debug for ReplicationId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Ids of the histories that this server can continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ids {
    /// Id of the current history (`master_replid`).
    pub(crate) current: ReplicationId,
    /// Id of the previous history (`master_replid2`), or [`ReplicationId::NONE`].
    pub(crate) second: ReplicationId,
    /// First offset at which the second history is no longer valid (`second_repl_offset`); -1
    /// without a second id.
    pub(crate) second_end: i64,
}

/// Reason for which a replica cannot continue, in the order of Redis's checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CannotContinue {
    /// The replica has requested a full synchronization (`?`).
    Asked,
    /// The history is unknown.
    Unknown,
    /// The history is the second one, but the offset is after its end.
    BeyondSecond,
}

impl Ids {
    /// Checks whether a replica can continue from `offset` in the history `id`. Does not check
    /// whether the backlog still has the bytes.
    pub(crate) fn accept(&self, id: &[u8], offset: i64) -> Result<(), CannotContinue> {
        let in_second = offset <= self.second_end || Bug::EndlessHistory.is_active();
        if self.current.is(id) || (self.second.is(id) && in_second) {
            return Ok(());
        }
        Err(match id.first() {
            Some(b'?') => CannotContinue::Asked,
            _ if self.second.is(id) => CannotContinue::BeyondSecond,
            _ => CannotContinue::Unknown,
        })
    }
}

/// Role, ids and offset of the server, and its replicas and primary.
#[derive(Debug)]
pub(crate) struct Replication {
    /// State of the attached replicas.
    pub(crate) replicas: Replicas,
    /// State of FAILOVER.
    pub(crate) failover: Failover,
    /// The primary that the server follows.
    pub(crate) upstream: Upstream,
    world: World,
    /// The server follows a primary.
    replica: AtomicBool,
    /// Offset of the last byte of the stream (`master_repl_offset`).
    offset: AtomicU64,
    ids: Mutex<Ids>,
}

impl Replication {
    /// Returns the state of a new server, which is a primary.
    pub(crate) fn new(world: World, loops: usize) -> Self {
        Self {
            world,
            replicas: Replicas::new(loops),
            failover: Failover::default(),
            upstream: Upstream::new(world),
            replica: AtomicBool::new(false),
            offset: AtomicU64::new(0),
            ids: Mutex::new(Ids {
                current: ReplicationId::random(world),
                second: ReplicationId::NONE,
                second_end: -1,
            }),
        }
    }

    /// Returns true if the server follows a primary.
    #[inline]
    pub(crate) fn is_replica(&self) -> bool {
        self.replica.load(Ordering::Acquire)
    }

    /// Returns the ids of the histories.
    pub(crate) fn ids(&self) -> Ids {
        *self.ids.lock()
    }

    /// Returns the offset of the last byte of the stream.
    #[inline]
    pub(crate) fn offset(&self) -> u64 {
        self.offset.load(Ordering::Acquire)
    }

    /// Advances the offset by `bytes` and returns the new offset. Only `Shared::append_to_stream`
    /// calls this.
    #[inline]
    pub(crate) fn advance(&self, bytes: usize) -> u64 {
        self.offset.fetch_add(bytes as u64, Ordering::AcqRel) + bytes as u64
    }

    /// Makes the server a replica (REPLICAOF host port). Ids and offset stay: the server will ask
    /// the primary to continue from them. The caller holds every shard, or the event loops have not
    /// started.
    pub(crate) fn follow(&self) {
        self.replica.store(true, Ordering::Release);
    }

    /// Makes the server a primary (REPLICAOF NO ONE, or a failover): the present history becomes
    /// the second one, and a new history begins. The caller holds every shard. Afterwards the
    /// caller disconnects the replicas, which reconnect and continue, and makes the log begin with
    /// a SELECT.
    pub(crate) fn promote(&self) {
        let mut ids = self.ids.lock();
        self.replica.store(false, Ordering::Release);
        *ids = Ids {
            current: ReplicationId::random(self.world),
            second: ids.current,
            second_end: self.offset() as i64 + 1,
        };
    }

    /// Continues in the history of the primary under another id (`+CONTINUE <id>`): the present id
    /// becomes the second one. Returns false if the id is unchanged. If the result is true, the
    /// caller disconnects the replicas, which reconnect and receive the new id.
    pub(crate) fn continue_as(&self, id: ReplicationId) -> bool {
        let mut ids = self.ids.lock();
        if ids.current == id {
            return false;
        }
        *ids = Ids {
            current: id,
            second: ids.current,
            second_end: self.offset() as i64 + 1,
        };
        true
    }

    /// Takes over the history and the offset of data from another server: from a full
    /// synchronization, or from a snapshot with `repl-id` and `repl-offset`. The caller holds every
    /// shard. Afterwards the caller disconnects all replicas and begins a new backlog.
    pub(crate) fn adopt(&self, id: ReplicationId, offset: u64) {
        let mut ids = self.ids.lock();
        *ids = Ids {
            current: id,
            second: ReplicationId::NONE,
            second_end: -1,
        };
        self.offset.store(offset, Ordering::Release);
    }

    /// Takes over the history of the snapshot with which a primary starts. This history becomes the
    /// second one, which replicas may continue, and a new history begins.
    pub(crate) fn restart(&self, id: ReplicationId, offset: u64) {
        self.adopt(id, offset);
        self.promote();
    }

    /// Begins a new history without a second one. Used when the server's data has changes that no
    /// stream contains, for example after a primary has dropped its backlog.
    pub(crate) fn begin_history(&self) {
        *self.ids.lock() = Ids {
            current: ReplicationId::random(self.world),
            second: ReplicationId::NONE,
            second_end: -1,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promoted_server_continues_both_histories() {
        let state = Replication::new(World::default(), 1);
        let primary = ReplicationId::random(World::default());
        state.follow();
        state.adopt(primary, 1_000);
        state.advance(23);
        assert!(state.is_replica());
        state.promote();
        assert!(!state.is_replica());
        let ids = state.ids();
        assert_eq!((ids.second, ids.second_end), (primary, 1_024));
        let old = primary.as_str().to_ascii_uppercase();
        assert_eq!(ids.accept(old.as_bytes(), 1_024), Ok(()));
        assert_eq!(
            ids.accept(old.as_bytes(), 1_025),
            Err(CannotContinue::BeyondSecond)
        );
        assert_eq!(
            ids.accept(ids.current.as_str().as_bytes(), 5_000),
            Ok(()),
            "the backlog decides about offsets of the current history"
        );
        assert_eq!(ids.accept(b"?", -1), Err(CannotContinue::Asked));
        assert_eq!(ids.accept(&[b'a'; 40], 1), Err(CannotContinue::Unknown));
    }

    #[test]
    fn a_new_id_from_the_primary_makes_the_last_one_the_second() {
        let state = Replication::new(World::default(), 1);
        let first = state.ids().current;
        state.advance(9);
        assert!(!state.continue_as(first));
        let new = ReplicationId::random(World::default());
        assert!(state.continue_as(new));
        assert_eq!(
            state.ids(),
            Ids {
                current: new,
                second: first,
                second_end: 10
            }
        );
    }

    #[test]
    fn a_missing_second_id_is_never_accepted() {
        let ids = Replication::new(World::default(), 1).ids();
        assert_eq!(
            ids.accept(ReplicationId::NONE.as_str().as_bytes(), 0),
            Err(CannotContinue::BeyondSecond)
        );
    }
}
