//! The limit `maxmemory-clients`.
//!
//! While it is set, each loop adds up the memory of its clients, and corrects its sum for a client after each turn in which
//! the client was served. The loop that finds the sum of all loops above the limit disconnects the largest clients. A client that is
//! to be disconnected counts no more, although its loop frees its memory a little later.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_store::Now;

use crate::client::registry::{ClientInfo, ClientType};
use crate::command::client_list::line;
use crate::log;
use crate::net::order::Order;
use crate::shared::Shared;

/// Returns the bytes that a client counts for: none for replicas and the primary, as in Redis.
pub(crate) fn counted(client: &ClientInfo) -> i64 {
    match client.client_type() {
        _ if client.killed.load(Ordering::Acquire) => 0,
        ClientType::Normal | ClientType::PubSub => client.memory() as i64,
        ClientType::Replica | ClientType::Master => 0,
    }
}

impl Shared {
    /// Adds to the sum of a loop's clients. Only that loop calls this.
    pub(crate) fn count_clients(&self, loop_number: usize, bytes: i64) {
        let sum = &self.memory.clients[loop_number].0;
        sum.store(sum.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    }

    /// Disconnects the largest clients if all of them have more than `limit` bytes. O(1) below the limit, else O(clients).
    pub(crate) fn keep_clients_below(&self, limit: u64, now: Now) {
        let sums = self.memory.clients.iter();
        let sum: i64 = sums.map(|sum| sum.0.load(Ordering::Relaxed)).sum();
        if sum > limit as i64 {
            self.evict_clients(limit as i64, now);
        }
    }

    #[cold]
    fn evict_clients(&self, limit: i64, now: Now) {
        // One loop at a time, so that no two of them disconnect clients for the same bytes.
        let Some(_only) = self.memory.evicting_clients.try_lock() else {
            return;
        };
        let mut all: Vec<(i64, Arc<ClientInfo>)> = self
            .clients
            .list()
            .into_iter()
            .map(|client| (counted(&client), client))
            .collect();
        let mut sum: i64 = all.iter().map(|(bytes, _)| bytes).sum();
        all.retain(|(bytes, client)| *bytes > 0 && !client.no_evict.load(Ordering::Relaxed));
        all.sort_unstable_by_key(|(bytes, _)| Reverse(*bytes));
        for (bytes, client) in all {
            if sum <= limit {
                break;
            }
            sum -= bytes;
            let text = line(&client, now.read_ms());
            log::notice!(
                self.logger,
                "Evicting client: {}",
                String::from_utf8_lossy(&text)
            );
            self.clients.kill(&client);
            self.memory.evicted_clients.fetch_add(1, Ordering::Relaxed);
            self.mailboxes[client.loop_number].order(Order::Kill {
                client: client.id,
                slot: client.slot,
            });
        }
    }
}
