//! HGET and its kin, and HSCAN: what shows fields and values.

use punctual_resp::{Args, Reply};

use super::{answer, find_to_read, value_of};
use crate::command::element_scan::scan_fields;
use crate::error::Error;
use crate::turn::Cx;
use crate::value::hash::{Entry, Hash};

pub(super) fn hget(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    let now = cx.now();
    let name = args.at(2);
    if let Some((place, id)) = find_to_read(cx, &args[1], std::iter::once(name))?
        && let Some(value) = value_of(cx.view(place, id)?, name, now)
    {
        answer(reply, value);
    } else {
        reply.null();
    }
    Ok(())
}

pub(super) fn hmget(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    let now = cx.now();
    let names = args.skip(2);
    let found = find_to_read(cx, &args[1], names.iter())?;
    let hash = match found {
        Some((place, id)) => Some(cx.view::<Hash>(place, id)?),
        None => None,
    };
    reply.array(names.len());
    for name in names {
        match hash.and_then(|hash| value_of(hash, name, now)) {
            Some(value) => answer(reply, value),
            None => reply.null(),
        }
    }
    Ok(())
}

pub(super) fn hstrlen(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    let now = cx.now();
    let name = args.at(2);
    let len = match find_to_read(cx, &args[1], std::iter::once(name))? {
        Some((place, id)) => {
            value_of(cx.view(place, id)?, name, now).map_or(0, |value| value.text_len())
        }
        None => 0,
    };
    reply.int(len as i64);
    Ok(())
}

pub(super) fn hexists(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    let now = cx.now();
    let name = args.at(2);
    let exists = match find_to_read(cx, &args[1], std::iter::once(name))? {
        Some((place, id)) => value_of(cx.view(place, id)?, name, now).is_some(),
        None => false,
    };
    reply.int(i64::from(exists));
    Ok(())
}

/// Counts fields that are due if there are so many that the wheel is behind, as DBSIZE counts keys.
pub(super) fn hlen(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    cx.expire_before_count(&args[1]);
    let len = cx.read_as::<Hash>(&args[1])?.map_or(0, Hash::len);
    reply.int(len as i64);
    Ok(())
}

/// What HGETALL and its kin show of each field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Show {
    Both,
    Names,
    Values,
}

pub(super) fn hgetall(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    all(cx, args, reply, Show::Both)
}

pub(super) fn hkeys(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    all(cx, args, reply, Show::Names)
}

pub(super) fn hvals(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    all(cx, args, reply, Show::Values)
}

fn all(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    show: Show,
) -> Result<(), Error> {
    let now = cx.now();
    let hash = cx.read_as::<Hash>(&args[1])?;
    let stays = |entry: &Entry<'_>| !now.is_due(entry.deadline);
    let len = match hash {
        None => 0,
        Some(hash) if hash.with_deadline() == 0 => hash.len(),
        Some(hash) => hash.iter().filter(stays).count(),
    };
    match show {
        Show::Both => reply.map(len),
        Show::Names | Show::Values => reply.array(len),
    }
    for entry in hash.into_iter().flat_map(Hash::iter).filter(stays) {
        if show != Show::Values {
            answer(reply, entry.name);
        }
        if show != Show::Names {
            answer(reply, entry.value);
        }
    }
    Ok(())
}

pub(super) fn hscan(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    let now = cx.now();
    scan_fields::<Hash>(cx, args, reply, |hash, piece| {
        let names_only = piece.names_only();
        // Small hashes are shown in one go, as Redis does, deadlines or not.
        if let Some(table) = hash.table()
            && hash.encoding() == "hashtable"
        {
            return piece.walk(table.keyed(), |piece, field| {
                if !now.is_due(field.deadline()) && piece.name(field.name()) && !names_only {
                    let mut buffer = itoa::Buffer::new();
                    piece.bulk(field.value.text(&mut buffer));
                }
            });
        }
        for entry in hash.iter().filter(|entry| !now.is_due(entry.deadline)) {
            if piece.packed_name(entry.name) && !names_only {
                piece.packed(entry.value);
            }
        }
        None
    })
}
