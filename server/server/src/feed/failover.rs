//! FAILOVER: this server and one of its replicas exchange their roles. Without FORCE, no write is
//! lost.
//!
//! FAILOVER pauses writes. When a replica has acknowledged the whole stream, loop 0 makes this
//! server a replica of that replica, in its upkeep of replicas. The PSYNC of this server announces
//! the failover, and makes the other server a primary. An accepted PSYNC ends the failover, and
//! a refused one aborts it.

use std::sync::Arc;

use punctual_store::Turn;

use crate::client::pause::Purpose;
use crate::log;
use crate::node::Shared;
use crate::node::order::Order;
use crate::replication::failover::Plan;
use crate::replication::replica::Replica;
use crate::replication::upstream::Address;

/// Returns the replica that announces this address.
pub(crate) fn find(shared: &Shared, address: &Address) -> Option<Arc<Replica>> {
    let mut all = shared.replication.replicas.all().into_iter();
    all.find(|replica| replica.ip() == address.host && replica.peer.port == u32::from(address.port))
}

fn address(replica: &Replica) -> Option<Address> {
    Some(Address {
        host: replica.ip().to_owned(),
        port: u16::try_from(replica.peer.port).ok()?,
    })
}

impl Shared {
    /// Begins a failover by pausing writes.
    pub(crate) fn plan_failover(&self, turn: &Turn, plan: Plan) {
        match &plan.target {
            Some(target) => log::notice!(self.logger, "FAILOVER requested to {target}."),
            None => log::notice!(self.logger, "FAILOVER requested."),
        }
        let writes_only = true;
        self.clients
            .pauses
            .begin(Purpose::Failover, turn.now, u64::MAX, writes_only);
        *self.replication.failover.0.lock() = Some(plan);
        self.request_upkeep();
    }

    fn end_failover(&self) {
        *self.replication.failover.0.lock() = None;
        self.clients.pauses.end(Purpose::Failover);
        self.order_all(|| Order::Resume);
    }

    /// Aborts the failover, if there is one. If this server already follows the target, it becomes
    /// a primary again.
    pub(crate) fn abort_failover(&self, turn: &mut Turn, reason: &str) {
        let state = self.replication.failover.state();
        let Some(plan) = self.replication.failover.0.lock().clone() else {
            return;
        };
        match &plan.target {
            Some(target) => log::notice!(
                self.logger,
                "Aborting failover to {target} while {state}: {reason}"
            ),
            None => log::notice!(self.logger, "Aborting failover while {state}: {reason}"),
        }
        if plan.in_progress {
            self.promote(turn);
            self.remember_primary(None);
        }
        self.end_failover();
    }

    /// Processes the answer of the target to the PSYNC of this server.
    pub(crate) fn failover_answered(&self, turn: &mut Turn, accepted: bool) {
        if !self.replication.failover.is_in_progress() {
        } else if accepted {
            self.end_failover();
        } else {
            self.abort_failover(turn, "Failover target rejected psync request");
        }
    }

    /// Takes the next step of a failover if it is due. Returns the time of the next check, in
    /// milliseconds of the stopwatch.
    pub(crate) fn advance_failover(self: &Arc<Self>, turn: &mut Turn) -> Option<u64> {
        let plan = self.replication.failover.0.lock().clone();
        let plan = plan.filter(|plan| !plan.in_progress)?;
        let late = plan
            .end_ms
            .is_some_and(|end_ms| self.world.stopwatch_ms() >= end_ms);
        if late && !plan.force {
            self.abort_failover(turn, "Replica never caught up before timeout");
            return None;
        }
        // With every shard locked, no turn has an unfinished write, and the pause prevents further
        // writes.
        turn.lock_all();
        let offset = self.replication.offset();
        let caught_up = |replica: &Arc<Replica>| replica.is_online() && replica.acked() == offset;
        let ready = match &plan.target {
            Some(target) => find(self, target).filter(caught_up),
            None => self.replication.replicas.all().into_iter().find(caught_up),
        };
        let target = match ready {
            Some(replica) => {
                let target = address(&replica);
                log::notice!(
                    self.logger,
                    "Failover target {replica} is synced, failing over."
                );
                target
            }
            None if late => {
                if let Some(target) = &plan.target {
                    log::notice!(
                        self.logger,
                        "Failover to {target} time out exceeded, failing over."
                    );
                }
                plan.target.clone()
            }
            None => None,
        };
        if let Some(target) = target {
            if let Some(plan) = &mut *self.replication.failover.0.lock() {
                plan.in_progress = true;
                plan.target = Some(target.clone());
            }
            self.follow(turn, target.clone());
            self.remember_primary(Some(&target));
            turn.release();
            return None;
        }
        turn.release();
        plan.end_ms
    }
}
