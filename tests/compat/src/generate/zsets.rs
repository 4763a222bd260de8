//! Sorted set commands.

mod ranges;

use super::Maker::{self, Call, Line};
use super::{line, named};
use crate::command::{Command, Step};
use crate::draw::{Draw, Kind};

/// Commands that may get any arguments; `errors.rs` has the criteria.
pub(super) const ANY_ARGUMENTS: &str = "ZADD|ZINCRBY|ZREM|ZCARD|ZCOUNT|ZLEXCOUNT|ZSCORE|ZMSCORE|\
     ZRANGE|ZRANGESTORE|ZRANGEBYSCORE|ZREVRANGEBYSCORE|ZRANGEBYLEX|ZREVRANGEBYLEX|ZREVRANGE|\
     ZREMRANGEBYRANK|ZREMRANGEBYSCORE|ZREMRANGEBYLEX|ZPOPMIN|ZPOPMAX|ZMPOP|ZUNION|ZINTER|ZDIFF|\
     ZUNIONSTORE|ZINTERSTORE|ZDIFFSTORE|ZINTERCARD|ZSCAN";

const MAKERS: &[(u32, Maker)] = &[
    (26, Call(add)),
    (5, Call(add_in_one_score)),
    (1, Call(grow)),
    (6, Line("ZINCRBY zset score element")),
    (6, Line("ZREM zset element*6")),
    (6, Call(look_up)),
    // Without WITHSCORE, which is new in 7.2.
    (6, Line("ZRANK|ZREVRANK zset element")),
    (16, Call(ranges::range)),
    (5, Call(ranges::store_range)),
    (10, Call(ranges::legacy_range)),
    (5, Call(ranges::count)),
    (4, Call(ranges::remove_range)),
    (6, Line("ZPOPMIN|ZPOPMAX zset 50% how-many")),
    (4, Call(pop_many)),
    (9, Call(combine)),
    (8, Call(combine_and_store)),
    (4, Call(intersect_count)),
    (6, Call(sample)),
    (4, Call(page)),
    (1, Line("DEL zset")),
];

/// Appends one command on sorted sets, or a short group of related ones.
pub(super) fn commands(draw: &mut Draw, steps: &mut Vec<Step>) {
    super::make(draw, MAKERS, steps);
}

fn add(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "ZADD").arg(draw.key_of(Kind::Zset));
    let mut increments = false;
    for _ in 0..draw.weighted(&[(40, 0), (30, 1), (15, 2), (5, 3)]) {
        let option = draw.weighted(&[
            (3, "NX"),
            (3, "XX"),
            (3, "GT"),
            (3, "LT"),
            (4, "CH"),
            (2, "INCR"),
        ]);
        increments |= option == "INCR";
        command.push(draw.case(option));
    }
    let most = if increments && draw.chance(90) { 1 } else { 5 };
    for member in draw.elements(most) {
        command.push(draw.score());
        command.push(member);
    }
    if draw.chance(3) {
        command.push(draw.score());
    }
    steps.push(command.into());
}

/// Appends ZADD with one score for all members: ranges by members are defined only if all scores
/// are equal.
fn add_in_one_score(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "ZADD").arg(draw.lex_key());
    let members = if draw.chance(3) {
        draw.many_elements()
    } else {
        draw.elements(8)
    };
    for member in members {
        command.push("0");
        command.push(member);
    }
    steps.push(command.into());
}

fn grow(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "ZADD").arg(draw.key_of(Kind::Zset));
    let scores = draw.pick(&[&1, &7, &1000]);
    for (number, member) in draw.many_elements().into_iter().enumerate() {
        command.push((number % scores).to_string());
        command.push(member);
    }
    steps.push(command.into());
}

fn look_up(draw: &mut Draw, steps: &mut Vec<Step>) {
    let key = draw.key_of(Kind::Zset);
    let command = match draw.between(0..=2) {
        0 => named(draw, "ZSCORE").arg(key).arg(draw.element()),
        1 => named(draw, "ZCARD").arg(key),
        _ => {
            let mut command = named(draw, "ZMSCORE").arg(key);
            command.extend(draw.elements(5));
            command
        }
    };
    steps.push(command.into());
}

/// Returns MIN or MAX, rarely an invalid word.
pub(super) fn end(draw: &mut Draw) -> Vec<u8> {
    let end = draw.weighted(&[(12, "MIN"), (12, "MAX"), (1, "LEFT")]);
    draw.case(end)
}

fn pop_many(draw: &mut Draw, steps: &mut Vec<Step>) {
    let keys = draw.keys_of(Kind::Zset, 3);
    let mut command = named(draw, "ZMPOP").arg(draw.announced(keys.len()));
    command.extend(keys);
    command.push(end(draw));
    line::append(draw, &mut command, "50% COUNT how-many");
    steps.push(command.into());
}

/// Returns keys of sorted sets and, sometimes, of a set.
fn sources(draw: &mut Draw) -> Vec<Vec<u8>> {
    let mut keys = draw.keys_of(Kind::Zset, 4);
    if draw.chance(25) {
        keys.push(draw.key_of(Kind::Set));
    }
    keys
}

fn push_combination(draw: &mut Draw, command: &mut Command, weighs: bool, shows: bool) {
    let keys = sources(draw);
    command.push(draw.announced(keys.len()));
    command.extend(&keys);
    for _ in 0..draw.weighted(&[(5, 0), (4, 1), (3, 2)]) {
        match draw.weighted(&[
            (3, "WEIGHTS"),
            (3, "AGGREGATE"),
            (4, "WITHSCORES"),
            (1, "LIMIT"),
        ]) {
            "WEIGHTS" if weighs || draw.chance(5) => {
                command.push(draw.case("WEIGHTS"));
                let missing = usize::from(draw.chance(4));
                for _ in missing..keys.len() {
                    // Small weights: sums of large scores would have other last digits if the
                    // server added them in another order.
                    let weight = match draw.between(0..=9) {
                        0..=7 => draw
                            .pick(&["0", "1", "2", "-1", "0.5", "10"])
                            .as_bytes()
                            .to_vec(),
                        _ => draw.score(),
                    };
                    command.push(weight);
                }
            }
            "AGGREGATE" if weighs || draw.chance(5) => {
                command.push(draw.case("AGGREGATE"));
                let how = draw.weighted(&[(4, "SUM"), (4, "MIN"), (4, "MAX"), (1, "AVG")]);
                command.push(draw.case(how));
            }
            "WITHSCORES" if shows || draw.chance(5) => command.push(draw.case("WITHSCORES")),
            "LIMIT" if draw.chance(30) => command.extend(["LIMIT", "1"]),
            _ => {}
        }
    }
}

fn combine(draw: &mut Draw, steps: &mut Vec<Step>) {
    let name = draw.pick(&["ZUNION", "ZINTER", "ZDIFF"]);
    let mut command = named(draw, name);
    push_combination(draw, &mut command, name != "ZDIFF", true);
    steps.push(command.into());
}

fn combine_and_store(draw: &mut Draw, steps: &mut Vec<Step>) {
    let name = draw.pick(&["ZUNIONSTORE", "ZINTERSTORE", "ZDIFFSTORE"]);
    let mut command = named(draw, name).arg(draw.key_of(Kind::Zset));
    push_combination(draw, &mut command, name != "ZDIFFSTORE", false);
    steps.push(command.into());
}

fn intersect_count(draw: &mut Draw, steps: &mut Vec<Step>) {
    let keys = sources(draw);
    let mut command = named(draw, "ZINTERCARD").arg(draw.announced(keys.len()));
    command.extend(keys);
    line::append(draw, &mut command, "50% LIMIT how-many");
    steps.push(command.into());
}

/// Appends a request for random members, and before it one for the whole set, against which the
/// comparison checks them.
fn sample(draw: &mut Draw, steps: &mut Vec<Step>) {
    let key = draw.key_of(Kind::Zset);
    steps.push(
        Command::of(&["ZRANGE"])
            .arg(&key)
            .arg("0")
            .arg("-1")
            .arg("WITHSCORES")
            .into(),
    );
    let mut command = named(draw, "ZRANDMEMBER").arg(key);
    if draw.chance(80) {
        command.push(draw.sample_size());
        if draw.chance(50) {
            let option = draw.weighted(&[(12, "WITHSCORES"), (1, "WITHVALUES")]);
            command.push(draw.case(option));
        }
    }
    steps.push(command.into());
}

fn page(draw: &mut Draw, steps: &mut Vec<Step>) {
    let key = draw.key_of(Kind::Zset);
    super::scans::page(draw, "ZSCAN", key, steps);
}
