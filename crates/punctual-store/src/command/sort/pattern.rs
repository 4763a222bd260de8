//! Patterns of SORT: the key, or the field of a hash, whose name has an element in the place of an asterisk.

use crate::turn::Cx;
use crate::value::Value;
use crate::value::text::Text;

/// Where to look for what is said of an element.
pub(super) enum Pattern<'a> {
    /// `#`: the element.
    Element,
    /// No asterisk: nothing is found.
    Nowhere,
    /// A name with the element in it, and maybe a field of what is there.
    Key {
        before: &'a [u8],
        behind: &'a [u8],
        field: Option<&'a [u8]>,
    },
}

impl<'a> Pattern<'a> {
    /// Reads a pattern. An arrow behind the asterisk parts key and field, unless nothing follows it.
    pub(super) fn new(pattern: &'a [u8]) -> Self {
        if pattern == b"#" {
            return Self::Element;
        }
        let Some(asterisk) = pattern.iter().position(|byte| *byte == b'*') else {
            return Self::Nowhere;
        };
        let (before, behind) = (&pattern[..asterisk], &pattern[asterisk + 1..]);
        let arrow = behind.windows(2).position(|two| two == b"->");
        match arrow.map(|at| (&behind[..at], &behind[at + 2..])) {
            Some((behind, field)) if !field.is_empty() => Self::Key {
                before,
                behind,
                field: Some(field),
            },
            _ => Self::Key {
                before,
                behind,
                field: None,
            },
        }
    }

    /// Calls `with` with what is found for an element, `None` if nothing is or something of another type. Counts a
    /// read of the key.
    pub(super) fn look_up(
        &self,
        cx: &mut Cx<'_, '_>,
        element: &[u8],
        with: impl FnOnce(Option<&[u8]>),
    ) {
        let (before, behind, field) = match self {
            Self::Element => return with(Some(element)),
            Self::Nowhere => return with(None),
            Self::Key {
                before,
                behind,
                field,
            } => (before, behind, field),
        };
        let key = [before, element, behind].concat();
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
