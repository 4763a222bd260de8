//! Loading of append-only files: files of redis-server, torn files, and damaged files.

use std::fs;
use std::path::Path;

use punctual_resp::Value;
use punctual_server::Server;

use crate::wire::pair::server;
use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire, configured};

/// Commands of every family. The log contains some of them in another form, for example SPOP as
/// SREM.
const COMMANDS: &[&str] = &[
    "SET text hello",
    "SET soon x PX 100000000",
    "SET past x PX 1",
    "INCRBYFLOAT float 10.5",
    "APPEND text !",
    "SETEX timed 1000 v",
    "GETEX timed PERSIST",
    "EXPIRE soon 5000",
    "RPUSH list a b c d",
    "LMOVE list list LEFT RIGHT",
    "LPOP list 2",
    "SADD set a b c d e f",
    "SPOP set 2",
    "HSET hash f 1 g 2",
    "HINCRBYFLOAT hash f 0.25",
    "ZADD zset 1 a 2 b 3 c",
    "ZINCRBY zset 1.5 a",
    "ZPOPMIN zset",
    "PFADD hll a b c",
    "SETBIT bits 100 1",
    "GEOADD geo 13.361389 38.115556 Palermo",
    "XADD stream 1-1 f v g w",
    "XADD stream 2-1 f v2 g w",
    "XADD stream 3-1 other x",
    "XDEL stream 2-1",
    "XGROUP CREATE stream group 0 ENTRIESREAD 0",
    "XREADGROUP GROUP group alice COUNT 1 STREAMS stream >",
    "XGROUP CREATECONSUMER stream group idle",
    "XADD emptied 5-5 a b",
    "XTRIM emptied MAXLEN 0",
    "SELECT 5",
    "SET other db",
    "MULTI",
    "SET in multi",
    "EXPIRE in 4000",
    "SELECT 0",
    "LPUSH multi x",
    "EXEC",
    "COPY text copy",
    "RENAME copy renamed",
    "SELECT 7",
    "SET flushed 1",
    "FLUSHDB",
    "SELECT 0",
];

pub fn fill(c: &mut Wire) {
    for line in COMMANDS {
        let words: Vec<_> = line.split(' ').collect();
        let answer = c.ask(&words);
        assert!(!answer.is_error(), "{line}: {answer:?}");
    }
    let script = "redis.call('set', KEYS[1], ARGV[1]) redis.call('expire', KEYS[1], 900)";
    c.ask(&["EVAL", script, "1", "scripted", "v"]);
    let library = "#!lua name=lib\nredis.register_function('f', function(k) return redis.call('incr', k[1]) end)";
    c.ask(&["FUNCTION", "LOAD", library]);
    c.ask(&["FCALL", "f", "1", "counted"]);
    // A fast server runs all commands within a millisecond, so the key may not be due yet.
    crate::wire::eventually(|| c.int("EXISTS past") == 0);
}

/// Returns the digest of all data, the libraries of functions, and the deadline, the digest and the
/// consumer groups of every key of the databases that [`fill`] uses.
pub fn state(c: &mut Wire) -> String {
    let mut state = format!("{:?}", c.ask(&["DEBUG", "DIGEST"]));
    for db in ["0", "5", "7"] {
        c.ask(&["SELECT", db]);
        let keys = c.ask(&["KEYS", "*"]);
        let mut keys: Vec<Vec<u8>> = keys
            .as_slice()
            .unwrap()
            .iter()
            .map(|key| key.as_bytes().unwrap().to_vec())
            .collect();
        keys.sort_unstable();
        for key in keys {
            let at = c.ask(&[b"PEXPIRETIME", &key[..]]);
            let digest = c.ask(&[&b"DEBUG"[..], b"DIGEST-VALUE", &key]);
            let groups = c.ask(&[&b"XINFO"[..], b"GROUPS", &key]);
            let pending = c.ask(&[&b"XPENDING"[..], &key, b"group"]);
            let key = key.escape_ascii();
            state += &format!("\n{db} {key} {at:?} {digest:?} {groups:?} {pending:?}");
        }
    }
    c.ask(&["SELECT", "0"]);
    state + &format!("\n{:?}", c.ask(&["FUNCTION", "LIST", "WITHCODE"]))
}

pub fn rewrite(c: &mut Wire) {
    assert!(!c.ask(&["BGREWRITEAOF"]).is_error());
    crate::wire::eventually(|| {
        let info = c.text("INFO persistence");
        info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0")
    });
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

#[test]
fn files_of_redis_are_loaded() {
    for (number, options) in [
        &["--aof-use-rdb-preamble", "yes"][..],
        &["--aof-use-rdb-preamble", "no"],
        &[
            "--aof-use-rdb-preamble",
            "no",
            "--aof-timestamp-enabled",
            "yes",
        ],
        &[
            "--aof-timestamp-enabled",
            "yes",
            "--appenddirname",
            "other dir",
            "--appendfilename",
            "a b.aof",
        ],
    ]
    .into_iter()
    .enumerate()
    {
        let (theirs_at, ours_at) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let dir = theirs_at.path().to_str().unwrap();
        // With `everysec`, Redis may reply before it has written.
        let own = [
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
            "--dir",
            dir,
            "--enable-debug-command",
            "yes",
        ];
        let redis = Redis::start(&[&own[..], options].concat());
        let mut theirs = Wire::to(redis.port);
        fill(&mut theirs);
        rewrite(&mut theirs);
        let named = number == 3;
        let mut builder = configured("save|enable-debug-command yes")
            .option("dir", ours_at.path().to_str().unwrap());
        if named {
            builder = builder
                .option("appenddirname", "other dir")
                .option("appendfilename", "a b.aof");
        }
        let ours = builder.spawn().unwrap();
        let mut c = Wire::open(&ours);
        let folder = if named { "other dir" } else { "appendonlydir" };
        // First the files just after a rewrite, then twice the files after another rewrite and some
        // commands.
        for more in [&[][..], &["SET later 1", "INCR counted"], &["DEL list"]] {
            for line in more {
                theirs.ask(&line.split(' ').collect::<Vec<_>>());
            }
            copy_folder(&theirs_at.path().join(folder), &ours_at.path().join(folder));
            assert_eq!(c.text("DEBUG LOADAOF"), "OK");
            assert_eq!(state(&mut c), state(&mut theirs), "{options:?}");
            rewrite(&mut theirs);
            fs::remove_dir_all(ours_at.path().join(folder)).unwrap();
        }
    }
}

/// Returns a command in the format of the file.
fn command(line: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    punctual_resp::encode_command(&mut bytes, &line.split(' ').collect::<Vec<_>>());
    bytes
}

/// Writes an append-only file of one incremental file.
fn write_file(folder: &Path, bytes: &[u8]) -> std::path::PathBuf {
    let folder = folder.join("appendonlydir");
    fs::create_dir_all(&folder).unwrap();
    let manifest = "file appendonly.aof.1.incr.aof seq 1 type i\n";
    fs::write(folder.join("appendonly.aof.manifest"), manifest).unwrap();
    let path = folder.join("appendonly.aof.1.incr.aof");
    fs::write(&path, bytes).unwrap();
    path
}

fn list(c: &mut Wire) -> Vec<String> {
    let value = c.ask(&["LRANGE", "l", "0", "-1"]);
    let text = |value: &Value| String::from_utf8_lossy(value.as_bytes().unwrap()).into_owned();
    value.as_slice().unwrap().iter().map(text).collect()
}

const REFUSED: &str = "ERR Error trying to load the AOF files, check server logs.";

#[test]
fn a_file_cut_at_any_byte_loads_what_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let ours = server(folder.path(), 1);
    let mut c = Wire::open(&ours);
    let mut bytes = Vec::new();
    // Ends of the parts that are applied or dropped together, with the length of the list after
    // each part.
    let mut whole = vec![(0, 0)];
    for (lines, elements) in [
        (&["SELECT 0"][..], 0),
        (&["RPUSH l 1"], 1),
        (&["MULTI", "RPUSH l 2", "RPUSH l 3", "EXEC"], 3),
        (&["RPUSH l 4"], 4),
    ] {
        for line in lines {
            bytes.extend(command(line));
        }
        whole.push((bytes.len(), elements));
        bytes.extend(b"#TS:1795358658\r\n");
    }
    for cut in 0..=bytes.len() {
        let path = write_file(folder.path(), &bytes[..cut]);
        assert_eq!(c.text("DEBUG LOADAOF"), "OK", "{cut}");
        let (end, elements) = *whole.iter().rfind(|(end, _)| *end <= cut).unwrap();
        let expected: Vec<String> = (1..=elements).map(|n: i32| n.to_string()).collect();
        assert_eq!(list(&mut c), expected, "{cut}");
        let left = fs::read(&path).unwrap();
        assert!(left == bytes[..end] || left == bytes[..cut], "{cut}");
        // A second load finds nothing to cut.
        c.ask(&["CONFIG", "SET", "aof-load-truncated", "no"]);
        assert_eq!(c.text("DEBUG LOADAOF"), "OK", "{cut}");
        let refused = left.len() < cut;
        if refused {
            fs::write(&path, &bytes[..cut]).unwrap();
            assert_eq!(c.text("DEBUG LOADAOF"), REFUSED, "{cut}");
            assert_eq!(fs::read(&path).unwrap(), bytes[..cut], "unchanged");
        }
        c.ask(&["CONFIG", "SET", "aof-load-truncated", "yes"]);
    }
}

#[test]
fn damage_is_refused_and_nothing_is_changed() {
    let folder = tempfile::tempdir().unwrap();
    let ours = server(folder.path(), 1);
    let mut c = Wire::open(&ours);
    let [first, set] = ["RPUSH l 1", "SET key value"].map(command);
    let mut without_dollar = set.clone();
    without_dollar[22] = b'9';
    for (damage, follows) in [
        (b"junk".to_vec(), true),
        (vec![0; 4096], false),
        (without_dollar, true),
        (command("NOSUCH x"), false),
        (command("LPUSH"), false),
        (command("LPUSH str"), false),
        (command("INCR l"), true),
        (command("CONFIG SET save x"), false),
        (command("EXEC"), false),
        ([command("MULTI"), command("MULTI")].concat(), true),
        (
            [command("MULTI"), command("INCR l"), command("EXEC")].concat(),
            true,
        ),
    ] {
        let mut bytes = [&first[..], &damage].concat();
        if follows {
            bytes.extend(&set);
        }
        let path = write_file(folder.path(), &bytes);
        assert_eq!(
            c.text("DEBUG LOADAOF"),
            REFUSED,
            "{}",
            damage.escape_ascii()
        );
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
}

#[test]
fn a_torn_file_must_be_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let ours = server(folder.path(), 1);
    let mut c = Wire::open(&ours);
    let first = command("RPUSH l 1");
    let path = write_file(folder.path(), &first[..first.len() - 1]);
    let manifest = folder.path().join("appendonlydir/appendonly.aof.manifest");
    fs::write(
        &manifest,
        "file appendonly.aof.1.incr.aof seq 1 type i\nfile appendonly.aof.2.incr.aof seq 2 type i\n",
    )
    .unwrap();
    assert_eq!(
        c.text("DEBUG LOADAOF"),
        REFUSED,
        "the second file is missing"
    );
    fs::write(path.with_file_name("appendonly.aof.2.incr.aof"), &first).unwrap();
    assert_eq!(c.text("DEBUG LOADAOF"), REFUSED);
    assert_eq!(fs::read(&path).unwrap(), first[..first.len() - 1]);
    fs::write(&path, &first).unwrap();
    assert_eq!(c.text("DEBUG LOADAOF"), "OK");
    assert_eq!(list(&mut c), ["1", "1"]);
}

/// Commands of a file that a redis-server of version 4 would write.
const SCRIPTED: &[&[&str]] = &[
    &["SELECT", "0"],
    &[
        "EVAL",
        "redis.call('SET', KEYS[1], ARGV[1]) redis.pcall('INCR', KEYS[1])",
        "1",
        "evaluated",
        "v",
    ],
    // The changes of a script before its error remain in effect.
    &[
        "EVAL",
        "redis.call('RPUSH', KEYS[1], 'a') redis.call('INCR', KEYS[1])",
        "1",
        "failed",
    ],
    &["SCRIPT", "LOAD", "return redis.call('INCR', KEYS[1])"],
];

/// Commands that need the preceding scripts and libraries.
const CALLS: &[&[&str]] = &[
    &["EVALSHA", INCR, "1", "counted"],
    &["MULTI"],
    &["EVALSHA", INCR, "1", "counted"],
    &["SET", "after", "1"],
    &["EXEC"],
    &[
        "FUNCTION",
        "LOAD",
        "#!lua name=lib\nredis.register_function('f', function(k) return redis.call('incr', k[1]) end)",
    ],
    &["FCALL", "f", "1", "called"],
];

/// SHA1 of `return redis.call('INCR', KEYS[1])`.
const INCR: &str = "61636018f4e6b5817b89791bbed242f93fa089e3";

fn encoded(commands: &[&[&str]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for words in commands {
        punctual_resp::encode_command(&mut bytes, words);
    }
    bytes
}

fn start(folder: &Path) -> Result<Server, punctual_server::StartError> {
    configured("save|appendonly yes")
        .option("dir", folder.to_str().unwrap())
        .spawn()
}

#[test]
fn scripts_in_a_file_run() {
    for in_folder in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        if in_folder {
            let path = folder.path().join("appendonlydir");
            fs::create_dir(&path).unwrap();
            let manifest = "file appendonly.aof.1.base.aof seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n";
            fs::write(path.join("appendonly.aof.manifest"), manifest).unwrap();
            fs::write(path.join("appendonly.aof.1.base.aof"), encoded(SCRIPTED)).unwrap();
            fs::write(path.join("appendonly.aof.1.incr.aof"), encoded(CALLS)).unwrap();
        } else {
            let both = [encoded(SCRIPTED), encoded(CALLS)].concat();
            fs::write(folder.path().join("appendonly.aof"), both).unwrap();
        }
        for rewritten in [false, true] {
            let ours = start(folder.path()).unwrap();
            let mut c = Wire::open(&ours);
            assert_eq!(c.text("GET evaluated"), "v", "{rewritten}");
            assert_eq!(c.text("LINDEX failed 0"), "a");
            assert_eq!(c.text("GET counted"), "2");
            assert_eq!(c.text("GET after"), "1");
            assert_eq!(c.text("GET called"), "1");
            rewrite(&mut c);
        }
    }
}

#[test]
fn a_script_that_cannot_run_stops_the_start() {
    for (words, error) in [
        (&["EVALSHA", INCR, "1", "k"][..], "NOSCRIPT"),
        (&["EVAL", "no Lua", "0"], "Error compiling script"),
        (&["FCALL", "f", "1", "k"], "Function not found"),
        (
            &[
                "EVAL",
                "redis.call('set', 'k', 1) redis.pcall('cl.throttle', 'k')",
                "0",
            ],
            "Unknown Redis command called from script",
        ),
        (
            &[
                "EVAL",
                "redis.call('set', 'k', 1) redis.call('set', 'k')",
                "0",
            ],
            "Wrong number of args calling Redis command from script",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let bytes = encoded(&[&["SET", "before", "1"], words]);
        let path = write_file(folder.path(), &bytes);
        let Err(refused) = start(folder.path()) else {
            panic!("{words:?} is loaded");
        };
        let text = refused.to_string();
        assert!(text.contains(error), "{words:?}: {text}");
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
}
