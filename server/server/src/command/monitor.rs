//! MONITOR, which shows the commands that the server runs.

use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::spec::{Flags, Group};

use crate::node::call::{Call, ServerCommand};

/// Rows of the commands in this file.
pub(crate) static COMMANDS: &[ServerCommand] = &[ServerCommand::new(
    "monitor",
    1,
    Flags::ADMIN
        .or(Flags::NOSCRIPT)
        .or(Flags::LOADING)
        .or(Flags::STALE)
        .or(Flags::RESHAPES_REPLIES),
    Group::Server,
    monitor,
)
.since("1.0.0")
.summary("Listens for all requests received by the server in real time.")];

fn monitor(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    if call.turn.source().is_nested() {
        return Err(Error::fixed(
            "ERR MONITOR isn't allowed for DENY BLOCKING client",
        ));
    }
    // As in Redis, a second MONITOR gets no reply.
    if !call.session.monitor {
        call.shared.clients.monitors.add(call.session);
        reply.ok();
    }
    Ok(())
}
