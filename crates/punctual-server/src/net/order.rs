//! Orders that threads leave for an event loop.

use std::sync::mpsc::Sender;

use punctual_store::Now;

use crate::clock::{Move, MoveError};
use crate::net::listener::{Arrival, Listener};
use crate::reclaim::Share;

/// An order to an event loop.
pub(crate) enum Order {
    /// Serve a new connection.
    Serve(Arrival),
    /// Listen on these TCP addresses from now on, and on no others.
    Listen(Vec<Listener>),
    /// Close a client (CLIENT KILL).
    Kill {
        /// Number of the client.
        client: u64,
        /// Its place in the loop.
        slot: usize,
    },
    /// Resume a client whose wait is over; its reply lies in the mailbox.
    Unblocked {
        /// Number of the client.
        client: u64,
        /// Its place in the loop.
        slot: usize,
    },
    /// Read the configuration again.
    Reconfigure,
    /// A thread that is no event loop has freed this number of bytes.
    Freed(u64),
    /// Collect free pages, so that they go back to the system.
    Collect(Share),
    /// Look at the clients that wait for the end of a pause, and at due keys.
    Resume,
    /// Look at the virtual clock, which has moved.
    ClockMoved,
    /// Move the virtual clock.
    MoveClock {
        /// Destination.
        to: Move,
        /// Receives the clock's new time.
        answer: Sender<Result<Now, MoveError>>,
    },
    /// Send once everything that was left before has been done and written.
    Settle(Sender<()>),
    /// Stop.
    Stop,
}
