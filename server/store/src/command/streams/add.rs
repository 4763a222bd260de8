//! XADD, XDEL, XTRIM, XSETID, XCFGSET and XIDMPRECORD.
//!
//! IDMP and IDMPAUTO make an addition idempotent: a stream adds a message of a producer once. The
//! effect of such an addition keeps the option and names the entry's ID, as in Redis 8.6. A
//! duplicate only increments a counter. Its effect is the client's command, with `*` as the ID. A
//! replay of this command adds no entry.

use std::borrow::Cow;

use punctual_resp::{Args, Reply};
use smallvec::SmallVec;

use super::arguments::{NewId, Options, id, ids};
use super::references::Trimmed;
use super::reply::reply_id;
use crate::arguments::{Pairs, int, is};
use crate::error::Error;
use crate::events::Classes;
use crate::keyspace::records::Id as RecordId;
use crate::turn::Cx;
use crate::turn::cx::Place;
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
    let message = options
        .idempotent
        .map(|message| message.names(args, fields));
    if let Some(message) = &message
        && count_duplicate(cx, place, found, key, message, reply)?
    {
        return Ok(());
    }
    if message.is_some() && cx.turn.replays() && options.new_id == NewId::Now {
        // The server that logged this command found a duplicate, but this stream has forgotten the
        // message.
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
    if let Some((producer, message)) = &message {
        let kept = stream.idempotence_mut(&limits);
        kept.record(producer, message, new_id, now_ms);
        kept.added += 1;
    }
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
    let exact_trim = options.needs_exact_trim();
    if cx.is_logged() && (retained || exact_trim || options.new_id != NewId::Exactly(new_id)) {
        let text = new_id.text();
        let mut buffer = itoa::Buffer::new();
        let mut words: SmallVec<[&[u8]; 16]> = SmallVec::from_slice(&[&args[0], key]);
        if exact_trim && options.trim.is_some() && !trimmed.one_by_one() {
            words.extend([&b"MAXLEN"[..], b"=", buffer.format(len).as_bytes()]);
        }
        if let Some(message) = options.idempotent.filter(|_| exact_trim) {
            words.extend(message.words(args).iter());
        }
        if !exact_trim {
            // A replay of the command's own options has the same result.
            words.extend(args.take(options.end - 1).skip(2).iter());
        }
        words.push(&text);
        words.extend(fields.iter());
        cx.effect(&words);
        trimmed.log(cx, key);
    }
    if retained {
        cx.turn.retain(place.shard(), place.db(), key, record);
    }
    if retained || message.is_some() {
        cx.rearm(place, record);
    }
    Ok(())
}

/// If the producer has added the message before, counts a duplicate and replies with the entry's
/// ID. Returns false for a new message.
fn count_duplicate(
    cx: &mut Cx,
    place: Place,
    found: Option<RecordId>,
    key: &[u8],
    (producer, message): &(&[u8], Cow<'_, [u8]>),
    reply: &mut Reply,
) -> Result<bool, Error> {
    let Some(record) = found else {
        return Ok(false);
    };
    let (now_ms, limits) = (cx.now().read_ms(), cx.limits());
    let kept = cx.view::<Stream>(place, record)?.idempotence();
    let before = kept.and_then(|kept| kept.find(producer, message, now_ms));
    if let Some(id) = before {
        let stream = cx.edit::<Stream>(place, record)?;
        stream.idempotence_mut(&limits).duplicates += 1;
        cx.turn.commit_group(cx.db, key, None, 1);
        reply_id(reply, id);
    }
    Ok(before.is_some())
}

/// XCFGSET: changes the settings of idempotent additions. If a setting differs from its old value,
/// the stream forgets all messages.
pub(super) fn xcfgset(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (mut duration, mut size) = (None, None);
    let mut options = args.skip(2);
    if options.is_empty() {
        return Err(Error::fixed(
            "ERR At least one parameter (IDMP-DURATION or IDMP-MAXSIZE) is required",
        ));
    }
    while let Some(option) = options.get(0) {
        let (slot, max, error) = match option {
            _ if is(option, "IDMP-DURATION") => (
                &mut duration,
                86_400,
                "ERR IDMP-DURATION must be between 1 and 86400 seconds",
            ),
            _ if is(option, "IDMP-MAXSIZE") => (
                &mut size,
                10_000,
                "ERR IDMP-MAXSIZE must be between 1 and 10000 entries",
            ),
            _ => return Err(Error::Syntax),
        };
        let value = int(options.get(1).ok_or(Error::Syntax)?)?;
        if !(1..=max).contains(&value) {
            return Err(Error::fixed(error));
        }
        *slot = Some(value as u32);
        options = options.skip(2);
    }
    let key = &args[1];
    let limits = cx.limits();
    let (place, found) = cx.seek_stream(key)?;
    let record = found.ok_or(Error::NoSuchKey)?;
    let kept = cx.edit::<Stream>(place, record)?.idempotence_mut(&limits);
    let (duration, size) = (
        duration.unwrap_or(kept.duration_s),
        size.unwrap_or(kept.size_max),
    );
    if (duration, size) != (kept.duration_s, kept.size_max) {
        (kept.duration_s, kept.size_max) = (duration, size);
        kept.clear();
    }
    cx.turn.commit_group(cx.db, key, None, 1);
    reply.ok();
    Ok(())
}

/// XIDMPRECORD: records the producer and message of an entry. Redis 8.8 writes it to append-only
/// files.
pub(super) fn xidmprecord(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (key, producer, message) = (&args[1], &args[2], &args[3]);
    if producer.is_empty() || message.is_empty() {
        return Err(Error::fixed(
            "ERR producer ID and idempotent ID must not be empty",
        ));
    }
    let id = id(&args[4])?;
    let (now_ms, limits) = (cx.now().read_ms(), cx.limits());
    let (place, found) = cx.seek_stream(key)?;
    let record = found.ok_or(Error::NoSuchKey)?;
    let stream = cx.view::<Stream>(place, record)?;
    if !stream.contains(id) {
        return Err(Error::fixed(
            "ERR The specified stream ID was deleted or doesn't exist",
        ));
    }
    let kept = stream.idempotence();
    match kept.and_then(|kept| kept.find(producer, message, now_ms)) {
        Some(known) if known == id => {}
        Some(_) => {
            return Err(Error::fixed(
                "ERR The specified IDMP producer-id/idempotent-id pair maps to a different stream ID",
            ));
        }
        None => {
            let stream = cx.edit::<Stream>(place, record)?;
            stream
                .idempotence_mut(&limits)
                .record(producer, message, id, now_ms);
            cx.turn.commit_group(cx.db, key, None, 1);
            cx.rearm(place, record);
        }
    }
    reply.ok();
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
        if options.needs_exact_trim() && cx.is_logged() {
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
