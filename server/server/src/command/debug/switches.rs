//! DEBUG's subcommands that turn parts of the server on and off.

use std::sync::atomic::Ordering;

use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use punctual_store::Error;

use crate::client::registry::RecentPeak;
use crate::node::call::Call;
use crate::node::order::Order;

/// Returns whether an argument is a number other than 0. As with C's `atoi`, an invalid number
/// counts as 0.
fn is_on(word: &[u8]) -> bool {
    parse_i64(word).is_some_and(|number| number != 0)
}

/// Enables or disables active expiry. Without it, a due key expires only when a command accesses
/// it.
pub(super) fn set_active_expire(
    call: &mut Call,
    args: Args,
    reply: &mut Reply,
) -> Result<(), Error> {
    let on = is_on(&args[2]);
    call.shared.store.set_active_expire(on);
    if on {
        // Keys that became due while active expiry was off expire now.
        call.shared.order_all(|| Order::Resume);
    }
    reply.ok();
    Ok(())
}

/// Sets whether RESTORE ignores the checksum of its payload.
pub(super) fn set_skip_checksums(
    call: &mut Call,
    args: Args,
    reply: &mut Reply,
) -> Result<(), Error> {
    call.shared.store.set_checks_payloads(!is_on(&args[2]));
    reply.ok();
    Ok(())
}

/// Accepts the call and changes nothing: `list-max-listpack-size` is the only limit of a list's
/// nodes.
pub(super) fn set_packed_threshold(_: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    reply.ok();
    Ok(())
}

/// Sets whether scripts may call commands that are normally refused in scripts.
pub(super) fn set_disable_deny_scripts(
    call: &mut Call,
    args: Args,
    reply: &mut Reply,
) -> Result<(), Error> {
    let switch = &call.shared.switches.scripts_call_all;
    switch.store(is_on(&args[2]), Ordering::Relaxed);
    reply.ok();
    Ok(())
}

/// Pauses or resumes periodic work.
pub(super) fn pause_cron(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let switch = &call.shared.switches.cron_paused;
    switch.store(is_on(&args[2]), Ordering::SeqCst);
    // The loops set their alarms again.
    call.shared.order_all(|| Order::Resume);
    reply.ok();
    Ok(())
}

/// Sets the delay in microseconds before each write to the append-only file.
pub(super) fn aof_flush_sleep(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let micros = parse_i64(&args[2]).and_then(|micros| u64::try_from(micros).ok());
    let switch = &call.shared.switches.aof_flush_sleep_us;
    switch.store(micros.unwrap_or(0), Ordering::Relaxed);
    reply.ok();
    Ok(())
}

/// Sets how long CLIENT LIST shows the peak of a client's output. RESIZING changes nothing: reply
/// buffers belong to the loops, which reuse them at once.
pub(super) fn reply_buffer(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    match args[2].to_ascii_lowercase().as_slice() {
        b"peak-reset-time" => {
            let window_ms = match args[3].to_ascii_lowercase().as_slice() {
                b"never" => u64::MAX,
                b"reset" => RecentPeak::WINDOW_MS,
                _ => parse_i64(&args[3])
                    .map(|ms| u64::try_from(ms).unwrap_or(u64::MAX))
                    .ok_or(Error::NotInteger)?,
            };
            let switch = &call.shared.switches.output_peak_window_ms;
            switch.store(window_ms, Ordering::Relaxed);
        }
        b"resizing" => {}
        _ => return Err(crate::command::replies::wrong_form("DEBUG", args)),
    }
    reply.ok();
    Ok(())
}
