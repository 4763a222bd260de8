//! Makes a failing run smaller: leaves out parts of its plan as long as it still fails.

use crate::apart::Child;
use crate::options::{Options, Part};
use crate::plan::Plan;

/// Returns the words of a failure without its numbers, to compare failures.
fn kind(line: &str) -> String {
    let words = line.split(|character: char| !character.is_alphabetic());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).take(5).collect();
    words.join(" ")
}

/// Leaves out one part after the other, and prints the command of the smallest run that fails in
/// the same way.
pub fn shrink(seed: u64, line: &str, options: &Options) {
    let mut smallest = options.clone();
    let mut last = line.to_owned();
    loop {
        let before = smallest.without.len();
        for part in Part::ALL {
            let mut plan = Plan::of(seed, options.cluster);
            smallest.without.iter().for_each(|part| {
                part.leave_out(&mut plan);
            });
            if !part.leave_out(&mut plan) || smallest.without.contains(&part) {
                continue;
            }
            let mut smaller = smallest.clone();
            smaller.without.push(part);
            let line = Child::start(seed, 0, &smaller).result();
            if !line.starts_with("passed") && kind(&line) == kind(&last) {
                (smallest, last) = (smaller, line);
            }
        }
        if smallest.without.len() == before {
            break;
        }
    }
    let parts: Vec<String> = smallest
        .without
        .iter()
        .map(|part| format!("{part:?}"))
        .collect();
    let cluster = if options.cluster { " CLUSTER=1" } else { "" };
    println!(
        "  smallest: {last:.300}\n  make sim ONE={seed}{cluster} WITHOUT={}",
        parts.join(",")
    );
}
