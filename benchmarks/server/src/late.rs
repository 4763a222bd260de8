//! Lateness: the time of reception minus the deadline.

use hdrhistogram::Histogram;

use crate::plot::Point;
use crate::sheet::Figures;

/// The percentiles of all tables, by name.
const PERCENTILES: [(&str, f64); 5] = [
    ("p50", 50.0),
    ("p90", 90.0),
    ("p99", 99.0),
    ("p99.9", 99.9),
    ("max", 100.0),
];

/// Creates a histogram with three significant digits. The caller chooses the unit. The range is
/// from 1 to the number of nanoseconds in a day.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 86_400_000_000_000, 3).expect("the bounds are in order")
}

/// Lateness of the events of one measurement.
#[derive(Debug)]
pub(crate) struct Late {
    micros: Histogram<u64>,
    /// Number of expected events.
    expected: u64,
    early: u64,
    /// Number of events that arrived a second time.
    pub(crate) again: u64,
}

impl Late {
    pub(crate) fn new(expected: u64) -> Self {
        Self {
            micros: histogram(),
            expected,
            early: 0,
            again: 0,
        }
    }

    /// Records the first arrival of an event.
    pub(crate) fn record(&mut self, now_us: u64, due_us: u64) {
        self.early += u64::from(now_us < due_us);
        self.micros
            .saturating_record(now_us.saturating_sub(due_us).max(1));
    }

    /// Returns the number of recorded events.
    pub(crate) fn count(&self) -> u64 {
        self.micros.len()
    }

    /// Returns a percentile of the lateness in milliseconds. Expected events that did not arrive
    /// count as infinitely late.
    pub(crate) fn ms(&self, percentile: f64) -> f64 {
        let rank = (percentile / 100.0 * self.expected as f64).ceil();
        if self.micros.is_empty() || rank > self.count() as f64 {
            return f64::INFINITY;
        }
        // The quantile is half a rank lower, because the histogram rounds the rank up.
        self.micros
            .value_at_quantile((rank - 0.5) / self.count() as f64) as f64
            / 1e3
    }

    /// Returns the number of events that did not arrive, arrived early, or arrived again.
    pub(crate) fn wrong(&self) -> f64 {
        (self.expected.saturating_sub(self.count()) + self.early + self.again) as f64
    }

    /// Appends the percentiles and counts as figures.
    pub(crate) fn put(&self, figures: &mut Figures) {
        for (name, percentile) in PERCENTILES {
            figures.put(format!("late {name}, ms"), self.ms(percentile));
        }
        figures.put("received", self.count() as f64);
        figures.put("missing", self.expected.saturating_sub(self.count()) as f64);
        figures.put("early", self.early as f64);
        figures.put("again", self.again as f64);
    }

    /// Returns points: a lateness in ms, and the percentage of the expected events that arrived
    /// within it.
    pub(crate) fn distribution(&self) -> Vec<Point> {
        let mut arrived = 0;
        let steps = self.micros.iter_recorded();
        steps
            .map(|step| {
                arrived += step.count_since_last_iteration();
                let late = step.value_iterated_to() as f64 / 1e3;
                (late, 100.0 * arrived as f64 / self.expected as f64)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_events_are_infinitely_late() {
        let mut late = Late::new(1000);
        (1..=990).for_each(|ms| late.record(ms * 1000, 0));
        assert!((late.ms(50.0) - 500.0).abs() < 1.0, "{}", late.ms(50.0));
        assert!((late.ms(99.0) - 990.0).abs() < 1.0);
        assert_eq!((late.ms(100.0), late.wrong()), (f64::INFINITY, 10.0));
        late.record(4, 5);
        assert_eq!(late.wrong(), 10.0);
    }
}
