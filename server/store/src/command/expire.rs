//! Deadlines: EXPIRE, TTL, PERSIST and their variants.
//!
//! Relative and remaining times count from the current time rounded up to a millisecond. The test
//! whether a deadline has passed rounds the current time down (see [`crate::Now`]).

use punctual_resp::{Args, Reply};

use crate::arguments::{TimeUnit, int, is};
use crate::error::Error;
use crate::events::Classes;
use crate::planted::Bug;
use crate::spec::{Flags, Group};
use crate::time::NEVER;
use crate::turn::{Command, Cx, Handler};
use crate::value::Value;

/// The family's rows.
pub static COMMANDS: &[Command] = &[
    setter("expire", expire)
        .since("1.0.0")
        .summary("Sets the expiration time of a key in seconds.")
        .syntax("key seconds [condition: NX | XX | GT | LT]@7.0.0"),
    setter("expireat", expire_at)
        .since("1.2.0")
        .summary("Sets the expiration time of a key to a Unix timestamp.")
        .syntax("key unix-time-seconds [condition: NX | XX | GT | LT]@7.0.0"),
    getter("expiretime", expire_time)
        .since("7.0.0")
        .summary("Returns the expiration time of a key as a Unix timestamp.")
        .syntax("key"),
    row("persist", 2, Flags::WRITE.or(Flags::FAST), persist)
        .access(&["RW update"])
        .doc("2.2.0", "O(1)", "Removes the expiration time of a key.")
        .syntax("key"),
    setter("pexpire", pexpire)
        .since("2.6.0")
        .summary("Sets the expiration time of a key in milliseconds.")
        .syntax("key milliseconds [condition: NX | XX | GT | LT]@7.0.0"),
    setter("pexpireat", pexpire_at)
        .since("2.6.0")
        .summary("Sets the expiration time of a key to a Unix timestamp in milliseconds.")
        .syntax("key unix-time-milliseconds [condition: NX | XX | GT | LT]@7.0.0"),
    getter("pexpiretime", pexpire_time)
        .since("7.0.0")
        .summary("Returns the expiration time of a key as a Unix timestamp in milliseconds.")
        .syntax("key"),
    getter("pttl", pttl)
        .tips(NONDETERMINISTIC)
        .since("2.6.0")
        .summary("Returns the remaining time to live of a key in milliseconds.")
        .history(NO_KEY)
        .syntax("key"),
    getter("ttl", ttl)
        .tips(NONDETERMINISTIC)
        .since("1.0.0")
        .summary("Returns the remaining time to live of a key in seconds.")
        .history(NO_KEY)
        .syntax("key"),
];

const NONDETERMINISTIC: &[&str] = &["nondeterministic_output"];

const NO_KEY: &[(&str, &str)] = &[("2.8.0", "Added the -2 reply.")];

crate::family!(Handler, Group::Generic, Flags::NONE, keys(1, 1, 1));

const fn setter(name: &'static str, handler: Handler) -> Command {
    row(name, -3, Flags::WRITE.or(Flags::FAST), handler)
        .access(&["RW update"])
        .history(&[("7.0.0", "Added options: `NX`, `XX`, `GT` and `LT`.")])
}

const fn getter(name: &'static str, handler: Handler) -> Command {
    row(name, 2, Flags::READONLY.or(Flags::FAST), handler).access(&["RO access"])
}

const SECONDS: TimeUnit = TimeUnit {
    seconds: true,
    absolute: false,
};
const MILLISECONDS: TimeUnit = TimeUnit {
    seconds: false,
    absolute: false,
};
const UNIX_SECONDS: TimeUnit = TimeUnit {
    seconds: true,
    absolute: true,
};
const UNIX_MILLISECONDS: TimeUnit = TimeUnit {
    seconds: false,
    absolute: true,
};

/// Conditions for setting a deadline; all must hold.
#[derive(Clone, Copy, Default)]
struct Condition {
    /// NX: the key has no deadline.
    none: bool,
    /// XX: the key has a deadline.
    some: bool,
    /// GT: the new deadline is later; no deadline counts as the latest.
    later: bool,
    /// LT: the new deadline is earlier.
    earlier: bool,
}

impl Condition {
    fn parse(options: Args) -> Result<Self, Error> {
        let mut condition = Self::default();
        for option in options {
            match () {
                () if is(option, "NX") => condition.none = true,
                () if is(option, "XX") => condition.some = true,
                () if is(option, "GT") => condition.later = true,
                () if is(option, "LT") => condition.earlier = true,
                () => return Err(Error::repeating("ERR Unsupported option ", option, "")),
            }
        }
        let Self {
            none,
            some,
            later,
            earlier,
        } = condition;
        if none && (some || later || earlier) {
            return Err(Error::fixed(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if later && earlier {
            return Err(Error::fixed(
                "ERR GT and LT options at the same time are not compatible",
            ));
        }
        Ok(condition)
    }

    fn holds(self, current: Option<u64>, new: i64) -> bool {
        // A deadline beyond i64::MAX compares as the latest one.
        let current = current.map(|at| i64::try_from(at).unwrap_or(i64::MAX));
        !(self.none && current.is_some()
            || self.some && current.is_none()
            || self.later && current.is_none_or(|at| new <= at)
            || self.earlier && current.is_some_and(|at| new >= at))
    }
}

fn expire(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    set_deadline(cx, args, reply, SECONDS, "expire")
}

fn pexpire(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    set_deadline(cx, args, reply, MILLISECONDS, "pexpire")
}

fn expire_at(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    set_deadline(cx, args, reply, UNIX_SECONDS, "expireat")
}

fn pexpire_at(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    set_deadline(cx, args, reply, UNIX_MILLISECONDS, "pexpireat")
}

fn set_deadline(
    cx: &mut Cx,
    args: Args,
    reply: &mut Reply,
    unit: TimeUnit,
    command: &'static str,
) -> Result<(), Error> {
    let key = &args[1];
    let condition = Condition::parse(args.skip(3))?;
    let amount = int(&args[2])?;
    let deadline = unit.deadline(amount, cx.now(), command)?;
    let Some(id) = cx.find_to_write(key) else {
        reply.int(0);
        return Ok(());
    };
    let record = cx.db_of(key).get(id);
    let before = (record.deadline != NEVER).then_some(record.deadline);
    let is_timer = matches!(record.value, Value::Timer(_));
    if !condition.holds(before, deadline) {
        reply.int(0);
        return Ok(());
    }
    if is_timer {
        // A deadline in the past makes a timer fire now; it does not delete the timer.
        let at = u64::try_from(deadline).unwrap_or(0);
        let at = cx.turn.timer_deadline(at.max(cx.now().read_ms()));
        cx.set_deadline(key, id, Some(at));
        cx.commit(key, Classes::GENERIC, "expire", 1);
        cx.effect_at("PEXPIREAT", key, at);
        reply.int(1);
        return Ok(());
    }
    match u64::try_from(deadline) {
        // A relative time counts from the current time rounded up, so a deadline 0 ms from now may
        // not be due yet.
        Ok(at) if !cx.now().is_due(at) && (unit.absolute || amount > 0) => {
            cx.set_deadline(key, id, Some(at));
            cx.commit(key, Classes::GENERIC, "expire", 1);
            if !Bug::RelativeDeadlineLogged.is_active() {
                cx.effect_at("PEXPIREAT", key, at);
            }
        }
        _ => {
            cx.db_of(key).remove(id);
            cx.commit(key, Classes::GENERIC, "del", 1);
            cx.effect(&[b"DEL", key]);
        }
    }
    reply.int(1);
    Ok(())
}

fn persist(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[1];
    let found = cx.find_to_write(key);
    match found.filter(|&id| cx.db_of(key).deadline(id).is_some()) {
        Some(id) => {
            if cx.db_of(key).timer(id).is_some() {
                let number = cx.turn.shard_of(key);
                cx.turn.pause_timer(number, cx.db, key, id);
            } else {
                cx.set_deadline(key, id, None);
            }
            cx.commit(key, Classes::GENERIC, "persist", 1);
            reply.int(1);
        }
        None => reply.int(0),
    }
    Ok(())
}

fn ttl(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    reply_deadline(cx, args, reply, SECONDS)
}

fn pttl(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    reply_deadline(cx, args, reply, MILLISECONDS)
}

fn expire_time(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    reply_deadline(cx, args, reply, UNIX_SECONDS)
}

fn pexpire_time(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    reply_deadline(cx, args, reply, UNIX_MILLISECONDS)
}

/// Replies with a key's deadline or remaining time, -2 for a missing key, or -1 without a deadline.
/// Seconds are rounded to the nearest second.
fn reply_deadline(cx: &mut Cx, args: Args, reply: &mut Reply, unit: TimeUnit) -> Result<(), Error> {
    let key = &args[1];
    let Some(id) = cx.peek(key) else {
        reply.int(-2);
        return Ok(());
    };
    let Some(deadline) = cx.db_of(key).deadline(id) else {
        reply.int(-1);
        return Ok(());
    };
    let ms = if unit.absolute {
        deadline
    } else {
        deadline.saturating_sub(cx.now().base_ms())
    };
    let answer = if unit.seconds {
        ms.saturating_add(500) / 1000
    } else {
        ms
    };
    reply.int(i64::try_from(answer).unwrap_or(i64::MAX));
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::Now;
    use crate::command::testing::Fixture;

    #[test]
    fn deadlines_are_set_read_and_removed() {
        let mut fixture = Fixture::new();
        fixture.run("SET k v");
        fixture.events();
        assert_eq!(fixture.run("TTL k"), ":-1");
        assert_eq!(fixture.run("EXPIRE k 10"), ":1");
        assert_eq!(fixture.run("TTL k"), ":10");
        assert_eq!(fixture.run("PTTL k"), ":10000");
        assert_eq!(fixture.run("EXPIRETIME k"), ":1010");
        assert_eq!(fixture.run("PEXPIRETIME k"), ":1010000");
        assert_eq!(fixture.run("PERSIST k"), ":1");
        assert_eq!(fixture.run("PERSIST k"), ":0");
        assert_eq!(fixture.run("PERSIST nope"), ":0");
        assert_eq!(fixture.run("PEXPIRETIME k"), ":-1");
        assert_eq!(fixture.events(), "expire k, persist k");
        assert_eq!(fixture.run("PEXPIREAT k 1000001"), ":1");
        assert_eq!(fixture.run("EXPIREAT k 1001"), ":1");
        assert_eq!(fixture.run("PEXPIRE k 1"), ":1");
        assert_eq!(fixture.run("PTTL k"), ":1");
        fixture.advance(1);
        fixture.expire();
        assert_eq!(fixture.run("TTL k"), ":-2");
        assert_eq!(fixture.run("PEXPIRETIME k"), ":-2");
        assert_eq!(fixture.run("EXPIRE k 1"), ":0");
        assert_eq!(
            fixture.events(),
            "expire k, expire k, expire k, expired k, keymiss k, keymiss k"
        );
    }

    #[test]
    fn seconds_round_to_the_nearest() {
        let mut fixture = Fixture::new();
        fixture.run("SET k v");
        for (ms, s) in [(1, 0), (499, 0), (500, 1), (1499, 1), (1500, 2)] {
            fixture.run(&format!("PEXPIRE k {ms}"));
            assert_eq!(fixture.run("TTL k"), format!(":{s}"));
            assert_eq!(fixture.run("EXPIRETIME k"), format!(":{}", 1000 + s));
        }
    }

    #[test]
    fn a_key_does_not_expire_early_within_a_millisecond() {
        let mut fixture = Fixture::new();
        fixture.now = Now::from_micros(1_000_000_300);
        fixture.run("SET k v");
        assert_eq!(fixture.run("PEXPIRE k 2"), ":1");
        assert_eq!(fixture.run("PTTL k"), ":2");
        assert_eq!(fixture.run("PEXPIRETIME k"), ":1000003");
        fixture.now = Now::from_micros(1_000_002_999);
        assert_eq!(
            fixture.run("PTTL k"),
            ":0",
            "less than a millisecond remains"
        );
        fixture.now = Now::from_ms(1_000_003);
        assert_eq!(fixture.run("PTTL k"), ":-2");
    }

    #[test]
    fn a_deadline_in_the_past_deletes() {
        for line in [
            "EXPIRE k 0",
            "EXPIRE k -1",
            "PEXPIRE k 0",
            "PEXPIRE k -9223372036854775808",
            "EXPIREAT k 1000",
            "EXPIREAT k 0",
            "PEXPIREAT k 1000000",
            "PEXPIREAT k -5",
        ] {
            let mut fixture = Fixture::new();
            fixture.now = Now::from_micros(1_000_000_300);
            fixture.run("SET k v");
            fixture.events();
            assert_eq!(fixture.run(line), ":1", "{line}");
            assert_eq!(fixture.run("EXISTS k"), ":0", "{line}");
            assert_eq!(fixture.events(), "del k, keymiss k", "{line}");
            assert_eq!(fixture.stats.dirty, 2);
            assert_eq!(fixture.stats.expired, 0);
        }
    }

    #[test]
    fn conditions() {
        // Replies for a key without a deadline, and for a key with 100 s left.
        for (options, none, some) in [
            ("200 NX", ":1", ":0"),
            ("200 XX", ":0", ":1"),
            ("200 GT", ":0", ":1"),
            ("200 LT", ":1", ":0"),
            ("50 GT", ":0", ":0"),
            ("50 lt", ":1", ":1"),
            ("100 GT", ":0", ":0"),
            ("100 LT", ":1", ":0"),
            ("50 XX LT", ":0", ":1"),
            ("200 xx gt", ":0", ":1"),
            ("50 XX GT", ":0", ":0"),
            ("-1 GT", ":0", ":0"),
            ("-1 LT", ":1", ":1"),
            ("-1 NX", ":1", ":0"),
        ] {
            let mut fixture = Fixture::new();
            fixture.run("SET none v");
            fixture.run("SET some v EX 100");
            assert_eq!(
                fixture.run(&format!("EXPIRE none {options}")),
                none,
                "{options}"
            );
            assert_eq!(
                fixture.run(&format!("EXPIRE some {options}")),
                some,
                "{options}"
            );
            let s: i64 = options.split(' ').next().unwrap().parse().unwrap();
            let left = |set: &str, else_s| match (set, s) {
                (":1", -1) => ":-2".to_owned(),
                (":1", s) => format!(":{s}"),
                _ => format!(":{else_s}"),
            };
            assert_eq!(fixture.run("TTL none"), left(none, -1), "{options}");
            assert_eq!(fixture.run("TTL some"), left(some, 100), "{options}");
        }
    }

    #[test]
    fn errors_come_in_redis_order() {
        const TOGETHER: &str =
            "-ERR NX and XX, GT or LT options at the same time are not compatible";
        const INTEGER: &str = "-ERR value is not an integer or out of range";
        for (line, error) in [
            ("EXPIRE k x", INTEGER),
            ("EXPIRE k 1 what", "-ERR Unsupported option what"),
            ("EXPIRE k x what", "-ERR Unsupported option what"),
            ("EXPIRE k x NX XX", TOGETHER),
            ("EXPIRE k 1 NX GT LT", TOGETHER),
            ("EXPIRE k 1 LT NX", TOGETHER),
            (
                "EXPIRE k 1 GT LT",
                "-ERR GT and LT options at the same time are not compatible",
            ),
            (
                "EXPIRE k 9223372036854775807",
                "-ERR invalid expire time in 'expire' command",
            ),
            (
                "EXPIRE k 9223372036854775",
                "-ERR invalid expire time in 'expire' command",
            ),
            (
                "EXPIRE nope 9223372036854775",
                "-ERR invalid expire time in 'expire' command",
            ),
            (
                "PEXPIRE k 9223372036854775807",
                "-ERR invalid expire time in 'pexpire' command",
            ),
            (
                "EXPIREAT k 9223372036854775807",
                "-ERR invalid expire time in 'expireat' command",
            ),
            (
                "EXPIREAT k -9223372036854775807",
                "-ERR invalid expire time in 'expireat' command",
            ),
            ("PEXPIREAT k 9223372036854775808", INTEGER),
            ("PEXPIREAT k 9223372036854775807", ":1"),
            ("PEXPIRETIME k", ":9223372036854775807"),
            ("PTTL k", ":9223372036853775807"),
            ("EXPIRETIME k", ":9223372036854776"),
        ] {
            let mut fixture = Fixture::new();
            fixture.run("SET k v");
            if error.starts_with(':') {
                fixture.run("PEXPIREAT k 9223372036854775807");
            }
            assert_eq!(fixture.run(line), error, "{line}");
        }
    }

    /// Line ends in an unknown option would end the reply. Redis replaces them with spaces.
    #[test]
    fn an_unknown_option_cannot_break_the_reply() {
        let reply = Fixture::new().run_words(&["EXPIRE", "k", "1", "x\r\n+OK"]);
        assert_eq!(reply, "-ERR Unsupported option x  +OK");
    }

    #[test]
    fn ttl_exists_and_type_do_not_reset_the_idle_time() {
        let mut fixture = Fixture::new();
        fixture.run("SET k v EX 100");
        fixture.advance(5_000);
        fixture.run("TTL k");
        fixture.run("EXISTS k");
        fixture.run("TYPE k");
        assert_eq!(fixture.run("OBJECT IDLETIME k"), ":5");
        fixture.run("PERSIST k");
        assert_eq!(fixture.run("OBJECT IDLETIME k"), ":0");
    }
}
