//! All commands: the keyspace's rows and the server's own, found by name.

use std::collections::HashMap;

use punctual_resp::Args;
use punctual_store::spec::{Facts, Flags, Row};
use punctual_store::{Command, Error};

/// Access of rows whose keys are shard channels: they have hash slots and are no keys.
pub(crate) const NOT_KEYS: &[&str] = &["not_key"];

/// Longest command name that is looked up.
const NAME_MAX: usize = 32;

/// How a command runs.
#[derive(Clone, Copy)]
pub enum Run {
    /// On the keyspace, under the locks that its keys need.
    Keyspace(&'static Command),
    /// By the handler with this number among the server's own.
    Server(usize),
    /// Not at all: a container needs a subcommand.
    Container,
}

/// A command or subcommand in the table.
pub struct Entry {
    /// Dense number, for statistics.
    pub id: usize,
    /// Lower case; subcommands as `client|id`.
    pub name: String,
    /// Metadata.
    pub row: &'static Facts,
    /// How it runs.
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

impl CommandTable {
    /// Creates the table of the keyspace's commands and the server's own, whose handlers have the numbers of their order in
    /// the second result.
    pub(crate) fn new<H: Copy>(families: &'static [&'static [Row<H>]]) -> (Self, Vec<H>) {
        let mut handlers = Vec::new();
        let mut next_id = 0;
        let mut commands = Vec::new();
        for row in punctual_store::command::FAMILIES
            .iter()
            .flat_map(|f| f.iter())
        {
            commands.push(entry(row, "", &mut next_id, &mut Run::Keyspace));
        }
        for row in families.iter().flat_map(|f| f.iter()) {
            let mut new = entry(row, "", &mut next_id, &mut |row: &Row<H>| {
                handlers.extend(row.handler);
                Run::Server(handlers.len() - 1)
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
        let table = Self {
            by_name,
            entries: next_id,
            names,
            keyspace,
            commands,
        };
        (table, handlers)
    }

    /// How many commands and subcommands there are: ids are below.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// The name of the command or subcommand with this id. O(1).
    pub(crate) fn name_of(&self, id: usize) -> Option<&str> {
        self.names.get(id).map(String::as_str)
    }

    /// The command or subcommand with this id. O(n).
    pub(crate) fn entry(&self, id: usize) -> Option<&Entry> {
        self.all().find(|entry| entry.id == id)
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
        run: own,
        name,
        subcommands,
    }
}
