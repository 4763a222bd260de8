//! Parser of searches: shape, filter and destination.

use punctual_resp::Args;

use super::cell::Point;
use super::shape::{Extent, Shape};
use super::{point, unit_m};
use crate::arguments::{int, is};
use crate::error::{Error, c_string};
use crate::value::zset::{Zset, parse_score};

const NO_MEMBER: Error = Error::fixed("ERR could not decode requested zset member");
const NOT_RADIUS: Error = Error::fixed("ERR need numeric radius");
const NEGATIVE_RADIUS: Error = Error::fixed("ERR radius cannot be negative");
const NOT_WIDTH: Error = Error::fixed("ERR need numeric width");
const NOT_HEIGHT: Error = Error::fixed("ERR need numeric height");
const NEGATIVE_SIDE: Error = Error::fixed("ERR height or width cannot be negative");
const NO_COUNT: Error = Error::fixed("ERR COUNT must be > 0");
const ANY_OF_ALL: Error = Error::fixed("ERR the ANY argument requires COUNT argument");

/// Command that runs a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// GEORADIUS.
    Radius { stores: bool },
    /// GEORADIUSBYMEMBER.
    RadiusByMember { stores: bool },
    /// GEOSEARCH.
    Search,
    /// GEOSEARCHSTORE.
    SearchStore,
}

impl Form {
    /// Returns the position of the source key.
    pub(super) fn source(self) -> usize {
        if self == Self::SearchStore { 2 } else { 1 }
    }

    fn is_search(self) -> bool {
        matches!(self, Self::Search | Self::SearchStore)
    }

    /// Returns true if the command has the options `STORE key` and `STOREDIST key`.
    fn takes_store_key(self) -> bool {
        matches!(
            self,
            Self::Radius { stores: true } | Self::RadiusByMember { stores: true }
        )
    }
}

/// Order by distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Ascending,
    Descending,
}

/// Destination of the results.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub(super) key: &'a [u8],
    /// STOREDIST: the scores of the stored members are distances.
    pub(super) distances: bool,
}

/// A search with its options, parsed from the arguments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Query<'a> {
    /// Shape; `None` for a search around a member of a missing key.
    pub(super) shape: Option<Shape>,
    pub(super) with_distance: bool,
    pub(super) with_hash: bool,
    pub(super) with_point: bool,
    pub(super) order: Option<Order>,
    /// Maximum number of results; 0 means no maximum.
    pub(super) count: usize,
    /// ANY: the search returns the first matches that it finds, and not the nearest matches.
    pub(super) any: bool,
    pub(super) target: Option<Target<'a>>,
}

/// Centre of a search. A member has no point if the key does not exist.
#[derive(Clone, Copy, Debug)]
enum Centre {
    Member(Option<Point>),
    Point(Point),
}

/// Size of the shape, and the length of its unit in metres.
type Reach = (Extent, f64);

impl<'a> Query<'a> {
    /// Parses the arguments of a search of `zset`.
    pub(super) fn parse(args: Args<'a>, form: Form, zset: Option<&Zset>) -> Result<Self, Error> {
        let member = |name: &[u8]| match zset {
            None => Ok(None),
            Some(zset) => {
                let score = zset.score(name).ok_or(NO_MEMBER)?;
                Ok(Some(Point::of_score(score)))
            }
        };
        let (mut from, mut reach): (Option<Centre>, Option<Reach>) = (None, None);
        let mut query = Self::default();
        let mut at = match form {
            Form::Radius { .. } => {
                from = Some(Centre::Point(point(args.at(2), args.at(3))?));
                reach = Some(circle(args.at(4), args.at(5))?);
                6
            }
            Form::RadiusByMember { .. } => {
                from = Some(Centre::Member(member(args.at(2))?));
                // As in Redis, the radius is not parsed if the key does not exist.
                if zset.is_some() {
                    reach = Some(circle(args.at(3), args.at(4))?);
                }
                5
            }
            Form::Search => 2,
            Form::SearchStore => {
                query.target = Some(Target {
                    key: args.at(1),
                    distances: false,
                });
                3
            }
        };
        while let Some(word) = args.get(at) {
            let more = args.len() - at - 1;
            at += 1;
            let takes = |count: usize, word_is: bool| word_is && more >= count;
            match () {
                () if is(word, "WITHDIST") => query.with_distance = true,
                () if is(word, "WITHHASH") => query.with_hash = true,
                () if is(word, "WITHCOORD") => query.with_point = true,
                () if is(word, "ANY") => query.any = true,
                () if is(word, "ASC") => query.order = Some(Order::Ascending),
                () if is(word, "DESC") => query.order = Some(Order::Descending),
                () if takes(1, is(word, "COUNT")) => {
                    let count = int(args.at(at))?;
                    if count <= 0 {
                        return Err(NO_COUNT);
                    }
                    query.count = usize::try_from(count).unwrap_or(usize::MAX);
                    at += 1;
                }
                () if form.takes_store_key()
                    && takes(1, is(word, "STORE") || is(word, "STOREDIST")) =>
                {
                    query.target = Some(Target {
                        key: args.at(at),
                        distances: is(word, "STOREDIST"),
                    });
                    at += 1;
                }
                () if form == Form::SearchStore && is(word, "STOREDIST") => {
                    query.target = query.target.map(|target| Target {
                        distances: true,
                        ..target
                    });
                }
                () if !form.is_search() => return Err(Error::Syntax),
                () if takes(1, is(word, "FROMMEMBER"))
                    && !matches!(from, Some(Centre::Point(_))) =>
                {
                    from = Some(Centre::Member(member(args.at(at))?));
                    at += 1;
                }
                () if takes(2, is(word, "FROMLONLAT"))
                    && !matches!(from, Some(Centre::Member(_))) =>
                {
                    from = Some(Centre::Point(point(args.at(at), args.at(at + 1))?));
                    at += 2;
                }
                () if takes(2, is(word, "BYRADIUS"))
                    && !matches!(reach, Some((Extent::Box { .. }, _))) =>
                {
                    reach = Some(circle(args.at(at), args.at(at + 1))?);
                    at += 2;
                }
                () if takes(3, is(word, "BYBOX"))
                    && !matches!(reach, Some((Extent::Circle { .. }, _))) =>
                {
                    reach = Some(rectangle(args.at(at), args.at(at + 1), args.at(at + 2))?);
                    at += 3;
                }
                () => return Err(Error::Syntax),
            }
        }
        query.check(args, form, from, reach)
    }

    /// Rejects incompatible options and sets the shape.
    fn check(
        self,
        args: Args,
        form: Form,
        from: Option<Centre>,
        reach: Option<Reach>,
    ) -> Result<Self, Error> {
        if self.target.is_some() && (self.with_distance || self.with_hash || self.with_point) {
            let what = match form {
                Form::SearchStore => "GEOSEARCHSTORE",
                _ => "STORE option in GEORADIUS",
            };
            let text = format!(
                "ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            );
            return Err(Error::Text(text.into()));
        }
        let needs_one = |what: &str| {
            let text = format!("ERR exactly one of {what} can be specified for ");
            Error::repeating(&text, c_string(args.at(0)), "")
        };
        if form.is_search() && from.is_none() {
            return Err(needs_one("FROMMEMBER or FROMLONLAT"));
        }
        if form.is_search() && reach.is_none() {
            return Err(needs_one("BYRADIUS and BYBOX"));
        }
        if self.any && self.count == 0 {
            return Err(ANY_OF_ALL);
        }
        let centre = match from {
            Some(Centre::Member(point)) => point,
            Some(Centre::Point(point)) => Some(point),
            None => None,
        };
        let shape = centre.zip(reach).map(|(centre, (extent, unit_m))| Shape {
            centre,
            extent,
            unit_m,
        });
        // COUNT without ANY returns the nearest matches.
        let nearest = (self.count > 0 && !self.any).then_some(Order::Ascending);
        Ok(Self {
            shape,
            order: self.order.or(nearest),
            ..self
        })
    }
}

fn circle(radius: &[u8], unit: &[u8]) -> Result<Reach, Error> {
    let radius = parse_score(radius).ok_or(NOT_RADIUS)?;
    if radius < 0.0 {
        return Err(NEGATIVE_RADIUS);
    }
    Ok((Extent::Circle { radius }, unit_m(unit)?))
}

fn rectangle(width: &[u8], height: &[u8], unit: &[u8]) -> Result<Reach, Error> {
    let width = parse_score(width).ok_or(NOT_WIDTH)?;
    let height = parse_score(height).ok_or(NOT_HEIGHT)?;
    if width < 0.0 || height < 0.0 {
        return Err(NEGATIVE_SIDE);
    }
    Ok((Extent::Box { width, height }, unit_m(unit)?))
}
