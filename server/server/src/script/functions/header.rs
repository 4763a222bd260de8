//! The first line of a library: `#!lua name=...`.

use punctual_lua::{BAD_NAME, is_name};
use punctual_store::Error;

use crate::script::shebang::words;

/// A library's source, split into its name and its code.
pub(crate) struct Header<'c> {
    /// Name of the library.
    pub(crate) name: String,
    /// The code from the end of the first line on, so that Lua counts lines as in the source.
    pub(crate) code: &'c [u8],
}

/// Splits a library's source.
///
/// # Errors
/// Returns Redis's message if the first line is not valid, has no name, or names an unknown engine.
pub(crate) fn parse(source: &[u8]) -> Result<Header<'_>, Error> {
    const INVALID: Error = Error::fixed("ERR Invalid library metadata");
    if !source.starts_with(b"#!") {
        return Err(Error::fixed("ERR Missing library metadata"));
    }
    let (words, end) = words(source, INVALID)?.ok_or(INVALID)?;
    let mut words = words.iter();
    let engine = words
        .next()
        .and_then(|word| word.get(2..))
        .unwrap_or_default();
    let mut name = None;
    for word in words {
        let Some((_, value)) = word
            .split_at_checked(5)
            .filter(|(option, _)| option.eq_ignore_ascii_case(b"name="))
        else {
            return Err(Error::repeating(
                "ERR Invalid metadata value given: ",
                word,
                "",
            ));
        };
        if name.replace(value).is_some() {
            return Err(Error::fixed(
                "ERR Invalid metadata value, name argument was given multiple times",
            ));
        }
    }
    let name = name.ok_or(Error::fixed("ERR Library name was not given"))?;
    if !is_name(name) {
        return Err(Error::Text(format!("ERR {BAD_NAME}").into()));
    }
    if !engine.eq_ignore_ascii_case(b"lua") {
        let text = [b"ERR Engine '", engine, b"' not found"].concat();
        return Err(Error::Bytes(text.into()));
    }
    Ok(Header {
        // A name is ASCII.
        name: String::from_utf8_lossy(name).into_owned(),
        code: &source[end..],
    })
}
