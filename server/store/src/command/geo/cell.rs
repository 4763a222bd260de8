//! Cells of a grid on the map. The ranges of longitude and latitude are halved repeatedly. Each
//! halving adds one bit, and the bits of both coordinates are interleaved. A member's score is the
//! 52 bits of its cell after 26 halvings, so the members within a coarser cell have a contiguous
//! range of scores.

/// Longitudes of the grid.
pub(super) const LONGITUDES: Span = Span {
    min: -180.0,
    max: 180.0,
};
/// Latitudes of the grid, which are the latitudes of a square Mercator map.
pub(super) const LATITUDES: Span = Span {
    min: -85.051_128_78,
    max: 85.051_128_78,
};
/// All latitudes: the grid of standard geohashes.
const ALL_LATITUDES: Span = Span {
    min: -90.0,
    max: 90.0,
};

/// Number of halvings of a point's cell.
pub(super) const STEPS: u32 = 26;
/// Mask of the latitude's bits, the lower bit of each pair.
const LATITUDE_BITS: u64 = 0x5555_5555_5555_5555;
/// Mask of the longitude's bits.
const LONGITUDE_BITS: u64 = !LATITUDE_BITS;

/// Range of longitudes or latitudes, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Span {
    pub(super) fn contains(self, degrees: f64) -> bool {
        (self.min..=self.max).contains(&degrees)
    }

    /// Divides the span into `2^steps` equal parts. Returns the number of the part that contains
    /// `degrees`. The upper end of the span is in the part after the last one.
    fn part(self, degrees: f64, steps: u32) -> u32 {
        let share = (degrees - self.min) / (self.max - self.min);
        (share * (1_u64 << steps) as f64) as u32
    }

    /// Returns the range of one of the `2^steps` parts.
    fn of_part(self, part: u32, steps: u32) -> Self {
        let edge = |part: u32| {
            self.min + f64::from(part) / (1_u64 << steps) as f64 * (self.max - self.min)
        };
        Self {
            min: edge(part),
            max: edge(part.wrapping_add(1)),
        }
    }

    /// Returns the middle of a part, limited to this span.
    fn middle(self, part: Self) -> f64 {
        ((part.min + part.max) / 2.0).min(self.max).max(self.min)
    }
}

/// A point, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) longitude: f64,
    pub(super) latitude: f64,
}

impl Point {
    /// Returns the middle of the cell of a score. Accepts any score.
    pub(super) fn of_score(score: f64) -> Self {
        let cell = Cell {
            bits: bits_of(score),
            steps: STEPS,
        };
        let area = cell.area();
        Self {
            longitude: LONGITUDES.middle(area.longitudes),
            latitude: LATITUDES.middle(area.latitudes),
        }
    }

    /// Returns the score of the point's cell.
    pub(super) fn score(self) -> f64 {
        Cell::of(self, STEPS).bits as f64
    }

    /// Returns the standard geohash (G. Niemeyer, 2008) with 11 characters; the last one is always
    /// `0`.
    pub(super) fn geohash(self) -> [u8; 11] {
        const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let latitude = ALL_LATITUDES.part(self.latitude, STEPS);
        let longitude = LONGITUDES.part(self.longitude, STEPS);
        let bits = interleave(latitude, longitude);
        std::array::from_fn(|i| match i {
            10 => b'0',
            _ => LETTERS[(bits >> (52 - (i + 1) * 5) & 31) as usize],
        })
    }
}

/// Converts a score to the bits of a cell. A score that belongs to no point has the result of
/// Redis's cast to `uint64_t` on x86.
fn bits_of(score: f64) -> u64 {
    const HALF: f64 = (1_u64 << 63) as f64;
    match score {
        _ if score < HALF => score as i64 as u64,
        _ if score < HALF * 2.0 => score as u64,
        _ => 0,
    }
}

/// Interleaves the bits of `low` and `high`; the bits of `high` are the upper ones of each pair.
fn interleave(low: u32, high: u32) -> u64 {
    spread(low) | spread(high) << 1
}

/// Inserts a 0 bit above each bit.
fn spread(bits: u32) -> u64 {
    let mut bits = u64::from(bits);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, LATITUDE_BITS),
    ] {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

/// Removes every second bit: the inverse of [`spread`].
fn gather(bits: u64) -> u32 {
    let mut bits = bits & LATITUDE_BITS;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        bits = (bits | bits >> shift) & mask;
    }
    bits as u32
}

/// Area of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub(super) longitudes: Span,
    pub(super) latitudes: Span,
}

/// A cell of the grid, with 2 bits for each of 1 to 26 halvings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    bits: u64,
    pub(super) steps: u32,
}

impl Cell {
    /// Returns the cell that contains a point.
    pub(super) fn of(point: Point, steps: u32) -> Self {
        let latitude = LATITUDES.part(point.latitude, steps);
        let longitude = LONGITUDES.part(point.longitude, steps);
        Self {
            bits: interleave(latitude, longitude),
            steps,
        }
    }

    pub(super) fn area(self) -> Area {
        let latitude = gather(self.bits);
        let longitude = gather(self.bits >> 1);
        Area {
            longitudes: LONGITUDES.of_part(longitude, self.steps),
            latitudes: LATITUDES.of_part(latitude, self.steps),
        }
    }

    /// Returns the neighbour `east` columns and `north` rows away (-1, 0 or 1 each). The grid wraps
    /// around.
    pub(super) fn neighbour(self, east: i32, north: i32) -> Self {
        let used = u64::MAX >> (64 - 2 * self.steps);
        // The bits of the other coordinate propagate the carry or the borrow.
        let moved = |mask: u64, by: i32| match by {
            0 => self.bits & mask,
            1 => (self.bits | !mask).wrapping_add(mask & 3) & mask & used,
            _ => (self.bits & mask).wrapping_sub(mask & 3) & mask & used,
        };
        Self {
            bits: moved(LONGITUDE_BITS, east) | moved(LATITUDE_BITS, north),
            ..self
        }
    }

    /// Returns the range of scores in the cell: the first score, and the score after the last one.
    pub(super) fn scores(self) -> (f64, f64) {
        let shift = 2 * (STEPS - self.steps);
        (
            (self.bits << shift) as f64,
            ((self.bits + 1) << shift) as f64,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn point() -> impl Strategy<Value = Point> {
        (-180.0..180.0, -85.05..85.05).prop_map(|(longitude, latitude)| Point {
            longitude,
            latitude,
        })
    }

    proptest! {
        #[test]
        fn a_score_converts_back_to_its_point(point in point()) {
            let back = Point::of_score(point.score());
            prop_assert!((back.longitude - point.longitude).abs() < 360.0 / f64::from(1 << 26));
            prop_assert!((back.latitude - point.latitude).abs() < 171.0 / f64::from(1 << 26));
            prop_assert_eq!(Point::of_score(back.score()), back);
        }

        #[test]
        fn a_cell_contains_its_point_by_area_and_by_score(point in point(), steps in 1..=26_u32) {
            let cell = Cell::of(point, steps);
            let area = cell.area();
            prop_assert!(area.longitudes.contains(point.longitude));
            prop_assert!(area.latitudes.contains(point.latitude));
            let (first, end) = cell.scores();
            prop_assert!((first..end).contains(&point.score()));
        }

        #[test]
        fn neighbours_share_an_edge(point in point(), steps in 2..=26_u32) {
            let cell = Cell::of(point, steps);
            let here = cell.area();
            prop_assert_eq!(cell.neighbour(0, 0), cell);
            for (east, north) in [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)] {
                let there = cell.neighbour(east, north);
                prop_assert_eq!(there.neighbour(-east, -north), cell);
                let there = there.area();
                let meets = |a: Span, b: Span, by: i32, all: Span| match by {
                    0 => a == b,
                    1 => a.max == b.min || (a.max >= all.max && b.min == all.min),
                    _ => a.min == b.max || (a.min == all.min && b.max >= all.max),
                };
                prop_assert!(meets(here.longitudes, there.longitudes, east, LONGITUDES));
                prop_assert!(meets(here.latitudes, there.latitudes, north, LATITUDES));
            }
        }

        #[test]
        fn bits_are_spread_and_gathered(low in any::<u32>(), high in any::<u32>()) {
            let bits = interleave(low, high);
            prop_assert_eq!((gather(bits), gather(bits >> 1)), (low, high));
            prop_assert_eq!(bits.count_ones(), low.count_ones() + high.count_ones());
        }

        #[test]
        fn any_score_converts_to_a_point(score in any::<f64>()) {
            let point = Point::of_score(score);
            prop_assert!(LONGITUDES.contains(point.longitude) && LATITUDES.contains(point.latitude));
        }
    }

    #[test]
    fn geohash_of_palermo() {
        let score = Point {
            longitude: 13.361_389,
            latitude: 38.115_556,
        }
        .score();
        assert_eq!(score, 3_479_099_956_230_698.0);
        assert_eq!(&Point::of_score(score).geohash(), b"sqc8b49rny0");
    }
}
