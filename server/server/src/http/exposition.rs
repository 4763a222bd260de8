//! The text formats of metrics: OpenMetrics 1.0 and Prometheus's 0.0.4.
//!
//! Both formats have the same samples. In OpenMetrics, the samples of every counter end in
//! `_total`, but the name of the family does not. An OpenMetrics text ends with the line `# EOF`,
//! so that a scraper notices a truncated text.

use std::fmt::Write as _;

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    OpenMetrics,
    Prometheus,
}

impl Format {
    /// Returns the format with the greater weight in a scraper's header Accept: OpenMetrics if the
    /// weights are equal, Prometheus's format if the header does not name OpenMetrics.
    pub(super) fn accepted(accept: &str) -> Self {
        let weight = |wanted: &str| {
            accept
                .split(',')
                .filter_map(|range| {
                    let mut parts = range.split(';').map(str::trim);
                    let media = parts.next()?.eq_ignore_ascii_case(wanted);
                    let q = parts.find_map(|p| p.strip_prefix("q=")).unwrap_or("1");
                    media.then(|| q.parse().unwrap_or(0.0))
                })
                .fold(0.0, f32::max)
        };
        let open = weight("application/openmetrics-text");
        match open > 0.0 && open >= weight("text/plain") {
            true => Self::OpenMetrics,
            false => Self::Prometheus,
        }
    }

    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Type of a family of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// The text of metrics while it is built. The caller adds a family, then all samples of that
/// family.
pub(super) struct Exposition {
    text: String,
    format: Format,
}

impl Exposition {
    pub(super) fn new(format: Format) -> Self {
        Self {
            text: String::with_capacity(32 << 10),
            format,
        }
    }

    /// Begins a family. `name` is the name of its samples; a histogram's samples have suffixes
    /// after this name.
    pub(super) fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let open = self.format == Format::OpenMetrics;
        let (family, kind) = match (kind, name.strip_suffix("_total")) {
            (Kind::Counter, Some(base)) if open => (base, "counter"),
            // In OpenMetrics, counters must have the suffix, and other samples must not. A family
            // that breaks this rule has the type `unknown`.
            (Kind::Counter, None) | (Kind::Gauge, Some(_)) if open => (name, "unknown"),
            (Kind::Counter, _) => (name, "counter"),
            (Kind::Gauge, _) => (name, "gauge"),
            (Kind::Histogram, _) => (name, "histogram"),
        };
        // Writing to a String cannot fail. No help text has characters that need an escape.
        let _ = write!(
            self.text,
            "# HELP {family} {help}\n# TYPE {family} {kind}\n"
        );
    }

    /// Adds a sample.
    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(name);
        for (i, (label, text)) in labels.iter().enumerate() {
            self.text.push(if i == 0 { '{' } else { ',' });
            self.text.push_str(label);
            self.text.push_str("=\"");
            for c in text.chars() {
                match c {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    c => self.text.push(c),
                }
            }
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = match value {
            _ if value.is_nan() => writeln!(self.text, " NaN"),
            f64::INFINITY => writeln!(self.text, " +Inf"),
            f64::NEG_INFINITY => writeln!(self.text, " -Inf"),
            _ => writeln!(self.text, " {value}"),
        };
    }

    /// Adds a family with one sample without labels.
    pub(super) fn single(&mut self, name: &str, kind: Kind, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// Adds the samples of a histogram. `buckets` has pairs of an upper bound and the number of
    /// values up to that bound. `count` and `sum` are the number and the sum of all values.
    pub(super) fn histogram(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        buckets: impl IntoIterator<Item = (f64, u64)>,
        count: u64,
        sum: f64,
    ) {
        let bucket = format!("{name}_bucket");
        for (bound, up_to) in buckets {
            let bound = match self.format {
                // Bounds in OpenMetrics have a decimal point.
                Format::OpenMetrics => format!("{bound:?}"),
                Format::Prometheus => format!("{bound}"),
            };
            let labels = [labels, &[("le", &bound)]].concat();
            self.sample(&bucket, &labels, up_to as f64);
        }
        let labels_of_all = [labels, &[("le", "+Inf")]].concat();
        self.sample(&bucket, &labels_of_all, count as f64);
        self.sample(&format!("{name}_count"), labels, count as f64);
        self.sample(&format!("{name}_sum"), labels, sum);
    }

    /// Returns the text.
    pub(super) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scraper_chooses_the_format() {
        for (accept, format) in [
            ("", Format::Prometheus),
            ("*/*", Format::Prometheus),
            ("text/plain;version=0.0.4", Format::Prometheus),
            (
                "application/openmetrics-text;version=1.0.0",
                Format::OpenMetrics,
            ),
            (
                "application/openmetrics-text; version=1.0.0; q=0.6, text/plain;q=0.3,*/*;q=0.2",
                Format::OpenMetrics,
            ),
            (
                "text/plain;version=0.0.4;q=0.6,application/openmetrics-text;q=0.5",
                Format::Prometheus,
            ),
            ("application/openmetrics-text;q=0, */*", Format::Prometheus),
            ("application/openmetrics-text;q=lots", Format::Prometheus),
        ] {
            assert_eq!(Format::accepted(accept), format, "{accept}");
        }
    }

    #[test]
    fn labels_are_escaped_and_odd_numbers_spelled() {
        let mut page = Exposition::new(Format::Prometheus);
        page.sample("x", &[("a", "b\\\"\n"), ("c", "")], f64::INFINITY);
        page.sample("y", &[], f64::NAN);
        page.sample("z", &[], 1.5);
        assert_eq!(
            page.finish(),
            "x{a=\"b\\\\\\\"\\n\",c=\"\"} +Inf\ny NaN\nz 1.5\n"
        );
    }

    #[test]
    fn names_of_families_follow_the_format() {
        let head = |format, name, kind| {
            let mut page = Exposition::new(format);
            page.family(name, kind, "Help.");
            page.finish()
        };
        assert_eq!(
            head(Format::OpenMetrics, "a_total", Kind::Counter),
            "# HELP a Help.\n# TYPE a counter\n# EOF\n"
        );
        assert_eq!(
            head(Format::Prometheus, "a_total", Kind::Counter),
            "# HELP a_total Help.\n# TYPE a_total counter\n"
        );
        assert_eq!(
            head(Format::OpenMetrics, "a", Kind::Counter),
            "# HELP a Help.\n# TYPE a unknown\n# EOF\n"
        );
    }
}
