//! Commands that administer queues: JOB DEL, PAUSE, RESUME and REVIVE.

use punctual_resp::{Args, Reply};
use smallvec::SmallVec;

use super::{effects, queue};
use crate::arguments::is;
use crate::error::Error;
use crate::events::Classes;
use crate::turn::Cx;
use crate::value::Kind;
use crate::value::jobs::{Jobs, Set, State};
use crate::value::keyed::Element as _;

/// Maximum number of jobs that JOB REVIVE with ALL revives, which limits the time under the lock.
const REVIVED_MAX: usize = 10_000;

pub(super) fn del(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[2];
    let (place, found) = queue(cx, key, 0)?;
    let mut removed = 0;
    if let Some(record) = found {
        for id in args.skip(3).iter() {
            if let Some(index) = cx.view::<Jobs>(place, record)?.find(id) {
                cx.edit::<Jobs>(place, record)?.remove(index);
                removed += 1;
            }
        }
        if removed > 0 {
            cx.rearm(place, record);
            cx.commit(key, Classes::GENERIC, "jobdel", removed);
        }
    }
    reply.int(removed.cast_signed());
    Ok(())
}

pub(super) fn pause(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[2];
    let (place, found) = queue(cx, key, 0)?;
    let record = match found {
        Some(record) => record,
        None => cx.add_at(place, key, Jobs::default().into_value()),
    };
    set_paused(cx, key, true, (place, record), reply)
}

pub(super) fn resume(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[2];
    match queue(cx, key, 0)? {
        (place, Some(record)) => set_paused(cx, key, false, (place, record), reply),
        (_, None) => {
            reply.int(0);
            Ok(())
        }
    }
}

fn set_paused(
    cx: &mut Cx,
    key: &[u8],
    paused: bool,
    (place, record): (crate::turn::cx::Place, crate::keyspace::records::Id),
    reply: &mut Reply,
) -> Result<(), Error> {
    let changes = cx.view::<Jobs>(place, record)?.paused != paused;
    if changes {
        cx.edit::<Jobs>(place, record)?.paused = paused;
        cx.commit_silently(key, 1);
    }
    reply.int(changes.into());
    Ok(())
}

pub(super) fn revive(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (key, now) = (&args[2], cx.now());
    let (place, found) = queue(cx, key, 0)?;
    let Some(record) = found else {
        reply.int(0);
        return Ok(());
    };
    let jobs = cx.view::<Jobs>(place, record)?;
    let dead = |index: &u32| jobs.is_in(*index, Set::Dead);
    let indexes: SmallVec<[u32; 8]> = match args.len() == 4 && is(&args[3], "ALL") {
        true => {
            let all = jobs.list(Set::Dead, now, 0).take(REVIVED_MAX);
            all.filter_map(|job| jobs.find(job.name())).collect()
        }
        false => {
            let named = args.skip(3);
            let named = named.iter().filter_map(|id| jobs.find(id));
            named.filter(dead).collect()
        }
    };
    let mut revived = 0;
    for index in indexes {
        let jobs = cx.edit::<Jobs>(place, record)?;
        // The arguments may name an ID twice, so the job may be revived already.
        if !jobs.is_in(index, Set::Dead) {
            continue;
        }
        let mut job = jobs.get(index).clone();
        (job.state, job.at, job.attempt) = (State::Waiting, now.read_ms(), 0);
        let index = jobs.put(job);
        jobs.note_due(index, now);
        effects::log_put(cx, place, record, key, index)?;
        revived += 1;
    }
    if revived > 0 {
        cx.rearm(place, record);
        cx.commit(key, Classes::GENERIC, "jobready", revived);
    }
    reply.int(revived.cast_signed());
    Ok(())
}
