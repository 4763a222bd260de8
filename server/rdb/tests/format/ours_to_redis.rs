//! redis-server 7.0 reads the output of this crate.

use std::collections::{BTreeMap, BTreeSet};

use punctual_rdb::intset::{self, Width};
use punctual_rdb::listpack;
use punctual_rdb::{Element, Encoder, Kind, Meta, Reader, VERSION, VERSION_FIELD_EXPIRY, Writer};

use crate::contents::{Plain, Text, assert_same, restored, sealed, snapshot};
use crate::server::Server;

fn texts(count: usize) -> impl Iterator<Item = Text> {
    (0..count as i64).map(|index| match index % 4 {
        0 => (index * index * 31 - 5000).to_string().into_bytes(),
        1 => format!("text {index}").into_bytes(),
        2 => format!("{index} compressible ")
            .repeat(index as usize % 50 + 2)
            .into(),
        _ => (0..200 + index)
            .map(|n| ((n * n * (index + 7)) >> 3) as u8)
            .chain([index as u8])
            .collect(),
    })
}

fn entries(texts: impl Iterator<Item = Text>) -> Vec<u8> {
    let mut entries = Vec::new();
    texts.for_each(|text| listpack::encode(&mut entries, &text));
    entries
}

/// Returns values in every encoding that the crate writes: the kind, the bytes, and the contents.
fn values(encoder: &mut Encoder) -> Vec<(Kind, Vec<u8>, Plain)> {
    let mut values = Vec::new();
    for text in texts(20).chain([
        vec![],
        vec![b'x'; 100_000],
        b"-0".to_vec(),
        b"2147483648".to_vec(),
    ]) {
        let mut out = Vec::new();
        encoder.string(&mut out, &text);
        values.push((Kind::String, out, Plain::String(text)));
    }
    for value in [0, -1, 127, -129, 32768, i64::from(i32::MAX) + 1, i64::MIN] {
        let mut out = Vec::new();
        encoder.int(&mut out, value);
        values.push((Kind::String, out, Plain::String(value.to_string().into())));
    }
    for count in [1, 3, 70, 700] {
        let pairs: BTreeMap<Text, (Text, Option<i64>)> = texts(count)
            .zip(texts(count + 1).skip(1))
            .map(|(field, value)| (field, (value, None)))
            .collect();
        let flat = || {
            pairs
                .iter()
                .flat_map(|(field, (value, _))| [field.clone(), value.clone()])
        };
        let members: BTreeSet<Text> = texts(count).collect();
        let count = pairs.len();
        assert_eq!(count, members.len());

        let mut out = Vec::new();
        encoder.len(&mut out, 2);
        encoder.node_packed(&mut out, &entries(flat()), 2 * count);
        encoder.node_plain(&mut out, &[b'p'; 300]);
        let list = flat().chain([vec![b'p'; 300]]).collect();
        values.push((Kind::ListListpacks, out, Plain::List(list)));

        let mut out = Vec::new();
        encoder.listpack(&mut out, &entries(flat()), 2 * count);
        values.push((Kind::HashListpack, out, Plain::Hash(pairs.clone())));

        let mut out = Vec::new();
        encoder.len(&mut out, count as u64);
        flat().for_each(|text| encoder.string(&mut out, &text));
        values.push((Kind::Hash, out, Plain::Hash(pairs.clone())));

        let mut out = Vec::new();
        encoder.len(&mut out, count as u64);
        members
            .iter()
            .for_each(|member| encoder.string(&mut out, member));
        values.push((Kind::Set, out, Plain::Set(members.clone())));

        let scores = || (0..count).map(|n| n as f64 / 8.0 - 3.0);
        let zset: BTreeMap<Text, f64> = members.iter().cloned().zip(scores()).collect();
        let mut out = Vec::new();
        encoder.len(&mut out, count as u64);
        for (member, score) in members.iter().zip(scores()).rev() {
            encoder.string(&mut out, member);
            encoder.score(&mut out, score);
        }
        values.push((Kind::Zset, out, Plain::Zset(zset.clone())));

        let mut out = Vec::new();
        let scored = members.iter().zip(scores());
        let flat = scored.flat_map(|(member, score)| [member.clone(), score.to_string().into()]);
        encoder.listpack(&mut out, &entries(flat), 2 * count);
        values.push((Kind::ZsetListpack, out, Plain::Zset(zset)));
    }
    for (width, members) in [
        (Width::Two, vec![-32768, 0, 32767]),
        (Width::Four, vec![i64::from(i32::MIN), -1, 40_000]),
        (Width::Eight, vec![i64::MIN, 1, i64::MAX]),
    ] {
        let (mut blob, mut out) = (Vec::new(), Vec::new());
        intset::write(&mut blob, width, members.iter().copied());
        encoder.string(&mut out, &blob);
        let set = members.iter().map(|m| m.to_string().into_bytes()).collect();
        values.push((Kind::SetIntset, out, Plain::Set(set)));
    }
    values
}

/// Returns a snapshot of values. The key of each value is its index.
fn file(values: &[(Kind, Vec<u8>, Plain)], version: u16, checksum: bool) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, version, checksum);
    writer.aux(&mut file, b"redis-ver", b"7.2.0");
    writer.aux(&mut file, b"ctime", b"1700000000");
    writer.select_db(&mut file, 0);
    writer.resize_db(&mut file, values.len() as u64, 1);
    let mut encoder = Encoder::new(false);
    for (index, (kind, value, _)) in values.iter().enumerate() {
        let meta = Meta {
            expire_ms: (index == 5).then_some(4_102_444_800_000),
            idle_s: (index == 6).then_some(70),
            freq: (index == 7).then_some(9),
        };
        let mut piece = Vec::new();
        encoder.record(&mut piece, *kind, index.to_string().as_bytes(), meta);
        piece.extend_from_slice(value);
        writer.feed(&piece);
        file.extend_from_slice(&piece);
    }
    assert_eq!(writer.offset(), file.len() as u64);
    let len = writer.finish(&mut file);
    assert_eq!(len, file.len() as u64);
    file
}

#[test]
fn our_snapshots() {
    for (compress, checksum) in [(true, true), (false, true), (true, false)] {
        let values = values(&mut Encoder::new(compress));
        let file = file(&values, VERSION, checksum);
        let found = snapshot(Reader::new(&file[..]).deep(true)).expect("ours");
        assert_eq!(found.verified, checksum);
        assert_eq!(found.keys.len(), values.len());
        for (index, (kind, _, value)) in values.iter().enumerate() {
            let key = &found.keys[&(0, index.to_string().into())];
            assert_eq!(key.kind, *kind);
            assert_same(&key.value, value, &(index, kind));
        }
        let meta = |index: usize| found.keys[&(0, index.to_string().into())].meta;
        assert_eq!(meta(5).expire_ms, Some(4_102_444_800_000));
        assert_eq!((meta(6).idle_s, meta(7).freq), (Some(70), Some(9)));

        let Some(mut server) = Server::start(Some(&file)) else {
            continue;
        };
        assert_eq!(server.keys().len(), values.len());
        for (index, (kind, _, value)) in values.iter().enumerate() {
            let theirs = server.value(index.to_string().as_bytes()).expect("a value");
            assert_same(value, &theirs, &(index, kind));
        }
        let expiry = server.run("PEXPIRETIME 5");
        assert_eq!(expiry, punctual_resp::Value::Int(4_102_444_800_000));
    }
}

#[test]
fn our_payloads() {
    let server = &mut Server::start(None);
    for compress in [true, false] {
        for (kind, value, plain) in values(&mut Encoder::new(compress)) {
            let payload = sealed(kind, &value);
            assert_same(restored(&payload), Ok(plain.clone()), &kind);
            if let Some(server) = server {
                assert!(server.restore(b"key", &payload), "{kind:?}");
                assert_same(server.value(b"key"), Some(plain), &kind);
            }
        }
    }
}

#[test]
fn strings_are_compressed_in_the_same_cases_as_in_redis() {
    let written = |encoder: &mut Encoder, text: &[u8]| {
        let mut out = Vec::new();
        encoder.string(&mut out, text);
        out
    };
    let (on, off) = (&mut Encoder::new(true), &mut Encoder::new(false));
    assert_eq!(written(on, &[b'x'; 20])[0], 20);
    assert_eq!(written(on, &[b'x'; 21])[0], 0xC3);
    assert_eq!(written(off, &[b'x'; 21])[0], 21);
    let text = b"abcdefghijklmnopqrstuvwxyz";
    assert_eq!(written(on, text)[0], 26);
    assert_eq!(written(on, b"-2147483648").len(), 5);
    assert_eq!(written(on, b"2147483648")[0], 10);
}

#[test]
fn hashes_with_times_round_trip() {
    let fields: BTreeMap<Text, (Text, Option<i64>)> = texts(100)
        .enumerate()
        .map(|(index, field)| {
            let expiry = (index % 3 != 0).then_some(1_700_000_000_000 + 70 * index as i64);
            (field, (index.to_string().into(), expiry))
        })
        .collect();
    let mut encoder = Encoder::new(true);
    let mut out = Vec::new();
    let first = fields
        .values()
        .filter_map(|(_, expiry)| *expiry)
        .min()
        .unwrap();
    encoder.field_base(&mut out, first);
    encoder.len(&mut out, fields.len() as u64);
    for (field, (value, expiry)) in &fields {
        let (field, value) = (Element::Bytes(field), Element::Bytes(value));
        encoder.field(&mut out, first, field, value, *expiry);
    }
    let hash = Plain::Hash(fields);
    let payload = sealed(Kind::HashExpiry, &out);
    assert_eq!(payload[payload.len() - 10..][..2], 12u16.to_le_bytes());
    assert_eq!(restored(&payload), Ok(hash.clone()));

    let file = file(
        &[(Kind::HashExpiry, out, hash.clone())],
        VERSION_FIELD_EXPIRY,
        true,
    );
    assert!(file.starts_with(b"REDIS0012"));
    let found = snapshot(Reader::new(&file[..])).expect("ours");
    assert_eq!(found.keys[&(0, b"0".to_vec())].value, hash);
}
