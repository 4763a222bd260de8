//! Starts a real redis-server to compare with.

use std::ops::Deref;

use punctual_harness::{Peer, Process};

/// A redis-server that is killed on drop. Its folder is temporary, unless the options set another.
pub struct Redis(Process);

impl Redis {
    /// Starts redis-server with these options. Panics if it is not installed.
    #[track_caller]
    pub fn start(options: &[&str]) -> Self {
        Self(Peer::Redis7.start(options).expect("installed"))
    }

    /// Starts a server that `scripts/setup peers` installs. Returns `None` if it is not installed.
    #[track_caller]
    pub fn start_peer(peer: Peer) -> Option<Self> {
        peer.start(&[]).map(Self)
    }
}

impl Deref for Redis {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.0
    }
}
