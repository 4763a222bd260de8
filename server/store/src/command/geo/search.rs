//! GEOSEARCH, GEORADIUS and their variants.

use punctual_resp::{Args, Reply};

use super::cell::Point;
use super::query::{Form, Order, Query, Target};
use super::shape::Shape;
use super::{reply_distance, reply_point};
use crate::error::Error;
use crate::events::Classes;
use crate::turn::Cx;
use crate::value::Kind;
use crate::value::text::Text;
use crate::value::zset::Zset;

pub(super) fn georadius(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    search(cx, args, Form::Radius { stores: true }, reply)
}

pub(super) fn georadius_ro(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    search(cx, args, Form::Radius { stores: false }, reply)
}

pub(super) fn georadiusbymember(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    search(cx, args, Form::RadiusByMember { stores: true }, reply)
}

pub(super) fn georadiusbymember_ro(
    cx: &mut Cx,
    args: Args,
    reply: &mut Reply,
) -> Result<(), Error> {
    search(cx, args, Form::RadiusByMember { stores: false }, reply)
}

pub(super) fn geosearch(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    search(cx, args, Form::Search, reply)
}

pub(super) fn geosearchstore(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    search(cx, args, Form::SearchStore, reply)
}

/// A member within the shape.
struct Match {
    member: Text,
    score: f64,
    point: Point,
    distance_m: f64,
}

fn search(cx: &mut Cx, args: Args, form: Form, reply: &mut Reply) -> Result<(), Error> {
    let zset = cx.read_as::<Zset>(args.at(form.source()))?;
    let query = Query::parse(args, form, zset)?;
    let (found, unit_m) = match (zset, query.shape) {
        (Some(zset), Some(shape)) => (find(zset, &shape, &query), shape.unit_m),
        _ => (Vec::new(), 1.0),
    };
    match query.target {
        None => answer(reply, &query, &found, unit_m),
        Some(target) => {
            reply.int(found.len() as i64);
            let event = match form {
                Form::SearchStore | Form::Search => "geosearchstore",
                Form::Radius { .. } | Form::RadiusByMember { .. } => "georadiusstore",
            };
            store(cx, target, found, unit_m, event);
        }
    }
    Ok(())
}

/// Returns the members within the shape, in the requested order. O(log(members) + members in the
/// cells), and O(n log n) to sort n matches.
fn find(zset: &Zset, shape: &Shape, query: &Query<'_>) -> Vec<Match> {
    let enough = match query.any {
        true => query.count,
        false => usize::MAX,
    };
    let mut found = Vec::new();
    for cell in shape.cells() {
        let (first, end) = cell.scores();
        let places = zset.range_by_score(first, end);
        for (member, score) in places.take_while(|(_, score)| *score < end) {
            if found.len() >= enough {
                break;
            }
            let point = Point::of_score(score);
            if let Some(distance_m) = shape.distance_within(point) {
                found.push(Match {
                    member: Text::of(member),
                    score,
                    point,
                    distance_m,
                });
            }
        }
    }
    match query.order {
        None => {}
        Some(Order::Ascending) => found.sort_by(|a, b| a.distance_m.total_cmp(&b.distance_m)),
        Some(Order::Descending) => found.sort_by(|a, b| b.distance_m.total_cmp(&a.distance_m)),
    }
    if query.count > 0 {
        found.truncate(query.count);
    }
    found
}

fn answer(reply: &mut Reply, query: &Query<'_>, found: &[Match], unit_m: f64) {
    let details = [query.with_distance, query.with_hash, query.with_point];
    let details = details.into_iter().filter(|wanted| *wanted).count();
    reply.array(found.len());
    for place in found {
        if details > 0 {
            reply.array(1 + details);
        }
        reply.bulk(place.member.as_bytes());
        if query.with_distance {
            reply_distance(reply, place.distance_m / unit_m);
        }
        if query.with_hash {
            reply.int(place.score as i64);
        }
        if query.with_point {
            reply_point(reply, place.point);
        }
    }
}

/// Stores the matches in the target key, or deletes the key if there are no matches.
fn store(cx: &mut Cx, target: Target<'_>, found: Vec<Match>, unit_m: f64, event: &str) {
    let count = found.len() as u64;
    let scored = found.into_iter().map(|place| {
        let score = if target.distances {
            place.distance_m / unit_m
        } else {
            place.score
        };
        (place.member, score)
    });
    match Zset::from_pairs(scored.collect(), cx.limits()) {
        Some(zset) if count > 0 => {
            cx.overwrite(target.key, zset.into_value());
            cx.commit(target.key, Classes::ZSET, event, count);
        }
        _ => {
            if cx.remove(target.key).is_some() {
                cx.commit(target.key, Classes::GENERIC, "del", 1);
            }
        }
    }
}
