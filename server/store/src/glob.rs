//! Glob patterns, as KEYS, SCAN MATCH, PSUBSCRIBE and CONFIG GET use them. The rules are Redis's,
//! including edge cases:
//!
//! - `*` matches any bytes, `?` one byte, `\x` the byte `x` (a single `\` at the end matches
//!   itself);
//! - `[abc]`, `[a-z]` (the ends in either order) and `[^abc]` are classes; `\x` inside a class is
//!   `x`; an unclosed class ends with the pattern;
//! - a pattern of only stars does **not** match the empty text. Callers that accept `*` for all
//!   texts compare the pattern with `*` first, as Redis's KEYS and SCAN do;
//! - ranges compare bytes as signed numbers, as Redis does where C's `char` is signed.
//!
//! Each element except `*` consumes exactly one byte. So after a mismatch only the *last* star
//! needs a retry: if the elements after it match nowhere in the rest of the text, an earlier star
//! that covers more bytes only shortens that rest. So the matcher needs one resume point and no
//! recursion, and takes at most |pattern| x |text| steps.

/// Returns true if `text` matches `pattern`, byte for byte.
///
/// Takes **O(p·t)** time at worst, **O(p + t)** for a pattern without a star or with a star only at
/// its end. Does not allocate.
///
/// ```
/// use punctual_store::glob::matches;
///
/// assert!(matches(b"user:*:name", b"user:17:name"));
/// assert!(matches(b"h[^a-d]llo", b"hello"));
/// assert!(matches(br"1\*2", b"1*2"));
/// assert!(!matches(b"h?llo", b"hllo"));
/// ```
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    run(pattern, text, false)
}

/// Like [`matches()`], but ignores the case of ASCII letters.
///
/// As in Redis, an escaped letter inside a class must still match exactly.
///
/// ```
/// assert!(punctual_store::glob::matches_nocase(b"MAX*", b"maxclients"));
/// ```
#[must_use]
pub fn matches_nocase(pattern: &[u8], text: &[u8]) -> bool {
    run(pattern, text, true)
}

fn run(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut p, mut t) = (0, 0);
    // Resume point after a mismatch: (first element after the last star, first byte that the star
    // does not cover).
    let mut resume: Option<(usize, usize)> = None;
    while t < text.len() {
        let width = match pattern.get(p) {
            Some(b'*') => {
                p += 1;
                resume = Some((p, t));
                continue;
            }
            Some(_) => element(&pattern[p..], text[t], nocase),
            None => None,
        };
        if let Some(width) = width {
            p += width;
            t += 1;
        } else if let Some((after_star, from)) = resume {
            if after_star == pattern.len() {
                return true;
            }
            p = after_star;
            t = from + 1;
            resume = Some((after_star, t));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

/// Returns the width of the pattern's first element if it matches `byte`. The pattern must not be
/// empty or start with a star.
fn element(pattern: &[u8], byte: u8, nocase: bool) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', ..] => class(pattern, byte, nocase),
        [b'\\', escaped, ..] => same(*escaped, byte, nocase).then_some(2),
        [literal, ..] => same(*literal, byte, nocase).then_some(1),
        [] => None,
    }
}

fn class(pattern: &[u8], byte: u8, nocase: bool) -> Option<usize> {
    let negated = pattern.get(1) == Some(&b'^');
    let mut at = if negated { 2 } else { 1 };
    let mut found = false;
    let width = loop {
        match pattern.get(at..).unwrap_or_default() {
            [] => break pattern.len(),
            [b'\\', escaped, ..] => {
                found |= *escaped == byte;
                at += 2;
            }
            [b']', ..] => break at + 1,
            [first, b'-', last, ..] => {
                found |= in_range(*first, *last, byte, nocase);
                at += 3;
            }
            [literal, ..] => {
                found |= same(*literal, byte, nocase);
                at += 1;
            }
        }
    };
    (found != negated).then_some(width)
}

fn in_range(first: u8, last: u8, byte: u8, nocase: bool) -> bool {
    let (low, high) = if first.cast_signed() > last.cast_signed() {
        (last, first)
    } else {
        (first, last)
    };
    let order = |byte: u8| {
        if nocase {
            byte.to_ascii_lowercase().cast_signed()
        } else {
            byte.cast_signed()
        }
    };
    (order(low)..=order(high)).contains(&order(byte))
}

fn same(a: u8, b: u8, nocase: bool) -> bool {
    a == b || (nocase && a.eq_ignore_ascii_case(&b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The textbook matcher, which takes exponential time: every star tries every length.
    fn model(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
        match (pattern, text) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => {
                (0..=text.len()).any(|taken| model(rest, &text[taken..], nocase))
            }
            ([], _) | (_, []) => false,
            (_, [byte, rest @ ..]) => element(pattern, *byte, nocase)
                .is_some_and(|width| model(&pattern[width..], rest, nocase)),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn agrees_with_the_textbook(
            pattern in proptest::collection::vec(proptest::sample::select(b"ab*?[]^-\\B".to_vec()), 0..9),
            text in proptest::collection::vec(proptest::sample::select(b"abB-\\]".to_vec()), 0..7),
            nocase: bool,
        ) {
            let expected = if text.is_empty() { pattern.is_empty() } else { model(&pattern, &text, nocase) };
            prop_assert_eq!(run(&pattern, &text, nocase), expected);
        }

        #[test]
        fn never_panics(pattern: Vec<u8>, text: Vec<u8>) {
            let _ = (matches(&pattern, &text), matches_nocase(&pattern, &text));
        }
    }

    #[test]
    fn edge_cases_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("*", "", false),
            ("**", "", false),
            ("", "", true),
            ("?", "", false),
            ("[^", "a", true),
            ("[", "a", false),
            ("[a", "a", true),
            ("[a-", "a", true),
            ("[b-", "a", false),
            ("a\\", "a", false),
            ("a\\", "a\\", true),
            ("a**", "a", true),
            ("[a-]", "a", true),
            ("[\\a", "a", true),
            ("[]a", "a", false),
            ("[^b", "a", true),
            ("[^b]*", "a", true),
            ("[c-a]", "b", true),
            ("*[ab]*c", "xxbxxc", true),
            ("*[ab]*c", "xxcxxb", false),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes()),
                expected,
                "{pattern:?} against {text:?}"
            );
        }
        assert!(!matches(b"HELLO", b"hello"));
        assert!(matches_nocase(b"H[A-F]LLO", b"hello"));
        assert!(!matches_nocase(b"[\\H]", b"h"));
        // Signed comparison: 0xff is below 'a', so the range a-0xff holds the bytes from 0xff up to
        // 'a'.
        assert!(matches(b"[a-\xff]", b"0") && !matches(b"[a-\xff]", b"z"));
    }

    #[test]
    fn many_stars_take_quadratic_time_at_most() {
        let pattern = [b"a*".repeat(2_000), b"b".to_vec()].concat();
        let text = b"a".repeat(4_000);
        // At most 4,001 x 4,000 steps; a matcher that retries every star would not finish.
        assert!(!matches(&pattern, &text));
        assert!(matches(&pattern[..pattern.len() - 1], &text));
    }
}
