//! Numbers of jobs in all queues, counted a few queues at a time.

use parking_lot::Mutex;
use punctual_store::{JobCensus, JobCounts, Turn};

/// Maximum number of queues that one call counts, in a millisecond or two.
const QUEUES_MAX: usize = 4_000;

/// Numbers of jobs, and the count that goes on.
#[derive(Debug, Default)]
pub(crate) struct JobFigures {
    census: Mutex<JobCensus>,
    last: Mutex<JobCounts>,
}

impl JobFigures {
    /// Counts on, unless another loop does. Returns the last whole count.
    pub(crate) fn renewed(&self, turn: &mut Turn) -> JobCounts {
        // Another thread that holds the lock waits for shards, so this one must not wait for the
        // lock.
        if let Some(mut census) = self.census.try_lock()
            && let Some(counts) = turn.count_jobs(&mut census, QUEUES_MAX)
        {
            *self.last.lock() = counts;
        }
        *self.last.lock()
    }
}
