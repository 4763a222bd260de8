//! JOB ADD.
//!
//! The ID of a job is taken while the job exists, in any state. JOB ADD with a taken ID adds
//! nothing and replies nil, as SET with NX does. UNIQUE without ID makes the ID a digest of the
//! payload, so that a second job with the same payload is refused. The ID of a job with UNIQUE
//! stays taken for the time of UNIQUE, even after the job is acknowledged.

use punctual_resp::{Args, Reply};
use rand::RngExt as _;
use sha1::{Digest as _, Sha1};

use super::{effects, queue};
use crate::arguments::{int, is};
use crate::error::Error;
use crate::events::Classes;
use crate::time::Now;
use crate::turn::Cx;
use crate::value::Kind;
use crate::value::jobs::{Backoff, Details, ID_MAX, Id, Jobs, TIME_MAX};

/// Maximum length of a payload in bytes. The whole job must fit a bulk string of the log.
const PAYLOAD_MAX: usize = 128 << 20;

/// The options of JOB ADD.
struct Options<'a> {
    id: Option<&'a [u8]>,
    unique_ms: u64,
    /// DELAY or AT: a time in ms, and whether it is relative to now.
    due: Option<(u64, bool)>,
    priority: i16,
    ttl_ms: Option<u64>,
    details: Details<'a>,
}

/// Parses a time in ms, which must be `least` or more.
pub(super) fn millis(arg: &[u8], least: u64) -> Result<u64, Error> {
    let ms = u64::try_from(int(arg)?).ok();
    ms.filter(|ms| (least..=TIME_MAX).contains(ms))
        .ok_or(Error::fixed("ERR a time in milliseconds is out of range"))
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>) -> Result<Self, Error> {
        let mut options = Self {
            id: None,
            unique_ms: 0,
            due: None,
            priority: 0,
            ttl_ms: None,
            details: Details::new(b"", args.at(3)),
        };
        let (mut jitter, mut at) = (None, 4);
        while at < args.len() {
            let option = args.at(at);
            let value = *args.get(at + 1).as_ref().ok_or(Error::Syntax)?;
            let details = &mut options.details;
            at += 2;
            match () {
                () if is(option, "ID") => options.id = Some(value),
                () if is(option, "UNIQUE") => options.unique_ms = millis(value, 1)?,
                () if is(option, "DELAY") && options.due.is_none() => {
                    options.due = Some((millis(value, 0)?, true));
                }
                () if is(option, "AT") && options.due.is_none() => {
                    options.due = Some((millis(value, 0)?, false));
                }
                () if is(option, "PRIORITY") => {
                    options.priority = i16::try_from(int(value)?).map_err(|_| {
                        Error::fixed("ERR a priority is a number from -32768 to 32767")
                    })?;
                }
                () if is(option, "LEASE") => details.lease_ms = millis(value, 1)?,
                () if is(option, "RETRY") => {
                    details.retries = u32::try_from(int(value)?)
                        .map_err(|_| Error::fixed("ERR RETRY is out of range"))?;
                }
                () if is(option, "BACKOFF") => {
                    let max = args.get(at).ok_or(Error::Syntax)?;
                    let (base_ms, max_ms) = (millis(value, 0)?, millis(max, 0)?);
                    if max_ms < base_ms {
                        return Err(Error::fixed("ERR the maximum of BACKOFF is below its base"));
                    }
                    details.backoff = Some(Backoff {
                        base_ms,
                        max_ms,
                        jitter: 0,
                    });
                    at += 1;
                }
                () if is(option, "JITTER") => {
                    let percent = u8::try_from(int(value)?).ok().filter(|p| *p <= 100);
                    jitter = Some(
                        percent.ok_or(Error::fixed("ERR JITTER is a percentage from 0 to 100"))?,
                    );
                }
                () if is(option, "TTL") => options.ttl_ms = Some(millis(value, 1)?),
                () if is(option, "DEAD") => {
                    if *value == args[2] {
                        return Err(Error::fixed(
                            "ERR the queue for dead jobs must be another queue",
                        ));
                    }
                    details.dead = Some(value);
                }
                () if is(option, "KEEP") => details.keep_ms = millis(value, 0)?,
                () => return Err(Error::Syntax),
            }
        }
        match (&mut options.details.backoff, jitter) {
            (_, None) => {}
            (Some(backoff), Some(jitter)) => backoff.jitter = jitter,
            (None, Some(_)) => return Err(Error::fixed("ERR JITTER needs BACKOFF")),
        }
        if options
            .id
            .is_some_and(|id| id.is_empty() || id.len() > ID_MAX)
        {
            return Err(Error::fixed("ERR an ID has 1 to 512 bytes"));
        }
        if options.details.payload.len() > PAYLOAD_MAX {
            return Err(Error::fixed("ERR the payload is longer than 128 MB"));
        }
        Ok(options)
    }

    fn due_ms(&self, now: Now) -> u64 {
        match self.due {
            // DELAY 0 is the same as no delay: the job is due now.
            None | Some((0, true)) => now.read_ms(),
            Some((ms, true)) => now.base_ms().saturating_add(ms).min(TIME_MAX),
            Some((at, false)) => at,
        }
    }
}

pub(super) fn add(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let options = Options::parse(args)?;
    let (key, now) = (&args[2], cx.now());
    let (place, found) = queue(cx, key, 0)?;
    let chosen = match options.id {
        Some(id) => Some(Id::from_slice(id)),
        None if options.unique_ms > 0 => {
            let digest = Sha1::digest(options.details.payload);
            Some(
                digest
                    .iter()
                    .flat_map(|byte| format!("{byte:02x}").into_bytes())
                    .collect(),
            )
        }
        None => None,
    };
    if let (Some(record), Some(id)) = (found, &chosen)
        && let Some(index) = cx.view::<Jobs>(place, record)?.find(id)
    {
        if !cx.view::<Jobs>(place, record)?.is_over(index, now) {
            reply.null();
            return Ok(());
        }
        // The job has expired, or is done and no longer kept. `queue` has not removed it, because
        // too many jobs were due.
        cx.edit::<Jobs>(place, record)?.remove(index);
        cx.effect(&[b"JOB", b"DEL", key, id]);
    }
    let record = match found {
        Some(record) => record,
        None => cx.add_at(place, key, Jobs::default().into_value()),
    };
    let draws = &cx.store().draws;
    let jobs = cx.edit::<Jobs>(place, record)?;
    let id = chosen.unwrap_or_else(|| jobs.new_id(now, || draws.generator().random()));
    let base = now.base_ms();
    let from_now = |ms: u64| base.saturating_add(ms).min(TIME_MAX);
    let details = Details {
        id: &id,
        unique_ms: Some(options.unique_ms)
            .filter(|ms| *ms > 0)
            .map_or(0, from_now),
        expires_ms: options.ttl_ms.map(from_now),
        ..options.details
    };
    let index = jobs.add(&details, options.priority, options.due_ms(now), now);
    // The queue's timer must fire earlier, for this job.
    if !jobs.is_timed(index) {
        cx.rearm(place, record);
    }
    effects::log_put(cx, place, record, key, index)?;
    cx.commit(key, Classes::GENERIC, "jobadd", 1);
    reply.bulk(&id);
    Ok(())
}
