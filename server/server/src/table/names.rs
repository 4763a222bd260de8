//! The command names of one server: the names of the command table, changed by `rename-command`.
//!
//! A renamed command keeps its row. COMMAND, statistics and errors show the row's name; only the
//! lookup of a client's command and the error for an unknown subcommand use the new name.

use std::collections::BTreeMap;

use punctual_resp::Args;
use punctual_store::Error;
use punctual_store::error::{brief, c_string};

use crate::config::{Config, ConfigError};
use crate::table::{CommandTable, Entry};

/// The names of one server's commands. They do not change while the server runs.
#[derive(Clone)]
pub(crate) struct CommandNames {
    table: &'static CommandTable,
    /// Renamed commands by lower-case name; `None` marks a name that is no longer valid.
    changed: BTreeMap<Vec<u8>, Option<&'static Entry>>,
    /// Ids of the commands that `rename-command` disabled.
    disabled: Vec<usize>,
}

impl CommandNames {
    /// Applies the `rename-command` lines of a configuration to the table's names.
    ///
    /// # Errors
    /// Returns an error for the first line that cannot be applied.
    pub(crate) fn new(table: &'static CommandTable, config: &Config) -> Result<Self, ConfigError> {
        let mut names = Self {
            table,
            changed: BTreeMap::new(),
            disabled: Vec::new(),
        };
        for rename in config.renames() {
            names
                .rename(&rename.from, &rename.to)
                .map_err(|reason| rename.refused(reason))?;
        }
        Ok(names)
    }

    /// Returns the table of all commands.
    pub(crate) fn table(&self) -> &'static CommandTable {
        self.table
    }

    /// Renames a command, or disables it if `to` is empty.
    ///
    /// # Errors
    /// Returns Redis's text if no command has the name `from`, or a command already has the name
    /// `to`.
    fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<(), &'static str> {
        let entry = self.get(from).ok_or("No such command in rename-command")?;
        self.changed.insert(from.to_ascii_lowercase(), None);
        if to.is_empty() {
            self.disabled.push(entry.id);
        } else if self.get(to).is_some() {
            return Err("Target command name already exists");
        } else {
            self.changed.insert(to.to_ascii_lowercase(), Some(entry));
        }
        Ok(())
    }

    /// Returns the top-level command with this name, ignoring case. O(1), plus O(log n) with n
    /// renamed commands.
    #[inline]
    pub(crate) fn get(&self, name: &[u8]) -> Option<&'static Entry> {
        if !self.changed.is_empty()
            && let Some(entry) = self.changed.get(&name.to_ascii_lowercase())
        {
            return *entry;
        }
        self.table.get(name)
    }

    /// Returns the command with this full name (`container|subcommand`), ignoring case.
    pub(crate) fn get_full(&self, name: &[u8]) -> Option<&'static Entry> {
        let mut parts = name.splitn(2, |&b| b == b'|');
        let entry = self.get(parts.next()?)?;
        match parts.next() {
            None => Some(entry),
            Some(sub) => entry.subcommand(sub),
        }
    }

    /// Returns the command or subcommand that `args` calls.
    ///
    /// # Errors
    /// Returns Redis's text for an unknown command, an unknown subcommand or a wrong number of
    /// arguments. For a wrong number of arguments, the entry is included.
    pub(crate) fn find(
        &self,
        args: Args<'_>,
    ) -> Result<&'static Entry, (Option<&'static Entry>, Error)> {
        let Some(entry) = self.get(args.at(0)) else {
            return Err((None, unknown(args)));
        };
        let entry = if entry.subcommands.is_empty() || args.len() < 2 {
            entry
        } else {
            match entry.subcommand(args.at(1)) {
                Some(sub) => sub,
                None => return Err((None, unknown_subcommand(args))),
            }
        };
        entry.check_arity(args)?;
        Ok(entry)
    }

    /// Returns the top-level commands that are not disabled.
    pub(crate) fn commands(&self) -> impl Iterator<Item = &'static Entry> {
        let commands = self.table.commands().iter();
        commands.filter(|entry| !self.disabled.contains(&entry.id))
    }

    /// Returns the commands that are not disabled and their subcommands, each container before its
    /// subcommands.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'static Entry> {
        self.commands()
            .flat_map(|entry| std::iter::once(entry).chain(&entry.subcommands))
    }
}

/// Returns the error for an unknown command: its name, and up to `LISTED_MAX` bytes of its
/// arguments.
fn unknown(args: Args) -> Error {
    const LISTED_MAX: usize = 128;
    let mut listed = Vec::new();
    for arg in args.iter().skip(1) {
        if listed.len() >= LISTED_MAX {
            break;
        }
        let arg = c_string(arg);
        let arg = &arg[..arg.len().min(LISTED_MAX - listed.len())];
        listed.extend_from_slice(&[b"'", arg, b"' "].concat());
    }
    let before = b"ERR unknown command '";
    let between = b"', with args beginning with: ";
    Error::Bytes(
        [before, brief(args.at(0)), between, &listed]
            .concat()
            .into(),
    )
}

/// Returns the error for an unknown subcommand. It shows the container's name as the client sent
/// it, in upper case.
fn unknown_subcommand(args: Args) -> Error {
    let container = String::from_utf8_lossy(args.at(0)).to_ascii_uppercase();
    let after = format!("'. Try {container} HELP.");
    Error::repeating("ERR unknown subcommand '", brief(args.at(1)), &after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::table;

    fn renamed(renames: &[(&str, &str)]) -> Result<CommandNames, &'static str> {
        let mut names = CommandNames::new(table(), &Config::new().unwrap()).unwrap();
        for (from, to) in renames {
            names.rename(from.as_bytes(), to.as_bytes())?;
        }
        Ok(names)
    }

    fn called(names: &CommandNames, name: &str) -> Option<&'static str> {
        names.get(name.as_bytes()).map(|entry| entry.name.as_str())
    }

    #[test]
    fn renames_apply_in_order() {
        let swap = [("get", "tmp"), ("SET", "Get"), ("tmp", "set")];
        let names = renamed(&swap).unwrap();
        assert_eq!(called(&names, "gET"), Some("set"));
        assert_eq!(called(&names, "set"), Some("get"));
        assert_eq!(called(&names, "tmp"), None);
        let names = renamed(&[("keys", "a"), ("a", "b"), ("b", "")]).unwrap();
        assert_eq!(called(&names, "keys"), None);
        assert_eq!(names.commands().count() + 1, table().commands().len());
        let names = renamed(&[("get", "GET")]).unwrap();
        assert_eq!(called(&names, "get"), Some("get"));
        let long = "x".repeat(100);
        let names = renamed(&[("get", &long)]).unwrap();
        assert_eq!(called(&names, &long.to_uppercase()), Some("get"));
    }

    #[test]
    fn invalid_renames_return_redis_errors() {
        for (renames, error) in [
            (&[("nosuch", "a")][..], "No such command in rename-command"),
            (&[("", "a")], "No such command in rename-command"),
            (&[("config|get", "a")], "No such command in rename-command"),
            (
                &[("get", "a"), ("get", "b")],
                "No such command in rename-command",
            ),
            (&[("get", "set")], "Target command name already exists"),
            (
                &[("get", "a"), ("set", "A")],
                "Target command name already exists",
            ),
        ] {
            assert_eq!(renamed(renames).err().unwrap(), error);
        }
    }

    #[test]
    fn an_invalid_rename_is_reported_with_file_and_line() {
        let mut config = Config::new().unwrap();
        let text = b"rename-command KEYS a\nrename-command SET A";
        config.load(text, "test.conf").unwrap();
        let error = CommandNames::new(table(), &config)
            .err()
            .unwrap()
            .to_string();
        let line = "2 of test.conf\n>>> 'rename-command SET A'\nTarget command name already exists";
        assert!(error.contains(line), "{error}");
    }
}
