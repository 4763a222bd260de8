//! HGETDEL, HGETEX and HSETEX, which read or set values of fields and also delete the fields or
//! change their deadlines, as in Redis 8.0.
//!
//! Their effects are commands that Redis 7.4 has, so that its servers can replicate them.

use punctual_resp::{Args, Reply};
use smallvec::SmallVec;

use super::find_to_read;
use crate::arguments::Pairs;
use crate::command::parts::options::{Grammar, Options, Ttl};
use crate::command::parts::{deadline_effect, names, names_effect, remove_effect};
use crate::command::replies::reply_element;
use crate::error::Error;
use crate::events::Classes;
use crate::keyspace::records::Id;
use crate::time::NEVER;
use crate::turn::Cx;
use crate::turn::cx::Place;
use crate::value::Kind;
use crate::value::hash::Hash;
use crate::value::parts::FIELDS;

const HGETEX: Grammar = Grammar {
    command: "hgetex",
    each: 1,
    writes: false,
    any_order: false,
};
const HSETEX: Grammar = Grammar {
    command: "hsetex",
    each: 2,
    writes: true,
    any_order: false,
};

pub(super) fn hgetdel(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[1];
    cx.seek_as::<Hash>(key)?;
    let names = names(args.skip(2), &FIELDS, FIELDS.not_positive)?;
    let (place, found) = cx.seek_named::<Hash>(key, names.iter())?;
    reply.array(names.len());
    let Some(id) = found else {
        names.iter().for_each(|_| reply.null());
        return Ok(());
    };
    let mut deleted = 0;
    let mut removed = cx.subkeys(Classes::HASH);
    for name in names {
        let hash = cx.db_at(place).hash_at(id);
        match hash.get(name) {
            Some((value, _)) => reply_element(reply, value),
            None => reply.null(),
        }
        if cx.db_at(place).remove_field(id, name) {
            removed.push(name);
            deleted += 1;
        }
    }
    if deleted > 0 {
        cx.commit_subkeys(key, Classes::HASH, "hdel", deleted, removed.iter());
        cx.keep_elements(place, id, key);
        remove_effect(cx, key, &FIELDS, names.iter());
    }
    Ok(())
}

pub(super) fn hgetex(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[1];
    let options = Options::parse(cx, args, &FIELDS, &HGETEX)?;
    let names = options.elements;
    let (place, found) = find_to_read(cx, key, names.iter())?.unzip();
    reply.array(names.len());
    let (Some(place), Some(id)) = (place, found) else {
        names.iter().for_each(|_| reply.null());
        return Ok(());
    };
    let limits = cx.limits();
    let mut changed: SmallVec<[&[u8]; 8]> = SmallVec::new();
    for name in names {
        let db = cx.db_at(place);
        let Some((value, deadline)) = db.hash_at(id).get(name) else {
            reply.null();
            continue;
        };
        reply_element(reply, value);
        match options.ttl {
            Ttl::NotGiven | Ttl::Keep => continue,
            Ttl::Remove if deadline == NEVER => continue,
            Ttl::Remove => db.set_field_deadline(id, name, NEVER, &limits),
            Ttl::Until(at) => db.set_field_deadline(id, name, at, &limits),
            // The arguments may name a field twice, so `end` removes the fields after the loop.
            Ttl::Past => {}
        }
        changed.push(name);
    }
    if !changed.is_empty() {
        let names = changed.iter().copied();
        end(
            cx,
            (place, id),
            key,
            options.ttl,
            names,
            changed.len() as u64,
        );
    }
    Ok(())
}

pub(super) fn hsetex(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[1];
    let options = Options::parse(cx, args, &FIELDS, &HSETEX)?;
    let pairs = Pairs(options.elements);
    let names = || pairs.clone().map(|(name, _)| name);
    let (place, found) = cx.seek_named::<Hash>(key, names())?;
    let hash = match found {
        Some(id) => Some(cx.view::<Hash>(place, id)?),
        None => None,
    };
    let exists = |name: &[u8]| hash.is_some_and(|hash| hash.get(name).is_some());
    if !options.hold(names(), exists) {
        reply.int(0);
        return Ok(());
    }
    let limits = cx.limits();
    let id = match found {
        None => cx.add_at(
            place,
            key,
            Hash::of_pairs(pairs.clone(), &limits).into_value(),
        ),
        Some(id) if options.ttl == Ttl::Keep => {
            for (name, value) in pairs.clone() {
                cx.db_at(place).change_field(id, name, value, &limits);
            }
            id
        }
        Some(id) => {
            cx.db_at(place).set_fields(id, pairs.clone(), &limits);
            id
        }
    };
    cx.commit_subkeys(key, Classes::HASH, "hset", pairs.len() as u64, names());
    if cx.is_logged() {
        let mut words: Vec<&[u8]> = vec![b"HSET", key];
        words.extend(pairs.clone().flat_map(|(name, value)| [name, value]));
        cx.effect(&words);
    }
    match options.ttl {
        Ttl::Until(deadline) => {
            for name in names() {
                cx.db_at(place)
                    .set_field_deadline(id, name, deadline, &limits);
            }
            end(cx, (place, id), key, options.ttl, names(), 0);
        }
        Ttl::Past => end(cx, (place, id), key, options.ttl, names(), 0),
        // A replay of HSET removes the deadlines, so other effects restore them.
        Ttl::Keep if cx.is_logged() => {
            for name in names() {
                let field = cx.db_at(place).hash_at(id).get(name);
                if let Some((_, deadline)) = field
                    && deadline != NEVER
                {
                    deadline_effect(cx, key, &FIELDS, deadline, std::iter::once(name));
                }
            }
        }
        _ => {}
    }
    reply.int(1);
    Ok(())
}

/// Ends a change of deadlines: removes the fields if the deadline has passed, commits, and adds the
/// effect. `count` is the number of changes that no commit has counted yet.
fn end<'a>(
    cx: &mut Cx,
    (place, id): (Place, Id),
    key: &[u8],
    ttl: Ttl,
    names: impl Iterator<Item = &'a [u8]> + Clone,
    count: u64,
) {
    match ttl {
        Ttl::Past => {
            let mut removed = cx.subkeys(Classes::HASH);
            for name in names.clone() {
                if cx.db_at(place).remove_field(id, name) {
                    removed.push(name);
                    cx.turn.stats.expired_fields += 1;
                }
            }
            cx.commit_subkeys(key, Classes::HASH, "hdel", count, removed.iter());
            cx.keep_elements(place, id, key);
            remove_effect(cx, key, &FIELDS, names);
        }
        Ttl::Until(deadline) => {
            cx.commit_subkeys(key, Classes::HASH, "hexpire", count, names.clone());
            deadline_effect(cx, key, &FIELDS, deadline, names);
        }
        Ttl::Remove => {
            cx.commit_subkeys(key, Classes::HASH, "hpersist", count, names.clone());
            names_effect(cx, &[FIELDS.persist_command, key], &FIELDS, names);
        }
        Ttl::NotGiven | Ttl::Keep => {}
    }
}
