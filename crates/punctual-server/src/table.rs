//! All commands: the keyspace's rows and the server's own, found by name.

use std::sync::LazyLock;

use punctual_resp::{Args, Reply};
use punctual_store::spec::{Flags, Row};
use punctual_store::{Command, Error};
use std::collections::HashMap;

use crate::call::Call;
use crate::command;

/// What runs one of the server's own commands.
pub type ServerHandler = fn(&mut Call<'_, '_>, Args<'_>, &mut Reply<'_>) -> Result<(), Error>;

/// A row of one of the server's own commands.
pub type ServerCommand = Row<ServerHandler>;

/// What a row says of shard channels: they have slots, as keys have, and are none.
pub(crate) const NOT_KEYS: &[&str] = &["not_key"];

/// Longest command name that is looked up.
const NAME_MAX: usize = 32;

/// Who runs a command.
#[derive(Clone, Copy)]
pub enum Run {
    /// The keyspace, under the locks its keys need.
    Keyspace(&'static Command),
    /// The server.
    Server(ServerHandler),
    /// A container, which needs a subcommand.
    Nobody,
}

/// A command or subcommand in the table.
pub struct Entry {
    /// Dense number, for statistics.
    pub id: usize,
    /// Lower case; subcommands as `client|id`.
    pub name: String,
    /// Its facts; the handler is in `run`.
    pub row: Row<()>,
    /// Who runs it.
    pub run: Run,
    /// Subcommands.
    pub subcommands: Vec<Entry>,
}

/// The table.
pub struct CommandTable {
    commands: Vec<Entry>,
    by_name: HashMap<String, usize, ahash::RandomState>,
    entries: usize,
    /// Full names by id.
    names: Vec<String>,
    /// Commands of the keyspace by id.
    keyspace: Vec<Option<&'static Command>>,
}

/// The one table of the process.
pub static TABLE: LazyLock<CommandTable> = LazyLock::new(CommandTable::new);

impl CommandTable {
    fn new() -> Self {
        let mut next_id = 0;
        let mut commands = Vec::new();
        for row in punctual_store::command::FAMILIES
            .iter()
            .flat_map(|f| f.iter())
        {
            commands.push(entry(row, "", &mut next_id, &|row| Run::Keyspace(row)));
        }
        for row in command::FAMILIES.iter().flat_map(|f| f.iter()) {
            let mut new = entry(row, "", &mut next_id, &|row: &ServerCommand| {
                row.handler.map_or(Run::Nobody, Run::Server)
            });
            // A container may have subcommands on the keyspace and of the server (MEMORY).
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
        Self {
            by_name,
            entries: next_id,
            names,
            keyspace,
            commands,
        }
    }

    /// How many commands and subcommands there are: ids are below.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// The name of the command or subcommand with this id. O(1).
    pub(crate) fn name_of(&self, id: usize) -> Option<&str> {
        self.names.get(id).map(String::as_str)
    }

    /// The command of the keyspace with this id. O(1).
    pub(crate) fn keyspace_command(&self, id: usize) -> Option<&'static Command> {
        *self.keyspace.get(id)?
    }

    /// Top-level commands.
    pub fn commands(&self) -> &[Entry] {
        &self.commands
    }

    /// All commands and subcommands, each container before its own.
    pub fn all(&self) -> impl Iterator<Item = &Entry> {
        self.commands
            .iter()
            .flat_map(|e| std::iter::once(e).chain(&e.subcommands))
    }

    /// A top-level command by name, in any case. O(1).
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
    /// A subcommand by its own name, in any case.
    pub fn subcommand(&self, name: &[u8]) -> Option<&Self> {
        self.subcommands
            .iter()
            .find(|e| e.row.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Whether it may change the keyspace or what others see of it: what CLIENT PAUSE WRITE holds back.
    pub fn writes(&self) -> bool {
        self.row.flags.has(Flags::WRITE) || self.row.flags.has(Flags::MAY_REPLICATE)
    }

    /// Refuses a wrong number of arguments.
    #[inline]
    pub(crate) fn check_arity(&self, args: Args<'_>) -> Result<(), (Option<&Self>, Error)> {
        if self.row.takes(args.len()) && !matches!(self.run, Run::Nobody) {
            Ok(())
        } else {
            Err((Some(self), Error::Arity(self.name.clone().into())))
        }
    }
}

fn entry<H: Copy + 'static>(
    row: &'static Row<H>,
    container: &str,
    next_id: &mut usize,
    run: &impl Fn(&'static Row<H>) -> Run,
) -> Entry {
    let id = *next_id;
    *next_id += 1;
    let name = if container.is_empty() {
        row.name.to_owned()
    } else {
        format!("{container}|{}", row.name)
    };
    let subcommands = row
        .subcommands
        .iter()
        .map(|sub| entry(sub, &name, next_id, run))
        .collect();
    Entry {
        id,
        row: Row {
            name: row.name,
            arity: row.arity,
            flags: row.flags,
            keys: row.keys,
            access: row.access,
            tips: row.tips,
            group: row.group,
            categories: row.categories,
            since: row.since,
            summary: row.summary,
            complexity: row.complexity,
            history: row.history,
            deprecated: row.deprecated,
            internal: row.internal,
            handler: row.handler.map(|_| ()),
            subcommands: &[],
        },
        run: if row.handler.is_some() {
            run(row)
        } else {
            Run::Nobody
        },
        name,
        subcommands,
    }
}
