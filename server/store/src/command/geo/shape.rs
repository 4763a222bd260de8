//! Shapes of searches: circles and boxes on the sphere, and the cells that cover them.

use super::cell::{Area, Cell, Point, STEPS, Span};

/// Radius of the Earth in Redis, in metres.
const EARTH_RADIUS_M: f64 = 6_372_797.560_856;
/// Half the length of the map's equator, in metres.
const MAP_HALF_M: f64 = 20_037_726.37;
/// Factor from degrees to radians. Division by its inverse would differ in the last bit.
const RADIANS: f64 = std::f64::consts::PI / 180.0;

fn radians(degrees: f64) -> f64 {
    degrees * RADIANS
}

fn degrees(radians: f64) -> f64 {
    radians / RADIANS
}

/// Returns the distance of two latitudes along a meridian, in metres.
fn latitude_distance_m(a: f64, b: f64) -> f64 {
    EARTH_RADIUS_M * (radians(b) - radians(a)).abs()
}

/// Returns the great-circle distance of two points in metres, by the haversine formula.
pub(super) fn distance_m(a: Point, b: Point) -> f64 {
    let v = ((radians(b.longitude) - radians(a.longitude)) / 2.0).sin();
    if v == 0.0 {
        return latitude_distance_m(a.latitude, b.latitude);
    }
    let (lat_a, lat_b) = (radians(a.latitude), radians(b.latitude));
    let u = ((lat_b - lat_a) / 2.0).sin();
    let haversine = u * u + lat_a.cos() * lat_b.cos() * v * v;
    // For antipodes, rounding may exceed 1, which is outside the domain of asin.
    2.0 * EARTH_RADIUS_M * haversine.sqrt().min(1.0).asin()
}

/// Size of a shape, in the unit of the search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Extent {
    Circle { radius: f64 },
    Box { width: f64, height: f64 },
}

/// An extent around a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shape {
    pub(super) centre: Point,
    pub(super) extent: Extent,
    /// Length of the unit in metres.
    pub(super) unit_m: f64,
}

impl Shape {
    /// Returns the distance of a point from the centre in metres, or `None` if the point lies
    /// outside. O(1).
    pub(super) fn distance_within(&self, point: Point) -> Option<f64> {
        match self.extent {
            Extent::Circle { radius } => {
                let distance = distance_m(self.centre, point);
                (distance <= radius * self.unit_m).then_some(distance)
            }
            Extent::Box { width, height } => {
                let (width, height) = (width * self.unit_m, height * self.unit_m);
                if latitude_distance_m(point.latitude, self.centre.latitude) > height / 2.0 {
                    return None;
                }
                let same_latitude = Point {
                    latitude: point.latitude,
                    ..self.centre
                };
                if distance_m(point, same_latitude) > width / 2.0 {
                    return None;
                }
                Some(distance_m(self.centre, point))
            }
        }
    }

    /// Returns the cells that cover the shape, in Redis's order: the centre's cell, then up to
    /// eight neighbours. O(1).
    pub(super) fn cells(&self) -> impl Iterator<Item = Cell> {
        let bounds = self.bounds();
        let mut steps = self.steps();
        let mut own = Cell::of(self.centre, steps);
        if steps > 1 && !self.covered_around(own) {
            steps -= 1;
            own = Cell::of(self.centre, steps);
        }
        let here = own.area();
        // Skips neighbours on sides that the shape does not reach.
        let needed = move |east: i32, north: i32| {
            steps < 2
                || !(north < 0 && here.latitudes.min < bounds.latitudes.min
                    || north > 0 && here.latitudes.max > bounds.latitudes.max
                    || east < 0 && here.longitudes.min < bounds.longitudes.min
                    || east > 0 && here.longitudes.max > bounds.longitudes.max)
        };
        const AROUND: [(i32, i32); 8] = [
            (0, 1),
            (0, -1),
            (1, 0),
            (-1, 0),
            (1, 1),
            (-1, 1),
            (1, -1),
            (-1, -1),
        ];
        let mut last = None;
        let around = AROUND
            .into_iter()
            .filter(move |(east, north)| needed(*east, *north))
            .map(move |(east, north)| own.neighbour(east, north))
            // In a coarse grid two neighbours may be the same cell.
            .filter(move |cell| last.replace(*cell) != Some(*cell));
        std::iter::once(own).chain(around)
    }

    /// Returns the number of halvings after which a cell is about as large as the shape.
    fn steps(&self) -> u32 {
        let mut reach = match self.extent {
            Extent::Circle { radius } => radius,
            Extent::Box { width, height } => {
                ((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0)).sqrt()
            }
        } * self.unit_m;
        if reach == 0.0 {
            return STEPS;
        }
        let mut steps = 1_i32;
        while reach < MAP_HALF_M {
            reach *= 2.0;
            steps += 1;
        }
        // With two halvings fewer, the cells cover the shape. Meridians converge near the poles, so
        // a shape there needs one or two halvings fewer still.
        steps -= 2;
        let latitude = self.centre.latitude.abs();
        if latitude > 66.0 {
            steps -= 1;
        }
        if latitude > 80.0 {
            steps -= 1;
        }
        steps.clamp(1, STEPS as i32).unsigned_abs()
    }

    /// Returns the bounding area of the shape.
    fn bounds(&self) -> Area {
        let (half_width, half_height) = match self.extent {
            Extent::Circle { radius } => (self.unit_m * radius, self.unit_m * radius),
            Extent::Box { width, height } => {
                (self.unit_m * (width / 2.0), self.unit_m * (height / 2.0))
            }
        };
        let Point {
            longitude,
            latitude,
        } = self.centre;
        let height = degrees(half_height / EARTH_RADIUS_M);
        // The shape spans the most degrees of longitude at its edge nearest to the pole.
        let widest = if latitude < 0.0 {
            latitude - height
        } else {
            latitude + height
        };
        let width = degrees(half_width / EARTH_RADIUS_M / radians(widest).cos());
        let around = |middle: f64, half: f64| Span {
            min: middle - half,
            max: middle + half,
        };
        Area {
            longitudes: around(longitude, width),
            latitudes: around(latitude, height),
        }
    }

    /// Returns true if `own` and its neighbours cover the shape.
    fn covered_around(&self, own: Cell) -> bool {
        let bounds = self.bounds();
        own.neighbour(0, 1).area().latitudes.max >= bounds.latitudes.max
            && own.neighbour(0, -1).area().latitudes.min <= bounds.latitudes.min
            && own.neighbour(1, 0).area().longitudes.max >= bounds.longitudes.max
            && own.neighbour(-1, 0).area().longitudes.min <= bounds.longitudes.min
    }
}
