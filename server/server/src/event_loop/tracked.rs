//! The limit of tracked keys for client-side caches (`tracking-table-max-keys`).

use std::sync::Arc;

use punctual_store::Turn;

use crate::event_loop::EventLoop;

impl EventLoop {
    /// Invalidates some of the tracked keys if there are too many.
    pub(crate) fn limit_tracked(&mut self, turn: &mut Turn) {
        /// Maximum number of keys of one shard that are invalidated in a turn.
        const KEYS: usize = 100;
        let shared = Arc::clone(&self.shared);
        if !shared.store.tracks_too_many() || shared.scripting.running.is_active() {
            return;
        }
        for shard in (self.number..shared.store.shards()).step_by(shared.mailboxes.len()) {
            turn.limit_tracked(shard, KEYS);
        }
        turn.release();
        self.more_due |= shared.store.tracks_too_many();
    }
}
