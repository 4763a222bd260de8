//! The median of some rounds, and how far apart they lie.

/// Median and middle half of some measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Half of the measurements are at most this.
    pub median: f64,
    /// A quarter is at most this.
    pub low: f64,
    /// Three quarters are at most this.
    pub high: f64,
    /// How many there are.
    pub rounds: usize,
}

impl Spread {
    /// `None` without a measurement. Between two measurements the quantiles are interpolated.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |share: f64| {
            let place = share * last as f64;
            let (below, above) = (
                values[place.floor() as usize],
                values[place.ceil() as usize],
            );
            below + (above - below) * place.fract()
        };
        Some(Spread {
            median: at(0.5),
            low: at(0.25),
            high: at(0.75),
            rounds: values.len(),
        })
    }
}

/// The mean of sections that should all take the same, in nanoseconds: those that took ten times the
/// median were interrupted and are left out.
pub fn undisturbed_mean(sections: &[f64]) -> Option<f64> {
    let most = Spread::of(sections.iter().copied())?.median * 10.0;
    let (mut sum, mut count) = (0.0, 0_usize);
    for &section in sections.iter().filter(|&&section| section <= most) {
        sum += section;
        count += 1;
    }
    Some(sum / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_middle_halves() {
        assert_eq!(Spread::of([]), None);
        let one = Spread::of([7.0]).unwrap();
        assert_eq!(
            (one.low, one.median, one.high, one.rounds),
            (7.0, 7.0, 7.0, 1)
        );
        let five = Spread::of([5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!((five.low, five.median, five.high), (2.0, 3.0, 4.0));
        let even = Spread::of([1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!((even.low, even.median, even.high), (1.75, 2.5, 3.25));
    }

    #[test]
    fn interrupted_sections_do_not_count() {
        assert_eq!(undisturbed_mean(&[]), None);
        assert_eq!(undisturbed_mean(&[2.0, 4.0, 3.0, 500.0]), Some(3.0));
        // Growth belongs to what is measured: a section of a few times the median stays.
        assert_eq!(undisturbed_mean(&[1.0, 1.0, 1.0, 5.0]), Some(2.0));
    }
}
