//! Blocks compared with a simple model, and malformed blocks.

use proptest::prelude::*;

use super::{Block, StreamId};
use crate::corrupt::{Corrupt, Flaw};
use crate::listpack::{self, Element};

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn slices(pairs: &Fields) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> + Clone {
    pairs.iter().map(|(field, value)| (&field[..], &value[..]))
}

fn fields() -> impl Strategy<Value = Fields> {
    let text = || prop_oneof!["[ab]", "-?[0-9]{1,19}", ".{0,80}"].prop_map(String::into_bytes);
    prop_oneof![
        2 => text().prop_map(|value| vec![(b"12".to_vec(), value)]),
        1 => prop::collection::vec((text(), text()), 0..5),
    ]
}

fn id(ms: u64, seq: u64) -> StreamId {
    StreamId { ms, seq }
}

fn texts<B: AsRef<[u8]>>(block: &Block<B>, back: bool) -> Vec<(StreamId, bool, Fields)> {
    let text = |element: Element<'_>| element.with_text(<[u8]>::to_vec);
    let entry = |entry: super::Entry<'_>| {
        let pairs = entry.pairs().map(|(f, v)| (text(f), text(v)));
        (entry.id, entry.deleted, pairs.collect())
    };
    if back {
        let mut all: Vec<_> = block.entries().rev().map(entry).collect();
        all.reverse();
        all
    } else {
        block.entries().map(entry).collect()
    }
}

proptest! {
    #[test]
    fn blocks_agree_with_a_list(
        first in any::<(u64, u64)>(),
        entries in prop::collection::vec((0u64..3, any::<u64>(), fields()), 1..160),
        deletions in prop::collection::vec(any::<prop::sample::Index>(), 0..100),
    ) {
        let mut model: Vec<(StreamId, bool, Fields)> = Vec::new();
        let mut last = id(first.0 >> 1, first.1);
        for (ms, seq, fields) in entries {
            let next = match ms {
                0 => id(last.ms, last.seq.saturating_add(seq % 5)),
                _ => id(last.ms.saturating_add(ms), seq),
            };
            if model.is_empty() || next > last {
                model.push((next, false, fields));
                last = next;
            }
        }
        let mut block = Block::new(model[0].0, 0, slices(&model[0].2));
        for (id, _, fields) in &model[1..] {
            block.append(*id, slices(fields));
        }
        for deletion in deletions {
            let which = deletion.index(model.len());
            let at = block.find(model[which].0).expect("an entry").at;
            prop_assert_eq!(block.delete(at), !model[which].1);
            model[which].1 = true;
        }
        prop_assert_eq!(texts(&block, false), model.clone());
        prop_assert_eq!(texts(&block, true), model.clone());
        let deleted = model.iter().filter(|(_, deleted, _)| *deleted).count();
        prop_assert_eq!((block.live(), block.deleted()), (model.len() - deleted, deleted));
        prop_assert_eq!((block.id(), block.last_id()), (model[0].0, last));
        prop_assert!(block.find(id(last.ms, last.seq.wrapping_add(1))).is_none());

        let mut listpack = Vec::new();
        block.write_listpack(&mut listpack);
        prop_assert_eq!(listpack.len(), block.listpack_len());
        let read = Block::read(block.id(), &listpack).expect("ours").to_owned();
        prop_assert!(read == block);

        // Iterates from both ends alternately.
        let (mut entries, mut count) = (block.entries(), 0);
        while entries.next().is_some() {
            count += 1 + usize::from(entries.next_back().is_some());
        }
        prop_assert_eq!(count, model.len());
    }

    #[test]
    fn damaged_blocks_are_refused_or_consistent(
        changes in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..4),
    ) {
        let mut listpack = Vec::new();
        sample().write_listpack(&mut listpack);
        for (at, byte) in changes {
            let at = at.index(listpack.len());
            listpack[at] = byte;
        }
        if let Ok(block) = Block::read(id(5, 5), &listpack) {
            let all = texts(&block, false);
            prop_assert_eq!(all.len(), block.live() + block.deleted());
            prop_assert_eq!(&all, &texts(&block, true));
            prop_assert!(all.is_sorted_by(|a, b| a.0 < b.0) && all[0].0 >= id(5, 5));
        }
    }
}

fn sample() -> Block {
    let pair = |field: &str, value: &str| vec![(field.into(), value.into())];
    let mut block = Block::new(id(5, 5), 0, slices(&pair("temp", "20")));
    block.append(id(6, 0), slices(&pair("temp", "21")));
    block.append(id(6, 1), slices(&pair("wind", "strong")));
    block
}

#[test]
fn flaws() {
    type Row = (&'static [i64], Flaw);
    let rows: [Row; 12] = [
        (&[1], Flaw::Master),
        (&[-1, 0, 0, 0], Flaw::Master),
        (&[1, 0, 1], Flaw::Master),
        (&[1, 0, 0, 5], Flaw::Master),
        (&[1, 0, i64::MAX, 1, 0], Flaw::Master),
        (&[0, 0, 0, 0], Flaw::Count),
        (&[2, 0, 0, 0, 2, 0, 0, 3], Flaw::Count),
        (&[0, 1, 0, 0, 2, 0, 0, 3], Flaw::Count),
        (&[1, 0, 0, 0, 4, 0, 0, 3], Flaw::StreamEntry),
        (&[1, 0, 0, 0, 2, 0, 0, 4], Flaw::StreamEntry),
        (&[1, 0, 0, 0, 0, 0, 0, i64::MAX, 4], Flaw::StreamEntry),
        (&[2, 0, 0, 0, 2, 1, 0, 3, 2, 1, 0, 3], Flaw::StreamOrder),
    ];
    let read = |numbers: &[i64]| {
        let mut entries = Vec::new();
        numbers
            .iter()
            .for_each(|n| listpack::encode_int(&mut entries, *n));
        let whole = listpack::wrap(&entries, numbers.len());
        Block::read(id(1, 1), &whole).map(|block| block.live())
    };
    assert_eq!(read(&[1, 0, 0, 0, 2, 0, 0, 3]), Ok(1));
    assert_eq!(read(&[1, 1, 0, 0, 3, 0, 0, 3, 2, 1, -1, 3]), Ok(1));
    for (numbers, flaw) in rows {
        let error: Corrupt = read(numbers).unwrap_err();
        assert_eq!(error.reason, flaw, "{numbers:?}");
    }
    // The entry's ID is below the block's ID.
    assert!(read(&[1, 0, 0, 0, 2, 0, -1, 3]).is_err());
}
