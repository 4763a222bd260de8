//! DEBUG SLEEP, DEBUG LOG, and subcommands that end or restart the process.

use std::time::Duration;

use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use punctual_store::Error;
use signal_hook::consts::SIGSEGV;

use crate::command::config;
use crate::log;
use crate::node::call::Call;
use crate::persist::{aof, save};
use crate::world::process;

/// Blocks this event loop for some seconds. Other loops can access the keyspace meanwhile, except
/// shards that a transaction or script of this loop holds.
pub(super) fn sleep(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    // As in Redis, a word that is no number counts as 0.
    let seconds = std::str::from_utf8(&args[2])
        .ok()
        .and_then(|s| s.parse::<f64>().ok());
    let pause = Duration::try_from_secs_f64(seconds.unwrap_or(0.0)).unwrap_or(Duration::ZERO);
    call.turn.release();
    call.shared.world.sleep(pause);
    // In a transaction or a script, `now` stays the same.
    if !call.turn.is_pinned() {
        call.turn.now = call.shared.clock.now();
    }
    reply.ok();
    Ok(())
}

pub(super) fn log(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    log::warning!(call.shared.logger, "DEBUG LOG: {}", args[2].escape_ascii());
    reply.ok();
    Ok(())
}

/// Crashes with SIGSEGV. In a program that embeds the server, the handler of Rust's standard
/// library only restores the default action at the first signal, so the signal is raised again.
pub(super) fn segfault(_: &mut Call, _: Args, _: &mut Reply) -> Result<(), Error> {
    loop {
        let _ = signal_hook::low_level::raise(SIGSEGV);
    }
}

pub(super) fn panic(_: &mut Call, _: Args, _: &mut Reply) -> Result<(), Error> {
    panic!("called by DEBUG PANIC")
}

pub(super) fn assert(_: &mut Call, args: Args, _: &mut Reply) -> Result<(), Error> {
    assert!(args.is_empty(), "called by DEBUG ASSERT");
    Ok(())
}

/// Writes all directives to the configuration file.
pub(super) fn rewrite_config(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    config::rewrite_file(call.shared, true)
        .map_err(|e| Error::Text(format!("ERR CONFIG-REWRITE-FORCE-ALL failed: {e}").into()))?;
    reply.ok();
    Ok(())
}

/// Runs the program again in this process. First writes the configuration if it has a file, and a
/// snapshot if there are save points.
pub(super) fn restart(call: &mut Call, args: Args, _: &mut Reply) -> Result<(), Error> {
    let delay = delay(args)?;
    if call.shared.is_program {
        let shared = call.shared;
        let has_file = shared.config.lock().file().is_some();
        let rewritten = if has_file {
            config::rewrite_file(shared, false)
        } else {
            Ok(())
        };
        let saved = rewritten
            .map_err(|error| error.to_string())
            .and_then(|()| save::before_exit(shared, call.turn, None).map_err(|e| e.to_string()));
        if let Err(error) = saved {
            log::warning!(shared.logger, "Can't restart: {error}");
            return Err(FAILED);
        }
        // No change may come between the snapshot and the end of this run.
        call.turn.lock_all();
        aof::switch::wait_until_written(shared);
    }
    run_anew(call, delay)
}

/// Runs the program again in this process, without saving anything.
pub(super) fn crash_and_recover(call: &mut Call, args: Args, _: &mut Reply) -> Result<(), Error> {
    let delay = delay(args)?;
    run_anew(call, delay)
}

const FAILED: Error = Error::fixed("ERR failed to restart the server. Check server logs.");

/// Returns the delay of a restart, from an argument in milliseconds.
fn delay(args: Args) -> Result<Duration, Error> {
    let Some(word) = args.get(2) else {
        return Ok(Duration::ZERO);
    };
    let millis = parse_i64(word).ok_or(Error::NotInteger)?;
    Ok(Duration::from_millis(u64::try_from(millis).unwrap_or(0)))
}

/// Replaces this process by a new run of the program. Returns only if that fails.
fn run_anew(call: &Call, delay: Duration) -> Result<(), Error> {
    let logger = &call.shared.logger;
    if !call.shared.is_program {
        log::warning!(
            logger,
            "Can't restart: the server is part of another program."
        );
        return Err(FAILED);
    }
    call.shared.world.sleep(delay);
    let error = process::run_anew();
    log::warning!(logger, "Can't restart: {error}");
    Err(FAILED)
}
