//! A loop's part in enforcing memory limits. See [`crate::memory`].

use std::sync::atomic::Ordering;

use punctual_store::Turn;

use crate::client::line::line;
use crate::event_loop::EventLoop;
use crate::log;
use crate::memory::{clients, counters};
use crate::node::order::Order;
use crate::reclaim::limit::{self, Fit};

impl EventLoop {
    /// Evicts keys in one bounded step if the memory is above `maxmemory`. Called once a turn.
    pub(crate) fn limit_memory(&mut self, turn: &mut Turn) {
        let memory = &self.shared.memory;
        if self.number == 0 && memory.limit.load(Ordering::Relaxed) > 0 {
            self.shared.replication.replicas.note_beyond_backlog();
        }
        if counters::own() > memory.check_at[self.number].0.load(Ordering::Relaxed) {
            let fit = limit::enforce(&self.shared, self.number, turn, &self.stopwatch);
            // Clients are served before the next step.
            self.more_due |= fit == Fit::Unfinished;
        }
    }

    /// Updates a client's memory in the sum of all clients. Without `maxmemory-clients`, the client
    /// counts 0.
    pub(crate) fn count_client(&mut self, slot: usize) {
        let limited = self.settings.maxmemory_clients > 0;
        if let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut)
            && (limited || connection.counted > 0)
        {
            let bytes = if limited {
                clients::counted(&connection.session.info)
            } else {
                0
            };
            let before = std::mem::replace(&mut connection.counted, bytes);
            self.shared
                .memory
                .count_clients(self.number, bytes - before);
        }
    }

    /// Disconnects clients if the memory of all clients is above `maxmemory-clients`.
    pub(crate) fn limit_client_memory(&self) {
        let limit = self.settings.maxmemory_clients as i64;
        let shared = &self.shared;
        if limit == 0 || shared.memory.client_bytes() <= limit {
            return;
        }
        let now_ms = self.turn_ms;
        shared
            .memory
            .evict_clients(&shared.clients.registry, limit, |client| {
                log::notice!(
                    shared.logger,
                    "Evicting client: {}",
                    String::from_utf8_lossy(&line(shared.commands.table(), client, now_ms))
                );
                shared.clients.registry.kill(client);
                shared.mailboxes[client.loop_number].order(Order::Kill {
                    client: client.id,
                    slot: client.slot,
                });
            });
    }
}
