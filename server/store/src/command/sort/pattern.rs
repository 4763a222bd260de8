//! BY and GET patterns of SORT: the name of a key, or of a key and a hash field, with an asterisk
//! for the element.

use punctual_cluster::slot;

use crate::turn::Cx;
use crate::value::Value;
use crate::value::text::Text;

/// A BY or GET pattern.
pub(super) enum Pattern<'a> {
    /// `#`: the element itself.
    Element,
    /// A pattern without an asterisk, which finds no value.
    Nowhere(&'a [u8]),
    /// A key name around the element, and an optional hash field.
    Key {
        before: &'a [u8],
        after: &'a [u8],
        field: Option<&'a [u8]>,
    },
}

impl<'a> Pattern<'a> {
    /// Parses a pattern. An arrow after the asterisk separates key and field, unless it ends the
    /// pattern.
    pub(super) fn new(pattern: &'a [u8]) -> Self {
        if pattern == b"#" {
            return Self::Element;
        }
        let Some(asterisk) = pattern.iter().position(|byte| *byte == b'*') else {
            return Self::Nowhere(pattern);
        };
        let (before, after) = (&pattern[..asterisk], &pattern[asterisk + 1..]);
        let arrow = after.windows(2).position(|two| two == b"->");
        match arrow.map(|at| (&after[..at], &after[at + 2..])) {
            Some((after, field)) if !field.is_empty() => Self::Key {
                before,
                after,
                field: Some(field),
            },
            _ => Self::Key {
                before,
                after,
                field: None,
            },
        }
    }

    /// Returns whether all keys that the pattern may name have this slot: the slot of a hash tag
    /// before the asterisk.
    pub(super) fn has_slot(&self, slot: u16) -> bool {
        match self {
            Self::Element => true,
            Self::Nowhere(name) => slot::of_key(name) == slot,
            Self::Key { before, .. } => {
                let tag = slot::hash_tag(before);
                tag.len() < before.len() && slot::of_key(tag) == slot
            }
        }
    }

    /// Calls `with` with the value for an element, or `None` if it is missing or has another type.
    /// Counts a read of the key.
    pub(super) fn look_up(&self, cx: &mut Cx, element: &[u8], with: impl FnOnce(Option<&[u8]>)) {
        let (before, after, field) = match self {
            Self::Element => return with(Some(element)),
            Self::Nowhere(_) => return with(None),
            Self::Key {
                before,
                after,
                field,
            } => (before, after, field),
        };
        let key = [before, element, after].concat();
        let now = cx.now();
        let value = cx.read(&key).map(|record| &record.value);
        match (value, field) {
            (Some(Value::Str(string)), None) => {
                with(Some(string.text(&mut itoa::Buffer::new())));
            }
            (Some(Value::Hash(hash)), Some(field)) => {
                let found = hash
                    .get(field)
                    .filter(|(_, deadline)| !now.is_due(*deadline));
                match found {
                    Some((value, _)) => with(Some(Text::of(value).as_bytes())),
                    None => with(None),
                }
            }
            _ => with(None),
        }
    }
}
