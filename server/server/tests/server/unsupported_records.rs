//! Snapshots with records of types that the server does not support. They are refused, unless
//! `import-skip-unknown` allows the loss.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use punctual_server::log::{Level, Logger};
use punctual_server::{Builder, LoadError, Server, StartError};

use crate::replication::primary_with;
use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire, configured, eventually};

fn builder(folder: &Path) -> Builder {
    configured("save|enable-debug-command yes").option("dir", folder.to_str().unwrap())
}

/// The type `ReJSON-RL` in version 3, as a length of 64 bits.
const TYPE: [u8; 9] = [0x81, 0x45, 0xe2, 0x52, 0x38, 0xdf, 0x91, 0x2c, 0x03];

/// Returns the record of a key with a module's value.
fn module_record(key: &str) -> Vec<u8> {
    let name = [&[7, key.len() as u8], key.as_bytes()].concat();
    [&name[..], &TYPE, b"\x05\x02{}\x00"].concat()
}

/// Returns a file that redis-server has written, with strings in two databases. Records of modules
/// are inserted, because Debian has no module that stores keys.
fn file_with_modules(folder: &Path, values: usize) -> Vec<u8> {
    const SELECT_2: &[u8] = b"\xFE\x02";
    let dir = folder.to_str().unwrap();
    let redis = Redis::start(&["--dir", dir, "--rdbchecksum", "no"]);
    let mut c = Wire::to(redis.port);
    c.expect(
        &["SET before 1", "SELECT 2", "SET after 1", "SAVE"],
        "+OK|+OK|+OK|+OK|",
    );
    let plain = fs::read(folder.join("dump.rdb")).unwrap();
    let (records, end) = plain.split_at(plain.len() - 9);
    let second = records.windows(2).position(|two| two == SELECT_2).unwrap();
    let (first, second) = records.split_at(second);
    let modules: Vec<u8> = (0..values)
        .flat_map(|number| module_record(&format!("doc:{number}")))
        .collect();
    [first, &modules, second, &module_record("events"), end].concat()
}

/// Returns the error of a start with `file`, and asserts that the file is unchanged.
#[track_caller]
fn refused(folder: &Path, file: &[u8]) -> String {
    let path = folder.join("dump.rdb");
    fs::write(&path, file).unwrap();
    let error = builder(folder).spawn().err().expect("the server starts");
    assert!(
        matches!(error, StartError::Load(LoadError::Unsupported { .. })),
        "{error}"
    );
    assert_eq!(fs::read(&path).unwrap(), file, "the file was changed");
    error.to_string()
}

#[test]
fn values_of_modules_are_refused_unless_configured() {
    let folder = tempfile::tempdir().unwrap();
    let file = file_with_modules(folder.path(), 1);
    let error = refused(folder.path(), &file);
    for part in [
        "dump.rdb has 2 record(s)",
        "value of module type ReJSON-RL \"doc:0\" (type 7, database 0, byte ",
        "value of module type ReJSON-RL \"events\" (type 7, database 2, byte ",
        "`import-skip-unknown yes`",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let lines = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&lines);
    let server = builder(folder.path())
        .option("import-skip-unknown", "yes")
        .logger(Logger::lines(Level::Warning, move |_, line| {
            taken.lock().unwrap().push(line.to_owned());
        }))
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    c.expect(
        &[
            "GET before",
            "DBSIZE",
            "SELECT 2",
            "GET after",
            "DBSIZE",
            "CONFIG GET import-skip-unknown",
        ],
        "$1|1|:1|+OK|$1|1|:1|*2|$19|import-skip-unknown|$3|yes|",
    );
    let logged = lines.lock().unwrap().join("\n");
    assert!(logged.contains("ReJSON-RL \"events\" (type 7"), "{logged}");
    // The directive may change at run time, and DEBUG RELOAD uses the new value.
    c.expect(
        &[
            "DEBUG RELOAD NOSAVE",
            "CONFIG SET import-skip-unknown no",
            "DEBUG RELOAD NOSAVE",
        ],
        "+OK|+OK|-ERR Error trying to load the RDB dump, check server logs|",
    );
    assert_eq!(fs::read(folder.path().join("dump.rdb")).unwrap(), file);
}

#[test]
fn a_hash_of_redis_2_4_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = b"REDIS0002\xFE\x00\x09\x03old\x07\x01\x01f\x01\x00v\xff\x00\x03new\x01v\xFF";
    let error = refused(folder.path(), file);
    let part =
        "hash in the encoding zipmap of Redis before 2.6 \"old\" (type 9, database 0, byte 11)";
    assert!(error.contains(part), "{error}");
    let server = builder(folder.path())
        .option("import-skip-unknown", "yes")
        .spawn()
        .unwrap();
    Wire::open(&server).expect(&["GET new", "EXISTS old"], "$1|v|:0|");
}

#[test]
fn the_error_lists_ten_records_and_counts_all() {
    let folder = tempfile::tempdir().unwrap();
    let file = file_with_modules(folder.path(), 14);
    let error = refused(folder.path(), &file);
    assert!(error.contains("has 15 record(s)"), "{error}");
    assert_eq!(error.matches("ReJSON-RL \"").count(), 10, "{error}");
    // Damage after such a record is reported as damage.
    fs::write(folder.path().join("dump.rdb"), &file[..file.len() - 12]).unwrap();
    let error = builder(folder.path()).spawn().err().unwrap();
    assert!(
        matches!(error, StartError::Load(LoadError::Damaged { .. })),
        "{error}"
    );
}

#[test]
fn records_of_modules_are_refused_and_empty_collections_are_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let redis = Redis::start(&[
        "--dir",
        folder.path().to_str().unwrap(),
        "--rdbchecksum",
        "no",
    ]);
    Wire::to(redis.port).expect(&["SET kept 1", "SAVE"], "+OK|+OK|");
    drop(redis);
    let path = folder.path().join("dump.rdb");
    let plain = fs::read(&path).unwrap();
    let (records, end) = plain.split_at(plain.len() - 9);
    assert_eq!(end, b"\xFF\0\0\0\0\0\0\0\0");
    let with = |record: &[u8]| [records, record, end].concat();
    let key = module_record("doc");
    let aux = [&b"\xF7"[..], &TYPE, b"\x02\x02\x00"].concat();
    let error = refused(folder.path(), &with(&key));
    let record = "value of module type ReJSON-RL \"doc\" (type 7, database 0, byte ";
    assert!(error.contains(record), "{error}");
    let error = refused(folder.path(), &with(&aux));
    let record = "data of module type ReJSON-RL \"\" (type 247, database 0, byte ";
    assert!(error.contains(record), "{error}");
    fs::write(&path, with(b"\x02\x05empty\x00")).unwrap();
    let server = builder(folder.path()).spawn().unwrap();
    Wire::open(&server).expect(&["GET kept", "DBSIZE"], "$1|1|:1|");
}

#[test]
fn a_full_synchronization_with_values_of_modules_is_refused_and_the_old_data_stays() {
    let folder = tempfile::tempdir().unwrap();
    let snapshot = file_with_modules(folder.path(), 1);
    let port = primary_with(snapshot.len(), snapshot);
    let lines = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&lines);
    let server = Server::builder()
        .port(0)
        .logger(Logger::lines(Level::Warning, move |_, line| {
            taken.lock().unwrap().push(line.to_owned());
        }))
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    let follow = format!("REPLICAOF 127.0.0.1 {port}");
    c.expect(&["SET ours 1", &follow], "+OK|+OK|");
    let logged = |text: &str| lines.lock().unwrap().iter().any(|line| line.contains(text));
    eventually(|| logged("ReJSON-RL \"doc:0\" (type 7, database 0, byte "));
    assert!(logged("`import-skip-unknown yes`"));
    c.expect(&["GET ours", "EXISTS before"], "$1|1|:0|");
    c.expect(&["CONFIG SET import-skip-unknown yes"], "+OK|");
    eventually(|| c.int("EXISTS before") == 1);
    c.expect(&["DBSIZE"], ":1|");
}
