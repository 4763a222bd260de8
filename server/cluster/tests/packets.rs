//! Packets: what is written is read again, and no bytes cause a panic.

use proptest::collection::vec;
use proptest::prelude::*;
use punctual_cluster::NodeId;
use punctual_cluster::nodes::Flags;
use punctual_cluster::packet::{
    Beat, Body, EXTENDED, Extension, Gossip, Header, Heartbeat, Packet, PacketError, frame,
};
use punctual_cluster::slot::{SLOTS, SlotSet};

fn id() -> impl Strategy<Value = NodeId> {
    any::<[u8; 20]>().prop_map(NodeId::new)
}

fn slots() -> impl Strategy<Value = SlotSet> {
    vec(0..SLOTS, 0..50).prop_map(SlotSet::from_iter)
}

fn host() -> &'static str {
    "[0-9a-z.:_-]{0,45}"
}

prop_compose! {
    fn header()(
        sender in id(),
        ports in any::<(u16, u16, u16)>(),
        host in host(),
        numbers in any::<(u64, u64, u64)>(),
        slots in slots(),
        primary in proptest::option::of(id().prop_filter("not zero", |id| *id != NodeId::new([0; 20]))),
        flags in any::<u16>(),
        failed in any::<bool>(),
        message_flags in any::<u8>(),
    ) -> Header {
        Header {
            sender,
            port: ports.0,
            other_port: ports.1,
            bus_port: ports.2,
            host,
            current_epoch: numbers.0,
            config_epoch: numbers.1,
            offset: numbers.2,
            slots,
            primary,
            flags: Flags(flags),
            failed,
            message_flags: message_flags | EXTENDED,
        }
    }
}

prop_compose! {
    fn gossip()(
        id in id(),
        times in any::<(u32, u32)>(),
        host in host(),
        ports in any::<(u16, u16, u16)>(),
        flags in any::<u16>(),
    ) -> Gossip {
        Gossip {
            id,
            ping_sent_s: times.0,
            pong_received_s: times.1,
            host,
            port: ports.0,
            bus_port: ports.1,
            flags: Flags(flags),
            other_port: ports.2,
        }
    }
}

fn extension() -> impl Strategy<Value = Extension> {
    prop_oneof![
        "[0-9a-z._-]{0,255}".prop_map(Extension::Hostname),
        "[0-9a-z._-]{0,255}".prop_map(Extension::Name),
        (id(), any::<u64>()).prop_map(|(id, ttl_s)| Extension::Forgotten { id, ttl_s }),
        id().prop_map(Extension::Shard),
    ]
}

fn publication() -> impl Strategy<Value = Body> {
    let parts = (
        vec(any::<u8>(), 0..40),
        vec(any::<u8>(), 0..90),
        any::<bool>(),
    );
    parts.prop_map(|(channel, message, sharded)| Body::Publish {
        channel,
        message,
        sharded,
    })
}

fn body() -> impl Strategy<Value = Body> {
    let beat = prop_oneof![Just(Beat::Ping), Just(Beat::Pong), Just(Beat::Meet)];
    prop_oneof![
        (beat, vec(gossip(), 0..4), vec(extension(), 0..4)).prop_map(
            |(beat, gossip, extensions)| {
                Body::Heartbeat(beat, Heartbeat { gossip, extensions })
            }
        ),
        id().prop_map(Body::Fail),
        publication(),
        Just(Body::AuthRequest),
        Just(Body::AuthAck),
        Just(Body::ManualStart),
        (any::<u64>(), id(), slots()).prop_map(|(config_epoch, owner, slots)| Body::Update {
            config_epoch,
            owner,
            slots,
        }),
    ]
}

fn packet() -> impl Strategy<Value = Packet> {
    let whole = (header(), body()).prop_map(|(header, body)| Packet {
        header: Some(Box::new(header)),
        body,
    });
    let light = publication().prop_map(|body| Packet { header: None, body });
    prop_oneof![8 => whole, 1 => light]
}

proptest! {
    #[test]
    fn packets_come_back(packet in packet(), cut in any::<prop::sample::Index>()) {
        let mut bytes = Vec::new();
        packet.encode(&mut bytes);
        prop_assert_eq!(frame(&bytes), Ok(Some(bytes.len())));
        prop_assert_eq!(Packet::decode(&bytes), Ok(packet));
        let cut = &bytes[..cut.index(bytes.len())];
        prop_assert!(frame(cut).is_ok_and(|length| length.is_none_or(|length| length == bytes.len())));
        prop_assert!(Packet::decode(cut).is_err());
    }

    #[test]
    fn damaged_packets_cause_no_panic(
        packet in packet(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = Vec::new();
        packet.encode(&mut bytes);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(packet) = Packet::decode(&bytes) {
            let mut again = Vec::new();
            packet.encode(&mut again);
            prop_assert_eq!(Packet::decode(&again), Ok(packet));
        }
    }

    #[test]
    fn random_bytes_cause_no_panic(bytes in vec(any::<u8>(), 0..3_000)) {
        let _ = frame(&bytes);
        let _ = Packet::decode(&bytes);
    }
}

#[test]
fn other_streams_are_refused_at_their_first_byte() {
    assert_eq!(frame(b"R"), Ok(None));
    assert_eq!(frame(b"GET / HTTP/1.1"), Err(PacketError::Stream));
    assert_eq!(
        frame(b"RCmb\0\0\0\x10\0\x01\0\0\0\0"),
        Err(PacketError::Stream)
    );
}
