//! Complete iterations of SCAN, SSCAN, HSCAN and ZSCAN.

use std::collections::BTreeSet;

use super::{Duel, Stop};
use crate::command::{Command, Quoted, Step};
use crate::generate::Scan;
use crate::link::Link;
use crate::report::{Finding, show};

/// Maximum number of pages of an iteration. A longer iteration counts as endless.
const PAGES_MAX: usize = 10_000;

impl Duel<'_> {
    /// Iterates to the end on both servers, and compares the sets of entries.
    pub(super) fn scan(&mut self, scan: &Scan) -> Result<(), Stop> {
        let first = scan.page(b"0");
        self.record(&Step::from(first.clone()));
        let seen_a = iterate(&mut self.main.a, scan)?;
        let seen_b = iterate(&mut self.main.b, scan)?;
        if seen_a == seen_b {
            return Ok(());
        }
        let only = |these: &BTreeSet<String>, those: &BTreeSet<String>| {
            let entries: Vec<&str> = these
                .difference(those)
                .take(10)
                .map(String::as_str)
                .collect();
            format!(
                "{} entries, seen only here: {}",
                these.len(),
                entries.join(" ")
            )
        };
        Err(Finding {
            headline: "the entries of a whole iteration".to_owned(),
            a: only(&seen_a, &seen_b),
            b: only(&seen_b, &seen_a),
            keys: first.args().get(1).cloned().into_iter().collect(),
            probes: None,
            command: Some(first),
        }
        .into())
    }
}

/// Returns all entries of an iteration: keys, members, or names with their values. An error reply
/// is an entry as well.
fn iterate(link: &mut Link, scan: &Scan) -> Result<BTreeSet<String>, Stop> {
    let mut cursor = b"0".to_vec();
    let mut seen = BTreeSet::new();
    for _ in 0..PAGES_MAX {
        let command = scan.page(&cursor);
        let page = link.ask(&command)?;
        if page.is_error() {
            seen.insert(show(&page));
            return Ok(seen);
        }
        let parts = page.as_slice().unwrap_or_default();
        let (Some(next), Some(strings)) = (
            parts.first().and_then(|next| next.as_bytes()),
            parts.get(1).and_then(|strings| strings.as_slice()),
        ) else {
            return Err(
                endless(command, format!("no page of an iteration: {}", show(&page))).into(),
            );
        };
        let scored = scan.start.name() == "ZSCAN";
        seen.extend(
            strings
                .chunks(scan.strings_per_entry())
                .map(|strings| entry(strings, scored)),
        );
        if next == b"0" {
            return Ok(seen);
        }
        cursor = next.to_vec();
    }
    Err(endless(
        scan.page(b"0"),
        format!("an iteration that does not end in {PAGES_MAX} pages"),
    )
    .into())
}

/// Returns the strings of an entry, quoted, with scores as numbers regardless of their digits.
fn entry(strings: &[punctual_resp::Value], scored: bool) -> String {
    let quoted: Vec<String> = strings
        .iter()
        .enumerate()
        .map(|(at, string)| {
            let bytes = string.as_bytes().unwrap_or_default();
            let text = Quoted(bytes).to_string();
            match text.parse::<f64>() {
                Ok(number) if at == 1 && scored => format!("{}", number + 0.0),
                _ => text,
            }
        })
        .collect();
    quoted.join(" = ")
}

fn endless(command: Command, headline: String) -> Finding {
    Finding {
        headline,
        command: Some(command),
        ..Finding::default()
    }
}
