//! Limits of memory: a fault sets `maxmemory` near the bytes that a node uses, so that the node
//! evicts keys or refuses commands.

use crate::kernel::NodeId;
use crate::kernel::draws::Draws;
use crate::run::Driver;
use crate::{usage, world};

/// What a node at its limit may evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evicts {
    /// There is no limit.
    Unlimited,
    /// Nothing: commands that need memory are refused.
    Nothing,
    /// Keys with a deadline.
    Volatile,
    /// All keys besides timers and queues.
    All,
}

impl Evicts {
    /// Draws a policy; `may_lose` tells whether keys without a deadline may go.
    pub fn draw(draws: &mut Draws, may_lose: bool) -> (Self, &'static str) {
        use Evicts::{All, Nothing, Unlimited, Volatile};
        let policies = [
            (Nothing, "noeviction"),
            (Volatile, "volatile-lru"),
            (Volatile, "volatile-ttl"),
            (Volatile, "volatile-random"),
            (All, "allkeys-lfu"),
            (All, "allkeys-random"),
        ];
        let limited = draws.chance(300_000);
        let policy = draws.one_of(&policies);
        match limited && (may_lose || policy.0 != All) {
            true => policy,
            false => (Unlimited, "noeviction"),
        }
    }
}

impl Driver {
    /// Limits the memory of a node to about the bytes that it uses, or ends the limit.
    pub fn squeeze(&mut self, node: NodeId) {
        let used = world::with(|kernel| usage::bytes_of(kernel.nodes[node].life)) as i64;
        let more = self
            .draws
            .one_of(&[-(64 << 10), 0, 4 << 10, 32 << 10, 256 << 10, i64::MIN]);
        self.limit(node, used.saturating_add(more).max(0));
    }

    /// Ends the limits of all nodes.
    pub fn end_limits(&mut self) {
        if self.plan.evicts != Evicts::Unlimited {
            (1..=self.plan.nodes).for_each(|node| self.limit(node, 0));
        }
    }

    fn limit(&mut self, node: NodeId, bytes: i64) {
        self.chores
            .send(node, &["CONFIG", "SET", "maxmemory", &bytes.to_string()]);
    }
}
