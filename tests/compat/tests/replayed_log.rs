//! The log of changes leads to the same data. Punctual executes random commands of all families but
//! one. Then three other servers must have its data and its deadlines: a redis-server that is its
//! replica, and Punctual and redis-server, both started with its append-only file.
//!
//! `PUNCTUAL_SEED=17` sets the seed, `PUNCTUAL_COMMANDS=500000` the number of commands.

use std::net::SocketAddr;
use std::path::Path;

use punctual_compat::command::Command;
use punctual_compat::link::{Link, Side};
use punctual_compat::replayed::Groups;
use punctual_compat::{Addresses, Duel, Family, Options, Oracle, Protocol, replayed};
use punctual_harness::{Peer, number, seed};
use punctual_server::Server;
use tempfile::TempDir;

/// Returns a new folder with a copy of the append-only file.
fn copied(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    let to = copy.path().join("appendonlydir");
    std::fs::create_dir(&to).unwrap();
    for file in std::fs::read_dir(folder.join("appendonlydir")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    copy
}

fn check(what: &str, ours: SocketAddr, other: SocketAddr) {
    if let Some(found) = replayed::differences(ours, other, Groups::Whole).unwrap() {
        panic!("A is the server, B is {what}: {found}");
    }
}

#[test]
fn servers_that_replay_the_log_have_the_same_data() {
    let seed = seed(&["PUNCTUAL_SEED", "PROPTEST_RNG_SEED"]);
    let commands = number("PUNCTUAL_COMMANDS").unwrap_or(40_000);
    for threads in [1, 4] {
        println!("{threads} threads");
        let folder = tempfile::tempdir().unwrap();
        let punctual = |folder: &Path| {
            let server = Server::builder()
                .port(0)
                .threads(threads)
                .option("enable-debug-command", "yes")
                .option("appendonly", "yes")
                .option("dir", folder.to_str().unwrap());
            server.spawn().unwrap()
        };
        let ours = punctual(folder.path());
        let address = ours.addr().unwrap();
        let port = address.port().to_string();
        let oracle = Oracle::start_with(&["--appendonly", "yes"]);
        let oracle = oracle.unwrap_or_else(|error| panic!("{error}"));
        let replica = Oracle::start_with(&["--replicaof", "127.0.0.1", &port])
            .unwrap_or_else(|error| panic!("{error}"));
        let mut link = Link::connect(Side::A, address).unwrap();
        let wait = Command::of(&["WAIT", "1", "30000"]);
        assert_eq!(link.ask(&wait).unwrap(), punctual_resp::Value::Int(1));
        let mut options = Options::new(seed, commands, Protocol::Resp2);
        // redis-server 7.0 has no deadlines of hash fields.
        options.families.remove(&Family::Fields);
        // The replies of ROLE, WAIT and WAITAOF differ, because the other server of the duel has no
        // replica. CONFIG RESETSTAT would reset the number of full synchronizations.
        options.without = ["role", "wait", "waitaof", "config"]
            .map(str::to_owned)
            .into();
        let addresses = Addresses {
            a: address,
            b: oracle.address(),
            peer: Some(Peer::Redis7),
        };
        Duel::run(addresses, &options, |_| {}).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(link.ask(&wait).unwrap(), punctual_resp::Value::Int(1));
        check("its replica, redis-server", address, replica.address());
        let info = link.ask(&Command::of(&["INFO", "stats"])).unwrap();
        let info = String::from_utf8_lossy(info.as_bytes().unwrap_or_default()).into_owned();
        // The replica was online all the time: no part of the log was replaced by a second
        // snapshot.
        assert!(info.contains("sync_full:1\r\n"), "{info}");
        let synced = link
            .ask(&Command::of(&["WAITAOF", "1", "0", "30000"]))
            .unwrap();
        assert_eq!(synced.as_slice().unwrap()[0], punctual_resp::Value::Int(1));
        let copies = [copied(folder.path()), copied(folder.path())];
        let again = punctual(copies[0].path());
        check("a new server with its file", address, again.addr().unwrap());
        again.shutdown();
        let path = copies[1].path().to_str().unwrap();
        let redis = Oracle::start_with(&["--appendonly", "yes", "--dir", path])
            .unwrap_or_else(|error| panic!("{error}"));
        check("redis-server with its file", address, redis.address());
        ours.shutdown();
    }
}
