//! Context that the server passes to the handlers of its own commands.

use std::sync::Arc;

use punctual_resp::{Args, Reply};
use punctual_store::spec::Row;
use punctual_store::{Error, Now, Turn};

use crate::net::mailbox::Mailbox;
use crate::node::Shared;
use crate::node::order::Order;
use crate::node::scripts::Scripts;
use crate::session::Session;

/// Context of a running command of the server.
///
/// The turn may hold locks of shards from earlier commands. A handler must call
/// `call.turn.release()` before it blocks or runs for a long time. A handler that holds shards
/// takes other locks in the order of [`Rank`](punctual_store::lock_order::Rank).
pub struct Call<'a, 's> {
    /// State that all event loops share.
    pub shared: &'a Arc<Shared>,
    /// Access to the keyspace at the command's instant.
    pub turn: &'a mut Turn<'s>,
    /// Scripts of the event loop.
    pub(crate) scripts: &'a mut Scripts,
    /// State of the client.
    pub session: &'a mut Session,
    /// Number of the event loop.
    pub loop_number: usize,
}

impl Call<'_, '_> {
    /// Returns the instant at which the command runs.
    pub fn now(&self) -> Now {
        self.turn.now
    }

    /// Returns true if the client may have changed keys since the session last stored the offset of
    /// the client's last write.
    pub(crate) fn has_written(&self) -> bool {
        self.session.has_written || self.turn.stats.dirty != self.session.dirty_before
    }

    /// Returns the mailbox of the event loop that runs the command.
    pub(crate) fn mailbox(&self) -> &Mailbox<Order> {
        &self.shared.mailboxes[self.loop_number]
    }
}

/// Function that runs one of the server's own commands.
pub type ServerHandler = fn(&mut Call<'_, '_>, Args<'_>, &mut Reply<'_>) -> Result<(), Error>;

/// A row of one of the server's own commands.
pub type ServerCommand = Row<ServerHandler>;
