//! State of the command FAILOVER.

use parking_lot::Mutex;

use crate::replication::upstream::Address;

/// The planned failover, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Failover(pub(crate) Mutex<Option<Plan>>);

/// Parameters and progress of a FAILOVER.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The replica to promote; `None` for the first replica that has all data.
    pub(crate) target: Option<Address>,
    /// Promote the replica at `end_ms` even if it lags.
    pub(crate) force: bool,
    /// Time limit in milliseconds of the stopwatch; `None` without a limit.
    pub(crate) end_ms: Option<u64>,
    /// This server already follows the replica and waits for its reply.
    pub(crate) in_progress: bool,
}

impl Failover {
    /// Returns Redis's name of the state, which INFO shows.
    pub(crate) fn state(&self) -> &'static str {
        match &*self.0.lock() {
            None => "no-failover",
            Some(plan) if plan.in_progress => "failover-in-progress",
            Some(_) => "waiting-for-sync",
        }
    }

    /// Returns true if a failover is planned.
    pub(crate) fn is_planned(&self) -> bool {
        self.0.lock().is_some()
    }

    /// Returns true if this server follows the replica and waits for its reply.
    pub(crate) fn is_in_progress(&self) -> bool {
        self.0.lock().as_ref().is_some_and(|plan| plan.in_progress)
    }
}
