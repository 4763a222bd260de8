//! LSET, LINSERT, LREM and LTRIM.

use punctual_resp::{Args, Reply};

use super::{absolute, bounds, piece_size};
use crate::arguments::{int, is};
use crate::error::Error;
use crate::events::Classes;
use crate::turn::Cx;
use crate::value::list::{End, List};

const INDEX_RANGE: Error = Error::fixed("ERR index out of range");

pub(super) fn lset(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[1];
    let (place, found) = cx.seek_as::<List>(key)?;
    let id = found.ok_or(Error::NoSuchKey)?;
    let index = int(&args[2])?;
    let len = cx.view::<List>(place, id)?.len();
    let index = absolute(index, len).ok_or(INDEX_RANGE)?;
    let piece = piece_size(cx);
    cx.edit::<List>(place, id)?.set(index, &args[3], piece);
    reply.ok();
    cx.commit(key, Classes::LIST, "lset", 1);
    Ok(())
}

pub(super) fn linsert(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[1];
    let side = match () {
        () if is(&args[2], "BEFORE") => End::Head,
        () if is(&args[2], "AFTER") => End::Tail,
        () => return Err(Error::Syntax),
    };
    let (place, Some(id)) = cx.seek_as::<List>(key)? else {
        reply.int(0);
        return Ok(());
    };
    let Some(beside) = cx.view::<List>(place, id)?.find(&args[3]) else {
        reply.int(-1);
        return Ok(());
    };
    let piece = piece_size(cx);
    let list = cx.edit::<List>(place, id)?;
    list.insert(&beside, side, &args[4], piece);
    reply.int(list.len() as i64);
    cx.commit(key, Classes::LIST, "linsert", 1);
    Ok(())
}

pub(super) fn lrem(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (key, text) = (&args[1], &args[3]);
    let count = int(&args[2])?;
    let (place, Some(id)) = cx.seek_as::<List>(key)? else {
        reply.int(0);
        return Ok(());
    };
    let from = if count < 0 { End::Tail } else { End::Head };
    let count_max = match usize::try_from(count.unsigned_abs()) {
        Ok(0) | Err(_) => usize::MAX,
        Ok(count) => count,
    };
    let piece = piece_size(cx);
    // Edits the list at once, because usually an element matches. A search first would double the
    // time.
    let removed = cx
        .edit::<List>(place, id)?
        .remove(text, from, count_max, piece);
    reply.int(removed as i64);
    if removed > 0 {
        cx.commit_elements(place, id, key, Classes::LIST, "lrem", removed as u64);
    }
    Ok(())
}

pub(super) fn ltrim(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[1];
    let (start, end) = (int(&args[2])?, int(&args[3])?);
    reply.ok();
    let (place, Some(id)) = cx.seek_as::<List>(key)? else {
        return Ok(());
    };
    let piece = piece_size(cx);
    let list = cx.edit::<List>(place, id)?;
    let before = list.len();
    let (start, end) = bounds(start, end, before);
    list.keep(start, end, piece);
    let removed = before - list.len();
    cx.commit_elements(place, id, key, Classes::LIST, "ltrim", removed as u64);
    Ok(())
}
