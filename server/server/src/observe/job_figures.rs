//! Numbers of jobs in all queues. A call counts a limited number of queues, and returns the result
//! of the last complete count. So with many queues, the numbers are slightly old.

use parking_lot::Mutex;
use punctual_store::{JobCensus, JobCounts, Turn};

/// Maximum number of queues that one call counts, which takes one or two milliseconds.
const QUEUES_MAX: usize = 4_000;

/// State of the running count, and the result of the last complete one.
#[derive(Debug, Default)]
pub(crate) struct JobFigures {
    census: Mutex<JobCensus>,
    last: Mutex<JobCounts>,
}

impl JobFigures {
    /// Continues the running count, unless another loop does. Returns the last complete count.
    pub(crate) fn count(&self, turn: &mut Turn) -> JobCounts {
        // A thread that holds the lock may wait for shards that this thread holds, so this thread
        // must not wait for the lock.
        if let Some(mut census) = self.census.try_lock()
            && let Some(counts) = turn.count_jobs(&mut census, QUEUES_MAX)
        {
            *self.last.lock() = counts;
        }
        *self.last.lock()
    }
}
