//! LATENCY: records events that took at least `latency-monitor-threshold`.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;
use punctual_store::Now;

/// Maximum number of samples per event.
const SAMPLES: usize = 160;

/// Event of a slow command without the flag `fast`.
pub const COMMAND: &str = "command";
/// Event of a slow command with the flag `fast`.
pub const FAST_COMMAND: &str = "fast-command";
/// Event of a slow batch of expiries.
pub const EXPIRE_CYCLE: &str = "expire-cycle";

/// Maximum duration of an event within one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time in Unix seconds.
    pub at_s: u64,
    /// Duration in milliseconds.
    pub ms: u64,
}

/// Samples of one event.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// The latest samples, oldest first.
    pub samples: VecDeque<Sample>,
    /// Maximum duration since the last reset, in milliseconds.
    pub max_ms: u64,
}

/// Samples of all slow events.
#[derive(Debug, Default)]
pub struct LatencyMonitor {
    events: Mutex<BTreeMap<&'static str, Series>>,
}

impl LatencyMonitor {
    /// Records that `event` took `ms` milliseconds. O(log events).
    pub fn add(&self, event: &'static str, now: Now, ms: u64) {
        let mut events = self.events.lock();
        let series = events.entry(event).or_default();
        series.max_ms = series.max_ms.max(ms);
        let at_s = now.micros() / 1_000_000;
        match series.samples.back_mut() {
            Some(last) if last.at_s == at_s => last.ms = last.ms.max(ms),
            _ => {
                if series.samples.len() == SAMPLES {
                    series.samples.pop_front();
                }
                series.samples.push_back(Sample { at_s, ms });
            }
        }
    }

    /// Returns an event by its exact name.
    pub fn get(&self, event: &[u8]) -> Option<(&'static str, Series)> {
        let events = self.events.lock();
        let (name, series) = events.iter().find(|(name, _)| name.as_bytes() == event)?;
        Some((name, series.clone()))
    }

    /// Returns all events, sorted by name.
    pub fn all(&self) -> Vec<(&'static str, Series)> {
        self.events
            .lock()
            .iter()
            .map(|(k, v)| (*k, v.clone()))
            .collect()
    }

    /// Removes the events for which `is` returns true. Returns the number of removed events.
    pub fn reset(&self, is: impl Fn(&str) -> bool) -> usize {
        let mut events = self.events.lock();
        let before = events.len();
        events.retain(|name, _| !is(name));
        before - events.len()
    }
}

/// Statistics of an event's samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Mean duration, in ms.
    pub mean_ms: u64,
    /// Mean absolute deviation, in ms.
    pub deviation_ms: u64,
    /// Minimum duration in ms.
    pub min_ms: u64,
    /// Maximum duration in ms.
    pub max_ms: u64,
    /// Time from the first to the last sample in seconds, at least 1, divided by the number of
    /// samples.
    pub period_s: f64,
}

impl Series {
    /// Returns statistics of the samples.
    pub fn summary(&self) -> Summary {
        let count = self.samples.len().max(1) as u64;
        let all = || self.samples.iter().map(|s| s.ms);
        let mean_ms = all().sum::<u64>() / count;
        let spread: u64 = all().map(|ms| ms.abs_diff(mean_ms)).sum();
        let first_s = self.samples.front().map_or(0, |s| s.at_s);
        let last_s = self.samples.back().map_or(0, |s| s.at_s);
        Summary {
            mean_ms,
            deviation_ms: spread / count,
            min_ms: all().min().unwrap_or(0),
            max_ms: all().max().unwrap_or(0),
            period_s: last_s.saturating_sub(first_s).max(1) as f64 / count as f64,
        }
    }

    /// Returns a text plot of the samples: one column for each sample, with the sample's age
    /// written downwards below the column.
    pub fn plot(&self, now: Now) -> String {
        const ROWS: usize = 4;
        /// Characters for the top of a column, from low to high within a row. The column below its
        /// top is drawn as `|`.
        const TOPS: [u8; 3] = *b"_o#";
        let summary = self.summary();
        let range = (summary.max_ms - summary.min_ms).max(1);
        let steps = ROWS * TOPS.len();
        let height = |sample: &Sample| {
            let above = u128::from(sample.ms - summary.min_ms) * steps as u128;
            ((above / u128::from(range)) as usize).min(steps - 1)
        };
        let now_s = now.micros() / 1_000_000;
        let ages: Vec<String> = self
            .samples
            .iter()
            .map(|sample| age(now_s.saturating_sub(sample.at_s)))
            .collect();
        let mut text = String::new();
        for row in (0..ROWS).rev() {
            for sample in &self.samples {
                let (top, within) = (height(sample) / TOPS.len(), height(sample) % TOPS.len());
                text.push(match row.cmp(&top) {
                    std::cmp::Ordering::Greater => ' ',
                    std::cmp::Ordering::Equal => char::from(TOPS[within]),
                    std::cmp::Ordering::Less => '|',
                });
            }
            text.push('\n');
        }
        text.extend(std::iter::repeat_n(' ', self.samples.len()));
        text.push('\n');
        for line in 0..ages.iter().map(String::len).max().unwrap_or(0) {
            let letter = |age: &String| age.as_bytes().get(line).map_or(' ', |&b| b.into());
            text.extend(ages.iter().map(letter));
            text.push('\n');
        }
        text
    }
}

/// Formats a time in the largest unit that fits: `7s`, `3m`.
fn age(s: u64) -> String {
    match s {
        0..60 => format!("{s}s"),
        60..3_600 => format!("{}m", s / 60),
        3_600..86_400 => format!("{}h", s / 3_600),
        _ => format!("{}d", s / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Now {
        Now::from_ms(s * 1000)
    }

    #[test]
    fn a_second_keeps_its_slowest_and_an_event_its_last_160() {
        let monitor = LatencyMonitor::default();
        for (second, ms) in [(10, 5), (10, 7), (10, 6), (12, 4)] {
            monitor.add(COMMAND, at(second), ms);
        }
        let (name, series) = monitor.get(b"command").unwrap();
        assert_eq!((name, series.max_ms), (COMMAND, 7));
        assert_eq!(
            series.samples,
            [Sample { at_s: 10, ms: 7 }, Sample { at_s: 12, ms: 4 }]
        );
        for second in 100..500 {
            monitor.add(COMMAND, at(second), 1);
        }
        let (_, series) = monitor.get(b"command").unwrap();
        assert_eq!((series.samples.len(), series.samples[0].at_s), (160, 340));
        assert_eq!(series.max_ms, 7, "removed samples count");
        monitor.add(EXPIRE_CYCLE, at(1), 1);
        assert_eq!(monitor.reset(|name| name == "nothing"), 0);
        assert_eq!(monitor.reset(|_| true), 2);
        assert!(monitor.all().is_empty() && monitor.get(b"command").is_none());
    }

    #[test]
    fn summaries_and_plots() {
        let mut series = Series::default();
        for (at_s, ms) in [(100, 10), (110, 20), (3_000, 130)] {
            series.samples.push_back(Sample { at_s, ms });
        }
        let summary = series.summary();
        assert_eq!((summary.mean_ms, summary.deviation_ms), (53, 51));
        assert_eq!((summary.min_ms, summary.max_ms), (10, 130));
        let plot = series.plot(at(3_005));
        assert_eq!(plot, "  #\n  |\n  |\n_o|\n   \n445\n88s\nmm \n");
        let single = Series {
            samples: [Sample { at_s: 100, ms: 10 }].into(),
            max_ms: 10,
        };
        assert_eq!(
            single.plot(at(101)),
            " \n \n \n_\n \n1\ns\n",
            "as Redis draws it"
        );
        // Ages of different lengths: a hundred days and a second.
        series.samples[0].at_s = 0;
        series.samples[2].at_s = 8_640_004;
        let plot = series.plot(at(8_640_005));
        assert!(plot.ends_with("   \n191\n09s\n0d \nd  \n"), "{plot}");
        // Extreme numbers must not panic.
        let wild = Series {
            samples: [
                Sample {
                    at_s: u64::MAX,
                    ms: u64::MAX / 4,
                },
                Sample { at_s: 0, ms: 0 },
            ]
            .into(),
            max_ms: 1,
        };
        assert!(wild.plot(at(5)).starts_with("# \n"));
    }
}
