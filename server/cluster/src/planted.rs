//! Wrong changes that the simulation (`tests/sim`) plants in this crate, to test its checks.
//!
//! Without `--cfg sim_bug` no bug is ever active: [`Bug::is_active`] is the constant false, and the
//! compiler removes what depends on it. With the cfg, a number of the process selects one bug.

/// A wrong change of the state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A node votes for each candidate of an epoch.
    VotesTwice,
    /// A vote is sent before it is saved.
    VoteNotSaved,
    /// An elected replica keeps its primary's epoch.
    EpochKept,
}

#[cfg(not(sim_bug))]
impl Bug {
    /// Returns false.
    #[inline(always)]
    #[must_use]
    pub const fn is_active(self) -> bool {
        false
    }
}

#[cfg(sim_bug)]
mod active {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::Bug;

    /// Number of the active bug in [`Bug::ALL`].
    static ACTIVE: AtomicUsize = AtomicUsize::new(usize::MAX);

    impl Bug {
        /// All bugs.
        pub const ALL: [Self; 3] = [Self::VotesTwice, Self::VoteNotSaved, Self::EpochKept];

        /// Makes this bug the active one of the process.
        pub fn plant(self) {
            ACTIVE.store(self as usize, Ordering::Relaxed);
        }

        /// Returns whether this bug is planted.
        #[must_use]
        pub fn is_active(self) -> bool {
            ACTIVE.load(Ordering::Relaxed) == self as usize
        }
    }
}
