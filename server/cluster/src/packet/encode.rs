//! Packets to bytes of the bus.

use super::{
    Beat, Body, Extension, GOSSIP_BYTES, Gossip, HEADER_BYTES, HOST_BYTES, Header, Heartbeat,
    LIGHT_BYTES, Packet, at, kind,
};
use crate::NodeId;
use crate::slot::SET_BYTES;

impl Packet {
    /// Appends the packet's bytes. O(length). Hosts are cut at 45 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.reserve(self.size_hint());
        match &self.header {
            Some(header) => header.write(out),
            None => out.resize(start + LIGHT_BYTES, 0),
        }
        let mut number = self.body.number();
        if self.header.is_none() {
            number |= kind::LIGHT;
        }
        match &self.body {
            Body::Heartbeat(_, beat) => {
                put(
                    out,
                    start + at::COUNT,
                    &(beat.gossip.len() as u16).to_be_bytes(),
                );
                if self.header.is_some() {
                    let count = beat.extensions.len() as u16;
                    put(out, start + at::EXTENSIONS, &count.to_be_bytes());
                }
                beat.write(out);
            }
            Body::Fail(id) => out.extend(id.digits()),
            Body::Publish {
                channel, message, ..
            } => {
                out.extend((channel.len() as u32).to_be_bytes());
                out.extend((message.len() as u32).to_be_bytes());
                out.extend(channel);
                out.extend(message);
            }
            Body::Update {
                config_epoch,
                owner,
                slots,
            } => {
                out.extend(config_epoch.to_be_bytes());
                out.extend(owner.digits());
                slots.write(out);
            }
            Body::AuthRequest | Body::AuthAck | Body::ManualStart | Body::Other(_) => {}
        }
        let length = (out.len() - start) as u32;
        put(out, start, b"RCmb");
        put(out, start + at::LENGTH, &length.to_be_bytes());
        put(out, start + at::VERSION, &1u16.to_be_bytes());
        put(out, start + at::TYPE, &number.to_be_bytes());
    }
}

impl Packet {
    /// Returns the packet's length without extensions and messages.
    fn size_hint(&self) -> usize {
        let header = match self.header {
            Some(_) => HEADER_BYTES,
            None => LIGHT_BYTES,
        };
        match &self.body {
            Body::Heartbeat(_, beat) => header + beat.gossip.len() * GOSSIP_BYTES + 64,
            _ => header,
        }
    }
}

impl Body {
    /// Returns the number of the packet's type on the bus.
    pub(crate) fn number(&self) -> u16 {
        match self {
            Body::Heartbeat(Beat::Ping, _) => kind::PING,
            Body::Heartbeat(Beat::Pong, _) => kind::PONG,
            Body::Heartbeat(Beat::Meet, _) => kind::MEET,
            Body::Fail(_) => kind::FAIL,
            Body::Publish { sharded: false, .. } => kind::PUBLISH,
            Body::Publish { sharded: true, .. } => kind::PUBLISH_SHARD,
            Body::AuthRequest => kind::AUTH_REQUEST,
            Body::AuthAck => kind::AUTH_ACK,
            Body::Update { .. } => kind::UPDATE,
            Body::ManualStart => kind::MANUAL_START,
            Body::Other(number) => *number & !kind::LIGHT,
        }
    }
}

fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    out[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Returns a host in the bytes that header and gossip have for it.
fn host_bytes(host: &str) -> [u8; HOST_BYTES] {
    let mut bytes = [0; HOST_BYTES];
    let length = host.len().min(HOST_BYTES - 1);
    bytes[..length].copy_from_slice(&host.as_bytes()[..length]);
    bytes
}

impl Header {
    fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + HEADER_BYTES, 0);
        let out = &mut out[start..];
        put(out, at::PORT, &self.port.to_be_bytes());
        put(out, at::CURRENT_EPOCH, &self.current_epoch.to_be_bytes());
        put(out, at::CONFIG_EPOCH, &self.config_epoch.to_be_bytes());
        put(out, at::OFFSET, &self.offset.to_be_bytes());
        put(out, at::SENDER, &self.sender.digits());
        self.slots
            .write_to(&mut out[at::SLOTS..at::SLOTS + SET_BYTES]);
        let primary = self.primary.map_or([0; 40], NodeId::digits);
        put(out, at::PRIMARY, &primary);
        put(out, at::HOST, &host_bytes(&self.host));
        put(out, at::OTHER_PORT, &self.other_port.to_be_bytes());
        put(out, at::BUS_PORT, &self.bus_port.to_be_bytes());
        put(out, at::FLAGS, &self.flags.0.to_be_bytes());
        put(out, at::STATE, &[u8::from(self.failed)]);
        put(out, at::MESSAGE_FLAGS, &[self.message_flags]);
    }
}

impl Heartbeat {
    fn write(&self, out: &mut Vec<u8>) {
        self.gossip.iter().for_each(|gossip| gossip.write(out));
        self.extensions
            .iter()
            .for_each(|extension| extension.write(out));
    }
}

impl Gossip {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.id.digits());
        out.extend(self.ping_sent_s.to_be_bytes());
        out.extend(self.pong_received_s.to_be_bytes());
        out.extend(host_bytes(&self.host));
        out.extend(self.port.to_be_bytes());
        out.extend(self.bus_port.to_be_bytes());
        out.extend(self.flags.0.to_be_bytes());
        out.extend(self.other_port.to_be_bytes());
        out.extend([0; 2]);
    }
}

impl Extension {
    fn write(&self, out: &mut Vec<u8>) {
        // A text ends with a zero, and a content is padded to a multiple of eight bytes.
        let (number, mut content) = match self {
            Self::Hostname(name) => (0u16, [name.as_bytes(), &[0]].concat()),
            Self::Name(name) => (1, [name.as_bytes(), &[0]].concat()),
            Self::Forgotten { id, ttl_s } => (2, [&id.digits()[..], &ttl_s.to_be_bytes()].concat()),
            Self::Shard(id) => (3, id.digits().to_vec()),
        };
        content.resize(content.len().next_multiple_of(8), 0);
        out.extend((content.len() as u32 + 8).to_be_bytes());
        out.extend(number.to_be_bytes());
        out.extend([0; 2]);
        out.extend(content);
    }
}
