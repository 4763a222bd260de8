//! Wrong changes that the simulation (`tests/sim`) plants in this crate, to test its checks.
//!
//! Without `--cfg sim_bug` no bug is ever active: [`Bug::is_active`] is the constant false, and the
//! compiler removes what depends on it. With the cfg, a number of the process selects one bug.

/// Defines a list of wrong changes, for this crate and for the store.
#[doc(hidden)]
#[macro_export]
macro_rules! planted_bugs {
    ($(#[$about:meta])* pub enum $Bug:ident { $($(#[$what:meta])* $Name:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $Bug {
            $($(#[$what])* $Name,)*
        }

        #[cfg(not(sim_bug))]
        impl $Bug {
            /// Returns false.
            #[inline(always)]
            #[must_use]
            pub const fn is_active(self) -> bool {
                false
            }
        }

        /// Number of the active bug in the list of all bugs.
        #[cfg(sim_bug)]
        static ACTIVE: ::std::sync::atomic::AtomicUsize =
            ::std::sync::atomic::AtomicUsize::new(usize::MAX);

        #[cfg(sim_bug)]
        impl $Bug {
            /// All bugs.
            pub const ALL: &'static [Self] = &[$(Self::$Name),*];

            /// Makes this bug the active one of the process.
            pub fn plant(self) {
                ACTIVE.store(self as usize, ::std::sync::atomic::Ordering::Relaxed);
            }

            /// Returns whether this bug is planted.
            #[must_use]
            pub fn is_active(self) -> bool {
                ACTIVE.load(::std::sync::atomic::Ordering::Relaxed) == self as usize
            }
        }
    };
}

planted_bugs! {
    /// A wrong change of the state machine.
    pub enum Bug {
        /// A node votes for each candidate of an epoch.
        VotesTwice,
        /// A vote is sent before it is saved.
        VoteNotSaved,
        /// An elected replica keeps its primary's epoch.
        EpochKept,
    }
}
