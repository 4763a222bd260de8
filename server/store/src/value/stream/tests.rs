//! A stream against a simple model.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Bound, Id, Stream, Trim};
use crate::limits::Limits;

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn slices(fields: &Fields) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> + Clone {
    fields.iter().map(|(name, value)| (&name[..], &value[..]))
}

fn fields() -> impl Strategy<Value = Fields> {
    let text = || prop_oneof!["[ab]{1,3}", "-?[0-9]{1,18}", ".{0,90}"].prop_map(String::into_bytes);
    prop_oneof![
        3 => text().prop_map(|value| vec![(b"f".to_vec(), value)]),
        1 => prop::collection::vec((text(), text()), 1..4),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Push(u64, u64, Fields),
    Delete(prop::sample::Index),
    Trim(Trim),
    Range(u64, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bound = prop_oneof![
        (0..90u64).prop_map(Bound::Len),
        (0..120u64).prop_map(|ms| Bound::MinId(Id::new(ms, 3))),
    ];
    let trim = (bound, any::<bool>(), prop_oneof![Just(0), 1..30u64]);
    let trim = trim.prop_map(|(bound, approximate, limit)| Trim {
        bound,
        approximate,
        limit: if approximate { limit } else { 0 },
    });
    let step = prop_oneof![
        10 => (0..3u64, 0..9u64, fields()).prop_map(|(ms, seq, fields)| Step::Push(ms, seq, fields)),
        3 => any::<prop::sample::Index>().prop_map(Step::Delete),
        1 => trim.prop_map(Step::Trim),
        2 => (0..150u64, 0..150u64).prop_map(|(start, end)| Step::Range(start, end)),
    ];
    prop::collection::vec(step, 1..250)
}

fn shown<'a>(entries: impl Iterator<Item = punctual_rdb::stream::Entry<'a>>) -> Vec<(Id, Fields)> {
    let text = |element: punctual_rdb::Element<'_>| element.with_text(<[u8]>::to_vec);
    entries
        .map(|entry| {
            (
                entry.id,
                entry.pairs().map(|(n, v)| (text(n), text(v))).collect(),
            )
        })
        .collect()
}

proptest! {
    #[test]
    fn behaves_as_a_map(steps in steps(), entries in 0..12usize, bytes in prop_oneof![Just(0usize), 60..600usize]) {
        let limits = Limits { stream_entries: entries, stream_bytes: bytes, ..Limits::default() };
        let (mut stream, mut model) = (Stream::new(), BTreeMap::new());
        let (mut added, mut last) = (0, Id::MIN);
        for step in steps {
            match step {
                Step::Push(ms, seq, fields) => {
                    let id = if ms == 0 { Id::new(last.ms, last.seq + 1 + seq) } else { Id::new(last.ms + ms, seq) };
                    stream.push(id, slices(&fields), &limits);
                    model.insert(id, fields);
                    (added, last) = (added + 1, id);
                }
                Step::Delete(which) => {
                    let id = match model.len() {
                        0 => last,
                        len => *model.keys().nth(which.index(len)).unwrap(),
                    };
                    prop_assert_eq!(stream.contains(id), model.contains_key(&id));
                    prop_assert_eq!(stream.delete(id), model.remove(&id).is_some());
                    prop_assert!(!stream.delete(id));
                }
                Step::Trim(trim) => {
                    let removed = stream.trim(trim);
                    let before = model.len() as u64;
                    let keeps = |model: &BTreeMap<Id, Fields>| match trim.bound {
                        Bound::Len(max) => model.len() as u64 <= max,
                        Bound::MinId(min) => model.keys().next().is_none_or(|first| *first >= min),
                    };
                    while !keeps(&model) && (!trim.approximate || before - (model.len() as u64) < removed) {
                        model.pop_first();
                    }
                    prop_assert_eq!(before - model.len() as u64, removed);
                    prop_assert!(trim.limit == 0 || removed <= trim.limit);
                }
                Step::Range(start, end) => {
                    let (start, end) = (Id::new(start, 0), Id::new(end, u64::MAX));
                    let wanted: Vec<_> = model
                        .iter()
                        .filter(|(id, _)| **id >= start && **id <= end)
                        .map(|(id, fields)| (*id, fields.clone()))
                        .collect();
                    prop_assert_eq!(shown(stream.range(start, end)), wanted.clone());
                    let mut back = shown(stream.range_back(start, end));
                    back.reverse();
                    prop_assert_eq!(back, wanted);
                }
            }
            prop_assert_eq!(stream.len(), model.len() as u64);
            prop_assert_eq!(stream.first_id(), model.keys().next().copied().unwrap_or_default());
            prop_assert_eq!(stream.last_entry_id(), model.keys().next_back().copied());
            prop_assert_eq!((stream.added(), stream.last_id()), (added, last));
            prop_assert!(stream.blocks.iter().all(|block| block.live() > 0));
        }
    }
}
