//! SADD, SREM and SMOVE. A set is edited only if its members or its encoding change.
//!
//! SADD leaves a member that the set has as it is, with its deadline, as in Redis 8.12. SMOVE moves
//! the deadline with the member, as in Valkey; a member that the target has keeps its own.

use punctual_resp::{Args, Reply};

use crate::command::parts::add::Added;
use crate::command::parts::options::Grammar;
use crate::error::Error;
use crate::events::Classes;
use crate::keyspace::records::Id;
use crate::time::NEVER;
use crate::turn::Cx;
use crate::turn::cx::Place;
use crate::value::Kind;
use crate::value::parts::Parts as _;
use crate::value::set::Set;

pub(super) fn sadd(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (key, members) = (&args[1], args.skip(2));
    let (place, found) = cx.seek_named::<Set>(key, members.iter())?;
    let (_, added) = Set::add(cx, place, found, key, members)?;
    if added > 0 {
        cx.commit(key, Classes::SET, "sadd", added as u64);
    }
    reply.int(added as i64);
    Ok(())
}

impl Added for Set {
    const GRAMMAR: Grammar = Grammar {
        command: "saddex",
        each: 1,
        writes: true,
        any_order: true,
    };
    const ADD: (&'static [u8], &'static str) = (b"SADD", "sadd");

    #[inline]
    fn add(
        cx: &mut Cx<'_, '_>,
        place: Place,
        found: Option<Id>,
        key: &[u8],
        members: Args<'_>,
    ) -> Result<(Id, usize), Error> {
        let limits = cx.limits();
        let Some(id) = found else {
            let mut set = Set::for_members(&members[0], members.len(), &limits);
            let added = members.iter().filter(|m| set.insert(m, &limits)).count();
            return Ok((cx.add_at(place, key, set.into_value()), added));
        };
        let set = cx.view::<Set>(place, id)?;
        if set.outgrown_by(members.len(), &limits) {
            cx.edit::<Set>(place, id)?.become_table();
        }
        let set = cx.view::<Set>(place, id)?;
        set.warm_names(members.iter());
        let first = members
            .iter()
            .enumerate()
            .find_map(|(n, member)| Some((n, member, set.vacancy(member)?)));
        let Some((n, member, vacancy)) = first else {
            return Ok((id, 0));
        };
        let set = cx.edit::<Set>(place, id)?;
        set.insert_at(vacancy, member, &limits);
        let rest = members.skip(n + 1);
        let added = 1 + rest.iter().filter(|m| set.insert(m, &limits)).count();
        Ok((id, added))
    }

    fn check_members(_: Args<'_>) -> Result<(), Error> {
        Ok(())
    }
}

pub(super) fn srem(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (key, members) = (&args[1], args.skip(2));
    let (place, found) = cx.seek_named::<Set>(key, members.iter())?;
    let Some(id) = found else {
        reply.int(0);
        return Ok(());
    };
    let set = cx.view::<Set>(place, id)?;
    set.warm_names(members.iter());
    let first = members
        .iter()
        .enumerate()
        .find_map(|(n, member)| Some((n, set.find(member)?)));
    let Some((n, spot)) = first else {
        reply.int(0);
        return Ok(());
    };
    let set = cx.edit::<Set>(place, id)?;
    set.remove_at(spot);
    let rest = members.skip(n + 1);
    let removed = 1 + rest.iter().filter(|m| set.remove(m)).count();
    cx.commit_elements(place, id, key, Classes::SET, "srem", removed as u64);
    reply.int(removed as i64);
    Ok(())
}

pub(super) fn smove(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (from, to, member) = (&args[1], &args[2], &args[3]);
    let limits = cx.limits();
    let (from_place, source) = cx.seek_to_write(from);
    let (to_place, target) = cx.seek_to_write(to);
    let Some(source) = source else {
        reply.int(0);
        return Ok(());
    };
    cx.view::<Set>(from_place, source)?;
    if let Some(id) = target {
        cx.view::<Set>(to_place, id)?;
    }
    let named = || std::iter::once(member);
    let source = cx.expire_due_parts(from_place, source, from, named());
    let spot = match source {
        Some(id) => cx.view::<Set>(from_place, id)?.find(member),
        None => None,
    };
    let (Some(source), Some(spot)) = (source, spot) else {
        reply.int(0);
        return Ok(());
    };
    let target = target.and_then(|id| cx.expire_due_parts(to_place, id, to, named()));
    let vacancy = match target {
        Some(id) => cx.view::<Set>(to_place, id)?.vacancy(member),
        None => None,
    };
    reply.int(1);
    if from == to {
        return Ok(());
    }
    let set = cx.edit::<Set>(from_place, source)?;
    let deadline = set.deadline_at(&spot);
    set.remove_at(spot);
    cx.commit_elements(from_place, source, from, Classes::SET, "srem", 1);
    match (target, vacancy) {
        (Some(id), Some(vacancy)) => {
            let set = cx.edit::<Set>(to_place, id)?;
            set.insert_at(vacancy, member, &limits);
            if deadline != NEVER {
                set.set_deadline(member, deadline, &limits);
                cx.rearm(to_place, id);
            }
        }
        (Some(_), None) => return Ok(()),
        (None, _) => {
            let mut set = Set::for_members(member, 1, &limits);
            set.insert(member, &limits);
            if deadline != NEVER {
                set.set_deadline(member, deadline, &limits);
            }
            cx.add_at(to_place, to, set.into_value());
        }
    }
    cx.commit(to, Classes::SET, "sadd", 1);
    Ok(())
}
