//! Libraries of functions in snapshots and payloads: redis-server reads our bytes, and we read its
//! bytes.

use punctual_rdb::functions::{Restore, Unreadable};
use punctual_rdb::{Encoder, Reader, VERSION, Writer, dump};
use punctual_resp::Value;

use crate::contents::{Text, snapshot};
use crate::server::{Server, text};

fn library(name: &str, comment: &str) -> Text {
    format!(
        "#!lua name={name}\n{comment}redis.register_function('{name}', function() return 1 end)"
    )
    .into_bytes()
}

fn libraries() -> [Text; 2] {
    [
        library("short", ""),
        library("long", &"-- compressible\n".repeat(40)),
    ]
}

fn payload(records: &[u8]) -> Vec<u8> {
    let mut payload = records.to_vec();
    dump::seal(&mut payload);
    payload
}

pub fn restored(payload: &[u8]) -> Result<Vec<Text>, Unreadable> {
    let mut restore = Restore::new(payload).expect("sealed");
    let mut found = Vec::new();
    while let Some(code) = restore.next()? {
        found.push(code.to_vec());
    }
    Ok(found)
}

#[test]
fn redis_and_we_read_each_other() {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, VERSION, true);
    let (mut records, mut encoder) = (Vec::new(), Encoder::new(true));
    for code in libraries() {
        encoder.library(&mut records, &code);
    }
    writer.feed(&records);
    file.extend_from_slice(&records);
    writer.finish(&mut file);
    assert_eq!(
        snapshot(Reader::new(&file[..])).unwrap().libraries,
        libraries()
    );
    let Some(mut server) = Server::start(Some(&file)) else {
        return;
    };
    let theirs = text(server.run("FUNCTION DUMP"));
    let mut both = restored(&theirs).unwrap();
    both.sort();
    let mut sorted = libraries();
    sorted.sort();
    assert_eq!(both, sorted);
    // Compares one library, because Redis dumps several libraries in any order.
    server.run("FUNCTION DELETE short");
    let mut ours = Vec::new();
    encoder.library(&mut ours, &libraries()[1]);
    assert_eq!(text(server.run("FUNCTION DUMP")), payload(&ours));
    server.succeed(&[b"FUNCTION", &b"RESTORE"[..], &payload(&records), b"REPLACE"]);
    assert_eq!(server.run("FCALL short 0"), Value::Int(1));
}

#[test]
fn records_of_release_candidates() {
    let record = b"\xF6\x02ab\x03LUA\x01\x04text\x04code";
    assert_eq!(
        restored(&payload(record)).unwrap(),
        [b"#!LUA name=ab\ncode"]
    );
    let file = [
        b"REDIS0010",
        &record[..],
        b"\xF6\x01a\x03LUA\x00\xC0\x05\xFF",
        &[0; 8],
    ]
    .concat();
    assert_eq!(
        snapshot(Reader::new(&file[..])).unwrap().libraries,
        [&b"#!LUA name=ab\ncode"[..], b"#!LUA name=a\n5"]
    );
}

#[test]
fn damaged_payloads() {
    let [short, _] = libraries();
    let mut record = Vec::new();
    Encoder::new(false).library(&mut record, &short);
    let server = &mut Server::start(None);
    let mut check = |records: &[u8], error: Unreadable| {
        assert_eq!(restored(&payload(records)), Err(error), "{records:?}");
        if let Some(server) = server {
            let reply = server.ask(&[b"FUNCTION", &b"RESTORE"[..], &payload(records)]);
            assert_eq!(
                reply,
                Value::Error(format!("ERR {error}").into_bytes()),
                "{records:?}"
            );
        }
    };
    check(b"\0\x01k\x01v", Unreadable::Type);
    check(&[&record[..], b"\x0B"].concat(), Unreadable::Type);
    for bad in [
        &b"\xF5"[..],
        b"\xF5\x20short",
        b"\xF5\x82",
        b"\xF5\xC3\x05",
        b"\xF5\xC9",
    ] {
        check(bad, Unreadable::Library);
    }
    for end in 1..record.len() {
        assert_eq!(restored(&payload(&record[..end])), Err(Unreadable::Library));
    }
    assert!(Restore::new(&record).is_err());
}
