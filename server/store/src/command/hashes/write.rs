//! HSET and other writers of fields, HINCRBY, HDEL.

use punctual_rdb::listpack::Element;
use punctual_resp::{Args, Reply};

use super::add_hash_of;
use crate::arguments::{Pairs, int};
use crate::command::parts::deadline_effect;
use crate::error::Error;
use crate::events::Classes;
use crate::time::NEVER;
use crate::turn::Cx;
use crate::value::Kind;
use crate::value::float::Float;
use crate::value::hash::Hash;
use crate::value::parts::FIELDS;

const NOT_FLOAT: Error = Error::fixed("ERR hash value is not a float");

pub(super) fn hset(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let created = set(cx, args, "hset")?;
    reply.int(created as i64);
    Ok(())
}

pub(super) fn hmset(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    set(cx, args, "hmset")?;
    reply.ok();
    Ok(())
}

/// Sets fields and returns the number of new ones.
fn set(cx: &mut Cx, args: Args, command: &'static str) -> Result<usize, Error> {
    if args.len() % 2 == 1 {
        return Err(Error::Arity(command.into()));
    }
    let key = &args[1];
    let pairs = Pairs(args.skip(2));
    let limits = cx.limits();
    let (place, found) = cx.seek_named::<Hash>(key, pairs.clone().map(|(name, _)| name))?;
    let created = match found {
        Some(id) => {
            if pairs.len() > 1 {
                let names = pairs.clone().map(|(name, _)| name);
                cx.view::<Hash>(place, id)?.warm_names(names);
            }
            cx.db_at(place).set_fields(id, pairs.clone(), &limits)
        }
        None => {
            let hash = Hash::of_pairs(pairs.clone(), &limits);
            let created = hash.len();
            cx.add_at(place, key, hash.into_value());
            created
        }
    };
    let names = pairs.clone().map(|(name, _)| name);
    cx.commit_subkeys(key, Classes::HASH, "hset", pairs.len() as u64, names);
    Ok(created)
}

/// Creates a hash of the given fields, or replaces a hash by them.
pub(super) fn import(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (key, pairs) = (&args[1], Pairs(args.skip(2)));
    let (_, found) = cx.seek_typed::<Hash>(key)?;
    let hash = Hash::of_pairs(pairs.clone(), &cx.limits());
    cx.overwrite(key, hash.into_value());
    let names = pairs.clone().map(|(name, _)| name);
    cx.commit_subkeys(key, Classes::HASH, "hset", pairs.len() as u64, names);
    if cx.is_logged() {
        if found.is_some() {
            cx.effect(&[b"DEL", key]);
        }
        let words: Vec<&[u8]> = args.iter().collect();
        cx.effect(&words);
    }
    reply.ok();
    Ok(())
}

pub(super) fn hsetnx(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (key, name, value) = (&args[1], args.at(2), &args[3]);
    let limits = cx.limits();
    let (place, found) = cx.seek_named::<Hash>(key, std::iter::once(name))?;
    match found {
        Some(id) if cx.view::<Hash>(place, id)?.get(name).is_some() => {
            reply.int(0);
            return Ok(());
        }
        Some(id) => cx.db_at(place).change_field(id, name, value, &limits),
        None => add_hash_of(cx, place, key, name, value),
    }
    cx.commit_subkeys(key, Classes::HASH, "hset", 1, std::iter::once(name));
    reply.int(1);
    Ok(())
}

pub(super) fn hdel(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[1];
    let names = args.skip(2);
    let (place, found) = cx.seek_named::<Hash>(key, names.iter())?;
    let Some(id) = found else {
        reply.int(0);
        return Ok(());
    };
    if names.len() > 1 {
        cx.view::<Hash>(place, id)?.warm_names(names.iter());
    }
    let mut removed = cx.subkeys(Classes::HASH);
    let db = cx.db_at(place);
    let mut deleted = 0;
    for name in names {
        if db.remove_field(id, name) {
            removed.push(name);
            deleted += 1;
            if db.hash_at(id).is_empty() {
                break;
            }
        }
    }
    if deleted > 0 {
        cx.commit_subkeys(key, Classes::HASH, "hdel", deleted, removed.iter());
        cx.keep_elements(place, id, key);
    }
    reply.int(deleted as i64);
    Ok(())
}

pub(super) fn hincrby(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (key, name) = (&args[1], args.at(2));
    let by = int(&args[3])?;
    let limits = cx.limits();
    let (place, found) = cx.seek_named::<Hash>(key, std::iter::once(name))?;
    let sum = match found {
        Some(id) => cx.db_at(place).add_to_field(id, name, by, &limits)?,
        None => {
            let mut buffer = itoa::Buffer::new();
            add_hash_of(cx, place, key, name, buffer.format(by).as_bytes());
            by
        }
    };
    cx.commit_subkeys(key, Classes::HASH, "hincrby", 1, std::iter::once(name));
    reply.int(sum);
    Ok(())
}

pub(super) fn hincrbyfloat(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (key, name) = (&args[1], args.at(2));
    let by = Float::parse(&args[3]).ok_or(Error::NotFloat)?;
    if !by.is_finite() {
        return Err(Error::fixed("ERR value is NaN or Infinity"));
    }
    let limits = cx.limits();
    let (place, found) = cx.seek_named::<Hash>(key, std::iter::once(name))?;
    let value = match found {
        Some(id) => cx.view::<Hash>(place, id)?.get(name),
        None => None,
    };
    let deadline = value.map(|(_, at)| at).filter(|at| *at != NEVER);
    let old = match value {
        None => Float::from(0),
        Some((Element::Int(int), _)) => Float::from(int),
        Some((Element::Bytes(text), _)) => Float::parse(text).ok_or(NOT_FLOAT)?,
    };
    let sum = old.plus(by);
    if !sum.is_finite() {
        return Err(Error::fixed("ERR increment would produce NaN or Infinity"));
    }
    let text = sum.text();
    match found {
        Some(id) => cx.db_at(place).change_field(id, name, &text, &limits),
        None => add_hash_of(cx, place, key, name, &text),
    }
    let field = std::iter::once(name);
    cx.commit_subkeys(key, Classes::HASH, "hincrbyfloat", 1, field);
    cx.effect(&[b"HSET", key, name, &text]);
    if let Some(at) = deadline {
        // A replay of HSET removes the field's deadline, so another effect restores it.
        deadline_effect(cx, key, &FIELDS, at, std::iter::once(name));
    }
    reply.bulk(&text);
    Ok(())
}
