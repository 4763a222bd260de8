//! LPUSH, LPOP and their variants.

use punctual_resp::{Args, Reply};

use super::piece_size;
use crate::arguments::int;
use crate::command::replies::reply_element;
use crate::error::Error;
use crate::events::Classes;
use crate::keyspace::records::Id;
use crate::turn::Cx;
use crate::turn::cx::Place;
use crate::value::Kind;
use crate::value::list::{End, List};

const NOT_POSITIVE: Error = Error::fixed("ERR value is out of range, must be positive");

/// Result of a look-up of a list, valid until the key is removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found<'k> {
    pub(crate) key: &'k [u8],
    pub(crate) place: Place,
    pub(crate) id: Id,
}

/// Finds a list to pop from, and records the access.
///
/// # Errors
/// [`Error::WrongType`] if the key holds another type.
pub(crate) fn find<'k>(cx: &mut Cx, key: &'k [u8]) -> Result<Option<Found<'k>>, Error> {
    let (place, found) = cx.seek_as::<List>(key)?;
    Ok(found.map(|id| Found { key, place, id }))
}

/// Returns the event of a push at an end.
#[inline]
pub(super) const fn push_event(end: End) -> &'static str {
    match end {
        End::Head => "lpush",
        End::Tail => "rpush",
    }
}

pub(super) fn lpush(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    push(cx, args, End::Head, true, reply)
}

pub(super) fn rpush(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    push(cx, args, End::Tail, true, reply)
}

pub(super) fn lpushx(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    push(cx, args, End::Head, false, reply)
}

pub(super) fn rpushx(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    push(cx, args, End::Tail, false, reply)
}

#[inline]
fn push(
    cx: &mut Cx,
    args: Args,
    end: End,
    may_create: bool,
    reply: &mut Reply,
) -> Result<(), Error> {
    let (key, texts) = (&args[1], args.skip(2));
    let piece = piece_size(cx);
    let (place, found) = cx.seek_to_write(key);
    let len = match found {
        Some(id) => {
            let list = cx.edit::<List>(place, id)?;
            list.push(end, texts.iter(), piece);
            list.len()
        }
        None if may_create => {
            let mut list = List::new();
            list.push(end, texts.iter(), piece);
            let len = list.len();
            cx.add_at(place, key, list.into_value());
            len
        }
        None => {
            reply.int(0);
            return Ok(());
        }
    };
    reply.int(len as i64);
    cx.commit(key, Classes::LIST, push_event(end), texts.len() as u64);
    Ok(())
}

pub(super) fn lpop(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    pop(cx, args, End::Head, "lpop", reply)
}

pub(super) fn rpop(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    pop(cx, args, End::Tail, "rpop", reply)
}

#[inline]
fn pop(
    cx: &mut Cx,
    args: Args,
    end: End,
    name: &'static str,
    reply: &mut Reply,
) -> Result<(), Error> {
    let key = &args[1];
    if args.len() == 2 {
        // `pop_one` checks the type.
        let (place, found) = cx.seek_to_write(key);
        return match found {
            Some(id) => pop_one(cx, Found { key, place, id }, end, reply),
            None => {
                reply.null();
                Ok(())
            }
        };
    }
    if args.len() > 3 {
        return Err(Error::Arity(name.into()));
    }
    let count = int(&args[2]).ok().and_then(|n| usize::try_from(n).ok());
    let count = count.ok_or(NOT_POSITIVE)?;
    match find(cx, key)? {
        None => reply.null_array(),
        Some(_) if count == 0 => reply.array(0),
        Some(found) => {
            pop_many(cx, found, end, count, reply)?;
        }
    }
    Ok(())
}

/// Pops an element, replies with it and sends the events.
///
/// # Errors
/// [`Error::WrongType`] if the key holds another type.
#[inline]
pub(crate) fn pop_one(
    cx: &mut Cx,
    found: Found<'_>,
    end: End,
    reply: &mut Reply,
) -> Result<(), Error> {
    let piece = piece_size(cx);
    let list = cx.edit::<List>(found.place, found.id)?;
    match list.at_end(end) {
        Some(element) => reply_element(reply, element),
        None => reply.null(),
    }
    list.drop_end(end, 1, piece);
    commit_pop(cx, found, end, 1);
    Ok(())
}

/// Pops up to `count` elements, replies with an array of them and sends the events. Returns the
/// number of elements.
fn pop_many(
    cx: &mut Cx,
    found: Found<'_>,
    end: End,
    count: usize,
    reply: &mut Reply,
) -> Result<usize, Error> {
    let piece = piece_size(cx);
    let list = cx.edit::<List>(found.place, found.id)?;
    let count = count.min(list.len());
    let from = match end {
        End::Head => 0,
        End::Tail => list.len().saturating_sub(1),
    };
    reply.array(count);
    for element in list.walk(from, end.other()).take(count) {
        reply_element(reply, element);
    }
    list.drop_end(end, count, piece);
    commit_pop(cx, found, end, count);
    Ok(count)
}

/// Pops like [`pop_many`], but replies with the key and the array.
///
/// # Errors
/// [`Error::WrongType`] if the key holds another type.
pub(crate) fn pop_keyed(
    cx: &mut Cx,
    found: Found<'_>,
    end: End,
    count: usize,
    reply: &mut Reply,
) -> Result<usize, Error> {
    reply.array(2);
    reply.bulk(found.key);
    pop_many(cx, found, end, count, reply)
}

/// Commits the pop of `count` elements; removes the key if the list is empty.
#[inline]
pub(super) fn commit_pop(cx: &mut Cx, found: Found<'_>, end: End, count: usize) {
    let event = match end {
        End::Head => "lpop",
        End::Tail => "rpop",
    };
    cx.commit_elements(
        found.place,
        found.id,
        found.key,
        Classes::LIST,
        event,
        count as u64,
    );
}
