//! Replication over a restart: a snapshot names the place in the history at which it was made, and
//! the server that starts with it continues from there.

use punctual_store::{Turn, write_select};

use crate::node::Shared;
use crate::persist::encode::Place;

/// A key that was due when the snapshot was loaded, and its database.
pub(crate) type ExpiredKey = (usize, Box<[u8]>);

impl Shared {
    /// Returns the place of the keyspace in the replication history, if it has one. The turn holds
    /// every shard.
    pub(crate) fn place(&self, turn: &mut Turn) -> Option<Place> {
        let db = if self.replication.is_replica() {
            // Within a stretch of commands of the primary, the offset is that of its start.
            let known = self.replication.upstream.continues() && !turn.holds_whole();
            known.then(|| self.replication.upstream.db())
        } else {
            let streams = self.replication.replicas.stream().backlog.is_some();
            // Changes of an open transaction are in the keyspace, but not in the stream.
            (streams && turn.flush_effects()).then(|| self.durability.changelog.db())
        };
        Some(Place {
            db: db?,
            id: self.replication.ids().current,
            offset: self.replication.offset(),
        })
    }

    /// Continues from the place of the snapshot that has been loaded at the start. A replica asks
    /// its primary to; a primary begins a history whose past replicas may continue. They still have
    /// the keys that were due.
    pub(crate) fn resume_history(&self, turn: &mut Turn, place: Place, expired: Vec<ExpiredKey>) {
        turn.lock_all();
        if self.replication.is_replica() {
            self.replication.adopt(place.id, place.offset);
            self.replication.upstream.resume(place.db);
            self.restart_stream();
            return;
        }
        self.replication.restart(place.id, place.offset);
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
        self.call_upkeep();
    }
}
