//! Random rules of ACL SETUSER and random commands, to Punctual and to a real redis-server.
//!
//! The replies of SETUSER, the fields of GETUSER and every reply of DRYRUN must be equal. When the
//! user sends the command, the result must be the one of DRYRUN. GETUSER of Punctual prints the
//! rules of commands like 7.2, unlike 7.0, so the test compares which commands the printed rules
//! allow. `PUNCTUAL_COMMANDS=100000` sets the number of commands.

use punctual_compat::Command;
use punctual_compat::Oracle;
use punctual_compat::link::{Link, Side};
use punctual_harness::number;
use punctual_resp::{Value, encode_command};
use punctual_server::Server;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Number of commands in `make test`.
const COMMANDS: usize = 12_000;
/// Number of commands that are tried after each change of a user.
const TRIES: usize = 120;
const USERS: [&str; 4] = ["u0", "u1", "u2", "u3"];

const PATTERNS: &[&str] = &["a*", "*", "r:*", "w:*", "k:?", "[ab]", "b", "a", ""];
const CHANNELS: &[&str] = &["c", "c:1", "d", "c*", "*", "x"];
#[rustfmt::skip]
const WORDS: &[&str] = &[
    "a", "a1", "b", "r:1", "w:1", "k:x", "x", "*", "", "c", "c:1", "d", "c*", "1", "2", "0", "-1",
    "get", "set", "by", "store", "limit", "asc", "alpha", "nosort", "#", "streams", "group",
    "count", "noack", "keys", "weights", "aggregate", "withscores", "u8", "incrby", "overflow",
    "wrap", "left", "right", "storedist", "nx", "xx", "ex", "match", "$", ">", "10",
];
/// Commands that are not sent with random arguments: with invalid arguments, the servers find
/// different keys, or 7.2 has more arguments.
const NOT_AT_RANDOM: &[&str] = &[
    "pfmerge",
    "migrate",
    "xread",
    "xreadgroup",
    "command|getkeys",
    "zrank",
    "zrevrank",
    // The command is in the category @blocking since 7.2.
    "wait",
];
const WELL_FORMED: &[&str] = &[
    "pfmerge w:1 r:1 a",
    "migrate h 1 a 0 1",
    "migrate h 1 \"\" 0 1 keys a r:1",
    "xread count 1 streams a r:1 0 0",
    "xreadgroup group g c streams w:1 a > >",
    "set w:1 1 get",
    "set w:1 1 ex 10",
    "bitfield r:1 get u8 0",
    "bitfield r:1 get u8 0 set u8 0 1",
    "sort r:1 by x*",
    "sort a by nosort get #",
    "sort_ro r:1 get a*->x",
    "sort a store w:1",
    "georadius a 1 1 1 m store w:1",
    "eval return 1 2 a b",
    "evalsha x 1 r:1",
    "zunionstore w:1 2 a r:1",
    "psubscribe c* *",
    "subscribe c d",
    "spublish c:1 x",
    "blmove a w:1 left right 0",
];
/// Commands that the user also sends: they do not block, subscribe, or change the server.
#[rustfmt::skip]
const REAL: &[&str] = &[
    "get", "set", "mget", "mset", "del", "copy", "rename", "append", "incr", "lpush", "lrange",
    "lmove", "hset", "hget", "hgetall", "sadd", "sinterstore", "smembers", "zadd", "zrange",
    "zunionstore", "sort", "sort_ro", "publish", "spublish", "eval", "bitfield", "getex", "getdel",
    "expire", "object|encoding", "type", "echo", "ping", "georadius", "memory|usage", "watch",
    "setrange", "pfmerge", "xread",
];

struct Both {
    ours: Link,
    redis: Link,
}

impl Both {
    fn open(server: &Server, oracle: &Oracle) -> Self {
        let ours = server.addr().expect("it listens on TCP");
        Self {
            ours: Link::connect(Side::A, ours).unwrap(),
            redis: Link::connect(Side::B, oracle.address()).unwrap(),
        }
    }

    fn ask(&mut self, words: &[String]) -> (Value, Value) {
        let command = command(words);
        (
            self.ours.ask(&command).unwrap(),
            self.redis.ask(&command).unwrap(),
        )
    }

    /// Sends the commands to both servers as a pipeline, and returns the pairs of replies.
    fn ask_all(&mut self, commands: &[Vec<String>]) -> Vec<(Value, Value)> {
        let mut bytes = Vec::new();
        for words in commands {
            encode_command(&mut bytes, command(words).args());
        }
        self.ours.send(&bytes).unwrap();
        self.redis.send(&bytes).unwrap();
        let replies = commands.iter();
        replies
            .map(|_| (self.ours.read().unwrap(), self.redis.read().unwrap()))
            .collect()
    }
}

fn command(words: &[String]) -> Command {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Command::of(&words)
}

fn words(line: &str) -> Vec<String> {
    let word = |word: &str| {
        if word == "\"\"" {
            String::new()
        } else {
            word.to_owned()
        }
    };
    line.split(' ').map(word).collect()
}

fn texts(value: Value) -> Vec<String> {
    let Value::Array(values) = value else {
        panic!("{value:?} is not an array");
    };
    values.iter().map(text).collect()
}

fn text(value: &Value) -> String {
    match value {
        Value::Bulk(text) | Value::Simple(text) | Value::Error(text) => {
            String::from_utf8_lossy(text).into_owned()
        }
        Value::Array(values) => values.iter().map(text).collect::<Vec<_>>().join(", "),
        other => format!("{other:?}"),
    }
}

/// A command of both servers, with its arity.
type Known = (String, i64);

fn common(both: &mut Both) -> Vec<Known> {
    let (ours, redis) = both.ask(&words("command list"));
    let (ours, redis) = (texts(ours), texts(redis));
    let names: Vec<String> = redis
        .into_iter()
        .filter(|name| ours.contains(name))
        .collect();
    let request = [words("command info"), names.clone()].concat();
    let (_, infos) = both.ask(&request);
    let Value::Array(infos) = infos else {
        panic!("no array");
    };
    let arity = |info: &Value| match info {
        Value::Array(fields) => match fields[1] {
            Value::Int(arity) => arity,
            _ => panic!("no arity"),
        },
        other => panic!("{other:?}"),
    };
    names.into_iter().zip(infos.iter().map(arity)).collect()
}

fn pick<'a>(rng: &mut ChaCha8Rng, from: &[&'a str]) -> &'a str {
    from.choose(rng).expect("not empty")
}

fn rule(rng: &mut ChaCha8Rng, known: &[Known], categories: &[String]) -> String {
    let sign = pick(rng, &["+", "-"]);
    match rng.random_range(0..100) {
        0..30 => format!("{sign}{}", known.choose(rng).expect("commands").0),
        30..50 => match rng.random_range(0..=categories.len()) {
            0 => format!("{sign}@all"),
            i => format!("{sign}@{}", categories[i - 1]),
        },
        50..54 => {
            let name = pick(rng, &["select", "get", "debug", "echo", "set", "config"]);
            format!("+{name}|{}", pick(rng, WORDS))
        }
        54..75 => {
            let kind = pick(rng, &["~", "~", "~", "%R~", "%W~", "%RW~", "%wr~"]);
            format!("{kind}{}", pick(rng, PATTERNS))
        }
        75..85 => format!("&{}", pick(rng, CHANNELS)),
        _ => pick(
            rng,
            &[
                "allkeys",
                "resetkeys",
                "allchannels",
                "resetchannels",
                "allcommands",
                "nocommands",
                "on",
                "off",
                "nopass",
                ">p",
                "<p",
                "resetpass",
                "reset",
                "clearselectors",
                "sanitize-payload",
                "skip-sanitize-payload",
                "",
                "+@foo",
                "%X~a",
                "~a b",
                "#abc",
                "-select|0",
                "+config|get|x",
            ],
        )
        .to_owned(),
    }
}

fn rules(rng: &mut ChaCha8Rng, known: &[Known], categories: &[String]) -> Vec<String> {
    let mut rules = Vec::new();
    for _ in 0..rng.random_range(0..7) {
        if rng.random_ratio(1, 7) {
            let inner: Vec<String> = (0..rng.random_range(0..5))
                .map(|_| rule(rng, known, categories))
                .filter(|rule| !rule.contains(' '))
                .collect();
            let joined = format!("({})", inner.join(" "));
            if rng.random_ratio(1, 2) {
                rules.push(joined);
            } else {
                rules.extend(joined.split(' ').map(str::to_owned));
            }
        } else {
            rules.push(rule(rng, known, categories));
        }
    }
    rules
}

fn tried(rng: &mut ChaCha8Rng, known: &[Known]) -> Vec<String> {
    if rng.random_ratio(1, 5) {
        return words(pick(rng, WELL_FORMED));
    }
    let (name, arity) = loop {
        let (name, arity) = known.choose(rng).expect("commands");
        if !NOT_AT_RANDOM.contains(&name.as_str()) {
            break (name, *arity);
        }
    };
    let mut words: Vec<String> = name.split('|').map(str::to_owned).collect();
    let more = if arity < 0 { rng.random_range(0..5) } else { 0 };
    let mut length = arity.unsigned_abs() as usize + more;
    if rng.random_ratio(1, 50) {
        length += 1;
    }
    while words.len() < length {
        words.push(pick(rng, WORDS).to_owned());
    }
    words
}

/// Returns the fields of GETUSER except the commands.
fn without_commands(value: &Value) -> Vec<String> {
    match value {
        Value::Array(fields) => {
            let (names, values) = (fields.iter().step_by(2), fields.iter().skip(1).step_by(2));
            names
                .zip(values)
                .filter(|(name, _)| text(name) != "commands")
                .map(|(name, value)| match (text(name).as_str(), value) {
                    ("selectors", Value::Array(selectors)) => {
                        let selectors = selectors.iter().flat_map(without_commands);
                        selectors.collect::<Vec<_>>().join("; ")
                    }
                    // redis-server prints `~*` instead, which it does not accept before other
                    // patterns.
                    _ => text(value).replace("%RW~*", "~*"),
                })
                .collect()
        }
        other => vec![text(other)],
    }
}

/// Returns the rules of a user from a line of ACL LIST, without commands that the other server
/// lacks.
fn rules_of(line: &str, known: &[Known]) -> Vec<String> {
    let is_known = |rule: &&str| {
        let name = rule.trim_start_matches('(').trim_end_matches(')');
        let named = name
            .strip_prefix(['+', '-'])
            .filter(|name| !name.starts_with('@'));
        named.is_none_or(|name| {
            let command = name.split('|').next().unwrap_or_default();
            let contains = |known: &str| known.split_once('|').is_some_and(|(of, _)| of == command);
            let has = |wanted: &str| known.iter().any(|(known, _)| known == wanted);
            // A rule for the first argument of a command without subcommands.
            has(name) || has(command) && !known.iter().any(|(known, _)| contains(known))
        })
    };
    line.split(' ')
        .skip(2)
        .filter(is_known)
        .map(str::to_owned)
        .collect()
}

#[test]
fn rules_and_checks_are_those_of_redis() {
    let seed = number("PUNCTUAL_SEED").unwrap_or(1);
    let commands = number("PUNCTUAL_COMMANDS").unwrap_or(COMMANDS);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let server = Server::builder().port(0).spawn().unwrap();
    let oracle = Oracle::start().unwrap_or_else(|error| panic!("{error}"));
    let mut admin = Both::open(&server, &oracle);
    let known = common(&mut admin);
    let (ours, redis) = admin.ask(&words("acl cat"));
    assert_eq!(ours, redis);
    let categories = texts(ours);
    let mut clients: Vec<Both> = Vec::new();
    for user in USERS {
        let request = words(&format!("acl setuser {user} on >secret"));
        admin.ask(&request);
        let mut client = Both::open(&server, &oracle);
        let (ours, redis) = client.ask(&words(&format!("auth {user} secret")));
        assert_eq!((text(&ours), ours), ("OK".to_owned(), redis));
        clients.push(client);
    }
    let (mut sent, mut denied, mut really) = (0, 0, 0);
    while sent < commands {
        let number = rng.random_range(0..USERS.len());
        let user = USERS[number];
        let rules = rules(&mut rng, &known, &categories);
        let request = [words(&format!("acl setuser {user}")), rules.clone()].concat();
        let (ours, redis) = admin.ask(&request);
        assert_eq!(text(&ours), text(&redis), "seed {seed}: {request:?}");
        let (ours, redis) = admin.ask(&words(&format!("acl getuser {user}")));
        assert_eq!(
            without_commands(&ours),
            without_commands(&redis),
            "seed {seed}: {request:?}"
        );

        // The rules that Punctual prints must have the same meaning on both servers.
        let (ours, _) = admin.ask(&words("acl list"));
        let prefix = format!("user {user} ");
        let line = texts(ours)
            .into_iter()
            .find(|line| line.starts_with(&prefix));
        let line = line.expect("the user exists");
        let copied = [words("acl setuser copy reset"), rules_of(&line, &known)].concat();
        let (ours, redis) = admin.ask(&copied);
        assert_eq!(
            (text(&ours), text(&redis)),
            ("OK".into(), "OK".into()),
            "{copied:?}"
        );

        let attempts: Vec<Vec<String>> = (0..TRIES).map(|_| tried(&mut rng, &known)).collect();
        let dry = |user: &str| -> Vec<Vec<String>> {
            let one = |words: &Vec<String>| {
                [
                    ["acl", "dryrun", user].map(str::to_owned).to_vec(),
                    words.clone(),
                ]
                .concat()
            };
            attempts.iter().map(one).collect()
        };
        let replies = admin.ask_all(&dry(user));
        let copies = admin.ask_all(&dry("copy"));
        for ((attempt, (ours, redis)), (copy, redis_copy)) in
            attempts.iter().zip(&replies).zip(&copies)
        {
            let at = format!("seed {seed}: {user} after {request:?}: {attempt:?}");
            assert_eq!(text(ours), text(redis), "{at}");
            assert_eq!(text(copy), text(ours), "{at}: {line}");
            assert_eq!(text(redis_copy), text(redis), "{at}: {line}");
            denied += usize::from(text(ours) != "OK");
            let full = [
                attempt[0].as_str(),
                attempt.get(1).map_or("", String::as_str),
            ]
            .map(str::to_lowercase);
            let is_real =
                REAL.contains(&full[0].as_str()) || REAL.contains(&full.join("|").as_str());
            if !is_real || matches!(ours, Value::Error(_)) {
                continue;
            }
            let client = &mut clients[number];
            let (real, redis_real) = client.ask(attempt);
            let refused = |reply: &Value| text(reply).starts_with("NOPERM");
            assert_eq!(refused(&real), text(ours) != "OK", "{at}: {real:?}");
            assert_eq!(
                refused(&redis_real),
                text(redis) != "OK",
                "{at}: {redis_real:?}"
            );
            if refused(&real) || text(&real).contains("SORT denied") {
                assert_eq!(real, redis_real, "{at}");
            }
            really += 1;
        }
        sent += 4 + attempts.len();
    }
    println!("seed {seed}: {sent} commands, {denied} denied, {really} really sent");
    assert!(denied > sent / 10 && really > sent / 100);
}
