//! Own commands whose declaration is known only at run time, as in bindings for other languages.

use punctual_store::spec::{Flags, Group, Keys, Row, syntax};

use crate::acl::categories;
use crate::table::CommandTable;

/// Flags that a declaration may have, besides one of `write` and `readonly`.
const FLAGS: [&str; 8] = [
    "denyoom",
    "fast",
    "noscript",
    "no_multi",
    "loading",
    "stale",
    "skip_slowlog",
    "admin",
];

/// The declaration of an own command, for [`Builder::command`](crate::Builder::command).
///
/// ```
/// use punctual_server::{Declaration, Parameter, Server, Value};
///
/// let take = Declaration {
///     name: "take".to_owned(),
///     parameters: vec![Parameter::Required("key".to_owned()), Parameter::Optional("amount".to_owned())],
///     flags: vec!["write".to_owned()],
///     keys: Some((1, 1, 1)),
///     summary: "Takes an amount.".to_owned(),
///     ..Declaration::default()
/// };
/// let server = Server::builder().port(0).command(take.row()?, |_| Value::Int(1)).spawn()?;
/// assert_eq!(server.call(&["TAKE", "stock"])?, Value::Int(1));
/// assert!(take.accepts(3) && !take.accepts(4));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Declaration {
    /// Name in lower case.
    pub name: String,
    /// Parameters; COMMAND DOCS shows their names.
    pub parameters: Vec<Parameter>,
    /// Flags by their names in COMMAND INFO: `write` or `readonly`, and any of `denyoom`, `fast`,
    /// `noscript`, `no_multi`, `loading`, `stale`, `skip_slowlog` and `admin`.
    pub flags: Vec<String>,
    /// Positions of the first and the last key, and the distance between two keys. A negative last
    /// position counts from the end.
    pub keys: Option<(usize, i32, usize)>,
    /// ACL categories without `@`, besides those that follow from the flags.
    pub categories: Vec<String>,
    /// One-line description.
    pub summary: String,
    /// Time complexity.
    pub complexity: String,
}

/// A parameter of an own command. Required parameters come first, and the rest comes last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// An argument that every call has.
    Required(String),
    /// An argument that a call may leave out.
    Optional(String),
    /// Any number of arguments.
    Rest(String),
}

/// Error of a declaration. The messages begin with the name of the wrong part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeclarationError {
    /// The name has other characters than a to z, digits, `.`, `_` and `-`, or is too long.
    #[error(
        "name: '{0}' is not a command's name: use lower-case letters, digits, '.', '_' and '-'"
    )]
    Name(String),
    /// The server has a command with this name.
    #[error("name: the server has a command '{0}'")]
    Exists(String),
    /// No flag, or no flag of own commands, has this name.
    #[error("flags: an own command cannot have the flag '{0}'")]
    Flag(String),
    /// Neither or both of the flags `write` and `readonly`.
    #[error("flags: a command has either the flag 'write' or the flag 'readonly'")]
    Access,
    /// No ACL category has this name.
    #[error("categories: there is no ACL category '{0}'")]
    Category(String),
    /// The positions do not name arguments.
    #[error("keys: positions begin at 1, and the last one is not before the first one")]
    Keys,
    /// COMMAND DOCS cannot show a parameter of this name.
    #[error("parameters: '{0}' is not a parameter's name: use lower-case letters, digits and '_'")]
    Parameter(String),
}

impl Declaration {
    /// Returns the row. Its texts are in memory until the process ends.
    ///
    /// # Errors
    /// A part of the declaration is wrong.
    pub fn row(&self) -> Result<Row<()>, DeclarationError> {
        if !CommandTable::is_valid_name(&self.name) {
            return Err(DeclarationError::Name(self.name.clone()));
        }
        if super::table().get(self.name.as_bytes()).is_some() {
            return Err(DeclarationError::Exists(self.name.clone()));
        }
        let group = Group::Generic;
        let mut row = Row::new(leak(&self.name), self.arity(), self.flags()?, group, ())
            .doc("1.0.0", leak(&self.complexity), leak(&self.summary))
            .syntax(leak(&self.syntax()?));
        if let Some((first, last, step)) = self.keys {
            let is_ordered = usize::try_from(last).is_ok_and(|last| last >= first) || last < 0;
            if first == 0 || step == 0 || !is_ordered {
                return Err(DeclarationError::Keys);
            }
            row.facts.keys = Keys::Range { first, last, step };
        }
        let mut known = Vec::new();
        for category in &self.categories {
            let name = categories::NAMES.iter().find(|name| *name == category);
            known.push(*name.ok_or_else(|| DeclarationError::Category(category.clone()))?);
        }
        Ok(row.categories(known.leak()))
    }

    /// Returns true if the command takes this number of arguments, including its name.
    pub fn accepts(&self, count: usize) -> bool {
        let rest = self
            .parameters
            .iter()
            .any(|p| matches!(p, Parameter::Rest(_)));
        count > self.required() && (rest || count <= self.parameters.len() + 1)
    }

    fn required(&self) -> usize {
        let required = |p: &&Parameter| matches!(p, Parameter::Required(_));
        self.parameters.iter().filter(required).count()
    }

    fn arity(&self) -> i32 {
        let least = i32::try_from(self.required() + 1).unwrap_or(i32::MAX);
        match self.required() == self.parameters.len() {
            true => least,
            false => -least,
        }
    }

    fn flags(&self) -> Result<Flags, DeclarationError> {
        let mut flags = Flags::NONE;
        for name in &self.flags {
            let known = Flags::named(name)
                .filter(|flag| {
                    FLAGS.contains(&name.as_str()) || Flags::WRITE.or(Flags::READONLY).has(*flag)
                })
                .ok_or_else(|| DeclarationError::Flag(name.clone()))?;
            flags = flags | known;
        }
        match flags.has(Flags::WRITE) == flags.has(Flags::READONLY) {
            true => Err(DeclarationError::Access),
            false => Ok(flags),
        }
    }

    /// Returns the parameters in the notation of [`syntax`].
    fn syntax(&self) -> Result<String, DeclarationError> {
        let words = self.parameters.iter().map(|parameter| {
            let (Parameter::Required(name) | Parameter::Optional(name) | Parameter::Rest(name)) =
                parameter;
            let word = name
                .trim_matches('_')
                .replace('_', "-")
                .to_ascii_lowercase();
            let is_word = word.starts_with(|c: char| c.is_ascii_lowercase())
                && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
            if !is_word {
                return Err(DeclarationError::Parameter(name.clone()));
            }
            Ok(match parameter {
                Parameter::Required(_) => word,
                Parameter::Optional(_) => format!("[{word}]"),
                Parameter::Rest(_) => format!("[{word} ...]"),
            })
        });
        let syntax = words.collect::<Result<Vec<_>, _>>()?.join(" ");
        debug_assert!(syntax::parse(&syntax).is_ok(), "{syntax}");
        Ok(syntax)
    }
}

fn leak(text: &str) -> &'static str {
    text.to_owned().leak()
}
