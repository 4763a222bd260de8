//! Packets of the cluster bus.
//!
//! A packet is a header of 2,256 bytes and a body; all numbers are big-endian. Header and gossip
//! are the same in Redis 3.0 to 8.2 and Valkey 9.1. Redis 7.0 added *extensions* after the gossip
//! of a heartbeat; Valkey 8 added a *light* header of 16 bytes for published messages.
//!
//! [`frame`] finds the end of a packet in a stream of bytes, [`Packet::decode`] reads it and
//! [`Packet::encode`] writes it. Unknown extensions and types are kept out, not refused. No bytes
//! cause a panic, and memory is proportional to the bytes.

mod decode;
mod encode;

pub use decode::{PacketError, frame};

use crate::NodeId;
use crate::nodes::Flags;
use crate::slot::SlotSet;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 2_256;
/// Bytes of a light header.
pub const LIGHT_BYTES: usize = 16;
/// Bytes of the gossip about one node.
pub const GOSSIP_BYTES: usize = 104;
/// Bytes of a host in header and gossip, including at least one zero.
pub const HOST_BYTES: usize = 46;

/// Offsets of fields in the header.
mod at {
    pub(super) const LENGTH: usize = 4;
    pub(super) const VERSION: usize = 8;
    pub(super) const PORT: usize = 10;
    pub(super) const TYPE: usize = 12;
    pub(super) const COUNT: usize = 14;
    pub(super) const CURRENT_EPOCH: usize = 16;
    pub(super) const CONFIG_EPOCH: usize = 24;
    pub(super) const OFFSET: usize = 32;
    pub(super) const SENDER: usize = 40;
    pub(super) const SLOTS: usize = 80;
    pub(super) const PRIMARY: usize = 2_128;
    pub(super) const HOST: usize = 2_168;
    pub(super) const EXTENSIONS: usize = 2_214;
    pub(super) const OTHER_PORT: usize = 2_246;
    pub(super) const BUS_PORT: usize = 2_248;
    pub(super) const FLAGS: usize = 2_250;
    pub(super) const STATE: usize = 2_252;
    pub(super) const MESSAGE_FLAGS: usize = 2_253;
}

/// Numbers of the types of packets.
mod kind {
    pub(super) const PING: u16 = 0;
    pub(super) const PONG: u16 = 1;
    pub(super) const MEET: u16 = 2;
    pub(super) const FAIL: u16 = 3;
    pub(super) const PUBLISH: u16 = 4;
    pub(super) const AUTH_REQUEST: u16 = 5;
    pub(super) const AUTH_ACK: u16 = 6;
    pub(super) const UPDATE: u16 = 7;
    pub(super) const MANUAL_START: u16 = 8;
    pub(super) const PUBLISH_SHARD: u16 = 10;
    /// Bit of the type of a packet with a light header.
    pub(super) const LIGHT: u16 = 0x8000;
}

/// A flag of the message: the primary has paused its clients for a manual failover.
pub const PAUSED: u8 = 1;
/// A flag of the message: the voters shall vote even if the primary is reachable.
pub const FORCE_ACK: u8 = 2;
/// A flag of the message: the sender knows extensions.
pub const EXTENDED: u8 = 4;

/// The sender's state, at the start of each packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// ID of the sender.
    pub sender: NodeId,
    /// Port for clients.
    pub port: u16,
    /// The second port for clients: the one without TLS if `port` is the one with TLS, or the
    /// reverse; 0 if there is only one.
    pub other_port: u16,
    /// Port of the bus.
    pub bus_port: u16,
    /// The announced host; empty if the receiver shall take the address of the connection.
    pub host: String,
    /// The largest epoch that the sender knows.
    pub current_epoch: u64,
    /// Epoch of the slots below.
    pub config_epoch: u64,
    /// Replication offset.
    pub offset: u64,
    /// Slots of the sender, or of its primary.
    pub slots: SlotSet,
    /// The sender's primary if it is a replica.
    pub primary: Option<NodeId>,
    /// Flags of the sender about itself.
    pub flags: Flags,
    /// Whether the sender sees the cluster as failed.
    pub failed: bool,
    /// [`PAUSED`], [`FORCE_ACK`] and [`EXTENDED`].
    pub message_flags: u8,
}

/// Type of a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beat {
    /// Asks for a pong.
    Ping,
    /// Answers a ping or a meet, or announces a change.
    Pong,
    /// A ping that also asks the receiver to add the sender to its table.
    Meet,
}

/// Gossip about a third node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gossip {
    /// ID of the node.
    pub id: NodeId,
    /// Unix time of the sender's ping that has no pong yet, in seconds; 0 without one.
    pub ping_sent_s: u32,
    /// Unix time of the last pong, in seconds.
    pub pong_received_s: u32,
    /// Host of the node.
    pub host: String,
    /// Port for clients.
    pub port: u16,
    /// Port of the bus.
    pub bus_port: u16,
    /// Flags of the node in the sender's table.
    pub flags: Flags,
    /// The second port for clients; 0 without one.
    pub other_port: u16,
}

/// An extension of a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extension {
    /// The sender's `cluster-announce-hostname`.
    Hostname(String),
    /// The sender's `cluster-announce-human-nodename`.
    Name(String),
    /// A node that the sender has forgotten.
    Forgotten {
        /// ID of the node.
        id: NodeId,
        /// Time for which the receiver shall not add the node, in seconds.
        ttl_s: u64,
    },
    /// ID of the sender's shard.
    Shard(NodeId),
}

/// Gossip and extensions of a ping, a pong or a meet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// Gossip about other nodes.
    pub gossip: Vec<Gossip>,
    /// Extensions; decoding skips unknown ones.
    pub extensions: Vec<Extension>,
}

/// The part of a packet after the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A ping, a pong or a meet.
    Heartbeat(Beat, Heartbeat),
    /// The majority sees this node as failed.
    Fail(NodeId),
    /// A message of PUBLISH, or of SPUBLISH if `sharded`.
    Publish {
        /// Name of the channel.
        channel: Vec<u8>,
        /// Content of the message.
        message: Vec<u8>,
        /// Whether the channel is sharded.
        sharded: bool,
    },
    /// A replica asks for a vote.
    AuthRequest,
    /// A primary's vote.
    AuthAck,
    /// The slots of a node, which the receiver seems not to know.
    Update {
        /// Epoch of these slots.
        config_epoch: u64,
        /// ID of the owner.
        owner: NodeId,
        /// The owner's slots.
        slots: SlotSet,
    },
    /// A replica asks its primary to pause clients for a manual failover.
    ManualStart,
    /// A message of a module, or of an unknown type. The receiver uses only the header.
    Other(u16),
}

/// One packet of the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The sender's state; `None` in a packet with a light header.
    pub header: Option<Box<Header>>,
    /// Content after the header.
    pub body: Body,
}

/// Returns whether a text can be a host: letters, digits, `-`, `.`, `_` and `:`, at most 45
/// bytes, so that it fits the bus and `nodes.conf`.
pub fn is_host(text: &[u8]) -> bool {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:".contains(byte);
    text.len() < HOST_BYTES && text.iter().all(allowed)
}

/// Returns whether a text can be a node's hostname or human name: letters, digits, `-`, `.` and
/// `_`, at most 255 bytes.
pub fn is_name(text: &[u8]) -> bool {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
    text.len() <= 255 && text.iter().all(allowed)
}
