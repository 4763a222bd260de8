//! Tables on the terminal: one block a figure, with contenders as rows and numbers of timers as columns.

use std::fmt::Write;

use crate::contender::Role;
use crate::figure::Figure;
use crate::results::Results;

/// Rows of text under a head.
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Columns of words, which go to the left.
    left: usize,
}

impl Table {
    /// A table whose first `left` columns hold words.
    pub fn new<S: Into<String>>(left: usize, head: impl IntoIterator<Item = S>) -> Self {
        Table {
            head: head.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
            left,
        }
    }

    /// Appends a row; missing cells are empty.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let mut row: Vec<String> = cells.into_iter().map(Into::into).collect();
        row.resize(self.head.len(), String::new());
        self.rows.push(row);
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all = || self.rows.iter().chain([&self.head]);
        let width = |column: usize| {
            all()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let line = |row: &[String]| {
            let mut text = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                let gap = if column > 0 { "  " } else { "" };
                let _ = if column < self.left {
                    write!(text, "{gap}{cell:<width$}")
                } else {
                    write!(text, "{gap}{cell:>width$}")
                };
            }
            text.trim_end().to_owned()
        };
        writeln!(f, "{}", line(&self.head))?;
        let total = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        writeln!(f, "{}", "-".repeat(total))?;
        self.rows
            .iter()
            .try_for_each(|row| writeln!(f, "{}", line(row)))
    }
}

/// A number of timers: 10, 31,623, 100k, 10M.
pub fn count(size: usize) -> String {
    match size {
        1_000_000.. if size.is_multiple_of(1_000_000) => format!("{}M", size / 1_000_000),
        1_000.. if size.is_multiple_of(1_000) => format!("{}k", size / 1_000),
        _ => thousands(size),
    }
}

/// A whole number with its thousands apart.
pub fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A figure with as many decimals as its size deserves.
pub fn number(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.2}"),
        ..1_000.0 => format!("{value:.1}"),
        _ => thousands(value.round() as usize),
    }
}

/// One figure: for each contender and number of timers the median, the middle half of the rounds
/// behind it, and the ratio to the best exact peer.
pub fn block(results: &Results, figure: Figure) -> String {
    let sizes = results.sizes(figure);
    let mut head = vec![String::new()];
    for &size in &sizes {
        head.extend([
            format!("N = {}", count(size)),
            String::new(),
            "ratio".into(),
        ]);
    }
    let mut table = Table::new(1, head);
    let mut notes = String::new();
    let mut cut = false;
    for (at, entry) in results.entries.iter().enumerate() {
        let mut row = vec![entry.name.to_owned()];
        let mut takes_part = false;
        for &size in &sizes {
            let Some(rounds) = results.rounds(figure, size, at) else {
                continue;
            };
            if let Some(note) = &rounds.note {
                let _ = writeln!(notes, "  {} at {}: {note}", entry.name, count(size));
                takes_part = true;
            }
            let Some(spread) = rounds.spread() else {
                row.extend(["-".to_owned(), String::new(), String::new()]);
                continue;
            };
            takes_part = true;
            cut |= rounds.cut();
            let mark = if rounds.cut() { "~" } else { "" };
            row.push(format!("{mark}{}", number(spread.median)));
            row.push(format!("{}-{}", number(spread.low), number(spread.high)));
            row.push(match results.best_peer(figure, size, true) {
                Some((_, best)) if best > 0.0 => number(spread.median / best),
                _ => String::new(),
            });
        }
        if takes_part {
            table.row(row);
        }
    }
    let mut best = vec!["best exact peer (ratio 1)".to_owned()];
    for &size in &sizes {
        let name = match results.best_peer(figure, size, true) {
            Some((at, _)) => results.entries[at].name,
            None => "none",
        };
        best.extend([String::new(), name.to_owned(), String::new()]);
    }
    if results.entries.iter().any(|entry| entry.role == Role::Peer) {
        table.row(best);
    }
    if cut {
        notes.push_str("  ~ cut short: the figure stands for the part that was done in time\n");
    }
    format!("{} ({})\n\n{table}{notes}", figure.title(), figure.unit())
}

/// What the trial of exactness said.
pub fn exactness(results: &Results) -> String {
    let mut table = Table::new(
        1,
        [
            "keeping to the time (counts of faults)",
            "tick us",
            "early",
            "disorder",
            "late",
            "lost",
            "ghosts",
            "handles",
            "next",
            "timed runs",
            "latest us",
            "fired",
            "exact",
        ],
    );
    for (at, entry) in results.entries.iter().enumerate() {
        let Some(verdict) = results.verdicts[at] else {
            continue;
        };
        let counts = [
            verdict.early,
            verdict.disordered,
            verdict.late,
            verdict.lost,
            verdict.ghosts,
            verdict.handles,
            verdict.next,
            results.timed_faults(at),
        ];
        let mut row = vec![entry.name.to_owned(), thousands(entry.tick as usize)];
        row.extend(counts.map(thousands));
        row.push(thousands(verdict.latest as usize));
        row.push(thousands(verdict.fired));
        let bound = if entry.exact_next {
            ""
        } else {
            "; knows only a bound of the next deadline"
        };
        let exact = match (results.exact(at), results.faultless(at)) {
            (true, _) => "yes",
            (false, true) => "to its tick",
            (false, false) => "no",
        };
        row.push(format!("{exact}{bound}"));
        table.row(row);
    }
    format!(
        "{table}  early, disorder, late: beyond its tick; ghosts: fired without being armed; handles: a live one not \
         found,\n  or a stale one taken; next: a wrong next deadline or wake-up; timed runs: any of these while timed\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(1, ["who", "ns"]);
        table.row(["a", "1.25"]);
        table.row(["longer name"]);
        let expected = "who            ns\n-----------------\na            1.25\nlonger name\n";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn numbers() {
        assert_eq!(count(31_623), "31,623");
        assert_eq!(count(100_000), "100k");
        assert_eq!(count(10_000_000), "10M");
        assert_eq!(count(1), "1");
        assert_eq!(number(6.54321), "6.54");
        assert_eq!(number(314.15), "314.1");
        assert_eq!(number(3_141.5), "3,142");
    }
}
