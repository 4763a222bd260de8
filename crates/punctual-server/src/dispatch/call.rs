//! One command on its way through the server: what a handler of the server's own may use.

use std::sync::Arc;

use punctual_resp::{Args, Reply};
use punctual_store::spec::Row;
use punctual_store::{Error, Now, Turn};

use crate::client::session::Session;
use crate::net::mailbox::Mailbox;
use crate::net::order::Order;
use crate::shared::Shared;

/// A running command.
///
/// The turn may hold shard locks from the commands before: a handler that waits, takes long or needs other locks
/// than the pub/sub registry's calls `call.turn.release()` first.
pub struct Call<'a, 's> {
    /// What all loops share.
    pub shared: &'a Arc<Shared>,
    /// The keyspace at this instant.
    pub turn: &'a mut Turn<'s>,
    /// The client.
    pub session: &'a mut Session,
    /// Number of the event loop.
    pub loop_number: usize,
}

impl Call<'_, '_> {
    /// The instant.
    pub fn now(&self) -> Now {
        self.turn.now
    }

    /// The mailbox of the event loop that runs it.
    pub(crate) fn mailbox(&self) -> &Mailbox<Order> {
        &self.shared.mailboxes[self.loop_number]
    }
}

/// Function that runs one of the server's own commands.
pub type ServerHandler = fn(&mut Call<'_, '_>, Args<'_>, &mut Reply<'_>) -> Result<(), Error>;

/// A row of one of the server's own commands.
pub type ServerCommand = Row<ServerHandler>;
