use proptest::prelude::*;

use super::*;
use crate::{Corrupt, Flaw};

fn encoded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out, text);
    assert_eq!(out.len(), encoded_len(text));
    out
}

#[test]
fn entries_have_the_bytes_of_the_specification() {
    for (text, bytes) in [
        ("0", &[0x00, 1][..]),
        ("127", &[0x7F, 1]),
        ("128", &[0xC0, 0x80, 2]),
        ("-1", &[0xDF, 0xFF, 2]),
        ("4095", &[0xCF, 0xFF, 2]),
        ("-4096", &[0xD0, 0x00, 2]),
        ("4096", &[0xF1, 0x00, 0x10, 3]),
        ("-32769", &[0xF2, 0xFF, 0x7F, 0xFF, 4]),
        ("8388608", &[0xF3, 0x00, 0x00, 0x80, 0x00, 5]),
        (
            "-2147483649",
            &[0xF4, 0xFF, 0xFF, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 9],
        ),
        ("", &[0x80, 1]),
        ("hello", &[0x85, b'h', b'e', b'l', b'l', b'o', 6]),
        ("007", &[0x83, b'0', b'0', b'7', 4]),
    ] {
        assert_eq!(encoded(text.as_bytes()), bytes, "{text}");
        assert!(Element::of(text.as_bytes()).is_text(text.as_bytes()));
    }
    let long = encoded(&[b'x'; 64]);
    assert_eq!((&long[..2], &long[66..]), (&[0xE0, 64][..], &[66][..]));
    let long = encoded(&[b'x'; 200]);
    assert_eq!(
        (&long[..2], &long[202..]),
        (&[0xE0, 200][..], &[1, 0x80 | 74][..])
    );
    let long = encoded(&[b'x'; 4096]);
    assert_eq!(long[..5], [0xF0, 0, 0x10, 0, 0]);
    assert_eq!(
        long[5 + 4096..],
        [(4101 >> 7) as u8, 0x80 | (4101 & 0x7F) as u8]
    );
}

#[test]
fn the_backlen_has_the_length_of_redis() {
    for (len, backlen) in [
        (126, 2),
        (125, 1),
        (16377, 2),
        (16378, 3),
        (2_097_145, 3),
        (2_097_146, 4),
    ] {
        let bytes = encoded(&vec![b'x'; len]);
        let head = if len < 4096 { 2 } else { 5 };
        assert_eq!(bytes.len(), head + len + backlen, "{len}");
        assert_eq!(prev(&bytes, bytes.len()).unwrap().1, 0);
        assert_eq!(validate_entries(&bytes), Ok(1));
    }
}

#[test]
fn a_damaged_listpack_is_refused_with_the_offset() {
    let mut entries = encoded(b"ab");
    encode(&mut entries, b"5000");
    let good = wrap(&entries, 2);
    assert_eq!(validate(&good), Ok(2));
    assert_eq!(Listpack::new(&good).unwrap().entries(), entries);

    let refused = |at: usize, byte: u8| {
        let mut bad = good.clone();
        bad[at] = byte;
        validate(&bad).unwrap_err()
    };
    let corrupt = |offset, reason| Corrupt { offset, reason };
    assert_eq!(refused(0, 99), corrupt(0, Flaw::Length));
    assert_eq!(refused(4, 3), corrupt(4, Flaw::Count));
    assert_eq!(refused(6, 0xBF), corrupt(6, Flaw::Entry));
    assert_eq!(refused(6, 0xF7), corrupt(6, Flaw::Encoding));
    assert_eq!(refused(6, 0xFF), corrupt(6, Flaw::End));
    assert_eq!(refused(9, 2), corrupt(9, Flaw::Backlen));
    assert_eq!(refused(14, 0), corrupt(14, Flaw::End));
    assert_eq!(validate(&good[..5]), Err(corrupt(0, Flaw::Header)));
    assert_eq!(validate(&good[..6]), Err(corrupt(0, Flaw::Length)));
    assert_eq!(validate(&[6, 0, 0, 0, 0, 0]), Err(corrupt(5, Flaw::End)));
    assert_eq!(validate(&wrap(&[], 0)), Ok(0));
    // The count field cannot hold the number of these entries.
    let many = [0, 1].repeat(70_000);
    assert_eq!(validate(&wrap(&many, 70_000)), Ok(70_000));
}

#[test]
fn finding_skips_values() {
    let mut entries = Vec::new();
    for text in ["name", "age", "age", "12", "zip", "name"] {
        encode(&mut entries, text.as_bytes());
    }
    let text_at = |at| next(&entries, at).unwrap().0;
    let (start, end) = find(&entries, 0, b"age", 1).unwrap();
    assert_eq!(prev(&entries, start).unwrap().0, Element::Bytes(b"age"));
    assert_eq!(text_at(end), Element::Int(12));
    let (start, end) = find(&entries, 0, b"12", 0).unwrap();
    assert_eq!(
        (text_at(start), text_at(end)),
        (Element::Int(12), Element::Bytes(b"zip"))
    );
    assert_eq!(find(&entries, 0, b"12", 1), None);
    assert_eq!(find(&entries, end, b"name", 1), None);
    assert_eq!(find(&entries, end, b"name", 0).unwrap().1, entries.len());
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        any::<i64>().prop_map(|value| value.to_string().into_bytes()),
        (-5000i64..5000).prop_map(|value| value.to_string().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..80),
        prop::collection::vec(b'0'..=b'9', 0..24),
        (0usize..20_000).prop_map(|len| vec![b'x'; len]),
    ]
}

#[derive(Clone, Debug)]
enum Edit {
    Insert(prop::sample::Index, Vec<u8>),
    Replace(prop::sample::Index, usize, Vec<u8>),
    Remove(prop::sample::Index),
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        3 => (any::<prop::sample::Index>(), text()).prop_map(|(at, text)| Edit::Insert(at, text)),
        2 => (any::<prop::sample::Index>(), 1usize..4, text())
            .prop_map(|(at, count, text)| Edit::Replace(at, count, text)),
        1 => any::<prop::sample::Index>().prop_map(Edit::Remove),
    ]
}

fn start_of(entries: &[u8], index: usize) -> usize {
    (0..index).fold(0, |at, _| at + entry_len_at(entries, at).unwrap())
}

fn texts(elements: impl Iterator<Item = Element<'static>>) -> Vec<Vec<u8>> {
    elements
        .map(|element| {
            let mut text = Vec::new();
            element.write_text(&mut text);
            assert_eq!(text.len(), element.text_len());
            text
        })
        .collect()
}

proptest! {
    #[test]
    fn edits_agree_with_a_vector(edits in prop::collection::vec(edit(), 0..24)) {
        let mut entries = Vec::new();
        let mut model: Vec<Vec<u8>> = Vec::new();
        for edit in edits {
            match edit {
                Edit::Insert(at, text) => {
                    let at = at.index(model.len() + 1);
                    let start = start_of(&entries, at);
                    let end = insert(&mut entries, start, Element::of(&text));
                    prop_assert_eq!(end, start + encoded_len(&text));
                    model.insert(at, text);
                }
                Edit::Replace(at, count, text) if !model.is_empty() => {
                    let at = at.index(model.len());
                    let to = (at + count).min(model.len());
                    let range = start_of(&entries, at)..start_of(&entries, to);
                    replace(&mut entries, range, Element::of(&text));
                    model.splice(at..to, [text]);
                }
                Edit::Remove(at) if !model.is_empty() => {
                    let at = at.index(model.len());
                    let start = start_of(&entries, at);
                    let len = entry_len_at(&entries, start).unwrap();
                    entries.drain(start..start + len);
                    model.remove(at);
                }
                _ => {}
            }
            prop_assert_eq!(validate_entries(&entries), Ok(model.len()));
        }
        let leaked: &'static [u8] = entries.clone().leak();
        prop_assert_eq!(texts(Entries::new(leaked)), model.clone());
        for text in &model {
            let first = model.iter().position(|other| other == text).unwrap();
            prop_assert_eq!(find(leaked, 0, text, 0).unwrap().0, start_of(leaked, first));
        }
        model.reverse();
        prop_assert_eq!(texts(Entries::new(leaked).rev()), model);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), at in 0usize..70) {
        let _ = validate(&bytes);
        let _ = next(&bytes, at);
        let _ = prev(&bytes, at);
        let _ = entry_len_at(&bytes, at);
        let _ = find(&bytes, at, b"12", 1);
        if let Ok(count) = validate_entries(&bytes) {
            prop_assert_eq!(Entries::new(&bytes).count(), count);
            prop_assert_eq!(Entries::new(&bytes).rev().count(), count);
        }
    }
}
