//! Ranges of a sorted set by score or by name.

/// One end of a [`ScoreRange`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreBound {
    /// The score; not NaN.
    pub score: f64,
    /// Excludes entries with exactly `score`.
    pub exclusive: bool,
}

/// Scores from `min` to `max`; empty if `min` is above `max`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreRange {
    /// The lower end.
    pub min: ScoreBound,
    /// The upper end.
    pub max: ScoreBound,
}

impl ScoreRange {
    /// Creates a range that includes `min` and `max`.
    pub const fn inclusive(min: f64, max: f64) -> Self {
        Self {
            min: ScoreBound {
                score: min,
                exclusive: false,
            },
            max: ScoreBound {
                score: max,
                exclusive: false,
            },
        }
    }

    /// Returns true if no score can be in the range.
    pub fn is_empty(&self) -> bool {
        self.min.score > self.max.score
            || (self.min.score == self.max.score && (self.min.exclusive || self.max.exclusive))
    }

    /// Returns true if a score satisfies the lower bound.
    pub(super) fn is_after_min(&self, score: f64) -> bool {
        score > self.min.score || (score == self.min.score && !self.min.exclusive)
    }

    /// Returns true if a score satisfies the upper bound.
    pub(super) fn is_before_max(&self, score: f64) -> bool {
        score < self.max.score || (score == self.max.score && !self.max.exclusive)
    }
}

/// One end of a [`LexRange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LexBound<'a> {
    /// `-`: before every name.
    Lowest,
    /// `+`: after every name.
    Highest,
    /// `[name`: the range includes this name.
    Including(&'a [u8]),
    /// `(name`: the range excludes this name.
    Excluding(&'a [u8]),
}

/// Names from `min` to `max`, byte by byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LexRange<'a> {
    /// The lower end.
    pub min: LexBound<'a>,
    /// The upper end.
    pub max: LexBound<'a>,
}

impl LexRange<'_> {
    /// Returns true if no name can be in the range.
    pub fn is_empty(&self) -> bool {
        use LexBound::{Excluding, Highest, Including, Lowest};
        match (self.min, self.max) {
            (Lowest, Lowest) | (Highest, _) => true,
            (Lowest, _) | (_, Highest) => false,
            (_, Lowest) => true,
            (Including(min), Including(max)) => min > max,
            (Including(min) | Excluding(min), Including(max) | Excluding(max)) => min >= max,
        }
    }

    /// Returns true if a name satisfies the lower bound.
    pub(super) fn is_after_min(&self, name: &[u8]) -> bool {
        match self.min {
            LexBound::Lowest => true,
            LexBound::Highest => false,
            LexBound::Including(min) => name >= min,
            LexBound::Excluding(min) => name > min,
        }
    }

    /// Returns true if a name satisfies the upper bound.
    pub(super) fn is_before_max(&self, name: &[u8]) -> bool {
        match self.max {
            LexBound::Lowest => false,
            LexBound::Highest => true,
            LexBound::Including(max) => name <= max,
            LexBound::Excluding(max) => name < max,
        }
    }
}
