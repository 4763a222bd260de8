//! Bytes of the bus to packets.

use super::{
    Beat, Body, EXTENDED, Extension, GOSSIP_BYTES, Gossip, HEADER_BYTES, HOST_BYTES, Header,
    Heartbeat, LIGHT_BYTES, Packet, at, is_host, is_name, kind,
};
use crate::NodeId;
use crate::nodes::Flags;
use crate::slot::{SET_BYTES, SlotSet};

/// Error of bytes that are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PacketError {
    /// The first bytes are not `RCmb`, or the length is shorter than a header. The stream cannot be
    /// read on.
    #[error("the bytes do not begin a packet of the cluster bus")]
    Stream,
    /// The version is not 1. The receiver skips the packet.
    #[error("the packet has version {0}")]
    Version(u16),
    /// The lengths in the packet contradict each other.
    #[error("the packet's length does not fit its contents")]
    Length,
    /// A field has a value that the protocol does not allow.
    #[error("the packet's {0} is invalid")]
    Field(&'static str),
}

/// Returns the length of the first packet in `bytes`, which may be incomplete. Returns `None` if
/// fewer than 14 bytes have arrived. O(1).
///
/// # Errors
/// [`PacketError::Stream`]; the caller must close the connection.
pub fn frame(bytes: &[u8]) -> Result<Option<usize>, PacketError> {
    let known = bytes.len().min(4);
    if bytes[..known] != b"RCmb"[..known] {
        return Err(PacketError::Stream);
    }
    if bytes.len() < at::COUNT {
        return Ok(None);
    }
    let mut reader = Reader(&bytes[at::LENGTH..]);
    let length = reader.u32()? as usize;
    let is_light = Reader(&bytes[at::TYPE..]).u16()? & kind::LIGHT != 0;
    let least = if is_light { LIGHT_BYTES } else { HEADER_BYTES };
    if length < least {
        return Err(PacketError::Stream);
    }
    Ok(Some(length))
}

/// The rest of a packet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], PacketError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(PacketError::Length)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], PacketError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(PacketError::Length)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8, PacketError> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    fn u16(&mut self) -> Result<u16, PacketError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, PacketError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, PacketError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    fn id(&mut self) -> Result<NodeId, PacketError> {
        NodeId::from_digits(self.take(40)?).map_err(|_| PacketError::Field("node ID"))
    }

    /// Reads an ID, or 40 zeros, which stand for no node.
    fn optional_id(&mut self) -> Result<Option<NodeId>, PacketError> {
        if self.0.get(..40).is_some_and(|id| id == [0; 40]) {
            self.take(40)?;
            return Ok(None);
        }
        self.id().map(Some)
    }

    fn host(&mut self) -> Result<String, PacketError> {
        let text = until_zero(self.take(HOST_BYTES)?);
        if !is_host(text) {
            return Err(PacketError::Field("host"));
        }
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    fn slots(&mut self) -> Result<SlotSet, PacketError> {
        Ok(SlotSet::from_bytes(&self.array::<SET_BYTES>()?))
    }

    fn flags(&mut self) -> Result<Flags, PacketError> {
        Ok(Flags(self.u16()?))
    }

    fn end(&self) -> Result<(), PacketError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(PacketError::Length)
        }
    }
}

fn until_zero(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| *byte == 0);
    &text[..end.unwrap_or(text.len())]
}

impl Packet {
    /// Reads a packet, whose length [`frame`] has returned. O(length).
    ///
    /// # Errors
    /// The bytes are no packet of this protocol.
    pub fn decode(bytes: &[u8]) -> Result<Self, PacketError> {
        if frame(bytes)? != Some(bytes.len()) {
            return Err(PacketError::Length);
        }
        let version = Reader(&bytes[at::VERSION..]).u16()?;
        if version != 1 {
            return Err(PacketError::Version(version));
        }
        let number = Reader(&bytes[at::TYPE..]).u16()?;
        if number & kind::LIGHT != 0 {
            let body = body(number & !kind::LIGHT, &mut Reader(&bytes[LIGHT_BYTES..]))?;
            return Ok(Self { header: None, body });
        }
        let mut rest = Reader(&bytes[HEADER_BYTES..]);
        let beat = match number {
            kind::PING => Some(Beat::Ping),
            kind::PONG => Some(Beat::Pong),
            kind::MEET => Some(Beat::Meet),
            _ => None,
        };
        let header = header(bytes)?;
        let body = match beat {
            Some(beat) => {
                let gossips = Reader(&bytes[at::COUNT..]).u16()?;
                let extensions = Reader(&bytes[at::EXTENSIONS..]).u16()?;
                let has_extensions = header.message_flags & EXTENDED != 0;
                let extensions = if has_extensions { extensions } else { 0 };
                Body::Heartbeat(beat, heartbeat(gossips, extensions, &mut rest)?)
            }
            None => body(number, &mut rest)?,
        };
        Ok(Self {
            header: Some(Box::new(header)),
            body,
        })
    }
}

fn header(bytes: &[u8]) -> Result<Header, PacketError> {
    let field = |at: usize| Reader(bytes.get(at..).unwrap_or_default());
    Ok(Header {
        sender: field(at::SENDER).id()?,
        port: field(at::PORT).u16()?,
        other_port: field(at::OTHER_PORT).u16()?,
        bus_port: field(at::BUS_PORT).u16()?,
        host: field(at::HOST).host()?,
        current_epoch: field(at::CURRENT_EPOCH).u64()?,
        config_epoch: field(at::CONFIG_EPOCH).u64()?,
        offset: field(at::OFFSET).u64()?,
        slots: field(at::SLOTS).slots()?,
        primary: field(at::PRIMARY).optional_id()?,
        flags: field(at::FLAGS).flags()?,
        failed: field(at::STATE).u8()? != 0,
        message_flags: field(at::MESSAGE_FLAGS).u8()?,
    })
}

fn heartbeat(
    gossips: u16,
    extensions: u16,
    rest: &mut Reader<'_>,
) -> Result<Heartbeat, PacketError> {
    if rest.0.len() < usize::from(gossips) * GOSSIP_BYTES {
        return Err(PacketError::Length);
    }
    let mut beat = Heartbeat::default();
    for _ in 0..gossips {
        beat.gossip.push(gossip(rest)?);
    }
    for _ in 0..extensions {
        beat.extensions.extend(extension(rest)?);
    }
    rest.end()?;
    Ok(beat)
}

fn gossip(rest: &mut Reader<'_>) -> Result<Gossip, PacketError> {
    let gossip = Gossip {
        id: rest.id()?,
        ping_sent_s: rest.u32()?,
        pong_received_s: rest.u32()?,
        host: rest.host()?,
        port: rest.u16()?,
        bus_port: rest.u16()?,
        flags: rest.flags()?,
        other_port: rest.u16()?,
    };
    rest.u16()?;
    Ok(gossip)
}

/// Reads an extension. Returns `None` if its type is unknown.
fn extension(rest: &mut Reader<'_>) -> Result<Option<Extension>, PacketError> {
    let length = rest.u32()? as usize;
    let number = rest.u16()?;
    rest.u16()?;
    if !length.is_multiple_of(8) {
        return Err(PacketError::Length);
    }
    let content = length.checked_sub(8).ok_or(PacketError::Length)?;
    let mut content = Reader(rest.take(content)?);
    let name = |content: Reader<'_>| {
        let text = until_zero(content.0);
        if is_name(text) {
            Ok(String::from_utf8_lossy(text).into_owned())
        } else {
            Err(PacketError::Field("name"))
        }
    };
    Ok(Some(match number {
        0 => Extension::Hostname(name(content)?),
        1 => Extension::Name(name(content)?),
        2 => Extension::Forgotten {
            id: content.id()?,
            ttl_s: content.u64()?,
        },
        3 => Extension::Shard(content.id()?),
        _ => return Ok(None),
    }))
}

/// Reads a body that is no heartbeat.
fn body(number: u16, rest: &mut Reader<'_>) -> Result<Body, PacketError> {
    let body = match number {
        kind::FAIL => Body::Fail(rest.id()?),
        kind::PUBLISH | kind::PUBLISH_SHARD => {
            let (channel, message) = (rest.u32()? as usize, rest.u32()? as usize);
            Body::Publish {
                channel: rest.take(channel)?.to_vec(),
                message: rest.take(message)?.to_vec(),
                sharded: number == kind::PUBLISH_SHARD,
            }
        }
        kind::AUTH_REQUEST => Body::AuthRequest,
        kind::AUTH_ACK => Body::AuthAck,
        kind::UPDATE => Body::Update {
            config_epoch: rest.u64()?,
            owner: rest.id()?,
            slots: rest.slots()?,
        },
        kind::MANUAL_START => Body::ManualStart,
        other => {
            rest.0 = &[];
            Body::Other(other)
        }
    };
    rest.end()?;
    Ok(body)
}
