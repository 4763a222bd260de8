//! The state of FAILOVER.

use parking_lot::Mutex;

use crate::replication::upstream::Address;

/// The planned failover.
#[derive(Debug, Default)]
pub(crate) struct Failover(pub(crate) Mutex<Option<Plan>>);

/// What FAILOVER asks for.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The replica; `None` for the first one that has everything.
    pub(crate) target: Option<Address>,
    /// Fail over at the end of the time although the replica lags.
    pub(crate) force: bool,
    /// End of the time, by the stopwatch.
    pub(crate) end_ms: Option<u64>,
    /// This server follows the replica already, and waits for its answer.
    pub(crate) in_progress: bool,
}

impl Failover {
    /// Returns Redis's name of the state (INFO).
    pub(crate) fn state(&self) -> &'static str {
        match &*self.0.lock() {
            None => "no-failover",
            Some(plan) if plan.in_progress => "failover-in-progress",
            Some(_) => "waiting-for-sync",
        }
    }

    /// Returns whether there is a plan.
    pub(crate) fn is_planned(&self) -> bool {
        self.0.lock().is_some()
    }

    /// Returns whether this server waits for the answer of the replica that it follows.
    pub(crate) fn is_in_progress(&self) -> bool {
        self.0.lock().as_ref().is_some_and(|plan| plan.in_progress)
    }
}
