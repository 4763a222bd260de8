//! SHUTDOWN.

use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::spec::{Flags, Group};

use crate::dispatch::call::{Call, ServerCommand};
use crate::log;
use crate::persist::save;

/// The family's rows.
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
.doc(
    "1.0.0",
    "O(N) when saving, where N is the total number of keys in all databases when saving data, otherwise O(1)",
    "Saves the databases to disk and shuts down the server.",
)
.history(&[("7.0.0", "Added the `NOW`, `FORCE` and `ABORT` modifiers.")])];

fn shutdown(call: &mut Call<'_, '_>, args: Args<'_>, _: &mut Reply<'_>) -> Result<(), Error> {
    let has_option = |word: &str| {
        args.iter()
            .skip(1)
            .any(|a| a.eq_ignore_ascii_case(word.as_bytes()))
    };
    let known = ["save", "nosave", "now", "force", "abort"];
    let all_known = args
        .iter()
        .skip(1)
        .all(|a| known.iter().any(|k| a.eq_ignore_ascii_case(k.as_bytes())));
    if !all_known
        || (has_option("save") && has_option("nosave"))
        || (has_option("abort") && args.len() > 2)
    {
        return Err(Error::Syntax);
    }
    if has_option("abort") {
        // A shutdown never waits for replicas, so there is nothing to abort.
        return Err(Error::fixed("ERR No shutdown in progress."));
    }
    let running = &call.shared.running;
    if running.is_busy() {
        if !has_option("nosave") {
            return Err(running.refusal());
        }
        running.force_kill();
    }
    let logger = &call.shared.logger;
    log::warning!(logger, "User requested shutdown...");
    let must_save = has_option("save")
        .then_some(true)
        .or(has_option("nosave").then_some(false));
    if let Some(systemd) = &call.shared.systemd {
        systemd.stopping(must_save.unwrap_or(!call.shared.settings().save.is_empty()));
    }
    if let Err(error) = save::before_exit(call.shared, call.turn, must_save) {
        log::warning!(logger, "Error trying to save the DB: {error}");
        if !has_option("force") {
            log::warning!(
                logger,
                "Errors trying to shut down the server. Check the logs for more information."
            );
            if let Some(systemd) = &call.shared.systemd {
                systemd.save_failed();
            }
            return Err(Error::fixed("ERR Errors trying to SHUTDOWN. Check logs."));
        }
        log::warning!(
            logger,
            "Error trying to save the DB, but shutdown is forced: exiting anyway."
        );
    }
    call.session.closing = true;
    call.shared.stop();
    Ok(())
}
