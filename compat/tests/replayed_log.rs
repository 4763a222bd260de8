//! The log of changes replays to the same data: after random commands of all families, a real redis-server that has followed as
//! a replica has the same DEBUG DIGEST and the same deadlines.
//!
//! `PUNCTUAL_SEED=17` replays one stream, `PUNCTUAL_COMMANDS=500000` sets the number of commands.

use punctual_compat::command::Command;
use punctual_compat::link::{Link, Side};
use punctual_compat::{Addresses, Duel, Family, Options, Oracle, Protocol, replayed};
use punctual_server::Server;

fn from_environment(name: &str) -> Option<u64> {
    Some(std::env::var(name).ok()?.parse().expect("a number"))
}

#[test]
fn a_replica_has_the_same_data() {
    let seed = from_environment("PUNCTUAL_SEED");
    let seed = seed.unwrap_or_else(|| match std::env::var_os("CI") {
        Some(_) => 1,
        None => rand::random(),
    });
    let commands = from_environment("PUNCTUAL_COMMANDS").unwrap_or(40_000);
    for threads in [1, 4] {
        println!("PUNCTUAL_SEED={seed}, {threads} threads");
        let ours = Server::builder()
            .port(0)
            .threads(threads)
            .option("enable-debug-command", "yes")
            .spawn()
            .unwrap();
        let address = ours.addr().unwrap();
        let port = address.port().to_string();
        let oracle = Oracle::start().unwrap_or_else(|error| panic!("{error}"));
        let replica = Oracle::start_with(&["--replicaof", "127.0.0.1", &port])
            .unwrap_or_else(|error| panic!("{error}"));
        let mut link = Link::connect(Side::A, address).unwrap();
        let wait = Command::of(&["WAIT", "1", "30000"]);
        assert_eq!(link.ask(&wait).unwrap(), punctual_resp::Value::Int(1));
        let mut options = Options::new(seed, commands, Protocol::Resp2);
        // redis-server 7.0 knows no deadlines of fields.
        options.families.remove(&Family::Fields);
        // The oracle has no replica.
        options.without = ["role", "wait", "waitaof"].map(str::to_owned).into();
        let addresses = Addresses {
            a: address,
            b: oracle.address(),
        };
        Duel::run(addresses, &options, |_| {}).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(link.ask(&wait).unwrap(), punctual_resp::Value::Int(1));
        if let Some(found) = replayed::differences(address, replica.address()).unwrap() {
            panic!("A is the primary, B the replica: {found}");
        }
        let info = link.ask(&Command::of(&["INFO", "stats"])).unwrap();
        let info = String::from_utf8_lossy(info.as_bytes().unwrap_or_default()).into_owned();
        // It has followed all the time: nothing of the log was bridged by another snapshot.
        assert!(info.contains("sync_full:1\r\n"), "{info}");
        ours.shutdown();
    }
}
