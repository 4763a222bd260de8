//! What the server remembers of one client.

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual_resp::Protocol;

use crate::clients::ClientInfo;
use crate::table::Entry;

/// Which replies a client wants (CLIENT REPLY).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyMode {
    /// All.
    On,
    /// None.
    Off,
    /// Not this one's (the CLIENT REPLY SKIP itself); then [`ReplyMode::SkipNext`].
    Skip,
    /// Not the next one's.
    SkipNext,
}

/// A client's state. Owned by its event loop.
pub struct Session {
    /// Number of the client, never used twice.
    pub id: u64,
    /// What other loops may see.
    pub info: Arc<ClientInfo>,
    /// Selected database.
    pub db: usize,
    /// RESP2 or RESP3.
    pub protocol: Protocol,
    /// Whether it may run commands.
    pub authenticated: bool,
    /// Which replies it wants.
    pub reply_mode: ReplyMode,
    /// CLIENT NO-TOUCH.
    pub no_touch: bool,
    /// CLIENT NO-EVICT.
    pub no_evict: bool,
    /// Receives every command (MONITOR).
    pub monitor: bool,
    /// Close after what is in the output buffer is written.
    pub closing: bool,
    /// Channels.
    pub channels: BTreeSet<Box<[u8]>>,
    /// Patterns.
    pub patterns: BTreeSet<Box<[u8]>>,
    /// Shard channels.
    pub shard_channels: BTreeSet<Box<[u8]>>,
    /// The command that ran last: the next one is often the same.
    pub last: Option<&'static Entry>,
}

impl Session {
    /// A new client's.
    pub fn new(info: Arc<ClientInfo>, authenticated: bool) -> Self {
        Self {
            id: info.id,
            info,
            db: 0,
            protocol: Protocol::Resp2,
            authenticated,
            reply_mode: ReplyMode::On,
            no_touch: false,
            no_evict: false,
            monitor: false,
            closing: false,
            channels: BTreeSet::new(),
            patterns: BTreeSet::new(),
            shard_channels: BTreeSet::new(),
            last: None,
        }
    }

    /// How many subscriptions of all kinds.
    pub fn subscriptions(&self) -> usize {
        self.channels.len() + self.patterns.len() + self.shard_channels.len()
    }

    /// Whether only subscribing commands are allowed: RESP2 cannot tell messages from replies.
    pub fn in_subscribed_mode(&self) -> bool {
        self.protocol == Protocol::Resp2 && self.subscriptions() > 0
    }
}
