//! Stream commands.
//!
//! The commands contain all IDs, so that no server takes an ID from its clock. Idle times are
//! either very short or very long (for an entry delivered at a TIME in 1970), so that both servers
//! find the same entries idle.

mod scene;

pub(super) use scene::scene;

use super::Maker::{self, Call, Line};
use super::{line, named};
use crate::command::{Command, Step};
use crate::draw::{Draw, Kind};

/// Commands that may get any arguments; `errors.rs` has the criteria. XADD is not among them: with
/// some arguments, the server takes the ID from its clock.
pub(super) const ANY_ARGUMENTS: &str =
    "XLEN|XRANGE|XREVRANGE|XREAD|XDEL|XTRIM|XSETID|XREADGROUP|XACK|XPENDING|XCLAIM|XAUTOCLAIM";

const MAKERS: &[(u32, Maker)] = &[
    (20, Call(add)),
    (5, Call(grow)),
    (8, Call(range)),
    (6, Call(read)),
    (5, Call(delete_entries)),
    (5, Call(trim)),
    (2, Call(set_id)),
    (8, Call(groups)),
    (16, Call(read_group)),
    (8, Call(acknowledge)),
    (6, Call(pending)),
    (8, Call(claim)),
    (6, Call(autoclaim)),
    (5, Call(info)),
    (2, Line("XLEN stream")),
    (1, Line("DEL stream")),
];

/// Values of min-idle-time. Every entry has been idle for at least 0 ms; only entries with an old
/// TIME have been idle for 1,000,000,000 ms.
const IDLES: &str = "0|0|0|1000000000|-1";

/// Appends one command on streams, or a short group of related ones.
pub(super) fn commands(draw: &mut Draw, steps: &mut Vec<Step>) {
    super::make(draw, MAKERS, steps);
}

fn key(draw: &mut Draw) -> Vec<u8> {
    draw.key_of(Kind::Stream)
}

/// Returns an ID near the IDs of the entries, rarely an unusual one.
fn id(draw: &mut Draw) -> Vec<u8> {
    let (ms, seq) = (draw.between(0..=62), draw.between(0..=3));
    match draw.between(0..=99) {
        0..=69 => format!("{ms}-{seq}"),
        70..=89 => ms.to_string(),
        90..=93 => "0-0".to_owned(),
        94..=95 => "18446744073709551615-18446744073709551615".to_owned(),
        _ => draw
            .one_of(
                "|-|+|$|>|*|5-*|a|1-a|-1|1--2|01-02|+1| 1|(5|1-1-1|18446744073709551616|\
             18446744073709551615",
            )
            .to_owned(),
    }
    .into_bytes()
}

/// Returns an ID for XREAD and XREADGROUP. It is not `+`, which 7.0 does not accept there.
fn read_id(draw: &mut Draw) -> Vec<u8> {
    let id = id(draw);
    if id == b"+" { b"-".to_vec() } else { id }
}

fn ids(draw: &mut Draw, most: usize) -> Vec<Vec<u8>> {
    let count = draw.count(1..=most);
    if draw.chance(95) {
        return (0..count)
            .map(|_| format!("{}-{}", draw.between(1..=60), draw.between(0..=2)).into_bytes())
            .collect();
    }
    (0..count).map(|_| id(draw)).collect()
}

/// Returns the start or end of a range; `end` is `-` or `+`.
fn end(draw: &mut Draw, end: &str) -> Vec<u8> {
    match draw.between(0..=9) {
        0..=4 => end.as_bytes().to_vec(),
        5..=6 => [b"(", &id(draw)[..]].concat(),
        _ => id(draw),
    }
}

fn push_fields(draw: &mut Draw, command: &mut Command) {
    if draw.chance(70) {
        for name in ["name", "other"] {
            command.push(name);
            command.push(draw.element());
        }
    } else {
        for field in draw.elements(3) {
            command.push(field);
            command.push(draw.value());
        }
    }
}

fn push_count(draw: &mut Draw, command: &mut Command) {
    line::append(draw, command, "50% COUNT how-many");
}

fn push_trim(draw: &mut Draw, command: &mut Command) {
    let strategy = draw.weighted(&[(3, "MAXLEN"), (2, "MINID")]);
    command.push(draw.case(strategy));
    let approximate = match draw.between(0..=2) {
        0 => {
            command.push("~");
            true
        }
        1 => {
            command.push("=");
            false
        }
        _ => false,
    };
    if strategy == "MAXLEN" {
        command.push(draw.how_many());
    } else {
        command.push(id(draw));
    }
    let limit = if approximate {
        "40% LIMIT how-many"
    } else {
        "4% LIMIT how-many"
    };
    line::append(draw, command, limit);
}

fn add(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "XADD").arg(key(draw));
    line::append(draw, &mut command, "8% NOMKSTREAM");
    if draw.chance(20) {
        push_trim(draw, &mut command);
    }
    let new = match draw.between(0..=9) {
        0..=5 => draw
            .pick(&["60-*", "60-*", "61-*", "58-*"])
            .as_bytes()
            .to_vec(),
        6..=8 => format!("{}-*", draw.between(0..=62)).into_bytes(),
        _ => match id(draw) {
            // With `*`, the server would take the ID from its clock.
            any if any == b"*" => b"1".to_vec(),
            any => any,
        },
    };
    command.push(new);
    push_fields(draw, &mut command);
    if draw.chance(3) {
        command.push("odd");
    }
    steps.push(command.into());
}

/// Appends commands that create a new stream with many entries.
fn grow(draw: &mut Draw, steps: &mut Vec<Step>) {
    let key = draw.pick(Kind::Stream.keys()).to_vec();
    steps.push(named(draw, "DEL").arg(&key).into());
    let count = if draw.chance(20) {
        250
    } else {
        draw.between(1..=30)
    };
    for n in 0..count {
        let mut command = Command::of(&["XADD"])
            .arg(&key)
            .arg(format!("{}-{}", 1 + n / 5, n % 5));
        push_fields(draw, &mut command);
        steps.push(command.into());
    }
    if draw.chance(70) {
        let create = Command::of(&["XGROUP", "CREATE"]).arg(&key);
        steps.push(create.arg("g").arg("0").arg("ENTRIESREAD").arg("0").into());
    }
}

fn range(draw: &mut Draw, steps: &mut Vec<Step>) {
    let back = draw.chance(40);
    let (first, last) = (end(draw, "-"), end(draw, "+"));
    let mut command = if back {
        named(draw, "XREVRANGE").arg(key(draw)).arg(last).arg(first)
    } else {
        named(draw, "XRANGE").arg(key(draw)).arg(first).arg(last)
    };
    push_count(draw, &mut command);
    steps.push(command.into());
}

/// Appends STREAMS, keys and IDs.
fn push_streams(draw: &mut Draw, command: &mut Command, usual: &str) {
    let keys = draw.keys_of(Kind::Stream, 3);
    command.push(draw.case("STREAMS"));
    let count = keys.len();
    command.extend(keys);
    let missing = usize::from(draw.chance(2));
    for _ in missing..count {
        let from = match draw.chance(60) {
            true => usual.as_bytes().to_vec(),
            false => read_id(draw),
        };
        command.push(from);
    }
}

fn read(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "XREAD");
    push_count(draw, &mut command);
    line::append(draw, &mut command, "10% BLOCK 1|2|-1|x|1.5");
    push_streams(draw, &mut command, "5");
    steps.push(command.into());
}

fn delete_entries(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "XDEL").arg(key(draw));
    // The greatest ID is never deleted, because XSETID must set an ID above all deleted entries.
    let ids = ids(draw, 6).into_iter();
    command.extend(ids.filter(|id| !id.starts_with(b"18446744073709551615")));
    steps.push(command.into());
}

fn trim(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "XTRIM").arg(key(draw));
    push_trim(draw, &mut command);
    if draw.chance(5) {
        push_trim(draw, &mut command);
    }
    steps.push(command.into());
}

fn set_id(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "XSETID").arg(key(draw));
    // The ID is above all entries, also above deleted ones: 7.0 accepts an ID below a deleted
    // entry, 7.2 refuses it.
    line::append(draw, &mut command, "98-9|98-9|99-9|x|-");
    line::append(draw, &mut command, "30% ENTRIESADDED 1|100|1000|-1|x");
    line::append(draw, &mut command, "30% MAXDELETEDID 10-0|60-1|70-0|x");
    steps.push(command.into());
}

fn group(draw: &mut Draw) -> &'static str {
    draw.weighted(&[(12, "g"), (4, "h"), (1, "none")])
}

fn consumer(draw: &mut Draw) -> &'static str {
    draw.weighted(&[(5, "alice"), (4, "bob"), (1, "")])
}

fn groups(draw: &mut Draw, steps: &mut Vec<Step>) {
    let what = draw.weighted(&[
        (8, "CREATE"),
        (4, "SETID"),
        (2, "DESTROY"),
        (3, "CREATECONSUMER"),
        (3, "DELCONSUMER"),
    ]);
    let mut command = named(draw, "XGROUP")
        .arg(draw.case(what))
        .arg(key(draw))
        .arg(group(draw));
    match what {
        "CREATE" | "SETID" => {
            let from = match draw.between(0..=9) {
                0..=4 => b"0".to_vec(),
                5..=6 => b"$".to_vec(),
                _ => id(draw),
            };
            command.push(from);
            if what == "CREATE" && draw.chance(40) || draw.chance(2) {
                command.push(draw.case("MKSTREAM"));
            }
            line::append(draw, &mut command, "30% ENTRIESREAD 0|1|7|-1|-2|x");
        }
        "DESTROY" => {}
        _ => command.push(consumer(draw)),
    }
    steps.push(command.into());
}

fn read_group(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "XREADGROUP");
    if draw.chance(98) {
        command.push(draw.case("GROUP"));
        command.push(group(draw));
        command.push(consumer(draw));
    }
    line::append(draw, &mut command, "60% COUNT how-many");
    line::append(draw, &mut command, "10% BLOCK 1|2|-1");
    line::append(draw, &mut command, "15% NOACK");
    if draw.chance(80) {
        command.push(draw.case("STREAMS"));
        command.push(key(draw));
        let from = if draw.chance(75) {
            b">".to_vec()
        } else {
            read_id(draw)
        };
        command.push(from);
    } else {
        push_streams(draw, &mut command, ">");
    }
    let of_streams = |arg: &Vec<u8>| arg.eq_ignore_ascii_case(b"streams");
    let first = command.args().iter().position(of_streams);
    let streams = command.args()[first.map_or(0, |at| at + 1)..].to_vec();
    match command.args()[1].eq_ignore_ascii_case(b"group") {
        true => with_consumer(command, &streams[..streams.len().div_ceil(2)], steps),
        false => steps.push(command.into()),
    }
}

fn acknowledge(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "XACK").arg(key(draw)).arg(group(draw));
    command.extend(ids(draw, 8));
    steps.push(command.into());
}

fn pending(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "XPENDING").arg(key(draw)).arg(group(draw));
    if draw.chance(75) {
        line::append(draw, &mut command, "25% IDLE 0|1000000000|x");
        command.push(end(draw, "-"));
        command.push(end(draw, "+"));
        command.push(draw.how_many());
        if draw.chance(40) {
            command.push(consumer(draw));
        }
        if draw.chance(2) {
            command.push("more");
        }
    }
    steps.push(command.into());
}

fn claim(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "XCLAIM")
        .arg(key(draw))
        .arg(group(draw))
        .arg(consumer(draw))
        .arg(draw.one_of(IDLES));
    command.extend(ids(draw, 6));
    for _ in 0..draw.between(0..=3) {
        let option = draw.weighted(&[
            (3, "TIME"),
            (1, "IDLE"),
            (3, "RETRYCOUNT"),
            (4, "FORCE"),
            (3, "JUSTID"),
            (1, "LASTID"),
            (1, "OTHER"),
        ]);
        command.push(draw.case(option));
        match option {
            "TIME" => command.push(draw.pick(&["1000", "0", "-1", "x"])),
            "IDLE" => command.push(draw.pick(&["0", "1700000000000", "x"])),
            "RETRYCOUNT" => command.push(draw.pick(&["0", "3", "70000", "-1", "x"])),
            "LASTID" => command.push(id(draw)),
            _ => {}
        }
    }
    let key = command.args()[1].clone();
    with_consumer(command, &[key], steps);
}

/// Appends a claim or a read after the creation of its consumer: since 7.2, the command itself
/// creates the consumer, even without any entries.
fn with_consumer(command: Command, streams: &[Vec<u8>], steps: &mut Vec<Step>) {
    let (group, consumer) = (&command.args()[2], &command.args()[3]);
    for key in streams {
        let create = Command::of(&["XGROUP", "CREATECONSUMER"]).arg(key);
        steps.push(create.arg(group).arg(consumer).into());
    }
    steps.push(command.into());
}

fn autoclaim(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "XAUTOCLAIM")
        .arg(key(draw))
        .arg(group(draw))
        .arg(consumer(draw))
        .arg(draw.one_of(IDLES))
        .arg(end(draw, "-"));
    line::append(draw, &mut command, "50% COUNT 1|2|3|50|0|-1|x");
    line::append(draw, &mut command, "30% JUSTID");
    let key = command.args()[1].clone();
    with_consumer(command, &[key], steps);
}

fn info(draw: &mut Draw, steps: &mut Vec<Step>) {
    let what = draw.weighted(&[(4, "STREAM"), (3, "GROUPS"), (3, "CONSUMERS"), (1, "NONE")]);
    let mut command = named(draw, "XINFO").arg(draw.case(what)).arg(key(draw));
    match what {
        "CONSUMERS" => command.push(group(draw)),
        "STREAM" => line::append(draw, &mut command, "60% FULL 60% COUNT 0|1|5|-1|x"),
        _ => {}
    }
    steps.push(command.into());
}
