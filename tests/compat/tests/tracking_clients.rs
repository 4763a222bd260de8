//! Clients with client-side caches in random modes, to Punctual and to a real redis-server.
//!
//! Several clients send random reads and writes, and change their modes of tracking. After every
//! few commands, each client must have received invalidation messages for the same keys from both
//! servers. The keys are compared as multisets for each client: the servers may divide the keys of
//! BCAST mode into messages in different ways. `PUNCTUAL_COMMANDS=100000` sets the number of
//! commands, `PUNCTUAL_SEED` the seed.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use punctual_compat::generate::{Act, Generator};
use punctual_compat::link::{Link, Side};
use punctual_compat::{Command, Family, Oracle, Protocol};
use punctual_harness::{number, seed};
use punctual_resp::Value;
use punctual_server::Server;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Number of commands in `make test`.
const COMMANDS: usize = 4_000;
/// Number of clients in RESP3. Some of them redirect messages to one more client, the listener, in
/// RESP2.
const CLIENTS: usize = 6;
/// Number of commands between two comparisons.
const STRETCH: usize = 4;
const FAMILIES: [Family; 11] = [
    Family::Strings,
    Family::Lists,
    Family::Hashes,
    Family::Sets,
    Family::Zsets,
    Family::Streams,
    Family::Bitmaps,
    Family::Hyperloglog,
    Family::Geo,
    Family::Sort,
    Family::Keys,
];
/// Commands that are not sent: their result or effect differs between the servers, or they would
/// change the client.
#[rustfmt::skip]
const OMITTED: &[&str] = &[
    "spop", "swapdb", "restore", "xadd", "xautoclaim", "xclaim", "xreadgroup", "client", "hello",
    "reset",
];
/// Commands with these options are not sent: their keys might expire during the run. With
/// BITFIELD's FAIL, redis-server may extend a string without an invalidation.
const OMITTED_OPTIONS: &[&str] = &["ex", "px", "exat", "pxat", "fail"];

/// The keys of invalidation messages since the last comparison, with their counts; `*` stands for
/// all keys.
type Invalidated = BTreeMap<String, usize>;

struct Client {
    link: Link,
    invalidated: Invalidated,
}

impl Client {
    fn connect(side: Side, address: SocketAddr, protocol: &str) -> Self {
        let link = Link::connect(side, address).unwrap();
        let mut client = Self {
            link,
            invalidated: Invalidated::new(),
        };
        client.ask(&Command::of(&["HELLO", protocol]));
        client
    }

    /// Returns the reply. Counts invalidation messages that arrive before it.
    fn ask(&mut self, command: &Command) -> Value {
        let mut value = self.link.ask(command).unwrap();
        while self.note(&value) {
            value = self.link.read().unwrap();
        }
        value
    }

    /// Counts an invalidation message. Returns false if the value is a reply.
    fn note(&mut self, value: &Value) -> bool {
        let content = match value {
            Value::Push(parts) => &parts[1],
            Value::Array(parts) if parts.len() == 3 && parts[0].as_bytes() == Some(b"message") => {
                &parts[2]
            }
            _ => return false,
        };
        let keys = content.as_slice().map_or_else(
            || vec!["*".to_owned()],
            |keys| keys.iter().map(|key| format!("{key:?}")).collect(),
        );
        for key in keys {
            *self.invalidated.entry(key).or_default() += 1;
        }
        true
    }
}

/// The same clients on one server.
struct Clients {
    all: Vec<Client>,
    /// The client ID of the listener.
    listener: String,
}

impl Clients {
    fn connect(side: Side, address: SocketAddr) -> Self {
        let mut all: Vec<Client> = (0..CLIENTS)
            .map(|_| Client::connect(side, address, "3"))
            .collect();
        all[0].ask(&Command::of(&["FLUSHALL"]));
        let mut listener = Client::connect(side, address, "2");
        let id = listener.ask(&Command::of(&["CLIENT", "ID"]));
        let id = id.as_int().unwrap().to_string();
        listener.ask(&Command::of(&["SUBSCRIBE", "__redis__:invalidate"]));
        all.push(listener);
        Self { all, listener: id }
    }

    fn ask(&mut self, client: usize, words: &[Vec<u8>]) -> Value {
        let mut command = Command::new(&words[0]);
        for word in &words[1..] {
            match word.as_slice() {
                b"<listener>" => command.push(&self.listener),
                word => command.push(word),
            }
        }
        self.all[client].ask(&command)
    }

    fn invalidated(&mut self) -> Vec<Invalidated> {
        let ping = Command::of(&["PING"]);
        let each = self.all.iter_mut().map(|client| {
            client.ask(&ping);
            std::mem::take(&mut client.invalidated)
        });
        each.collect()
    }
}

/// Returns commands that switch a client to a random mode of tracking.
fn mode(rng: &mut ChaCha8Rng) -> Vec<Vec<Vec<u8>>> {
    let line = [
        "on",
        "on NOLOOP",
        "on REDIRECT <listener>",
        "on OPTIN",
        "on OPTOUT NOLOOP",
        "on BCAST",
        "on BCAST NOLOOP",
        "on BCAST PREFIX k PREFIX l",
        "on BCAST NOLOOP PREFIX k: REDIRECT <listener>",
        "off",
    ]
    .choose(rng)
    .unwrap();
    let split = |line: String| line.split(' ').map(|w| w.as_bytes().to_vec()).collect();
    vec![
        split("CLIENT TRACKING off".into()),
        split(format!("CLIENT TRACKING {line}")),
    ]
}

/// Source of random commands whose replies and effects must be the same on both servers at any
/// time.
struct Source {
    generator: Generator,
    next: VecDeque<Vec<Vec<u8>>>,
}

impl Source {
    fn next(&mut self) -> Vec<Vec<u8>> {
        loop {
            if let Some(next) = self.next.pop_front() {
                return next;
            }
            if let Act::Pipeline(steps) = self.generator.next_act() {
                let all = steps.iter().map(|step| step.command.args().to_vec());
                self.next.extend(all.filter(|words| fits(words)));
            }
        }
    }
}

fn fits(words: &[Vec<u8>]) -> bool {
    let lower = |word: &Vec<u8>| String::from_utf8_lossy(word).to_ascii_lowercase();
    let name = lower(&words[0]);
    let streams = words.iter().rposition(|w| lower(w) == "streams");
    // If the numbers of keys and IDs differ, Redis does not track the keys of the command.
    let balanced = streams.is_none_or(|at| (words.len() - at) % 2 == 1);
    balanced
        && !OMITTED.contains(&name.as_str())
        && !name.contains("expire")
        && !name.contains("setex")
        && !words
            .iter()
            .any(|w| OMITTED_OPTIONS.contains(&lower(w).as_str()))
}

/// Draws the next commands of a client: one, a transaction, a script, or a change of its mode.
fn draw(rng: &mut ChaCha8Rng, source: &mut Source) -> Vec<Vec<Vec<u8>>> {
    let words =
        |line: &str| -> Vec<Vec<u8>> { line.split(' ').map(|w| w.as_bytes().to_vec()).collect() };
    match rng.random_range(0..100) {
        0..6 => mode(rng),
        6..14 => vec![words(
            ["CLIENT CACHING yes", "CLIENT CACHING no"]
                .choose(rng)
                .unwrap(),
        )],
        14..22 => {
            let mut all = vec![words("MULTI")];
            all.extend((0..4).map(|_| source.next()));
            all.push(words("EXEC"));
            all
        }
        22..27 => {
            // Both servers track all keys of a script that reads all of them.
            let mut eval = words("EVAL");
            eval.push(b"for _, k in ipairs(KEYS) do redis.call('EXISTS', k) end".to_vec());
            let keys: Vec<Vec<u8>> = (0..3)
                .filter_map(|_| source.next().get(1).cloned())
                .collect();
            eval.push(keys.len().to_string().into_bytes());
            eval.extend(keys);
            vec![eval]
        }
        27 => vec![words(["FLUSHALL", "FLUSHDB"].choose(rng).unwrap())],
        _ => vec![source.next()],
    }
}

#[test]
fn both_servers_invalidate_the_same_keys() {
    let seed = seed(&["PUNCTUAL_SEED"]);
    let commands = number("PUNCTUAL_COMMANDS").unwrap_or(COMMANDS);
    let oracle = Oracle::start().unwrap_or_else(|error| panic!("{error}"));
    for threads in [1, 3] {
        println!("seed {seed}, {threads} threads");
        let server = Server::builder().port(0).threads(threads).spawn().unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut source = Source {
            generator: Generator::new(seed, Protocol::Resp3, FAMILIES),
            next: VecDeque::new(),
        };
        let ours = SocketAddr::from(([127, 0, 0, 1], server.port()));
        let mut ours = Clients::connect(Side::A, ours);
        let mut theirs = Clients::connect(Side::B, oracle.address());
        let (mut sent, mut messages) = (0, 0);
        while sent < commands {
            let mut stretch = Vec::new();
            for _ in 0..STRETCH {
                let client = rng.random_range(0..CLIENTS);
                for words in draw(&mut rng, &mut source) {
                    let shown: Vec<String> =
                        words.iter().map(|w| w.escape_ascii().to_string()).collect();
                    stretch.push(format!("{client}: {}", shown.join(" ")));
                    let a = ours.ask(client, &words);
                    let b = theirs.ask(client, &words);
                    if words[0] == b"CLIENT" {
                        assert_eq!(a, b, "seed {seed}: {stretch:#?}");
                    }
                    sent += 1;
                }
            }
            let (a, b) = (ours.invalidated(), theirs.invalidated());
            assert_eq!(a, b, "seed {seed}, after {sent}: {stretch:#?}");
            messages += a.iter().map(Invalidated::len).sum::<usize>();
        }
        println!("{sent} commands, {messages} keys");
        assert!(messages > sent / 10, "too few messages: {messages}");
    }
}
