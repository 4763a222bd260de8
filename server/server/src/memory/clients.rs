//! The limit `maxmemory-clients`.
//!
//! While it is set, each loop adds up the memory of its clients, and corrects its sum for a client
//! after each turn in which the client was served. The loop that finds the sum of all loops above
//! the limit disconnects the largest clients. A client that is to be disconnected counts no more,
//! although its loop frees its memory a little later.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::client::registry::{ClientInfo, ClientType, Clients};
use crate::memory::Memory;

/// Returns the bytes that a client counts for: none for replicas and the primary, as in Redis.
pub(crate) fn counted(client: &ClientInfo) -> i64 {
    match client.client_type() {
        _ if client.killed.load(Ordering::Acquire) => 0,
        ClientType::Normal | ClientType::PubSub => client.memory() as i64,
        ClientType::Replica | ClientType::Master => 0,
    }
}

impl Memory {
    /// Adds to the sum of a loop's clients. Only that loop calls this.
    pub(crate) fn count_clients(&self, loop_number: usize, bytes: i64) {
        let sum = &self.clients[loop_number].0;
        sum.store(sum.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    }

    /// Returns the bytes of all clients.
    pub(crate) fn of_clients(&self) -> i64 {
        let sums = self.clients.iter();
        sums.map(|sum| sum.0.load(Ordering::Relaxed)).sum()
    }

    /// Calls `disconnect` with the largest clients, until the others have at most `limit` bytes.
    /// O(clients · log clients).
    #[cold]
    pub(crate) fn evict_clients(
        &self,
        clients: &Clients,
        limit: i64,
        mut disconnect: impl FnMut(&ClientInfo),
    ) {
        // One loop at a time, so that no two of them disconnect clients for the same bytes.
        let Some(_only) = self.evicting_clients.try_lock() else {
            return;
        };
        let mut all: Vec<(i64, Arc<ClientInfo>)> = clients
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
            self.evicted_clients.fetch_add(1, Ordering::Relaxed);
            disconnect(&client);
        }
    }
}
