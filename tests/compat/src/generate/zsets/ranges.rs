//! Ranges of sorted sets by rank, score and member, in every form.

use crate::command::{Command, Step};
use crate::draw::{Draw, Kind};
use crate::generate::named;

/// The type of a range.
#[derive(Clone, Copy)]
enum By {
    Rank,
    Score,
    Lex,
}

fn bound(draw: &mut Draw, by: By) -> Vec<u8> {
    // Sometimes a bound for another type of range.
    let by = if draw.chance(3) {
        [By::Rank, By::Score, By::Lex][draw.count(0..=2)]
    } else {
        by
    };
    match by {
        By::Rank => draw.index(),
        By::Score => draw.score_bound(),
        By::Lex => draw.lex_bound(),
    }
}

fn key(draw: &mut Draw, by: By) -> Vec<u8> {
    match by {
        By::Lex => draw.lex_key(),
        By::Rank | By::Score => draw.key_of(Kind::Zset),
    }
}

fn push_bounds(draw: &mut Draw, command: &mut Command, by: By) {
    if matches!(by, By::Rank) && draw.chance(25) {
        command.extend(["0", "-1"]);
        return;
    }
    command.push(bound(draw, by));
    command.push(bound(draw, by));
}

fn push_limit(draw: &mut Draw, command: &mut Command) {
    command.push(draw.case("LIMIT"));
    let offset = if draw.chance(85) {
        draw.between(0..=5).to_string().into_bytes()
    } else {
        draw.integer()
    };
    command.push(offset);
    if draw.chance(97) {
        let count = if draw.chance(85) {
            draw.between(-1..=6).to_string().into_bytes()
        } else {
            draw.integer()
        };
        command.push(count);
    }
}

/// Appends options of ZRANGE and ZRANGESTORE in any order, which are usually valid.
fn push_options(draw: &mut Draw, command: &mut Command, by: By, shows: bool) {
    let mut options = Vec::new();
    match by {
        By::Rank => {}
        By::Score => options.push("BYSCORE"),
        By::Lex => options.push("BYLEX"),
    }
    if draw.chance(40) {
        options.push("REV");
    }
    if draw.chance(if matches!(by, By::Rank) { 4 } else { 35 }) {
        options.push("LIMIT");
    }
    if shows && draw.chance(if matches!(by, By::Lex) { 8 } else { 50 }) || draw.chance(2) {
        options.push("WITHSCORES");
    }
    if draw.chance(2) {
        options.push("NOSUCH");
    }
    while !options.is_empty() {
        match options.swap_remove(draw.count(0..=options.len() - 1)) {
            "LIMIT" => push_limit(draw, command),
            option => command.push(draw.case(option)),
        }
    }
}

fn any(draw: &mut Draw) -> By {
    draw.weighted(&[(4, By::Rank), (4, By::Score), (3, By::Lex)])
}

pub(super) fn range(draw: &mut Draw, steps: &mut Vec<Step>) {
    let by = any(draw);
    let mut command = named(draw, "ZRANGE").arg(key(draw, by));
    push_bounds(draw, &mut command, by);
    push_options(draw, &mut command, by, true);
    steps.push(command.into());
}

pub(super) fn store_range(draw: &mut Draw, steps: &mut Vec<Step>) {
    let by = any(draw);
    let mut command = named(draw, "ZRANGESTORE")
        .arg(draw.key_of(Kind::Zset))
        .arg(key(draw, by));
    push_bounds(draw, &mut command, by);
    push_options(draw, &mut command, by, false);
    steps.push(command.into());
}

/// Appends one of the commands that ZRANGE replaces.
pub(super) fn legacy_range(draw: &mut Draw, steps: &mut Vec<Step>) {
    let (name, by) = draw.weighted(&[
        (3, ("ZREVRANGE", By::Rank)),
        (3, ("ZRANGEBYSCORE", By::Score)),
        (3, ("ZREVRANGEBYSCORE", By::Score)),
        (2, ("ZRANGEBYLEX", By::Lex)),
        (2, ("ZREVRANGEBYLEX", By::Lex)),
    ]);
    let mut command = named(draw, name).arg(key(draw, by));
    push_bounds(draw, &mut command, by);
    if draw.chance(if matches!(by, By::Lex) { 4 } else { 45 }) {
        command.push(draw.case("WITHSCORES"));
    }
    if draw.chance(if matches!(by, By::Rank) { 4 } else { 35 }) {
        push_limit(draw, &mut command);
    }
    steps.push(command.into());
}

pub(super) fn count(draw: &mut Draw, steps: &mut Vec<Step>) {
    let (name, by) = draw.weighted(&[(1, ("ZCOUNT", By::Score)), (1, ("ZLEXCOUNT", By::Lex))]);
    let mut command = named(draw, name).arg(key(draw, by));
    push_bounds(draw, &mut command, by);
    steps.push(command.into());
}

pub(super) fn remove_range(draw: &mut Draw, steps: &mut Vec<Step>) {
    let (name, by) = draw.weighted(&[
        (1, ("ZREMRANGEBYRANK", By::Rank)),
        (1, ("ZREMRANGEBYSCORE", By::Score)),
        (1, ("ZREMRANGEBYLEX", By::Lex)),
    ]);
    let mut command = named(draw, name).arg(key(draw, by));
    if matches!(by, By::Rank) && draw.chance(70) {
        // The range is rarely the whole set.
        let start = draw.between(-3..=6);
        command.extend([
            start.to_string(),
            (start + draw.between(-1..=2)).to_string(),
        ]);
    } else {
        push_bounds(draw, &mut command, by);
    }
    steps.push(command.into());
}
