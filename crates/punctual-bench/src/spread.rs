//! The median of a few rounds, and how far they lie apart.

use std::fmt;

/// Median, least and greatest of some measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// `None` without a measurement. Of an even number, the median is the mean of the middle two.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => f64::midpoint(values[middle - 1], values[middle]),
            _ => values[middle],
        };
        Some(Self { median, min, max })
    }
}

/// `1.23 (1.20..1.31)`, with the formatter's precision; the median alone when all are the same.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        if self.min == self.max {
            return write!(f, "{:.digits$}", self.median);
        }
        write!(
            f,
            "{:.digits$} ({:.digits$}..{:.digits$})",
            self.median, self.min, self.max
        )
    }
}

/// A spread that may be missing.
pub(crate) fn text(spread: Option<Spread>, digits: usize) -> String {
    spread.map_or_else(|| "-".into(), |spread| format!("{spread:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(Spread::of([]), None);
        let odd = Spread::of([3.0, 1.0, 2.0]).unwrap();
        assert_eq!((odd.median, odd.min, odd.max), (2.0, 1.0, 3.0));
        assert_eq!(Spread::of([4.0, 1.0]).unwrap().median, 2.5);
        assert_eq!(format!("{odd:.1}"), "2.0 (1.0..3.0)");
        assert_eq!(text(Spread::of([7.0]), 0), "7");
    }
}
