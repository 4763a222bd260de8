//! Streams: compares the blocks and records of this crate with redis-server's.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use punctual_rdb::stream::{Block, StreamId, Totals};
use punctual_rdb::{Contents, Encoder, Failure, Kind, Source, dump};
use punctual_rdb::{Parts, StreamPart};
use punctual_resp::Value;

use crate::contents::{Plain, Text, assert_same, restored, sealed, text as text_of};
use crate::server::{Server, text};

/// A stream without its encoding.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlainStream {
    pub entries: Vec<(StreamId, Vec<(Text, Text)>)>,
    pub totals: Totals,
    pub groups: BTreeMap<Text, Group>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    last_id: StreamId,
    entries_read: Option<u64>,
    pending: Vec<Pending>,
    /// Name, and the time of the last attempt to read.
    consumers: BTreeMap<Text, i64>,
}

#[derive(Clone, Debug, PartialEq)]
struct Pending {
    id: StreamId,
    consumer: Text,
    delivered_ms: i64,
    deliveries: u64,
}

fn live<B: AsRef<[u8]>>(block: &Block<B>) -> Vec<(StreamId, Vec<(Text, Text)>)> {
    block
        .entries()
        .filter(|entry| !entry.deleted)
        .map(|entry| {
            let pairs = entry.pairs();
            assert_eq!(pairs.len(), pairs.count());
            (
                entry.id,
                pairs.map(|(f, v)| (text_of(f), text_of(v))).collect(),
            )
        })
        .collect()
}

/// Reads every part of a stream.
pub fn plain<S: Source>(mut parts: Parts<'_, S>) -> Result<PlainStream, Failure<S::Error>> {
    let mut stream = PlainStream::default();
    let (mut group, mut consumer) = (Text::new(), Text::new());
    while let Some(part) = parts.next()? {
        match part {
            StreamPart::Block(block) => {
                assert!(
                    block
                        .entries()
                        .map(|e| e.id)
                        .rev()
                        .is_sorted_by(|a, b| a > b)
                );
                stream.entries.extend(live(&block));
            }
            StreamPart::Totals(totals) => stream.totals = totals,
            StreamPart::Group {
                name,
                last_id,
                entries_read,
            } => {
                group = text_of(name);
                let new = Group {
                    last_id,
                    entries_read,
                    ..Group::default()
                };
                assert!(stream.groups.insert(group.clone(), new).is_none());
            }
            StreamPart::Pending {
                id,
                delivered_ms,
                deliveries,
            } => stream
                .groups
                .get_mut(&group)
                .unwrap()
                .pending
                .push(Pending {
                    id,
                    consumer: Text::new(),
                    delivered_ms,
                    deliveries,
                }),
            StreamPart::Consumer { name, seen_ms, .. } => {
                consumer = text_of(name);
                let consumers = &mut stream.groups.get_mut(&group).unwrap().consumers;
                assert!(consumers.insert(consumer.clone(), seen_ms).is_none());
            }
            StreamPart::Owned { id, index } => {
                let pending = &mut stream.groups.get_mut(&group).unwrap().pending[index];
                assert_eq!(pending.id, id);
                pending.consumer.clone_from(&consumer);
            }
        }
    }
    Ok(stream)
}

/// Writes a stream with blocks of `size` entries.
fn encode(kind: Kind, stream: &PlainStream, size: usize, compress: bool) -> Vec<u8> {
    let (mut encoder, mut out) = (Encoder::new(compress), Vec::new());
    let blocks: Vec<_> = stream.entries.chunks(size).map(block_of).collect();
    encoder.len(&mut out, blocks.len() as u64);
    for block in &blocks {
        encoder.stream_block(&mut out, block);
    }
    encoder.stream_totals(&mut out, &stream.totals);
    encoder.len(&mut out, stream.groups.len() as u64);
    for (name, group) in &stream.groups {
        encoder.stream_group(&mut out, name, group.last_id, group.entries_read);
        encoder.len(&mut out, group.pending.len() as u64);
        for pending in &group.pending {
            let Pending {
                id,
                delivered_ms,
                deliveries,
                ..
            } = *pending;
            encoder.stream_pending(&mut out, id, delivered_ms, deliveries);
        }
        encoder.len(&mut out, group.consumers.len() as u64);
        for (name, seen_ms) in &group.consumers {
            encoder.stream_consumer(&mut out, kind, name, *seen_ms, -1);
            let owned: Vec<_> = group
                .pending
                .iter()
                .filter(|p| p.consumer == *name)
                .collect();
            encoder.len(&mut out, owned.len() as u64);
            for pending in owned {
                encoder.stream_owned(&mut out, pending.id);
            }
        }
    }
    out
}

fn slices(pairs: &[(Text, Text)]) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> + Clone {
    pairs.iter().map(|(field, value)| (&field[..], &value[..]))
}

fn block_of(entries: &[(StreamId, Vec<(Text, Text)>)]) -> Block {
    let mut entries = entries.iter();
    let (id, pairs) = entries.next().expect("an entry");
    let mut block = Block::new(*id, 64, slices(pairs));
    for (id, pairs) in entries {
        block.append(*id, slices(pairs));
    }
    block
}

fn id(value: &Value) -> StreamId {
    let text = String::from_utf8(text(value.clone())).expect("an ID");
    let (ms, seq) = text.split_once('-').expect("an ID");
    StreamId {
        ms: ms.parse().expect("a number"),
        seq: seq.parse().expect("a number"),
    }
}

fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(values) => values,
        other => panic!("{other:?} is no array"),
    }
}

fn int(value: &Value) -> i64 {
    match value {
        Value::Int(value) => *value,
        other => panic!("{other:?} is no integer"),
    }
}

/// Returns the value after `name` in an array of names and values.
fn field<'v>(values: &'v Value, name: &str) -> &'v Value {
    let pairs = items(values).chunks(2);
    let mut found = pairs.filter(|pair| text(pair[0].clone()) == name.as_bytes());
    &found.next().expect("the field")[1]
}

/// Returns the stream in the reply to `XINFO STREAM key FULL COUNT 0`.
pub fn of_server(info: &Value) -> PlainStream {
    let number = |name| int(field(info, name)) as u64;
    PlainStream {
        entries: items(field(info, "entries"))
            .iter()
            .map(|entry| {
                let texts: Vec<_> = items(&items(entry)[1]).iter().cloned().map(text).collect();
                let pairs = texts.chunks(2).map(|p| (p[0].clone(), p[1].clone()));
                (id(&items(entry)[0]), pairs.collect())
            })
            .collect(),
        totals: Totals {
            length: number("length"),
            last_id: id(field(info, "last-generated-id")),
            first_id: id(field(info, "recorded-first-entry-id")),
            max_deleted_id: id(field(info, "max-deleted-entry-id")),
            entries_added: number("entries-added"),
        },
        groups: items(field(info, "groups"))
            .iter()
            .map(group_of_server)
            .collect(),
    }
}

fn group_of_server(info: &Value) -> (Text, Group) {
    let pending = items(field(info, "pending")).iter().map(items);
    let consumers = items(field(info, "consumers")).iter();
    let group = Group {
        last_id: id(field(info, "last-delivered-id")),
        entries_read: match field(info, "entries-read") {
            Value::Int(number) => Some(*number as u64),
            _ => None,
        },
        pending: pending
            .map(|entry| Pending {
                id: id(&entry[0]),
                consumer: text(entry[1].clone()),
                delivered_ms: int(&entry[2]),
                deliveries: int(&entry[3]) as u64,
            })
            .collect(),
        consumers: consumers
            .map(|consumer| {
                let name = text(field(consumer, "name").clone());
                (name, int(field(consumer, "seen-time")))
            })
            .collect(),
    };
    (text(field(info, "name").clone()), group)
}

fn blocks_of(payload: &[u8]) -> Vec<Block> {
    let mut restore = dump::Restore::new(payload).expect("sealed");
    let Contents::Stream(mut parts) = restore.value().unwrap().read().unwrap() else {
        panic!("no stream");
    };
    let mut blocks = Vec::new();
    while let Some(part) = parts.next().unwrap() {
        if let StreamPart::Block(block) = part {
            blocks.push(block.to_owned());
        }
    }
    blocks
}

/// Texts that are often equal to each other: letters, integers and longer texts.
fn texts() -> impl Strategy<Value = Text> {
    prop_oneof![
        4 => (0u8..4).prop_map(|n| vec![b'a' + n]),
        2 => any::<i64>().prop_map(|n| n.to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..200),
    ]
}

fn pairs() -> impl Strategy<Value = Vec<(Text, Text)>> {
    prop_oneof![
        3 => texts().prop_map(|value| vec![(b"field".to_vec(), value)]),
        1 => prop::collection::vec((texts(), texts()), 1..6),
    ]
}

/// Returns ascending IDs; `steps` are the differences between neighbours.
fn ids(steps: &[(u64, u64)]) -> Vec<StreamId> {
    let mut last = StreamId::MIN;
    let mut next = |&(ms, seq): &(u64, u64)| {
        last = if ms == 0 {
            StreamId {
                ms: last.ms,
                seq: last.seq.saturating_add(1 + seq),
            }
        } else {
            StreamId {
                ms: last.ms.saturating_add(ms),
                seq,
            }
        };
        last
    };
    let mut ids: Vec<_> = steps.iter().map(&mut next).collect();
    ids.dedup();
    ids
}

fn steps(max: usize) -> impl Strategy<Value = Vec<(u64, u64)>> {
    let far = prop_oneof![Just(0), 1u64..100, any::<u64>().prop_map(|n| n >> 6)];
    let seq = prop_oneof![5 => 0u64..3, 1 => any::<u64>().prop_map(|n| n >> 1)];
    prop::collection::vec((far, seq), 0..max)
}

fn streams() -> impl Strategy<Value = PlainStream> {
    let group = (
        steps(20),
        prop::option::of(0u64..1 << 40),
        prop::collection::btree_map(texts(), 0i64..1 << 50, 0..4),
        prop::collection::vec((any::<prop::sample::Index>(), any::<i64>(), 1u64..500), 20),
    );
    let groups = prop::collection::btree_map(texts(), group, 0..3);
    let entries = (steps(60), prop::collection::vec(pairs(), 60));
    (entries, groups, 0u64..1000, any::<bool>()).prop_map(|(entries, groups, more, deleted)| {
        let entries: Vec<_> = ids(&entries.0).into_iter().zip(entries.1).collect();
        let last_id = entries
            .last()
            .map_or(StreamId { ms: 7, seq: 7 }, |(id, _)| *id);
        let group =
            |(ids_of, entries_read, consumers, pending): (Vec<_>, _, BTreeMap<_, _>, Vec<_>)| {
                let names: Vec<&Text> = consumers.keys().collect();
                let pending = ids(&ids_of).into_iter().zip(pending);
                let pending = pending.filter(|_| !names.is_empty());
                Group {
                    last_id,
                    entries_read,
                    pending: pending
                        .map(
                            |(id, (consumer, delivered_ms, deliveries)): (
                                _,
                                (prop::sample::Index, _, _),
                            )| Pending {
                                id,
                                consumer: names[consumer.index(names.len())].clone(),
                                delivered_ms,
                                deliveries,
                            },
                        )
                        .collect(),
                    consumers,
                }
            };
        PlainStream {
            totals: Totals {
                length: entries.len() as u64,
                last_id,
                first_id: entries.first().map_or(StreamId::MIN, |(id, _)| *id),
                max_deleted_id: if deleted { last_id } else { StreamId::MIN },
                entries_added: entries.len() as u64 + more,
            },
            groups: groups
                .into_iter()
                .map(|(name, all)| (name, group(all)))
                .collect(),
            entries,
        }
    })
}

proptest! {
    #[test]
    fn streams_round_trip(stream in streams(), size in 1usize..20, compress in any::<bool>()) {
        for kind in [Kind::Stream2, Kind::Stream3] {
            let payload = sealed(kind, &encode(kind, &stream, size, compress));
            prop_assert_eq!(restored(&payload), Ok(Plain::Stream(stream.clone())));
        }
    }
}

/// Returns `count` streams of many shapes, the same in every run.
fn samples(count: usize) -> Vec<PlainStream> {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut sample = || streams().new_tree(&mut runner).expect("a stream").current();
    (0..count).map(|_| sample()).collect()
}

#[test]
fn our_streams_in_redis() {
    let Some(mut server) = Server::start(None) else {
        return;
    };
    for (index, stream) in samples(60).into_iter().enumerate() {
        let payload = sealed(
            Kind::Stream2,
            &encode(Kind::Stream2, &stream, 1 + index % 9, index % 2 == 0),
        );
        assert!(server.restore(b"key", &payload), "{stream:?}");
        let Some(Plain::Stream(theirs)) = server.value(b"key") else {
            panic!("no stream");
        };
        assert_same(&theirs, &stream, &index);
        let theirs = text(server.run("DUMP key"));
        assert_same(restored(&theirs), Ok(Plain::Stream(stream)), &index);
    }
}

/// The same additions and deletions in redis-server and in a [`Block`] must give the same bytes.
#[test]
fn blocks_have_the_bytes_of_redis() {
    let Some(mut server) = Server::start(None) else {
        return;
    };
    for (index, stream) in samples(40).into_iter().enumerate() {
        let size = 1 + index % 13;
        server.run("FLUSHALL");
        server.run(&format!(
            "CONFIG SET stream-node-max-entries {size} stream-node-max-bytes 0"
        ));
        let entries: Vec<_> = stream
            .entries
            .into_iter()
            .filter(|e| e.0 != StreamId::MIN)
            .collect();
        if entries.is_empty() {
            continue;
        }
        for (id, pairs) in &entries {
            let mut command = vec![b"XADD".to_vec(), b"key".to_vec()];
            command.push(format!("{}-{}", id.ms, id.seq).into_bytes());
            command.extend(pairs.iter().flat_map(|(f, v)| [f.clone(), v.clone()]));
            server.succeed(&command);
        }
        let mut ours: Vec<_> = entries.chunks(size).map(block_of).collect();
        for (block, chunk) in ours.iter_mut().zip(entries.chunks(size)) {
            // Redis removes a node whose entries are all deleted, so the last entry stays.
            for (id, _) in chunk[..chunk.len() - 1].iter().step_by(3) {
                let at = block.find(*id).expect("an entry").at;
                assert!(block.delete(at) && !block.delete(at));
                server.run(&format!("XDEL key {}-{}", id.ms, id.seq));
            }
        }
        let payload = text(server.run("DUMP key"));
        let theirs = blocks_of(&payload);
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().zip(&theirs) {
            let (mut a, mut b) = (Vec::new(), Vec::new());
            ours.write_listpack(&mut a);
            theirs.write_listpack(&mut b);
            assert_same(&a, &b, &index);
            assert_eq!(a.len(), ours.listpack_len());
            assert!(ours == theirs);
            let contained = payload.windows(a.len()).any(|window| window == a);
            // Redis compresses strings longer than 20 bytes, so their bytes may differ.
            assert!(contained || a.len() > 20);
        }
    }
}

/// Reads streams of redis-server with groups, consumers, deletions and trimming, and restores our
/// encoding of them in redis-server.
#[test]
fn streams_of_redis() {
    let Some(mut server) = Server::start(None) else {
        return;
    };
    server.run("CONFIG SET stream-node-max-entries 7");
    for index in 1..=100u64 {
        let fields = ["temp 20", "temp 21 wind 3", "wind 3 temp -20"][(index % 3) as usize];
        server.run(&format!("XADD key {}-{} {fields}", index / 2, index));
    }
    server.run("XGROUP CREATE key first 0");
    server.run("XGROUP CREATE key middle 20-41 ENTRIESREAD 41");
    server.run("XGROUP CREATE key unknown 30-60");
    for (group, consumer) in [
        ("first", "alice"),
        ("first", "bob"),
        ("middle", "alice"),
        ("first", "alice"),
    ] {
        server.run(&format!(
            "XREADGROUP GROUP {group} {consumer} COUNT 9 STREAMS key >"
        ));
    }
    server.run("XGROUP CREATECONSUMER key middle idle");
    server.run("XACK key first 1-2 1-3");
    server.run("XDEL key 3-6 3-7 40-80 50-100");
    server.run("XCLAIM key first bob 0 2-4 TIME 77 RETRYCOUNT 12");
    server.run("XTRIM key MAXLEN 90");
    for compress in ["yes", "no"] {
        server.run(&format!("CONFIG SET rdbcompression {compress}"));
        let payload = text(server.run("DUMP key"));
        let theirs = server.value(b"key").expect("a stream");
        assert_same(restored(&payload), Ok(theirs.clone()), &compress);
        let Plain::Stream(stream) = theirs.clone() else {
            panic!("no stream");
        };
        let ours = sealed(
            Kind::Stream2,
            &encode(Kind::Stream2, &stream, 7, compress == "yes"),
        );
        server.run("DEL copy");
        assert!(server.restore(b"copy", &ours));
        assert_same(server.value(b"copy"), Some(theirs.clone()), &compress);
        server.run("XADD copy * next 1");

        // A stream without entries remains a value.
        server.run("XTRIM copy MAXLEN 0");
        let payload = text(server.run("DUMP copy"));
        assert_same(restored(&payload).ok(), server.value(b"copy"), &compress);
    }
}

/// A record of redis-server 5 has no counters.
#[test]
fn records_of_the_first_kind() {
    let pairs = [(b"f".to_vec(), b"v".to_vec())];
    let entries: Vec<_> = ids(&[(5, 0), (0, 0), (1, 0)])
        .into_iter()
        .map(|id| (id, pairs.to_vec()))
        .collect();
    let mut encoder = Encoder::new(true);
    let mut out = Vec::new();
    encoder.len(&mut out, 1);
    encoder.stream_block(&mut out, &block_of(&entries));
    for number in [3, 6, 0, 2] {
        encoder.len(&mut out, number);
    }
    for (name, last) in [(b"a", 4), (b"b", 6)] {
        encoder.string(&mut out, name);
        for number in [last, 0, 0, 0] {
            encoder.len(&mut out, number);
        }
    }
    let payload = sealed(Kind::Stream, &out);
    let Ok(Plain::Stream(ours)) = restored(&payload) else {
        panic!("no stream");
    };
    let read: Vec<_> = ours
        .groups
        .values()
        .map(|group| group.entries_read)
        .collect();
    assert_eq!(read, [Some(0), Some(3)]);
    assert_eq!(ours.totals.first_id, StreamId { ms: 5, seq: 0 });
    if let Some(mut server) = Server::start(None) {
        assert!(server.restore(b"key", &payload));
        assert_same(
            server.value(b"key"),
            Some(Plain::Stream(ours)),
            &"first kind",
        );
    }
}

/// Records of both written kinds, for tests of damage.
pub static RECORDS: LazyLock<Vec<(Kind, Vec<u8>)>> = LazyLock::new(|| {
    let fit = |stream: &PlainStream| {
        stream.entries.len() > 5 && stream.groups.values().any(|g| g.pending.len() > 2)
    };
    let chosen: Vec<_> = samples(40).into_iter().filter(fit).take(4).collect();
    assert_eq!(chosen.len(), 4);
    let kinds = [Kind::Stream2, Kind::Stream3].into_iter().cycle();
    kinds
        .zip(&chosen)
        .map(|(kind, stream)| (kind, encode(kind, stream, 5, false)))
        .collect()
});
