//! The limit `maxmemory-clients`.
//!
//! While the limit is set, each loop keeps the sum of its clients' memory, and corrects the sum
//! after it has served a client. A loop that finds the sum of all loops above the limit disconnects
//! the largest clients. From then on these clients count 0, although their loops free their memory
//! slightly later.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::client::registry::{ClientInfo, ClientType, Clients};
use crate::memory::Memory;

/// Returns the bytes that count for a client. As in Redis, replicas and the primary count 0.
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

    /// Returns the bytes of all clients of all loops.
    pub(crate) fn client_bytes(&self) -> i64 {
        let sums = self.clients.iter();
        sums.map(|sum| sum.0.load(Ordering::Relaxed)).sum()
    }

    /// Calls `disconnect` with the largest clients, except those with CLIENT NO-EVICT, until the
    /// remaining clients have at most `limit` bytes. O(clients · log clients).
    #[cold]
    pub(crate) fn evict_clients(
        &self,
        clients: &Clients,
        limit: i64,
        mut disconnect: impl FnMut(&ClientInfo),
    ) {
        // Only one loop at a time disconnects clients. A second loop would see the same excess and
        // disconnect more clients than necessary.
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
