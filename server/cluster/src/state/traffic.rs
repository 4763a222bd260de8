//! Numbers of packets, for CLUSTER INFO.

use super::Machine;

/// Names of the types of packets in CLUSTER INFO, by their number on the bus.
const NAMES: [&str; 11] = [
    "ping",
    "pong",
    "meet",
    "fail",
    "publish",
    "auth-req",
    "auth-ack",
    "update",
    "mfstart",
    "module",
    "publishshard",
];

/// Numbers of packets of each type.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    pub(super) sent: Counters,
    pub(super) received: Counters,
}

#[derive(Debug, Default)]
pub(super) struct Counters([u64; NAMES.len()]);

impl Counters {
    /// Counts a packet. Types without a name are left out.
    pub(super) fn count(&mut self, number: u16) {
        if let Some(counter) = self.0.get_mut(usize::from(number)) {
            *counter += 1;
        }
    }

    fn seen(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = NAMES.into_iter().zip(self.0);
        all.filter(|(_, count)| *count > 0)
    }
}

impl Machine {
    /// Returns the types of the packets that were sent so far, each with its number.
    pub fn packets_sent(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.traffic.sent.seen()
    }

    /// Returns the types of the packets that were received so far, each with its number.
    pub fn packets_received(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.traffic.received.seen()
    }
}
