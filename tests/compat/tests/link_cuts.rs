//! A replica whose link is cut at random moments while its primary executes random commands of all
//! families: in the end both have the same data.
//!
//! `PUNCTUAL_LINK_CUTS` is the number of cuts of each pair, `PUNCTUAL_SEED` the seed of commands
//! and cuts.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Instant;

use punctual_compat::generate::{Act, Generator};
use punctual_compat::link::{Link, Side};
use punctual_compat::replayed::{self, Groups};
use punctual_compat::{Command, Family, Oracle, Protocol};
use punctual_harness::{PATIENCE, Proxy, Wire, eventually, number, seed};
use punctual_resp::encode_command;
use punctual_server::Server;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Number of cuts of each pair, unless `PUNCTUAL_LINK_CUTS` sets another.
const CUTS: u64 = 8;
/// Size of the backlog: some cuts are longer than it reaches.
const BACKLOG: &str = "65536";
/// One of so many outages is long.
const LONG_OUTAGES: u32 = 6;
/// Families that change no data of keys, or the connection or the server itself.
const WITHOUT: [Family; 5] = [
    Family::Server,
    Family::Connection,
    Family::Pubsub,
    Family::Wire,
    Family::Fields,
];

/// A server of either kind.
enum Node {
    Ours(Server),
    Redis(Oracle),
}

impl Node {
    fn ours() -> Self {
        let server = Server::builder()
            .port(0)
            .option("enable-debug-command", "yes")
            .option("repl-backlog-size", BACKLOG)
            .option("repl-diskless-sync-delay", "0")
            .spawn();
        Self::Ours(server.unwrap_or_else(|error| panic!("{error}")))
    }

    fn redis() -> Self {
        let options = [
            "--repl-backlog-size",
            BACKLOG,
            "--repl-diskless-sync-delay",
            "0",
        ];
        Self::Redis(Oracle::start_with(&options).unwrap_or_else(|error| panic!("{error}")))
    }

    fn address(&self) -> SocketAddr {
        match self {
            Self::Ours(server) => server.addr().expect("it listens on TCP"),
            Self::Redis(oracle) => oracle.address(),
        }
    }

    fn wire(&self) -> Wire {
        Wire::to(self.address().port())
    }
}

/// Returns whether a redis-server may not get, or not execute, on a link what a command changes.
///
/// As a primary: scripts can ask for that, and a BITFIELD that adds zeros to a string but sets no
/// number is not replicated. As a replica: SORT takes numbers for unreadable if a command just
/// before it read one that a double cannot hold exactly, such as 1e-320, because redis-server does
/// not clear `errno`; then nothing is stored.
fn may_differ(command: &Command, of_redis: bool, to_redis: bool) -> bool {
    let says = |what: &str| {
        let within = |arg: &Vec<u8>| {
            let arg = arg.to_ascii_lowercase();
            arg.windows(what.len()).any(|part| part == what.as_bytes())
        };
        command.args().iter().any(within)
    };
    of_redis && (says("set_repl") || says("bitfield")) || to_redis && says("sort")
}

/// The primary's client, which sends random commands.
struct Writer {
    generator: Generator,
    link: Link,
    rng: ChaCha8Rng,
    of_redis: bool,
    to_redis: bool,
}

impl Writer {
    fn new(primary: &Node, replica: &Node, seed: u64) -> Self {
        let without: BTreeSet<Family> = WITHOUT.into();
        let families = Family::ALL.into_iter().filter(|f| !without.contains(f));
        let link = Link::connect(Side::A, primary.address());
        Self {
            generator: Generator::new(seed, Protocol::Resp2, families),
            link: link.unwrap_or_else(|error| panic!("{error}")),
            rng: ChaCha8Rng::seed_from_u64(seed),
            of_redis: matches!(primary, Node::Redis(_)),
            to_redis: matches!(replica, Node::Redis(_)),
        }
    }

    /// Sends one pipeline, in one of the first databases.
    fn write(&mut self) {
        let steps = loop {
            if let Act::Pipeline(steps) = self.generator.next_act()
                && !steps
                    .iter()
                    .any(|step| may_differ(&step.command, self.of_redis, self.to_redis))
            {
                break steps;
            }
        };
        let mut bytes = Vec::new();
        let db = self.rng.random_range(0..3).to_string();
        encode_command(&mut bytes, &["SELECT", &db]);
        for step in &steps {
            encode_command(&mut bytes, step.command.args());
        }
        let replies = steps.iter().filter(|step| step.answered).count() + 1;
        let failed = |error| panic!("the primary: {error}");
        self.link.send(&bytes).unwrap_or_else(failed);
        for _ in 0..replies {
            if let Err(error) = self.link.read() {
                panic!("the primary: {error}");
            }
        }
    }
}

fn is_up(replica: &mut Wire) -> bool {
    replica.info("replication", "master_link_status") == "up"
}

/// Cuts the link of a pair again and again, and compares both in the end.
fn run(primary: &Node, replica: &Node) {
    let seed = seed(&["PUNCTUAL_SEED", "PROPTEST_RNG_SEED"]);
    let mut writer = Writer::new(primary, replica, seed);
    let mut rng = ChaCha8Rng::seed_from_u64(!seed);
    let (mut upper, mut lower) = (primary.wire(), replica.wire());
    let proxy = Proxy::to(primary.address().port());
    lower.run(&format!("REPLICAOF 127.0.0.1 {}", proxy.port));
    let cuts = number("PUNCTUAL_LINK_CUTS").unwrap_or(CUTS);
    while proxy.cuts() < cuts {
        // A cut in the stream, or (one of four) perhaps in a handshake or a full sync.
        if rng.random_range(0..4) > 0 {
            eventually(|| is_up(&mut lower));
        }
        let before = proxy.cuts();
        // As many cuts within the first bytes as within the last ones.
        let magnitude = rng.random_range(0.0..5.0);
        proxy.cut_after(10_f64.powf(magnitude) as u64);
        // With much written while the link is down, the backlog does not reach.
        let busy = rng.random_range(0.05..1.0);
        eventually(|| {
            if rng.random_bool(busy) {
                writer.write();
            }
            proxy.cuts() > before
        });
        // Some outages are longer than the backlog reaches.
        let is_long = rng.random_range(0..LONG_OUTAGES) == 0;
        proxy.close(is_long);
        let pipelines = if is_long { 5..40 } else { 0..4 };
        for _ in 0..rng.random_range(pipelines) {
            writer.write();
        }
        proxy.close(false);
    }
    eventually(|| is_up(&mut lower));
    // Expired keys go until then; the primary may ping.
    let end = Instant::now() + PATIENCE;
    let groups = match primary {
        Node::Ours(_) => Groups::Whole,
        Node::Redis(_) => Groups::Delivered,
    };
    while let Some(found) =
        replayed::differences(primary.address(), replica.address(), groups).unwrap()
    {
        assert!(
            Instant::now() < end,
            "PUNCTUAL_SEED={seed}, A is the primary, B its replica\n{found}"
        );
    }
    let count = |field| upper.info("stats", field).parse::<u64>().unwrap();
    let [full, partial] = ["sync_full", "sync_partial_ok"].map(count);
    println!("{cuts} cuts, {full} full syncs, {partial} partial ones");
    // A few cuts may all be long ones.
    assert!(full > 0 && (partial > 0 || cuts < 20));
    let size: i64 = (0..3)
        .map(|db| {
            upper.ask(&["SELECT", &db.to_string()]);
            upper.int("DBSIZE")
        })
        .sum();
    assert!(size > 0, "nothing was compared");
}

/// Tests this test.
#[test]
fn redis_follows_redis() {
    run(&Node::redis(), &Node::redis());
}

#[test]
fn redis_follows_us() {
    run(&Node::ours(), &Node::redis());
}

#[test]
fn we_follow_redis() {
    run(&Node::redis(), &Node::ours());
}

#[test]
fn we_follow_ourselves() {
    run(&Node::ours(), &Node::ours());
}
