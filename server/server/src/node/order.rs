//! Orders that threads send to an event loop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use punctual_store::{Error, Now};
use tokio::sync::oneshot;

use crate::acl::user::User;
use crate::memory::reclaim::Share;
use crate::migrate::moving::Migration;
use crate::net::listener::{Arrival, Listener};
use crate::observe::figures::Figures;
use crate::replication::attachment::{Attachment, Loaded};
use crate::world::clock::{Move, MoveError};

/// An order to an event loop.
pub(crate) enum Order {
    /// Serve a new connection.
    Serve(Arrival),
    /// Listen on these TCP addresses from now on, and on no others of the kinds that are given.
    Listen {
        /// For connections that are not encrypted.
        plain: Option<Vec<Listener>>,
        /// For encrypted connections.
        tls: Option<Vec<Listener>>,
    },
    /// Close a client (CLIENT KILL).
    Kill {
        /// Number of the client.
        client: u64,
        /// Its place in the loop.
        slot: usize,
    },
    /// Close a client whose messages exceed the limit of its output.
    CutOff {
        /// Number of the client.
        client: u64,
        /// Its place in the loop.
        slot: usize,
    },
    /// Write output that was held, as far as its changes are released, and answer clients that wait for a sync.
    Released,
    /// Close connections with held output, because the append-only file cannot be written.
    SyncFailed,
    /// Resume a client whose wait is over; the mailbox holds its reply.
    Unblocked {
        /// Number of the client.
        client: u64,
        /// Its place in the loop.
        slot: usize,
        /// Position of the log of changes that must be released before the reply is sent.
        until: u64,
    },
    /// Load the changed configuration.
    Reconfigure,
    /// Count bytes that a thread outside the event loops has freed.
    Freed(u64),
    /// Collect free pages, so that the worker can return them to the system.
    Collect(Share),
    /// Check the clients that wait for the end of a pause, and due keys.
    Resume,
    /// Send replicas what there is for them: blocks of a snapshot, or the stream.
    FeedReplicas,
    /// Check due keys, because the virtual clock has moved.
    ClockMoved,
    /// Move the virtual clock.
    MoveClock {
        /// Destination.
        to: Move,
        /// Receives the clock's new time.
        answer: Sender<Result<Now, MoveError>>,
    },
    /// Send on the channel once all earlier orders are done and their output is written.
    Settle(Sender<()>),
    /// Send on the channel the figures of INFO EVERYTHING, or the error that INFO gets.
    Figures(oneshot::Sender<Result<Figures, Error>>),
    /// Connect to the primary, if it is time.
    FollowPrimary,
    /// Go on with the connection to a server whose name has been looked up.
    Resolved {
        /// Number of the dial.
        dial: usize,
        /// Its addresses.
        addresses: io::Result<Vec<SocketAddr>>,
    },
    /// Read more of the primary's snapshot: the thread that loads it has room again.
    SnapshotHasRoom,
    /// The primary's snapshot is loaded, or cannot be.
    SnapshotLoaded(Loaded),
    /// Serve the connection of the primary, whose stream begins.
    AttachPrimary(Box<Attachment>),
    /// The replica that this server follows has answered to the failover.
    FailoverAnswered(bool),
    /// The server has become a replica, a replica of another primary, or a primary.
    RoleChanged,
    /// End the subscriptions and waits that the clients of a changed user may no longer have.
    CheckUser(Arc<User>),
    /// Send the keys of a migration.
    Migrate(Box<Migration>),
    /// Stop.
    Stop,
}
