//! The search for a text. It skips entries of a different length without reading their text.

use std::ops::Range;

use punctual_rdb::listpack;

use super::chunk::Chunk;
use super::{End, List};

/// Position of an element, valid until the list changes.
#[derive(Clone, Debug)]
pub struct Position {
    /// Number of the piece.
    pub(super) chunk: usize,
    /// Range of the entry; `0..1` in a plain piece.
    pub(super) entry: Range<usize>,
}

impl List {
    /// Returns the position of the first element with this text. O(elements before it).
    pub fn find(&self, text: &[u8]) -> Option<Position> {
        for (number, chunk) in self.chunks().enumerate() {
            let entry = match chunk.text() {
                Some(own) => (own == text).then_some((0, 1)),
                None => listpack::find(chunk.entries(), 0, text, 0),
            };
            if let Some((start, end)) = entry {
                return Some(Position {
                    chunk: number,
                    entry: start..end,
                });
            }
        }
        None
    }

    /// Visits the indices of the elements with this text, in order from an end on, until `visit`
    /// returns false. Considers only the first `count_max` elements from that end. O(elements).
    pub fn each_match(
        &self,
        text: &[u8],
        from: End,
        count_max: usize,
        mut visit: impl FnMut(usize) -> bool,
    ) {
        let mut passed = 0;
        match from {
            End::Head => {
                for chunk in self.chunks() {
                    if passed >= count_max {
                        return;
                    }
                    let all = each_in(chunk, text, |number| {
                        passed + number < count_max && visit(passed + number)
                    });
                    if !all {
                        return;
                    }
                    passed += chunk.count();
                }
            }
            End::Tail => {
                let len = self.len();
                let mut numbers = Vec::new();
                for chunk in self.chunks().rev() {
                    if passed >= count_max {
                        return;
                    }
                    numbers.clear();
                    each_in(chunk, text, |number| {
                        numbers.push(number);
                        true
                    });
                    let first = len - passed - chunk.count();
                    for number in numbers.iter().rev() {
                        let index = first + number;
                        if len - index > count_max || !visit(index) {
                            return;
                        }
                    }
                    passed += chunk.count();
                }
            }
        }
    }
}

/// Visits the numbers of the elements with this text in a piece. Stops and returns false when
/// `visit` returns false.
fn each_in(chunk: &Chunk, text: &[u8], mut visit: impl FnMut(usize) -> bool) -> bool {
    if let Some(own) = chunk.text() {
        return own != text || visit(0);
    }
    let entries = chunk.entries();
    let (mut at, mut number) = (0, 0);
    while let Some((start, end)) = listpack::find(entries, at, text, 0) {
        while at < start {
            at += listpack::entry_len_at(entries, at).unwrap_or(start);
            number += 1;
        }
        if !visit(number) {
            return false;
        }
        at = end;
        number += 1;
    }
    true
}
