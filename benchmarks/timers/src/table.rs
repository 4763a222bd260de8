//! Tables on the terminal: one for each figure, with contenders as rows and numbers of timers as
//! columns, and one for the check of exactness.

use punctual_figures::table::Table;

use crate::results::{Figure, Results};

/// Formats a number of timers: 10, 31,623, 100k, 10M.
pub fn count(size: usize) -> String {
    match size {
        1_000_000.. if size.is_multiple_of(1_000_000) => format!("{}M", size / 1_000_000),
        1_000.. if size.is_multiple_of(1_000) => format!("{}k", size / 1_000),
        _ => thousands(size),
    }
}

fn thousands(number: usize) -> String {
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
pub fn figure(results: &Results, figure: Figure) -> String {
    let sizes = results.sizes(figure);
    let mut head = vec![String::new()];
    let mut best = vec!["best exact peer (ratio 1)".to_owned()];
    for &size in &sizes {
        let of_size = format!("N = {}", count(size));
        head.extend([of_size, String::new(), "ratio".into()]);
        let name = results
            .best_peer(figure, size)
            .map_or("none", |best| best.0);
        best.extend([String::new(), name.to_owned(), String::new()]);
    }
    let mut table = Table::new(1, head);
    let mut notes = String::new();
    for (at, entry) in results.entries.iter().enumerate() {
        let mut row = vec![entry.name.to_owned()];
        for &size in &sizes {
            let rounds = results.rounds(figure, size, at);
            if let Some(note) = &rounds.note {
                notes += &format!("  {} at {}: {note}\n", entry.name, count(size));
            }
            let Some(spread) = rounds.spread() else {
                row.extend(["-".to_owned(), String::new(), String::new()]);
                continue;
            };
            let cut = rounds.samples.iter().any(|sample| sample.cut);
            let mark = if cut { "~" } else { "" };
            row.push(format!("{mark}{}", number(spread.median)));
            row.push(format!("{}-{}", number(spread.low), number(spread.high)));
            let best = results.best_peer(figure, size).filter(|best| best.1 > 0.0);
            row.push(best.map_or_else(String::new, |best| number(spread.median / best.1)));
        }
        if row[1..].iter().any(|cell| !cell.is_empty() && cell != "-") {
            table.row(row);
        }
    }
    table.row(best);
    let (_, title, unit) = figure.about();
    format!("{title} ({unit})\n\n{table}{notes}")
}

/// Returns the table of the check of exactness.
pub fn exactness(results: &Results) -> String {
    let mut head = vec!["exactness (numbers of faults)"];
    head.extend(["tick us", "early", "disorder", "late", "lost", "next"]);
    head.extend(["timed runs", "fired", "exact"]);
    let mut table = Table::new(1, head);
    for (at, entry) in results.entries.iter().enumerate() {
        let Some(verdict) = results.verdicts[at] else {
            continue;
        };
        let exact = match (results.is_faultless(at), entry.tick) {
            (true, 1) => "yes",
            (true, _) => "to its tick",
            (false, _) => "no",
        };
        let counts = [
            entry.tick as usize,
            verdict.early,
            verdict.disordered,
            verdict.late,
            verdict.lost,
            verdict.next,
            results.timed_faults(at),
            verdict.fired,
        ];
        let mut row = vec![entry.name.to_owned()];
        row.extend(counts.map(thousands));
        row.push(exact.to_owned());
        table.row(row);
    }
    format!(
        "{table}  early, disorder, late: beyond its tick; lost: fired without being armed, or armed and not found;\n  \
         next: a wrong next deadline or wake-up; timed runs: any of these while timed\n"
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
        assert_eq!(number(6.54321), "6.54");
        assert_eq!(number(314.15), "314.1");
        assert_eq!(number(3_141.5), "3,142");
    }
}
