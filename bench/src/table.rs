//! Tables on the terminal: one block per figure, with contenders as rows and numbers of timers as columns.

use std::fmt::Write;

pub use punctual_figures::table::Table;

use crate::contender::Role;
use crate::figure::Figure;
use crate::results::Results;

/// Formats a number of timers: 10, 31,623, 100k, 10M.
pub fn count(size: usize) -> String {
    match size {
        1_000_000.. if size.is_multiple_of(1_000_000) => format!("{}M", size / 1_000_000),
        1_000.. if size.is_multiple_of(1_000) => format!("{}k", size / 1_000),
        _ => thousands(size),
    }
}

/// Formats a whole number with separated thousands.
pub fn thousands(number: usize) -> String {
    punctual_figures::table::thousands(number as f64)
}

/// Formats a figure with decimals according to its size.
pub fn number(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.2}"),
        ..1_000.0 => format!("{value:.1}"),
        _ => thousands(value.round() as usize),
    }
}

/// Returns the table of one figure: for each contender and number of timers the median, the middle
/// half of the rounds, and the ratio to the best exact peer.
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

/// Returns the table of the check of exactness.
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
