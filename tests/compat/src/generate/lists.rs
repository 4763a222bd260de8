//! List commands.

use super::named;
use crate::command::Step;
use crate::draw::{Draw, Kind};

/// Commands that may get any arguments.
pub(super) const ANY_ARGUMENTS: &[&str] = &[
    "LPUSH",
    "RPUSH",
    "LPUSHX",
    "RPUSHX",
    "LPOP",
    "RPOP",
    "LLEN",
    "LINDEX",
    "LRANGE",
    "LSET",
    "LINSERT",
    "LREM",
    "LTRIM",
    "LMOVE",
    "RPOPLPUSH",
    "LPOS",
    "LMPOP",
];

const MAKERS: &[(u32, super::Maker)] = &[
    (30, push),
    (1, grow),
    (12, pop),
    (4, length),
    (8, index),
    (10, range),
    (6, set),
    (7, insert),
    (6, remove),
    (4, trim),
    (8, move_between),
    (10, position),
    (6, pop_many),
    (1, delete),
];

/// Appends one list command.
pub(super) fn commands(draw: &mut Draw, steps: &mut Vec<Step>) {
    draw.weighted(MAKERS)(draw, steps);
}

fn push(draw: &mut Draw, steps: &mut Vec<Step>) {
    let name = draw.weighted(&[(5, "LPUSH"), (5, "RPUSH"), (1, "LPUSHX"), (1, "RPUSHX")]);
    let mut command = named(draw, name).arg(draw.key_of(Kind::List));
    if draw.chance(2) {
        // An element that is long enough for its own node of the list.
        command.push(draw.big_value());
    } else {
        command.extend(draw.elements(5));
    }
    steps.push(command.into());
}

fn grow(draw: &mut Draw, steps: &mut Vec<Step>) {
    let name = draw.pick(&["LPUSH", "RPUSH"]);
    let mut command = named(draw, name).arg(draw.key_of(Kind::List));
    command.extend(draw.many_elements());
    steps.push(command.into());
}

fn pop(draw: &mut Draw, steps: &mut Vec<Step>) {
    let name = draw.pick(&["LPOP", "RPOP"]);
    let mut command = named(draw, name).arg(draw.key_of(Kind::List));
    if draw.chance(40) {
        command.push(draw.how_many());
    }
    steps.push(command.into());
}

fn length(draw: &mut Draw, steps: &mut Vec<Step>) {
    steps.push(named(draw, "LLEN").arg(draw.key_of(Kind::List)).into());
}

fn index(draw: &mut Draw, steps: &mut Vec<Step>) {
    let command = named(draw, "LINDEX")
        .arg(draw.key_of(Kind::List))
        .arg(draw.index());
    steps.push(command.into());
}

fn range(draw: &mut Draw, steps: &mut Vec<Step>) {
    let command = named(draw, "LRANGE").arg(draw.key_of(Kind::List));
    let command = if draw.chance(30) {
        command.arg("0").arg("-1")
    } else {
        command.arg(draw.index()).arg(draw.index())
    };
    steps.push(command.into());
}

fn set(draw: &mut Draw, steps: &mut Vec<Step>) {
    let command = named(draw, "LSET")
        .arg(draw.key_of(Kind::List))
        .arg(draw.index());
    let value = if draw.chance(3) {
        draw.big_value()
    } else {
        draw.element()
    };
    steps.push(command.arg(value).into());
}

fn insert(draw: &mut Draw, steps: &mut Vec<Step>) {
    let place = draw.weighted(&[(6, "BEFORE"), (6, "AFTER"), (1, "BESIDE")]);
    let command = named(draw, "LINSERT")
        .arg(draw.key_of(Kind::List))
        .arg(draw.case(place))
        .arg(draw.element())
        .arg(draw.element());
    steps.push(command.into());
}

fn remove(draw: &mut Draw, steps: &mut Vec<Step>) {
    let count = if draw.chance(80) {
        draw.between(-3..=3).to_string().into_bytes()
    } else {
        draw.integer()
    };
    let command = named(draw, "LREM")
        .arg(draw.key_of(Kind::List))
        .arg(count)
        .arg(draw.element());
    steps.push(command.into());
}

fn trim(draw: &mut Draw, steps: &mut Vec<Step>) {
    let command = named(draw, "LTRIM").arg(draw.key_of(Kind::List));
    let command = if draw.chance(60) {
        let (start, end) = (draw.between(0..=3), draw.between(-3..=-1));
        command.arg(start.to_string()).arg(end.to_string())
    } else {
        command.arg(draw.index()).arg(draw.index())
    };
    steps.push(command.into());
}

/// Returns LEFT or RIGHT, rarely an invalid word.
pub(super) fn end(draw: &mut Draw) -> Vec<u8> {
    let end = draw.weighted(&[(12, "LEFT"), (12, "RIGHT"), (1, "MIDDLE")]);
    draw.case(end)
}

fn move_between(draw: &mut Draw, steps: &mut Vec<Step>) {
    let from = draw.key_of(Kind::List);
    let to = if draw.chance(25) {
        from.clone()
    } else {
        draw.key_of(Kind::List)
    };
    let command = if draw.chance(70) {
        named(draw, "LMOVE")
            .arg(from)
            .arg(to)
            .arg(end(draw))
            .arg(end(draw))
    } else {
        named(draw, "RPOPLPUSH").arg(from).arg(to)
    };
    steps.push(command.into());
}

fn position(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "LPOS")
        .arg(draw.key_of(Kind::List))
        .arg(draw.element());
    for _ in 0..draw.weighted(&[(4, 0), (5, 1), (4, 2), (2, 3)]) {
        let option = draw.weighted(&[(5, "RANK"), (5, "COUNT"), (4, "MAXLEN"), (1, "NOSUCH")]);
        command.push(draw.case(option));
        if draw.chance(96) {
            let number = if draw.chance(80) {
                draw.between(-3..=4).to_string().into_bytes()
            } else {
                draw.integer()
            };
            // LPOS with this rank is a known difference: see `differences`.
            let least = i64::MIN.to_string().into_bytes();
            command.push(if number == least {
                b"0".to_vec()
            } else {
                number
            });
        }
    }
    steps.push(command.into());
}

fn pop_many(draw: &mut Draw, steps: &mut Vec<Step>) {
    let keys = draw.keys_of(Kind::List, 3);
    let mut command = named(draw, "LMPOP").arg(draw.announced(keys.len()));
    command.extend(keys);
    command.push(end(draw));
    if draw.chance(50) {
        command.push(draw.case("COUNT"));
        command.push(draw.how_many());
    }
    steps.push(command.into());
}

fn delete(draw: &mut Draw, steps: &mut Vec<Step>) {
    steps.push(named(draw, "DEL").arg(draw.key_of(Kind::List)).into());
}
