//! OBJECT and MEMORY USAGE: encoding, usage and memory of keys.

use punctual_resp::{Args, Reply};

use crate::arguments::{int, is};
use crate::command::replies::help;
use crate::error::Error;
use crate::eviction::EvictionOrder;
use crate::keyspace::records::Id;
use crate::spec::{Flags, Group};
use crate::turn::{Command, Cx, Handler};
use crate::value::string::Str;

/// The family's rows.
pub static COMMANDS: &[Command] = &[
    Command::container("memory", Group::Server, &[MEMORY_USAGE])
        .since("4.0.0")
        .summary("A container for memory diagnostics commands."),
    Command::container("object", Group::Generic, OBJECT)
        .since("2.2.3")
        .summary("A container for object introspection commands."),
];

const MEMORY_USAGE: Command =
    Command::new("usage", -3, Flags::READONLY, Group::Server, memory_usage)
        .keys(2, 2, 1)
        .access(&["RO"])
        .since("4.0.0")
        .complexity("O(N) where N is the number of samples.")
        .summary("Estimates the memory usage of a key.")
        .syntax("key [SAMPLES count]");

/// DEBUG OBJECT: address, encoding and usage of a value. The container DEBUG is a server command.
pub const DEBUG_OBJECT: Command = Command::new(
    "object",
    3,
    Flags::ADMIN.or(Flags::NOSCRIPT),
    Group::Server,
    debug_object,
)
.keys(2, 2, 1);

static OBJECT: &[Command] = &[
    row("encoding", encoding)
        .doc("2.2.3", "O(1)", "Returns the internal encoding of a value.")
        .syntax("key"),
    row("freq", freq)
        .since("4.0.0")
        .summary("Returns the logarithmic access frequency counter of a key.")
        .syntax("key"),
    Command::help(Group::Generic, "6.2.0", |_, _, reply| {
        help(reply, "OBJECT", HELP)
    }),
    row("idletime", idle_time)
        .since("2.2.3")
        .summary("Returns the time since the last access to a key in seconds.")
        .syntax("key"),
    row("refcount", ref_count)
        .doc("2.2.3", "O(1)", "Returns the reference count of a value.")
        .syntax("key"),
];

const fn row(name: &'static str, handler: Handler) -> Command {
    Command::new(name, 3, Flags::READONLY, Group::Generic, handler)
        .keys(2, 2, 1)
        .access(&["RO"])
        .tips(&["nondeterministic_output"])
}

/// Redis shares the objects of integers below this number.
const SHARED_INTEGERS: i64 = 10_000;
/// Reference count that Redis reports for a shared object.
const SHARED_REFERENCES: i64 = i32::MAX as i64;

/// Looks a key up for OBJECT: counts a hit or a miss, but records no access and sends no `keymiss`.
/// Replies null if the key does not exist.
fn look_up(cx: &mut Cx, key: &[u8], reply: &mut Reply) -> Option<Id> {
    let found = cx.find(key);
    match found {
        Some(_) => cx.turn.stats.hits += 1,
        None => {
            cx.turn.stats.misses += 1;
            reply.null();
        }
    }
    found
}

fn encoding(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    if let Some(id) = look_up(cx, &args[2], reply) {
        let value = &cx.db_of(&args[2]).get(id).value;
        reply.bulk(value.content().encoding().as_bytes());
    }
    Ok(())
}

fn freq(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let Some(id) = look_up(cx, &args[2], reply) else {
        return Ok(());
    };
    let counts = cx.limits().uses;
    if !counts.counts() {
        return Err(Error::fixed(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that \
             when switching between policies at runtime LRU and LFU data will take some time to adjust.",
        ));
    }
    let uses = cx.db_of(&args[2]).get(id).key.uses();
    reply.int(i64::from(counts.count(uses, cx.now())));
    Ok(())
}

fn idle_time(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    if let Some(id) = look_up(cx, &args[2], reply) {
        let policy = cx.limits().uses;
        if policy.counts() {
            return Err(Error::fixed(
                "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching \
                 between policies at runtime LRU and LFU data will take some time to adjust.",
            ));
        }
        let uses = cx.db_of(&args[2]).get(id).key.uses();
        reply.int(i64::from(policy.idle_s(uses, cx.now())));
    }
    Ok(())
}

fn ref_count(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    if let Some(id) = look_up(cx, &args[2], reply) {
        let shared = match cx.db_of(&args[2]).get(id).value.as_str() {
            Some(Str::Int(int)) => (0..SHARED_INTEGERS).contains(&int.get()) && shares_integers(cx),
            _ => false,
        };
        reply.int(if shared { SHARED_REFERENCES } else { 1 });
    }
    Ok(())
}

/// Returns whether Redis would share the objects of integers. It does not under an eviction policy
/// that needs each key's usage.
fn shares_integers(cx: &Cx) -> bool {
    let order = cx.limits().eviction.map(|policy| policy.order);
    !cx.store().is_limited()
        || matches!(
            order,
            None | Some(EvictionOrder::Random | EvictionOrder::Ttl)
        )
}

const HELP: &[&str] = &[
    "ENCODING <key>",
    "    Return the kind of internal representation used in order to store the value",
    "    associated with a <key>.",
    "FREQ <key>",
    "    Return the access frequency index of the <key>. The returned integer is",
    "    proportional to the logarithm of the recent access frequency of the key.",
    "IDLETIME <key>",
    "    Return the idle time of the <key>, that is the approximated number of",
    "    seconds elapsed since the last access to the key.",
    "REFCOUNT <key>",
    "    Return the number of references of the value associated with the specified",
    "    <key>.",
];

fn memory_usage(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[2];
    let mut at = 3;
    while let Some(option) = args.get(at) {
        // The number of samples is checked but not used, because the memory is known exactly.
        match args.get(at + 1) {
            Some(samples) if is(option, "SAMPLES") => {
                if int(samples)? < 0 {
                    return Err(Error::Syntax);
                }
            }
            _ => return Err(Error::Syntax),
        }
        at += 2;
    }
    match cx.find(key) {
        None => reply.null(),
        Some(id) => reply.int(cx.db_of(key).key_memory(id) as i64),
    }
    Ok(())
}

fn debug_object(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[2];
    let (now, policy) = (cx.now(), cx.limits().uses);
    // As in Redis, due keys are shown.
    let db = cx.db_of(key);
    let id = db.find(key).ok_or(Error::NoSuchKey)?;
    let record = db.get(id);
    let uses = record.key.uses();
    let length = match record.value.as_str() {
        Some(string) => serialized_length(string),
        None => 0,
    };
    reply.simple(format!(
        "Value at:{:p} refcount:1 encoding:{} serializedlength:{length} lru:{uses} lru_seconds_idle:{}",
        &raw const record.value,
        record.value.content().encoding(),
        policy.idle_s(uses, now),
    ));
    Ok(())
}

/// Returns the length of a string in Redis's snapshot format, without compression.
fn serialized_length(string: &Str) -> usize {
    match string {
        Str::Int(int) if i8::try_from(int.get()).is_ok() => 2,
        Str::Int(int) if i16::try_from(int.get()).is_ok() => 3,
        Str::Int(int) if i32::try_from(int.get()).is_ok() => 5,
        other => match other.bytes().len() {
            length @ ..64 => length + 1,
            length @ ..16_384 => length + 2,
            length => length + 5,
        },
    }
}

#[cfg(test)]
mod tests {
    use crate::command::testing::Fixture;

    #[test]
    fn object_encoding_and_refcount_of_strings() {
        let mut fixture = Fixture::new();
        for (value, encoding, references) in [
            ("0", "int", 2_147_483_647),
            ("9999", "int", 2_147_483_647),
            ("10000", "int", 1),
            ("-1", "int", 1),
            ("text", "embstr", 1),
            (&"x".repeat(44), "embstr", 1),
            (&"x".repeat(45), "raw", 1),
        ] {
            fixture.run(&format!("SET k {value}"));
            let shown = format!("${} {encoding}", encoding.len());
            assert_eq!(fixture.run("OBJECT ENCODING k"), shown, "{value}");
            assert_eq!(
                fixture.run("OBJECT REFCOUNT k"),
                format!(":{references}"),
                "{value}"
            );
        }
    }

    #[test]
    fn integers_are_not_shared_under_policies_that_need_their_usage() {
        for (name, references) in [
            ("allkeys-lru", 1),
            ("volatile-lfu", 1),
            ("allkeys-lrm", 1),
            ("volatile-ttl", 2_147_483_647),
            ("noeviction", 2_147_483_647),
        ] {
            let mut fixture = Fixture::new();
            let limits = crate::limits::Limits {
                eviction: crate::eviction::Eviction::of_name(name, 5),
                ..Default::default()
            };
            fixture.store.set_limits(limits);
            fixture.run("SET k 7");
            // Without `maxmemory` the policy has no effect.
            assert_eq!(fixture.run("OBJECT REFCOUNT k"), ":2147483647");
            fixture.store.set_counts_room(true);
            assert_eq!(
                fixture.run("OBJECT REFCOUNT k"),
                format!(":{references}"),
                "{name}"
            );
        }
    }

    #[test]
    fn missing_keys_are_null_without_events() {
        let mut fixture = Fixture::resp3();
        for ask in ["ENCODING", "FREQ", "IDLETIME", "REFCOUNT"] {
            assert_eq!(fixture.run(&format!("OBJECT {ask} nope")), "_");
        }
        assert_eq!(fixture.run("MEMORY USAGE nope"), "_");
        assert_eq!(fixture.events(), "");
        assert_eq!(fixture.stats.misses, 4);
        fixture.run("SET k v");
        let refused = fixture.run("OBJECT FREQ k");
        assert!(refused.starts_with("-ERR An LFU maxmemory policy is not selected, access"));
        assert!(refused.ends_with("data will take some time to adjust."));
    }

    #[test]
    fn debug_object_shows_due_keys() {
        let mut fixture = Fixture::new();
        fixture.store.set_active_expire(false);
        fixture.run("SET k v PX 1");
        fixture.advance(2);
        let shown = fixture.run_row(&super::DEBUG_OBJECT, "DEBUG OBJECT k");
        assert!(shown.starts_with("+Value at:"), "{shown}");
        assert_eq!(fixture.run("EXISTS k"), ":0");
    }

    #[test]
    fn idle_time_wraps_after_24_bits() {
        let mut fixture = Fixture::new();
        fixture.run("SET k v");
        fixture.advance(((1 << 24) - 1) * 1000);
        assert_eq!(fixture.run("OBJECT IDLETIME k"), ":16777215");
        fixture.run("GET k");
        fixture.advance(9_999);
        assert_eq!(fixture.run("OBJECT IDLETIME k"), ":9");
    }

    #[test]
    fn memory_usage_grows_with_key_value_and_deadline() {
        let mut fixture = Fixture::new();
        for n in 0..3000 {
            fixture.run(&format!("SET {n} v"));
        }
        let mut usage = |set: &str| -> i64 {
            fixture.run(set);
            let bytes = fixture.run("MEMORY USAGE k")[1..].parse().unwrap();
            fixture.run("DEL k");
            bytes
        };
        // A record has 56 bytes, a key's share of the hash table 5 to 12, a wheel entry 12.
        let small = usage("SET k v");
        assert!((56 + 5..56 + 12).contains(&small), "{small}");
        assert_eq!(usage("SET k v EX 10"), small + 12);
        assert_eq!(usage(&format!("SET k {}", "x".repeat(1000))), small + 1000);
        assert!((56 + 100..56 + 112).contains(&{
            let long = "k".repeat(100);
            fixture.run(&format!("SET {long} v"));
            fixture.run(&format!("MEMORY USAGE {long} SAMPLES 0"))[1..]
                .parse::<i64>()
                .unwrap()
        }));
    }

    #[test]
    fn serialized_lengths_match_the_snapshot_format() {
        let length = |text: &str| super::serialized_length(&super::Str::new(text.as_bytes()));
        assert_eq!(["1", "-129", "40000", "x"].map(length), [2, 3, 5, 2]);
        assert_eq!(
            length("99999999999"),
            12,
            "too long for an integer of four bytes"
        );
        assert_eq!(
            [63, 64, 16_383, 16_384].map(|n| length(&"x".repeat(n))),
            [64, 66, 16_385, 16_389]
        );
    }

    #[test]
    fn memory_usage_checks_its_options_first() {
        let mut fixture = Fixture::new();
        assert_eq!(
            fixture.run("MEMORY USAGE nope SAMPLES"),
            "-ERR syntax error"
        );
        assert_eq!(
            fixture.run("MEMORY USAGE nope SAMPLES -1"),
            "-ERR syntax error"
        );
        assert_eq!(fixture.run("MEMORY USAGE nope foo 1"), "-ERR syntax error");
        assert_eq!(
            fixture.run("MEMORY USAGE nope SAMPLES x"),
            "-ERR value is not an integer or out of range"
        );
        assert_eq!(fixture.run("MEMORY USAGE nope SAMPLES 5 SAMPLES 0"), "$-1");
    }
}
