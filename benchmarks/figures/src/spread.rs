//! Median and spread of measurements over some rounds.

/// Quartiles of some measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Minimum.
    pub min: f64,
    /// Lower quartile.
    pub low: f64,
    /// Median.
    pub median: f64,
    /// Upper quartile.
    pub high: f64,
    /// Maximum.
    pub max: f64,
}

impl Spread {
    /// Computes the quartiles, interpolated between measurements. Returns `None` without
    /// measurements.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |share: f64| {
            let place = share * last as f64;
            let (below, above) = (values[place as usize], values[place.ceil() as usize]);
            match place.fract() {
                // The interpolation would multiply an infinite measurement by 0, which is NaN.
                0.0 => below,
                part => below * (1.0 - part) + above * part,
            }
        };
        Some(Spread {
            min: at(0.0),
            low: at(0.25),
            median: at(0.5),
            high: at(0.75),
            max: at(1.0),
        })
    }

    /// Returns a text with the median, the minimum and the maximum, formatted by `show`; if they
    /// are equal, only the median.
    pub fn written(&self, show: impl Fn(f64) -> String) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles() {
        assert_eq!(Spread::of([]), None);
        let five = Spread::of([5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!((five.low, five.median, five.high), (2.0, 3.0, 4.0));
        let even = Spread::of([1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!((even.low, even.median, even.high), (1.75, 2.5, 3.25));
        assert_eq!((even.min, even.max), (1.0, 4.0));
        let endless = Spread::of([f64::INFINITY; 2]).unwrap();
        assert_eq!(
            (endless.median, endless.max),
            (f64::INFINITY, f64::INFINITY)
        );
        assert_eq!(
            five.written(|value| format!("{value:.1}")),
            "3.0 (1.0..5.0)"
        );
        let one = Spread::of([7.0]).unwrap();
        assert_eq!(one.written(|value| format!("{value:.0}")), "7");
    }
}
