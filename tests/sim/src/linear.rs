//! Linearizability of one register: whether the operations of several clients agree with an order
//! in which each operation takes effect at an instant between its sending and its reply (Wing and
//! Gong 1993, with the memory of visited states of Lowe 2017).

use std::collections::BTreeSet;

use crate::kernel::Nanos;

/// Maximum number of operations of a history.
pub const OPERATIONS_MAX: usize = 60;

/// What an operation does with a register. 0 is the value of a key that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Read(u64),
    Write(u64),
    /// Writes the second value, if the register has the first one.
    Swap(u64, u64),
}

/// An operation, and the times between which it took effect.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    pub action: Action,
    pub sent: Nanos,
    pub done: Nanos,
    /// Whether it is unknown that the operation took effect, because its reply was lost.
    pub maybe: bool,
}

/// Returns the values that the register may have after a history that began with one of these
/// values. Returns no value if the history is not linearizable.
///
/// # Panics
/// The history is longer than [`OPERATIONS_MAX`].
pub fn ends(starts: &[u64], history: &[Operation]) -> Vec<u64> {
    assert!(history.len() <= OPERATIONS_MAX, "a history is bounded");
    let all = (1_u64 << history.len()) - 1;
    let mut open: Vec<(u64, u64)> = starts.iter().map(|value| (0, *value)).collect();
    let mut seen: BTreeSet<(u64, u64)> = open.iter().copied().collect();
    let mut found = BTreeSet::new();
    while let Some((mask, value)) = open.pop() {
        if mask == all {
            found.insert(value);
            continue;
        }
        let left = || (0..history.len()).filter(|at| mask & 1 << at == 0);
        // The next operation began before any other one of them had ended.
        let end = left().map(|at| history[at].done).min().unwrap_or(0);
        for at in left().filter(|at| history[*at].sent <= end) {
            let operation = &history[at];
            let after = match operation.action {
                Action::Read(seen) => (seen == value).then_some(value),
                Action::Write(new) => Some(new),
                Action::Swap(old, new) => (old == value).then_some(new),
            };
            let without = operation.maybe.then_some(value);
            for value in [after, without].into_iter().flatten() {
                let next = (mask | 1 << at, value);
                if seen.insert(next) {
                    open.push(next);
                }
            }
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(action: Action, sent: Nanos, done: Nanos) -> Operation {
        Operation {
            action,
            sent,
            done,
            maybe: false,
        }
    }

    #[test]
    fn a_read_shows_a_write_that_overlaps_or_the_value_before() {
        let write = operation(Action::Write(7), 10, 20);
        for value in [1, 7] {
            let read = operation(Action::Read(value), 15, 30);
            assert_eq!(ends(&[1], &[write, read]), [7]);
        }
        let late = operation(Action::Read(1), 21, 30);
        assert!(ends(&[1], &[write, late]).is_empty());
    }

    #[test]
    fn reads_do_not_go_back() {
        let write = operation(Action::Write(7), 10, 90);
        let new = operation(Action::Read(7), 20, 30);
        let old = operation(Action::Read(1), 40, 50);
        assert!(ends(&[1], &[write, new, old]).is_empty());
        assert_eq!(ends(&[1], &[write, old]), [7]);
    }

    #[test]
    fn of_two_swaps_from_a_value_one_fails() {
        let first = operation(Action::Swap(1, 2), 0, 50);
        let second = operation(Action::Swap(1, 3), 0, 50);
        assert!(ends(&[1], &[first, second]).is_empty());
        let lost = Operation {
            maybe: true,
            ..second
        };
        assert_eq!(ends(&[1], &[first, lost]), [2]);
        assert_eq!(ends(&[1], &[lost]), [1, 3]);
    }
}
