//! The list commands. This file has their rows, and the handlers are in submodules: `ends` (LPUSH,
//! LPOP), `transfer` (LMOVE, LMPOP), `read` (LINDEX, LRANGE) and `change` (LSET, LINSERT, LREM,
//! LTRIM). The blocking commands call the functions of `ends` and `transfer`.

mod change;
mod ends;
mod read;
#[cfg(test)]
mod tests;
mod transfer;

pub(crate) use ends::{find, pop_one};
pub(crate) use transfer::{Movem, Mpop, end_named, mpop, pop_name, transfer};

use crate::spec::{Flags, Group};
use crate::turn::{Command, Cx, Handler};
use crate::value::list::PieceSize;

/// The family's rows.
pub static COMMANDS: &[Command] = &[
    row("lindex", 3, Flags::READONLY, read::lindex)
        .access(&["RO access"])
        .since("1.0.0")
        .complexity(
            "O(N) where N is the number of elements to traverse to the index; O(1) for the first \
             and the last element.",
        )
        .summary("Returns an element of a list by its index.")
        .syntax("key index"),
    row("linsert", 5, GROW, change::linsert)
        .access(&["RW insert"])
        .since("2.2.0")
        .complexity("O(N) where N is the number of elements to traverse to the pivot.")
        .summary("Inserts an element before or after another element of a list.")
        .syntax("key (where: BEFORE | AFTER) pivot element"),
    row("llen", 2, READ_FAST, read::llen)
        .access(&["RO"])
        .doc("1.0.0", "O(1)", "Returns the length of a list.")
        .syntax("key"),
    row("lmove", 5, GROW, transfer::lmove)
        .keys(1, 2, 1)
        .access(&["RW access delete", "RW insert"])
        .since("6.2.0")
        .summary(
            "Pops an element from a list, pushes it to another list and returns it. Deletes the \
             list if no elements remain.",
        )
        .syntax("source:key destination:key1 (wherefrom: LEFT | RIGHT) (whereto: LEFT | RIGHT)"),
    row("lmovem", -5, GROW, transfer::lmovem)
        .keys(1, 2, 1)
        .access(&["RW access delete", "RW insert"])
        .since("8.10.0")
        .complexity("O(N) where N is the number of elements moved.")
        .summary(
            "Moves elements from a list to another list and returns them. Deletes the first list \
             if no elements remain.",
        )
        .syntax(
            "source:key destination:key1 (wherefrom: LEFT | RIGHT) (whereto: LEFT | RIGHT) \
             [how-many: (selector: COUNT count | EXACTLY exactly:integer) (ordering: OBO | \
             BULK)]",
        ),
    row("lmpop", -4, Flags::WRITE, transfer::lmpop)
        .counted_keys(1)
        .access(&["RW access delete"])
        .since("7.0.0")
        .complexity(
            "O(N+M) where N is the number of keys and M is the number of elements returned.",
        )
        .summary(
            "Pops elements from the first non-empty list of several. Deletes the list if no \
             elements remain.",
        )
        .syntax("numkeys key ... (where: LEFT | RIGHT) [COUNT count]"),
    row("lpop", -2, WRITE_FAST, ends::lpop)
        .access(&["RW access delete"])
        .since("1.0.0")
        .complexity(POP_COST)
        .summary(
            "Removes and returns the first elements of a list. Deletes the list if no elements \
             remain.",
        )
        .history(COUNT_ADDED)
        .syntax("key [count@6.2.0]"),
    row("lpos", -3, Flags::READONLY, read::lpos)
        .access(&["RO access"])
        .since("6.0.6")
        .complexity(
            "O(N) where N is the number of elements in the list; it may be constant near the ends \
             or with MAXLEN.",
        )
        .summary("Returns the indexes of matching elements in a list.")
        .syntax("key element [RANK rank:integer] [COUNT num-matches:integer] [MAXLEN len:integer]"),
    row("lpush", -3, GROW_FAST, ends::lpush)
        .access(&["RW insert"])
        .since("1.0.0")
        .complexity(PUSH_COST)
        .summary("Prepends elements to a list. Creates the key if it doesn't exist.")
        .history(&[("2.4.0", MANY_ADDED)])
        .syntax("key element ..."),
    row("lpushx", -3, GROW_FAST, ends::lpushx)
        .access(&["RW insert"])
        .since("2.2.0")
        .complexity(PUSH_COST)
        .summary("Prepends elements to a list, only if the list exists.")
        .history(&[("4.0.0", MANY_ADDED)])
        .syntax("key element ..."),
    row("lrange", 4, Flags::READONLY, read::lrange)
        .access(&["RO access"])
        .since("1.0.0")
        .complexity(
            "O(S+N) where S is the distance of the start from the head, or from the nearest end \
             of a large list, and N is the number of elements in the range.",
        )
        .summary("Returns a range of elements from a list.")
        .syntax("key start:integer stop:integer"),
    row("lrem", 4, Flags::WRITE, change::lrem)
        .access(&["RW delete"])
        .since("1.0.0")
        .complexity(
            "O(N+M) where N is the length of the list and M is the number of elements removed.",
        )
        .summary("Removes matching elements from a list. Deletes the list if no elements remain.")
        .syntax("key count element"),
    row("lset", 4, GROW, change::lset)
        .access(&["RW update"])
        .since("1.0.0")
        .complexity(
            "O(N) where N is the length of the list; O(1) for the first and the last element.",
        )
        .summary("Sets an element of a list by its index.")
        .syntax("key index element"),
    row("ltrim", 4, Flags::WRITE, change::ltrim)
        .access(&["RW delete"])
        .since("1.0.0")
        .complexity("O(N) where N is the number of elements removed.")
        .summary(
            "Removes the elements outside a range from a list. Deletes the list if no elements \
             remain.",
        )
        .syntax("key start:integer stop:integer"),
    row("rpop", -2, WRITE_FAST, ends::rpop)
        .access(&["RW access delete"])
        .since("1.0.0")
        .complexity(POP_COST)
        .summary(
            "Removes and returns the last elements of a list. Deletes the list if no elements \
             remain.",
        )
        .history(COUNT_ADDED)
        .syntax("key [count@6.2.0]"),
    row("rpoplpush", 3, GROW, transfer::rpoplpush)
        .keys(1, 2, 1)
        .access(&["RW access delete", "RW insert"])
        .since("1.2.0")
        .summary(
            "Pops the last element of a list, prepends it to another list and returns it. Deletes \
             the list if no elements remain.",
        )
        .deprecated("6.2.0", "`LMOVE` with the `RIGHT` and `LEFT` arguments")
        .syntax("source:key destination:key1"),
    row("rpush", -3, GROW_FAST, ends::rpush)
        .access(&["RW insert"])
        .since("1.0.0")
        .complexity(PUSH_COST)
        .summary("Appends elements to a list. Creates the key if it doesn't exist.")
        .history(&[("2.4.0", MANY_ADDED)])
        .syntax("key element ..."),
    row("rpushx", -3, GROW_FAST, ends::rpushx)
        .access(&["RW insert"])
        .since("2.2.0")
        .complexity(PUSH_COST)
        .summary("Appends elements to a list, only if the list exists.")
        .history(&[("4.0.0", MANY_ADDED)])
        .syntax("key element ..."),
];

const READ_FAST: Flags = Flags::READONLY.or(Flags::FAST);
const WRITE_FAST: Flags = Flags::WRITE.or(Flags::FAST);
const GROW: Flags = Flags::WRITE.or(Flags::DENYOOM);
const GROW_FAST: Flags = GROW.or(Flags::FAST);
const PUSH_COST: &str = "O(1) for each element added, so O(N) to add N elements.";
const POP_COST: &str = "O(N) where N is the number of elements returned.";
const MANY_ADDED: &str = "Accepts multiple `element` arguments.";
const COUNT_ADDED: &[(&str, &str)] = &[("6.2.0", "Added the `count` argument.")];

crate::family!(Handler, Group::List, Flags::NONE, keys(1, 1, 1));

/// Returns the maximum size of a piece (a node of a quicklist in Redis).
#[inline]
fn piece_size(cx: &Cx) -> PieceSize {
    PieceSize::of(cx.limits().list_piece)
}

/// Converts an index to an index from the start; a negative index counts from the end. Returns
/// `None` if it is out of range.
fn absolute(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 {
        index.checked_add(len as i64)?
    } else {
        index
    };
    usize::try_from(index).ok().filter(|index| *index < len)
}

/// Converts an inclusive range, whose negative indices count from the end, to `start..end`. `start`
/// equals `end` for an empty range.
fn bounds(start: i64, end: i64, len: usize) -> (usize, usize) {
    let len = len as i64;
    let from_end = |index: i64| if index < 0 { len + index } else { index };
    let (start, end) = (from_end(start).max(0), from_end(end).min(len - 1));
    if start > end {
        return (0, 0);
    }
    (start as usize, end as usize + 1)
}
