//! XGROUP SETLEASE, which Redis does not have: sets a group's *lease*, the time within which a
//! consumer must acknowledge an entry after its delivery.
//!
//! A lease begins at the last delivery of an entry, so a new lease also applies to entries that are
//! already pending. When the lease of an entry ends, the next XREADGROUP with `>` delivers the
//! entry again (`redeliver`). After MAXDELIVERIES deliveries, the server moves the entry to the
//! dead-letter stream instead (`crate::turn::streams`).

use punctual_resp::{Args, Reply};

use super::group::stream_with;
use crate::arguments::{int, is};
use crate::error::Error;
use crate::turn::Cx;
use crate::value::stream::{DeadLetter, Lease, Stream};

fn parse(args: Args) -> Result<Option<Lease>, Error> {
    let ms = u64::try_from(int(&args[4])?)
        .map_err(|_| Error::fixed("ERR the lease must not be negative"))?;
    let dead_letter = match args.len() {
        5 => None,
        9 if is(&args[5], "MAXDELIVERIES") && is(&args[7], "DEADLETTER") => {
            let deliveries_max = u32::try_from(int(&args[6])?).unwrap_or(0);
            if deliveries_max == 0 {
                return Err(Error::fixed(
                    "ERR MAXDELIVERIES must be positive and below 4294967296",
                ));
            }
            if args[8] == args[2] {
                return Err(Error::fixed(
                    "ERR the dead-letter stream must be another stream",
                ));
            }
            Some(DeadLetter {
                deliveries_max,
                key: args[8].into(),
            })
        }
        _ => return Err(Error::Syntax),
    };
    Ok((ms > 0).then_some(Lease { ms, dead_letter }))
}

pub(super) fn set_lease(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let lease = parse(args)?;
    let (place, record) = stream_with(cx, args)?;
    let stream = cx.edit::<Stream>(place, record)?;
    if lease.is_some() {
        // A lease needs a timeline: the group's pending entries in the order of their deliveries.
        stream.expect_timelines();
    }
    if let Some(group) = stream.group_mut(&args[3]) {
        group.set_lease(lease);
    }
    cx.rearm(place, record);
    cx.turn
        .commit_group(cx.db, &args[2], Some("xgroup-setlease"), 1);
    reply.ok();
    Ok(())
}
