//! String commands with all options, also options that exclude each other.

use super::Maker::{self, Call, Line};
use super::line;
use crate::command::{Command, Step};
use crate::draw::Draw;

const MAKERS: &[(u32, Maker)] = &[
    (24, Call(set)),
    (12, Call(get)),
    (6, Call(get_ex)),
    (5, Call(get_del_or_set)),
    (6, Call(multiple)),
    (5, Call(set_with_ttl)),
    (4, Line("SETNX key value")),
    (8, Call(append_and_length)),
    (6, Call(range)),
    (6, Call(set_range)),
    (14, Call(count)),
    (7, Call(count_float)),
    (5, Call(lcs)),
];

/// Appends one string command, or a short group of related ones.
pub(super) fn commands(draw: &mut Draw, steps: &mut Vec<Step>) {
    super::make(draw, MAKERS, steps);
}

/// Appends an option that sets a deadline, with its argument. Returns true if the deadline is
/// absolute.
fn push_deadline(draw: &mut Draw, command: &mut Command) -> bool {
    let (option, absolute, per_second) = draw.weighted(&[
        (3, ("EX", false, 1)),
        (3, ("PX", false, 1000)),
        (2, ("EXAT", true, 1)),
        (2, ("PXAT", true, 1000)),
    ]);
    command.push(draw.case(option));
    if draw.chance(96) {
        let argument = if absolute {
            draw.deadline(per_second)
        } else {
            draw.ttl(per_second)
        };
        command.push(argument);
    }
    absolute
}

fn set(draw: &mut Draw, steps: &mut Vec<Step>) {
    let (key, value) = if draw.chance(3) {
        (draw.big_key(), draw.big_value())
    } else {
        (draw.key(), draw.value())
    };
    let mut command = Command::new(draw.case("SET")).arg(&key).arg(value);
    let mut absolute = false;
    // Usually at most two options; sometimes any three, which may exclude each other.
    for _ in 0..draw.weighted(&[(40, 0), (35, 1), (17, 2), (8, 3)]) {
        match draw.weighted(&[
            (5, "deadline"),
            (2, "NX"),
            (2, "XX"),
            (3, "GET"),
            (2, "KEEPTTL"),
            (1, "PERSIST"),
        ]) {
            "deadline" => absolute |= push_deadline(draw, &mut command),
            option => command.push(draw.case(option)),
        }
    }
    steps.push(command.into());
    if absolute {
        // If the deadline is in the past, this access removes the key. Until then, some commands
        // count it on one server and not on the other.
        steps.push(Command::new("EXISTS").arg(&key).into());
    }
}

fn get(draw: &mut Draw, steps: &mut Vec<Step>) {
    let line = if draw.chance(70) {
        "GET key"
    } else {
        "MGET key*6"
    };
    steps.push(line::command(draw, line).into());
}

fn get_ex(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = Command::new(draw.case("GETEX")).arg(draw.key());
    for _ in 0..draw.weighted(&[(20, 0), (70, 1), (10, 2)]) {
        match draw.weighted(&[(6, "deadline"), (2, "PERSIST"), (1, "KEEPTTL"), (1, "NX")]) {
            "deadline" => {
                push_deadline(draw, &mut command);
            }
            option => command.push(draw.case(option)),
        }
    }
    steps.push(command.into());
}

fn get_del_or_set(draw: &mut Draw, steps: &mut Vec<Step>) {
    let line = if draw.chance(50) {
        "GETDEL key"
    } else {
        "GETSET key value"
    };
    steps.push(line::command(draw, line).into());
}

fn multiple(draw: &mut Draw, steps: &mut Vec<Step>) {
    let name = draw.pick(&["MSET", "MSETNX"]);
    let mut command = Command::new(draw.case(name));
    // MSETNX sets no key if one of them exists, so it gets few keys.
    for key in draw.keys(if name == "MSET" { 5 } else { 2 }) {
        let value = draw.value();
        command.push(key);
        command.push(value);
    }
    if draw.chance(5) {
        command.push(draw.key());
    }
    steps.push(command.into());
}

fn set_with_ttl(draw: &mut Draw, steps: &mut Vec<Step>) {
    let (name, per_second) = draw.weighted(&[(1, ("SETEX", 1)), (1, ("PSETEX", 1000))]);
    let command = Command::new(draw.case(name))
        .arg(draw.key())
        .arg(draw.ttl(per_second))
        .arg(draw.value());
    steps.push(command.into());
}

fn append_and_length(draw: &mut Draw, steps: &mut Vec<Step>) {
    let command = match draw.between(0..=9) {
        0..=4 => Command::new(draw.case("APPEND"))
            .arg(draw.key())
            .arg(draw.value()),
        5 => Command::new("APPEND")
            .arg(draw.big_key())
            .arg(draw.big_value()),
        _ => Command::new(draw.case("STRLEN")).arg(draw.key()),
    };
    steps.push(command.into());
}

fn range(draw: &mut Draw, steps: &mut Vec<Step>) {
    let name = draw.pick(&["GETRANGE", "GETRANGE", "SUBSTR"]);
    let key = draw.key();
    let bound = |draw: &mut Draw| {
        if draw.chance(70) {
            draw.between(-12..=12).to_string().into_bytes()
        } else {
            draw.integer()
        }
    };
    let (start, end) = (bound(draw), bound(draw));
    steps.push(
        Command::new(draw.case(name))
            .arg(key)
            .arg(start)
            .arg(end)
            .into(),
    );
}

fn set_range(draw: &mut Draw, steps: &mut Vec<Step>) {
    let (key, offset) = match draw.between(0..=99) {
        0..=69 => (draw.key(), draw.between(0..=30).to_string().into_bytes()),
        70..=79 => (
            draw.big_key(),
            draw.between(0..=40_000).to_string().into_bytes(),
        ),
        // With these offsets, the string would exceed the maximum size, so the server refuses to
        // allocate it.
        80..=89 => (
            draw.key(),
            draw.one_of("536870912|536870913|2147483647|4294967296|9223372036854775807")
                .into(),
        ),
        90..=94 => (
            draw.key(),
            draw.pick(&["-1", "-2", "-9223372036854775808"])
                .as_bytes()
                .to_vec(),
        ),
        _ => (draw.key(), draw.bad_integer()),
    };
    steps.push(
        Command::new(draw.case("SETRANGE"))
            .arg(key)
            .arg(offset)
            .arg(draw.value())
            .into(),
    );
}

fn count(draw: &mut Draw, steps: &mut Vec<Step>) {
    let line = match draw.between(0..=9) {
        0..=2 => "INCR key",
        3..=4 => "DECR key",
        5..=7 => "INCRBY key integer",
        _ => "DECRBY key integer",
    };
    let command = line::command(draw, line);
    if draw.chance(25) {
        // Arithmetic on texts usually fails, so a number is set first, which is often near the
        // limits.
        let edge = draw.one_of(
            "0|9223372036854775807|-9223372036854775808|9223372036854775800|-9223372036854775800|\
             9998|-1",
        );
        steps.push(Command::new("SET").arg(&command.args()[1]).arg(edge).into());
    }
    steps.push(command.into());
}

fn count_float(draw: &mut Draw, steps: &mut Vec<Step>) {
    let key = draw.key();
    if draw.chance(50) {
        steps.push(Command::new("SET").arg(&key).arg(draw.float()).into());
    }
    steps.push(
        Command::new(draw.case("INCRBYFLOAT"))
            .arg(key)
            .arg(draw.float())
            .into(),
    );
}

fn lcs(draw: &mut Draw, steps: &mut Vec<Step>) {
    if draw.chance(60) {
        let mut set = Command::new("MSET");
        line::append(draw, &mut set, "lcs lcs-text lcs lcs-text");
        steps.push(set.into());
    }
    let mut command = line::command(draw, "LCS lcs lcs");
    for _ in 0..draw.weighted(&[(3, 0), (4, 1), (4, 2), (3, 3)]) {
        match draw.weighted(&[
            (4, "IDX"),
            (1, "LEN"),
            (3, "WITHMATCHLEN"),
            (4, "MINMATCHLEN"),
            (1, "NX"),
        ]) {
            "MINMATCHLEN" => {
                command.push(draw.case("MINMATCHLEN"));
                if draw.chance(95) {
                    let least = if draw.chance(80) {
                        draw.between(0..=6).to_string().into_bytes()
                    } else {
                        draw.integer()
                    };
                    command.push(least);
                }
            }
            option => command.push(draw.case(option)),
        }
    }
    steps.push(command.into());
}
