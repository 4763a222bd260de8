//! Sorted sets against a simple model, in both forms and through the conversion.

use proptest::prelude::*;

use super::*;
use crate::value::content::Content as _;

fn small() -> Limits {
    entries(8, 6)
}

fn entries(zset_entries: usize, zset_value: usize) -> Limits {
    Limits {
        zset_entries,
        zset_value,
        ..usual()
    }
}

fn usual() -> Limits {
    Limits::default()
}

#[derive(Clone, Debug)]
enum Step {
    Insert(String, f64),
    Remove(String),
    RemoveRanks(usize, usize),
}

/// Scores and names in order.
type Model = Vec<(f64, String)>;

fn text(name: Element<'_>) -> String {
    name.with_text(|text| String::from_utf8_lossy(text).into_owned())
}

fn listed(walk: Walk<'_>) -> Model {
    walk.map(|(name, score)| (score, text(name))).collect()
}

fn sort(model: &mut Model) {
    model.sort_by(|(x, a), (y, b)| x.partial_cmp(y).unwrap().then_with(|| a.cmp(b)));
}

fn compare(zset: &Zset, model: &Model) {
    assert_eq!(zset.len(), model.len());
    assert_eq!(&listed(zset.iter()), model);
    let mut backwards = listed(zset.walk(0..usize::MAX, true));
    backwards.reverse();
    assert_eq!(&backwards, model);
    for (rank, (score, name)) in model.iter().enumerate() {
        assert_eq!(zset.score(name.as_bytes()), Some(*score));
        assert_eq!(zset.rank(name.as_bytes()), Some((rank, *score)));
        let (found, at) = zset.nth(rank).unwrap();
        assert_eq!((text(found), at), (name.clone(), *score));
    }
    assert!(zset.nth(model.len()).is_none());
    assert_eq!(zset.rank(b"nobody"), None);
    for min in [f64::NEG_INFINITY, -1.5, 0.0, 2.0] {
        for max in [-1.5, 0.0, 2.0, 3.25, f64::INFINITY] {
            for (min_out, max_out) in [(false, false), (true, false), (false, true), (true, true)] {
                let range = ScoreRange {
                    min: ScoreBound {
                        score: min,
                        exclusive: min_out,
                    },
                    max: ScoreBound {
                        score: max,
                        exclusive: max_out,
                    },
                };
                let inside = |score: f64| {
                    let low = if min_out { score > min } else { score >= min };
                    let high = if max_out { score < max } else { score <= max };
                    low && high
                };
                let expected: Model = model.iter().filter(|e| inside(e.0)).cloned().collect();
                let ranks = zset.ranks_by_score(&range);
                assert_eq!(listed(zset.walk(ranks, false)), expected, "{range:?}");
            }
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let name = prop_oneof!["[ab]{1,3}", "-?[0-9]{1,2}", "[xy]{7}"];
    let score = prop_oneof![
        (-3..4i8).prop_map(f64::from),
        (-8..16i32).prop_map(|n| f64::from(n) / 4.0),
        Just(-0.0),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(1e300),
        Just(0.1),
    ];
    prop_oneof![
        6 => (name.clone(), score).prop_map(|(name, score)| Step::Insert(name, score)),
        2 => name.prop_map(Step::Remove),
        1 => (0..40usize, 0..6usize).prop_map(|(start, count)| Step::RemoveRanks(start, count)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn behaves_as_a_sorted_list(
        steps in proptest::collection::vec(step(), 1..150),
        limits in prop_oneof![
            Just(small()),
            Just(usual()),
            Just(entries(0, 64)),
        ],
    ) {
        let mut zset = Zset::default();
        let mut model = Model::new();
        for step in steps {
            match step {
                Step::Insert(name, score) => {
                    let at = model.iter().position(|(_, n)| *n == name);
                    let old = at.map(|at| model.remove(at).0);
                    prop_assert_eq!(zset.insert(name.as_bytes(), score, limits), old);
                    model.push((score, name));
                    sort(&mut model);
                }
                Step::Remove(name) => {
                    let at = model.iter().position(|(_, n)| *n == name);
                    prop_assert_eq!(zset.remove(name.as_bytes()), at.map(|at| model.remove(at).0));
                }
                Step::RemoveRanks(start, count) => {
                    let start = start.min(model.len());
                    let end = (start + count).min(model.len());
                    zset.remove_ranks(start..end);
                    model.drain(start..end);
                }
            }
            prop_assert_eq!(zset.len(), model.len());
        }
        compare(&zset, &model);
        compare(&zset.clone(), &model);
        let pairs: Vec<_> = model.iter().rev().map(|(s, n)| (Text::new(n.as_bytes()), *s)).collect();
        compare(&Zset::from_pairs(pairs, limits).unwrap(), &model);
        if let Some(packed) = zset.packed() {
            compare(&Zset::from_packed(packed.clone(), limits).unwrap(), &model);
            compare(&Zset::from_packed(packed.clone(), small()).unwrap(), &model);
        }
    }

    #[test]
    fn ranges_of_names_equal_those_of_a_sorted_list(
        names in proptest::collection::btree_set("[abc]{0,4}", 0..60),
        min in "[abc]{0,4}",
        max in "[abc]{0,4}",
        kinds in (0..4u8, 0..4u8),
    ) {
        let bound = |kind, name| match kind {
            0 => LexBound::Lowest,
            1 => LexBound::Highest,
            2 => LexBound::Including(name),
            _ => LexBound::Excluding(name),
        };
        let range = LexRange {
            min: bound(kinds.0, min.as_bytes()),
            max: bound(kinds.1, max.as_bytes()),
        };
        let inside = |name: &&String| {
            let (min, max) = (min.as_str(), max.as_str());
            let low = match kinds.0 { 0 => true, 1 => false, 2 => name.as_str() >= min, _ => name.as_str() > min };
            let high = match kinds.1 { 0 => false, 1 => true, 2 => name.as_str() <= max, _ => name.as_str() < max };
            low && high
        };
        let expected: Vec<String> = names.iter().filter(inside).cloned().collect();
        for limits in [usual(), small()] {
            let mut zset = Zset::default();
            for name in &names {
                zset.insert(name.as_bytes(), 1.0, limits);
            }
            for backwards in [false, true] {
                let ranks = zset.ranks_by_lex(&range, backwards);
                let mut found: Vec<String> = zset.walk(ranks, backwards).map(|(name, _)| text(name)).collect();
                if backwards {
                    found.reverse();
                }
                prop_assert_eq!(&found, &expected);
            }
        }
    }
}

#[test]
fn the_form_follows_the_limits() {
    let mut zset = Zset::default();
    for n in 0..128 {
        zset.insert(format!("name:{n}").as_bytes(), f64::from(n), usual());
    }
    assert_eq!(zset.encoding(), "listpack");
    zset.insert(b"name:5", 7.5, usual());
    assert_eq!(zset.encoding(), "listpack", "no entry was added");
    zset.insert(b"one more", 3.0, usual());
    assert_eq!(zset.encoding(), "skiplist");
    assert_eq!((zset.len(), zset.score(b"name:5")), (129, Some(7.5)));

    let mut zset = Zset::default();
    zset.insert(&[b'n'; 64], 1.0, usual());
    assert_eq!(zset.encoding(), "listpack");
    zset.update(&[b'n'; 65], usual(), |_| None);
    assert_eq!((zset.encoding(), zset.len()), ("listpack", 1));
    zset.insert(&[b'n'; 65], 1.0, usual());
    assert_eq!((zset.encoding(), zset.len()), ("skiplist", 2));
}

#[test]
fn invalid_entries_are_refused_and_unsorted_ones_sorted() {
    let packed = |texts: &[&str]| {
        let mut packed = Packed::new();
        texts
            .iter()
            .for_each(|text| packed.push(Element::of(text.as_bytes())));
        Zset::from_packed(packed, usual())
    };
    assert!(packed(&["a"]).is_none());
    assert!(packed(&["a", "x"]).is_none());
    assert!(packed(&["a", "nan"]).is_none());
    assert!(packed(&["a", "1", "a", "2"]).is_none());
    let sorted = packed(&["b", "2.5", "c", "-inf", "a", "2.5"]).unwrap();
    let expected = [(f64::NEG_INFINITY, "c"), (2.5, "a"), (2.5, "b")];
    assert_eq!(
        listed(sorted.iter()),
        expected.map(|(s, n)| (s, n.to_owned()))
    );
    let pairs = vec![(Text::new(b"a"), f64::NAN)];
    assert!(Zset::from_pairs(pairs, usual()).is_none());
    for limits in [usual(), small()] {
        let twice = (0..20).map(|n| (Text::new(&[n % 19]), 1.0)).collect();
        assert!(Zset::from_pairs(twice, limits).is_none());
    }
}

#[test]
fn many_members_take_less_than_75_bytes_each() {
    let mut zset = Zset::default();
    for n in 0..250_000u64 {
        let score = (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64;
        zset.insert(format!("member:{n}").as_bytes(), score, usual());
    }
    let each = zset.heap_bytes() as f64 / 250e3;
    assert!((40.0..68.0).contains(&each), "{each} bytes a member");
    for n in 0..249_000 {
        assert!(zset.remove(format!("member:{n}").as_bytes()).is_some());
    }
    assert!(zset.heap_bytes() < 700_000, "{} bytes", zset.heap_bytes());
}
