//! A copy of what nodes send to one port, for a check that reads their protocol.

use super::Kernel;
use super::streams::EndId;

/// The port, and the bytes since the driver last looked, in the order of sending.
#[derive(Debug, Default)]
pub struct Tap {
    pub port: Option<u16>,
    pub taken: Vec<(EndId, Vec<u8>)>,
}

impl Kernel {
    /// Copies bytes that an end sends on a connection to the port.
    pub fn copy_to_tap(&mut self, id: EndId, bytes: &[u8]) {
        let accepts = &self.network.connections[id.connection].ends[1];
        if Some(accepts.address.port) == self.network.tap.port {
            self.network.tap.taken.push((id, bytes.to_vec()));
        }
    }
}
