//! Comparisons of replies with collections. Some ignore the order, or the digits of numbers.

use punctual_resp::{Value, decimal};

use super::{Rule, sorted};
use crate::command::Command;

/// Returns the rule for a geo search. Sorted results must be equal; unsorted results have the order
/// of the server's index. With ANY, this order also determines which results are found.
pub(super) fn of_search(command: &Command) -> Rule {
    let has = |option: &str| (1..command.args().len()).any(|at| command.word(at) == option);
    if has("STORE") || has("STOREDIST") {
        Rule::Exact
    } else if has("ANY") {
        Rule::Extent
    } else if has("COUNT") || has("ASC") || has("DESC") {
        Rule::Exact
    } else {
        Rule::AnyOrder
    }
}

/// Returns the rule for SORT. Unsorted results have the order of the collection. The order of texts
/// that differ only after a NUL byte is undefined, because C's comparison ends there.
pub(super) fn of_sort(command: &Command) -> Rule {
    let words: Vec<String> = (2..command.args().len())
        .map(|at| command.word(at))
        .collect();
    let has = |option: &str| words.iter().any(|word| word == option);
    let by = words.iter().position(|word| word == "BY");
    let unsorted = by
        .and_then(|at| words.get(at + 1))
        .is_some_and(|pattern| !pattern.contains('*'));
    let sorted = !unsorted && !has("ALPHA");
    match (sorted || has("STORE"), has("LIMIT")) {
        (true, _) => Rule::Exact,
        (false, true) => Rule::Extent,
        (false, false) => Rule::AnyOrder,
    }
}

/// Compares the elements and their numbers of occurrences, in any order.
pub(super) fn same_elements(a: &[Value], b: &[Value]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    // A fast path for strings: a reply often has hundreds of them.
    match (all_bytes(a), all_bytes(b)) {
        (Some(mut a), Some(mut b)) => {
            a.sort_unstable();
            b.sort_unstable();
            a == b
        }
        _ => sorted(a) == sorted(b),
    }
}

fn all_bytes(values: &[Value]) -> Option<Vec<&[u8]>> {
    values
        .iter()
        .map(|value| match value {
            Value::Bulk(bytes) => Some(&bytes[..]),
            _ => None,
        })
        .collect()
}

/// Compares the lengths of lists. Two replies that are no lists count as equal.
pub(super) fn same_extent(a: &Value, b: &Value) -> bool {
    match (a.as_slice(), b.as_slice()) {
        (Some(a), Some(b)) => a.len() == b.len(),
        (None, None) => true,
        _ => false,
    }
}

/// Returns true if every element of a sample is in the whole collection. Both may be names, or
/// names with values, flat or as pairs.
pub(super) fn is_drawn_from(sample: &Value, whole: &Value) -> bool {
    let Some(whole) = pairs_of(whole) else {
        return true;
    };
    let names = |name: &Value| whole.iter().any(|(there, _)| *there == name);
    match sample {
        Value::Array(items) | Value::Set(items) => {
            let paired = |items: &[(&Value, &Value)]| {
                items.iter().all(|(name, value)| {
                    whole
                        .iter()
                        .any(|(there, of)| there == name && of.is_none_or(|of| of == *value))
                })
            };
            if let Some(pairs) = nested_pairs(items) {
                return paired(&pairs);
            }
            let flat: Vec<_> = items
                .chunks_exact(2)
                .map(|pair| (&pair[0], &pair[1]))
                .collect();
            items.iter().all(names) || (items.len().is_multiple_of(2) && paired(&flat))
        }
        single => single.is_null() || names(single),
    }
}

/// Returns names with their values from an array of pairs, as RESP3 has it.
fn nested_pairs(items: &[Value]) -> Option<Vec<(&Value, &Value)>> {
    items
        .iter()
        .map(|item| match item {
            Value::Array(pair) if pair.len() == 2 => Some((&pair[0], &pair[1])),
            _ => None,
        })
        .collect()
}

/// Returns the contents of a listing: the names of SMEMBERS, the names with values of HGETALL and
/// ZRANGE WITHSCORES.
fn pairs_of(whole: &Value) -> Option<Vec<(&Value, Option<&Value>)>> {
    Some(match whole {
        Value::Set(items) => items.iter().map(|item| (item, None)).collect(),
        Value::Map(pairs) => pairs
            .iter()
            .map(|(name, value)| (name, Some(value)))
            .collect(),
        Value::Array(items) => match nested_pairs(items) {
            Some(pairs) if !items.is_empty() => pairs
                .into_iter()
                .map(|(name, value)| (name, Some(value)))
                .collect(),
            // A flat list of names, or of names and values: every item may be a name.
            _ => items
                .iter()
                .enumerate()
                .map(|(at, item)| (item, items.get(at + 1)))
                .collect(),
        },
        _ => return None,
    })
}

/// Compares replies. Two texts of one number count as equal if Redis 7.2 writes the number as in
/// `a`.
pub(super) fn same_scores(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_scores(a, b))
        }
        (Value::Bulk(a), Value::Bulk(b)) => a == b || is_text_of_7_2(a, b),
        _ => a == b,
    }
}

/// Returns true if both texts are the same number and `a` is written as in 7.2: with the shortest
/// digits; but a whole number has all its digits, and another number with many digits has an
/// exponent. 0 and -0 are equal: small sorted sets lose the sign of -0, and SORT turns them into
/// large ones.
fn is_text_of_7_2(a: &[u8], b: &[u8]) -> bool {
    let zero = |text: &[u8]| text == b"0" || text == b"-0";
    if zero(a) && zero(b) {
        return true;
    }
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<f64>().ok();
    let (Some(ours), Some(theirs)) = (number(a), number(b)) else {
        return false;
    };
    let mut text = Vec::new();
    decimal::write_f64(&mut text, theirs);
    ours.to_bits() == theirs.to_bits() && a == text
}

/// Compares encodings. `a` is ours: small lists and small sets of texts are listpacks.
pub(super) fn same_encoding(a: &[u8], b: &[u8]) -> bool {
    // Redis's SORT turns a sorted set into a skiplist. 7.4 turns a hash into a listpackex before it
    // checks whether the fields exist.
    let others: [&[u8]; 4] = [b"quicklist", b"hashtable", b"skiplist", b"listpackex"];
    a == b || (a == b"listpack" && others.contains(&b))
}

/// Compares replies about consumer groups. Times of deliveries and idle times may differ by
/// `BY_MS`. A wrong time differs by much more: entries are delivered either at the time of their
/// command, or at a TIME in 1970.
pub(super) fn same_deliveries(a: &Value, b: &Value) -> bool {
    const BY_MS: u64 = 20_000;
    /// Numbers from this one on are Unix times in milliseconds.
    const TIME_MIN: i64 = 10_000_000_000;
    let near = |a: &Value, b: &Value| matches!((a, b), (Value::Int(a), Value::Int(b)) if a.abs_diff(*b) <= BY_MS);
    let named = |name: &Value, a: &Value, b: &Value| match name.as_bytes() {
        Some(b"idle" | b"seen-time") => near(a, b),
        Some(b"radix-tree-nodes") => true,
        _ => same_deliveries(a, b),
    };
    if let Some(a) = without_newer(a) {
        return same_deliveries(&a, b);
    }
    if let Some(b) = without_newer(b) {
        return same_deliveries(a, &b);
    }
    match (a, b) {
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => match (&a[..], &b[..]) {
            // A pending entry: ID, consumer, idle time, number of deliveries.
            (
                [
                    Value::Bulk(id),
                    Value::Bulk(name),
                    idle @ Value::Int(_),
                    count,
                ],
                [Value::Bulk(id2), Value::Bulk(name2), idle2, count2],
            ) => id == id2 && name == name2 && near(idle, idle2) && count == count2,
            _ => (0..a.len()).all(|i| match i {
                0 => same_deliveries(&a[0], &b[0]),
                _ => named(&a[i - 1], &a[i], &b[i]),
            }),
        },
        (Value::Map(a), Value::Map(b)) => {
            let pairs = a.iter().zip(b);
            a.len() == b.len()
                && pairs
                    .into_iter()
                    .all(|((name, a), (name2, b))| name == name2 && named(name, a, b))
        }
        (Value::Int(time), _) if *time >= TIME_MIN => near(a, b),
        _ => a == b,
    }
}

/// Returns the description of a consumer without the fields that 7.2 added, or `None` if it has no
/// such field.
fn without_newer(value: &Value) -> Option<Value> {
    let is_newer = |name: &Value| {
        let name = name.as_bytes();
        name == Some(b"inactive") || name == Some(b"active-time")
    };
    match value {
        Value::Array(items) => {
            let at = items.iter().position(is_newer)?;
            let mut items = items.clone();
            items.drain(at..items.len().min(at + 2));
            Some(Value::Array(items))
        }
        Value::Map(pairs) => {
            let at = pairs.iter().position(|(name, _)| is_newer(name))?;
            let mut pairs = pairs.clone();
            pairs.remove(at);
            Some(Value::Map(pairs))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulks(items: &[&str]) -> Value {
        Value::Array(items.iter().map(Value::bulk).collect())
    }

    #[test]
    fn samples_come_from_the_whole() {
        let whole = bulks(&["a", "1", "b", "2"]);
        assert!(is_drawn_from(&bulks(&["a", "b", "a"]), &whole));
        assert!(is_drawn_from(&bulks(&["b", "2"]), &whole));
        assert!(!is_drawn_from(
            &bulks(&["b", "1"]),
            &Value::Map(vec![
                (Value::bulk("a"), Value::bulk("1")),
                (Value::bulk("b"), Value::bulk("2")),
            ])
        ));
        assert!(!is_drawn_from(&bulks(&["c"]), &whole));
        assert!(is_drawn_from(&Value::NullBulk, &whole));
        assert!(!is_drawn_from(&Value::bulk("c"), &whole));
        let nested = Value::Array(vec![bulks(&["b", "2"])]);
        assert!(is_drawn_from(&nested, &whole));
    }

    #[test]
    fn scores_are_compared_as_numbers() {
        let same = |a: &str, b: &str| same_scores(&Value::bulk(a), &Value::bulk(b));
        assert!(same("0.1", "0.10000000000000001"));
        assert!(same("100000000000000000", "1e+17"));
        assert!(same("1.2345678912345679e+8", "123456789.12345679"));
        assert!(!same("0.10000000000000001", "0.1"), "the wrong way round");
        assert!(!same("0.10", "0.10000000000000001"));
        assert!(!same("0.1", "0.10000000000000002"));
        assert!(!same("1.0", "1"));
        assert!(!same("a", "b"));
    }

    #[test]
    fn unsorted_results_of_sort_have_no_order() {
        let of = |words: &[&str]| of_sort(&Command::of(words));
        assert_eq!(of(&["SORT", "k", "DESC"]), Rule::Exact);
        assert_eq!(of(&["SORT", "k", "BY", "w_*"]), Rule::Exact);
        assert_eq!(of(&["SORT", "k", "BY", "nosort"]), Rule::AnyOrder);
        assert_eq!(of(&["SORT", "k", "ALPHA", "LIMIT", "0", "1"]), Rule::Extent);
    }
}
