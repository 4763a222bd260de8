//! Clients of several kinds, which the driver treats alike.

use crate::kernel::Nanos;
use crate::kernel::draws::Draws;
use crate::link::Link;
use crate::promises::Promises;
use crate::registers::Registers;
use crate::workers::Ledger;

/// What the parties know together.
pub struct Common {
    pub ledger: Ledger,
    pub registers: Registers,
    pub promises: Promises,
    /// Whether the time without faults has begun.
    pub drains: bool,
}

/// A client with one connection at a time.
pub trait Party {
    fn link(&mut self) -> &mut Link;

    /// Does the next thing. Returns the time after which to call this again; `None` if replies
    /// are missing.
    fn act(&mut self, common: &mut Common, draws: &mut Draws) -> Option<Nanos>;

    /// Handles a change of the connection. Returns true if the party can act again.
    fn changed(&mut self, common: &mut Common, draws: &mut Draws) -> bool;

    /// Gives up the connection.
    fn lose(&mut self);

    /// Returns a text about what the party still waits for, in the time without faults.
    fn missing(&self) -> Option<String> {
        None
    }

    /// Returns the number of commands with a reply.
    fn done(&self) -> u64;
}
