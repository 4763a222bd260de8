//! Bars and verdicts. A *bar* is a limit for a figure that is set before the measurement; a verdict
//! says whether a measurement meets its bar. The *contenders* are the servers, or the timer queues,
//! that a benchmark compares.

use std::fmt;

use crate::spread::Spread;

/// A limit for a figure. A figure is measured in several rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bar {
    /// The median of the rounds is at most this.
    AtMost(f64),
    /// The median of the rounds is at least this.
    AtLeast(f64),
    /// The figure of no round is greater than this.
    Never(f64),
    /// The median of the rounds' ratios to another contender's figure is at most this.
    RatioAtMost(f64),
    /// The median of the rounds' ratios to another contender's figure is at least this.
    RatioAtLeast(f64),
}

impl Bar {
    /// Given the ratios to several contenders, returns the ratio to the best contender: the least
    /// ratio for a minimum, the greatest ratio for a maximum.
    pub fn hardest(self, ratios: &[Spread]) -> Option<Spread> {
        let by_median = |a: &&Spread, b: &&Spread| a.median.total_cmp(&b.median);
        match self {
            Self::RatioAtLeast(_) => ratios.iter().min_by(by_median).copied(),
            _ => ratios.iter().max_by(by_median).copied(),
        }
    }

    /// Returns the verdict on a figure and its ratio. A missing figure misses its bar. If
    /// `has_base` is false, there is no other contender, and a bar of ratios has no verdict
    /// (`None`). On a `busy` machine, the verdict is [`Verdict::Busy`].
    pub fn judge(
        self,
        value: Option<Spread>,
        ratio: Option<Spread>,
        has_base: bool,
        busy: bool,
    ) -> Option<Verdict> {
        let (figure, of_ratios) = match self {
            Self::AtMost(_) | Self::AtLeast(_) | Self::Never(_) => (value, false),
            Self::RatioAtMost(_) | Self::RatioAtLeast(_) => (ratio, true),
        };
        if of_ratios && !has_base {
            return None;
        }
        let met = figure.is_some_and(|figure| match self {
            Self::AtMost(bound) | Self::RatioAtMost(bound) => figure.median <= bound,
            Self::AtLeast(bound) | Self::RatioAtLeast(bound) => figure.median >= bound,
            Self::Never(bound) => figure.max <= bound,
        });
        Some(match (busy, met) {
            (true, _) => Verdict::Busy,
            (false, true) => Verdict::Pass,
            (false, false) => Verdict::Miss,
        })
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(bound) => write!(f, "<= {bound}"),
            Self::AtLeast(bound) => write!(f, ">= {bound}"),
            Self::Never(bound) => write!(f, "never > {bound}"),
            Self::RatioAtMost(bound) => write!(f, "<= {bound} x"),
            Self::RatioAtLeast(bound) => write!(f, ">= {bound} x"),
        }
    }
}

/// The result of the comparison of a figure with its bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The bar is met.
    Pass,
    /// The bar is missed.
    Miss,
    /// The bar is neither met nor missed: the machine had other work.
    Busy,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pass => "PASS",
            Self::Miss => "MISS",
            Self::Busy => "BUSY",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts() {
        use Verdict::{Busy, Miss, Pass};
        let (value, ratio) = (Spread::of([1.0, 2.0, 9.0]), Spread::of([0.5]));
        let verdict = |bar: Bar| bar.judge(value, ratio, true, false);
        assert_eq!(verdict(Bar::AtMost(2.0)), Some(Pass));
        assert_eq!(verdict(Bar::AtLeast(2.1)), Some(Miss));
        assert_eq!(verdict(Bar::Never(2.0)), Some(Miss));
        assert_eq!(verdict(Bar::RatioAtMost(0.4)), Some(Miss));
        assert_eq!(verdict(Bar::RatioAtLeast(0.5)), Some(Pass));
        let bar = Bar::RatioAtMost(0.4);
        assert_eq!(bar.judge(value, None, false, false), None);
        assert_eq!(bar.judge(value, None, true, false), Some(Miss));
        assert_eq!(bar.judge(value, ratio, true, true), Some(Busy));
    }
}
