//! SISMEMBER, SMEMBERS, SSCAN and other readers of one set.

use punctual_resp::{Args, Reply};

use super::reply_members;
use crate::command::element_scan::scan;
use crate::command::scan::ScanOf::Elements;
use crate::error::Error;
use crate::turn::Cx;
use crate::value::keyed::Element;
use crate::value::set::{Set, View};

pub(super) fn sismember(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let now = cx.now();
    let member = args.at(2);
    let set = cx.read_named::<Set>(&args[1], std::iter::once(member))?;
    reply.int(set.is_some_and(|set| set.has_live(member, now)).into());
    Ok(())
}

pub(super) fn smismember(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let now = cx.now();
    let members = args.skip(2);
    let set = cx.read_named::<Set>(&args[1], members.iter())?;
    if let Some(set) = set {
        set.warm_names(members.iter());
    }
    reply.array(members.len());
    for member in members {
        reply.int(set.is_some_and(|set| set.has_live(member, now)).into());
    }
    Ok(())
}

pub(super) fn scard(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let members = cx.read_as::<Set>(&args[1])?.map_or(0, Set::len);
    reply.int(members as i64);
    Ok(())
}

pub(super) fn smembers(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    match cx.read_as::<Set>(&args[1])? {
        Some(set) => reply_members(reply, set),
        None => reply.set(0),
    }
    Ok(())
}

pub(super) fn sscan(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    scan::<Set>(cx, args, reply, Elements, |set, page| match set.view() {
        View::Table(table) => page.walk(table.members(), |page, member| {
            page.name(member.name());
        }),
        _ => {
            for member in set.iter() {
                page.packed_name(member);
            }
            None
        }
    })
}
