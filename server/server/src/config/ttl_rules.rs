//! `default-ttl`, `max-ttl` and `ttl-rule`: defaults and limits of TTL, in seconds.
//!
//! The words of `ttl-rule` are groups: a pattern, then `default <seconds>` and `max <seconds>`, one
//! or both, each at most once. So a pattern `default` or `max` is written `[d]efault` or `[m]ax`.

use punctual_store::ttl_rules::{TtlLimit, TtlRule};

/// Maximum of a default or a limit, in seconds. Deadlines far beyond it would not fit into i64.
pub(super) const SECONDS_MAX: i64 = 1_000_000_000_000;

const GRAMMAR: &str =
    "A rule is: pattern [default <seconds>] [max <seconds>], with at least one of the two";

/// Parses groups of words.
pub(super) fn parse(words: &[&[u8]]) -> Result<Vec<TtlRule>, String> {
    let mut rules = Vec::new();
    let mut words = words;
    while let Some((pattern, mut rest)) = words.split_first() {
        let (mut default, mut max) = (None, None);
        while let [name, seconds, after @ ..] = rest {
            let field = match () {
                () if name.eq_ignore_ascii_case(b"default") => &mut default,
                () if name.eq_ignore_ascii_case(b"max") => &mut max,
                () => break,
            };
            if field.is_some() {
                break;
            }
            *field = Some(milliseconds(seconds)?);
            rest = after;
        }
        if pattern.is_empty() || default.or(max).is_none() {
            return Err(GRAMMAR.to_owned());
        }
        rules.push(TtlRule {
            pattern: (*pattern).into(),
            limit: TtlLimit {
                default_ms: default.unwrap_or(0),
                max_ms: max.unwrap_or(0),
            },
        });
        words = rest;
    }
    Ok(rules)
}

fn milliseconds(word: &[u8]) -> Result<u64, String> {
    let digits = std::str::from_utf8(word)
        .ok()
        .filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
    let seconds: Option<u64> = digits.and_then(|digits| digits.parse().ok());
    let seconds = seconds.filter(|seconds| *seconds <= SECONDS_MAX.cast_unsigned());
    match seconds {
        Some(seconds) => Ok(seconds * 1000),
        None => Err(format!("Seconds must be between 0 and {SECONDS_MAX}")),
    }
}

/// Returns the words of a rule. A rule without a default and a limit has `max 0`.
pub(super) fn words(rule: &TtlRule) -> Vec<Vec<u8>> {
    let TtlLimit { default_ms, max_ms } = rule.limit;
    let mut words = vec![rule.pattern.to_vec()];
    let mut add = |name: &str, ms: u64| words.extend([name.into(), (ms / 1000).to_string().into()]);
    if default_ms > 0 {
        add("default", default_ms);
    }
    if max_ms > 0 || default_ms == 0 {
        add("max", max_ms);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::value::Value;

    fn shown(text: &str) -> Result<String, String> {
        let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
        let rules = parse(&words)?;
        Ok(String::from_utf8(Value::TtlRules(rules).display()).unwrap())
    }

    #[test]
    fn rules_are_parsed_and_shown() {
        for text in [
            "session:* default 1800 max 86400",
            "a max 1 b default 2 c default 1 max 1",
            "config:* max 0",
            "[d]efault default 1",
        ] {
            assert_eq!(shown(text).as_deref(), Ok(text));
        }
        assert_eq!(
            shown("a MAX 5 Default 3").as_deref(),
            Ok("a default 3 max 5")
        );
        assert_eq!(shown("a default 0 max 0").as_deref(), Ok("a max 0"));
    }

    #[test]
    fn wrong_rules_are_refused() {
        for text in [
            "a",
            "a default",
            "a 5",
            "a default 1 b",
            "a max 1 max 2",
            "default 1",
            " max 1",
        ] {
            assert_eq!(shown(text), Err(GRAMMAR.to_owned()), "{text}");
        }
        let number = Err(format!("Seconds must be between 0 and {SECONDS_MAX}"));
        for word in ["-1", "x", "", "+1", "1000000000001", "99999999999999999999"] {
            assert_eq!(shown(&format!("a default {word}")), number, "{word}");
        }
    }
}
