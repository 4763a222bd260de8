//! The common part of all benchmarks: rounds, medians and ratios, bars (limits for figures) and
//! verdicts. In a *round*, each column is measured once. A *case* is one workload, such as
//! `SET P=16`.
//!
//! A benchmark has a list of columns (usually servers), a function that measures one column once,
//! and bars. The function returns figures by name. The unit at the end of a name (`GET p99, ms`)
//! determines how the figure is shown, and whether a busy machine affects it. Every figure of every
//! round is a line of the CSV file.

use std::fmt;

pub(crate) use punctual_figures::bar::Bar;

use crate::error::{Error, Result};
use crate::launch::Program;
use crate::plot::{self, Bars};
use crate::report::{self, Report};
use crate::spread::Spread;
use crate::table::{Table, millis, thousands};

/// Figures of one column in one round, in the order of the table.
#[derive(Debug, Default)]
pub(crate) struct Figures(Vec<(String, f64)>);

impl Figures {
    /// Appends a figure.
    pub(crate) fn put(&mut self, name: impl Into<String>, value: f64) {
        self.0.push((name.into(), value));
    }

    /// Returns a figure.
    pub(crate) fn get(&self, name: &str) -> Option<f64> {
        let found = self.0.iter().find(|(own, _)| own == name)?;
        Some(found.1)
    }

    /// Returns the names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }
}

impl<const N: usize> From<[(&str, f64); N]> for Figures {
    fn from(figures: [(&str, f64); N]) -> Self {
        Self(figures.map(|(name, value)| (name.to_owned(), value)).into())
    }
}

/// Names of figures with their bars.
pub(crate) type BarList<'a> = &'a [(&'a str, Bar)];

/// A column: a server, a pair of servers, or a way to do something.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    /// Name in tables.
    pub(crate) label: String,
    /// Name in the CSV file and in plots, with the version.
    pub(crate) product: String,
    /// True if the bars apply to the column.
    pub(crate) ours: bool,
    /// The columns by whose figures this column's figures are divided. A bar of ratios must hold
    /// for each of these columns, and so for the best.
    pub(crate) bases: Vec<usize>,
}

/// Returns a column for each program. The ratios are Punctual's to each other program.
pub(crate) fn columns(programs: &[Program]) -> Vec<Column> {
    let others: Vec<usize> = (0..programs.len())
        .filter(|at| !programs[*at].ours)
        .collect();
    let column = |program: &Program| Column {
        label: program.label.clone(),
        product: program.product.clone(),
        ours: program.ours,
        bases: if program.ours {
            others.clone()
        } else {
            Vec::new()
        },
    };
    programs.iter().map(column).collect()
}

/// The values of one figure in all columns.
#[derive(Debug)]
struct Line {
    case: String,
    name: String,
    values: Vec<Option<Spread>>,
    /// Ratios in the order of [`Sheet::ratios`].
    ratios: Vec<Option<Spread>>,
    bar: String,
    verdicts: String,
}

impl Line {
    /// Returns the line as a row of Markdown: the figure, the median of each column with the ratio
    /// to it, the bar and the verdicts.
    fn markdown(&self, ratios: &[(usize, usize)]) -> String {
        let cell = |(at, value): (usize, &Option<Spread>)| {
            let Some(value) = value else {
                return "-".to_owned();
            };
            let to_it = ratios.iter().zip(&self.ratios);
            let ratio = to_it.filter(|((_, base), _)| *base == at);
            let ratio = ratio.filter_map(|(_, ratio)| *ratio).next();
            let ratio = ratio.map(|ratio| format!(" ({:.2}x)", ratio.median));
            shown(&self.name, value.median) + &ratio.unwrap_or_default()
        };
        let cells: Vec<String> = self.values.iter().enumerate().map(cell).collect();
        format!(
            "| {}: {} | {} | {} | {} |\n",
            self.case,
            self.name,
            cells.join(" | "),
            self.bar,
            self.verdicts
        )
    }
}

/// A table that grows by cases, each with several figures.
#[derive(Debug)]
pub(crate) struct Sheet {
    benchmark: &'static str,
    columns: Vec<Column>,
    lines: Vec<Line>,
}

impl Sheet {
    /// Creates an empty table. `benchmark` is the name in the CSV file.
    pub(crate) fn new(benchmark: &'static str, columns: Vec<Column>) -> Self {
        Self {
            benchmark,
            columns,
            lines: Vec::new(),
        }
    }

    /// Measures a case in all columns: calls `one` with the index of a column and the number of the
    /// round.
    ///
    /// Every second round goes through the columns in reverse order, so that other load on the
    /// machine affects all columns alike. A server that does not know the command of a case has no
    /// figures.
    pub(crate) fn measure(
        &mut self,
        report: &mut Report,
        case: &str,
        bars: BarList<'_>,
        rounds: u32,
        mut one: impl FnMut(usize, u32) -> Result<Figures>,
    ) -> Result<()> {
        let mut runs: Vec<Vec<Figures>> = self.columns.iter().map(|_| Vec::new()).collect();
        let progress = report::progress(u64::from(rounds) * runs.len() as u64, case);
        report.begin_case();
        for round in 1..=rounds {
            let mut order: Vec<usize> = (0..runs.len()).collect();
            if round.is_multiple_of(2) {
                order.reverse();
            }
            for at in order {
                progress.set_message(format!("{case}: {}", self.columns[at].label));
                runs[at].push(match one(at, round) {
                    Err(error) if error.is_unknown_command() => Figures::default(),
                    figures => figures?,
                });
                progress.inc(1);
            }
        }
        progress.finish_and_clear();
        self.add(report, case, bars, &runs)
    }

    /// Adds the figures of a case, by column and round. They were measured since the last
    /// [`Report::begin_case`].
    pub(crate) fn add(
        &mut self,
        report: &mut Report,
        case: &str,
        bars: BarList<'_>,
        runs: &[Vec<Figures>],
    ) -> Result<()> {
        let late = report.end_case();
        for (column, runs) in self.columns.iter().zip(runs) {
            for (round, figures) in (1..).zip(runs) {
                for (name, value) in &figures.0 {
                    let (benchmark, server) = (self.benchmark, &column.product);
                    report.record(&[&benchmark, server, &case, &round, name, value])?;
                }
            }
        }
        let mut names: Vec<&str> = Vec::new();
        let measured = runs.iter().flatten().flat_map(Figures::names);
        // A bar whose figure was not measured gets a row too.
        for name in measured.chain(bars.iter().map(|(name, _)| *name)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        for name in names {
            let spread =
                |runs: &Vec<Figures>| Spread::of(runs.iter().filter_map(|run| run.get(name)));
            let values: Vec<_> = runs.iter().map(spread).collect();
            let ratio = |(at, base): (usize, usize)| {
                let pairs = runs[at].iter().zip(&runs[base]);
                let ratio =
                    |(own, base): (&Figures, &Figures)| Some(own.get(name)? / base.get(name)?);
                Spread::of(pairs.filter_map(ratio).filter(|ratio| !ratio.is_nan()))
            };
            let ratios: Vec<_> = self.ratios().map(ratio).collect();
            let bar = bars
                .iter()
                .find(|(own, _)| *own == name)
                .map(|(_, bar)| *bar);
            let mut verdicts = Vec::new();
            for (at, column) in self
                .columns
                .iter()
                .enumerate()
                .filter(|(_, column)| column.ours)
            {
                let has_base = column.bases.iter().any(|base| values[*base].is_some());
                let busy = late && is_timed(name);
                let own = self
                    .ratios()
                    .zip(&ratios)
                    .filter(|((own, _), _)| *own == at);
                let own: Vec<Spread> = own.filter_map(|(_, ratio)| *ratio).collect();
                let ratio = bar.and_then(|bar| bar.hardest(&own));
                let verdict = bar.and_then(|bar| bar.judge(values[at], ratio, has_base, busy));
                verdicts.extend(verdict.map(|verdict| report.note(verdict).to_string()));
            }
            self.lines.push(Line {
                case: case.to_owned(),
                name: name.to_owned(),
                values,
                ratios,
                bar: bar.map_or_else(String::new, |bar| bar.to_string()),
                verdicts: verdicts.join(" "),
            });
        }
        Ok(())
    }

    /// Returns the pairs of columns whose ratio the table has: a column, and one of its bases.
    fn ratios(&self) -> impl Iterator<Item = (usize, usize)> {
        let columns = self.columns.iter().enumerate();
        columns.flat_map(|(at, column)| column.bases.iter().map(move |base| (at, *base)))
    }

    /// Prints the table, and appends the lines that have a bar to the report's page.
    pub(crate) fn show(&self, report: &mut Report) -> Result<()> {
        say!("{self}");
        let lines = self.lines.iter().filter(|line| !line.bar.is_empty());
        let ratios: Vec<(usize, usize)> = self.ratios().collect();
        let rows: String = lines.map(|line| line.markdown(&ratios)).collect();
        if rows.is_empty() {
            return Ok(());
        }
        let columns = self.columns.iter().map(|column| column.product.as_str());
        let columns: Vec<&str> = columns.collect();
        let head = format!("| | {} | bar | |\n", columns.join(" | "));
        let rule = "|---".repeat(columns.len() + 3);
        report.append(&format!("{head}{rule}|\n{rows}"))
    }

    /// Plots the medians of the figure `name` in all cases as bars.
    pub(crate) fn plot(
        &self,
        report: &mut Report,
        file: &str,
        title: &str,
        name: &str,
    ) -> Result<()> {
        let lines = self.lines.iter().filter(|line| line.name == name);
        let median = |spread: &Option<Spread>| spread.map(|spread| spread.median);
        let bars = Bars {
            y_axis: name.to_owned(),
            series: self
                .columns
                .iter()
                .map(|column| column.product.clone())
                .collect(),
            groups: lines
                .map(|line| (line.case.clone(), line.values.iter().map(median).collect()))
                .collect(),
        };
        report.plot(file, |path, foot| plot::bars(path, title, foot, &bars))
    }
}

/// Returns the unit at the end of a figure's name.
fn unit(name: &str) -> &str {
    name.rsplit_once(", ").map_or("", |(_, unit)| unit)
}

/// Returns true if a busy machine affects the figure: it is a duration, a CPU time or a rate.
fn is_timed(name: &str) -> bool {
    ["ms", "µs", "s", "1/s", "x"].contains(&unit(name)) || name.contains("CPU")
}

/// Formats a figure by its unit.
fn shown(name: &str, value: f64) -> String {
    match unit(name) {
        "ms" => millis(value),
        "µs" => format!("{value:.3}"),
        "s" | "%" | "x" | "cores" | "of the mean" => format!("{value:.2}"),
        "bytes" | "MiB" => format!("{value:.1}"),
        _ => thousands(value),
    }
}

impl fmt::Display for Sheet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lines.is_empty() {
            return Ok(());
        }
        let mut head = vec![String::new()];
        head.extend(self.columns.iter().map(|column| column.label.clone()));
        let ratio = |(at, base): (usize, usize)| {
            format!("{} / {}", self.columns[at].label, self.columns[base].label)
        };
        head.extend(self.ratios().map(ratio));
        head.extend(["bar".into(), String::new()]);
        let mut table = Table::new(1, head);
        let mut case = "";
        for line in &self.lines {
            if case != line.case {
                case = &line.case;
                table.row([case]);
            }
            let text = |spread: Option<Spread>, show: &dyn Fn(f64) -> String| {
                spread.map_or_else(|| "-".to_owned(), |spread| spread.written(show))
            };
            let mut row = vec![format!("  {}", line.name)];
            row.extend(
                line.values
                    .iter()
                    .map(|value| text(*value, &|value| shown(&line.name, value))),
            );
            row.extend(
                line.ratios
                    .iter()
                    .copied()
                    .map(|ratio| text(ratio, &|ratio| format!("{ratio:.2}"))),
            );
            row.extend([line.bar.clone(), line.verdicts.clone()]);
            table.row(row);
        }
        table.fmt(f)
    }
}

impl Error {
    /// Returns true for a server's reply to commands and subcommands that it does not have.
    pub(crate) fn is_unknown_command(&self) -> bool {
        let Self::Refused { answer, .. } = self else {
            return false;
        };
        let answer = answer.to_ascii_lowercase();
        answer.contains("unknown command") || answer.contains("unknown subcommand")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_markdown_has_the_ratio_beside_the_other_column() {
        let line = Line {
            case: "get P=1".into(),
            name: "CPU, µs".into(),
            values: vec![Spread::of([4.0, 5.0, 9.0]), Spread::of([10.0]), None],
            ratios: vec![Spread::of([0.5]), None],
            bar: "<= 0.9 x".into(),
            verdicts: "PASS".into(),
        };
        assert_eq!(
            line.markdown(&[(0, 1), (0, 2)]),
            "| get P=1: CPU, µs | 5.000 | 10.000 (0.50x) | - | <= 0.9 x | PASS |\n"
        );
    }

    #[test]
    fn units_are_at_the_end_of_names() {
        assert_eq!(shown("GET p99, ms", 0.25), "0.250");
        assert_eq!(shown("keys lost", 1234.0), "1,234");
        assert!(is_timed("SETs, 1/s") && !is_timed("per key, bytes"));
    }
}
