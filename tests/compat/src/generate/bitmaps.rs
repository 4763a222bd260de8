//! Strings as arrays of bits, and as arrays of integers of any width.
//!
//! Offsets are small or invalid: larger valid offsets would allocate up to half a gigabyte.

use super::Maker::{self, Call, Line};
use super::named;
use crate::command::{Command, Step};
use crate::draw::{Draw, Kind};

/// Commands that may get any arguments; `errors.rs` has the criteria.
pub(super) const ANY_ARGUMENTS: &str = "GETBIT|BITOP|BITFIELD_RO";

const MAKERS: &[(u32, Maker)] = &[
    (20, Call(set_bit)),
    (8, Call(get_bit)),
    (12, Call(count)),
    (14, Call(position)),
    (12, Call(combine)),
    (26, Call(fields)),
    (4, Call(write_text)),
    (1, Line("DEL bits")),
];

/// Appends one bit command, sometimes after a SET of its key.
pub(super) fn commands(draw: &mut Draw, steps: &mut Vec<Step>) {
    super::make(draw, MAKERS, steps);
}

fn offset(draw: &mut Draw) -> Vec<u8> {
    match draw.between(0..=99) {
        0..=69 => draw.between(0..=70).to_string().into_bytes(),
        70..=84 => draw.between(0..=2_000).to_string().into_bytes(),
        85..=87 => draw.between(0..=100_000).to_string().into_bytes(),
        88..=94 => draw
            .one_of("4294967296|-1|9223372036854775807|-9223372036854775808|99999999999999999999")
            .into(),
        _ => draw.bad_integer(),
    }
}

fn bit(draw: &mut Draw) -> Vec<u8> {
    draw.weighted(&[
        (10, "0"),
        (10, "1"),
        (1, "2"),
        (1, "-1"),
        (1, "abc"),
        (1, ""),
    ])
    .as_bytes()
    .to_vec()
}

fn set_bit(draw: &mut Draw, steps: &mut Vec<Step>) {
    let command = named(draw, "SETBIT")
        .arg(draw.key_of(Kind::Bits))
        .arg(offset(draw))
        .arg(bit(draw));
    steps.push(command.into());
}

fn get_bit(draw: &mut Draw, steps: &mut Vec<Step>) {
    steps.push(
        named(draw, "GETBIT")
            .arg(draw.key_of(Kind::Bits))
            .arg(offset(draw))
            .into(),
    );
}

/// Returns a key. If an argument may be wrong (`sound` is false), creates the key: 7.0 checks
/// whether the key exists before it checks the arguments, 7.2 after that.
fn key_for(draw: &mut Draw, sound: bool, steps: &mut Vec<Step>) -> Vec<u8> {
    if sound {
        return draw.key_of(Kind::Bits);
    }
    let key = draw.pick(Kind::Bits.keys()).to_vec();
    let value = draw.element();
    steps.push(
        Command::new("SET")
            .arg(&key)
            .arg([b"x", &value[..]].concat())
            .into(),
    );
    key
}

fn bound(draw: &mut Draw, sound: bool) -> Vec<u8> {
    if sound {
        draw.between(-24..=24).to_string().into_bytes()
    } else {
        draw.index()
    }
}

fn unit(draw: &mut Draw, sound: bool, command: &mut Command) {
    let unit = draw.weighted(&[(8, "BYTE"), (8, "BIT"), (u32::from(!sound), "WORD")]);
    command.push(draw.case(unit));
}

fn count(draw: &mut Draw, steps: &mut Vec<Step>) {
    let sound = draw.chance(60);
    let mut command = named(draw, "BITCOUNT").arg(key_for(draw, sound, steps));
    if draw.chance(75) {
        command.push(bound(draw, sound));
        if sound || draw.chance(90) {
            command.push(bound(draw, sound));
            if draw.chance(50) {
                unit(draw, true, &mut command);
            } else if !sound && draw.chance(10) {
                // 7.0 does not check the unit of an empty range.
                command.args_mut().truncate(2);
                command.extend(["0", "-1", "WORD"]);
            }
        }
    }
    if !sound && draw.chance(4) {
        command.args_mut().truncate(2);
        command.extend(["0", "-1", "BIT", "x"]);
    }
    steps.push(command.into());
}

fn position(draw: &mut Draw, steps: &mut Vec<Step>) {
    let sound = draw.chance(60);
    let mut command = named(draw, "BITPOS")
        .arg(key_for(draw, sound, steps))
        .arg(bit(draw));
    for _ in 0..draw.weighted(&[(3, 0), (3, 1), (5, 2)]) {
        command.push(bound(draw, sound));
    }
    if command.args().len() == 5 && draw.chance(50) || !sound && draw.chance(4) {
        unit(draw, sound, &mut command);
    }
    steps.push(command.into());
}

fn combine(draw: &mut Draw, steps: &mut Vec<Step>) {
    let operation = draw.weighted(&[
        (4, "AND"),
        (4, "OR"),
        (4, "XOR"),
        (4, "NOT"),
        (1, "NAND"),
        (1, ""),
    ]);
    let most = if operation == "NOT" && draw.chance(85) {
        1
    } else {
        4
    };
    let mut command = named(draw, "BITOP")
        .arg(draw.case(operation))
        .arg(draw.key_of(Kind::Bits));
    command.extend(draw.keys_of(Kind::Bits, most));
    steps.push(command.into());
}

/// Returns the type of a field: i1 to i64 and u1 to u63, sometimes invalid.
fn width(draw: &mut Draw) -> Vec<u8> {
    match draw.between(0..=99) {
        0..=44 => draw
            .pick(&["i8", "u8", "i16", "u16", "i5", "u3", "u1", "i1"])
            .to_owned(),
        45..=69 => draw
            .pick(&["i32", "u32", "i63", "i64", "u62", "u63", "u31"])
            .to_owned(),
        70..=94 => format!("{}{}", draw.pick(&["i", "u"]), draw.between(1..=63)),
        _ => draw
            .one_of("u64|i65|i0|u0|u-1|x8|8||i|U8|I8|i8x")
            .to_owned(),
    }
    .into_bytes()
}

fn field_offset(draw: &mut Draw) -> Vec<u8> {
    match draw.between(0..=99) {
        0..=54 => draw.between(0..=100).to_string(),
        55..=89 => format!("#{}", draw.between(0..=20)),
        _ => draw
            .one_of("-1|#-1|4294967296|#|#x|x||#9223372036854775807|9223372036854775807")
            .to_owned(),
    }
    .into_bytes()
}

fn push_get(draw: &mut Draw, command: &mut Command) {
    command.push(draw.case("GET"));
    command.push(width(draw));
    command.push(field_offset(draw));
}

fn fields(draw: &mut Draw, steps: &mut Vec<Step>) {
    let read_only = draw.chance(20);
    let name = if read_only { "BITFIELD_RO" } else { "BITFIELD" };
    let mut command = named(draw, name).arg(draw.key_of(Kind::Bits));
    for _ in 0..draw.weighted(&[(1, 0), (10, 1), (10, 2), (6, 4)]) {
        let operation = if read_only && draw.chance(93) {
            "GET"
        } else {
            draw.weighted(&[
                (5, "GET"),
                (6, "SET"),
                (8, "INCRBY"),
                (6, "OVERFLOW"),
                (1, "NOSUCH"),
            ])
        };
        match operation {
            "GET" => push_get(draw, &mut command),
            "OVERFLOW" => {
                command.push(draw.case("OVERFLOW"));
                let how = draw.weighted(&[(4, "WRAP"), (4, "SAT"), (4, "FAIL"), (1, "NOSUCH")]);
                command.push(draw.case(how));
            }
            operation => {
                command.push(draw.case(operation));
                command.push(width(draw));
                command.push(field_offset(draw));
                command.push(draw.integer());
            }
        }
    }
    if draw.chance(2) {
        command.args_mut().pop();
    }
    steps.push(command.into());
}

/// Writes a text to a key for bits: bit commands read any string.
fn write_text(draw: &mut Draw, steps: &mut Vec<Step>) {
    let key = draw.key_of(Kind::Bits);
    let value = draw
        .pick(&[
            &b"\xff\xff\xff"[..],
            b"\x00\x00\xff\xf0",
            b"\xff\xf0\x00",
            b"\x00\x00\x00",
            b"",
            b"foobar",
            b"12",
        ])
        .to_vec();
    steps.push(Command::new("SET").arg(key).arg(value).into());
}
