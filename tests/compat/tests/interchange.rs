//! Data goes from Punctual to each peer and back: snapshots, append-only files, and values by DUMP
//! and RESTORE. Random commands of the peer's families fill the servers.
//!
//! `PUNCTUAL_SEED` sets the seed, `PUNCTUAL_PIPELINES` the number of pipelines that fill a server.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use punctual_compat::generate::{Act, Generator};
use punctual_compat::link::{Link, Side};
use punctual_compat::replayed::{self, Groups, may_differ};
use punctual_compat::{Command, Family, Oracle, Protocol};
use punctual_harness::{LaunchError, Peer, Wire, eventually, number, seed};
use punctual_resp::{Value, encode_command};
use punctual_server::Server;
use tempfile::TempDir;

/// Default number of pipelines, of about 200 commands each.
const PIPELINES: u64 = 12;
/// Families that do not change keys, or change the connection or the server itself.
const WITHOUT: [Family; 4] = [
    Family::Server,
    Family::Connection,
    Family::Pubsub,
    Family::Wire,
];
/// Hashes whose fields have deadlines, in all encodings.
const FIELDS: [&str; 4] = [
    "HSET timed:small a 1 b 2 c 3",
    "HPEXPIREAT timed:small 4100000000123 FIELDS 2 a c",
    "HSET timed:long a-field-of-more-than-sixty-four-bytes-so-that-the-hash-is-no-listpack-at-all 1 b 2",
    "HPEXPIREAT timed:long 4100000000456 FIELDS 1 b",
];

fn ours(folder: &Path, with_log: bool) -> Server {
    let server = Server::builder()
        .port(0)
        .threads(2)
        .option("enable-debug-command", "yes")
        .option("appendonly", if with_log { "yes" } else { "no" })
        .option("dir", folder.to_str().expect("a path of text"));
    server.spawn().unwrap_or_else(|error| panic!("{error}"))
}

/// Starts a peer with this folder. Returns `None` if it is not installed.
fn theirs(peer: Peer, folder: &Path, with_log: bool) -> Option<Oracle> {
    let folder = folder.to_str().expect("a path of text");
    let log = if with_log { "yes" } else { "no" };
    Oracle::start_peer(peer, &["--dir", folder, "--appendonly", log])
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Sends random commands, and commands for fields with deadlines if the peer has them.
fn fill(to: SocketAddr, peer: Peer, seed: u64) {
    let families = Family::ALL.into_iter();
    let families = families.filter(|family| !WITHOUT.contains(family) && family.is_in(peer));
    let mut generator = Generator::new(seed, Protocol::Resp2, families).beside(Some(peer));
    let mut link = Link::connect(Side::A, to).expect("it listens");
    let mut left = number("PUNCTUAL_PIPELINES").unwrap_or(PIPELINES);
    while left > 0 {
        let Act::Pipeline(mut steps) = generator.next_act() else {
            continue;
        };
        left -= 1;
        steps.retain(|step| {
            let command = &step.command;
            !may_differ(command, true, true) && !["FLUSHALL", "FLUSHDB"].contains(&&*command.name())
        });
        let mut bytes = Vec::new();
        for step in &steps {
            encode_command(&mut bytes, step.command.args());
        }
        link.send(&bytes).expect("it reads");
        for _ in steps.iter().filter(|step| step.answered) {
            link.read().expect("it replies");
        }
    }
    if Family::Fields.is_in(peer) {
        let mut wire = Wire::to(to.port());
        for command in FIELDS {
            assert!(!wire.run(command).is_error(), "{command}");
        }
    }
}

/// Compares all keys. `Groups::Whole` would also compare what the logs of Redis lose.
#[track_caller]
fn same(what: &str, a: SocketAddr, b: SocketAddr) {
    if let Some(found) = replayed::differences(a, b, Groups::Delivered).expect("both reply") {
        panic!("{what}: {found}");
    }
    let mut wire = Wire::to(a.port());
    let keys = (0..16).map(|db| {
        wire.run(&format!("SELECT {db}"));
        wire.int("DBSIZE")
    });
    assert!(keys.sum::<i64>() > 20, "{what}: nothing was compared");
}

/// Removes deadlines of fields, which Valkey cannot read in a file or payload of ours.
fn without_field_deadlines(at: SocketAddr) {
    let mut wire = Wire::to(at.port());
    for db in 0..16 {
        wire.run(&format!("SELECT {db}"));
        let keys = wire.run("KEYS *");
        for key in bulks(&keys) {
            let fields = wire.ask(&[&b"HKEYS"[..], key]);
            let fields = bulks(&fields);
            if !fields.is_empty() {
                let count = fields.len().to_string();
                let words = [b"HPERSIST", key, b"FIELDS", count.as_bytes()];
                wire.ask(&[&words[..], &fields].concat());
            }
        }
    }
}

/// Returns the texts of an array; none of another reply.
fn bulks(reply: &Value) -> Vec<&[u8]> {
    let items = reply.as_slice().unwrap_or_default();
    items.iter().filter_map(Value::as_bytes).collect()
}

fn copy(from: &Path, to: &Path) {
    if from.is_file() {
        fs::copy(from, to).expect("copied");
        return;
    }
    fs::create_dir(to).expect("created");
    for file in fs::read_dir(from).expect("a folder").flatten() {
        fs::copy(file.path(), to.join(file.file_name())).expect("copied");
    }
}

/// Waits for a rewrite of the append-only file.
fn rewrite(at: SocketAddr) {
    let mut wire = Wire::to(at.port());
    wire.run("BGREWRITEAOF");
    eventually(|| {
        ["aof_rewrite_in_progress", "aof_rewrite_scheduled"]
            .iter()
            .all(|field| wire.info("persistence", field) == "0")
    });
}

fn seeded() -> u64 {
    seed(&["PUNCTUAL_SEED", "PROPTEST_RNG_SEED"])
}

#[test]
fn snapshots_go_there_and_back() {
    let seed = seeded();
    for peer in Peer::ALL {
        let [first, second, third] = [folder(), folder(), folder()];
        let Some(source) = theirs(peer, first.path(), false) else {
            continue;
        };
        fill(source.address(), peer, seed);
        assert_eq!(source.wire().run("SAVE").as_bytes(), Some(&b"OK"[..]));
        copy(
            &first.path().join("dump.rdb"),
            &second.path().join("dump.rdb"),
        );
        let loaded = ours(second.path(), false);
        let address = loaded.addr().expect("TCP");
        same(&format!("{peer}'s snapshot"), source.address(), address);
        if peer == Peer::Valkey9 {
            without_field_deadlines(address);
        }
        assert_eq!(
            Wire::to(address.port()).run("SAVE").as_bytes(),
            Some(&b"OK"[..])
        );
        copy(
            &second.path().join("dump.rdb"),
            &third.path().join("dump.rdb"),
        );
        let back = theirs(peer, third.path(), false).expect("installed");
        same(&format!("our snapshot, in {peer}"), address, back.address());
        loaded.shutdown();
    }
}

#[test]
fn append_only_files_go_there_and_back() {
    let seed = seeded();
    for peer in Peer::ALL {
        let [first, second, third] = [folder(), folder(), folder()];
        let Some(source) = theirs(peer, first.path(), true) else {
            continue;
        };
        let log = "appendonlydir";
        fill(source.address(), peer, seed);
        rewrite(source.address());
        fill(source.address(), peer, !seed);
        // The reply of a later command means that the write before it is in the file.
        source.wire().run("SET last 1");
        copy(&first.path().join(log), &second.path().join(log));
        let loaded = ours(second.path(), true);
        let address = loaded.addr().expect("TCP");
        same(
            &format!("{peer}'s append-only file"),
            source.address(),
            address,
        );
        if peer == Peer::Valkey9 {
            without_field_deadlines(address);
        }
        rewrite(address);
        // A base without deadlines of fields, and commands that set them.
        fill(address, peer, seed);
        copy(&second.path().join(log), &third.path().join(log));
        let back = theirs(peer, third.path(), true).expect("installed");
        same(
            &format!("our append-only file, in {peer}"),
            address,
            back.address(),
        );
        loaded.shutdown();
    }
}

#[test]
fn values_go_there_and_back() {
    let seed = seeded();
    for peer in Peer::ALL {
        let [first, second] = [folder(), folder()];
        let Some(source) = theirs(peer, first.path(), false) else {
            continue;
        };
        let target = ours(second.path(), false);
        let address = target.addr().expect("TCP");
        fill(source.address(), peer, seed);
        carry(source.address(), address);
        same(&format!("values of {peer}"), source.address(), address);
        if peer == Peer::Valkey9 {
            without_field_deadlines(address);
        }
        source.wire().run("FLUSHALL");
        carry(address, source.address());
        same(&format!("values in {peer}"), address, source.address());
        target.shutdown();
    }
}

/// Copies all keys by DUMP and RESTORE.
fn carry(from: SocketAddr, to: SocketAddr) {
    let mut links = [from, to].map(|at| Link::connect(Side::A, at).expect("it listens"));
    let [from, to] = &mut links;
    for db in 0..16 {
        let select = Command::of(&["SELECT", &db.to_string()]);
        for link in [&mut *from, to] {
            link.ask(&select).expect("a reply");
        }
        let keys = from.ask(&Command::of(&["KEYS", "*"])).expect("a reply");
        for key in bulks(&keys) {
            let payload = from.ask(&Command::new("DUMP").arg(key)).expect("a reply");
            let deadline = from
                .ask(&Command::new("PEXPIRETIME").arg(key))
                .expect("a reply");
            // The key may have expired meanwhile.
            let (Some(payload), Some(deadline)) = (payload.as_bytes(), deadline.as_int()) else {
                continue;
            };
            let restore = Command::new("RESTORE").arg(key);
            let restore = restore.arg(deadline.max(0).to_string()).arg(payload);
            let reply = to.ask(&restore.arg("ABSTTL")).expect("a reply");
            assert!(!reply.is_error(), "{key:?}: {reply:?}");
        }
    }
}

/// A Punctual that follows a peer.
struct Follower {
    server: Server,
    wire: Wire,
    folder: TempDir,
}

impl Follower {
    fn of(source: &Oracle) -> Self {
        let folder = folder();
        let path = folder.path().to_str().expect("a path of text");
        let server = Server::builder()
            .port(0)
            .option("dir", path)
            .option("logfile", &format!("{path}/log"))
            .spawn()
            .unwrap_or_else(|error| panic!("{error}"));
        let mut wire = Wire::to(server.addr().expect("TCP").port());
        wire.run(&format!("REPLICAOF 127.0.0.1 {}", source.port));
        Self {
            server,
            wire,
            folder,
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    #[track_caller]
    fn logs(&self, text: &str) {
        eventually(|| self.log().contains(text));
    }
}

/// Values that Punctual does not have stop a synchronization and the stream.
#[test]
fn values_that_cannot_be_kept_are_refused() {
    let without_delay = ["--repl-diskless-sync-delay", "0"];
    if let Some(redis) = Oracle::start_peer(Peer::Redis8, &without_delay) {
        let mut source = redis.wire();
        let mut follower = Follower::of(&redis);
        eventually(|| follower.wire.info("replication", "master_link_status") == "up");
        assert_eq!(source.int("VADD v VALUES 2 1 2 e"), 1);
        follower.logs("unknown command");
        follower.logs("the link to the MASTER is closed");
        let second = Follower::of(&redis);
        second.logs("module type vectorset");
        for follower in [follower, second] {
            follower.server.shutdown();
        }
    }
    if let Some(valkey) = Oracle::start_peer(Peer::Valkey9, &without_delay) {
        let mut source = valkey.wire();
        let mut follower = Follower::of(&valkey);
        eventually(|| follower.wire.info("replication", "master_link_status") == "up");
        source.run("HSET h f v");
        // After the year 10889, later than the deadlines in the snapshots of Redis and Punctual.
        source.run("HPEXPIREAT h 300000000000000 FIELDS 1 f");
        follower.logs("invalid expire time");
        follower.logs("the link to the MASTER is closed");
        let second = Follower::of(&valkey);
        second.logs("bad expiry time");
        for follower in [follower, second] {
            follower.server.shutdown();
        }
    }
}

/// Valkey refuses our files and payloads with deadlines of fields, and gets them as a replica.
#[test]
fn valkey_gets_deadlines_of_fields_by_replication_only() {
    let files = [folder(), folder()];
    let [source, target] = files.each_ref().map(TempDir::path);
    let server = ours(source, false);
    let address = server.addr().expect("TCP");
    let mut wire = Wire::to(address.port());
    for command in FIELDS {
        wire.run(command);
    }
    wire.run("SAVE");
    copy(&source.join("dump.rdb"), &target.join("dump.rdb"));
    let program = Peer::Valkey9.launch().folder(target);
    match program.start() {
        Err(LaunchError::NotInstalled(_)) => return server.shutdown(),
        Err(error) => assert!(
            error.to_string().contains("RDB format version 12"),
            "{error}"
        ),
        Ok(_) => panic!("Valkey loads version 12: docs/redis-compatibility.md says it does not"),
    }
    let port = address.port().to_string();
    let follows = ["--replicaof", "127.0.0.1", &port];
    let valkey = Oracle::start_peer(Peer::Valkey9, &follows).expect("installed");
    let mut replica = valkey.wire();
    eventually(|| replica.info("replication", "master_link_status") == "up");
    let found = replayed::differences(address, valkey.address(), Groups::Delivered);
    assert_eq!(found.expect("both reply"), None);
    let payload = wire.run("DUMP timed:small");
    let payload = payload.as_bytes().expect("a payload");
    replica.run("REPLICAOF NO ONE");
    let reply = replica.ask(&[&b"RESTORE"[..], b"copy", b"0", payload]);
    assert!(reply.is_error(), "{reply:?}");
    server.shutdown();
}
