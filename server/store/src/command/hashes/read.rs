//! HGET and other readers of fields and values, and HSCAN.

use punctual_resp::{Args, Reply};

use super::{find_to_read, value_of};
use crate::command::element_scan::scan;
use crate::command::replies::reply_element;
use crate::command::scan::ScanOf;
use crate::error::Error;
use crate::turn::Cx;
use crate::value::content::Content as _;
use crate::value::hash::{Entry, Hash};

pub(super) fn hget(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let now = cx.now();
    let name = args.at(2);
    if let Some((place, id)) = find_to_read(cx, &args[1], std::iter::once(name))?
        && let Some(value) = value_of(cx.view(place, id)?, name, now)
    {
        reply_element(reply, value);
    } else {
        reply.null();
    }
    Ok(())
}

pub(super) fn hmget(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let now = cx.now();
    let names = args.skip(2);
    let found = find_to_read(cx, &args[1], names.iter())?;
    let hash = match found {
        Some((place, id)) => Some(cx.view::<Hash>(place, id)?),
        None => None,
    };
    if let Some(hash) = hash {
        hash.warm_names(names.iter());
    }
    reply.array(names.len());
    for name in names {
        match hash.and_then(|hash| value_of(hash, name, now)) {
            Some(value) => reply_element(reply, value),
            None => reply.null(),
        }
    }
    Ok(())
}

pub(super) fn hstrlen(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
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

pub(super) fn hexists(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let now = cx.now();
    let name = args.at(2);
    let exists = match find_to_read(cx, &args[1], std::iter::once(name))? {
        Some((place, id)) => value_of(cx.view(place, id)?, name, now).is_some(),
        None => false,
    };
    reply.int(i64::from(exists));
    Ok(())
}

/// Expires due fields within a budget, and then counts all remaining fields, as DBSIZE does with
/// keys.
pub(super) fn hlen(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    cx.expire_before_count(&args[1]);
    let len = cx.read_as::<Hash>(&args[1])?.map_or(0, Hash::len);
    reply.int(len as i64);
    Ok(())
}

/// Part of each field that HGETALL, HKEYS and HVALS return.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Show {
    Both,
    Names,
    Values,
}

pub(super) fn hgetall(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    reply_all(cx, args, reply, Show::Both)
}

pub(super) fn hkeys(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    reply_all(cx, args, reply, Show::Names)
}

pub(super) fn hvals(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    reply_all(cx, args, reply, Show::Values)
}

fn reply_all(cx: &mut Cx, args: Args, reply: &mut Reply, show: Show) -> Result<(), Error> {
    let now = cx.now();
    let hash = cx.read_as::<Hash>(&args[1])?;
    let is_live = |entry: &Entry<'_>| !now.is_due(entry.deadline);
    let len = match hash {
        None => 0,
        Some(hash) if hash.with_deadline() == 0 => hash.len(),
        Some(hash) => hash.iter().filter(is_live).count(),
    };
    match show {
        Show::Both => reply.map(len),
        Show::Names | Show::Values => reply.array(len),
    }
    for entry in hash.into_iter().flat_map(Hash::iter).filter(is_live) {
        if show != Show::Values {
            reply_element(reply, entry.name);
        }
        if show != Show::Names {
            reply_element(reply, entry.value);
        }
    }
    Ok(())
}

pub(super) fn hscan(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let now = cx.now();
    scan::<Hash>(cx, args, reply, ScanOf::Fields, |hash, page| {
        let names_only = page.names_only();
        // As in Redis, a small hash is one page, with or without deadlines.
        if let Some(table) = hash.table()
            && hash.encoding() == "hashtable"
        {
            let fields = table.keyed();
            return page.walk(fields, |page, field| {
                if !now.is_due(fields.deadline_of(field)) && page.name(field.name()) && !names_only
                {
                    let mut buffer = itoa::Buffer::new();
                    page.bulk(field.value.text(&mut buffer));
                }
            });
        }
        for entry in hash.iter().filter(|entry| !now.is_due(entry.deadline)) {
            if page.packed_name(entry.name) && !names_only {
                page.packed(entry.value);
            }
        }
        None
    })
}
