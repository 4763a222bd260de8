//! The geospatial commands. A geospatial index is a sorted set whose scores are cells of a grid on
//! the map. `cell` has the grid, `shape` has distances and the cells that cover a circle or a box,
//! `place` has commands on members (GEOADD, GEOPOS), `query` parses searches, and `search` runs
//! them.

mod cell;
mod place;
mod query;
mod search;
mod shape;
#[cfg(test)]
mod tests;

use punctual_resp::{Protocol, Reply};

use cell::{LATITUDES, LONGITUDES, Point};

use crate::error::Error;
use crate::spec::{Flags, Group, OptionKeys};
use crate::turn::{Command, Handler};
use crate::value::zset::parse_score;

/// The family's rows.
pub static COMMANDS: &[Command] = &[
    row("geoadd", -5, GROW, place::geoadd)
        .access(&["RW update"])
        .since("3.2.0")
        .complexity(
            "O(log(N)) for each member added, where N is the number of members in the sorted set.",
        )
        .summary("Adds members to a geospatial index. Creates the key if it doesn't exist.")
        .history(&[("6.2.0", "Added the `CH`, `NX` and `XX` options.")])
        .syntax(
            "key [condition: NX | XX]@6.2.0 [change: CH@6.2.0] (data: longitude latitude \
             member) ...",
        ),
    row("geodist", -4, Flags::READONLY, place::geodist)
        .access(&["RO access"])
        .since("3.2.0")
        .complexity("O(log(N))")
        .summary("Returns the distance between two members of a geospatial index.")
        .syntax("key member1 member2 [unit: M | KM | FT | MI]"),
    row("geohash", -2, Flags::READONLY, place::geohash)
        .access(&["RO access"])
        .since("3.2.0")
        .complexity(
            "O(log(N)) for each member, where N is the number of members in the sorted set.",
        )
        .summary("Returns the standard geohashes of members of a geospatial index.")
        .syntax("key [member ...]"),
    row("geopos", -2, Flags::READONLY, place::geopos)
        .access(&["RO access"])
        .since("3.2.0")
        .complexity("O(N) where N is the number of members requested.")
        .summary("Returns the longitude and latitude of members of a geospatial index.")
        .syntax("key [member ...]"),
    row("georadius", -6, GROW, search::georadius)
        .option_keys(&OptionKeys { from: 6, ..STORES })
        .access(&["RO access", "OW update", "OW update"])
        .since("3.2.0")
        .complexity(RADIUS_COST)
        .summary(
            "Returns or stores the members of a geospatial index within a distance from a point.",
        )
        .history(&[("6.2.0", "Added the `ANY` option for `COUNT`."), UPPER_CASE])
        .deprecated(
            "6.2.0",
            "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` argument",
        )
        .syntax(
            "key longitude latitude radius (unit: M | KM | FT | MI) [WITHCOORD] [WITHDIST] \
             [WITHHASH] [count-block: COUNT count [ANY@6.2.0]] [order: ASC | DESC] [store: \
             (storekey: STORE key:key1) | (storedistkey: STOREDIST key:key2)]",
        ),
    row("georadius_ro", -6, Flags::READONLY, search::georadius_ro)
        .access(&["RO access"])
        .since("3.2.10")
        .complexity(RADIUS_COST)
        .summary("Returns the members of a geospatial index within a distance from a point.")
        .history(&[("6.2.0", "Added the `ANY` option for `COUNT`.")])
        .deprecated("6.2.0", "`GEOSEARCH` with the `BYRADIUS` argument")
        .syntax(
            "key longitude latitude radius (unit: M | KM | FT | MI) [WITHCOORD] [WITHDIST] \
             [WITHHASH] [count-block: COUNT count [ANY@6.2.0]] [order: ASC | DESC]",
        ),
    row("georadiusbymember", -5, GROW, search::georadiusbymember)
        .option_keys(&STORES)
        .access(&["RO access", "OW update", "OW update"])
        .since("3.2.0")
        .complexity(RADIUS_COST)
        .summary(
            "Returns or stores the members of a geospatial index within a distance from a member.",
        )
        .history(&[UPPER_CASE])
        .deprecated(
            "6.2.0",
            "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` and `FROMMEMBER` arguments",
        )
        .syntax(
            "key member radius (unit: M | KM | FT | MI) [WITHCOORD] [WITHDIST] [WITHHASH] \
             [count-block: COUNT count [ANY]] [order: ASC | DESC] [store: (storekey: STORE \
             key:key1) | (storedistkey: STOREDIST key:key2)]",
        ),
    row(
        "georadiusbymember_ro",
        -5,
        Flags::READONLY,
        search::georadiusbymember_ro,
    )
    .access(&["RO access"])
    .since("3.2.10")
    .complexity(RADIUS_COST)
    .summary("Returns the members of a geospatial index within a distance from a member.")
    .deprecated(
        "6.2.0",
        "`GEOSEARCH` with the `BYRADIUS` and `FROMMEMBER` arguments",
    )
    .syntax(
        "key member radius (unit: M | KM | FT | MI) [WITHCOORD] [WITHDIST] [WITHHASH] \
             [count-block: COUNT count [ANY]] [order: ASC | DESC]",
    ),
    row("geosearch", -7, Flags::READONLY, search::geosearch)
        .access(&["RO access"])
        .since("6.2.0")
        .complexity(SEARCH_COST)
        .summary("Returns the members of a geospatial index inside a circle or a box.")
        .history(&[UPPER_CASE])
        .syntax(
            "key (from: FROMMEMBER member | FROMLONLAT (longitude latitude)) (by: (circle: \
             BYRADIUS radius (unit: M | KM | FT | MI)) | (box: BYBOX width height (unit: M | \
             KM | FT | MI))) [order: ASC | DESC] [count-block: COUNT count [ANY]] [WITHCOORD] \
             [WITHDIST] [WITHHASH]",
        ),
    row("geosearchstore", -8, GROW, search::geosearchstore)
        .keys(1, 2, 1)
        .access(&["OW update", "RO access"])
        .since("6.2.0")
        .complexity(SEARCH_COST)
        .summary(
            "Stores the members of a geospatial index inside a circle or a box in another key.",
        )
        .history(&[UPPER_CASE])
        .syntax(
            "destination:key source:key1 (from: FROMMEMBER member | FROMLONLAT (longitude \
             latitude)) (by: (circle: BYRADIUS radius (unit: M | KM | FT | MI)) | (box: BYBOX \
             width height (unit: M | KM | FT | MI))) [order: ASC | DESC] [count-block: COUNT \
             count [ANY]] [STOREDIST]",
        ),
];

const GROW: Flags = Flags::WRITE.or(Flags::DENYOOM);
const UPPER_CASE: (&str, &str) = ("7.0.0", "Added support for uppercase unit names.");
const RADIUS_COST: &str = "O(N+log(M)) where N is the number of members in the bounding box of the circle and M is \
                           the number of members in the index.";
const SEARCH_COST: &str = "O(N+log(M)) where N is the number of members in the grid-aligned bounding box of the shape \
                           and M is the number of members inside the shape.";
const STORES: OptionKeys = OptionKeys {
    first: Some(1),
    from: 5,
    keyed: &["store", "storedist"],
    ..OptionKeys::NONE
};

crate::family!(Handler, Group::Geo, Flags::NONE, keys(1, 1, 1));

const BAD_UNIT: Error = Error::fixed("ERR unsupported unit provided. please use M, KM, FT, MI");

/// Parses a unit and returns its length in metres.
fn unit_m(arg: &[u8]) -> Result<f64, Error> {
    match arg.to_ascii_lowercase().as_slice() {
        b"m" => Ok(1.0),
        b"km" => Ok(1000.0),
        b"ft" => Ok(0.3048),
        b"mi" => Ok(1609.34),
        _ => Err(BAD_UNIT),
    }
}

/// Parses a longitude and a latitude; both must lie on the map.
fn point(longitude: &[u8], latitude: &[u8]) -> Result<Point, Error> {
    let longitude = parse_score(longitude).ok_or(Error::NotFloat)?;
    let latitude = parse_score(latitude).ok_or(Error::NotFloat)?;
    if !LONGITUDES.contains(longitude) || !LATITUDES.contains(latitude) {
        let text = format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}");
        return Err(Error::Text(text.into()));
    }
    Ok(Point {
        longitude,
        latitude,
    })
}

/// Writes a distance, at most a few times the circumference of the earth, with four decimal places.
///
/// Rounds as Redis does: multiplies by 10,000 first, and then rounds half to even. The format `.4`
/// would round the exact value instead, which changes the last digit of about one in 50,000
/// distances above 10,000 km.
fn reply_distance(reply: &mut Reply, distance: f64) {
    let parts = (distance * 10_000.0).round_ties_even() as u64;
    let text = format!("{}.{:04}", parts / 10_000, parts % 10_000);
    reply.bulk(text.as_bytes());
}

/// Writes a longitude and a latitude with up to 17 decimal places.
fn reply_point(reply: &mut Reply, point: Point) {
    reply.array(2);
    for degrees in [point.longitude, point.latitude] {
        let text = format!("{degrees:.17}");
        let text = match text.trim_end_matches('0').trim_end_matches('.') {
            "-0" => "0",
            text => text,
        };
        match reply.protocol() {
            Protocol::Resp2 => reply.bulk(text.as_bytes()),
            Protocol::Resp3 => reply
                .out()
                .extend([b",", text.as_bytes(), b"\r\n"].concat()),
        }
    }
}
