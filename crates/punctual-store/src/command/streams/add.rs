//! XADD, XDEL, XTRIM and XSETID.

use punctual_resp::{Args, Reply};
use smallvec::SmallVec;

use super::arguments::{NewId, Options, id, ids};
use super::references::Trimmed;
use super::reply::reply_id;
use crate::command::arguments::{Pairs, int, is};
use crate::error::Error;
use crate::events::Classes;
use crate::turn::Cx;
use crate::value::Kind;
use crate::value::stream::{Id, Stream};

const TOO_SMALL: Error = Error::fixed(
    "ERR The ID specified in XADD is equal or smaller than the target stream top item",
);

pub(super) fn xadd(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let options = Options::parse(cx, args, true)?;
    let fields = args.skip(options.end);
    if fields.len() < 2 || fields.len() % 2 == 1 {
        return Err(Error::Arity("xadd".into()));
    }
    if options.new_id == NewId::Exactly(Id::MIN) {
        return Err(Error::fixed(
            "ERR The ID specified in XADD must be greater than 0-0",
        ));
    }
    let key = &args[1];
    let (now_ms, limits) = (cx.now().read_ms(), cx.limits());
    let (place, found) = cx.seek_stream(key)?;
    if found.is_none() && options.only_existing {
        reply.null();
        return Ok(());
    }
    let last = match found {
        Some(id) => cx.view::<Stream>(place, id)?.last_id(),
        None => Id::MIN,
    };
    let new_id = next_id(last, options.new_id, now_ms)?;
    if Stream::is_too_long(fields.iter().map(<[u8]>::len).sum()) {
        return Err(Error::fixed("ERR Elements are too large to be stored"));
    }
    let record = match found {
        Some(record) => record,
        None => cx.add_at(place, key, Stream::new().into_value()),
    };
    let stream = cx.edit::<Stream>(place, record)?;
    stream.push(new_id, Pairs(fields), &limits);
    let trimmed = options
        .trim
        .map(|trim| Trimmed::of(stream, trim, options.references.unwrap_or_default()));
    let trimmed = trimmed.unwrap_or_default();
    let len = stream.len();
    let retained = stream.retention().is_some();
    reply_id(reply, new_id);
    cx.commit(key, Classes::STREAM, "xadd", 1);
    if trimmed.count > 0 {
        cx.commit(key, Classes::STREAM, "xtrim", 0);
    }
    let by_length = options.trims_by_what_it_reached();
    if cx.is_logged() && (retained || by_length || options.new_id != NewId::Exactly(new_id)) {
        let text = new_id.text();
        let mut buffer = itoa::Buffer::new();
        let mut words: SmallVec<[&[u8]; 16]> = SmallVec::from_slice(&[&args[0], key]);
        if by_length && options.trim.is_some() && !trimmed.one_by_one() {
            words.extend([&b"MAXLEN"[..], b"=", buffer.format(len).as_bytes()]);
        } else if !by_length {
            // Options that mean the same at any time.
            words.extend(args.take(options.end - 1).skip(2).iter());
        }
        words.push(&text);
        words.extend(fields.iter());
        cx.effect(&words);
        trimmed.log(cx, key);
    }
    if retained {
        cx.turn.retain(place.shard(), place.db(), key, record);
        cx.rearm(place, record);
    }
    Ok(())
}

/// Returns the ID of the next entry.
fn next_id(last: Id, wanted: NewId, now_ms: u64) -> Result<Id, Error> {
    let exhausted =
        Error::fixed("ERR The stream has exhausted the last possible ID, unable to add more items");
    let after_last = last.next().ok_or(exhausted)?;
    let id = match wanted {
        NewId::Now if now_ms > last.ms => Id::new(now_ms, 0),
        NewId::Now => after_last,
        NewId::In(ms) if ms == last.ms && after_last.ms == ms => after_last,
        NewId::In(ms) if ms == last.ms => return Err(TOO_SMALL),
        NewId::In(ms) => Id::new(ms, 0),
        NewId::Exactly(id) => id,
    };
    if id <= last {
        return Err(TOO_SMALL);
    }
    Ok(id)
}

pub(super) fn xtrim(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let options = Options::parse(cx, args, false)?;
    let key = &args[1];
    let (place, found) = cx.seek_stream(key)?;
    let (Some(record), Some(trim)) = (found, options.trim) else {
        reply.int(0);
        return Ok(());
    };
    let stream = cx.edit::<Stream>(place, record)?;
    let trimmed = Trimmed::of(stream, trim, options.references.unwrap_or_default());
    let len = stream.len();
    if trimmed.count > 0 {
        cx.commit(key, Classes::STREAM, "xtrim", trimmed.count);
        if options.trims_by_what_it_reached() && cx.is_logged() {
            if !trimmed.one_by_one() {
                let mut buffer = itoa::Buffer::new();
                let len = buffer.format(len).as_bytes();
                cx.effect(&[b"XTRIM", key, b"MAXLEN", b"=", len]);
            }
            trimmed.log(cx, key);
        }
    }
    reply.int(trimmed.count as i64);
    Ok(())
}

pub(super) fn xdel(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[1];
    let (place, found) = cx.seek_stream(key)?;
    let Some(record) = found else {
        reply.int(0);
        return Ok(());
    };
    let ids = ids(args.skip(2))?;
    let stream = cx.edit::<Stream>(place, record)?;
    let deleted = ids.iter().filter(|id| stream.delete(**id)).count();
    if deleted > 0 {
        cx.commit(key, Classes::STREAM, "xdel", deleted as u64);
    }
    reply.int(deleted as i64);
    Ok(())
}

pub(super) fn xsetid(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let last_id = id(&args[2])?;
    let (mut added, mut max_deleted) = (None, Id::MIN);
    let mut options = args.skip(3);
    while let Some(option) = options.get(0) {
        let Some(value) = options.get(1) else {
            return Err(Error::Syntax);
        };
        if is(option, "ENTRIESADDED") {
            let number = u64::try_from(int(value)?)
                .map_err(|_| Error::fixed("ERR entries_added must be positive"))?;
            added = Some(number);
        } else if is(option, "MAXDELETEDID") {
            max_deleted = id(value)?;
            if last_id < max_deleted {
                return Err(Error::fixed(
                    "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                ));
            }
        } else {
            return Err(Error::Syntax);
        }
        options = options.skip(2);
    }
    let key = &args[1];
    let (place, found) = cx.seek_stream(key)?;
    let record = found.ok_or(Error::NoSuchKey)?;
    let stream = cx.view::<Stream>(place, record)?;
    if last_id < stream.max_deleted() {
        return Err(Error::fixed(
            "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id",
        ));
    }
    if stream.last_entry_id().is_some_and(|last| last_id < last) {
        return Err(Error::fixed(
            "ERR The ID specified in XSETID is smaller than the target stream top item",
        ));
    }
    if !stream.is_empty() && added.is_some_and(|added| added < stream.len()) {
        return Err(Error::fixed(
            "ERR The entries_added specified in XSETID is smaller than the target stream length",
        ));
    }
    let added = added.unwrap_or(stream.added());
    if max_deleted.is_zero() {
        max_deleted = stream.max_deleted();
    }
    let stream = cx.edit::<Stream>(place, record)?;
    stream.set_totals(last_id, max_deleted, added);
    cx.turn.commit_group(cx.db, key, Some("xsetid"), 1);
    reply.ok();
    Ok(())
}
