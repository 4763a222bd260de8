//! Replies about the server, the connection and the commands, reduced to the parts common to two
//! versions.

use std::collections::BTreeMap;

use punctual_resp::Value;

use super::{pair_list, sorted, text};

/// Returns the classes of keyspace events without `n`, which Redis omits beside `A`.
pub(super) fn event_classes(classes: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(classes).into_owned();
    if text.contains('A') {
        text.retain(|class| class != 'n');
    }
    text
}

/// Returns the fields of HELLO's reply in order, without the values of version, modules and id.
pub(super) fn greeting(value: &Value) -> Option<Vec<(String, String)>> {
    let pairs = pair_list(value)?;
    Some(
        pairs
            .into_iter()
            .map(|(name, value)| match name.as_bytes() {
                Some(b"version" | b"modules") => (text(name), "any".to_owned()),
                Some(b"id") => (text(name), format!("{:?}", value.as_int().is_some())),
                _ => (text(name), text(value)),
            })
            .collect(),
    )
}

pub(super) fn client_info(line: &[u8]) -> BTreeMap<String, String> {
    const FIELDS: [&str; 10] = [
        "name", "db", "sub", "psub", "ssub", "multi", "flags", "events", "resp", "user",
    ];
    String::from_utf8_lossy(line)
        .split_ascii_whitespace()
        .filter_map(|field| field.split_once('='))
        .filter(|(name, _)| FIELDS.contains(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Returns for each command its name, arity, flags as a set, first key, last key, step, and
/// categories as a set. Tips, key specifications and subcommands differ between the versions.
pub(super) fn command_info(value: &Value) -> Option<Vec<String>> {
    value
        .as_slice()?
        .iter()
        .map(|info| {
            if info.is_null() {
                return Some(text(info));
            }
            let parts = info.as_slice()?;
            let [name, arity, flags, first, last, step, categories, ..] = parts else {
                return None;
            };
            let numbers = [name, arity, first, last, step].map(text);
            Some(format!(
                "{} parts: {numbers:?} {:?} {:?}",
                parts.len(),
                sorted(flags.as_slice()?),
                sorted(categories.as_slice()?)
            ))
        })
        .collect()
}

pub(super) fn keyspace(section: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(section)
        .lines()
        .map(|line| line.split(",avg_ttl=").next().unwrap_or(line).to_owned())
        .collect()
}
