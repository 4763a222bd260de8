//! SCAN, SSCAN, HSCAN and ZSCAN: single pages, and whole iterations as acts.

use super::{Family, line, named};
use crate::command::{Command, Step};
use crate::draw::{Draw, Kind};

/// An iteration from cursor 0 to the end; its entries are compared as a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// The command's name, and the key except for SCAN.
    pub start: Command,
    /// The arguments after the cursor.
    pub options: Vec<Vec<u8>>,
}

impl Scan {
    /// Returns the command for the page at `cursor`.
    pub fn page(&self, cursor: &[u8]) -> Command {
        let mut command = self.start.clone().arg(cursor);
        command.extend(&self.options);
        command
    }

    /// Returns the number of strings per entry: HSCAN and ZSCAN return pairs.
    pub fn strings_per_entry(&self) -> usize {
        match self.start.name().as_str() {
            "HSCAN" | "ZSCAN" => 2,
            _ => 1,
        }
    }
}

/// Returns an iteration over the keys or over a collection of the given families.
pub(super) fn scan(draw: &mut Draw, has: impl Fn(Family) -> bool) -> Option<Scan> {
    let kinds: Vec<(u32, (&str, Option<Kind>))> = [
        (3, Family::Keys, ("SCAN", None)),
        (2, Family::Hashes, ("HSCAN", Some(Kind::Hash))),
        (2, Family::Sets, ("SSCAN", Some(Kind::Set))),
        (2, Family::Zsets, ("ZSCAN", Some(Kind::Zset))),
    ]
    .into_iter()
    .filter(|(_, family, _)| has(*family))
    .map(|(weight, _, what)| (weight, what))
    .collect();
    if kinds.is_empty() {
        return None;
    }
    let (name, kind) = draw.weighted(&kinds);
    let mut start = Command::new(name);
    if let Some(kind) = kind {
        start.push(draw.key_of(kind));
    }
    let mut options = Vec::new();
    if draw.chance(50) {
        let pattern = if kind.is_some() && draw.chance(70) {
            draw.pick(&["*", "m*", "m1*", "1*", "*5", "[a-d]", "?"])
                .as_bytes()
                .to_vec()
        } else {
            draw.pattern()
        };
        options.extend([b"MATCH".to_vec(), pattern]);
    }
    if draw.chance(50) {
        options.extend([
            b"COUNT".to_vec(),
            draw.between(1..=40).to_string().into_bytes(),
        ]);
    }
    if kind.is_none() && draw.chance(30) {
        let kind = draw.one_of("string|string|list|hash|set|zset|ZSET|stream|nosuchtype");
        options.extend([b"TYPE".to_vec(), kind.as_bytes().to_vec()]);
    }
    Some(Scan { start, options })
}

/// Appends a command for a single page of a collection. Only the shape of the reply and errors can
/// be compared.
pub(super) fn page(draw: &mut Draw, name: &str, key: Vec<u8>, steps: &mut Vec<Step>) {
    let cursor = draw.one_of("0|0|0|7|18446744073709551616|-1|abc||1.5");
    let mut command = named(draw, name).arg(key).arg(cursor);
    for _ in 0..draw.weighted(&[(4, 0), (4, 1), (2, 2)]) {
        match draw.weighted(&[(3, "MATCH"), (3, "COUNT"), (1, "TYPE")]) {
            "MATCH" => line::append(draw, &mut command, "MATCH pattern"),
            "COUNT" => {
                let count = "COUNT 1|10|1000|0|-1|abc|9223372036854775808";
                line::append(draw, &mut command, count);
            }
            option => command.extend([option, "hash"]),
        }
    }
    if draw.chance(5) {
        command.args_mut().pop();
    }
    steps.push(command.into());
}
