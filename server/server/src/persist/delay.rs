//! The directives `rdb-key-save-delay` and `key-load-delay`, with which tests slow down saves and
//! loads.

use std::time::Duration;

use crate::world::World;

/// Time between two checks during a delay.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Sleeps for `per_key_us` microseconds for each key. A negative number -n means one microsecond
/// for n keys, rounded down for each call. Calls `check` first, and again every [`CHECK_INTERVAL`].
///
/// # Errors
/// The error of `check`, which ends the delay.
pub(super) fn wait<E>(
    world: World,
    per_key_us: i64,
    keys: usize,
    mut check: impl FnMut() -> Result<(), E>,
) -> Result<(), E> {
    check()?;
    let (keys, factor) = (keys as u64, per_key_us.unsigned_abs());
    let micros = match per_key_us {
        0 => return Ok(()),
        1.. => keys.saturating_mul(factor),
        _ => keys / factor,
    };
    let mut left = Duration::from_micros(micros);
    while !left.is_zero() {
        let part = left.min(CHECK_INTERVAL);
        world.sleep(part);
        left -= part;
        check()?;
    }
    Ok(())
}
