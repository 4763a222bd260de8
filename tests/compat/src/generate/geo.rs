//! Geo commands on sorted sets.
//!
//! The coordinates are random, so two places are rarely equal: the order of places at the same
//! distance is undefined.

use super::Maker::{self, Call, Line};
use super::{line, named};
use crate::command::{Command, Step};
use crate::draw::{Draw, Kind};

/// Commands that may get any arguments; `errors.rs` has the criteria.
pub(super) const ANY_ARGUMENTS: &str = "GEOPOS|GEODIST|GEOHASH|GEORADIUS_RO|GEORADIUSBYMEMBER_RO";

const MAKERS: &[(u32, Maker)] = &[
    (30, Call(add)),
    (1, Call(grow)),
    (10, Line("GEOPOS|GEOHASH geo-source 95% element*4")),
    (12, Call(distance)),
    (30, Call(search)),
    (8, Call(search_and_store)),
    (16, Call(radius)),
    (3, Line("ZREM geo-source element*3")),
    (4, Call(as_a_key)),
    (1, Line("DEL geo-source")),
];

/// Appends one geo command.
pub(super) fn commands(draw: &mut Draw, steps: &mut Vec<Step>) {
    super::make(draw, MAKERS, steps);
}

fn add(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "GEOADD").arg(draw.geo_key());
    for _ in 0..draw.weighted(&[(12, 0), (6, 1), (2, 2)]) {
        let option = draw.pick(&["NX", "XX", "CH", "NX", "XX", "CH", "INCR"]);
        command.push(draw.case(option));
    }
    for member in draw.elements(4) {
        command.push(draw.longitude());
        command.push(draw.latitude());
        command.push(member);
    }
    if draw.chance(3) {
        command.push(draw.longitude());
    }
    steps.push(command.into());
}

fn grow(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "GEOADD").arg(draw.geo_key());
    for number in 0..draw.between(100..=200) {
        let (longitude, latitude) = (draw.between(10_000..=16_000), draw.between(36_000..=40_000));
        command.push(format!(
            "{}.{:03}{number:03}",
            longitude / 1000,
            longitude % 1000
        ));
        command.push(format!(
            "{}.{:03}{number:03}",
            latitude / 1000,
            latitude % 1000
        ));
        command.push(format!("m{number}"));
    }
    steps.push(command.into());
}

fn unit(draw: &mut Draw) -> Vec<u8> {
    let unit = draw.weighted(&[(6, "km"), (4, "m"), (3, "mi"), (3, "ft"), (1, "parsec")]);
    draw.case(unit)
}

fn distance(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = line::command(draw, "GEODIST geo-source element element");
    if draw.chance(60) {
        command.push(unit(draw));
    }
    steps.push(command.into());
}

fn length(draw: &mut Draw) -> Vec<u8> {
    match draw.between(0..=99) {
        0..=79 => draw.between(1..=900).to_string(),
        80..=91 => format!("{}.{}", draw.between(0..=500), draw.between(0..=99)),
        92..=95 => draw
            .pick(&["0", "20000", "1e6", "0.0001", "100000000"])
            .to_owned(),
        _ => draw.pick(&["-1", "abc", "", "nan"]).to_owned(),
    }
    .into_bytes()
}

fn push_centre(draw: &mut Draw, command: &mut Command) {
    let centre = match draw.chance(50) {
        true => "FROMMEMBER element",
        false => "FROMLONLAT longitude latitude",
    };
    line::append(draw, command, centre);
}

fn push_shape(draw: &mut Draw, command: &mut Command) {
    if draw.chance(50) {
        command.push(draw.case("BYRADIUS"));
        command.push(length(draw));
    } else {
        command.push(draw.case("BYBOX"));
        command.push(length(draw));
        command.push(length(draw));
    }
    command.push(unit(draw));
}

/// Appends options for the form, the order and the number of results. ANY takes the first matches
/// of the server's index, so a result with ANY is never stored.
fn push_options(draw: &mut Draw, command: &mut Command, shows: bool) {
    line::append(draw, command, "55% ASC|DESC");
    if draw.chance(35) {
        command.push(draw.case("COUNT"));
        command.push(draw.how_many());
        if shows && draw.chance(20) {
            command.push(draw.case("ANY"));
        }
    }
    for option in ["WITHCOORD", "WITHDIST", "WITHHASH"] {
        if draw.chance(if shows { 35 } else { 3 }) {
            command.push(draw.case(option));
        }
    }
    if draw.chance(2) {
        command.push("NOSUCH");
    }
}

fn push_search(draw: &mut Draw, command: &mut Command, shows: bool) {
    match draw.between(0..=29) {
        0 => push_centre(draw, command),
        1 => push_shape(draw, command),
        2 => {
            push_centre(draw, command);
            push_centre(draw, command);
            push_shape(draw, command);
        }
        3..=8 => {
            push_shape(draw, command);
            push_centre(draw, command);
        }
        _ => {
            push_centre(draw, command);
            push_shape(draw, command);
        }
    }
    push_options(draw, command, shows);
}

fn search(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "GEOSEARCH").arg(draw.geo_source());
    push_search(draw, &mut command, true);
    if draw.chance(2) {
        command.push("STOREDIST");
    }
    steps.push(command.into());
}

fn search_and_store(draw: &mut Draw, steps: &mut Vec<Step>) {
    let distances = draw.chance(35);
    let to = if distances {
        draw.key_of(Kind::Zset)
    } else {
        draw.geo_key()
    };
    let mut command = named(draw, "GEOSEARCHSTORE").arg(to).arg(draw.geo_source());
    push_search(draw, &mut command, false);
    if distances {
        command.push(draw.case("STOREDIST"));
    }
    steps.push(command.into());
}

/// Appends one of the commands that GEOSEARCH replaces.
fn radius(draw: &mut Draw, steps: &mut Vec<Step>) {
    let name = draw.one_of("GEORADIUS|GEORADIUSBYMEMBER|GEORADIUS_RO|GEORADIUSBYMEMBER_RO");
    let mut command = named(draw, name).arg(draw.geo_source());
    let centre = match name.contains("MEMBER") {
        true => "element",
        false => "longitude latitude",
    };
    line::append(draw, &mut command, centre);
    command.push(length(draw));
    command.push(unit(draw));
    let stores = draw.chance(if name.ends_with("_RO") { 4 } else { 30 });
    push_options(draw, &mut command, !stores);
    if stores {
        let option = draw.pick(&["STORE", "STOREDIST"]);
        command.push(draw.case(option));
        if draw.chance(96) {
            let to = if option == "STORE" {
                draw.geo_key()
            } else {
                draw.key_of(Kind::Zset)
            };
            command.push(to);
        }
    }
    steps.push(command.into());
}

/// Appends a command of another family on geo keys.
fn as_a_key(draw: &mut Draw, steps: &mut Vec<Step>) {
    let (one, other) = (draw.geo_key(), draw.geo_key());
    let command = match draw.between(0..=5) {
        0 => Command::new("COPY").arg(one).arg(other).arg("REPLACE"),
        1 => Command::new("RENAME").arg(one).arg(other),
        2 => Command::new("EXPIRE").arg(one).arg(draw.ttl(1)),
        3 => Command::new("PERSIST").arg(one),
        4 => Command::of(&["OBJECT", "ENCODING"]).arg(one),
        _ => Command::new("ZCARD").arg(one),
    };
    steps.push(command.into());
}
