use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::value::content::Content as _;

fn text(element: Element<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    element.write_text(&mut text);
    text
}

fn contents(hash: &Hash) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let pairs: Vec<_> = hash.iter().map(|e| (text(e.name), text(e.value))).collect();
    let map: BTreeMap<_, _> = pairs.iter().cloned().collect();
    assert_eq!(map.len(), pairs.len(), "no duplicate name");
    map
}

fn limits(entries: usize, value: usize) -> Limits {
    Limits {
        hash_entries: entries,
        hash_value: value,
        ..Limits::default()
    }
}

/// Names and values: short texts, long texts, and texts that are stored as integers.
fn word() -> impl Strategy<Value = Vec<u8>> {
    "[a-d]{0,3}|-?[0-9]{1,2}|[xy]{9,30}".prop_map(String::into_bytes)
}

proptest! {
    #[test]
    fn behaves_as_a_map(
        entries in 0..12usize,
        value in 4..20usize,
        steps in proptest::collection::vec((0..4u8, word(), word()), 1..120),
    ) {
        let limits = limits(entries, value);
        let mut hash = Hash::new();
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let mut outgrown = false;
        for (kind, name, text_of) in steps {
            if kind == 0 {
                prop_assert_eq!(hash.remove(&name), model.remove(&name).is_some());
            } else if kind == 1 {
                let by = name.len() as i64;
                let old = model.get(&name).map_or(Some(0), |v| std::str::from_utf8(v).ok()?.parse().ok());
                let canonical = model.get(&name).is_none_or(|v| old.is_some_and(|n: i64| n.to_string().as_bytes() == &v[..]));
                match old.filter(|_| canonical) {
                    Some(old) => {
                        prop_assert_eq!(hash.add(&name, by, &limits), Ok(old + by));
                        model.insert(name.clone(), (old + by).to_string().into_bytes());
                        outgrown |= name.len() > value;
                    }
                    None => prop_assert!(hash.add(&name, by, &limits).is_err()),
                }
            } else {
                let created = hash.set(&name, &text_of, false, &limits);
                outgrown |= name.len() > value || text_of.len() > value;
                prop_assert_eq!(created, model.insert(name, text_of).is_none());
            }
            outgrown |= model.len() > entries;
            prop_assert_eq!(hash.len(), model.len());
            prop_assert_eq!(hash.encoding(), if outgrown { "hashtable" } else { "listpack" });
            prop_assert_eq!(contents(&hash), model.clone());
            for (name, value) in &model {
                let (found, deadline) = hash.get(name).unwrap();
                prop_assert_eq!((text(found), deadline), (value.clone(), NEVER));
            }
            prop_assert!(hash.get(b"nobody").is_none());
        }
    }

    #[test]
    fn is_built_from_pairs(
        entries in 0..12usize,
        pairs in proptest::collection::vec((word(), word()), 0..30),
    ) {
        let limits = limits(entries, 64);
        let slices = pairs.iter().map(|(n, v)| (&n[..], &v[..]));
        let hash = Hash::of_pairs(slices.clone(), &limits);
        let model: BTreeMap<_, _> = pairs.iter().cloned().collect();
        prop_assert_eq!(contents(&hash), model.clone());
        prop_assert_eq!(hash.packed().is_some(), pairs.len() <= entries);

        let loaded = Hash::of_entries(slices.clone().map(|(n, v)| (n, v, NEVER)), &limits);
        prop_assert_eq!(loaded.is_none(), model.len() < pairs.len(), "a duplicate name is refused");
        if let Some(loaded) = loaded {
            prop_assert_eq!(contents(&loaded), model);
            prop_assert_eq!(loaded.packed().is_some(), pairs.len() <= entries);
        }
    }
}

#[test]
fn foreign_entries_are_validated() {
    let mut packed = Packed::new();
    for word in ["a", "1", "b", "2"] {
        packed.push(Element::of(word.as_bytes()));
    }
    let small = limits(2, 8);
    let hash = Hash::of_packed(packed.entries(), 4, &small).unwrap();
    assert_eq!(hash.packed().unwrap().entries(), packed.entries());
    let hash = Hash::of_packed(packed.entries(), 4, &limits(1, 8)).unwrap();
    assert_eq!((hash.encoding(), hash.len()), ("hashtable", 2));
    packed.push(Element::of(b"a"));
    assert!(
        Hash::of_packed(packed.entries(), 5, &small).is_none(),
        "not pairs"
    );
    packed.push(Element::of(b"3"));
    assert!(
        Hash::of_packed(packed.entries(), 6, &small).is_none(),
        "a duplicate name"
    );
}

#[test]
fn deadlines_are_kept() {
    let entries = [(&b"a"[..], &b"1"[..], 50), (b"b", b"2", NEVER)];
    let hash = Hash::of_entries(entries, &limits(4, 8)).unwrap();
    assert_eq!((hash.encoding(), hash.with_deadline()), ("listpackex", 1));
    let copy = hash.clone();
    assert_eq!(copy.get(b"a"), Some((Element::Int(1), 50)));
    assert_eq!(copy.get(b"b"), Some((Element::Int(2), NEVER)));
    let hash = Hash::of_entries(entries, &limits(1, 8)).unwrap();
    assert_eq!((hash.encoding(), hash.with_deadline()), ("hashtable", 1));
}

#[test]
fn a_table_that_outgrew_the_limits_stays_large() {
    let limits = limits(2, 8);
    let mut hash = Hash::new();
    hash.become_table();
    assert_eq!(hash.encoding(), "listpackex");
    for name in ["a", "b"] {
        hash.set(name.as_bytes(), b"v", false, &limits);
        assert_eq!(hash.encoding(), "listpackex");
    }
    hash.set(b"a", b"too long for a block", false, &limits);
    assert_eq!(hash.encoding(), "hashtable");
    assert!(hash.remove(b"a"));
    hash.become_table();
    assert_eq!(hash.encoding(), "hashtable");
}

#[test]
fn a_hash_takes_little_more_than_its_texts() {
    let pairs = |n: u32| (0..n).map(|i| (format!("field:{i}").into_bytes(), b"value".to_vec()));
    let all: Vec<_> = pairs(5).collect();
    let hash = Hash::of_pairs(
        all.iter().map(|(n, v)| (&n[..], &v[..])),
        &Limits::default(),
    );
    // The count takes two bytes; each text of a pair takes its length and two bytes.
    assert_eq!(hash.heap_bytes(), 2 + 5 * (7 + 2 + 5 + 2));
    let all: Vec<_> = pairs(100_000).collect();
    let hash = Hash::of_pairs(
        all.iter().map(|(n, v)| (&n[..], &v[..])),
        &Limits::default(),
    );
    assert!(hash.heap_bytes() < 100_000 * 80, "{}", hash.heap_bytes());
}
