//! Orders: messages by which a thread asks an event loop to do something. They go through the
//! loop's mailbox.

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
use crate::net::local::Pipe;
use crate::observe::figures::Figures;
use crate::replication::attachment::{Attachment, Loaded};
use crate::world::clock::{Move, MoveError};

/// A message that asks an event loop to do something.
pub(crate) enum Order {
    /// Serve a new connection.
    Serve(Arrival),
    /// Listen on these TCP addresses, and stop listening on the others of the same kind. `None`
    /// leaves a kind unchanged.
    Listen {
        /// Listeners for connections without encryption.
        plain: Option<Vec<Listener>>,
        /// Listeners for encrypted connections.
        tls: Option<Vec<Listener>>,
    },
    /// Close a client, for example after CLIENT KILL.
    Kill {
        /// Id of the client.
        client: u64,
        /// Slot of the client's connection in the loop.
        slot: usize,
    },
    /// Read the input of a client in the same process, and write the output that it has room for.
    Local(Arc<Pipe>),
    /// Close a client whose messages exceed the limit of its output.
    CutOff {
        /// Id of the client.
        client: u64,
        /// Slot of the client's connection in the loop.
        slot: usize,
    },
    /// Write the held replies whose changes are now in the append-only file, and answer clients
    /// that wait for a sync.
    Released,
    /// Close connections with held replies, because the append-only file cannot be written.
    SyncFailed,
    /// Resume a client whose wait is over. Its reply is in the mailbox.
    Unblocked {
        /// Id of the client.
        client: u64,
        /// Slot of the client's connection in the loop.
        slot: usize,
        /// Position in the log of changes. The reply is sent when all changes before this position
        /// are released.
        until: u64,
    },
    /// Apply the changed configuration.
    Reconfigure,
    /// Count these bytes, which a thread other than an event loop has freed.
    Freed(u64),
    /// Collect the loop's free pages, so that the thread of `reclaim` can return them to the
    /// system.
    Collect(Share),
    /// Check the clients that wait for the end of a pause, due keys, and work that another thread
    /// has scheduled.
    Resume,
    /// Send replicas the bytes that are ready for them: blocks of a snapshot, or the stream.
    FeedReplicas,
    /// Check due keys, because the virtual clock has moved.
    ClockMoved,
    /// Move the virtual clock.
    MoveClock {
        /// Destination.
        to: Move,
        /// Channel that receives the clock's new time.
        answer: Sender<Result<Now, MoveError>>,
    },
    /// Call the function once all earlier orders are handled and their output is written.
    Settle(Box<dyn FnOnce() + Send>),
    /// Send on the channel the figures of INFO EVERYTHING, or the error that INFO gets.
    Figures(oneshot::Sender<Result<Figures, Error>>),
    /// Connect to the primary, if an attempt is due.
    FollowPrimary,
    /// Continue an outgoing connection after the lookup of the server's name.
    Resolved {
        /// Number of the outgoing connection.
        dial: usize,
        /// Addresses of the server, or the error of the lookup.
        addresses: io::Result<Vec<SocketAddr>>,
    },
    /// Read more of the primary's snapshot, because the thread that loads it has room again.
    SnapshotHasRoom,
    /// The load of the primary's snapshot has succeeded or failed.
    SnapshotLoaded(Loaded),
    /// Serve the connection of the primary, whose stream begins.
    AttachPrimary(Box<Attachment>),
    /// The target of a failover, which this server now follows, has accepted (true) or refused it.
    FailoverAnswered(bool),
    /// The server's role or primary has changed.
    RoleChanged,
    /// Close clients with subscriptions that this changed user no longer permits, and end waits of
    /// commands that the user no longer permits.
    CheckUser(Arc<User>),
    /// Carry out the orders of the cluster's state machine.
    Cluster,
    /// This node may have lost slots: redirect clients that wait for keys of lost slots, and end
    /// subscriptions to their channels.
    RoutesChanged,
    /// Start the migration of keys to another server (MIGRATE).
    Migrate(Box<Migration>),
    /// Stop the loop.
    Stop,
}
