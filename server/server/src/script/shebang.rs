//! The first line of a script: `#!lua flags=no-writes,allow-stale`.

use punctual_lua::ScriptFlags;
use punctual_store::Error;
use punctual_store::error::c_string;

use crate::config::quoting;

/// Splits the first line of a source into words. Returns the words and the length of the line, or
/// `None` if the line has no end.
///
/// # Errors
/// Returns `unbalanced` if the quotes are not balanced.
#[expect(clippy::type_complexity, reason = "a pair that may be missing")]
pub(crate) fn words(
    source: &[u8],
    unbalanced: Error,
) -> Result<Option<(Vec<Vec<u8>>, usize)>, Error> {
    // As in Redis, a line end after a NUL byte does not count.
    let Some(end) = c_string(source).iter().position(|&byte| byte == b'\n') else {
        return Ok(None);
    };
    let words = quoting::split(&source[..end]).ok_or(unbalanced)?;
    Ok(Some((words, end)))
}

/// Parses a script's shebang line. Returns the script's flags (`None` without a shebang line) and
/// the length of the line, which is not Lua code.
///
/// # Errors
/// Returns Redis's message if the line is not a valid shebang line.
pub(crate) fn parse(code: &[u8]) -> Result<(Option<ScriptFlags>, usize), Error> {
    if !code.starts_with(b"#!") {
        return Ok((None, 0));
    }
    let mut flags = ScriptFlags::default();
    let unbalanced = Error::fixed("ERR Invalid engine in script shebang");
    let (words, end) =
        words(code, unbalanced)?.ok_or(Error::fixed("ERR Invalid script shebang"))?;
    let refused = |before, word: &[u8]| Err(Error::repeating(before, word, ""));
    let mut words = words.iter();
    let engine = words.next().map_or(&b""[..], Vec::as_slice);
    if c_string(engine) != b"#!lua" {
        return refused("ERR Unexpected engine in script shebang: ", engine);
    }
    for word in words {
        let Some(list) = word.strip_prefix(b"flags=") else {
            return refused("ERR Unknown lua shebang option: ", word);
        };
        if list.is_empty() {
            continue;
        }
        for name in list.split(|&byte| byte == b',') {
            // Flags of scripts must be in lower case, unlike flags of functions.
            let lower = !name.iter().any(u8::is_ascii_uppercase);
            let Some(flag) = ScriptFlags::of_name(name).filter(|_| lower) else {
                return refused("ERR Unexpected flag in script shebang: ", name);
            };
            flags = flags | flag;
        }
    }
    Ok((Some(flags), end))
}
