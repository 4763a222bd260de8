//! Typed access to the values of directives.

use std::path::{Path, PathBuf};

use super::{BindAddress, Permission, ShutdownOptions};
use crate::config::table;
use crate::config::value::{SHUTDOWN_OPTIONS, Value};

/// Access to values by the name of their directive. Debug builds assert that a directive has this
/// name, so a misspelled name fails every test that creates [`Settings`](super::Settings).
pub(crate) struct Values<'a>(pub(crate) &'a [Value]);

impl<'a> Values<'a> {
    pub(in crate::config) fn get(&self, name: &str) -> &'a Value {
        static NONE: Value = Value::Text(Vec::new());
        let row = table::find(name.as_bytes());
        debug_assert!(row.is_some(), "no directive {name}");
        row.and_then(|(index, _)| self.0.get(index))
            .unwrap_or(&NONE)
    }

    pub(in crate::config) fn yes(&self, name: &str) -> bool {
        matches!(self.get(name), Value::YesNo(true))
    }

    pub(super) fn integer(&self, name: &str) -> i64 {
        match self.get(name) {
            Value::Integer(number) => *number,
            other => {
                debug_assert!(false, "{name} is {other:?}");
                0
            }
        }
    }

    /// Returns a number. The bounds in the table guarantee that the number fits; a wrong bound
    /// would give 0.
    pub(in crate::config) fn number<T: TryFrom<i64> + Default>(&self, name: &str) -> T {
        T::try_from(self.integer(name)).unwrap_or_default()
    }

    pub(in crate::config) fn bytes<T: TryFrom<u64> + Default>(&self, name: &str) -> T {
        match self.get(name) {
            Value::Memory(bytes) => T::try_from(*bytes).unwrap_or_default(),
            other => {
                debug_assert!(false, "{name} is {other:?}");
                T::default()
            }
        }
    }

    pub(in crate::config) fn word(&self, name: &str) -> &'static str {
        match self.get(name) {
            Value::Choice(word) => word,
            other => {
                debug_assert!(false, "{name} is {other:?}");
                ""
            }
        }
    }

    pub(in crate::config) fn text(&self, name: &str) -> &'a [u8] {
        match self.get(name) {
            Value::Text(text) => text,
            _ => &[],
        }
    }

    pub(super) fn words(&self, name: &str) -> &'a [Vec<u8>] {
        match self.get(name) {
            Value::Words(words) => words,
            _ => &[],
        }
    }

    pub(in crate::config) fn addresses(&self, name: &str) -> Vec<BindAddress> {
        self.words(name)
            .iter()
            .map(|word| {
                let text = String::from_utf8_lossy(word);
                let (optional, host) = match text.strip_prefix('-') {
                    Some(host) => (true, host),
                    None => (false, &*text),
                };
                let host = match host {
                    "*" => "0.0.0.0",
                    "::*" => "::",
                    host => host,
                };
                BindAddress {
                    host: host.to_owned(),
                    optional,
                }
            })
            .collect()
    }

    pub(in crate::config) fn path(&self, name: &str) -> Option<PathBuf> {
        use std::os::unix::ffi::OsStrExt as _;
        let text = self.text(name);
        (!text.is_empty()).then(|| Path::new(std::ffi::OsStr::from_bytes(text)).to_path_buf())
    }

    pub(super) fn shutdown(&self, name: &str) -> ShutdownOptions {
        let Value::Shutdown(bits) = self.get(name) else {
            return ShutdownOptions::default();
        };
        let has = |word| {
            let at = SHUTDOWN_OPTIONS.iter().position(|known| *known == word);
            at.is_some_and(|at| bits >> at & 1 == 1)
        };
        ShutdownOptions {
            save: match (has("save"), has("nosave")) {
                (true, _) => Some(true),
                (_, true) => Some(false),
                _ => None,
            },
            now: has("now"),
            force: has("force"),
        }
    }

    pub(crate) fn permission(&self, name: &str) -> Permission {
        match self.word(name) {
            "yes" => Permission::Yes,
            "local" => Permission::Local,
            _ => Permission::No,
        }
    }
}
