//! DUMP and RESTORE. The payload is a value in the format of snapshots.

use punctual_rdb::dump::{self, Restore};
use punctual_rdb::{Contents, Dialect, Kind, Own, VERSION};
use punctual_resp::{Args, Reply};

use crate::arguments::{TimeUnit, int, is};
use crate::error::Error;
use crate::events::Classes;
use crate::keyspace::records::Id;
use crate::keyspace::shard::Store;
use crate::limits::Limits;
use crate::spec::{Flags, Group};
use crate::time::NEVER;
use crate::turn::{Command, Cx};
use crate::value::stream::Stream;
use crate::value::timer::{Plan, Timer};
use crate::value::{Kind as _, Value};
use crate::value::{WITH_SETTINGS, decode};

/// The family's rows.
pub static COMMANDS: &[Command] = &[
    Command::new("dump", 2, Flags::READONLY, Group::Generic, dump)
        .keys(1, 1, 1)
        .access(&["RO access"])
        .tips(&["nondeterministic_output"])
        .since("2.6.0")
        .complexity(
            "O(1) to access the key, plus O(N*M) to serialize it, where N is the number of \
             objects in the value and M is their average size.",
        )
        .summary("Returns the serialized value of a key.")
        .syntax("key"),
    restore_row("restore", RESTORE, Group::Generic)
        .since("2.6.0")
        .complexity(RESTORE_TIME)
        .summary("Creates a key from a serialized value."),
    // MIGRATE sends this command to a node at which a slot arrives.
    restore_row("restore-asking", RESTORE.or(Flags::ASKING), Group::Server)
        .since("3.0.0")
        .complexity(RESTORE_TIME)
        .summary("An internal command for migrating keys in a cluster.")
        .internal(),
];

const RESTORE: Flags = Flags::WRITE.or(Flags::DENYOOM).or(Flags::RESTORES);
const RESTORE_TIME: &str = "O(1) to create the key, plus O(N*M) to read the value, where N is the number of objects \
     in the value and M is their average size. O(N*M*log(N)) for a sorted set.";

const fn restore_row(name: &'static str, flags: Flags, group: Group) -> Command {
    Command::new(name, -4, flags, group, restore)
        .keys(1, 1, 1)
        .access(&["OW update"])
        .categories(&["keyspace", "dangerous"])
        .history(&[
            ("3.0.0", "Added the `REPLACE` modifier."),
            ("5.0.0", "Added the `ABSTTL` modifier."),
            ("5.0.0", "Added the `IDLETIME` and `FREQ` options."),
        ])
        .syntax(
            "key ttl serialized-value [REPLACE@3.0.0] [ABSTTL@5.0.0] [IDLETIME seconds@5.0.0] \
             [FREQ frequency:integer@5.0.0]",
        )
}

fn dump(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    match cx.read(&args[1]) {
        Some(record) => {
            let payload = record.value.dump();
            reply.bulk(&payload);
        }
        None => reply.null(),
    }
    Ok(())
}

/// Error for a payload whose value cannot be read; [`flaw`] has the reason.
pub const BAD_FORMAT: Error = Error::fixed("ERR Bad data format");

#[derive(Default)]
struct Options {
    replace: bool,
    absolute: bool,
    idle_s: Option<u64>,
    freq: Option<u8>,
}

impl Options {
    fn parse(args: Args) -> Result<Self, Error> {
        let mut options = Self::default();
        let mut at = 4;
        while let Some(word) = args.get(at) {
            let next = args.get(at + 1);
            if is(word, "REPLACE") {
                options.replace = true;
            } else if is(word, "ABSTTL") {
                options.absolute = true;
            } else if is(word, "IDLETIME")
                && options.freq.is_none()
                && let Some(seconds) = next
            {
                let seconds = u64::try_from(int(seconds)?);
                let refusal = Error::fixed("ERR Invalid IDLETIME value, must be >= 0");
                options.idle_s = Some(seconds.map_err(|_| refusal)?);
                at += 1;
            } else if is(word, "FREQ")
                && options.idle_s.is_none()
                && let Some(count) = next
            {
                let count = u8::try_from(int(count)?);
                let refusal = Error::fixed("ERR Invalid FREQ value, must be >= 0 and <= 255");
                options.freq = Some(count.map_err(|_| refusal)?);
                at += 1;
            } else {
                return Err(Error::Syntax);
            }
            at += 1;
        }
        Ok(options)
    }
}

const BUSY_KEY: Error = Error::fixed("BUSYKEY Target key name already exists.");

fn restore(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    cx.turn.set_moves_keys(cx.store().imports(&args[1]));
    let restored = restore_key(cx, args, reply);
    cx.turn.set_moves_keys(false);
    restored
}

fn restore_key(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[1];
    let options = Options::parse(args)?;
    let found = cx.find_to_write(key);
    let own = found.and_then(|id| stream_to_join(cx, key, id));
    if found.is_some() && !options.replace && own.is_none() {
        return Err(BUSY_KEY);
    }
    let ttl = int(&args[2])?;
    if ttl < 0 {
        return Err(Error::fixed("ERR Invalid TTL value, must be >= 0"));
    }
    let joins = own.is_some();
    let value = match (own, read(cx, &args[3])?) {
        (Some(own), Value::Stream(arriving)) => {
            let joined = own.join(*arriving.into_box(), &cx.limits());
            joined.ok_or(BUSY_KEY)?.into_value()
        }
        (Some(_), _) if !options.replace => return Err(BUSY_KEY),
        (_, value) => value,
    };
    let replaced = cx.remove(key).is_some();
    let unit = TimeUnit {
        seconds: false,
        absolute: options.absolute,
    };
    let deadline = match ttl {
        0 => None,
        ttl => Some(unit.deadline(ttl, cx.now(), "restore")?.max(0) as u64),
    };
    let is_timer = matches!(value, Value::Timer(_));
    let deadline = match is_timer {
        true => deadline.map(|at| cx.turn.timer_deadline(at)),
        false => deadline,
    };
    if !is_timer && deadline.is_some_and(|at| cx.now().is_due(at)) {
        // A due key is not added; only the removal of the old key has an event.
        if replaced {
            cx.commit(key, Classes::GENERIC, "del", 1);
            cx.effect(&[b"DEL", key]);
        }
        reply.ok();
        return Ok(());
    }
    let logged = cx.is_logged().then(|| match joins {
        true => Logged::joined(&value),
        false => Logged::new(&value, &args[3]),
    });
    let id = cx.add(key, value);
    let (uses, now) = (cx.limits().uses, cx.now());
    cx.set_deadline(key, id, deadline);
    cx.names_ttl();
    cx.commit(key, Classes::GENERIC, "restore", 1);
    // The usage is set after the commit, because a commit counts as a use under an LRM policy.
    cx.db_of(key)
        .touch(id, uses.restored(options.idle_s, options.freq, now));
    if let Some(logged) = logged {
        let mut buffer = itoa::Buffer::new();
        let at = buffer.format(deadline.unwrap_or(0)).as_bytes();
        let absolute = (deadline.is_some() && !options.absolute).then_some(&b"ABSTTL"[..]);
        let payload = logged.payload.as_deref().unwrap_or(&args[3]);
        let words = [b"RESTORE", key, at, payload].into_iter();
        let replace = (joins && !options.replace).then_some(&b"REPLACE"[..]);
        let options = args.skip(4).iter().chain(absolute).chain(replace);
        let words: Vec<&[u8]> = words.chain(options).collect();
        cx.effect(&words);
        for (field, deadline) in &logged.deadlines {
            let at = buffer.format(*deadline).as_bytes();
            cx.effect(&[b"HPEXPIREAT", key, at, b"FIELDS", b"1", field]);
        }
    }
    reply.ok();
    Ok(())
}

/// Returns a copy of an existing stream if RESTORE must join it with the stream that arrives: it is
/// a stream of NOTIFY in a slot that arrives, so it has the events of this node.
fn stream_to_join(cx: &mut Cx, key: &[u8], id: Id) -> Option<Stream> {
    let store = cx.store();
    if cx.turn.replays() || !store.imports(key) || !store.is_rule_stream(key) {
        return None;
    }
    Stream::of(&cx.db_of(key).get(id).value).cloned()
}

/// A value in a form that every replica and append-only file can read: redis-server before 7.4 and
/// Valkey refuse payloads of later formats, and would lose the key.
struct Logged {
    /// The payload; `None` for the client's payload.
    payload: Option<Vec<u8>>,
    /// The fields with deadlines, if the payload is without them.
    deadlines: Vec<(Vec<u8>, u64)>,
}

impl Logged {
    /// Returns the form of a stream that was joined with the payload's stream.
    fn joined(value: &Value) -> Self {
        Self {
            payload: Some(value.dump()),
            deadlines: Vec::new(),
        }
    }

    fn new(value: &Value, payload: &[u8]) -> Self {
        let mut deadlines = Vec::new();
        let payload = match value {
            _ if dump::version(payload) <= VERSION => None,
            Value::Hash(hash) if hash.with_deadline() > 0 => {
                for entry in hash.iter().filter(|entry| entry.deadline != NEVER) {
                    deadlines.push((entry.name.with_text(<[u8]>::to_vec), entry.deadline));
                }
                Some(hash.dump_without_deadlines())
            }
            value => Some(value.dump()),
        };
        Self { payload, deadlines }
    }
}

/// Returns the timer of a payload, or `None` for other values. The server compares the timer's user
/// with the client's.
pub fn timer_of(payload: &[u8]) -> Option<Plan> {
    let body = dump::body(payload).filter(|body| body.first() == Some(&Kind::Module.byte()))?;
    let mut restore = Restore::from_body(body, Dialect::Redis);
    match restore.value().ok()?.read().ok()? {
        Contents::OwnText(Own::Timer, text) => Some(text.with_text(Timer::from_bytes)?.plan()),
        _ => None,
    }
}

/// Reads the value of a payload.
fn read(cx: &Cx, payload: &[u8]) -> Result<Value, Error> {
    let body = open(cx.store(), payload).ok_or(Error::fixed(
        "ERR DUMP payload version or checksum are wrong",
    ))?;
    decode(body, dump::dialect(payload), &cx.limits()).map_err(|_| BAD_FORMAT)
}

/// Returns a description of the flaw of a payload that RESTORE refuses with [`BAD_FORMAT`]. The
/// server logs it.
pub fn flaw(store: &Store, payload: &[u8]) -> Option<String> {
    let dialect = dump::dialect(payload);
    decode(open(store, payload)?, dialect, &store.limits()).err()
}

fn open<'p>(store: &Store, payload: &'p [u8]) -> Option<&'p [u8]> {
    if store.checks_payloads() {
        dump::open(payload).ok()
    } else {
        dump::body(payload)
    }
}

fn decode(body: &[u8], dialect: Dialect, limits: &Limits) -> Result<Value, String> {
    let (settings, body) = match split_settings(body) {
        Some((settings, body)) => (Some(settings), body),
        None => (None, body),
    };
    let mut restore = Restore::from_body(body, dialect);
    let stored = restore.value().map_err(|error| error.to_string())?;
    let kind = stored.kind();
    let damaged = |flaw: &dyn std::fmt::Display| decode::damage(kind, flaw);
    let contents = stored.read().map_err(|failure| damaged(&failure))?;
    let value = decode::read_value(contents, limits).map_err(|error| damaged(&error))?;
    let mut value = value.ok_or_else(|| damaged(&"no elements"))?;
    if settings.is_some_and(|settings| !value.apply_settings(settings)) {
        return Err(damaged(&"settings that are not understood"));
    }
    Ok(value)
}

/// Splits the payload of a stream with settings (such as XRETAIN's limits) into the settings and
/// the stream's payload. Returns `None` without settings.
fn split_settings(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = body.strip_prefix(&[WITH_SETTINGS])?.split_first_chunk()?;
    rest.split_at_checked(u32::from_le_bytes(*len) as usize)
}

#[cfg(test)]
mod tests {
    use crate::command::testing::Fixture;

    #[test]
    fn idle_time_is_limited_to_the_age_of_the_clock() {
        let mut fixture = Fixture::new();
        fixture.run("SET k v");
        let payload = crate::value::Value::string(b"v").dump();
        let longest = i64::MAX.to_string();
        let words: [&[u8]; 6] = [
            b"RESTORE",
            b"r",
            b"0",
            &payload,
            b"IDLETIME",
            longest.as_bytes(),
        ];
        assert_eq!(fixture.run_words(&words), "+OK");
        // The test's clock is at 1000 s, so no key can be idle for longer.
        assert_eq!(fixture.run("OBJECT IDLETIME r"), ":1000");
    }

    /// As in Redis, the log has the client's arguments, with the deadline as an absolute time.
    #[test]
    fn the_log_has_the_words_of_the_client() {
        let mut fixture = Fixture::new();
        fixture.set_logged(true);
        let payload = crate::value::Value::string(b"v").dump();
        let mut logged = |ttl: &[u8], options: &[&[u8]]| {
            let words = [&[b"RESTORE", &b"k"[..], ttl, &payload][..], options].concat();
            assert_eq!(fixture.run_words(&words), "+OK");
            let log = String::from_utf8_lossy(&fixture.take_log()).replace("\r\n", " ");
            let (command, options) = log.split_once(&*String::from_utf8_lossy(&payload)).unwrap();
            let words = command.split(' ').filter(|word| !word.starts_with('$'));
            format!(
                "{}{}",
                words.collect::<Vec<_>>().join(" "),
                options.trim_end()
            )
        };
        let options = logged(b"100", &[b"IDLETIME", b"3"]);
        assert_eq!(options, "*7 RESTORE k 1000100  $8 IDLETIME $1 3 $6 ABSTTL");
        assert_eq!(logged(b"0", &[b"REPLACE"]), "*5 RESTORE k 0  $7 REPLACE");
        let options = logged(b"2000000", &[b"ABSTTL", b"REPLACE"]);
        assert_eq!(options, "*6 RESTORE k 2000000  $6 ABSTTL $7 REPLACE");
    }

    /// redis-server 7.0 and Valkey refuse payloads of Redis 8, and Redis refuses Valkey's.
    #[test]
    fn the_log_has_a_payload_for_every_server() {
        let sealed = |body: &[u8], version: u16| {
            let mut payload = [body, &version.to_le_bytes()].concat();
            let sum = punctual_rdb::crc64(&payload);
            payload.extend_from_slice(&sum.to_le_bytes());
            payload
        };
        // A hash with two fields. Redis counts deadlines from a base, and 0 means no deadline.
        // Valkey writes the deadline after the value, and -1 means no deadline.
        let base = b"\x80\x84\x1e\0\0\0\0\0";
        let none = [0xFF; 8];
        let of_redis = [b"\x18", &base[..], b"\x02\x01\x01a\x011\0\x01b\x012"].concat();
        let of_valkey = [b"\x16\x02\x01a\x011", &base[..], b"\x01b\x012", &none].concat();
        let mut fixture = Fixture::new();
        fixture.set_logged(true);
        for payload in [sealed(&of_redis, 12), sealed(&of_valkey, 80)] {
            fixture.run("DEL r");
            fixture.take_log();
            assert_eq!(
                fixture.run_words(&[b"RESTORE", &b"r"[..], b"0", &payload]),
                "+OK"
            );
            assert_eq!(
                fixture.run("HPEXPIRETIME r FIELDS 2 a b"),
                "*2 :2000000 :-1"
            );
            let log = fixture.take_log();
            let text = String::from_utf8_lossy(&log).replace("\r\n", " ");
            let (restore, rest) = text.split_once("*6").expect("HPEXPIREAT");
            assert!(restore.contains("RESTORE"), "{text}");
            assert_eq!(
                rest,
                " $10 HPEXPIREAT $1 r $7 2000000 $6 FIELDS $1 1 $1 a *1 $4 EXEC "
            );
            assert!(!log.windows(payload.len()).any(|part| part == payload));
        }
    }

    #[test]
    fn a_node_of_an_empty_element_is_refused() {
        let mut fixture = Fixture::new();
        let mut restore = |body: &[u8]| {
            let mut payload = body.to_vec();
            punctual_rdb::dump::seal(&mut payload);
            let words: [&[u8]; 5] = [b"RESTORE", b"l", b"0", &payload, b"REPLACE"];
            fixture.run_words(&words)
        };
        // Quicklists of plain nodes: a node of length 1, a node of length 0, and both.
        assert_eq!(restore(&[18, 1, 1, 1, b'a']), "+OK");
        assert_eq!(restore(&[18, 1, 1, 0]), "-ERR Bad data format");
        assert_eq!(restore(&[18, 2, 1, 1, b'a', 1, 0]), "-ERR Bad data format");
        // A list in the old format (type 1) may have empty elements. A reload keeps them.
        assert_eq!(restore(&[1, 2, 0, 1, b'a']), "+OK");
        assert_eq!(fixture.run("LRANGE l 0 -1"), "*2 $0  $1 a");
        fixture.reload();
        assert_eq!(fixture.run("LRANGE l 0 -1"), "*2 $0  $1 a");
    }
}
