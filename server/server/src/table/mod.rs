//! The command table: the rows of the keyspace's commands and of the server's commands, by name. A
//! row declares a command: name, arity, flags, keys, documentation and handler.
//!
//! An [`Entry`] has the facts of a row, and a number in place of the server's handler. So code that
//! counts, queues or shows commands does not depend on the handlers. Code should test a row's flags
//! rather than a command's name. The table does not change while the server runs; `names` applies
//! `rename-command` on top of it.

pub(crate) mod access;
pub(crate) mod names;

use std::collections::HashMap;

use punctual_resp::Args;
use punctual_store::spec::{Facts, Flags, Row};
use punctual_store::{Command, Error};

use crate::table::access::Needs;

/// Maximum length of a command name in bytes.
const NAME_MAX: usize = 32;

/// The way in which a command is executed.
#[derive(Clone, Copy)]
pub enum Run {
    /// The store executes it on the keyspace, under the locks of its keys.
    Keyspace(&'static Command),
    /// The server's handler with this number executes it.
    Server(usize),
    /// It cannot be executed: a container needs a subcommand.
    Container,
}

/// A command or subcommand in the table.
pub struct Entry {
    /// Number from 0 without gaps, used as an index of statistics.
    pub id: usize,
    /// Name in lower case; a subcommand's name contains its container: `client|id`.
    pub name: String,
    /// Facts of the row: arity, flags, keys, documentation.
    pub row: &'static Facts,
    /// Permissions that the command needs for its keys.
    pub(crate) needs: Needs,
    /// Position of the command's only key, which decides the slot in cluster mode; 0 if the command
    /// may have several keys or is not allowed in cluster mode.
    pub(crate) slot_key: usize,
    /// The way in which the command is executed.
    pub run: Run,
    /// Subcommands; empty if the command is not a container.
    pub subcommands: Vec<Entry>,
}

/// All commands and subcommands.
pub struct CommandTable {
    commands: Vec<Entry>,
    by_name: HashMap<String, usize, ahash::RandomState>,
    entries: usize,
    /// Full names, indexed by id.
    names: Vec<String>,
    /// Commands of the keyspace, indexed by id.
    keyspace: Vec<Option<&'static Command>>,
}

impl CommandTable {
    /// Creates the table from the keyspace's commands, the server's `families`, and the embedding
    /// program's commands. Also returns the server's handlers, indexed by their numbers.
    pub(crate) fn new<H: Copy>(
        families: &'static [&'static [Row<H>]],
        embedder: &'static [Row<H>],
    ) -> (Self, Vec<H>) {
        let mut handlers = Vec::new();
        let mut next_id = 0;
        let mut commands = Vec::new();
        for row in punctual_store::command::FAMILIES
            .iter()
            .flat_map(|f| f.iter())
        {
            commands.push(entry(row, "", &mut next_id, &mut Run::Keyspace));
        }
        for row in families.iter().flat_map(|f| f.iter()).chain(embedder) {
            let mut new = entry(row, "", &mut next_id, &mut |row: &Row<H>| {
                handlers.extend(row.handler);
                Run::Server(handlers.len() - 1)
            });
            // MEMORY is in both lists: it has subcommands of the keyspace and of the server.
            match commands
                .iter_mut()
                .find(|e: &&mut Entry| e.name == new.name)
            {
                Some(known) => known.subcommands.append(&mut new.subcommands),
                None => commands.push(new),
            }
        }
        let by_name = commands
            .iter()
            .enumerate()
            .map(|(at, e): (usize, &Entry)| (e.name.clone(), at))
            .collect();
        let mut names = vec![String::new(); next_id];
        let mut keyspace = vec![None; next_id];
        let subcommands = commands.iter().flat_map(|e: &Entry| &e.subcommands);
        for entry in commands.iter().chain(subcommands) {
            names[entry.id].clone_from(&entry.name);
            if let Run::Keyspace(command) = entry.run {
                keyspace[entry.id] = Some(command);
            }
        }
        let table = Self {
            by_name,
            entries: next_id,
            names,
            keyspace,
            commands,
        };
        (table, handlers)
    }

    /// Returns true if a command can have this name: at most [`NAME_MAX`] lower-case letters,
    /// digits, and the characters `.`, `_` and `-`.
    pub(crate) fn is_valid_name(name: &str) -> bool {
        let is_valid = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-');
        (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(is_valid)
    }

    /// Returns the number of commands and subcommands. All ids are smaller.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Returns the name of the command or subcommand with this id. O(1).
    pub(crate) fn name_of(&self, id: usize) -> Option<&str> {
        self.names.get(id).map(String::as_str)
    }

    /// Returns the command or subcommand with this id. O(commands).
    pub(crate) fn entry(&self, id: usize) -> Option<&Entry> {
        self.all().find(|entry| entry.id == id)
    }

    /// Returns the keyspace command with this id. O(1).
    pub(crate) fn keyspace_command(&self, id: usize) -> Option<&'static Command> {
        *self.keyspace.get(id)?
    }

    /// Returns the top-level commands.
    pub fn commands(&self) -> &[Entry] {
        &self.commands
    }

    /// Returns all commands and subcommands, each container before its subcommands.
    pub fn all(&self) -> impl Iterator<Item = &Entry> {
        self.commands
            .iter()
            .flat_map(|e| std::iter::once(e).chain(&e.subcommands))
    }

    /// Returns the top-level command with this name, ignoring case. O(1).
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<&Entry> {
        let mut lower = [0; NAME_MAX];
        let lower = lower.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        let lower = std::str::from_utf8(lower).ok()?;
        self.by_name.get(lower).map(|&at| &self.commands[at])
    }
}

impl Entry {
    /// Returns the subcommand with this name, ignoring case.
    pub fn subcommand(&self, name: &[u8]) -> Option<&Self> {
        self.subcommands
            .iter()
            .find(|e| e.row.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Returns the number of words in the name: two for a subcommand, otherwise one.
    #[inline]
    pub(crate) fn words(&self) -> usize {
        1 + usize::from(self.name.len() > self.row.name.len())
    }

    /// Returns true if the arguments begin with this name, ignoring case. O(length of the name).
    #[inline]
    pub(crate) fn is_called_by(&self, args: Args<'_>) -> bool {
        // `name` is in lower case.
        let is = |name: &[u8], word: &[u8]| {
            let mut pairs = name.iter().zip(word);
            name.len() == word.len() && pairs.all(|(a, b)| *a == b.to_ascii_lowercase())
        };
        let last = self.row.name.as_bytes();
        match self.name.len() - last.len() {
            0 => is(last, args.at(0)),
            // The full name begins with the container's name and a bar.
            before => {
                let container = &self.name.as_bytes()[..before - 1];
                args.len() > 1 && is(container, args.at(0)) && is(last, args.at(1))
            }
        }
    }

    /// Returns true if the command may change the keyspace or publish messages.
    pub fn writes(&self) -> bool {
        self.row.flags.has(Flags::WRITE) || self.row.flags.has(Flags::MAY_REPLICATE)
    }

    /// Returns an error if the number of arguments is wrong, or if a container lacks its
    /// subcommand.
    #[inline]
    pub(crate) fn check_arity(&self, args: Args<'_>) -> Result<(), (Option<&Self>, Error)> {
        if self.row.takes(args.len()) && !matches!(self.run, Run::Container) {
            Ok(())
        } else {
            Err((Some(self), Error::Arity(self.name.clone().into())))
        }
    }
}

fn entry<H>(
    row: &'static Row<H>,
    container: &str,
    next_id: &mut usize,
    run: &mut impl FnMut(&'static Row<H>) -> Run,
) -> Entry {
    let id = *next_id;
    *next_id += 1;
    let name = if container.is_empty() {
        row.name.to_owned()
    } else {
        format!("{container}|{}", row.name)
    };
    let own = if row.container {
        Run::Container
    } else {
        run(row)
    };
    let subcommands = row
        .subcommands
        .iter()
        .map(|sub| entry(sub, &name, next_id, run))
        .collect();
    Entry {
        id,
        row: &row.facts,
        needs: Needs::from_row(&row.facts),
        slot_key: match row.flags.has(Flags::NO_CLUSTER) {
            true => 0,
            false => row.keys.only().unwrap_or(0),
        },
        run: own,
        name,
        subcommands,
    }
}
