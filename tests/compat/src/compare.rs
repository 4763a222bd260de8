//! Decides when two replies count as equal.
//!
//! Replies must be equal in type and bytes, unless [`Rule::of`] has another rule for the command. A
//! rule applies only to the type of reply that it names: errors, nulls and unexpected types are
//! compared exactly.
//!
//! The [`Judge`] compares replies that depend on several commands: replies of EXEC, samples of a
//! collection.

mod collections;
mod judge;
mod server;

pub use judge::Judge;

use std::time::Duration;

use punctual_resp::Value;

use crate::command::Command;
use crate::draw::ABSOLUTE_BAND_MS;

/// The minimum tolerance: even without a stall of the machine, a command arrives at the two servers
/// some milliseconds apart.
const LEAST_TOLERANCE: Duration = Duration::from_millis(30);

/// Maximum difference between deadlines on the two servers.
///
/// An *exchange* sends commands to both servers and reads both replies. A relative TTL counts from
/// a moment within its exchange, and from another moment on the other server. So the duration of
/// the longest exchange bounds the difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tolerance {
    longest_exchange: Duration,
}

impl Default for Tolerance {
    fn default() -> Self {
        Self {
            longest_exchange: Duration::ZERO,
        }
    }
}

impl Tolerance {
    /// Records the duration of an exchange.
    pub fn record(&mut self, elapsed: Duration) {
        self.longest_exchange = self.longest_exchange.max(elapsed);
    }

    /// Returns true if the tolerance is the minimum: the machine has not stalled since the
    /// beginning, or since the last alignment of deadlines.
    pub fn is_least(&self) -> bool {
        2 * self.longest_exchange <= LEAST_TOLERANCE
    }

    /// Returns the tolerance in milliseconds. The duration counts twice: for the exchange that set
    /// the deadline, and for the one that reads it.
    pub fn ms(&self) -> i64 {
        let bound = LEAST_TOLERANCE.max(2 * self.longest_exchange);
        i64::try_from(bound.as_millis()).unwrap_or(i64::MAX)
    }
}

/// The rule by which the replies to a command are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The replies must be equal.
    Exact,
    /// Milliseconds that may differ by the tolerance, because each server reads its own clock.
    Milliseconds,
    /// Seconds that are rounded from such milliseconds.
    Seconds,
    /// A deadline in milliseconds that may differ by the tolerance. A deadline that was set as an
    /// absolute time must be equal.
    DeadlineMs,
    /// A deadline in seconds, with the same rule.
    DeadlineSeconds,
    /// The same elements in any order, because a hash table with a random seed determines the
    /// order.
    AnyOrder,
    /// The same number of elements; the elements depend on the order of a hash table.
    Extent,
    /// The same number of random elements; the [`Judge`] checks that they exist.
    Sample,
    /// Equal except for the digits of scores: 7.0 writes seventeen digits, 7.2 the shortest text,
    /// or all digits of a whole number.
    Scores,
    /// The name of an encoding, which may be one of the compact encodings of lists and sets that
    /// 7.2 has and 7.0 lacks.
    Encoding,
    /// Pairs of name and value in any order, as a map or as a flat array.
    PairsInAnyOrder,
    /// One page of SCAN, whose size depends on the hash table. `duel/scans.rs` compares the results
    /// of whole iterations.
    ScanPage,
    /// The same type of value: for memory, IDs, times, random keys, dumps, and texts about the
    /// server.
    Kind,
    /// The fields of HELLO; version and modules have any value, id any number.
    Greeting,
    /// The fields of CLIENT INFO that follow from the commands sent.
    ClientInfo,
    /// The parts of COMMAND INFO that are equal in both versions.
    CommandInfo,
    /// INFO keyspace without avg_ttl, which is an estimate.
    Keyspace,
    /// Lists of lists in any order: libraries and their functions are in hash tables.
    NestedInAnyOrder,
    /// Equal; two NaNs are equal as well.
    Scripted,
    /// Equal, except that idle times and times of deliveries may differ by some seconds. The number
    /// of nodes of Redis's radix tree and the fields of consumers that 7.2 added are not compared.
    Deliveries,
}

impl Rule {
    /// Returns the rule for a command. Names are case-insensitive.
    pub fn of(command: &Command) -> Rule {
        let sub = || command.word(1);
        match command.name().as_str() {
            "PTTL" | "HPTTL" => Rule::Milliseconds,
            "TTL" | "HTTL" => Rule::Seconds,
            "PEXPIRETIME" | "HPEXPIRETIME" => Rule::DeadlineMs,
            "EXPIRETIME" | "HEXPIRETIME" => Rule::DeadlineSeconds,
            "KEYS" | "SMEMBERS" | "SINTER" | "SUNION" | "SDIFF" | "HKEYS" | "HVALS" => {
                Rule::AnyOrder
            }
            "HGETALL" => Rule::PairsInAnyOrder,
            "SRANDMEMBER" | "SPOP" | "HRANDFIELD" | "ZRANDMEMBER" => Rule::Sample,
            "ZSCORE" | "ZMSCORE" | "ZINCRBY" | "ZADD" | "ZRANGE" | "ZREVRANGE"
            | "ZRANGEBYSCORE" | "ZREVRANGEBYSCORE" | "ZPOPMIN" | "ZPOPMAX" | "BZPOPMIN"
            | "BZPOPMAX" | "ZMPOP" | "BZMPOP" | "ZUNION" | "ZINTER" | "ZDIFF" => Rule::Scores,
            "XINFO" | "XPENDING" => Rule::Deliveries,
            "GEOSEARCH"
            | "GEORADIUS"
            | "GEORADIUS_RO"
            | "GEORADIUSBYMEMBER"
            | "GEORADIUSBYMEMBER_RO" => collections::of_search(command),
            "SORT" | "SORT_RO" => collections::of_sort(command),
            "SCAN" | "HSCAN" | "SSCAN" | "ZSCAN" => Rule::ScanPage,
            "RANDOMKEY" | "TIME" | "DUMP" => Rule::Kind,
            "HELLO" => Rule::Greeting,
            "INFO" if sub() == "KEYSPACE" && command.args().len() == 2 => Rule::Keyspace,
            "INFO" => Rule::Kind,
            "OBJECT" => match sub().as_str() {
                // Redis shares objects for integers below 10,000: their idle time counts
                // from the last use by any key, and the number of references depends on the server.
                "IDLETIME" | "REFCOUNT" => Rule::Kind,
                "ENCODING" => Rule::Encoding,
                _ => Rule::Exact,
            },
            "PUBSUB" => match sub().as_str() {
                "CHANNELS" | "SHARDCHANNELS" => Rule::AnyOrder,
                _ => Rule::Exact,
            },
            "CONFIG" if sub() == "GET" => Rule::PairsInAnyOrder,
            "CLIENT" => match sub().as_str() {
                "ID" | "LIST" => Rule::Kind,
                "INFO" => Rule::ClientInfo,
                _ => Rule::Exact,
            },
            "COMMAND" => match sub().as_str() {
                "INFO" => Rule::CommandInfo,
                "GETKEYS" | "GETKEYSANDFLAGS" => Rule::Exact,
                _ => Rule::Kind,
            },
            "FUNCTION" => match sub().as_str() {
                "LIST" => Rule::NestedInAnyOrder,
                "DUMP" => Rule::Kind,
                _ => Rule::Exact,
            },
            "EVAL" | "EVAL_RO" | "EVALSHA" | "EVALSHA_RO" | "FCALL" | "FCALL_RO" => Rule::Scripted,
            "MEMORY" | "SLOWLOG" | "LATENCY" => Rule::Kind,
            _ => Rule::Exact,
        }
    }

    /// Returns true if the replies count as equal.
    pub fn same(self, a: &Value, b: &Value, tolerance: Tolerance) -> bool {
        if a == b {
            return true;
        }
        if a.is_error() || b.is_error() || a.is_null() || b.is_null() {
            return false;
        }
        self.loosely(a, b, tolerance).unwrap_or(false)
    }

    /// Returns true if the rule compares a time. A reply about several hash fields is an array of
    /// times.
    fn is_of_times(self) -> bool {
        matches!(
            self,
            Rule::Milliseconds | Rule::Seconds | Rule::DeadlineMs | Rule::DeadlineSeconds
        )
    }

    /// Compares by the rule. Returns `None` if a reply is not of the rule's type.
    fn loosely(self, a: &Value, b: &Value, tolerance: Tolerance) -> Option<bool> {
        let seconds = tolerance.ms() / 1000 + 1;
        if let (true, Value::Array(a), Value::Array(b)) = (self.is_of_times(), a, b) {
            let same = |(a, b)| self.same(a, b, tolerance);
            return Some(a.len() == b.len() && a.iter().zip(b).all(same));
        }
        Some(match self {
            Rule::Exact => false,
            Rule::Milliseconds => near(a, b, tolerance.ms())?,
            Rule::Seconds => near(a, b, seconds)?,
            Rule::DeadlineMs => {
                !is_absolute(a, 1)? && !is_absolute(b, 1)? && near(a, b, tolerance.ms())?
            }
            Rule::DeadlineSeconds => {
                !is_absolute(a, 1000)? && !is_absolute(b, 1000)? && near(a, b, seconds)?
            }
            Rule::AnyOrder => {
                same_kind(a, b) && collections::same_elements(a.as_slice()?, b.as_slice()?)
            }
            Rule::Extent => same_kind(a, b) && a.as_slice()?.len() == b.as_slice()?.len(),
            Rule::Sample => same_kind(a, b) && collections::same_extent(a, b),
            Rule::Scores => collections::same_scores(a, b),
            Rule::Encoding => collections::same_encoding(a.as_bytes()?, b.as_bytes()?),
            Rule::PairsInAnyOrder => same_kind(a, b) && pairs(a)? == pairs(b)?,
            Rule::NestedInAnyOrder => nested(a) == nested(b),
            Rule::Scripted => text(a) == text(b),
            Rule::Deliveries => collections::same_deliveries(a, b),
            Rule::ScanPage => is_scan_page(a) && is_scan_page(b),
            Rule::Kind => same_kind(a, b),
            Rule::Greeting => same_kind(a, b) && server::greeting(a)? == server::greeting(b)?,
            Rule::ClientInfo => {
                same_kind(a, b)
                    && server::client_info(a.as_bytes()?) == server::client_info(b.as_bytes()?)
            }
            Rule::CommandInfo => {
                same_kind(a, b) && server::command_info(a)? == server::command_info(b)?
            }
            Rule::Keyspace => {
                same_kind(a, b)
                    && server::keyspace(a.as_bytes()?) == server::keyspace(b.as_bytes()?)
            }
        })
    }
}

fn same_kind(a: &Value, b: &Value) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}

/// Compares two times. Negative numbers are special replies (no key, no deadline), not times.
fn near(a: &Value, b: &Value, by: i64) -> Option<bool> {
    let (a, b) = (a.as_int()?, b.as_int()?);
    Some(a >= 0 && b >= 0 && a.abs_diff(b) <= by.unsigned_abs())
}

fn is_absolute(value: &Value, unit_ms: i64) -> Option<bool> {
    Some(ABSOLUTE_BAND_MS.contains(&value.as_int()?.saturating_mul(unit_ms)))
}

/// Returns a text that represents the value, for sorting: values themselves have no order.
fn text(value: &Value) -> String {
    format!("{value:?}")
}

fn sorted(values: &[Value]) -> Vec<String> {
    let mut texts: Vec<String> = values.iter().map(text).collect();
    texts.sort_unstable();
    texts
}

/// Returns the pairs of a map or of a flat array of names and values.
fn pair_list(value: &Value) -> Option<Vec<(&Value, &Value)>> {
    match value {
        Value::Map(pairs) => Some(pairs.iter().map(|(name, value)| (name, value)).collect()),
        Value::Array(items) if items.len().is_multiple_of(2) => {
            Some(items.chunks(2).map(|pair| (&pair[0], &pair[1])).collect())
        }
        _ => None,
    }
}

fn pairs(value: &Value) -> Option<Vec<(String, String)>> {
    let mut pairs: Vec<_> = pair_list(value)?
        .into_iter()
        .map(|(name, value)| match (name.as_bytes(), value.as_bytes()) {
            (Some(b"notify-keyspace-events"), Some(classes)) => {
                (text(name), server::event_classes(classes))
            }
            _ => (text(name), text(value)),
        })
        .collect();
    pairs.sort_unstable();
    Some(pairs)
}

/// Returns a text that does not depend on the order of elements at any depth.
fn nested(value: &Value) -> String {
    let mut parts: Vec<String> = match value {
        Value::Array(items) | Value::Set(items) => items.iter().map(nested).collect(),
        Value::Map(pairs) => pairs
            .iter()
            .map(|(name, value)| format!("{}: {}", nested(name), nested(value)))
            .collect(),
        other => return text(other),
    };
    parts.sort_unstable();
    format!("{:?} {parts:?}", std::mem::discriminant(value))
}

fn is_scan_page(value: &Value) -> bool {
    let Value::Array(parts) = value else {
        return false;
    };
    let [Value::Bulk(cursor), Value::Array(keys)] = &parts[..] else {
        return false;
    };
    !cursor.is_empty()
        && cursor.iter().all(u8::is_ascii_digit)
        && keys.iter().all(|key| matches!(key, Value::Bulk(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(words: &[&str], a: Value, b: Value) -> bool {
        Rule::of(&Command::of(words)).same(&a, &b, Tolerance::default())
    }

    fn bulks(items: &[&str]) -> Value {
        Value::Array(items.iter().map(Value::bulk).collect())
    }

    #[test]
    fn most_replies_must_be_equal() {
        assert!(same(&["GET", "k"], Value::bulk("v"), Value::bulk("v")));
        assert!(!same(&["GET", "k"], Value::bulk("v"), Value::bulk("w")));
        assert!(!same(
            &["GET", "k"],
            Value::bulk("OK"),
            Value::Simple(b"OK".to_vec())
        ));
        assert!(!same(&["GET", "k"], Value::NullBulk, Value::Null));
        assert!(!same(
            &["MGET", "a", "b"],
            bulks(&["1", "2"]),
            bulks(&["2", "1"])
        ));
    }

    #[test]
    fn times_may_differ_slightly_and_other_replies_may_not() {
        assert!(same(&["pttl", "k"], Value::Int(5000), Value::Int(5030)));
        assert!(!same(&["PTTL", "k"], Value::Int(5000), Value::Int(5031)));
        assert!(!same(&["PTTL", "k"], Value::Int(-1), Value::Int(-2)));
        assert!(!same(&["PTTL", "k"], Value::Int(-1), Value::Int(0)));
        assert!(same(&["TTL", "k"], Value::Int(99), Value::Int(100)));
        assert!(!same(&["TTL", "k"], Value::Int(98), Value::Int(100)));
    }

    #[test]
    fn the_tolerance_grows_with_a_stall() {
        let mut tolerance = Tolerance::default();
        tolerance.record(Duration::from_millis(400));
        let rule = Rule::Milliseconds;
        assert!(rule.same(&Value::Int(5000), &Value::Int(5800), tolerance));
        assert!(!rule.same(&Value::Int(5000), &Value::Int(5801), tolerance));
    }

    #[test]
    fn absolute_deadlines_are_exact() {
        let at = ABSOLUTE_BAND_MS.start;
        assert!(!same(
            &["PEXPIRETIME", "k"],
            Value::Int(at),
            Value::Int(at + 1)
        ));
        assert!(!same(
            &["EXPIRETIME", "k"],
            Value::Int(at / 1000),
            Value::Int(at / 1000 + 1)
        ));
        assert!(same(
            &["PEXPIRETIME", "k"],
            Value::Int(1_800_000_000_000),
            Value::Int(1_800_000_000_001)
        ));
        assert!(!same(
            &["PEXPIRETIME", "k"],
            Value::Int(1_800_000_000_000),
            Value::Int(at)
        ));
    }

    #[test]
    fn the_order_of_hash_tables_is_ignored_but_not_the_elements() {
        assert!(same(&["KEYS", "*"], bulks(&["a", "b"]), bulks(&["b", "a"])));
        assert!(!same(
            &["KEYS", "*"],
            bulks(&["a", "a"]),
            bulks(&["a", "b"])
        ));
        assert!(!same(
            &["KEYS", "*"],
            bulks(&["a"]),
            Value::Set(vec![Value::bulk("a")])
        ));
        assert!(same(
            &["CONFIG", "GET", "*"],
            bulks(&["a", "1", "b", "2"]),
            bulks(&["b", "2", "a", "1"])
        ));
        assert!(!same(
            &["CONFIG", "GET", "*"],
            bulks(&["a", "1", "b", "2"]),
            bulks(&["a", "2", "b", "1"])
        ));
    }

    #[test]
    fn a_loose_rule_still_compares_errors_exactly() {
        let error = |text: &str| Value::Error(text.as_bytes().to_vec());
        for words in [
            &["TTL", "k"][..],
            &["KEYS", "*"],
            &["SCAN", "0"],
            &["TIME"],
            &["INFO"],
            &["CLIENT", "ID"],
            &["HELLO", "9"],
        ] {
            assert!(same(words, error("ERR one"), error("ERR one")), "{words:?}");
            assert!(
                !same(words, error("ERR one"), error("ERR two")),
                "{words:?}"
            );
            assert!(!same(words, error("ERR one"), Value::Int(1)), "{words:?}");
        }
    }

    #[test]
    fn scores_are_compared_as_numbers_and_texts_are_not() {
        assert!(same(
            &["ZSCORE", "z", "m"],
            Value::bulk("0.1"),
            Value::bulk("0.10000000000000001")
        ));
        assert!(same(
            &["ZSCORE", "z", "m"],
            Value::bulk("100000000000000000"),
            Value::bulk("1e+17")
        ));
        assert!(!same(
            &["ZSCORE", "z", "m"],
            Value::bulk("0.1"),
            Value::bulk("0.2")
        ));
        assert!(!same(
            &["GET", "k"],
            Value::bulk("0.1"),
            Value::bulk("0.10000000000000001")
        ));
        assert!(same(
            &["ZRANGE", "z", "0", "-1", "WITHSCORES"],
            bulks(&["m", "0.1"]),
            bulks(&["m", "0.10000000000000001"])
        ));
        assert!(!same(
            &["ZRANGE", "z", "0", "-1"],
            bulks(&["a", "b"]),
            bulks(&["b", "a"])
        ));
    }

    #[test]
    fn encodings_are_those_of_either_version() {
        let encoding = |a, b| same(&["OBJECT", "ENCODING", "k"], Value::bulk(a), Value::bulk(b));
        assert!(encoding("listpack", "quicklist") && encoding("listpack", "hashtable"));
        assert!(!encoding("quicklist", "listpack") && !encoding("intset", "hashtable"));
    }

    #[test]
    fn pages_and_sections_are_compared_by_shape() {
        let page =
            |cursor: &str, keys: &[&str]| Value::Array(vec![Value::bulk(cursor), bulks(keys)]);
        assert!(same(&["SCAN", "0"], page("0", &["a"]), page("12", &[])));
        assert!(!same(&["SCAN", "0"], page("0", &["a"]), bulks(&["0", "a"])));
        let info = |text: &str| Value::bulk(text);
        let line = "# Keyspace\r\ndb0:keys=2,expires=1,avg_ttl=";
        assert!(same(
            &["info", "keyspace"],
            info(&format!("{line}7\r\n")),
            info(&format!("{line}9\r\n"))
        ));
        assert!(!same(
            &["INFO", "keyspace"],
            info("db0:keys=1,expires=0,avg_ttl=0"),
            info("db0:keys=2,expires=0,avg_ttl=0")
        ));
    }
}
