//! Damaged bytes. The reader must not panic, must return the same result for any block size, and
//! must refuse all payloads that redis-server refuses.

use proptest::prelude::*;
use punctual_harness::Random;
use punctual_rdb::{Blocks, Element, Encoder, Kind, Meta, Reader, Reason, VERSION, Writer, dump};

use crate::by_hand::old_values;
use crate::contents::{Plain, names, restored, sealed, snapshot};
use crate::server::Server;
use crate::streams;

fn values() -> Vec<(Kind, Vec<u8>)> {
    let mut encoder = Encoder::new(true);
    let mut values: Vec<_> = old_values()
        .into_iter()
        .map(|(kind, value, _)| (kind, value))
        .collect();
    let mut entries = Vec::new();
    for index in 0..30 {
        punctual_rdb::listpack::encode(&mut entries, "text".repeat(index).as_bytes());
        punctual_rdb::listpack::encode_int(&mut entries, 7i64.pow(index as u32 % 22));
    }
    for kind in [Kind::HashListpack, Kind::ZsetListpack] {
        let mut out = Vec::new();
        encoder.listpack(&mut out, &entries, 60);
        values.push((kind, out));
    }
    let mut out = Vec::new();
    encoder.len(&mut out, 2);
    encoder.node_packed(&mut out, &entries, 60);
    encoder.node_plain(&mut out, b"plain");
    values.push((Kind::ListListpacks, out));
    let (mut blob, mut out) = (Vec::new(), Vec::new());
    punctual_rdb::intset::write(
        &mut blob,
        punctual_rdb::intset::Width::Four,
        (0..40).map(i64::from),
    );
    encoder.string(&mut out, &blob);
    values.push((Kind::SetIntset, out));
    let mut out = Vec::new();
    encoder.field_base(&mut out, 1_700_000_000_000);
    encoder.len(&mut out, 2);
    for (field, expiry) in [(b"a", None), (b"b", Some(1_700_000_000_000))] {
        let field = Element::Bytes(field);
        encoder.field(&mut out, 1_700_000_000_000, field, field, expiry);
    }
    values.push((Kind::HashExpiry, out));
    values.extend(streams::RECORDS.iter().cloned());
    values
}

fn file() -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, VERSION, false);
    writer.aux(&mut file, b"a", b"1");
    Encoder::new(false).library(&mut file, b"#!lua name=a\n");
    writer.resize_db(&mut file, 3, 1);
    for (kind, value) in values() {
        Encoder::new(false).record(&mut file, kind, &[kind.byte()], Meta::default());
        file.extend(value);
    }
    writer.finish(&mut file);
    file
}

/// Changes, inserts, removes or cuts off some of `bytes`.
fn damage(bytes: &mut Vec<u8>, changes: &[(prop::sample::Index, u8, u8)]) {
    for (at, how, byte) in changes {
        if bytes.is_empty() {
            return;
        }
        let at = at.index(bytes.len());
        match how % 8 {
            0 => bytes.truncate(at),
            1 => drop(bytes.remove(at)),
            2 => bytes.insert(at, *byte),
            3 => bytes[at] ^= 1 << (byte % 8),
            4 => bytes[at] = bytes[at].wrapping_add(1),
            5 => bytes[at] = 0xFF,
            _ => bytes[at] = *byte,
        }
    }
}

fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, u8, u8)>> {
    prop::collection::vec(any::<(prop::sample::Index, u8, u8)>(), 1..4)
}

proptest! {
    #[test]
    fn damaged_snapshots(changes in changes(), block in 1usize..5000) {
        let mut bytes = file();
        damage(&mut bytes, &changes);
        let whole = snapshot(Reader::new(&bytes[..]).deep(true));
        let mut rest = &bytes[..];
        let fetch = |place: &mut [u8]| std::io::Read::read(&mut rest, place);
        let pieces = snapshot(Reader::new(Blocks::new(block, None, fetch)).deep(true));
        match (whole, pieces) {
            (Ok(whole), Ok(pieces)) => {
                prop_assert!(whole == pieces);
                prop_assert!(names(Reader::new(&bytes[..])).is_ok());
            }
            (Err(error), Err(_)) => {
                let error = punctual_rdb::Error::from(error);
                prop_assert!(error.offset <= bytes.len() as u64, "{error}");
            }
            (whole, pieces) => prop_assert!(false, "{whole:?}\n{pieces:?}"),
        }
    }

    #[test]
    fn cut_snapshots(at in any::<prop::sample::Index>()) {
        let bytes = file();
        let cut = &bytes[..at.index(bytes.len())];
        prop_assert!(snapshot(Reader::new(cut)).is_err());
        prop_assert!(names(Reader::new(cut)).is_err());
    }

    #[test]
    fn damaged_payloads(which in any::<prop::sample::Index>(), changes in changes()) {
        let values = values();
        let (kind, value) = &values[which.index(values.len())];
        let mut value = value.clone();
        damage(&mut value, &changes);
        let _ = restored(&sealed(*kind, &value));
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = restored(&sealed(Kind::Set, &bytes));
        let _ = dump::open(&bytes);
        let _ = snapshot(Reader::new(&[b"REDIS0010", &bytes[..]].concat()[..]));
        let mut payload = bytes;
        dump::seal(&mut payload);
        let _ = restored(&payload);
        let _ = crate::functions::restored(&payload);
    }
}

#[test]
fn payloads_are_refused_as_restore_refuses_them() {
    let payload = sealed(Kind::String, b"\x01v");
    assert_eq!(dump::open(&payload), Ok(&b"\0\x01v"[..]));
    for at in 0..payload.len() {
        let mut bad = payload.clone();
        bad[at] ^= 4;
        assert!(dump::open(&bad).is_err());
    }
    assert_eq!(dump::open(&payload[..9]), Err(dump::Refused::Short));
    let mut newer = payload[..payload.len() - 10].to_vec();
    newer.extend([13, 0]);
    let sum = punctual_rdb::crc64(&newer).to_le_bytes();
    newer.extend(sum);
    assert_eq!(dump::open(&newer), Err(dump::Refused::Version(13)));
}

/// The crate must refuse all damaged payloads that redis-server refuses with
/// `sanitize-dump-payload`. Values that both accept must be equal.
#[test]
fn damaged_payloads_beside_redis() {
    let Some(mut server) = Server::start(None) else {
        return;
    };
    let mut random = Random::new(1);
    let values: Vec<_> = values()
        .into_iter()
        .filter(|(kind, value)| kind.byte() < Kind::SetListpack.byte() && !value.is_empty())
        .collect();
    let (mut both, mut neither, mut stricter) = (0, 0, 0);
    for round in 0..4000 {
        let (kind, value) = &values[round % values.len()];
        let mut value = value.clone();
        // Most lengths and encodings are near the start, so the damage is in the first 900 bytes.
        let at = (random.bits() as usize) % value.len().min(900);
        match random.bits() % 3 {
            0 => value[at] = random.bits() as u8,
            1 => value[at] ^= 1 << (random.bits() % 8),
            _ => value[at] = value[at].wrapping_add(1),
        }
        let payload = sealed(*kind, &value);
        let ours = restored(&payload).ok().filter(|value| value.len() > 0);
        let accepted = server.restore(b"key", &payload);
        match (ours, accepted) {
            (Some(ours), true) => {
                both += 1;
                let theirs = server.value(b"key");
                assert!(
                    same(&ours, theirs.as_ref()),
                    "{kind:?} {at}\n{ours:?}\n{theirs:?}"
                );
            }
            (Some(ours), false) => panic!("{kind:?} {at}: redis-server refuses {ours:?}"),
            // Redis is less strict in four ways. It accepts a score that is not a number. It reads
            // beyond the value into the version and the checksum. It reads the encoding of a string
            // as a length. It checks less of a stream.
            (None, true) => match restored(&payload).map_err(|error| error.reason) {
                Err(Reason::Score | Reason::Truncated | Reason::Length | Reason::Stream(_)) => {
                    stricter += 1;
                }
                Err(Reason::Compact(_)) if is_stream(*kind) => {
                    stricter += 1;
                }
                other => panic!("{kind:?} {at}: redis-server accepts it, {other:?}"),
            },
            (None, false) => neither += 1,
        }
    }
    eprintln!("both accept {both}, both refuse {neither}, only redis-server accepts {stricter}");
    assert!(both > 100 && neither > 100 && stricter < 400);
}

fn is_stream(kind: Kind) -> bool {
    matches!(kind, Kind::Stream | Kind::Stream2)
}

fn same(ours: &Plain, theirs: Option<&Plain>) -> bool {
    match (ours, theirs) {
        // Redis takes the first ID from the record; the crate computes it from the blocks.
        (Plain::Stream(ours), Some(Plain::Stream(theirs))) => {
            let mut theirs = theirs.clone();
            theirs.totals.first_id = ours.totals.first_id;
            *ours == theirs
        }
        _ => Some(ours) == theirs,
    }
}
