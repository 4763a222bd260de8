//! Formats numbers, sizes and times for people.

/// Returns a whole number with commas between its thousands.
pub(crate) fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut out = String::with_capacity(digits.len() + 4);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0
            && digit.is_ascii_digit()
            && (digits.len() - at).is_multiple_of(3)
            && !out.ends_with('-')
        {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Returns a number of bytes with a unit from `B` to `T`.
pub(crate) fn bytes(number: f64) -> String {
    let units = ["B", "K", "M", "G", "T"];
    let (mut number, mut unit) = (number, 0);
    while number >= 1024.0 && unit + 1 < units.len() {
        number /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{number:.0}{}", units[unit]),
        _ => format!("{number:.1}{}", units[unit]),
    }
}

/// Returns a length of time with its two greatest units.
pub(crate) fn duration(ms: u64) -> String {
    let (s, m, h, d) = (ms / 1000, ms / 60_000, ms / 3_600_000, ms / 86_400_000);
    match () {
        () if d > 0 => format!("{d}d {:02}h", h % 24),
        () if h > 0 => format!("{h}h {:02}m", m % 60),
        () if m > 0 => format!("{m}m {:02}s", s % 60),
        () => format!("{s}.{:03}s", ms % 1000),
    }
}

/// Returns the time from one instant to another: `in 5.000s`, or `5.000s ago`.
pub(crate) fn until(at_ms: u64, now_ms: u64) -> String {
    match at_ms.checked_sub(now_ms) {
        Some(left) => format!("in {}", duration(left)),
        None => format!("{} ago", duration(now_ms - at_ms)),
    }
}

/// Returns a bar for each count. The greatest count is a full block, and 0 is a dot.
pub(crate) fn bars(counts: &[u64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let max = counts.iter().copied().max().unwrap_or(0).max(1);
    let bar = |count: &u64| match count {
        0 => '·',
        count => BARS[(u128::from(*count) * 8).div_ceil(u128::from(max)) as usize - 1],
    };
    counts.iter().map(bar).collect()
}

/// Returns the lowest upper bound of a bucket such that at least `percent` percent of all values
/// are at or below it. A bucket is its upper bound and its number of values; the bounds ascend.
pub(crate) fn percentile(buckets: &[(u64, u64)], percent: f64) -> Option<u64> {
    let all: u64 = buckets.iter().map(|bucket| bucket.1).sum();
    let wanted = (all as f64 * percent / 100.0).ceil().max(1.0) as u64;
    let mut below = 0;
    buckets.iter().find_map(|(bound, count)| {
        below += count;
        (below >= wanted).then_some(*bound)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            ["0", "999", "1,000", "-1,234,567"],
            [0.0, 999.4, 999.6, -1_234_567.0]
                .map(thousands)
                .each_ref()
                .map(String::as_str)
        );
        assert_eq!(
            ["512B", "1.0K", "1.5G"],
            [512.0, 1024.0, 1.5 * 1_073_741_824.0]
                .map(bytes)
                .each_ref()
                .map(String::as_str)
        );
        let times = [
            (7, "0.007s"),
            (61_000, "1m 01s"),
            (3_600_000, "1h 00m"),
            (90_000_000, "1d 01h"),
        ];
        for (ms, text) in times {
            assert_eq!(duration(ms), text);
        }
        assert_eq!(
            (until(9, 4), until(4, 9)),
            ("in 0.005s".to_owned(), "0.005s ago".to_owned())
        );
    }

    #[test]
    fn every_count_shows() {
        assert_eq!(bars(&[0, 1, 50, 100]), "·▁▄█");
        assert_eq!(bars(&[0, 0]), "··");
        assert_eq!(bars(&[u64::MAX, 1]), "█▁");
    }

    #[test]
    fn percentiles_are_upper_bounds() {
        let buckets = [(1, 90), (4, 9), (64, 1)];
        assert_eq!(
            [50.0, 90.0, 90.5, 99.0, 99.5].map(|p| percentile(&buckets, p)),
            [Some(1), Some(1), Some(4), Some(4), Some(64)]
        );
        assert_eq!(percentile(&[], 50.0), None);
        assert_eq!(percentile(&[(1, 0)], 50.0), None);
    }
}
