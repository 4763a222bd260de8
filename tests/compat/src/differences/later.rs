//! The known differences between single peers and the semantics that we follow (7.2).
//!
//! A row either accepts pairs of replies, or omits commands from the streams beside these peers.
//! Rows of the last kind are for differences with effects: on keys, on events, or on the order of
//! replies.

use punctual_harness::Peer::{self, Redis7, Redis8, Valkey9};
use punctual_resp::Value;

use crate::command::Command;

/// A difference from later servers that the comparison accepts.
#[derive(Clone, Copy, Debug)]
pub struct Later {
    /// The peers that differ.
    pub peers: &'static [Peer],
    /// The command, or the part of it that differs.
    pub what: &'static str,
    /// The behaviour of the peers, and ours.
    pub how: &'static str,
    avoided: Avoided,
}

/// The way in which the streams avoid a difference.
#[derive(Clone, Copy, Debug)]
enum Avoided {
    /// These replies, ours first, count as equal.
    Accepted(fn(&Command, &Value, &Value) -> bool),
    /// These commands are not sent.
    Omitted(fn(&Command) -> bool),
}

use Avoided::{Accepted, Omitted};

const BOTH: &[Peer] = &[Redis8, Valkey9];
/// Only Redis 8.2.
const REDIS: &[Peer] = &[Redis8];
/// Only Valkey 9.1.
const VALKEY: &[Peer] = &[Valkey9];

const SCANS: &[&str] = &["SCAN", "HSCAN", "SSCAN", "ZSCAN"];

/// All known differences.
pub const LATER: &[Later] = &[
    Later {
        peers: &[Redis7],
        what: "XREAD and XREADGROUP with a wrong number of IDs",
        how: "the error says XREAD and '$' in 7.0; since 7.2 it has the name of the command, and '>' for XREADGROUP",
        avoided: Accepted(|command, a, b| {
            is(command, &["XREAD", "XREADGROUP"]) && a.is_error() && b.is_error()
        }),
    },
    Later {
        peers: BOTH,
        what: "cursors of SCAN, HSCAN, SSCAN and ZSCAN",
        how: "refuse the empty cursor and negative cursors, and accept spaces in front; ours the other way round, as 7.2",
        avoided: Omitted(|command| {
            let cursor = if is(command, &["SCAN"]) { 1 } else { 2 };
            let is_number =
                |text: &Vec<u8>| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
            is(command, SCANS) && !command.args().get(cursor).is_some_and(is_number)
        }),
    },
    Later {
        peers: BOTH,
        what: "errors of SCAN",
        how: "other texts for NOVALUES, and for unknown types, which are an error in Valkey",
        avoided: Accepted(|command, a, b| is(command, SCANS) && (a.is_error() || b.is_error())),
    },
    Later {
        peers: BOTH,
        what: "hexadecimal numbers and numbers after a space as scores and limits",
        how: "not accepted since Redis 8 and Valkey 8.1; accepted by 7.2 and ours",
        avoided: Omitted(|command| {
            let is_score = |text: &[u8]| contains(text, &["0x", "0X", "( "]);
            let has_space = |text: &[u8]| text.starts_with(b" ");
            any_argument(command, is_score)
                || command.name().starts_with('Z') && any_argument(command, has_space)
        }),
    },
    Later {
        peers: BOTH,
        what: "SORT by numbers",
        how: "the empty text is no number since Redis 8 and Valkey 8.1, and numbers beyond all doubles are infinite; \
              in 7.2 and ours the empty text is 0, and such numbers are errors",
        avoided: Omitted(|command| {
            let by_text = |word: &Vec<u8>| word.eq_ignore_ascii_case(b"alpha");
            is(command, &["SORT", "SORT_RO"]) && !command.args().iter().any(by_text)
        }),
    },
    Later {
        peers: BOTH,
        what: "COMMAND GETKEYSANDFLAGS of SINTERSTORE",
        how: "the destination has the flag OW, in 7.2 and ours RW",
        avoided: Accepted(|command, a, b| {
            command.word(1) == "GETKEYSANDFLAGS" && !a.is_error() && !b.is_error()
        }),
    },
    Later {
        peers: BOTH,
        what: "MODULE LIST, HELLO",
        how: "redis-server has the module vectorset, Valkey the module lua",
        avoided: Accepted(|command, _, b| is(command, &["MODULE"]) && !b.is_error()),
    },
    Later {
        peers: BOTH,
        what: "LSET with an index beyond 32 bits",
        how: "a small list uses the lowest 32 bits of the index; ours refuses the index",
        avoided: Omitted(|command| {
            is(command, &["LSET"]) && command.args().get(2).is_some_and(|index| index.len() > 9)
        }),
    },
    Later {
        peers: BOTH,
        what: "HELP texts",
        how: "the last line is 'Print this help.'; in 7.2 and ours 'Prints this help.'",
        avoided: Accepted(|command, _, _| command.word(1) == "HELP"),
    },
    Later {
        peers: BOTH,
        what: "CONFIG SET loglevel with an unknown level",
        how: "the error also lists the level nothing",
        avoided: Accepted(|command, a, b| is(command, &["CONFIG"]) && a.is_error() && b.is_error()),
    },
    Later {
        peers: BOTH,
        what: "OBJECT ENCODING of a text of 45 to about 60 bytes",
        how: "the limit between embstr and raw depends on the length of the key since Redis 8 and Valkey 8",
        avoided: Accepted(|command, a, b| {
            let is_text = |value: &Value| matches!(value.as_bytes(), Some(b"embstr" | b"raw"));
            is(command, &["OBJECT"]) && is_text(a) && is_text(b)
        }),
    },
    Later {
        peers: VALKEY,
        what: "OBJECT ENCODING of a hash with deadlines",
        how: "always a hashtable in Valkey; a small one is a listpackex in Redis and ours",
        avoided: Accepted(|command, a, b| {
            is(command, &["OBJECT"])
                && a.as_bytes() == Some(b"listpackex")
                && b.as_bytes() == Some(b"hashtable")
        }),
    },
    Later {
        peers: BOTH,
        what: "OBJECT ENCODING of a list from a payload of Redis 3.0 or earlier",
        how: "a listpack in both, a quicklist in ours",
        avoided: Accepted(|command, a, b| {
            is(command, &["OBJECT"])
                && a.as_bytes() == Some(b"quicklist")
                && b.as_bytes() == Some(b"listpack")
        }),
    },
    Later {
        peers: REDIS,
        what: "digits of coordinates",
        how: "the shortest text that identifies the number; 7.2 and ours print 17 digits",
        avoided: Accepted(|command, a, b| command.name().starts_with("GEO") && near(a, b)),
    },
    Later {
        peers: REDIS,
        what: "XREAD with a wrong number of IDs",
        how: "the error also lists the ID +, which is new in 7.4",
        avoided: Accepted(|command, a, b| is(command, &["XREAD"]) && a.is_error() && b.is_error()),
    },
    Later {
        peers: BOTH,
        what: "XINFO, entries-read and lag of a group",
        how: "both count the entries that a trim has removed; 7.2 and ours do not",
        avoided: Accepted(|command, a, b| {
            is(command, &["XINFO"]) && !a.is_error() && !b.is_error()
        }),
    },
    Later {
        peers: REDIS,
        what: "AUTH that fails within a pipeline",
        how: "8.2.3 sends no reply if earlier replies wait to be sent",
        avoided: Omitted(|command| is(command, &["AUTH"]) || command.word(2) == "AUTH"),
    },
    Later {
        peers: VALKEY,
        what: "error texts",
        how: "Valkey 9.1 has other texts for transactions, scripts, fields, geo sets and others",
        avoided: Accepted(|_, a, b| a.is_error() && b.is_error()),
    },
    Later {
        peers: VALKEY,
        what: "a deadline in the past",
        how: "Valkey publishes expired; Redis and ours publish del",
        avoided: Omitted(sets_past_deadline),
    },
    Later {
        peers: VALKEY,
        what: "deadlines of fields after the year 4199",
        how: "refused by Redis and ours; Valkey accepts every number of 64 bits",
        avoided: Omitted(|command| {
            command.name().starts_with('H')
                && command.args().get(2).is_some_and(|time| time.len() > 13)
        }),
    },
    Later {
        peers: VALKEY,
        what: "seconds of HEXPIRETIME and HTTL",
        how: "rounded down; Redis and ours round up",
        avoided: Accepted(|command, a, b| {
            is(command, &["HEXPIRETIME", "HTTL"]) && !a.is_error() && !b.is_error()
        }),
    },
    Later {
        peers: VALKEY,
        what: "wrong arguments of commands on fields",
        how: "Valkey checks them before it looks up the key, and publishes no keymiss",
        avoided: Omitted(has_wrong_fields),
    },
    Later {
        peers: VALKEY,
        what: "BITCOUNT with a start and no end",
        how: "accepted since Valkey 9; Redis and ours refuse it",
        avoided: Accepted(|command, a, _| is(command, &["BITCOUNT"]) && a.is_error()),
    },
    Later {
        peers: VALKEY,
        what: "GETEX with a wrong option for a missing key",
        how: "refused since Valkey 8; Redis and ours reply nil",
        avoided: Omitted(|command| is(command, &["GETEX"])),
    },
    Later {
        peers: VALKEY,
        what: "SCAN with an unknown type",
        how: "an error in Valkey 9; Redis and ours find no keys",
        avoided: Omitted(|command| {
            is(command, &["SCAN"]) && command.args().len() > 2 && {
                let words: Vec<String> = (2..command.args().len())
                    .map(|at| command.word(at))
                    .collect();
                let types = ["STRING", "LIST", "SET", "ZSET", "HASH", "STREAM"];
                words
                    .windows(2)
                    .any(|pair| pair[0] == "TYPE" && !types.contains(&&*pair[1]))
            }
        }),
    },
    Later {
        peers: VALKEY,
        what: "LREM with the count -9223372036854775808",
        how: "out of range in Valkey; Redis and ours accept it",
        avoided: Omitted(|command| {
            is(command, &["LREM"]) && command.word(2) == "-9223372036854775808"
        }),
    },
    Later {
        peers: VALKEY,
        what: "READONLY and READWRITE without a cluster",
        how: "accepted since Valkey 8; Redis and ours refuse them",
        avoided: Accepted(|command, a, _| is(command, &["READONLY", "READWRITE"]) && a.is_error()),
    },
    Later {
        peers: VALKEY,
        what: "HELLO, COMMAND INFO",
        how: "the server's name; SELECT has the flag allow_busy",
        avoided: Accepted(|command, _, b| is(command, &["HELLO", "COMMAND"]) && !b.is_error()),
    },
    Later {
        peers: VALKEY,
        what: "CONFIG GET of lazyfree directives",
        how: "yes by default since Valkey 8; no in Redis and ours",
        avoided: Omitted(|command| is(command, &["CONFIG"])),
    },
];

/// Returns true if these different replies to a command are a known difference.
pub fn accepts(peer: Option<Peer>, command: &Command, a: &Value, b: &Value) -> bool {
    rows(peer).any(|row| match row.avoided {
        Accepted(accepted) => accepted(command, a, b),
        Omitted(_) => false,
    })
}

/// Returns true if streams beside this peer omit the command.
pub fn omits(peer: Option<Peer>, command: &Command) -> bool {
    rows(peer).any(|row| match row.avoided {
        Accepted(_) => false,
        Omitted(omitted) => omitted(command),
    })
}

fn rows(peer: Option<Peer>) -> impl Iterator<Item = &'static Later> {
    let differs = move |row: &&Later| peer.is_some_and(|peer| row.peers.contains(&peer));
    LATER.iter().filter(differs)
}

fn is(command: &Command, names: &[&str]) -> bool {
    names.contains(&command.name().as_str())
}

fn any_argument(command: &Command, wanted: fn(&[u8]) -> bool) -> bool {
    command.args().iter().any(|argument| wanted(argument))
}

fn contains(text: &[u8], parts: &[&str]) -> bool {
    let has = |part: &&str| {
        text.windows(part.len())
            .any(|window| window == part.as_bytes())
    };
    parts.iter().any(has)
}

/// Returns true for a command on fields whose option FIELDS is missing or has a wrong number.
fn has_wrong_fields(command: &Command) -> bool {
    #[rustfmt::skip]
    const OF_FIELDS: &[&str] = &[
        "HEXPIRE", "HPEXPIRE", "HEXPIREAT", "HPEXPIREAT", "HTTL", "HPTTL", "HEXPIRETIME",
        "HPEXPIRETIME", "HPERSIST",
    ];
    if !is(command, OF_FIELDS) {
        return false;
    }
    let words = command.args().len();
    let at = (1..words).find(|at| command.word(*at) == "FIELDS");
    let condition = at.map_or(0, |at| at.saturating_sub(3));
    let count = at.and_then(|at| command.word(at + 1).parse::<usize>().ok());
    count.is_none()
        || count != at.map(|at| words - at - 2)
        || condition > 1
        || command.word(3) == "KEEPTTL"
}

/// Returns true if the command may set a deadline that has passed.
fn sets_past_deadline(command: &Command) -> bool {
    let number = |at: usize| -> Option<i64> { command.word(at).trim().parse().ok() };
    // Streams set absolute deadlines either before 2021 or after 2100.
    let has_passed = |at: usize, absolute: bool, unit_ms: i64| {
        let limit = if absolute {
            2_000_000_000_000 / unit_ms
        } else {
            0
        };
        number(at).is_some_and(|time| time <= limit)
    };
    let option = |names: &[&str]| {
        (1..command.args().len()).find(|at| names.contains(&command.word(*at).as_str()))
    };
    match command.name().as_str() {
        "EXPIRE" | "PEXPIRE" | "HEXPIRE" | "HPEXPIRE" => has_passed(2, false, 1),
        "EXPIREAT" | "HEXPIREAT" => has_passed(2, true, 1000),
        "PEXPIREAT" | "HPEXPIREAT" => has_passed(2, true, 1),
        "SET" | "GETEX" => {
            option(&["PXAT"]).is_some_and(|at| has_passed(at + 1, true, 1))
                || option(&["EXAT"]).is_some_and(|at| has_passed(at + 1, true, 1000))
        }
        "RESTORE" => option(&["ABSTTL"]).is_some() && has_passed(2, true, 1),
        _ => false,
    }
}

/// Returns true if the replies differ only in digits of numbers.
fn near(a: &Value, b: &Value) -> bool {
    let number = |value: &Value| match value {
        Value::Double(number) => Some(*number),
        Value::Bulk(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    };
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| near(a, b))
        }
        _ if a == b => true,
        _ => match (number(a), number(b)) {
            (Some(a), Some(b)) => (a - b).abs() <= 1e-12 * a.abs().max(1.0),
            _ => false,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_apply_only_beside_their_peers() {
        let command = Command::of(&["LSET", "l", "9223372036854775806", "a"]);
        assert!(omits(Some(Redis8), &command) && omits(Some(Valkey9), &command));
        assert!(!omits(Some(Redis7), &command) && !omits(None, &command));
        let refused = Value::Error(b"ERR invalid cursor".to_vec());
        let scan = Command::of(&["SCAN", "0", "NOVALUES"]);
        assert!(accepts(Some(Redis8), &scan, &Value::Int(0), &refused));
        assert!(!accepts(
            Some(Redis8),
            &scan,
            &Value::Int(0),
            &Value::Int(1)
        ));
        assert!(!accepts(None, &scan, &Value::Int(0), &refused));
    }

    #[test]
    fn deadlines_in_the_past_are_found() {
        for (words, past) in [
            (&["EXPIRE", "k", "-1"][..], true),
            (&["EXPIRE", "k", "10"], false),
            (&["pexpireat", "k", "1600000000"], true),
            (&["SET", "k", "v", "exat", "4100000000"], false),
            (&["GETEX", "k", "PXAT", "1600000000"], true),
        ] {
            assert_eq!(sets_past_deadline(&Command::of(words)), past, "{words:?}");
        }
    }
}
