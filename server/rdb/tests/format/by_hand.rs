//! Hand-made bytes, mostly in encodings that redis-server 7.0 reads and no longer writes. If
//! redis-server is installed, the tests of these encodings compare its result with ours.

use punctual_rdb::ziplist::Ziplist;
use punctual_rdb::{Corrupt, Error, Flaw, Kind, Meta, Reader, Reason};

use crate::contents::{Plain, Text, assert_same, restored, sealed, snapshot};
use crate::server::Server;

/// Returns a ziplist. Each of `entries` has an encoding and data, without the previous length.
pub fn ziplist(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut body = Vec::new();
    let (mut last, mut last_len) = (0, 0usize);
    for entry in entries {
        last = body.len();
        match u8::try_from(last_len) {
            Ok(short) if short < 254 => body.push(short),
            _ => {
                body.push(254);
                body.extend((last_len as u32).to_le_bytes());
            }
        }
        body.extend(entry);
        last_len = body.len() - last;
    }
    let mut out = (body.len() as u32 + 11).to_le_bytes().to_vec();
    out.extend((last as u32 + 10).to_le_bytes());
    out.extend((entries.len() as u16).to_le_bytes());
    out.extend(body);
    out.push(255);
    out
}

/// Returns the encoding and data of a text in a ziplist.
pub fn zip_text(text: &[u8]) -> Vec<u8> {
    let mut out = match text.len() {
        len @ 0..64 => vec![len as u8],
        len @ 64..16384 => vec![0x40 | (len >> 8) as u8, len as u8],
        len => [&[0x80][..], &(len as u32).to_be_bytes()].concat(),
    };
    out.extend(text);
    out
}

/// Returns ziplist entries of every encoding, and their texts. The texts are different, and their
/// number is even.
fn entries() -> (Vec<Vec<u8>>, Vec<Text>) {
    let mut entries = vec![
        vec![0xF1],
        vec![0xFD],
        vec![0xFE, 13],
        vec![0xFE, 0x80],
        vec![0xC0, 0x00, 0x80],
        vec![0xF0, 0x00, 0x00, 0x80],
        vec![0xF0, 0xFF, 0xFF, 0x7F],
        vec![0xD0, 0, 0, 0, 0x80],
        vec![0xE0, 0, 0, 0, 0, 0, 0, 0, 0x80],
    ];
    let mut texts: Vec<Text> = [
        "0",
        "12",
        "13",
        "-128",
        "-32768",
        "-8388608",
        "8388607",
        "-2147483648",
        "-9223372036854775808",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into();
    for len in [0, 1, 63, 64, 250, 260, 300, 16383, 16384] {
        let text = vec![b'a' + (len % 26) as u8; len];
        entries.push(zip_text(&text));
        texts.push(text);
    }
    (entries, texts)
}

/// Returns the string `bytes` with its length in a snapshot.
pub fn string(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::from([0x80]);
    out.extend((bytes.len() as u32).to_be_bytes());
    out.extend(bytes);
    out
}

fn bytes(texts: &[&str]) -> Vec<Text> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Returns values in all former encodings: the kind, the bytes, and the contents.
pub fn old_values() -> Vec<(Kind, Vec<u8>, Plain)> {
    let (zipped, texts) = entries();
    let pairs = || {
        texts
            .chunks(2)
            .map(|pair| (pair[0].clone(), (pair[1].clone(), None)))
    };
    let scores = ["-inf", "-2.5", "0", "3", "1e+20", "inf"];
    let scored = || {
        bytes(&scores)
            .into_iter()
            .zip(scores.map(|score| score.parse().unwrap()))
    };
    let zset_ziplist: Vec<_> = bytes(&scores)
        .into_iter()
        .flat_map(|score| {
            [
                zip_text(&score),
                if score == b"3" {
                    vec![0xF4]
                } else {
                    zip_text(&score)
                },
            ]
        })
        .collect();
    let mut zset_text = vec![scores.len() as u8];
    for score in scores.iter().rev() {
        zset_text.extend(string(score.as_bytes()));
        match *score {
            "inf" => zset_text.push(254),
            "-inf" => zset_text.push(255),
            other => {
                zset_text.push(other.len() as u8);
                zset_text.extend(other.as_bytes());
            }
        }
    }
    vec![
        (
            Kind::List,
            [vec![3], string(b"one"), vec![0xC0, 0xFE], vec![0xC1, 0, 1]].concat(),
            Plain::List(bytes(&["one", "-2", "256"])),
        ),
        // "aaaaaaaaaaaaaaaaaaaaa" compressed: one letter, then twenty copies of the previous byte.
        (
            Kind::String,
            vec![0xC3, 5, 21, 0, b'a', 7 << 5, 11, 0],
            Plain::String(vec![b'a'; 21]),
        ),
        (
            Kind::ListZiplist,
            string(&ziplist(&zipped)),
            Plain::List(texts.clone()),
        ),
        (
            Kind::HashZiplist,
            string(&ziplist(&zipped)),
            Plain::Hash(pairs().collect()),
        ),
        (
            Kind::ZsetZiplist,
            string(&ziplist(&zset_ziplist)),
            Plain::Zset(scored().collect()),
        ),
        (Kind::ZsetText, zset_text, Plain::Zset(scored().collect())),
        (
            Kind::ListZiplists,
            [
                vec![3],
                string(&ziplist(&zipped)),
                string(&ziplist(&[])),
                string(&ziplist(&[vec![0xF3]])),
            ]
            .concat(),
            Plain::List(texts.into_iter().chain([b"2".to_vec()]).collect()),
        ),
        (
            Kind::Set,
            [vec![2], string(b"a"), vec![0xC2, 0, 0, 0, 0x80]].concat(),
            Plain::Set(bytes(&["a", "-2147483648"]).into_iter().collect()),
        ),
    ]
}

#[test]
fn former_encodings() {
    let mut server = Server::start(None);
    for (kind, value, plain) in old_values() {
        let payload = sealed(kind, &value);
        assert_same(restored(&payload), Ok(plain.clone()), &kind);
        if let Some(server) = &mut server {
            assert!(server.restore(b"key", &payload), "{kind:?}");
            assert_same(server.value(b"key"), Some(plain), &kind);
        }
    }
}

#[test]
fn former_snapshots() {
    // Version 3: no checksum, times in seconds.
    let mut file = b"REDIS0003\xFE\x02\xFD\x00\x00\x00\x70\x00\x01k\x01v".to_vec();
    for (index, (kind, value, _)) in old_values().into_iter().enumerate() {
        file.extend([kind.byte(), 1, b'a' + index as u8]);
        file.extend(value);
    }
    file.push(0xFF);
    let found = snapshot(Reader::new(&file[..])).unwrap();
    assert_eq!((found.version, found.verified), (3, false));
    let key = &found.keys[&(2, b"k".to_vec())];
    let meta = Meta {
        expire_ms: Some(0x7000_0000 * 1000),
        ..Meta::default()
    };
    assert_eq!(
        (key.meta, &key.value),
        (meta, &Plain::String(b"v".to_vec()))
    );
    for (index, (kind, _, value)) in old_values().into_iter().enumerate() {
        assert_same(
            &found.keys[&(2, vec![b'a' + index as u8])].value,
            &value,
            &kind,
        );
    }
    let Some(mut server) = Server::start(Some(&file)) else {
        return;
    };
    server.run("SELECT 2");
    for ((_, name), key) in &found.keys {
        assert_same(server.value(name), Some(key.value.clone()), name);
    }
}

#[test]
fn skipped_records() {
    let id: u64 = 0x0001_0203_0405_0607 << 10 | 5;
    let id = [&[0x81][..], &id.to_be_bytes()].concat();
    let parts = [&[
        1, 5, 2, 0x40, 200, 3, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 5, 2, b'h', b'i', 0,
    ][..]]
    .concat();
    let mut third = vec![21, 1, b't', 0, 0, 0, 0, 0, 0, 0, 0, 0];
    third.extend([1, 1, b'g', 0, 0, 7, 0, 1, 1, b'c']);
    third.extend([0; 16]);
    third.push(0);
    let file = [
        b"REDIS0011".to_vec(),
        [&[0xF7][..], &id, &[2, 2], &parts].concat(),
        [&[7, 1, b'm'][..], &id, &parts].concat(),
        third,
        b"\xF4\x05\x01\x00\x00\x01k\x01v\xFF".to_vec(),
        vec![0; 8],
    ]
    .concat();
    let found = snapshot(Reader::new(&file[..])).unwrap();
    let skipped: Vec<_> = found
        .skipped
        .iter()
        .map(|(what, name, byte)| (&what[..], std::str::from_utf8(name).unwrap(), *byte))
        .collect();
    let module = "AAgIDAgUG".len();
    assert_eq!(module, 9);
    assert!(skipped[0].0.starts_with("data of module type ") && skipped[0].2 == 247);
    assert!(skipped[1].0.starts_with("value of module type "));
    assert_eq!(skipped[1].0.len(), "value of module type ".len() + 9);
    assert_eq!((skipped[1].1, skipped[1].2), ("m", 7));
    assert_eq!(skipped.len(), 2);
    assert_eq!(found.keys[&(0, b"t".to_vec())].kind, Kind::Stream3);
    assert!(found.keys.contains_key(&(0, b"k".to_vec())));

    let refused = |bytes: &[u8]| Error::from(snapshot(Reader::new(bytes)).unwrap_err());
    let error = |offset, reason| Error { offset, reason };
    assert_eq!(refused(b"REDIS0011\x06\x01k"), error(12, Reason::Module(6)));
    assert_eq!(refused(b"REDIS0013"), error(5, Reason::Version(13)));
    assert_eq!(refused(b"REDIS0000"), error(5, Reason::Version(0)));
    assert_eq!(refused(b"RADIS0011"), error(0, Reason::Signature));
    assert_eq!(refused(b"REDIS0011"), error(9, Reason::Truncated));
    assert_eq!(refused(b"REDIS0011\x08"), error(9, Reason::Type(8)));
    assert_eq!(
        refused(b"REDIS0011\0\x01k\xC5"),
        error(12, Reason::StringEncoding(5))
    );
    assert_eq!(refused(b"REDIS0011\0\x01k\x82"), error(12, Reason::Length));
    assert_eq!(
        refused(b"REDIS0011\0\x01k\x81\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF").reason,
        Reason::Truncated
    );
    assert_eq!(
        refused(b"REDIS0011\x02\x01k\x80\xFF\xFF\xFF\xFF"),
        error(12, Reason::Truncated)
    );
    assert_eq!(
        refused(b"REDIS0011\x05\x01k\x01\x01m\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"),
        error(15, Reason::Score)
    );
}

#[test]
fn hashes_of_redis_7_4() {
    let time = |ms: u64| ms.to_le_bytes().to_vec();
    let hash = |expiry: [Option<i64>; 2]| {
        let [a, b] = expiry;
        Plain::Hash(
            [
                (b"a".to_vec(), (b"1".to_vec(), a)),
                (b"b".to_vec(), (b"2".to_vec(), b)),
            ]
            .into(),
        )
    };
    let fields =
        |first: &[u8], second: &[u8]| [&[2], first, b"\x01a\x011", second, b"\x01b\x012"].concat();
    let check = |kind, value: &[u8], expected| {
        assert_same(restored(&sealed(kind, value)), expected, &kind);
    };
    let both = Ok(hash([Some(5000), Some(5063)]));
    check(
        Kind::HashExpiry,
        &[time(5000), fields(&[1], &[64, 64])].concat(),
        both,
    );
    let one = Ok(hash([None, Some(5000)]));
    check(
        Kind::HashExpiry,
        &[time(5000), fields(&[0], &[1])].concat(),
        one.clone(),
    );
    check(
        Kind::HashExpiryPreGa,
        &fields(&[0], &[0x53, 0x88]),
        one.clone(),
    );

    let mut entries = Vec::new();
    for text in ["b", "2", "5000", "a", "1", "0"] {
        punctual_rdb::listpack::encode(&mut entries, text.as_bytes());
    }
    let blob = string(&punctual_rdb::listpack::wrap(&entries, 6));
    check(
        Kind::HashExpiryListpack,
        &[time(5000), blob.clone()].concat(),
        one.clone(),
    );
    check(Kind::HashExpiryListpackPreGa, &blob, one);

    let refused = |offset, reason| Err(Error { offset, reason });
    let max = 0xFFFF_FFFF_FFFE;
    check(
        Kind::HashExpiry,
        &[time(max), fields(&[0], &[2])].concat(),
        refused(15, Reason::Expiry),
    );
    check(
        Kind::HashExpiry,
        &[time(u64::MAX), fields(&[0], &[2])].concat(),
        refused(1, Reason::Expiry),
    );
    let blob = string(&punctual_rdb::listpack::wrap(
        &entries[..entries.len() - 2],
        5,
    ));
    check(
        Kind::HashExpiryListpackPreGa,
        &blob,
        refused(1, Reason::Pairing),
    );
}

#[test]
fn damaged_ziplists_are_refused_with_the_offset() {
    let good = ziplist(&[zip_text(b"ab"), vec![0xF5]]);
    assert_eq!(Ziplist::new(&good).unwrap().count(), 2);
    let refused = |at: usize, byte: u8| {
        let mut bad = good.clone();
        bad[at] = byte;
        let Corrupt { offset, reason, .. } = Ziplist::new(&bad).unwrap_err();
        (offset, reason)
    };
    assert_eq!(refused(0, 99), (0, Flaw::Length));
    assert_eq!(refused(4, 10), (4, Flaw::Tail));
    assert_eq!(refused(8, 3), (8, Flaw::Count));
    assert_eq!(refused(10, 1), (10, Flaw::Backlen));
    assert_eq!(refused(11, 0x3F), (10, Flaw::Entry));
    assert_eq!(refused(14, 5), (14, Flaw::Backlen));
    assert_eq!(refused(14, 255), (14, Flaw::End));
    assert_eq!(refused(15, 0xC1), (14, Flaw::Encoding));
    assert_eq!(refused(16, 0), (16, Flaw::End));
    assert_eq!(Ziplist::new(&good[..9]).unwrap_err().reason, Flaw::Header);
}
