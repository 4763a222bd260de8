//! Effects of job commands, which replicas and the log get: JOB PUT has a whole job, JOB LEASED has
//! leases, JOB DUE has jobs whose delay or lease has ended.
//!
//! All have absolute times and tokens, so a replay at any time has the same result.

use punctual_resp::decimal::parse_u64;
use punctual_resp::{Args, Reply};

use crate::error::Error;
use crate::keyspace::records::Id as RecordId;
use crate::turn::Cx;
use crate::turn::cx::Place;
use crate::turn::jobs::written;
use crate::value::Kind;
use crate::value::jobs::{Job, Jobs};
use crate::value::keyed::Element as _;

const INTERNAL: Error = Error::fixed("ERR this command is for logs of changes only");

/// Adds JOB PUT with the current state of a job as an effect.
pub(super) fn log_put(
    cx: &mut Cx,
    place: Place,
    record: RecordId,
    key: &[u8],
    index: u32,
) -> Result<(), Error> {
    if cx.is_logged() {
        let bytes = written(cx.view::<Jobs>(place, record)?.get(index));
        cx.effect(&[b"JOB", b"PUT", key, &bytes]);
    }
    Ok(())
}

/// Adds JOB LEASED with the current leases of jobs as an effect.
pub(super) fn log_leases(
    cx: &mut Cx,
    place: Place,
    record: RecordId,
    key: &[u8],
    indexes: impl Iterator<Item = u32>,
) -> Result<(), Error> {
    if !cx.is_logged() {
        return Ok(());
    }
    let jobs = cx.view::<Jobs>(place, record)?;
    let mut words: Vec<Vec<u8>> = vec![b"JOB".to_vec(), b"LEASED".to_vec(), key.to_vec()];
    for index in indexes {
        let job = jobs.get(index);
        words.push(job.name().to_vec());
        for number in [job.at, job.token, job.attempt.into()] {
            words.push(itoa::Buffer::new().format(number).into());
        }
    }
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    cx.effect(&words);
    Ok(())
}

/// JOB PUT queue job: sets a job.
pub(super) fn put(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    if !cx.turn.replays() {
        return Err(INTERNAL);
    }
    let key = &args[2];
    let job = Job::read(&args[3]).ok_or(Error::fixed(
        "ERR the argument of JOB PUT is not a valid \
        job",
    ))?;
    let (place, found) = cx.seek_as::<Jobs>(key)?;
    let record = match found {
        Some(record) => record,
        None => cx.add_at(place, key, Jobs::default().into_value()),
    };
    cx.edit::<Jobs>(place, record)?.put(job);
    cx.rearm(place, record);
    cx.commit_silently(key, 1);
    reply.ok();
    Ok(())
}

/// JOB LEASED queue id until token attempt ...: sets leases.
pub(super) fn leased(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    if !cx.turn.replays() {
        return Err(INTERNAL);
    }
    let key = &args[2];
    let (place, found) = cx.seek_as::<Jobs>(key)?;
    let record = found.ok_or(Error::NoSuchKey)?;
    if args.len() % 4 != 3 {
        return Err(Error::Syntax);
    }
    for at in (3..args.len()).step_by(4) {
        let number = |offset: usize| parse_u64(&args[at + offset]).ok_or(Error::NotInteger);
        let (until, token) = (number(1)?, number(2)?);
        let attempt = u32::try_from(number(3)?).map_err(|_| Error::NotInteger)?;
        let jobs = cx.edit::<Jobs>(place, record)?;
        let index = jobs.find(&args[at]).ok_or(Error::NoSuchKey)?;
        jobs.lease(index, until, token, attempt);
    }
    cx.rearm(place, record);
    cx.commit_silently(key, 1);
    reply.ok();
    Ok(())
}

/// JOB DUE queue time id ...: moves jobs whose delay or lease has ended.
pub(super) fn due(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    if !cx.turn.replays() {
        return Err(INTERNAL);
    }
    let key = &args[2];
    let (place, found) = cx.seek_as::<Jobs>(key)?;
    let ms = parse_u64(&args[3]).ok_or(Error::NotInteger)?;
    if let Some(record) = found {
        let jobs = cx.edit::<Jobs>(place, record)?;
        for id in args.skip(4).iter() {
            // A later step of the same turn may have removed the job.
            if let Some(index) = jobs.find(id) {
                jobs.move_due(index, ms);
            }
        }
        cx.rearm(place, record);
        cx.commit_silently(key, 1);
    }
    reply.ok();
    Ok(())
}
