//! Replication across a restart. A snapshot names its position in the replication history:
//! replication ID, offset and selected database. A server that starts with this snapshot continues
//! at this position.

use punctual_store::{Turn, write_select};

use crate::node::Shared;
use crate::persist::encode::HistoryPosition;

/// Database and name of a key that was due when the snapshot was loaded.
pub(crate) type ExpiredKey = (usize, Box<[u8]>);

impl Shared {
    /// Returns the position of the keyspace in the replication history, or `None` if the history
    /// cannot continue from the keyspace. The turn holds every shard.
    pub(crate) fn history_position(&self, turn: &mut Turn) -> Option<HistoryPosition> {
        let db = if self.replication.is_replica() {
            // Within a *stretch* (commands of the primary that run under the same locks), the
            // offset is still the offset before the stretch. A snapshot does not say which keys are
            // local: a server that continued from it would wait for a DEL of these keys, which the
            // primary never sends.
            let known = self.replication.upstream.continues()
                && !turn.holds_whole()
                && !turn.has_local_keys();
            known.then(|| self.replication.upstream.db())
        } else {
            let streams = self.replication.replicas.stream().backlog.is_some();
            // Changes of an open transaction are in the keyspace, but not in the stream.
            (streams && turn.flush_effects()).then(|| self.durability.changelog.db())
        };
        Some(HistoryPosition {
            db: db?,
            id: self.replication.ids().current,
            offset: self.replication.offset(),
        })
    }

    /// Continues from the position of the snapshot that was loaded at startup. A replica asks its
    /// primary for a partial synchronization from this position. A primary begins a stream at the
    /// position, so replicas of the earlier process can continue too. These replicas still have the
    /// keys in `expired`, so the stream begins with DELs for them.
    pub(crate) fn resume_history(
        &self,
        turn: &mut Turn,
        position: HistoryPosition,
        expired: Vec<ExpiredKey>,
    ) {
        turn.lock_all();
        if self.replication.is_replica() {
            self.replication.adopt(position.id, position.offset);
            self.replication.upstream.resume(position.db);
            self.restart_stream();
            return;
        }
        self.replication.restart(position.id, position.offset);
        self.restart_stream();
        self.replication.replicas.stream().alone_since_ms = self.world.stopwatch_ms();
        self.durability.changelog.set_replicas(turn, true);
        let (mut bytes, mut selected) = (Vec::new(), None);
        for (db, key) in expired {
            if selected != Some(db) {
                selected = Some(db);
                write_select(&mut bytes, db);
            }
            punctual_resp::encode_command(&mut bytes, &[b"DEL", &key[..]]);
        }
        if !bytes.is_empty() {
            self.append_to_stream(&bytes);
        }
        turn.release();
        self.request_upkeep();
    }
}
