//! Changes of the role: REPLICAOF, and the directive `replicaof` at start.

use std::sync::atomic::Ordering;

use punctual_store::{Turn, Writers};

use crate::log::{self, Role};
use crate::node::Shared;
use crate::node::gate::Reason;
use crate::node::order::Order;
use crate::replication::upstream::Address;

impl Shared {
    /// Makes the server a replica of `primary`. It asks to continue from its own history.
    pub(crate) fn follow(&self, turn: &mut Turn, primary: Address) {
        turn.lock_all();
        let was_primary = !self.replication.is_replica();
        if was_primary {
            log::notice!(
                self.logger,
                "Before turning into a replica, using my own master parameters to synthesize a cached master: I may be able to synchronize with the new master with just a partial transfer."
            );
            // What this turn has changed is a part of the server's own history; without it the history ends.
            // What the same transaction may change after this command is in no stream either.
            if !turn.flush_effects() && (turn.has_effects() || turn.is_admitted()) {
                self.replication.begin_history();
            }
            self.replication
                .upstream
                .set_db(self.durability.changelog.db());
        }
        self.replication.follow();
        self.replication.upstream.follow(primary, was_primary);
        turn.set_following(true);
        self.update_read_only();
        if was_primary {
            self.durability.changelog.set_replicas(turn, false);
        }
        self.logger.set_role(Role::Replica);
        self.gate.set(Reason::Replica, true);
        self.order_all(|| Order::RoleChanged);
    }

    /// Makes the server a replica from its start on. Called before the event loops start.
    pub(crate) fn follow_from_start(&self, primary: Address) {
        self.replication.follow();
        self.replication.upstream.follow(primary, false);
        self.store.follow_from_start();
        self.update_read_only();
        self.logger.set_role(Role::Replica);
        self.gate.set(Reason::Replica, true);
    }

    /// Tells the keyspace whether clients write, and what their writes are.
    pub(crate) fn update_read_only(&self) {
        let writers = match (self.replication.is_replica(), self.settings()) {
            (false, _) => Writers::Clients,
            (true, settings) if settings.replica.read_only => Writers::Stream,
            (true, _) => Writers::Both,
        };
        self.store.set_writers(writers);
        let read_only = writers == Writers::Stream;
        self.replication
            .upstream
            .read_only
            .store(read_only, Ordering::Relaxed);
    }

    /// Makes the server a primary: the deadlines are its own from now on. What is overdue expires in the next turn of each
    /// loop, the rest on time.
    pub(crate) fn promote(&self, turn: &mut Turn) {
        turn.lock_all();
        self.replication.upstream.unfollow();
        self.gate.set(Reason::Replica, false);
        self.replication.promote();
        turn.set_following(false);
        self.update_read_only();
        self.logger.set_role(Role::Master);
        let ids = self.replication.ids();
        log::notice!(
            self.logger,
            "Setting secondary replication ID to {}, valid up to offset: {}. New replication ID is {}",
            ids.second,
            ids.second_end,
            ids.current
        );
        let mut stream = self.replication.replicas.stream();
        // The replicas of the former primary have as long as usual to come.
        stream.alone_since_ms = self.world.stopwatch_ms();
        let streams = stream.backlog.is_some();
        drop(stream);
        self.durability.changelog.set_replicas(turn, streams);
        self.disconnect_replicas();
        self.count_good_replicas();
        self.call_upkeep();
        self.order_all(|| Order::RoleChanged);
    }
}
