//! List commands.

use super::Maker::{self, Call, Line};
use super::{line, named};
use crate::command::Step;
use crate::draw::{Draw, Kind};

/// Commands that may get any arguments; `errors.rs` has the criteria.
pub(super) const ANY_ARGUMENTS: &str = "LPUSH|RPUSH|LPUSHX|RPUSHX|LPOP|RPOP|LLEN|LINDEX|LRANGE|\
     LSET|LINSERT|LREM|LTRIM|LMOVE|RPOPLPUSH|LPOS|LMPOP";

const MAKERS: &[(u32, Maker)] = &[
    (30, Call(push)),
    (1, Line("LPUSH|RPUSH list many-elements")),
    (12, Line("LPOP|RPOP list 40% how-many")),
    (4, Line("LLEN list")),
    (8, Line("LINDEX list index")),
    (10, Call(range)),
    (6, Call(set)),
    (7, Call(insert)),
    (6, Call(remove)),
    (4, Call(trim)),
    (8, Call(move_between)),
    (10, Call(position)),
    (6, Call(pop_many)),
    (1, Line("DEL list")),
];

/// Appends one list command.
pub(super) fn commands(draw: &mut Draw, steps: &mut Vec<Step>) {
    super::make(draw, MAKERS, steps);
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

fn range(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = line::command(draw, "LRANGE list");
    let bounds = if draw.chance(30) {
        "0 -1"
    } else {
        "index index"
    };
    line::append(draw, &mut command, bounds);
    steps.push(command.into());
}

fn set(draw: &mut Draw, steps: &mut Vec<Step>) {
    let command = line::command(draw, "LSET list index");
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
    let mut command = line::command(draw, "LPOS list element");
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
    line::append(draw, &mut command, "50% COUNT how-many");
    steps.push(command.into());
}
