//! Changes of the replication stream and of the list of replicas.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_store::Turn;
use punctual_store::planted::Bug;

use crate::log;
use crate::node::Shared;
use crate::node::gate::Reason;
use crate::node::order::Order;
use crate::replication::backlog::Backlog;
use crate::replication::replica::Replica;
use crate::replication::replicas::{Replicas, Stream};

impl Shared {
    /// Appends bytes to the replication stream if there is a backlog, and orders the loops with
    /// replicas to send them. A caller that appends changes holds the mutex of the log, or prevents
    /// all other changes of the keyspace.
    pub(crate) fn append_to_stream(&self, bytes: &[u8]) {
        let mut guard = self.replication.replicas.stream();
        let stream = &mut *guard;
        let Some(backlog) = &mut stream.backlog else {
            return;
        };
        let filled = backlog.append(bytes);
        self.replication.advance(bytes.len());
        if filled {
            stream.trim();
        }
        drop(guard);
        self.order_feed_on_all_loops();
    }

    /// Begins a new history and its stream, unless a stream exists. Earlier changes of the server
    /// are not part of the new history.
    pub(crate) fn begin_stream(&self, turn: &mut Turn) {
        turn.release();
        turn.lock_all();
        let mut stream = self.replication.replicas.stream();
        if stream.backlog.is_some() {
            return;
        }
        self.replication.begin_history();
        let size = self.settings().repl_backlog_size;
        stream.backlog = Some(Backlog::new(self.replication.offset() + 1, size));
        drop(stream);
        self.durability
            .changelog
            .set_replicas(turn, !self.replication.is_replica());
        turn.release();
        let ids = self.replication.ids();
        log::notice!(
            self.logger,
            "Replication backlog created, my new replication IDs are '{}' and '{}'",
            ids.current,
            ids.second
        );
    }

    /// Orders each loop with replicas to send the new part of the stream.
    fn order_feed_on_all_loops(&self) {
        for (number, on) in self.replication.replicas.loops.iter().enumerate() {
            if on.replicas.load(Ordering::Acquire) > 0 {
                self.order_feed(number);
            }
        }
    }

    /// Orders a loop to send pending output to its replicas, unless the order is already in its
    /// mailbox.
    pub(crate) fn order_feed(&self, number: usize) {
        let ordered = &self.replication.replicas.loops[number].feed_ordered;
        if !ordered.swap(true, Ordering::SeqCst) {
            self.mailboxes[number].order(Order::FeedReplicas);
        }
    }

    /// Adds a replica to the list in `stream`.
    pub(crate) fn attach(&self, stream: &mut Stream, replica: &Arc<Replica>) {
        if stream.replicas.is_empty() {
            // As in Redis, the stream does not begin with a PING.
            let pinged_ms = &self.replication.replicas.pinged_ms;
            pinged_ms.store(self.world.stopwatch_ms(), Ordering::Relaxed);
        }
        stream.replicas.push(Arc::clone(replica));
        replica.client.replica.store(true, Ordering::Release);
        let on = &self.replication.replicas.loops[replica.client.loop_number];
        on.replicas.fetch_add(1, Ordering::AcqRel);
    }

    /// Removes a replica after its connection has ended.
    pub(crate) fn detach(&self, replica: &Arc<Replica>) {
        replica.set_gone();
        let mut stream = self.replication.replicas.stream();
        let before = stream.replicas.len();
        stream.replicas.retain(|other| !Arc::ptr_eq(other, replica));
        if stream.replicas.len() == before {
            return;
        }
        if stream.replicas.is_empty() {
            stream.alone_since_ms = self.world.stopwatch_ms();
        }
        stream.trim();
        drop(stream);
        let on = &self.replication.replicas.loops[replica.client.loop_number];
        on.replicas.fetch_sub(1, Ordering::AcqRel);
        log::warning!(self.logger, "Connection with replica {replica} lost.");
        self.count_good_replicas();
        self.request_upkeep();
    }

    /// Closes the connections of all replicas. The replicas reconnect, and learn the new state from
    /// the reply to their PSYNC.
    pub(crate) fn disconnect_replicas(&self) {
        let all = {
            let stream = self.replication.replicas.stream();
            // From here on, no replica gets bytes of another history.
            for replica in &stream.replicas {
                replica.set_gone();
            }
            stream.replicas.clone()
        };
        for replica in all {
            self.close_replica(&replica);
        }
    }

    /// Restarts the server's own stream after the current offset. The turn holds every shard.
    pub(crate) fn restart_stream(&self) {
        self.disconnect_replicas();
        let size = self.settings().repl_backlog_size;
        let next = self.replication.offset() + 1;
        self.replication.replicas.stream().backlog = Some(Backlog::new(next, size));
    }

    /// Closes the connection of a replica.
    pub(crate) fn close_replica(&self, replica: &Replica) {
        let client = &replica.client;
        self.mailboxes[client.loop_number].order(Order::Kill {
            client: client.id,
            slot: client.slot,
        });
    }

    /// Makes loop 0 run the upkeep of replicas in its next turn.
    pub(crate) fn request_upkeep(&self) {
        self.replication
            .replicas
            .upkeep_ms
            .store(0, Ordering::SeqCst);
        self.mailboxes[0].order(Order::Resume);
    }

    /// Returns whether writes must be refused because too few replicas have acknowledged recently.
    pub(crate) fn lacks_replicas(&self) -> bool {
        let settings = self.settings();
        settings.min_replicas_to_write > 0
            && settings.min_replicas_max_lag_s > 0
            && !self.replication.is_replica()
            && self.replication.replicas.good.load(Ordering::Acquire)
                < settings.min_replicas_to_write
    }

    /// Counts the *good* replicas, which have acknowledged recently. Closes the gate for writes if
    /// there are too few, and opens it otherwise.
    pub(crate) fn count_good_replicas(&self) {
        let settings = self.settings();
        if settings.min_replicas_to_write == 0 {
            let until_ms = &self.replication.replicas.good_until_ms;
            until_ms.store(u64::MAX, Ordering::Release);
            return self.gate.set(Reason::FewReplicas, false);
        }
        let (now_s, max_s) = (
            self.world.stopwatch_ms() / 1_000,
            settings.min_replicas_max_lag_s,
        );
        let (mut good, mut until_s) = (0, u64::MAX);
        for replica in &self.replication.replicas.stream().replicas {
            let good_until_s = replica.good_until_s(max_s);
            if replica.is_online() && now_s < good_until_s {
                good += 1;
                until_s = until_s.min(good_until_s);
            }
        }
        let Replicas {
            good: count,
            good_until_ms,
            ..
        } = &self.replication.replicas;
        count.store(good, Ordering::Release);
        good_until_ms.store(until_s.saturating_mul(1_000), Ordering::Release);
        self.gate.set(Reason::FewReplicas, self.lacks_replicas());
    }

    /// Counts the good replicas again if the last count may be too high by now. Upkeep counts them
    /// once a second. A process that was suspended for longer must not accept a write before it has
    /// counted again.
    #[inline]
    pub(crate) fn check_good_replicas(&self) {
        let until_ms = self
            .replication
            .replicas
            .good_until_ms
            .load(Ordering::Acquire);
        if Bug::FrozenPrimaryFires.is_active() {
            return;
        }
        if until_ms != u64::MAX && self.world.stopwatch_ms() >= until_ms {
            self.count_good_replicas();
        }
    }
}
