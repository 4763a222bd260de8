//! Tables with measurements as rows and servers as columns, and with bars and verdicts.

use std::fmt;
use std::time::Duration;

use crate::launch::Server;
use crate::report::Report;
use crate::spread::{self, Spread};
use crate::table::{Table, millis, thousands};

/// Returns, for each server, the spread of a measurement over its rounds.
pub(crate) fn spreads<R>(
    rounds: &[Vec<R>],
    value: impl Fn(&R) -> Option<f64>,
) -> Vec<Option<Spread>> {
    let spread = |rounds: &Vec<R>| Spread::of(rounds.iter().filter_map(&value));
    rounds.iter().map(spread).collect()
}

/// Returns, for each column, the spread of the ratios of its rounds to the same rounds of the column `base`.
pub(crate) fn ratios<R>(
    rounds: &[Vec<R>],
    base: impl Fn(usize) -> Option<usize>,
    ratio: impl Fn(&R, &R) -> Option<f64>,
) -> Vec<Option<Spread>> {
    let of = |at: usize| {
        let pairs = rounds[at].iter().zip(&rounds[base(at)?]);
        Spread::of(pairs.filter_map(|(one, base)| ratio(one, base)))
    };
    (0..rounds.len()).map(of).collect()
}

/// A bar for a ratio.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Bound {
    pub(crate) fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(bound) => value <= bound,
            Self::AtLeast(bound) => value >= bound,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(bound) => write!(f, "<= {bound}"),
            Self::AtLeast(bound) => write!(f, ">= {bound}"),
        }
    }
}

/// A table of measurements of several servers.
#[derive(Debug)]
pub(crate) struct Sheet {
    table: Table,
    ours: Vec<bool>,
}

impl Sheet {
    /// Creates a table. `title` is the head of the first column.
    pub(crate) fn new(title: &str, servers: &[Server]) -> Self {
        let columns = servers.iter().map(|s| (s.label.clone(), s.ours));
        Self::with_columns(title, &columns.collect::<Vec<_>>())
    }

    /// Creates a table with these columns: a label, and whether the bars apply to it.
    pub(crate) fn with_columns(title: &str, columns: &[(String, bool)]) -> Self {
        let labels = || columns.iter().map(|(label, _)| label.clone());
        let head = [title.to_owned()]
            .into_iter()
            .chain(labels())
            .chain(["bar".into()])
            .chain(labels());
        Self {
            table: Table::new(1, head),
            ours: columns.iter().map(|(_, ours)| *ours).collect(),
        }
    }

    /// Appends a row without a bar: one text per server.
    pub(crate) fn row(&mut self, name: &str, values: impl IntoIterator<Item = String>) {
        self.table.row([name.to_owned()].into_iter().chain(values));
    }

    /// Appends spreads without a bar, formatted by `show`.
    pub(crate) fn shown(
        &mut self,
        name: &str,
        figures: &[Option<Spread>],
        show: impl Fn(f64) -> String,
    ) {
        let text = |figure: &Option<Spread>| spread::text_with(*figure, &show);
        self.row(name, figures.iter().map(text));
    }

    /// Appends milliseconds whose median must be within the bound.
    pub(crate) fn within(
        &mut self,
        report: &mut Report,
        name: &str,
        figures: &[Option<Spread>],
        bound: Duration,
    ) {
        let bound = bound.as_secs_f64() * 1e3;
        let judged = figures.iter().map(|figure| {
            let met = figure.is_some_and(|figure| figure.median <= bound);
            (spread::text_with(*figure, millis), met)
        });
        self.judged(report, name, &format!("<= {bound}"), judged);
    }

    /// Appends ratios of durations or CPU times whose median must be within `bound`. A column without a ratio has no verdict.
    pub(crate) fn ratio(
        &mut self,
        report: &mut Report,
        name: &str,
        ratios: &[Option<Spread>],
        bound: Bound,
    ) {
        self.ratio_with(name, ratios, 2, bound, |ours, met| {
            report.timed_verdict(ours, met)
        });
    }

    /// As [`Sheet::ratio`], for counts or sizes, which a busy machine does not change.
    pub(crate) fn counted_ratio(
        &mut self,
        report: &mut Report,
        name: &str,
        ratios: &[Option<Spread>],
        bound: Bound,
    ) {
        self.ratio_with(name, ratios, 3, bound, |ours, met| {
            report.verdict(ours, met)
        });
    }

    fn ratio_with(
        &mut self,
        name: &str,
        ratios: &[Option<Spread>],
        digits: usize,
        bound: Bound,
        mut verdict: impl FnMut(bool, bool) -> &'static str,
    ) {
        let mut row = vec![name.to_owned()];
        row.extend(ratios.iter().map(|ratio| spread::text(*ratio, digits)));
        row.push(bound.to_string());
        for (ratio, &ours) in ratios.iter().zip(&self.ours) {
            row.push(ratio.map_or_else(String::new, |ratio| {
                verdict(ours, bound.holds(ratio.median)).into()
            }));
        }
        self.table.row(row);
    }

    /// Appends a count that must be 0 in every round.
    pub(crate) fn none(&mut self, report: &mut Report, name: &str, figures: &[Option<Spread>]) {
        let judged = figures.iter().map(|figure| {
            let met = figure.is_some_and(|figure| figure.max == 0.0);
            (spread::text_with(*figure, thousands), met)
        });
        self.counted(report, name, "0", judged);
    }

    /// Appends durations or CPU times with a bar: for each server a text, and whether it met the bar.
    pub(crate) fn judged(
        &mut self,
        report: &mut Report,
        name: &str,
        bar: &str,
        values: impl IntoIterator<Item = (String, bool)>,
    ) {
        self.with_verdicts(name, bar, values, |ours, met| {
            report.timed_verdict(ours, met)
        });
    }

    /// Appends counts or sizes with a bar, which a busy machine does not change.
    pub(crate) fn counted(
        &mut self,
        report: &mut Report,
        name: &str,
        bar: &str,
        values: impl IntoIterator<Item = (String, bool)>,
    ) {
        self.with_verdicts(name, bar, values, |ours, met| report.verdict(ours, met));
    }

    fn with_verdicts(
        &mut self,
        name: &str,
        bar: &str,
        values: impl IntoIterator<Item = (String, bool)>,
        mut verdict: impl FnMut(bool, bool) -> &'static str,
    ) {
        let (mut row, mut verdicts) = (vec![name.to_owned()], Vec::new());
        for ((value, met), &ours) in values.into_iter().zip(&self.ours) {
            row.push(value);
            verdicts.push(verdict(ours, met).to_owned());
        }
        row.push(bar.to_owned());
        row.append(&mut verdicts);
        self.table.row(row);
    }
}

/// Formats a number with two decimals.
pub(crate) fn hundredths(value: f64) -> String {
    format!("{value:.2}")
}

impl fmt::Display for Sheet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.table.fmt(f)
    }
}
