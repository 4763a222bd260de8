//! Changes of the role: by REPLICAOF, by a failover, and by the directive `replicaof` at startup.

use std::sync::atomic::Ordering;

use punctual_store::planted::Bug;
use punctual_store::{Turn, Writers};

use crate::log::{self, Role};
use crate::node::Shared;
use crate::node::gate::Reason;
use crate::node::order::Order;
use crate::replication::upstream::Address;

impl Shared {
    /// Makes the server a replica of `primary`. The server then asks `primary` to continue from the
    /// server's own history.
    pub(crate) fn follow(&self, turn: &mut Turn, primary: Address) {
        turn.lock_all();
        let was_primary = !self.replication.is_replica();
        if was_primary {
            log::notice!(
                self.logger,
                "Before turning into a replica, using my own master parameters to synthesize a cached master: I may be able to synchronize with the new master with just a partial transfer."
            );
            // Within a transaction or script, the effects cannot enter the stream yet. If it has
            // changed data, or may still do so, the data differs from the history, which ends here.
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

    /// Makes the server a replica from its start. Called before the event loops start.
    pub(crate) fn follow_from_start(&self, primary: Address) {
        self.replication.follow();
        self.replication.upstream.follow(primary, false);
        self.store.follow_from_start();
        self.update_read_only();
        self.logger.set_role(Role::Replica);
        self.gate.set(Reason::Replica, true);
    }

    /// Sets the writers that the keyspace accepts: clients, the primary's stream, or both.
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

    /// Makes the server a primary, which decides when keys expire. Overdue keys expire in the next
    /// turn of each loop.
    pub(crate) fn promote(&self, turn: &mut Turn) {
        turn.lock_all();
        self.replication.upstream.unfollow();
        self.gate.set(Reason::Replica, false);
        self.replication.promote();
        turn.set_following(Bug::PromotedNeverExpires.is_active());
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
        // The replicas of the former primary get the full `repl-backlog-ttl` to connect.
        stream.alone_since_ms = self.world.stopwatch_ms();
        let streams = stream.backlog.is_some();
        drop(stream);
        self.durability.changelog.set_replicas(turn, streams);
        self.disconnect_replicas();
        self.count_good_replicas();
        self.request_upkeep();
        self.order_all(|| Order::RoleChanged);
    }
}
