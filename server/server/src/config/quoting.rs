//! The quoting rules of redis.conf: splitting a line into words, and quoting a word.

/// Splits a line into words.
///
/// White space separates words. `"..."` allows the escapes `\n \r \t \b \a`, `\xHH` and `\` before
/// any other byte; `'...'` allows only `\'`. A closing quote must be followed by white space or the
/// end of the line. Returns `None` for unbalanced quotes.
pub(crate) fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Some(words);
        }
        let (word, after) = word(rest)?;
        words.push(word);
        rest = after;
    }
}

fn word(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    loop {
        match rest {
            [] => return Some((word, rest)),
            [byte, ..] if byte.is_ascii_whitespace() => return Some((word, rest)),
            [b'"', inside @ ..] => {
                rest = double_quoted(inside, &mut word)?;
                return ends(rest).then_some((word, rest));
            }
            [b'\'', inside @ ..] => {
                rest = single_quoted(inside, &mut word)?;
                return ends(rest).then_some((word, rest));
            }
            [byte, after @ ..] => {
                word.push(*byte);
                rest = after;
            }
        }
    }
}

fn ends(rest: &[u8]) -> bool {
    rest.first().is_none_or(u8::is_ascii_whitespace)
}

fn double_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (byte, after) = match rest {
            [] => return None,
            [b'"', after @ ..] => return Some(after),
            [b'\\', b'x', high, low, after @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                (hex(*high) << 4 | hex(*low), after)
            }
            [b'\\', escaped, after @ ..] => {
                let byte = match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                };
                (byte, after)
            }
            [byte, after @ ..] => (*byte, after),
        };
        word.push(byte);
        rest = after;
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (byte, after) = match rest {
            [] => return None,
            [b'\'', after @ ..] => return Some(after),
            [b'\\', b'\'', after @ ..] => (b'\'', after),
            [byte, after @ ..] => (*byte, after),
        };
        word.push(byte);
        rest = after;
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit.to_ascii_uppercase() - b'A' + 10,
    }
}

/// Returns `word` in double quotes, in printable ASCII. [`split`] restores the word.
pub(crate) fn quote(word: &[u8]) -> String {
    let mut quoted = String::with_capacity(word.len() + 2);
    quoted.push('"');
    for &byte in word {
        match byte {
            b'\\' | b'"' => quoted.extend(['\\', char::from(byte)]),
            b'\n' => quoted.push_str("\\n"),
            b'\r' => quoted.push_str("\\r"),
            b'\t' => quoted.push_str("\\t"),
            8 => quoted.push_str("\\b"),
            7 => quoted.push_str("\\a"),
            b' '..=b'~' => quoted.push(char::from(byte)),
            _ => quoted.push_str(&format!("\\x{byte:02x}")),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(line: &str) -> Option<Vec<String>> {
        split(line.as_bytes()).map(|words| {
            words
                .into_iter()
                .map(|word| String::from_utf8_lossy(&word).into_owned())
                .collect()
        })
    }

    #[test]
    fn rules_of_redis_conf() {
        for (line, expected) in [
            ("", Some(vec![])),
            ("  a  b\t", Some(vec!["a", "b"])),
            ("save \"\"", Some(vec!["save", ""])),
            (r#"a "x\ty\x41\q""#, Some(vec!["a", "x\tyAq"])),
            (r"a 'x\'y\n'", Some(vec!["a", r"x'y\n"])),
            ("pre\"fix\"", Some(vec!["prefix"])),
            ("a \"b", None),
            ("a 'b", None),
            ("\"a\"b", None),
            ("'a'b", None),
            ("\"a\\", None),
        ] {
            let expected = expected.map(|words| words.into_iter().map(str::to_owned).collect());
            assert_eq!(words(line), expected, "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn quoted_words_come_back(word: Vec<u8>) {
            prop_assert_eq!(split(quote(&word).as_bytes()), Some(vec![word]));
        }

        #[test]
        fn any_line_is_split_or_refused(line: Vec<u8>) {
            let _ = split(&line);
        }
    }
}
