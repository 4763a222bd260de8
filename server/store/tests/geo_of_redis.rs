//! Comparison of the geospatial commands with a redis-server on this machine. Without one, the test
//! prints a message and passes.

mod oracle;

use std::collections::HashSet;

use oracle::Both;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// Ranges of longitudes and latitudes for random places: the whole map, an area of two degrees, the
/// centre of the map, and edges of the map.
const REGIONS: [[f64; 4]; 6] = [
    [-180.0, 180.0, -85.0, 85.0],
    [13.0, 15.0, 37.0, 39.0],
    [-0.01, 0.01, -0.01, 0.01],
    [170.0, 180.0, -20.0, 20.0],
    [-180.0, 180.0, 75.0, 85.0],
    [-180.0, 180.0, -85.0, -60.0],
];

fn point(random: &mut StdRng, [west, east, south, north]: [f64; 4]) -> String {
    let longitude = random.random_range(west..east);
    let latitude = random.random_range(south..north);
    format!("{longitude} {latitude}")
}

/// Returns the geohash cell of a point, with 26 bits for each coordinate.
fn cell(point: &str) -> Vec<u64> {
    let part = |text: &str| text.parse::<f64>().unwrap();
    let ranges = [360.0, 2.0 * 85.051_128_78];
    let cells = point
        .split(' ')
        .zip(ranges)
        .map(|(text, range)| ((part(text) / range + 0.5) * f64::from(1 << 26)) as u64);
    cells.collect()
}

/// Returns a random centre of a search; some are whole numbers.
fn centre(random: &mut StdRng, region: [f64; 4]) -> String {
    let point = point(random, region);
    match random.random_range(0..4) {
        0 => {
            let whole = point.split(' ').map(|part| part.split('.').next().unwrap());
            whole.collect::<Vec<_>>().join(" ")
        }
        _ => point,
    }
}

/// Returns a random length between a millimetre and 31,600 km.
fn length(random: &mut StdRng) -> f64 {
    10_f64.powf(random.random_range(-3.0..7.5))
}

fn reach(random: &mut StdRng) -> String {
    let (unit, unit_m) = *[("m", 1.0), ("km", 1000.0), ("FT", 0.3048), ("mi", 1609.34)]
        .choose(random)
        .unwrap();
    let first = length(random) / unit_m;
    if random.random_bool(0.5) {
        return format!("BYRADIUS {first} {unit}");
    }
    let second = length(random) / unit_m;
    format!("BYBOX {first} {second} {unit}")
}

fn options(random: &mut StdRng) -> String {
    let mut options = String::new();
    let mut some = |chance: f64, option: String| {
        if random.random_bool(chance) {
            options += &option;
        }
    };
    some(0.5, " WITHDIST".into());
    some(0.3, " WITHCOORD".into());
    some(0.3, " WITHHASH".into());
    options
}

fn limits(random: &mut StdRng) -> String {
    let order = *["", " ASC", " DESC"].choose(random).unwrap();
    let count = match random.random_range(0..4) {
        0 => format!(" COUNT {}", random.random_range(1..50)),
        1 => format!(" COUNT {} ANY", random.random_range(1..50)),
        _ => String::new(),
    };
    format!("{order}{count}")
}

/// Compares the members and scores of a sorted set.
fn contents(both: &mut Both, key: &str) {
    both.line(&format!("SORT {key} BY nosort"));
    both.line(&format!("GEORADIUS {key} 0 0 21000 km WITHHASH"));
}

#[test]
fn searches_match_redis() {
    let Some(mut both) = Both::start() else {
        return;
    };
    let mut random = oracle::random();
    for round in 0..24 {
        let region = REGIONS[round % REGIONS.len()];
        both.line("FLUSHALL");
        let places = [20, 100, 3000][round / REGIONS.len() % 3];
        let mut cells = HashSet::new();
        for number in 0..places {
            // Two places in one geohash cell would have equal distances, whose order Redis does not
            // define.
            let point = loop {
                let point = point(&mut random, region);
                if cells.insert(cell(&point)) {
                    break point;
                }
            };
            both.line(&format!("GEOADD k {point} {number}"));
        }
        for _ in 0..100 {
            let member = random.random_range(0..places);
            let other = random.random_range(0..places);
            both.line(&format!("GEOPOS k {member} {other} x"));
            both.line(&format!("GEOHASH k {member} {other} x"));
            both.line(&format!("GEODIST k {member} {other} km"));
            let from = match random.random_range(0..3) {
                0 => format!("FROMMEMBER {member}"),
                1 => format!("FROMLONLAT {}", centre(&mut random, region)),
                _ => format!("FROMLONLAT {}", centre(&mut random, REGIONS[0])),
            };
            let (reach, limits) = (reach(&mut random), limits(&mut random));
            let options = options(&mut random);
            both.line(&format!("GEOSEARCH k {from} {reach}{limits}{options}"));
            if random.random_bool(0.2) {
                both.line(&format!("GEOSEARCHSTORE to k {from} {reach}{limits}"));
                contents(&mut both, "to");
                let line = format!("GEOSEARCHSTORE to k {from} {reach}{limits} STOREDIST");
                both.line(&line);
                both.line("SORT to BY nosort");
            }
            let radius = length(&mut random);
            let by_member = format!("GEORADIUSBYMEMBER k {member} {radius} m{limits}");
            both.line(&format!("{by_member}{options}"));
            let by_point = format!(
                "GEORADIUS k {} {radius} m{limits}",
                point(&mut random, region)
            );
            both.line(&format!("{by_point} STORE to"));
            contents(&mut both, "to");
        }
    }
}
