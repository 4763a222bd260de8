//! PFADD, PFCOUNT and PFMERGE.

use punctual_resp::{Args, Reply};

use super::hash::place;
use super::sketch::{self, Form, Union};
use crate::error::Error;
use crate::events::Classes;
use crate::turn::Cx;
use crate::value::Value;
use crate::value::string::Str;

pub(super) fn pfadd(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[1];
    let sparse_max = cx.limits().hll_sparse_bytes;
    let (at, found) = cx.seek_as::<Str>(key)?;
    let (id, mut updated) = match found {
        Some(id) => (id, 0),
        None => (
            cx.add_at(at, key, Value::Str(Str::from_vec(sketch::empty()))),
            1,
        ),
    };
    sketch::form(cx.view::<Str>(at, id)?.text(&mut itoa::Buffer::new()))?;
    let string = cx.edit::<Str>(at, id)?.raw();
    for element in args.skip(2) {
        let (index, value) = place(element);
        updated += u64::from(sketch::raise(string, index, value, sparse_max)?);
    }
    if updated > 0 {
        sketch::mark_stale(string);
        cx.commit(key, Classes::STRING, "pfadd", updated);
    }
    reply.int((updated > 0).into());
    Ok(())
}

pub(super) fn pfcount(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let count = match args.len() {
        2 => count_one(cx, &args[1])?,
        _ => {
            let mut union = Union::new();
            for key in args.skip(1) {
                if let Some(string) = cx.read_str(key)? {
                    union.add(string.text(&mut itoa::Buffer::new()))?;
                }
            }
            union.cardinality()
        }
    };
    reply.int(count as i64);
    Ok(())
}

/// Returns the estimate of one sketch, and caches it in the string. PFCOUNT may therefore write.
fn count_one(cx: &mut Cx, key: &[u8]) -> Result<u64, Error> {
    let (at, found) = cx.seek_to_read(key);
    let Some(id) = found else {
        return Ok(0);
    };
    let mut buffer = itoa::Buffer::new();
    let string = cx.view::<Str>(at, id)?.text(&mut buffer);
    sketch::form(string)?;
    if let Some(cached) = sketch::cached(string) {
        return Ok(cached);
    }
    let estimate = sketch::estimate(string)?;
    sketch::set_cached(cx.edit::<Str>(at, id)?.raw(), estimate);
    cx.commit_silently(key, 1);
    Ok(estimate)
}

pub(super) fn pfmerge(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let target = &args[1];
    let sparse_max = cx.limits().hll_sparse_bytes;
    let mut union = Union::new();
    let mut any_dense = false;
    for key in args.skip(1) {
        if let Some(string) = cx.read_str(key)? {
            any_dense |= union.add(string.text(&mut itoa::Buffer::new()))? == Form::Dense;
        }
    }
    let (at, found) = cx.seek_as::<Str>(target)?;
    let id = match found {
        Some(id) => id,
        None => cx.add_at(at, target, Value::Str(Str::from_vec(sketch::empty()))),
    };
    let string = cx.edit::<Str>(at, id)?.raw();
    if any_dense {
        sketch::to_dense(string)?;
    }
    union.raise(string, sparse_max)?;
    sketch::mark_stale(string);
    // As in Redis, PFMERGE has the event of PFADD.
    cx.commit(target, Classes::STRING, "pfadd", 1);
    reply.ok();
    Ok(())
}
