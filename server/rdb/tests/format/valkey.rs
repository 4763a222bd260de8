//! Snapshots and payloads of Valkey 9: version 80, and a type of hashes with expiry times.

use punctual_rdb::{
    Contents, Dialect, Element, Encoder, Event, Kind, Meta, Reader, Reason, VERSION_VALKEY, Writer,
    dump,
};

/// The payload of `HSET h a 1 b 2` and `HPEXPIREAT h 1795774445992 FIELDS 1 a` in valkey-server
/// 9.1.2.
const PAYLOAD: &[u8] = b"\x16\x02\x01a\xc0\x01\xa8y\x7f\x1c\xa2\x01\0\0\x01b\xc0\x02\
    \xff\xff\xff\xff\xff\xff\xff\xff\x50\0\xb3\x40\x69\x4d\xb4\xb6\x67\x16";
const EXPIRY_MS: i64 = 1_795_774_445_992;

fn fields<S: punctual_rdb::Source>(contents: Contents<'_, S>) -> Vec<(String, String, Option<i64>)>
where
    S::Error: std::fmt::Debug,
{
    let Contents::HashExpiry(mut pairs) = contents else {
        panic!("a hash whose fields may expire");
    };
    let mut fields = Vec::new();
    let text =
        |element: Element<'_>| element.with_text(|text| String::from_utf8_lossy(text).into_owned());
    while let Some((name, value, expire_ms)) = pairs.next().unwrap() {
        fields.push((text(name), text(value), expire_ms));
    }
    fields
}

fn expected() -> Vec<(String, String, Option<i64>)> {
    vec![
        ("a".into(), "1".into(), Some(EXPIRY_MS)),
        ("b".into(), "2".into(), None),
    ]
}

/// Returns a snapshot for Valkey with the hash, and a key after it.
fn snapshot() -> Vec<u8> {
    let (mut file, mut piece) = (Vec::new(), Vec::new());
    let mut writer = Writer::new(&mut file, VERSION_VALKEY, true);
    writer.select_db(&mut file, 0);
    let mut encoder = Encoder::new(true).dialect(Dialect::Valkey);
    encoder.record(&mut piece, Kind::HashExpiry, b"h", Meta::default());
    encoder.field_base(&mut piece, EXPIRY_MS);
    encoder.len(&mut piece, 2);
    for (name, value, expiry) in [(b"a", 1, Some(EXPIRY_MS)), (b"b", 2, None)] {
        let (name, value) = (Element::Bytes(name), Element::Int(value));
        encoder.field(&mut piece, EXPIRY_MS, name, value, expiry);
    }
    encoder.record(&mut piece, Kind::String, b"k", Meta::default());
    encoder.string(&mut piece, b"v");
    writer.feed(&piece);
    file.extend_from_slice(&piece);
    writer.finish(&mut file);
    file
}

#[test]
fn payloads_of_valkey_are_read() {
    let mut restore = dump::Restore::new(PAYLOAD).unwrap();
    let value = restore.value().unwrap();
    assert_eq!(value.kind(), Kind::HashExpiryValkey);
    assert_eq!(fields(value.read().unwrap()), expected());
}

#[test]
fn snapshots_for_valkey_have_its_bytes_and_are_read_or_skipped() {
    let file = snapshot();
    assert!(file.starts_with(b"VALKEY080"));
    // The record has the bytes of Valkey's payload.
    let value = &PAYLOAD[1..PAYLOAD.len() - 10];
    assert!(file.windows(value.len()).any(|part| part == value));
    for skip in [false, true] {
        let mut reader = Reader::new(&file[..]);
        let mut keys = Vec::new();
        loop {
            match reader.next().unwrap() {
                Event::Key(record) => {
                    keys.push(record.key.to_vec());
                    if !skip && record.key == b"h" {
                        assert_eq!(fields(record.value.read().unwrap()), expected());
                    }
                }
                Event::End { verified } => {
                    assert!(verified);
                    break;
                }
                _ => {}
            }
        }
        assert_eq!(keys, [b"h", b"k"]);
    }
}

/// Type 22 was another type in release candidates of Redis 7.4, and 24 is unknown to Valkey.
#[test]
fn each_dialect_has_its_own_types_and_versions() {
    assert_eq!(
        Kind::of_byte(22, Dialect::Redis),
        Some(Kind::HashExpiryPreGa)
    );
    assert_eq!(
        Kind::of_byte(22, Dialect::Valkey),
        Some(Kind::HashExpiryValkey)
    );
    assert_eq!(Kind::of_byte(24, Dialect::Valkey), None);
    for (start, version) in [
        (&b"VALKEY081"[..], 81),
        (b"VALKEY012", 12),
        (b"REDIS0080", 80),
        (b"REDIS0013", 13),
    ] {
        let failure = Reader::new(start)
            .next()
            .err()
            .map(punctual_rdb::Error::from);
        assert_eq!(failure.unwrap().reason, Reason::Version(version));
    }
}

/// Valkey accepts every deadline of 64 bits, but other servers cannot store the latest ones.
#[test]
fn expiry_times_out_of_range_are_refused() {
    for (time, valid) in [
        (0, true),
        ((1 << 48) - 2, true),
        ((1 << 48) - 1, false),
        (-2, false),
        (i64::MAX, false),
    ] {
        let mut payload = b"\x16\x01\x01a\x01b".to_vec();
        payload.extend_from_slice(&time.to_le_bytes());
        payload.extend_from_slice(&80u16.to_le_bytes());
        let sum = punctual_rdb::crc64(&payload);
        payload.extend_from_slice(&sum.to_le_bytes());
        let mut restore = dump::Restore::new(&payload).unwrap();
        let Ok(Contents::HashExpiry(mut pairs)) = restore.value().unwrap().read() else {
            panic!("a hash whose fields may expire");
        };
        assert_eq!(pairs.next().is_ok(), valid, "{time}");
    }
}
