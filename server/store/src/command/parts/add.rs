//! SADDEX of Redis 8.12, and ZADDEX, which Redis does not have: they add members and set, keep or
//! remove the members' deadlines.
//!
//! A deadline that has passed removes members that exist and adds none. The effects are commands
//! that servers with SEXPIRE have: SADD and SPEXPIREAT, or SPERSIST, or SREM.

use punctual_resp::{Args, Reply};
use smallvec::SmallVec;

use super::options::{Grammar, Options, Ttl};
use super::{deadline_effect, names_effect, remove_effect};
use crate::error::Error;
use crate::keyspace::records::Id;
use crate::time::NEVER;
use crate::turn::Cx;
use crate::turn::cx::Place;
use crate::value::Kind;
use crate::value::parts::Timed;

/// A type of collection whose members are added together with a deadline.
pub(in crate::command) trait Added: Kind + Timed {
    const GRAMMAR: Grammar;
    /// Command that adds members, in effects, and its event.
    const ADD: (&'static [u8], &'static str);

    /// Adds members, each of which has [`Grammar::each`] arguments. Creates the collection if
    /// `found` is `None`. Returns its record, and the number of members that were added or changed.
    fn add(
        cx: &mut Cx<'_, '_>,
        place: Place,
        found: Option<Id>,
        key: &[u8],
        members: Args<'_>,
    ) -> Result<(Id, usize), Error>;

    /// Checks the arguments of members before anything is changed.
    fn check_members(members: Args<'_>) -> Result<(), Error>;
}

/// SADDEX and ZADDEX.
pub(in crate::command) fn addex<K: Added>(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    let (key, words) = (&args[1], K::WORDS);
    let options = Options::parse(cx, args, words, &K::GRAMMAR)?;
    let members = options.elements;
    K::check_members(members)?;
    let names = || {
        let each = K::GRAMMAR.each;
        members.iter().skip(each - 1).step_by(each)
    };
    let (place, found) = cx.seek_named::<K>(key, names())?;
    let parts = match found {
        Some(id) => Some(cx.view::<K>(place, id)?),
        None => None,
    };
    let is_there = |name: &[u8]| parts.is_some_and(|parts| parts.deadline(name).is_some());
    let holds = options.hold(names(), is_there);
    reply.int(i64::from(holds));
    if !holds {
        return Ok(());
    }
    if options.ttl == Ttl::Past {
        return match found {
            Some(id) => remove::<K>(cx, (place, id), key, names()),
            None => Ok(()),
        };
    }
    let (id, changed) = K::add(cx, place, found, key, members)?;
    if changed > 0 {
        let (command, event) = K::ADD;
        cx.commit(key, words.class, event, changed as u64);
        if cx.is_logged() {
            let head = [command, key].into_iter();
            let effect: Vec<&[u8]> = head.chain(members.iter()).collect();
            cx.effect(&effect);
        }
    }
    let limits = cx.limits();
    match options.ttl {
        Ttl::Until(deadline) => {
            for name in names() {
                cx.edit::<K>(place, id)?
                    .set_deadline(name, deadline, &limits);
            }
            let count = names().count() as u64;
            cx.commit_subkeys(key, words.class, words.expire, count, names());
            deadline_effect(cx, key, words, deadline, names());
        }
        Ttl::NotGiven if found.is_some() => {
            let parts = cx.view::<K>(place, id)?;
            let has_deadline = |name: &&[u8]| parts.deadline(name).is_some_and(|at| at != NEVER);
            let timed: SmallVec<[&[u8]; 8]> = names().filter(has_deadline).collect();
            if !timed.is_empty() {
                for name in &timed {
                    cx.edit::<K>(place, id)?.set_deadline(name, NEVER, &limits);
                }
                let (count, timed) = (timed.len() as u64, timed.iter().copied());
                cx.commit_subkeys(key, words.class, words.persist, count, timed.clone());
                names_effect(cx, &[words.persist_command, key], words, timed);
            }
        }
        _ => {}
    }
    cx.rearm(place, id);
    Ok(())
}

/// Removes the members that exist.
fn remove<'a, K: Added>(
    cx: &mut Cx<'_, '_>,
    (place, id): (Place, Id),
    key: &[u8],
    names: impl Iterator<Item = &'a [u8]>,
) -> Result<(), Error> {
    let words = K::WORDS;
    let mut removed: SmallVec<[&[u8]; 8]> = SmallVec::new();
    for name in names {
        if cx.view::<K>(place, id)?.deadline(name).is_some() {
            cx.edit::<K>(place, id)?.remove_part(name);
            removed.push(name);
        }
    }
    if removed.is_empty() {
        return Ok(());
    }
    let (count, removed) = (removed.len() as u64, removed.iter().copied());
    cx.turn.stats.expired_fields += count;
    cx.commit_subkeys(key, words.class, words.removed, count, removed.clone());
    cx.keep_elements(place, id, key);
    remove_effect(cx, key, words, removed);
    Ok(())
}
