//! The crate reads the output of redis-server, in every encoding that its settings allow.

use std::collections::BTreeSet;

use punctual_rdb::{Blocks, Contents, Kind, Node, Reader, dump, listpack};
use punctual_resp::Value;

use crate::contents::{
    Snapshot, assert_same, first_items, names, plain, snapshot, text as text_of,
};
use crate::server::{Server, text};

const EXPIRE_MS: i64 = 4_102_444_800_123;

const LIBRARY: &str = "#!lua name=mylib\nredis.register_function('f', function() return 1 end)";

/// Returns the integers on both sides of every limit between encodings, as text.
fn limit_integers() -> Vec<String> {
    let mut integers: Vec<i64> = vec![0, 1, i64::MAX, i64::MIN];
    for bits in [6, 7, 12, 13, 15, 16, 23, 24, 31, 32, 62] {
        let power = 1i64 << bits;
        integers.extend([power - 1, power, -power, -power - 1]);
    }
    integers.iter().map(i64::to_string).collect()
}

/// Creates keys of every type in every encoding.
fn populate(server: &mut Server) {
    let mut put = |words: Vec<String>| {
        server.succeed(&words);
    };
    let command = |name: &str, key: &str| vec![name.to_owned(), key.to_owned()];
    let long = |len: usize| "long text ".repeat(len / 10 + 1)[..len].to_owned();

    for (index, number) in limit_integers().into_iter().enumerate() {
        put(vec!["SET".into(), format!("int:{index}"), number]);
    }
    for len in [0, 1, 20, 21, 63, 64, 300, 16383, 16384, 100_000] {
        put(vec!["SET".into(), format!("text:{len}"), long(len)]);
    }
    for text in ["-0", "007", " 1", "99999999999", "-2147483648", "3.0"] {
        put(vec!["SET".into(), format!("odd:{text}"), text.into()]);
    }
    // Small collections with every encoding of listpack entries, and (in `list:long`) backlens of
    // up to three bytes.
    let small = || {
        let texts = [0, 1, 63, 64, 121, 122, 125, 126, 127, 128].map(long);
        limit_integers().into_iter().chain(texts).enumerate()
    };
    for (index, text) in small() {
        put([command("RPUSH", "list:small"), vec![text.clone()]].concat());
        put([
            command("HSET", "hash:small"),
            vec![format!("f{index}"), text.clone()],
        ]
        .concat());
        put([command("ZADD", "zset:small"), vec![index.to_string(), text]].concat());
    }
    for len in [4095, 4096, 16000, 16375, 16376, 16377, 16378, 16379, 20000] {
        put([command("RPUSH", "list:long"), vec![long(len)]].concat());
        put([
            command("HSET", "hash:long"),
            vec![len.to_string(), long(len)],
        ]
        .concat());
    }
    for score in ["inf", "-inf", "0.1", "-1.5e300", "5e-324", "3", "1e17"] {
        put([
            command("ZADD", "zset:scores"),
            vec![score.into(), score.into()],
        ]
        .concat());
        put([
            command("ZADD", "zset:large"),
            vec![score.into(), score.into()],
        ]
        .concat());
    }
    for index in 0..1000 {
        let member = format!("member number {index}");
        put([command("RPUSH", "list:large"), vec![member.clone()]].concat());
        put([command("SADD", "set:large"), vec![member.clone()]].concat());
        put([
            command("HSET", "hash:large"),
            vec![member.clone(), index.to_string()],
        ]
        .concat());
        put([
            command("ZADD", "zset:large"),
            vec![index.to_string(), member],
        ]
        .concat());
    }
    for (key, numbers) in [
        ("set:int16", &["-5", "3", "7"][..]),
        ("set:int32", &["70000", "1"]),
        ("set:int64", &["5000000000", "-1"]),
        ("set:texts", &["a", "b", "1"]),
    ] {
        let numbers = numbers.iter().map(|number| number.to_string()).collect();
        put([command("SADD", key), numbers].concat());
    }
    server.run(&format!("PEXPIREAT list:small {EXPIRE_MS}"));
    server.run(&format!("PEXPIREAT text:1 {EXPIRE_MS}"));

    server.run("XADD stream 1-1 a 1 b 2");
    server.run("XADD stream 2-1 a 1 b 2");
    server.run("XGROUP CREATE stream group 0");
    server.run("XGROUP CREATE stream empty 0");
    server.run("XREADGROUP GROUP group alice COUNT 1 STREAMS stream >");
    server.run("XREADGROUP GROUP group bob COUNT 1 STREAMS stream >");
    server.run("SELECT 3");
    server.run("SET elsewhere 1");
    server.run("SELECT 0");
    server.succeed(&["FUNCTION", "LOAD", "REPLACE", LIBRARY]);
}

fn save(server: &mut Server) -> Vec<u8> {
    server.run("SAVE");
    std::fs::read(server.file("dump.rdb")).expect("a snapshot")
}

/// Reads a snapshot in one piece and in blocks, and asserts that the results are equal.
fn read(bytes: &[u8]) -> Snapshot {
    let whole = snapshot(Reader::new(bytes).deep(true)).expect("a snapshot");
    for (block, len) in [(1, None), (100, Some(bytes.len() as u64)), (1 << 18, None)] {
        let mut rest = bytes;
        let fetch = |place: &mut [u8]| std::io::Read::read(&mut rest, place);
        let pieces = snapshot(Reader::new(Blocks::new(block, len, fetch))).expect("the same");
        assert!(pieces == whole, "blocks of {block}");
    }
    let keys = whole.keys.len();
    assert_eq!(names(Reader::new(bytes)).expect("the same").len(), keys);
    assert_eq!(first_items(Reader::new(bytes)).expect("the same"), keys);
    whole
}

fn compare(server: &mut Server, snapshot: &Snapshot) {
    for key in server.keys() {
        let Some(theirs) = server.value(&key) else {
            continue;
        };
        let name = String::from_utf8_lossy(&key).into_owned();
        let ours = &snapshot.keys[&(0, key.clone())];
        let expiry = match server.succeed(&[b"PEXPIRETIME", &key[..]]) {
            Value::Int(time) if time >= 0 => Some(time),
            _ => None,
        };
        assert_same(ours.meta.expire_ms, expiry, &name);
        assert_same(ours.value.clone(), theirs, &name);
    }
}

#[test]
fn snapshots_of_redis_in_every_encoding() {
    let Some(mut server) = Server::start(None) else {
        return;
    };
    let mut kinds = BTreeSet::new();
    for (setting, sizes) in [("yes", 1 << 20), ("no", 128), ("yes", 0)] {
        server.run(&format!("CONFIG SET rdbcompression {setting}"));
        server.run(&format!(
            "CONFIG SET hash-max-listpack-entries {sizes} hash-max-listpack-value {sizes} \
             zset-max-listpack-entries {sizes} zset-max-listpack-value {sizes} \
             set-max-intset-entries {sizes} list-max-listpack-size {}",
            if sizes == 0 { 1 } else { -5 }
        ));
        let threshold = if sizes == 128 { "5000b" } else { "0" };
        server.run(&format!("DEBUG QUICKLIST-PACKED-THRESHOLD {threshold}"));
        server.run("FLUSHALL");
        populate(&mut server);
        let found = read(&save(&mut server));
        compare(&mut server, &found);
        assert!(found.verified);
        assert_eq!(found.version, 10);
        assert_eq!(found.aux[&b"redis-bits"[..]], b"64");
        assert_eq!(found.sizes, [(found.keys.len() as u64 - 1, 2), (1, 0)]);
        assert_eq!(
            found.keys[&(3, b"elsewhere".to_vec())].meta,
            Default::default()
        );
        assert_eq!(found.skipped, []);
        assert_eq!(found.libraries, [LIBRARY.as_bytes()]);
        kinds.extend(found.keys.values().map(|key| key.kind.byte()));
    }
    let all = [
        Kind::String,
        Kind::Set,
        Kind::Hash,
        Kind::Zset,
        Kind::SetIntset,
        Kind::HashListpack,
        Kind::ZsetListpack,
        Kind::ListListpacks,
        Kind::Stream2,
    ];
    assert_eq!(kinds, all.map(Kind::byte).into_iter().collect());
}

#[test]
fn usage_of_keys() {
    let Some(mut server) = Server::start(None) else {
        return;
    };
    server.run("CONFIG SET maxmemory-policy allkeys-lru");
    server.run("SET key value");
    let found = read(&save(&mut server));
    assert_eq!(found.keys[&(0, b"key".to_vec())].meta.idle_s, Some(0));

    server.run("CONFIG SET maxmemory-policy allkeys-lfu");
    server.run("SET key value");
    let found = read(&save(&mut server));
    assert!(found.keys[&(0, b"key".to_vec())].meta.freq.is_some());
}

#[test]
fn checksums() {
    for (setting, expected) in [("yes", true), ("no", false)] {
        let settings = ["--rdbchecksum", setting];
        let Some(mut server) = Server::start_with(None, &settings) else {
            return;
        };
        server.run("SET key value");
        let mut bytes = save(&mut server);
        assert_eq!(read(&bytes).verified, expected);
        let last = bytes.len() - 10;
        assert_eq!(bytes[last], b'e');
        bytes[last] = b'E';
        let changed = snapshot(Reader::new(&bytes[..]));
        assert_eq!(changed.is_err(), expected);
        if let Err(error) = changed {
            assert!(error.to_string().starts_with("CRC error"), "{error}");
        }
        assert!(snapshot(Reader::new(&bytes[..]).verify_checksum(false)).is_ok());
    }
}

#[test]
fn payloads_of_redis() {
    let Some(mut server) = Server::start(None) else {
        return;
    };
    let large = 1 << 20;
    server.run(&format!(
        "CONFIG SET hash-max-listpack-entries {large} hash-max-listpack-value {large} \
         zset-max-listpack-value {large} list-max-listpack-size -5"
    ));
    populate(&mut server);
    let mut listpacks = 0;
    for key in server.keys() {
        let payload = text(server.succeed(&[b"DUMP", &key[..]]));
        let Some(theirs) = server.value(&key) else {
            continue;
        };
        let mut restore = dump::Restore::new(&payload).expect("sealed by redis-server");
        match restore.value().unwrap().read().unwrap() {
            Contents::HashListpack(listpack) | Contents::ZsetListpack(listpack) => {
                listpacks += 1;
                same_bytes(listpack);
            }
            Contents::List(mut nodes) => {
                while let Some(node) = nodes.next().unwrap() {
                    if let Node::Packed(listpack) = node {
                        listpacks += 1;
                        same_bytes(listpack);
                    }
                }
            }
            _ => {}
        }
        let mut restore = dump::Restore::new(&payload).unwrap();
        let ours = plain(restore.value().unwrap().read().unwrap()).unwrap();
        assert_same(ours, theirs, &key);
    }
    assert!(listpacks > 5);
}

/// Asserts that encoding the elements again gives the bytes of redis-server.
fn same_bytes(theirs: listpack::Listpack<'_>) {
    let mut entries = Vec::new();
    for element in theirs.iter() {
        listpack::encode(&mut entries, &text_of(element));
    }
    assert!(entries == theirs.entries());
}
