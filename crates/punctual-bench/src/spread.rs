//! The median of a few rounds, and how far they lie apart.

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

    /// The three written by `show`; the median alone when all are the same.
    pub(crate) fn written(&self, show: impl Fn(f64) -> String) -> String {
        if self.min == self.max {
            return show(self.median);
        }
        format!(
            "{} ({}..{})",
            show(self.median),
            show(self.min),
            show(self.max)
        )
    }
}

/// A spread that may be missing, with so many decimals.
pub(crate) fn text(spread: Option<Spread>, digits: usize) -> String {
    text_with(spread, |value| format!("{value:.digits$}"))
}

/// A spread that may be missing, written by `show`.
pub(crate) fn text_with(spread: Option<Spread>, show: impl Fn(f64) -> String) -> String {
    spread.map_or_else(|| "-".into(), |spread| spread.written(show))
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
        assert_eq!(text(Some(odd), 1), "2.0 (1.0..3.0)");
        assert_eq!(text(Spread::of([7.0]), 0), "7");
    }
}
