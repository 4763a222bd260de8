//! SORT and SORT_RO: sort the elements of a list, a set or a sorted set by themselves or by weights
//! in other keys. `options` parses the options, `pattern` looks up the other keys.
//!
//! The command compares texts byte by byte, as Redis does without a locale. It locks every shard if
//! a pattern can name keys that are not among its arguments.

mod options;
mod pattern;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::ops::Range;

use punctual_resp::{Args, Reply};

use options::Options;
use pattern::Pattern;

use crate::error::{Error, c_string};
use crate::events::Classes;
use crate::source::Source;
use crate::spec::{Flags, Group, OptionKeys};
use crate::turn::{Command, Cx, Handler};
use crate::value::list::{End, List, PieceSize};
use crate::value::text::Text;
use crate::value::zset::parse_score;
use crate::value::{Kind, Value};

/// The family's rows.
pub static COMMANDS: &[Command] = &[
    row("sort", Flags::WRITE.or(Flags::DENYOOM), sort)
        .option_keys(&OptionKeys {
            keyed: &["store"],
            ..OPTIONS
        })
        .access(&["RO access", "RO access", "OW update"])
        .since("1.0.0")
        .complexity(COST)
        .summary(
            "Sorts the elements of a list, a set or a sorted set, and optionally stores the \
             result.",
        )
        .syntax(
            "key [by-pattern: BY pattern:pattern1] [LIMIT (offset count)] [get-pattern: GET \
             pattern:pattern1] ... [order: ASC | DESC] [sorting: ALPHA] [STORE \
             destination:key2]",
        ),
    row("sort_ro", Flags::READONLY, sort_ro)
        .option_keys(&OPTIONS)
        .access(&["RO access", "RO access"])
        .since("7.0.0")
        .complexity(COST)
        .summary("Returns the sorted elements of a list, a set or a sorted set.")
        .syntax(
            "key [by-pattern: BY pattern:pattern1] [LIMIT (offset count)] [get-pattern: GET \
             pattern:pattern1] ... [order: ASC | DESC] [sorting: ALPHA]",
        ),
];

const OPTIONS: OptionKeys = OptionKeys {
    first: Some(1),
    from: 2,
    patterned: &["by", "get"],
    skipped: &[("limit", 2)],
    ..OptionKeys::NONE
};

const COST: &str = "O(N+M*log(M)) where N is the number of elements to sort and M is the number of elements returned; \
                    O(N) without sorting.";

const NOT_NUMBERS: Error = Error::fixed("ERR One or more scores can't be converted into double");

const fn row(name: &'static str, flags: Flags, handler: Handler) -> Command {
    Command::new(name, -2, flags, Group::Generic, handler).categories(&[
        "set",
        "sortedset",
        "list",
        "dangerous",
    ])
}

fn sort(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    run(cx, &args[1], &Options::parse(args, true)?, reply)
}

fn sort_ro(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    run(cx, &args[1], &Options::parse(args, false)?, reply)
}

fn run(cx: &mut Cx, key: &[u8], options: &Options<'_>, reply: &mut Reply) -> Result<(), Error> {
    if cx.store().is_cluster() {
        options.check_slots(cx.turn.slot_of(key))?;
    }
    let elements = elements(cx, key, options)?;
    let part = options.part(elements.len());
    let sorted = match options.order(elements.is_set, cx.turn.source() == Source::Script) {
        Order::Unsorted => elements.texts.into_iter().skip(part.start),
        Order::Sorted { by, alpha } => {
            let texts = elements.texts;
            let sorted = if alpha {
                by_text(cx, texts, by, options.descending, part.clone())
            } else {
                by_number(cx, texts, by, options.descending, part.clone())?
            };
            sorted.into_iter().skip(part.start)
        }
    };
    let sorted = sorted.take(part.len());
    match options.store {
        None => {
            reply.array(part.len() * options.get.len().max(1));
            for element in sorted {
                each_result(
                    cx,
                    &options.get,
                    element.as_bytes(),
                    |answer| match answer {
                        Some(text) => reply.bulk(text),
                        None => reply.null(),
                    },
                );
            }
        }
        Some(target) => {
            let piece = PieceSize::of(cx.limits().list_piece);
            let mut list = List::new();
            for element in sorted {
                each_result(cx, &options.get, element.as_bytes(), |answer| {
                    list.push(
                        End::Tail,
                        std::iter::once(answer.unwrap_or_default()),
                        piece,
                    );
                });
            }
            let len = list.len();
            store(cx, target, list);
            reply.int(len as i64);
        }
    }
    Ok(())
}

/// Stores the result, or deletes the key if the result is empty.
fn store(cx: &mut Cx, target: &[u8], list: List) {
    let len = list.len();
    if len > 0 {
        cx.overwrite(target, list.into_value());
        cx.commit(target, Classes::LIST, "sortstore", len as u64);
    } else if cx.remove(target).is_some() {
        cx.commit(target, Classes::GENERIC, "del", 1);
    }
}

/// Calls `visit` with each result for an element: the element, or the value that each GET pattern
/// finds.
fn each_result(
    cx: &mut Cx,
    get: &[Pattern<'_>],
    element: &[u8],
    mut visit: impl FnMut(Option<&[u8]>),
) {
    if get.is_empty() {
        return visit(Some(element));
    }
    for pattern in get {
        pattern.look_up(cx, element, &mut visit);
    }
}

/// Order of the results of SORT.
enum Order<'a> {
    Unsorted,
    Sorted {
        by: Option<&'a Pattern<'a>>,
        /// Compares texts instead of numbers.
        alpha: bool,
    },
}

/// Elements to sort.
struct Elements {
    texts: Vec<Text>,
    is_set: bool,
}

impl Elements {
    fn len(&self) -> usize {
        self.texts.len()
    }
}

/// Returns the elements of a key. Lists and sorted sets keep their order, reversed for DESC without
/// sorting.
fn elements(cx: &mut Cx, key: &[u8], options: &Options<'_>) -> Result<Elements, Error> {
    let backwards = options.constant && options.descending;
    let mut is_set = false;
    let texts = match cx.values([key], |_| true)?[0] {
        None => Vec::new(),
        Some(Value::List(list)) if backwards => {
            let last = list.len().saturating_sub(1);
            list.walk(last, End::Head).map(Text::of).collect()
        }
        Some(Value::List(list)) => list.iter().map(Text::of).collect(),
        Some(Value::Set(set)) => {
            is_set = true;
            set.iter().map(Text::of).collect()
        }
        Some(Value::Zset(zset)) => zset
            .walk(0..zset.len(), backwards)
            .map(|(name, _)| Text::of(name))
            .collect(),
        Some(_) => return Err(Error::WrongType),
    };
    Ok(Elements { texts, is_set })
}

/// Sorts by numbers, and equal numbers by their texts.
fn by_number(
    cx: &mut Cx,
    texts: Vec<Text>,
    by: Option<&Pattern<'_>>,
    descending: bool,
    part: Range<usize>,
) -> Result<Vec<Text>, Error> {
    let mut all_numbers = true;
    let mut weigh = |text: &[u8]| {
        number(text).unwrap_or_else(|| {
            all_numbers = false;
            0.0
        })
    };
    let mut weighed: Vec<(f64, Text)> = Vec::with_capacity(texts.len());
    for text in texts {
        let mut weight = 0.0;
        match by {
            None => weight = weigh(text.as_bytes()),
            Some(by) => by.look_up(cx, text.as_bytes(), |found| {
                weight = found.map_or(0.0, &mut weigh);
            }),
        }
        weighed.push((weight, text));
    }
    if !all_numbers {
        return Err(NOT_NUMBERS);
    }
    sort_part(&mut weighed, descending, part, |a, b| {
        let by_weight = a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal);
        by_weight.then_with(|| a.1.as_bytes().cmp(b.1.as_bytes()))
    });
    Ok(weighed.into_iter().map(|(_, text)| text).collect())
}

/// Sorts by texts. With `by`, these are the elements' weights. Otherwise they are the elements
/// themselves, and only `part` of the result is in order. Elements without a weight come
/// first, or last if `descending`.
fn by_text(
    cx: &mut Cx,
    mut texts: Vec<Text>,
    by: Option<&Pattern<'_>>,
    descending: bool,
    part: Range<usize>,
) -> Vec<Text> {
    let Some(by) = by else {
        sort_part(&mut texts, descending, part, |a, b| {
            a.as_bytes().cmp(b.as_bytes())
        });
        return texts;
    };
    let mut weighed: Vec<(Option<Text>, Text)> = Vec::with_capacity(texts.len());
    for text in texts {
        let mut weight = None;
        by.look_up(cx, text.as_bytes(), |found| weight = found.map(Text::new));
        weighed.push((weight, text));
    }
    // The sort is stable: elements with equal weights keep their order.
    weighed.sort_by(|(a, _), (b, _)| {
        let order = a
            .as_ref()
            .map(Text::as_bytes)
            .cmp(&b.as_ref().map(Text::as_bytes));
        directed(order, descending)
    });
    weighed.into_iter().map(|(_, text)| text).collect()
}

fn directed(order: Ordering, descending: bool) -> Ordering {
    if descending { order.reverse() } else { order }
}

/// Sorts the elements whose final places are in `part`. Elements outside of it stay unsorted. O(n +
/// m log m) for m of n elements.
fn sort_part<T>(
    all: &mut [T],
    descending: bool,
    part: Range<usize>,
    compare: impl Fn(&T, &T) -> Ordering,
) {
    let compare = |a: &T, b: &T| directed(compare(a, b), descending);
    if part.is_empty() {
        return;
    }
    let Range { start, end } = part;
    let mut rest = all;
    if end < rest.len() {
        (rest, _, _) = rest.select_nth_unstable_by(end, compare);
    }
    if start > 0 && start < rest.len() {
        let (_, first, after) = rest.select_nth_unstable_by(start, compare);
        debug_assert!(after.iter().all(|b| compare(first, b) != Ordering::Greater));
        rest = after;
    }
    rest.sort_unstable_by(compare);
}

/// Parses a number as `strtod` does: skips leading spaces, and ends at a NUL. The empty text is 0.
fn number(text: &[u8]) -> Option<f64> {
    let text = c_string(text);
    if text.is_empty() {
        return Some(0.0);
    }
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = text.iter().position(|byte| !is_space(byte))?;
    parse_score(&text[start..])
}
