//! Values of directives, and their text for CONFIG GET and files.

use std::fmt::Write as _;

use punctual_store::events::Classes;

/// Type of a directive's value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// `yes` or `no`.
    YesNo,
    /// A decimal integer within bounds, both included.
    Integer { min: i64, max: i64 },
    /// Number of times a second: any number from 0 is accepted, and clamped to the range from 1 to
    /// 500.
    Hertz,
    /// Bytes with an optional unit: `k` is 1000, `kb` is 1024, and so on up to `gb`.
    Memory { min: u64, max: u64 },
    /// Bytes, or 0 % to 100 % of the memory limit.
    MemoryOrPercent,
    /// File permission bits in octal, at most 777.
    Octal,
    /// One of these words, ignoring case.
    Choice(&'static [&'static str]),
    /// `default`, or several of [`SHUTDOWN_OPTIONS`].
    Shutdown,
    /// Any text that passes the rule.
    Text(TextRule),
    /// Snapshot points: pairs of seconds and changes.
    Save,
    /// At most 16 addresses.
    Addresses,
    /// Groups of class, hard limit, soft limit and soft seconds. Classes that are not named keep
    /// their limits.
    OutputLimits,
    /// Letters of keyspace event classes.
    EventClasses,
    /// Percentages from 0 to 100.
    Percentiles,
    /// Three scores for the kernel's out-of-memory killer.
    OomScores,
    /// `host port`, or `no one`.
    ReplicaOf,
    /// An existing directory, stored as an absolute path.
    Directory,
}

/// Rule for a [`Kind::Text`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextRule {
    /// Any text; an empty text means "not set" and has no line in a rewritten file.
    Optional,
    /// Any text, including an empty one.
    Any,
    /// A file name without a path. Holds the error text for a path.
    FileName(&'static str),
    /// A file name without a path, not empty.
    NonEmptyFileName {
        /// Error text for a path.
        path: &'static str,
        /// Error text for an empty name.
        empty: &'static str,
    },
    /// A host name, or empty for "not set".
    HostName,
}

/// Words of `shutdown-on-sigint` and `shutdown-on-sigterm`; bit n of [`Value::Shutdown`] is word n.
pub(crate) const SHUTDOWN_OPTIONS: [&str; 4] = ["save", "nosave", "now", "force"];

/// Limits of a client's unsent output. A client beyond a limit is disconnected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutputLimit {
    /// Disconnects the client at once at this many bytes; 0 means no limit.
    pub hard_bytes: u64,
    /// Disconnects the client when its output has had at least this many bytes for more than
    /// `soft_seconds` without interruption; 0 means no limit.
    pub soft_bytes: u64,
    /// Time for `soft_bytes`, in seconds.
    pub soft_seconds: u64,
}

/// The names of [`OutputLimit`] classes, in the order of
/// [`Settings::output_limits`](crate::config::Settings::output_limits).
pub(crate) const OUTPUT_CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];

/// A snapshot point of `save`: a snapshot starts after `seconds` if at least `changes` changes were
/// made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavePoint {
    /// Time since the last snapshot, in seconds.
    pub seconds: u64,
    /// Minimum number of changes since the last snapshot.
    pub changes: u64,
}

/// A value as parsed; its variant follows from the directive's [`Kind`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    YesNo(bool),
    Integer(i64),
    Memory(u64),
    Percent(u64),
    Octal(u32),
    Choice(&'static str),
    Shutdown(u8),
    Text(Vec<u8>),
    Words(Vec<Vec<u8>>),
    Save(Vec<SavePoint>),
    OutputLimits([OutputLimit; 3]),
    EventClasses(Classes),
    Percentiles(Vec<f64>),
    Integers([i64; 3]),
}

impl Kind {
    /// Returns true if several words make one value. CONFIG SET splits the argument of such a
    /// directive at spaces.
    pub(crate) fn takes_words(self) -> bool {
        matches!(
            self,
            Self::Save
                | Self::Addresses
                | Self::OutputLimits
                | Self::Percentiles
                | Self::OomScores
                | Self::ReplicaOf
                | Self::Shutdown
        )
    }
}

impl Value {
    /// Returns the text that CONFIG GET shows.
    pub(crate) fn display(&self) -> Vec<u8> {
        let text = match self {
            Self::YesNo(yes) => yes_no(*yes).to_owned(),
            Self::Integer(number) => number.to_string(),
            Self::Memory(bytes) => bytes.to_string(),
            Self::Percent(percent) => format!("{percent}%"),
            Self::Octal(bits) => format!("{bits:o}"),
            Self::Choice(word) => (*word).to_owned(),
            Self::Shutdown(0) => "default".to_owned(),
            Self::Shutdown(bits) => joined(
                SHUTDOWN_OPTIONS
                    .iter()
                    .enumerate()
                    .filter(|(bit, _)| bits & (1 << bit) != 0)
                    .map(|(_, word)| (*word).to_owned()),
            ),
            Self::Text(text) => return text.clone(),
            Self::Words(words) => return words.join(&b' '),
            Self::Save(points) => joined(
                points
                    .iter()
                    .map(|point| format!("{} {}", point.seconds, point.changes)),
            ),
            Self::OutputLimits(limits) => {
                joined(OUTPUT_CLASSES.iter().zip(limits).map(|(class, limit)| {
                    format!(
                        "{class} {} {} {}",
                        limit.hard_bytes, limit.soft_bytes, limit.soft_seconds
                    )
                }))
            }
            Self::EventClasses(classes) => classes.letters(),
            Self::Percentiles(values) => joined(values.iter().map(|value| trimmed(*value))),
            Self::Integers(numbers) => joined(numbers.iter().map(i64::to_string)),
        };
        text.into_bytes()
    }
}

/// Returns `yes` or `no`.
pub(crate) fn yes_no(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

/// Returns the bytes with the largest unit that divides them, as CONFIG REWRITE writes them.
pub(crate) fn spell_memory(bytes: u64) -> String {
    for (unit, shift) in [("gb", 30), ("mb", 20), ("kb", 10)] {
        if bytes != 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

fn joined(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the number with up to six decimals, without trailing zeros: `99.9`, `50`.
fn trimmed(value: f64) -> String {
    let mut text = String::new();
    let _ = write!(text, "{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
