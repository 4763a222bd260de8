//! The connection of a replica is cut at random moments while its primary executes random commands
//! of most families. In the end, both servers must have the same data.
//!
//! `PUNCTUAL_LINK_CUTS` sets the number of cuts for each pair of servers, `PUNCTUAL_SEED` the seed
//! of the commands and the cuts.

use std::net::SocketAddr;
use std::time::Instant;

use punctual_compat::generate::{Act, Generator};
use punctual_compat::link::{Link, Side};
use punctual_compat::replayed::{self, Groups, may_differ};
use punctual_compat::{Family, Oracle, Protocol};
use punctual_harness::{PATIENCE, Peer, Proxy, Wire, eventually, number, seed};
use punctual_resp::encode_command;
use punctual_server::Server;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Default number of cuts for each pair of servers.
const CUTS: u64 = 8;
/// Size of the replication backlog in bytes. During some outages the primary writes more than that.
const BACKLOG: &str = "65536";
/// One in this many outages is long.
const LONG_OUTAGES: u32 = 6;
/// Families that are not sent: they do not change keys, or they change the connection or the server
/// itself.
const WITHOUT: [Family; 4] = [
    Family::Server,
    Family::Connection,
    Family::Pubsub,
    Family::Wire,
];

/// A server of either kind.
enum Node {
    Ours(Server),
    Theirs(Peer, Oracle),
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

    /// Starts a peer. Returns `None` if it is not installed.
    fn theirs(peer: Peer) -> Option<Self> {
        let options = [
            "--repl-backlog-size",
            BACKLOG,
            "--repl-diskless-sync-delay",
            "0",
        ];
        Some(Self::Theirs(peer, Oracle::start_peer(peer, &options)?))
    }

    fn peer(&self) -> Option<Peer> {
        match self {
            Self::Ours(_) => None,
            Self::Theirs(peer, _) => Some(*peer),
        }
    }

    fn address(&self) -> SocketAddr {
        match self {
            Self::Ours(server) => server.addr().expect("it listens on TCP"),
            Self::Theirs(_, oracle) => oracle.address(),
        }
    }

    fn wire(&self) -> Wire {
        Wire::to(self.address().port())
    }
}

/// A client of the primary that sends random commands.
struct Writer {
    generator: Generator,
    link: Link,
    rng: ChaCha8Rng,
    of_redis: bool,
    to_redis: bool,
}

impl Writer {
    fn new(primary: &Node, replica: &Node, seed: u64) -> Self {
        let peers = [primary.peer(), replica.peer()];
        let peer = peers.into_iter().flatten().next();
        let families = Family::ALL.into_iter().filter(|family| {
            !WITHOUT.contains(family) && peer.is_none_or(|peer| family.is_in(peer))
        });
        let link = Link::connect(Side::A, primary.address());
        Self {
            generator: Generator::new(seed, Protocol::Resp2, families).beside(peer),
            link: link.unwrap_or_else(|error| panic!("{error}")),
            rng: ChaCha8Rng::seed_from_u64(seed),
            of_redis: primary.peer().is_some(),
            to_redis: replica.peer().is_some(),
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

/// Cuts the connection between primary and replica again and again, and compares their data in the
/// end.
fn run(primary: &Node, replica: &Node) {
    let seed = seed(&["PUNCTUAL_SEED", "PROPTEST_RNG_SEED"]);
    let mut writer = Writer::new(primary, replica, seed);
    let mut rng = ChaCha8Rng::seed_from_u64(!seed);
    let (mut upper, mut lower) = (primary.wire(), replica.wire());
    let proxy = Proxy::to(primary.address().port());
    lower.run(&format!("REPLICAOF 127.0.0.1 {}", proxy.port));
    let cuts = number("PUNCTUAL_LINK_CUTS").unwrap_or(CUTS);
    while proxy.cuts() < cuts {
        // Three of four cuts come when the replica is online; the others may come during a
        // handshake or a full sync.
        if rng.random_range(0..4) > 0 {
            eventually(|| is_up(&mut lower));
        }
        let before = proxy.cuts();
        // The logarithm of the number of bytes before the cut is uniformly distributed.
        let magnitude = rng.random_range(0.0..5.0);
        proxy.cut_after(10_f64.powf(magnitude) as u64);
        // Probability that the client writes a pipeline at each poll for the cut.
        let busy = rng.random_range(0.05..1.0);
        eventually(|| {
            if rng.random_bool(busy) {
                writer.write();
            }
            proxy.cuts() > before
        });
        // In a long outage, the client writes more than the backlog can hold.
        let is_long = rng.random_range(0..LONG_OUTAGES) == 0;
        proxy.close(is_long);
        let pipelines = if is_long { 5..40 } else { 0..4 };
        for _ in 0..rng.random_range(pipelines) {
            writer.write();
        }
        proxy.close(false);
    }
    eventually(|| is_up(&mut lower));
    // Expired keys may still be deleted, and the primary may send PING.
    let end = Instant::now() + PATIENCE;
    let groups = match (primary.peer(), replica.peer()) {
        (None, None | Some(Peer::Redis7)) => Groups::Whole,
        // Later servers compute another lag after a trim.
        _ => Groups::Delivered,
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
    // With few cuts, all outages may be long by chance.
    assert!(full > 0 && (partial > 0 || cuts < 20));
    let size: i64 = (0..3)
        .map(|db| {
            upper.ask(&["SELECT", &db.to_string()]);
            upper.int("DBSIZE")
        })
        .sum();
    assert!(size > 0, "nothing was compared");
}

/// Calls `run` with each peer that is installed.
fn with_each_peer(run: impl Fn(&Node)) {
    for peer in Peer::ALL {
        if let Some(node) = Node::theirs(peer) {
            println!("{peer}");
            run(&node);
        }
    }
}

/// A test of this test itself.
#[test]
fn redis_follows_redis() {
    let redis = || Node::theirs(Peer::Redis7).expect("installed");
    run(&redis(), &redis());
}

#[test]
fn each_peer_follows_us() {
    with_each_peer(|peer| run(&Node::ours(), peer));
}

#[test]
fn we_follow_each_peer() {
    with_each_peer(|peer| run(peer, &Node::ours()));
}

#[test]
fn we_follow_ourselves() {
    run(&Node::ours(), &Node::ours());
}
