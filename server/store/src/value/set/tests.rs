//! Sets against a `BTreeSet`, in all forms and across conversions.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::value::content::Content as _;

const LIMITS: Limits = Limits {
    uses: crate::uses::Uses::Last,
    eviction: None,
    list_piece: -2,
    hash_entries: 0,
    hash_value: 0,
    set_ints: 12,
    set_entries: 8,
    set_value: 30,
    zset_entries: 0,
    zset_value: 0,
    hll_sparse_bytes: 0,
    stream_bytes: 0,
    stream_entries: 0,
    idmp_duration_s: 100,
    idmp_size_max: 100,
};

fn text(element: Element<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    element.write_text(&mut out);
    out
}

fn texts(set: &Set) -> BTreeSet<Vec<u8>> {
    let all: Vec<Vec<u8>> = set.iter().map(text).collect();
    let unique: BTreeSet<Vec<u8>> = all.iter().cloned().collect();
    assert_eq!(all.len(), unique.len());
    assert_eq!(all.len(), set.len());
    unique
}

fn random(below: u32) -> u32 {
    rand::random_range(0..below)
}

fn member() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => (-20..20i64).prop_map(|n| n.to_string().into_bytes()),
        2 => any::<i64>().prop_map(|n| n.to_string().into_bytes()),
        4 => "[a-d]{0,2}".prop_map(String::into_bytes),
        1 => "0[0-9]|-0|\\+1|[a-b]{29,31}".prop_map(String::into_bytes),
    ]
}

/// Returns Redis's name of the form of a set after adding `member` to it. Before, the set had the
/// form `form`; `len` is the number of members afterwards.
fn form_after(form: &'static str, member: &[u8], len: usize, longest_int: usize) -> &'static str {
    let int = parse_i64(member).is_some();
    let fits = len <= LIMITS.set_entries && member.len() <= LIMITS.set_value;
    match form {
        "intset" if int && len <= LIMITS.set_ints => "intset",
        "intset" if !int && fits && longest_int <= LIMITS.set_value => "listpack",
        "listpack" if fits => "listpack",
        _ => "hashtable",
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn behaves_as_a_sorted_set(
        ints_only in any::<bool>(),
        steps in proptest::collection::vec((member(), 0..4u8), 1..60),
    ) {
        let mut set: Option<Set> = None;
        let mut model: BTreeSet<Vec<u8>> = BTreeSet::new();
        for (member, kind) in steps {
            if ints_only && parse_i64(&member).is_none() && kind != 0 {
                continue;
            }
            let set = set.get_or_insert_with(|| Set::for_members(&member, 1, &LIMITS));
            prop_assert_eq!(set.contains(&member), model.contains(&member));
            prop_assert_eq!(set.contains_element(Element::of(&member)), model.contains(&member));
            if kind == 0 {
                prop_assert_eq!(set.remove(&member), model.remove(&member));
            } else {
                let form = set.encoding();
                let added = model.insert(member.clone());
                prop_assert_eq!(set.insert(&member, &LIMITS), added);
                let expected = if added { form_after(form, &member, model.len(), 20) } else { form };
                prop_assert_eq!(set.encoding(), expected);
            }
            prop_assert_eq!(set.len(), model.len());
            prop_assert_eq!(texts(set), model.clone());
            if let View::Packed(entries) = set.view() {
                prop_assert_eq!(punctual_rdb::listpack::validate_entries(entries.entries()), Ok(model.len()));
            }
        }
    }

    #[test]
    fn samples_have_distinct_members(
        members in proptest::collection::btree_set(member(), 2..40),
        count in 0..40usize,
    ) {
        let mut set = Set::from_members(members.iter().map(|m| Element::of(m)), members.len(), &LIMITS);
        let count = count % members.len();
        let mut drawn = Vec::new();
        set.sample(count, random, |element| drawn.push(text(element)));
        let distinct: BTreeSet<Vec<u8>> = drawn.iter().cloned().collect();
        prop_assert_eq!((drawn.len(), distinct.len()), (count, count));
        prop_assert!(distinct.is_subset(&members));

        let mut taken = BTreeSet::new();
        set.take_some(count, &LIMITS, random, |element| assert!(taken.insert(text(element))));
        prop_assert_eq!(taken.len(), count);
        prop_assert_eq!(texts(&set), &members - &taken);
    }
}

#[test]
fn the_expected_members_select_the_form() {
    for (first, about, form) in [
        ("1", 12, "intset"),
        ("1", 13, "hashtable"),
        ("x", 8, "listpack"),
        ("x", 9, "hashtable"),
    ] {
        let set = Set::for_members(first.as_bytes(), about, &LIMITS);
        assert_eq!(set.encoding(), form, "{first} {about}");
    }
    let limits = Limits {
        set_entries: 20,
        ..LIMITS
    };
    let set = Set::for_members(b"1", 13, &limits);
    assert_eq!(
        set.encoding(),
        "listpack",
        "too many integers for an intset"
    );
    assert!(!Set::empty_ints().outgrown_by(12, &LIMITS));
    assert!(Set::empty_ints().outgrown_by(13, &LIMITS));
    assert!(Set::default().outgrown_by(9, &LIMITS));
    assert_eq!(Set::empty_ints().become_table().members().len(), 0);
}

#[test]
fn a_table_of_few_integers_converts_to_ints() {
    let ten: Vec<String> = (0..10).map(|n| n.to_string()).collect();
    let mut set = Set::default();
    for member in &ten {
        set.insert(member.as_bytes(), &LIMITS);
    }
    assert_eq!(set.encoding(), "hashtable");
    set.become_ints(&LIMITS);
    assert_eq!(set.encoding(), "intset");
    assert_eq!(set.len(), 10);
    set.insert(b"x", &LIMITS);
    set.become_ints(&LIMITS);
    assert_eq!(set.encoding(), "hashtable", "a member is not an integer");
}

/// Checks that each of `len` items was drawn about equally often, within 6 standard deviations: a
/// fair draw fails about once in 10^7 runs.
fn assert_uniform(counts: &BTreeMap<Vec<u8>, u32>, len: usize, draws: u32) {
    let chance = 1.0 / len as f64;
    let mean = f64::from(draws) * chance;
    let deviation = (mean * (1.0 - chance)).sqrt();
    assert_eq!(counts.len(), len);
    for (member, &count) in counts {
        let off = (f64::from(count) - mean).abs();
        assert!(off < 6.0 * deviation, "{member:?}: {count} of {mean}");
    }
}

#[test]
fn every_member_has_equal_probability() {
    let limits = Limits::default();
    let ints: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    let texts: Vec<String> = (0..40).map(|n| format!("m{n}")).collect();
    let many: Vec<String> = (0..20_000).map(|n| format!("m{n}")).collect();
    for (members, form) in [
        (&ints, "intset"),
        (&texts, "listpack"),
        (&many, "hashtable"),
    ] {
        let members = members.iter().map(|m| Element::of(m.as_bytes()));
        let mut set = Set::from_members(members, 0, &limits);
        assert_eq!(set.encoding(), form);
        // A table with few members left in many pages.
        for n in 0..20_000 {
            if n % 500 != 7 && form == "hashtable" {
                set.remove(format!("m{n}").as_bytes());
            }
        }
        assert_eq!(set.len(), 40);
        let draws = 20_000;
        let mut counts = BTreeMap::new();
        for _ in 0..draws {
            let (_, element) = set.pick(random).unwrap();
            *counts.entry(text(element)).or_default() += 1;
        }
        assert_uniform(&counts, 40, draws);
        for each in [4, 30] {
            let mut counts = BTreeMap::new();
            for _ in 0..4000 {
                set.sample(each, random, |element| {
                    *counts.entry(text(element)).or_default() += 1;
                });
            }
            assert_uniform(&counts, 40, 4000 * each as u32);
            let mut counts = BTreeMap::new();
            for _ in 0..2000 {
                let mut left = set.clone();
                left.take_some(each, &limits, random, |element| {
                    *counts.entry(text(element)).or_default() += 1;
                });
                assert_eq!(left.len(), 40 - each);
            }
            assert_uniform(&counts, 40, 2000 * each as u32);
        }
    }
}

#[test]
fn the_rest_of_a_table_may_be_compact() {
    let limits = Limits::default();
    let members: Vec<String> = (0..1000).map(|n| format!("m{n}")).collect();
    let full = Set::from_members(
        members.iter().map(|m| Element::of(m.as_bytes())),
        members.len(),
        &limits,
    );
    for (count, form) in [(800, "hashtable"), (880, "listpack"), (999, "listpack")] {
        let mut set = full.clone();
        set.take_some(count, &limits, random, |_| ());
        assert_eq!((set.encoding(), set.len()), (form, 1000 - count));
    }
}

#[test]
fn a_million_members_take_less_than_fifty_bytes_each() {
    let mut set = Set::default();
    let limits = Limits::default();
    for n in 0..1_000_000u32 {
        set.insert(format!("element:{n:012}").as_bytes(), &limits);
    }
    let each = set.heap_bytes() as f64 / 1e6;
    assert!(each < 42.0, "{each}");
    set.insert(&[b'x'; 1000], &limits);
    assert!(set.heap_bytes() as f64 > each * 1e6 + 999.0);
    let mut small = Set::empty_ints();
    for n in 0..100 {
        small.insert(n.to_string().as_bytes(), &limits);
    }
    assert_eq!(small.heap_bytes(), 16 + 8 + 200);
}
