//! Comparison with a transcript of redis-server, and properties of searches.
//! `tests/geo_of_redis.rs` compares more searches with a running redis-server.

use proptest::prelude::*;
use punctual_resp::{Protocol, Reply};

use super::cell::Point;
use super::shape::{Extent, Shape};
use crate::command::testing::Fixture;

const TRANSCRIPT: &str = include_str!("transcript.txt");

#[test]
fn replies_and_events_match_redis() {
    for shards in [1, 16] {
        Fixture::sharded(shards).replay(TRANSCRIPT);
    }
}

#[test]
fn coordinates_are_doubles_in_resp3() {
    let mut fixture = Fixture::resp3();
    assert_eq!(fixture.run("GEOADD k 13.361389 38.115556 a"), ":1");
    assert_eq!(
        fixture.run("GEOPOS k a nomember"),
        "*2 *2 ,13.36138933897018433 ,38.11555639549629859 _"
    );
    assert_eq!(fixture.run("GEODIST k a a"), "$6 0.0000");
    assert_eq!(fixture.run("GEODIST k a b"), "_");
    assert_eq!(fixture.run("GEOHASH k b"), "*1 _");
    assert_eq!(
        fixture.run("GEOSEARCH k FROMMEMBER a BYRADIUS 1 m WITHCOORD WITHDIST"),
        "*1 *3 $1 a $6 0.0000 *2 ,13.36138933897018433 ,38.11555639549629859"
    );
}

/// Redis multiplies first, and then rounds half to even. Without the multiplication, these values
/// would round to another digit.
#[test]
fn distances_round_as_in_redis() {
    for (distance, text) in [
        (14_628_369.856_05, "14628369.8560"),
        (15_123_143.748_55, "15123143.7486"),
        (0.0, "0.0000"),
    ] {
        let mut out = Vec::new();
        super::reply_distance(&mut Reply::new(&mut out, Protocol::Resp2), distance);
        let bulk = format!("${}\r\n{text}\r\n", text.len());
        assert_eq!(out, bulk.as_bytes());
    }
}

#[test]
fn changes_are_counted() {
    let mut fixture = Fixture::new();
    for (line, dirty) in [
        ("GEOADD k 1 1 a 2 2 b", 2),
        ("GEOADD k 1 1 a 3 3 b", 1),
        ("GEOADD k NX 4 4 a", 0),
        ("GEORADIUS k 1 1 1000 km STORE to", 2),
        ("GEORADIUS k 50 50 1 km STORE to", 1),
        ("GEORADIUS k 50 50 1 km STORE to", 0),
        ("GEOSEARCHSTORE to k FROMMEMBER a BYRADIUS 1 m", 1),
    ] {
        fixture.stats.dirty = 0;
        fixture.run(line);
        assert_eq!(fixture.stats.dirty, dirty, "{line}");
    }
}

fn point() -> impl Strategy<Value = Point> {
    (-180.0..180.0, -85.05..85.05).prop_map(|(longitude, latitude)| Point {
        longitude,
        latitude,
    })
}

proptest! {
    /// Leaves out the poles and the 180th meridian, where Redis does not search the other side of
    /// the map.
    #[test]
    fn cells_cover_their_shape(
        longitude in -90.0..90.0,
        latitude in -60.0..60.0,
        size in 1.0..1_000_000.0,
        ratio in 0.2..1.0,
        is_box in any::<bool>(),
        others in proptest::collection::vec(((-1.0..1.0), (-1.0..1.0)), 50),
    ) {
        let centre = Point { longitude, latitude };
        let extent = if is_box {
            Extent::Box { width: size * ratio, height: size }
        } else {
            Extent::Circle { radius: size }
        };
        let shape = Shape { centre, extent, unit_m: 1.0 };
        for (east, north) in others {
            // A point near the centre.
            let point = Point {
                longitude: longitude + east * size / 50_000.0,
                latitude: latitude + north * size / 100_000.0,
            };
            let point = Point::of_score(point.score());
            if shape.distance_within(point).is_some() {
                let score = point.score();
                let covers = |(first, end)| (first..end).contains(&score);
                prop_assert!(shape.cells().any(|cell| covers(cell.scores())), "{:?}", point);
            }
        }
    }

    #[test]
    fn a_search_of_radius_zero_finds_its_member(point in point()) {
        let mut fixture = Fixture::new();
        fixture.run(&format!("GEOADD k {} {} a", point.longitude, point.latitude));
        prop_assert_eq!(fixture.run("GEOSEARCH k FROMMEMBER a BYRADIUS 0 m"), "*1 $1 a");
        prop_assert_eq!(fixture.run("GEOSEARCH k FROMMEMBER a BYBOX 0 0 m"), "*1 $1 a");
    }
}
