//! Lists: the family's rows. `ends` has pushes and pops, `transfer` moves between keys, `read` the readers, `change` LSET,
//! LINSERT, LREM and LTRIM. The blocking commands call the functions of `ends` and `transfer`.

mod change;
mod ends;
mod read;
#[cfg(test)]
mod tests;
mod transfer;

pub(crate) use ends::{find, pop_one};
pub(crate) use transfer::{Mpop, end_named, mpop, transfer};

use punctual_rdb::listpack::Element;
use punctual_resp::Reply;

use crate::spec::{Flags, Group};
use crate::turn::{Command, Cx, Handler};
use crate::value::list::PieceSize;

/// The family's rows.
pub static COMMANDS: &[Command] = &[
    row("lindex", 3, Flags::READONLY, read::lindex)
        .access(&["RO access"])
        .doc(
            "1.0.0",
            "O(N/M) where N is the number of elements to the nearer end, and M how many a piece of memory holds; O(1) \
             at both ends.",
            "Returns the element at an index of a list.",
        ),
    row("linsert", 5, GROW, change::linsert)
        .access(&["RW insert"])
        .doc(
            "2.2.0",
            "O(N) where N is the number of elements up to the one that is sought.",
            "Inserts an element before or after another element of a list.",
        ),
    row("llen", 2, READ_FAST, read::llen)
        .access(&["RO"])
        .doc("1.0.0", "O(1)", "Returns the length of a list."),
    row("lmove", 5, GROW, transfer::lmove)
        .keys(1, 2, 1)
        .access(&["RW access delete", "RW insert"])
        .doc(
            "6.2.0",
            "O(1)",
            "Takes an element off one list, adds it to another and returns it.",
        ),
    row("lmpop", -4, Flags::WRITE, transfer::lmpop)
        .counted_keys(1)
        .access(&["RW access delete"])
        .doc(
            "7.0.0",
            "O(N+M) where N is the number of keys and M the number of elements returned.",
            "Takes elements off the first of several lists that has any, and returns them.",
        ),
    row("lpop", -2, WRITE_FAST, ends::lpop)
        .access(&["RW access delete"])
        .doc(
            "1.0.0",
            POP_COST,
            "Takes elements off the head of a list and returns them.",
        )
        .history(COUNT_ADDED),
    row("lpos", -3, Flags::READONLY, read::lpos)
        .access(&["RO access"])
        .doc(
            "6.0.6",
            "O(N) where N is the number of elements that are compared.",
            "Returns the indexes of the elements that are equal to one.",
        ),
    row("lpush", -3, GROW_FAST, ends::lpush)
        .access(&["RW insert"])
        .doc(
            "1.0.0",
            PUSH_COST,
            "Adds elements at the head of a list, which starts empty if the key is new.",
        )
        .history(&[("2.4.0", MANY_ADDED)]),
    row("lpushx", -3, GROW_FAST, ends::lpushx)
        .access(&["RW insert"])
        .doc(
            "2.2.0",
            PUSH_COST,
            "Adds elements at the head of a list, only if there is one.",
        )
        .history(&[("4.0.0", MANY_ADDED)]),
    row("lrange", 4, Flags::READONLY, read::lrange)
        .access(&["RO access"])
        .doc(
            "1.0.0",
            "O(S/M+N) where S is the number of elements from the start to the nearer end, M how many a piece of memory \
             holds, and N the number of elements returned.",
            "Returns a range of elements of a list.",
        ),
    row("lrem", 4, Flags::WRITE, change::lrem)
        .access(&["RW delete"])
        .doc(
            "1.0.0",
            "O(N) where N is the number of elements that are compared.",
            "Removes the elements of a list that are equal to one, all or the first or last ones.",
        ),
    row("lset", 4, GROW, change::lset)
        .access(&["RW update"])
        .doc(
            "1.0.0",
            "O(N/M) where N is the number of elements to the nearer end, and M how many a piece of memory holds; O(1) \
             at both ends.",
            "Sets the element at an index of a list.",
        ),
    row("ltrim", 4, Flags::WRITE, change::ltrim)
        .access(&["RW delete"])
        .doc(
            "1.0.0",
            "O(N/M) where N is the number of elements removed, and M how many a piece of memory holds.",
            "Removes the elements of a list outside of a range.",
        ),
    row("rpop", -2, WRITE_FAST, ends::rpop)
        .access(&["RW access delete"])
        .doc(
            "1.0.0",
            POP_COST,
            "Takes elements off the tail of a list and returns them.",
        )
        .history(COUNT_ADDED),
    row("rpoplpush", 3, GROW, transfer::rpoplpush)
        .keys(1, 2, 1)
        .access(&["RW access delete", "RW insert"])
        .doc(
            "1.2.0",
            "O(1)",
            "Takes the last element off one list, adds it at the head of another and returns it.",
        )
        .deprecated("6.2.0", "`LMOVE` with the `RIGHT` and `LEFT` arguments"),
    row("rpush", -3, GROW_FAST, ends::rpush)
        .access(&["RW insert"])
        .doc(
            "1.0.0",
            PUSH_COST,
            "Adds elements at the tail of a list, which starts empty if the key is new.",
        )
        .history(&[("2.4.0", MANY_ADDED)]),
    row("rpushx", -3, GROW_FAST, ends::rpushx)
        .access(&["RW insert"])
        .doc(
            "2.2.0",
            PUSH_COST,
            "Adds elements at the tail of a list, only if there is one.",
        )
        .history(&[("4.0.0", MANY_ADDED)]),
];

const READ_FAST: Flags = Flags::READONLY.or(Flags::FAST);
const WRITE_FAST: Flags = Flags::WRITE.or(Flags::FAST);
const GROW: Flags = Flags::WRITE.or(Flags::DENYOOM);
const GROW_FAST: Flags = GROW.or(Flags::FAST);
const PUSH_COST: &str = "O(1) for each element.";
const POP_COST: &str = "O(N) where N is the number of elements returned.";
const MANY_ADDED: &str = "Accepts multiple `element` arguments.";
const COUNT_ADDED: &[(&str, &str)] = &[("6.2.0", "Added the `count` argument.")];

/// Creates the row of a command on one key, its first argument.
const fn row(name: &'static str, arity: i32, flags: Flags, handler: Handler) -> Command {
    Command::new(name, arity, flags, Group::List, handler).keys(1, 1, 1)
}

/// Returns the maximum size of a chunk.
#[inline]
fn piece_size(cx: &Cx<'_, '_>) -> PieceSize {
    PieceSize::of(cx.limits().list_piece)
}

/// Writes an element.
#[inline]
fn reply_element(reply: &mut Reply<'_>, element: Element<'_>) {
    match element {
        Element::Bytes(text) => reply.bulk(text),
        Element::Int(int) => reply.bulk_int(int),
    }
}

/// Converts an index, negative from the end, to one from the start; `None` if it is out of range.
fn absolute(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 {
        index.checked_add(len as i64)?
    } else {
        index
    };
    usize::try_from(index).ok().filter(|index| *index < len)
}

/// Converts an inclusive range, with negative indices from the end, to `start..end`; `start == end` if it is empty.
fn bounds(start: i64, end: i64, len: usize) -> (usize, usize) {
    let len = len as i64;
    let from_end = |index: i64| if index < 0 { len + index } else { index };
    let (start, end) = (from_end(start).max(0), from_end(end).min(len - 1));
    if start > end {
        return (0, 0);
    }
    (start as usize, end as usize + 1)
}
