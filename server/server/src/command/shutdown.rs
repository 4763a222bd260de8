//! SHUTDOWN.

use std::sync::Arc;

use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::spec::{Flags, Group};

use crate::config::ShutdownOptions;
use crate::node::call::{Call, ServerCommand};
use crate::session::Executing;
use crate::shutdown::{self, Begun};

/// Rows of the commands in this file.
pub(crate) static COMMANDS: &[ServerCommand] = &[ServerCommand::new(
    "shutdown",
    -1,
    Flags::ADMIN
        .or(Flags::NOSCRIPT)
        .or(Flags::LOADING)
        .or(Flags::STALE)
        .or(Flags::NO_MULTI)
        .or(Flags::ALLOW_BUSY),
    Group::Server,
    shutdown,
)
.since("1.0.0")
.complexity(
    "O(N) when saving, where N is the total number of keys in all databases when saving data, otherwise O(1)",
)
.summary("Saves the databases to disk and shuts down the server.")
.history(&[("7.0.0", "Added the `NOW`, `FORCE` and `ABORT` modifiers.")])
.syntax("[save-selector: NOSAVE | SAVE] [NOW@7.0.0] [FORCE@7.0.0] [ABORT@7.0.0]")];

fn shutdown(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (mut options, mut abort) = (ShutdownOptions::default(), false);
    for word in args.skip(1) {
        match word.to_ascii_lowercase().as_slice() {
            b"save" if options.save != Some(false) => options.save = Some(true),
            b"nosave" if options.save != Some(true) => options.save = Some(false),
            b"now" => options.now = true,
            b"force" => options.force = true,
            b"abort" => abort = true,
            _ => return Err(Error::Syntax),
        }
    }
    if abort {
        if options != ShutdownOptions::default() {
            return Err(Error::Syntax);
        }
        if !shutdown::abort(call.shared, call.loop_number) {
            return Err(Error::fixed("ERR No shutdown in progress."));
        }
        reply.ok();
        return Ok(());
    }
    let running = &call.shared.scripting.running;
    if running.is_busy() {
        if options.save != Some(false) {
            return Err(running.refusal());
        }
        running.force_kill();
    }
    match shutdown::begin(call.shared, call.turn, options) {
        Begun::Stopping => call.session.closing = true,
        Begun::Failed => return Err(shutdown::FAILED),
        Begun::Waiting => {
            let (shared, loop_number) = (Arc::clone(call.shared), call.loop_number);
            let join = move |waiter| shutdown::join(&shared, loop_number, waiter);
            call.session.executing = Some(Executing::Wait(Box::new(join)));
        }
    }
    Ok(())
}
