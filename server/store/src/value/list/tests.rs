//! Lists against vectors, and their memory use.

use proptest::prelude::*;
use punctual_rdb::listpack::Element;

use super::chunk::Chunk;
use super::*;
use crate::value::content::Content as _;

fn text(element: Element<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    element.write_text(&mut text);
    text
}

fn texts(list: &List) -> Vec<Vec<u8>> {
    list.iter().map(text).collect()
}

fn push(list: &mut List, end: End, text: &[u8], piece: PieceSize) {
    list.push(end, std::iter::once(text), piece);
}

/// Checks the ground rules of the module.
fn check(list: &List, piece: PieceSize) {
    let mut found = Check::default();
    list.check_pieces(&mut found);
    found.assert_none();
    let packed = list.chunks().filter(|chunk| chunk.text().is_none());
    let oversize: Vec<usize> = packed
        .filter(|chunk| chunk.count() > 1 && !piece.holds(chunk.len(), chunk.count()))
        .map(Chunk::len)
        .collect();
    // As in Redis, the overhead of the entries that one command adds does not count while the list
    // is one small piece.
    assert!(
        oversize.len() <= 1 && oversize.iter().all(|len| *len <= 2 * piece.bytes()),
        "{oversize:?}"
    );
}

#[derive(Clone, Debug)]
enum Step {
    Push(End, Vec<Vec<u8>>),
    Drop(End, usize),
    Set(u16, Vec<u8>),
    Insert(u16, End, Vec<u8>),
    Remove(u16, End, usize),
    Keep(u16, u16),
    Reload,
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![Just(End::Head), Just(End::Tail)]
}

/// Mostly short texts with many duplicates, and sometimes a text that is larger than a small piece
/// or than any piece.
fn element() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => "[a-d]".prop_map(String::into_bytes),
        4 => "-?[0-9]{1,19}".prop_map(String::into_bytes),
        6 => "[a-z]{0,90}".prop_map(String::into_bytes),
        1 => (100..5000usize, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
        1 => (8000..9000usize, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (end(), prop::collection::vec(element(), 1..12)).prop_map(|(end, texts)| Step::Push(end, texts)),
        2 => (end(), 0..4usize).prop_map(|(end, n)| Step::Drop(end, n)),
        1 => (end(), 0..40usize).prop_map(|(end, n)| Step::Drop(end, n)),
        4 => (any::<u16>(), element()).prop_map(|(at, text)| Step::Set(at, text)),
        8 => (any::<u16>(), end(), element()).prop_map(|(at, side, text)| Step::Insert(at, side, text)),
        3 => (any::<u16>(), end(), 1..5usize).prop_map(|(at, from, most)| Step::Remove(at, from, most)),
        1 => (any::<u16>(), end()).prop_map(|(at, from)| Step::Remove(at, from, usize::MAX)),
        1 => (any::<u16>(), any::<u16>()).prop_map(|(start, end)| Step::Keep(start, end)),
        1 => Just(Step::Reload),
    ]
}

/// Rebuilds a list from its pieces, as loading a snapshot does.
fn reloaded(list: &List, piece: PieceSize) -> List {
    let mut made = List::new();
    for part in list.pieces() {
        match part {
            Piece::Entries(entries, count) => made.push_piece(entries, count),
            Piece::Plain(text) => made.push_plain(text),
        }
    }
    made.normalize(piece);
    made
}

fn apply(list: &mut List, model: &mut Vec<Vec<u8>>, step: Step, piece: PieceSize) {
    let index = |at: u16, len: usize| usize::from(at) % len.max(1);
    match step {
        Step::Push(end, texts) => {
            list.push(end, texts.iter().map(Vec::as_slice), piece);
            match end {
                End::Head => texts.into_iter().for_each(|text| model.insert(0, text)),
                End::Tail => model.extend(texts),
            }
        }
        Step::Drop(end, number) => {
            assert_eq!(
                list.at_end(end).map(text),
                match end {
                    End::Head => model.first().cloned(),
                    End::Tail => model.last().cloned(),
                }
            );
            list.drop_end(end, number, piece);
            let number = number.min(model.len());
            match end {
                End::Head => drop(model.drain(..number)),
                End::Tail => model.truncate(model.len() - number),
            }
        }
        Step::Set(at, text) => {
            let at = index(at, model.len());
            assert_eq!(list.set(at, &text, piece), at < model.len());
            if let Some(place) = model.get_mut(at) {
                *place = text;
            }
        }
        Step::Insert(at, side, text) => {
            let Some(pivot) = model.get(index(at, model.len())).cloned() else {
                return;
            };
            let at = model.iter().position(|text| *text == pivot).unwrap();
            let beside = list.find(&pivot).unwrap();
            list.insert(&beside, side, &text, piece);
            model.insert(at + usize::from(side == End::Tail), text);
        }
        Step::Remove(at, from, most) => {
            let Some(gone) = model.get(index(at, model.len())).cloned() else {
                assert_eq!(list.remove(b"gone", from, most, piece), 0);
                return;
            };
            let mut places: Vec<usize> = (0..model.len()).filter(|&i| model[i] == gone).collect();
            if from == End::Tail {
                places.reverse();
            }
            places.truncate(most);
            places.sort_unstable();
            assert_eq!(list.remove(&gone, from, most, piece), places.len());
            places
                .into_iter()
                .rev()
                .for_each(|at| drop(model.remove(at)));
        }
        Step::Keep(start, end) => {
            let (start, end) = (index(start, model.len() + 1), index(end, model.len() + 1));
            list.keep(start, end.max(start), piece);
            model.truncate(end.max(start));
            model.drain(..start);
        }
        Step::Reload => {
            let before = texts(list);
            *list = reloaded(list, piece);
            assert_eq!(texts(list), before);
        }
    }
}

proptest! {
    #[test]
    fn behaves_as_a_vector(
        directive in prop_oneof![Just(-2i64), Just(-1), Just(1), Just(2), Just(5), Just(128)],
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let piece = PieceSize::of(directive);
        let (mut list, mut model) = (List::new(), Vec::new());
        for step in steps {
            apply(&mut list, &mut model, step, piece);
            check(&list, piece);
            prop_assert_eq!(list.len(), model.len());
        }
        prop_assert_eq!(&texts(&list), &model);
        prop_assert_eq!(&texts(&list.clone()), &model);
        for (index, expected) in model.iter().enumerate() {
            prop_assert_eq!(&list.get(index).map(text).unwrap(), expected);
        }
        prop_assert_eq!(list.get(model.len()), None);
        for wanted in model.iter().take(20) {
            let mut places: Vec<usize> = (0..model.len()).filter(|&i| model[i] == *wanted).collect();
            let matches = |from, most, count: usize| {
                let mut found = Vec::new();
                list.each_match(wanted, from, most, |index| {
                    found.push(index);
                    found.len() != count
                });
                found
            };
            prop_assert_eq!(&matches(End::Head, usize::MAX, 0), &places);
            prop_assert_eq!(&matches(End::Head, usize::MAX, 2)[..], &places[..places.len().min(2)]);
            let near = places.iter().filter(|&&i| i < 7).count();
            prop_assert_eq!(&matches(End::Head, 7, 0)[..], &places[..near]);
            places.reverse();
            prop_assert_eq!(&matches(End::Tail, usize::MAX, 0), &places);
            prop_assert_eq!(&matches(End::Tail, usize::MAX, 1)[..], &places[..1]);
            let near = places.iter().filter(|&&i| i + 7 >= model.len()).count();
            prop_assert_eq!(&matches(End::Tail, 7, 0)[..], &places[..near]);
        }
        for from in [0, model.len() / 3, model.len() / 2, model.len()] {
            let forth: Vec<Vec<u8>> = list.walk(from, End::Tail).map(text).collect();
            prop_assert_eq!(&forth[..], &model[from..]);
            if from < model.len() {
                let mut back: Vec<Vec<u8>> = list.walk(from, End::Head).map(text).collect();
                back.reverse();
                prop_assert_eq!(&back[..], &model[..=from]);
            }
        }
    }

    /// Pushes at both ends move the entries within one buffer.
    #[test]
    fn ends_behave_as_a_deque(steps in prop::collection::vec((end(), any::<bool>(), "[a-z]{0,30}"), 1..600)) {
        let piece = PieceSize::of(-2);
        let (mut list, mut model) = (List::new(), VecDeque::new());
        for (end, adds, word) in steps {
            match (end, adds) {
                (_, true) => push(&mut list, end, word.as_bytes(), piece),
                (_, false) => {
                    let taken = match end {
                        End::Head => model.pop_front(),
                        End::Tail => model.pop_back(),
                    };
                    prop_assert_eq!(list.at_end(end).map(text), taken);
                    list.drop_end(end, 1, piece);
                }
            }
            match (end, adds) {
                (End::Head, true) => model.push_front(word.into_bytes()),
                (End::Tail, true) => model.push_back(word.into_bytes()),
                _ => {}
            }
        }
        check(&list, piece);
        prop_assert_eq!(texts(&list), Vec::from(model));
    }
}

#[test]
fn the_encoding_equals_that_of_redis() {
    let piece = PieceSize::of(-2);
    let mut list = List::new();
    assert_eq!(list.encoding(), "listpack");
    // An entry takes 12 bytes, of which Redis counts 10 before it pushes the entry.
    for _ in 0..681 {
        push(&mut list, End::Tail, b"0123456789", piece);
    }
    assert_eq!((list.encoding(), list.first.len()), ("listpack", 8172));
    push(&mut list, End::Tail, b"0123456789", piece);
    assert_eq!(list.encoding(), "listpack", "8172 + 7 + 10 <= 8192");
    push(&mut list, End::Head, b"", piece);
    assert_eq!(
        (list.encoding(), list.chunk_count()),
        ("listpack", 1),
        "8184 + 7 <= 8192"
    );
    push(&mut list, End::Head, b"a", piece);
    assert_eq!((list.encoding(), list.chunk_count()), ("quicklist", 2));
    list.drop_end(End::Head, 1, piece);
    assert_eq!((list.encoding(), list.chunk_count()), ("quicklist", 1));
    list.drop_end(End::Tail, 341, piece);
    assert_eq!(
        (list.encoding(), list.first.len()),
        ("quicklist", 2 + 341 * 12)
    );
    list.drop_end(End::Tail, 1, piece);
    assert_eq!(
        (list.encoding(), list.first.len()),
        ("listpack", 2 + 340 * 12)
    );

    let counted = PieceSize::of(4);
    let mut list = List::new();
    list.push(End::Tail, [b"a"; 4].map(|t| &t[..]).into_iter(), counted);
    assert_eq!(list.encoding(), "listpack");
    list.push(End::Tail, [b"a"; 2].map(|t| &t[..]).into_iter(), counted);
    assert_eq!((list.encoding(), list.chunk_count()), ("quicklist", 2));
    list.drop_end(End::Tail, 3, counted);
    assert_eq!((list.encoding(), list.len()), ("quicklist", 3));
    list.drop_end(End::Head, 1, counted);
    assert_eq!((list.encoding(), list.len()), ("listpack", 2));

    let mut list = List::new();
    push(&mut list, End::Tail, &[b'x'; 8186], piece);
    assert_eq!(list.encoding(), "quicklist");
    assert!(list.set(0, b"x", piece));
    assert_eq!(list.encoding(), "listpack");
    assert!(list.set(0, &[b'x'; 8193], piece));
    assert_eq!(
        (list.encoding(), list.first.text().is_some()),
        ("quicklist", true)
    );
    assert_eq!(reloaded(&list, piece).encoding(), "quicklist");
    list.drop_end(End::Head, 1, piece);
    assert_eq!(list.encoding(), "listpack");
}

/// Returns the length of the entries in bytes.
fn content(list: &List) -> usize {
    list.chunks()
        .map(|chunk| chunk.text().map_or(chunk.len(), <[u8]>::len))
        .sum()
}

#[test]
fn a_long_list_takes_little_more_than_its_entries() {
    for end in [End::Head, End::Tail] {
        for len in [3, 10, 100, 3000] {
            let piece = PieceSize::of(-2);
            let mut list = List::new();
            for n in 0..1_000_000 / len {
                let word = format!("{n:0>len$}x");
                push(&mut list, end, word.as_bytes(), piece);
            }
            let (content, taken) = (content(&list), list.heap_bytes());
            assert!(
                taken < content + content / 50 + 1000,
                "{taken} for {content} of {len}"
            );
        }
    }
}

#[test]
fn small_lists_are_small() {
    let piece = PieceSize::of(-2);
    let mut list = List::new();
    let words = [b"item:1", b"item:2", b"item:3"].map(|word| &word[..]);
    list.push(End::Tail, words.into_iter(), piece);
    assert_eq!(list.heap_bytes(), 40 + 32);
    let mut one_by_one = List::new();
    for word in words {
        push(&mut one_by_one, End::Head, word, piece);
    }
    assert!(one_by_one.heap_bytes() <= 40 + 32);
    // A large list that became small again.
    for _ in 0..100_000 {
        push(&mut list, End::Tail, b"item", piece);
    }
    list.drop_end(End::Head, 99_993, piece);
    assert_eq!(list.len(), 10);
    assert!(list.heap_bytes() < 300, "{}", list.heap_bytes());
    for _ in 0..9 {
        list.drop_end(End::Tail, 1, piece);
    }
    assert!(list.heap_bytes() < 256, "{}", list.heap_bytes());
}

#[test]
fn insertions_and_removals_in_the_middle_leave_no_small_pieces() {
    let piece = PieceSize::of(-2);
    let mut list = List::new();
    push(&mut list, End::Tail, b"pivot", piece);
    let mut random = punctual_harness::Random::new(1);
    let mut below = |end| random.below(end as u64) as usize;
    for n in 0..8_000 {
        let word = format!("{n}:{}", "x".repeat(below(30)));
        let at = below(list.len());
        let pivot = text(list.get(at).unwrap());
        let beside = list.find(&pivot).unwrap();
        list.insert(
            &beside,
            if n % 2 == 0 { End::Head } else { End::Tail },
            word.as_bytes(),
            piece,
        );
    }
    check(&list, piece);
    let chunks = |list: &List| list.chunk_count() * piece.bytes();
    assert!(
        chunks(&list) < 3 * content(&list),
        "{} of {}",
        chunks(&list),
        content(&list)
    );
    for _ in 0..7_500 {
        let at = below(list.len());
        let gone = text(list.get(at).unwrap());
        assert_eq!(list.remove(&gone, End::Head, 1, piece), 1);
    }
    check(&list, piece);
    assert!(
        chunks(&list) < 5 * content(&list),
        "{} of {}",
        chunks(&list),
        content(&list)
    );
}
