//! Parses words into values of each [`Kind`].
//!
//! The error texts are Redis's. Clients see them after "CONFIG SET failed ...", and the server
//! prints them if it refuses a configuration at start.

use punctual_store::events::Classes;

use crate::config::value::{Kind, OutputLimit, SHUTDOWN_OPTIONS, SavePoint, TextRule, Value};

impl Kind {
    /// Parses a value. `current` is the directive's present value; some kinds, such as
    /// `OutputLimits`, change only a part of it.
    pub(crate) fn parse(self, words: &[&[u8]], current: Option<&Value>) -> Result<Value, String> {
        let one = || match words {
            [word] => Ok(*word),
            _ => Err("wrong number of arguments".to_owned()),
        };
        match self {
            Self::YesNo => match one()? {
                word if word.eq_ignore_ascii_case(b"yes") => Ok(Value::YesNo(true)),
                word if word.eq_ignore_ascii_case(b"no") => Ok(Value::YesNo(false)),
                _ => Err("argument must be 'yes' or 'no'".to_owned()),
            },
            Self::Integer { min, max } => {
                let number = integer(one()?)
                    .ok_or_else(|| "argument couldn't be parsed into an integer".to_owned())?;
                within(number, min, max).map(Value::Integer)
            }
            Self::Hertz => {
                let bounds = Self::Integer {
                    min: 0,
                    max: i64::from(i32::MAX),
                };
                match bounds.parse(words, current)? {
                    Value::Integer(number) => Ok(Value::Integer(number.clamp(1, 500))),
                    other => Ok(other),
                }
            }
            Self::Memory { min, max } => {
                let bytes =
                    memory(one()?).ok_or_else(|| "argument must be a memory value".to_owned())?;
                within(bytes, min, max).map(Value::Memory)
            }
            Self::MemoryOrPercent => memory_or_percent(one()?),
            Self::Octal => {
                let bits = octal(one()?)
                    .ok_or_else(|| "argument couldn't be parsed as an octal number".to_owned())?;
                match u32::try_from(bits) {
                    Ok(bits) if bits <= 0o777 => Ok(Value::Octal(bits)),
                    _ => Err("argument must be between 0 and 777 inclusive".to_owned()),
                }
            }
            Self::Choice(choices) => {
                let word = one()?;
                choices
                    .iter()
                    .find(|choice| word.eq_ignore_ascii_case(choice.as_bytes()))
                    .map(|choice| Value::Choice(choice))
                    .ok_or_else(|| one_of(choices))
            }
            Self::Shutdown => shutdown(words),
            Self::Text(rule) => text(one()?, rule),
            Self::Save => save(words),
            Self::Addresses => addresses(words),
            Self::OutputLimits => output_limits(words, current),
            Self::EventClasses => Classes::parse(one()?)
                .map(Value::EventClasses)
                .ok_or_else(|| "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".to_owned()),
            Self::Percentiles => percentiles(words),
            Self::OomScores => oom_scores(words),
            Self::ReplicaOf => replica_of(words),
            Self::Directory => directory(one()?),
        }
    }
}

fn one_of(choices: &[&str]) -> String {
    format!(
        "argument(s) must be one of the following: {}",
        choices.join(", ")
    )
}

fn within<T: PartialOrd + std::fmt::Display>(value: T, min: T, max: T) -> Result<T, String> {
    if value < min || value > max {
        return Err(format!(
            "argument must be between {min} and {max} inclusive"
        ));
    }
    Ok(value)
}

/// Parses a decimal number without `+`, spaces or leading zeros.
fn integer(word: &[u8]) -> Option<i64> {
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    let canonical = match digits {
        [b'0'] => digits.len() == word.len(),
        [b'1'..=b'9', ..] => true,
        _ => false,
    };
    if !canonical {
        return None;
    }
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Parses a number of bytes with a unit. As in Redis, a number beyond 64 bits becomes the maximum.
fn memory(word: &[u8]) -> Option<u64> {
    let split = word
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(word.len());
    let (digits, unit) = word.split_at(split);
    let factor = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1_000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    // As in Redis, an empty word means 0, and a unit without a number is an error.
    if digits.is_empty() && !unit.is_empty() {
        return None;
    }
    let number = digits.iter().fold(0u64, |sum, digit| {
        sum.saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    });
    Some(number.saturating_mul(factor))
}

fn memory_or_percent(word: &[u8]) -> Result<Value, String> {
    if let Some(percent) = word.strip_suffix(b"%").and_then(integer) {
        return match u64::try_from(percent) {
            Ok(0) => Ok(Value::Memory(0)),
            Ok(percent @ 1..=100) => Ok(Value::Percent(percent)),
            Ok(_) => Err("percentage argument must be less or equal to 100".to_owned()),
            Err(_) => Err("argument must be a memory or percent value".to_owned()),
        };
    }
    let bytes =
        memory(word).ok_or_else(|| "argument must be a memory or percent value".to_owned())?;
    within(bytes, 0, i64::MAX.cast_unsigned()).map(Value::Memory)
}

fn octal(word: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(word).ok()?, 8).ok()
}

fn shutdown(words: &[&[u8]]) -> Result<Value, String> {
    let refusal = || one_of(&["default", "save", "nosave", "now", "force"]);
    if words.is_empty() {
        return Err(refusal());
    }
    let mut bits = 0u8;
    for word in words {
        let option = SHUTDOWN_OPTIONS
            .iter()
            .position(|option| word.eq_ignore_ascii_case(option.as_bytes()));
        match option {
            Some(bit) => bits |= 1 << bit,
            None if word.eq_ignore_ascii_case(b"default") => {}
            None => return Err(refusal()),
        }
    }
    if bits & 0b11 == 0b11 {
        return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".to_owned());
    }
    Ok(Value::Shutdown(bits))
}

fn text(word: &[u8], rule: TextRule) -> Result<Value, String> {
    let is_path = word.iter().any(|byte| matches!(byte, b'/' | b'\\'));
    let refusal = match rule {
        TextRule::Optional | TextRule::Any => None,
        TextRule::FileName(refusal) => is_path.then_some(refusal),
        TextRule::NonEmptyFileName { empty, .. } if word.is_empty() => Some(empty),
        TextRule::NonEmptyFileName { path, .. } => is_path.then_some(path),
        TextRule::HostName if word.len() >= 256 => {
            Some("Hostnames must be less than 256 characters")
        }
        TextRule::HostName => word
            .iter()
            .any(|byte| !byte.is_ascii_alphanumeric() && !b"-.".contains(byte))
            .then_some("Hostnames may only contain alphanumeric characters, hyphens or dots"),
    };
    match refusal {
        Some(refusal) => Err(refusal.to_owned()),
        None => Ok(Value::Text(word.to_vec())),
    }
}

/// Returns the words, or an empty list if the only word is empty, as in `save ""`.
fn without_empty<'a, 'b>(words: &'a [&'b [u8]]) -> &'a [&'b [u8]] {
    if matches!(words, [[]]) { &[] } else { words }
}

fn save(words: &[&[u8]]) -> Result<Value, String> {
    let words = without_empty(words);
    let refusal = || "Invalid save parameters".to_owned();
    let (pairs, rest) = words.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(refusal());
    }
    let number = |word| integer(word).and_then(|number| u64::try_from(number).ok());
    pairs
        .iter()
        .map(|[seconds, changes]| {
            let seconds = number(seconds).filter(|seconds| *seconds >= 1)?;
            let changes = number(changes).filter(|changes| i32::try_from(*changes).is_ok())?;
            Some(SavePoint { seconds, changes })
        })
        .collect::<Option<Vec<_>>>()
        .map(Value::Save)
        .ok_or_else(refusal)
}

fn addresses(words: &[&[u8]]) -> Result<Value, String> {
    let words = without_empty(words);
    if words.len() > 16 {
        return Err("Too many bind addresses specified.".to_owned());
    }
    Ok(Value::Words(
        words.iter().map(|word| word.to_vec()).collect(),
    ))
}

fn output_limits(words: &[&[u8]], current: Option<&Value>) -> Result<Value, String> {
    let mut limits = match current {
        Some(Value::OutputLimits(limits)) => *limits,
        _ => <[OutputLimit; 3]>::default(),
    };
    let (groups, rest) = words.as_chunks::<4>();
    if !rest.is_empty() {
        return Err("Wrong number of arguments in buffer limit configuration.".to_owned());
    }
    for [class, hard, soft, seconds] in groups {
        let class = match class.to_ascii_lowercase().as_slice() {
            b"normal" => 0,
            b"slave" | b"replica" => 1,
            b"pubsub" => 2,
            _ => {
                return Err(
                    "Invalid client class specified in buffer limit configuration.".to_owned(),
                );
            }
        };
        let seconds = integer(seconds).and_then(|seconds| u64::try_from(seconds).ok());
        let (Some(hard_bytes), Some(soft_bytes), Some(soft_seconds)) =
            (memory(hard), memory(soft), seconds)
        else {
            return Err(
                "Error in hard, soft or soft_seconds setting in buffer limit configuration."
                    .to_owned(),
            );
        };
        limits[class] = OutputLimit {
            hard_bytes,
            soft_bytes,
            soft_seconds,
        };
    }
    Ok(Value::OutputLimits(limits))
}

fn percentiles(words: &[&[u8]]) -> Result<Value, String> {
    let mut values = Vec::new();
    for word in without_empty(words) {
        let value = std::str::from_utf8(word)
            .ok()
            .and_then(|word| word.parse::<f64>().ok())
            .filter(|value| !value.is_nan())
            .ok_or("Invalid latency-tracking-info-percentiles parameters")?;
        if !(0.0..=100.0).contains(&value) {
            return Err(
                "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]"
                    .to_owned(),
            );
        }
        // Removes the sign of -0.
        values.push(value.abs());
    }
    Ok(Value::Percentiles(values))
}

fn oom_scores(words: &[&[u8]]) -> Result<Value, String> {
    let words: &[&[u8]; 3] = words
        .try_into()
        .map_err(|_| "wrong number of arguments".to_owned())?;
    let mut scores = [0; 3];
    for (score, word) in scores.iter_mut().zip(words) {
        *score = integer(word)
            .filter(|score| (-2000..=2000).contains(score))
            .ok_or("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")?;
    }
    Ok(Value::Integers(scores))
}

fn replica_of(words: &[&[u8]]) -> Result<Value, String> {
    match words {
        [host, port] if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") => {
            Ok(Value::Words(Vec::new()))
        }
        [host, port] => match integer(port) {
            Some(0..=65535) => Ok(Value::Words(vec![host.to_vec(), port.to_vec()])),
            _ => Err("Invalid master port".to_owned()),
        },
        [] => Ok(Value::Words(Vec::new())),
        _ => Err("wrong number of arguments".to_owned()),
    }
}

fn directory(word: &[u8]) -> Result<Value, String> {
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(word));
    let absolute = path
        .canonicalize()
        .map_err(|error| crate::config::error::io_reason(&error))?;
    if !absolute.is_dir() {
        return Err("Not a directory".to_owned());
    }
    Ok(Value::Text(absolute.into_os_string().into_vec()))
}

#[cfg(test)]
mod tests {
    use super::super::value::spell_memory;
    use super::*;

    fn parse(kind: Kind, text: &str) -> Result<String, String> {
        let words: Vec<&[u8]> = if kind.takes_words() {
            text.split(' ').map(str::as_bytes).collect()
        } else {
            vec![text.as_bytes()]
        };
        kind.parse(&words, None)
            .map(|value| String::from_utf8(value.display()).unwrap())
    }

    #[test]
    fn memory_units() {
        let kind = Kind::Memory {
            min: 0,
            max: u64::MAX,
        };
        for (text, bytes) in [
            ("0", "0"),
            ("1B", "1"),
            ("1k", "1000"),
            ("1kb", "1024"),
            ("2m", "2000000"),
            ("2MB", "2097152"),
            ("3g", "3000000000"),
            ("3Gb", "3221225472"),
            ("99999999999999999999", "18446744073709551615"),
        ] {
            assert_eq!(parse(kind, text).as_deref(), Ok(bytes));
        }
        assert_eq!(parse(kind, "").as_deref(), Ok("0"));
        for text in ["kb", "-1", "1.5gb", "1tb", "1 kb", "x"] {
            assert_eq!(
                parse(kind, text),
                Err("argument must be a memory value".to_owned())
            );
        }
        assert_eq!(spell_memory(0), "0");
        assert_eq!(spell_memory(3 << 20), "3mb");
        assert_eq!(spell_memory((1 << 30) + 1024), "1048577kb");
        assert_eq!(spell_memory(1000), "1000");
    }

    #[test]
    fn integers_are_strict() {
        let kind = Kind::Integer { min: -5, max: 10 };
        assert_eq!(parse(kind, "-5").as_deref(), Ok("-5"));
        for text in [
            "",
            "+1",
            "01",
            "-0",
            " 1",
            "1 ",
            "0x1",
            "99999999999999999999",
        ] {
            assert_eq!(
                parse(kind, text),
                Err("argument couldn't be parsed into an integer".to_owned())
            );
        }
        assert_eq!(
            parse(kind, "11"),
            Err("argument must be between -5 and 10 inclusive".to_owned())
        );
    }

    #[test]
    fn lists_and_groups() {
        assert_eq!(
            parse(Kind::Save, "900 1 300 10").as_deref(),
            Ok("900 1 300 10")
        );
        assert_eq!(parse(Kind::Save, "").as_deref(), Ok(""));
        for text in ["1", "0 1", "1 -1", "a b", "1 2 3", "900 1  300 10"] {
            assert_eq!(
                parse(Kind::Save, text),
                Err("Invalid save parameters".to_owned())
            );
        }
        assert_eq!(
            parse(Kind::OutputLimits, "replica 1mb 1k 5").as_deref(),
            Ok("normal 0 0 0 slave 1048576 1000 5 pubsub 0 0 0")
        );
        assert_eq!(
            parse(Kind::Percentiles, "50 99.90 1e1").as_deref(),
            Ok("50 99.9 10")
        );
        assert_eq!(parse(Kind::Shutdown, "now save").as_deref(), Ok("save now"));
        assert_eq!(parse(Kind::Shutdown, "default").as_deref(), Ok("default"));
        assert_eq!(parse(Kind::Octal, "700").as_deref(), Ok("700"));
        assert!(parse(Kind::Octal, "1000").is_err() && parse(Kind::Octal, "8").is_err());
        assert_eq!(parse(Kind::MemoryOrPercent, "5%").as_deref(), Ok("5%"));
        assert!(parse(Kind::MemoryOrPercent, "101%").is_err());
    }
}
