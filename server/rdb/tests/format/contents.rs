//! Reads snapshots and payloads into plain values, which tests compare.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use punctual_rdb::{
    Contents, Element, Error, Event, Failure, Kind, Listpack, Meta, Node, Reader, Reason, Source,
    dump,
};

use crate::streams::{self, PlainStream};

pub type Text = Vec<u8>;

/// A key's value without its encoding.
#[derive(Clone, Debug, PartialEq)]
pub enum Plain {
    String(Text),
    List(Vec<Text>),
    Set(BTreeSet<Text>),
    /// Fields with their values and expiry times.
    Hash(BTreeMap<Text, (Text, Option<i64>)>),
    Zset(BTreeMap<Text, f64>),
    Stream(PlainStream),
}

impl Plain {
    pub fn len(&self) -> usize {
        match self {
            Plain::String(_) => 1,
            Plain::List(list) => list.len(),
            Plain::Set(set) => set.len(),
            Plain::Hash(hash) => hash.len(),
            Plain::Zset(zset) => zset.len(),
            // A stream without entries is a value, unlike an empty list.
            Plain::Stream(stream) => stream.entries.len() + 1,
        }
    }
}

pub fn text(element: Element<'_>) -> Text {
    let mut text = Vec::new();
    element.write_text(&mut text);
    text
}

fn texts(listpack: Listpack<'_>) -> Vec<Text> {
    listpack.iter().map(text).collect()
}

fn score(text: &[u8]) -> f64 {
    punctual_resp::decimal::parse_f64(text).unwrap_or(f64::NAN)
}

/// Reads every item of a value.
pub fn plain<S: Source>(contents: Contents<'_, S>) -> Result<Plain, Failure<S::Error>> {
    // Whether all items were new. The reader does not check items for duplicates, so this function
    // does.
    let mut new = true;
    let plain = match contents {
        Contents::String(element) => Plain::String(text(element)),
        Contents::List(mut nodes) => {
            let mut list = Vec::new();
            while let Some(node) = nodes.next()? {
                match node {
                    Node::Packed(listpack) => list.extend(texts(listpack)),
                    Node::Plain(element) => list.push(text(element)),
                }
            }
            Plain::List(list)
        }
        Contents::Set(mut members) => {
            let mut set = BTreeSet::new();
            while let Some(member) = members.next()? {
                new &= set.insert(text(member));
            }
            Plain::Set(set)
        }
        Contents::SetIntset(intset) => {
            Plain::Set(intset.iter().map(|m| m.to_string().into_bytes()).collect())
        }
        Contents::SetListpack(listpack) => Plain::Set(listpack.iter().map(text).collect()),
        Contents::Hash(mut pairs) => {
            let mut hash = BTreeMap::new();
            while let Some((field, value)) = pairs.next()? {
                new &= hash.insert(text(field), (text(value), None)).is_none();
            }
            Plain::Hash(hash)
        }
        Contents::HashListpack(listpack) => Plain::Hash(
            texts(listpack)
                .chunks(2)
                .map(|pair| (pair[0].clone(), (pair[1].clone(), None)))
                .collect(),
        ),
        Contents::HashExpiry(mut pairs) => {
            let mut hash = BTreeMap::new();
            while let Some((field, value, expiry)) = pairs.next()? {
                new &= hash.insert(text(field), (text(value), expiry)).is_none();
            }
            Plain::Hash(hash)
        }
        Contents::HashExpiryListpack(listpack) => {
            let elements: Vec<_> = listpack.iter().collect();
            Plain::Hash(
                elements
                    .chunks(3)
                    .map(|entry| {
                        let expiry = entry[2].as_int().filter(|&time| time != 0);
                        (text(entry[0]), (text(entry[1]), expiry))
                    })
                    .collect(),
            )
        }
        Contents::Zset(mut scored) => {
            let mut zset = BTreeMap::new();
            while let Some((member, score)) = scored.next()? {
                new &= zset.insert(text(member), score).is_none();
            }
            Plain::Zset(zset)
        }
        Contents::ZsetListpack(listpack) => Plain::Zset(
            texts(listpack)
                .chunks(2)
                .map(|pair| (pair[0].clone(), score(&pair[1])))
                .collect(),
        ),
        Contents::Stream(parts) => Plain::Stream(streams::plain(parts)?),
        Contents::OwnText(_, element) => Plain::String(text(element)),
        Contents::OwnParts(_, mut parts) => {
            let mut all = Vec::new();
            while let Some(part) = parts.next()? {
                all.push(text(part));
            }
            Plain::List(all)
        }
    };
    if new {
        Ok(plain)
    } else {
        Err(Failure::Format(Error {
            offset: 0,
            reason: Reason::Duplicate,
        }))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    pub kind: Kind,
    pub meta: Meta,
    pub value: Plain,
}

/// All contents of a snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    pub version: u32,
    pub aux: BTreeMap<Text, Text>,
    pub sizes: Vec<(u64, u64)>,
    pub keys: BTreeMap<(u64, Text), Key>,
    /// The code of the libraries.
    pub libraries: Vec<Text>,
    /// The skipped records: a description, the key, and the type byte.
    pub skipped: Vec<(String, Text, u8)>,
    pub verified: bool,
}

pub fn snapshot<S: Source>(mut reader: Reader<S>) -> Result<Snapshot, Failure<S::Error>> {
    let mut snapshot = Snapshot::default();
    let mut db = 0;
    loop {
        match reader.next()? {
            Event::Aux { name, text } => {
                snapshot.aux.insert(name.to_vec(), text.to_vec());
            }
            Event::SelectDb(number) => db = number,
            Event::ResizeDb { keys, expiring } => snapshot.sizes.push((keys, expiring)),
            Event::Key(record) => {
                let key = Key {
                    kind: record.value.kind(),
                    meta: record.meta,
                    value: plain(record.value.read()?)?,
                };
                snapshot.keys.insert((db, record.key.to_vec()), key);
            }
            Event::Library { code, .. } => snapshot.libraries.push(code.to_vec()),
            Event::Skipped(skipped) => snapshot.skipped.push((
                skipped.what.to_string(),
                skipped.name.to_vec(),
                skipped.type_byte,
            )),
            Event::End { verified } => {
                snapshot.verified = verified;
                snapshot.version = reader.version().unwrap_or_default();
                return Ok(snapshot);
            }
            _ => {}
        }
    }
}

/// Returns the keys, and skips all values.
pub fn names<S: Source>(mut reader: Reader<S>) -> Result<Vec<Text>, Failure<S::Error>> {
    let mut names = Vec::new();
    loop {
        match reader.next()? {
            Event::Key(record) => names.push(record.key.to_vec()),
            Event::End { .. } => return Ok(names),
            _ => {}
        }
    }
}

/// Reads only the first item of each value. Returns the number of values that have an item.
pub fn first_items<S: Source>(mut reader: Reader<S>) -> Result<usize, Failure<S::Error>> {
    let mut found = 0;
    loop {
        match reader.next()? {
            Event::Key(record) => {
                found += usize::from(match record.value.read()? {
                    Contents::List(mut nodes) => nodes.next()?.is_some(),
                    Contents::Set(mut members) => members.next()?.is_some(),
                    Contents::Hash(mut pairs) => pairs.next()?.is_some(),
                    Contents::HashExpiry(mut pairs) => pairs.next()?.is_some(),
                    Contents::Zset(mut scored) => scored.next()?.is_some(),
                    Contents::Stream(mut parts) => parts.next()?.is_some(),
                    _ => true,
                });
            }
            Event::End { .. } => return Ok(found),
            _ => {}
        }
    }
}

/// Returns the value of a payload.
pub fn restored(payload: &[u8]) -> Result<Plain, Error> {
    let mut restore = dump::Restore::new(payload).expect("sealed");
    Ok(plain(restore.value()?.read()?)?)
}

/// Returns the payload of a value of `kind`.
pub fn sealed(kind: Kind, value: &[u8]) -> Vec<u8> {
    let mut payload = vec![kind.byte()];
    payload.extend_from_slice(value);
    dump::seal(&mut payload);
    payload
}

/// Asserts equality. On failure, prints `what` and both sides on one line each.
#[track_caller]
pub fn assert_same<T: Debug + PartialEq>(ours: T, theirs: T, what: &dyn Debug) {
    assert!(
        ours == theirs,
        "{what:?}\n  ours: {ours:?}\ntheirs: {theirs:?}"
    );
}
