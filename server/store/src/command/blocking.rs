//! Blocking pops and moves of lists and sorted sets (BLPOP, BLMOVE, BZPOPMIN and others).
//!
//! A handler tries its keys in order and replies if one has elements. Otherwise it requests a wait
//! and does not reply: the caller blocks the client, and runs the same handler again when one of
//! the keys has changed ([`crate::keyspace::waiters`]). If the client may not wait (in a
//! transaction, for example), the handler replies as after a timeout.

mod lists;
#[cfg(test)]
mod tests;
mod zsets;

use std::ops::Range;

use crate::error::Error;
use crate::keyspace::waiters::{Wait, WaitCondition};
use crate::spec::{Flags, Group};
use crate::turn::{Command, Cx, Handler};
use crate::value::float::Float;

/// The family's rows.
pub static COMMANDS: &[Command] = &[
    list("blmove", 6, GROW, lists::blmove)
        .keys(1, 2, 1)
        .access(&["RW access delete", "RW insert"])
        .since("6.2.0")
        .summary(
            "Pops an element from a list, pushes it to another list and returns it. Blocks until \
             an element is available.",
        )
        .syntax(
            "source:key destination:key1 (wherefrom: LEFT | RIGHT) (whereto: LEFT | RIGHT) \
             timeout",
        ),
    list("blmovem", -6, POP.or(Flags::DENYOOM), lists::blmovem)
        .keys(1, 2, 1)
        .access(&["RW access delete", "RW insert"])
        .since("8.10.0")
        .complexity("O(N) where N is the number of elements moved.")
        .summary(
            "Moves elements from a list to another list and returns them. Blocks until enough \
             elements are available.",
        )
        .syntax(
            "source:key destination:key1 (wherefrom: LEFT | RIGHT) (whereto: LEFT | RIGHT) \
             timeout [how-many: (selector: COUNT count | EXACTLY exactly:integer) (ordering: \
             OBO | BULK)]",
        ),
    list("blmpop", -5, POP, lists::blmpop)
        .counted_keys(2)
        .access(&["RW access delete"])
        .since("7.0.0")
        .complexity(
            "O(N+M) where N is the number of keys and M is the number of elements returned.",
        )
        .summary(
            "Pops elements from the first non-empty list of several. Blocks until an element is \
             available.",
        )
        .syntax("timeout numkeys key ... (where: LEFT | RIGHT) [COUNT count]"),
    list("blpop", -3, POP, lists::blpop)
        .keys(1, -2, 1)
        .access(&["RW access delete"])
        .since("2.0.0")
        .complexity("O(N) where N is the number of keys.")
        .summary(
            "Removes and returns the first element of the first non-empty list. Blocks until an \
             element is available.",
        )
        .history(DOUBLE)
        .syntax("key ... timeout"),
    list("brpop", -3, POP, lists::brpop)
        .keys(1, -2, 1)
        .access(&["RW access delete"])
        .since("2.0.0")
        .complexity("O(N) where N is the number of keys.")
        .summary(
            "Removes and returns the last element of the first non-empty list. Blocks until an \
             element is available.",
        )
        .history(DOUBLE)
        .syntax("key ... timeout"),
    list("brpoplpush", 4, GROW, lists::brpoplpush)
        .keys(1, 2, 1)
        .access(&["RW access delete", "RW insert"])
        .since("2.2.0")
        .summary(
            "Pops the last element of a list, prepends it to another list and returns it. Blocks \
             until an element is available.",
        )
        .history(DOUBLE)
        .deprecated("6.2.0", "`BLMOVE` with the `RIGHT` and `LEFT` arguments")
        .syntax("source:key destination:key1 timeout"),
    zset("bzmpop", -5, POP, zsets::bzmpop)
        .counted_keys(2)
        .access(&["RW access delete"])
        .since("7.0.0")
        .complexity(
            "O(K) + O(M*log(N)) where K is the number of keys, N is the number of elements in the \
             sorted set and M is the number of elements popped.",
        )
        .summary(
            "Removes and returns members by score from the first non-empty sorted set. Blocks \
             until a member is available.",
        )
        .syntax("timeout numkeys key ... (where: MIN | MAX) [COUNT count]"),
    zset("bzpopmax", -3, POP_FAST, zsets::bzpopmax)
        .keys(1, -2, 1)
        .access(&["RW access delete"])
        .since("5.0.0")
        .complexity("O(log(N)) where N is the number of elements in the sorted set.")
        .summary(
            "Removes and returns the member with the highest score from the first non-empty \
             sorted set. Blocks until a member is available.",
        )
        .history(DOUBLE)
        .syntax("key ... timeout"),
    zset("bzpopmin", -3, POP_FAST, zsets::bzpopmin)
        .keys(1, -2, 1)
        .access(&["RW access delete"])
        .since("5.0.0")
        .complexity("O(log(N)) where N is the number of elements in the sorted set.")
        .summary(
            "Removes and returns the member with the lowest score from the first non-empty sorted \
             set. Blocks until a member is available.",
        )
        .history(DOUBLE)
        .syntax("key ... timeout"),
];

const POP: Flags = Flags::WRITE.or(Flags::BLOCKING);
const POP_FAST: Flags = POP.or(Flags::FAST);
const GROW: Flags = POP.or(Flags::DENYOOM);
const DOUBLE: &[(&str, &str)] = &[(
    "6.0.0",
    "`timeout` is interpreted as a double instead of an integer.",
)];

const fn list(name: &'static str, arity: i32, flags: Flags, handler: Handler) -> Command {
    Command::new(name, arity, flags, Group::List, handler)
}

const fn zset(name: &'static str, arity: i32, flags: Flags, handler: Handler) -> Command {
    Command::new(name, arity, flags, Group::SortedSet, handler)
}

/// Parses a timeout in seconds into a deadline in unix ms, rounded up; `None` for 0, which means no
/// timeout.
fn deadline(cx: &Cx, seconds: &[u8]) -> Result<Option<u64>, Error> {
    const OUT_OF_RANGE: Error = Error::fixed("ERR timeout is out of range");
    let seconds =
        Float::parse(seconds).ok_or(Error::fixed("ERR timeout is not a float or out of range"))?;
    let ms = seconds.to_millis().ok_or(OUT_OF_RANGE)?;
    let ms = u64::try_from(ms).map_err(|_| Error::fixed("ERR timeout is negative"))?;
    if ms == 0 {
        return Ok(None);
    }
    let at = cx.now().base_ms().checked_add(ms);
    at.filter(|at| i64::try_from(*at).is_ok())
        .ok_or(OUT_OF_RANGE)
        .map(Some)
}

/// Requests a wait for the keys among the arguments `keys`. Returns false if the client may not
/// wait.
fn wait(
    cx: &mut Cx,
    condition: WaitCondition,
    keys: Range<usize>,
    deadline_ms: Option<u64>,
) -> bool {
    if cx.turn.may_wait() {
        cx.turn.wait = Some(Wait::new(condition, keys, deadline_ms));
    }
    cx.turn.may_wait()
}
