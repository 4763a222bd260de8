//! Passes random bytes to the parser of the cluster bus.
//!
//! Properties: no bytes cause a panic. A packet that is read and written is the same when it is
//! read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use punctual_cluster::packet::{Packet, frame};

fuzz_target!(|bytes: &[u8]| {
    let _ = frame(bytes);
    // Most inputs begin with a valid start and length, so that the fuzzer reaches the fields.
    let mut framed = bytes.to_vec();
    if framed.len() >= 16 {
        let length = (framed.len() as u32).to_be_bytes();
        framed[..4].copy_from_slice(b"RCmb");
        framed[4..8].copy_from_slice(&length);
        framed[8..10].copy_from_slice(&[0, 1]);
    }
    if let Ok(packet) = Packet::decode(&framed) {
        let mut again = Vec::new();
        packet.encode(&mut again);
        assert_eq!(Packet::decode(&again), Ok(packet));
    }
});
