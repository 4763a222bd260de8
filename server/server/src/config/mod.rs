//! Configuration: redis.conf, options of the command line, CONFIG GET, SET and REWRITE.
//!
//! - One table (`table`) has a row for each directive. Files, options, CONFIG GET, CONFIG SET and
//!   CONFIG REWRITE all follow this row. A directive is implemented, or accepted without effect and
//!   named in a warning at start (`Effect`).
//! - Hot paths read the plain fields of [`Settings`], which is rebuilt after each change and shared
//!   by `Arc`.
//! - CONFIG SET is atomic: [`Config::set`] checks every pair first, and [`Config::undo`] reverts
//!   the change when the server cannot apply it.
//! - This module only stores values: it binds no socket, changes no directory and writes no log
//!   line. Other modules apply the values.
//!
//! `source` reads files, `invocation` the command line, and `quoting` splits both into words;
//! `parse` and `value` convert between words and values; `rewrite` updates the user's file.

mod cluster;
mod directive;
mod error;
mod invocation;
mod metrics;
mod parse;
pub(crate) mod quoting;
mod rewrite;
mod settings;
mod source;
mod table;
#[cfg(test)]
mod tests;
mod tls;
mod ttl_rules;
mod value;

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use punctual_store::glob;

pub(crate) use self::cluster::Shown;
pub use self::cluster::{ClusterSettings, Endpoint};
pub(crate) use self::error::io_reason;
pub use self::error::{ConfigError, Place, RewriteError, SetError};
pub use self::invocation::{Invocation, Override};
pub use self::metrics::MetricsSettings;
pub(crate) use self::rewrite::replace as replace_file;
pub use self::settings::{
    AppendSync, BindAddress, ClockKind, HugePages, Permission, ReplicaSettings, Settings,
    ShutdownOptions, Supervised,
};
pub(crate) use self::source::names;
pub use self::tls::{AuthClients, TlsSettings};
pub use self::value::{OutputLimit, SavePoint};

use self::directive::{Change, Effect};
use self::settings::Values;
use self::source::Reader;
use self::table::DIRECTIVES;
use self::value::Value;

/// The values of all directives, and the path of the configuration file.
#[derive(Debug, Clone)]
pub struct Config {
    /// One value for each row of the table, in the same order.
    values: Vec<Value>,
    defaults: Arc<[Value]>,
    settings: Arc<Settings>,
    /// The `rename-command` lines, in order.
    renames: Vec<Rename>,
    /// The `user` and `role` lines, in order.
    accounts: Vec<AccountLine>,
    /// The `user` and `role` lines that CONFIG REWRITE writes; with `None` the file keeps its own
    /// lines.
    rewritten_accounts: Option<Vec<Vec<u8>>>,
    /// Absolute path of the file that CONFIG REWRITE writes.
    file: Option<PathBuf>,
}

/// A `rename-command` line. The server checks the names against its commands when it starts.
#[derive(Debug, Clone)]
pub(crate) struct Rename {
    pub(crate) from: Vec<u8>,
    /// New name; empty if the command is disabled.
    pub(crate) to: Vec<u8>,
    place: Place,
    line: String,
}

impl Rename {
    /// Returns the error that refuses this line with `reason`.
    pub(crate) fn refused(&self, reason: &str) -> ConfigError {
        ConfigError::Line {
            place: self.place.clone(),
            line: self.line.clone(),
            reason: reason.to_owned(),
        }
    }
}

/// A `user` or `role` line. The server applies the rules when it starts.
#[derive(Debug, Clone)]
pub(crate) struct AccountLine {
    pub(crate) is_role: bool,
    pub(crate) name: Vec<u8>,
    pub(crate) rules: Vec<Vec<u8>>,
    place: Place,
    line: String,
}

impl AccountLine {
    /// Returns the error that refuses this line with `reason`.
    pub(crate) fn refused(&self, reason: &str) -> ConfigError {
        ConfigError::Line {
            place: self.place.clone(),
            line: self.line.clone(),
            reason: reason.to_owned(),
        }
    }
}

/// Changes made by [`Config::set`].
#[derive(Debug)]
#[must_use = "changes must be applied"]
pub struct Changes {
    /// Names (not aliases) of the directives whose values changed, in the order of the call. A
    /// directive that names a file is listed even with the same value, because its file is read
    /// again.
    pub names: Vec<&'static str>,
    before: Vec<Value>,
}

impl Changes {
    /// Returns true if the directive `name` changed.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.names.contains(&name)
    }
}

impl Config {
    /// Creates a configuration with the default of every directive.
    ///
    /// # Errors
    /// Returns [`ConfigError::CurrentDirectory`] if the current directory, which is the default of
    /// `dir`, cannot be determined.
    pub fn new() -> Result<Self, ConfigError> {
        let here = std::env::current_dir().map_err(ConfigError::CurrentDirectory)?;
        let values: Vec<Value> = DIRECTIVES
            .iter()
            .map(|directive| default_value(directive, &here))
            .collect();
        Ok(Self {
            settings: Arc::new(Settings::from_values(&values)),
            defaults: values.clone().into(),
            values,
            renames: Vec::new(),
            accounts: Vec::new(),
            rewritten_accounts: None,
            file: None,
        })
    }

    /// Reads the command line (without the program's name), its configuration file and, with `-`,
    /// standard input.
    ///
    /// # Errors
    /// Returns an error for the first invalid directive, with its place, for a file or standard
    /// input that cannot be read, and for a current directory that cannot be determined.
    ///
    /// ```
    /// use punctual_server::config::Config;
    ///
    /// let config = Config::from_args(["--port", "7000", "--save", "60 1"])?;
    /// assert_eq!(config.settings().port, 7000);
    /// let error = Config::from_args(["--prot", "7000"]).unwrap_err();
    /// assert!(error.to_string().contains("did you mean 'port'?"));
    /// # Ok::<(), punctual_server::config::ConfigError>(())
    /// ```
    pub fn from_args<I>(args: I) -> Result<Self, ConfigError>
    where
        I: IntoIterator,
        I::Item: Into<OsString>,
    {
        Self::from_invocation(&Invocation::parse(args)?, &mut std::io::stdin().lock())
    }

    /// Reads the sources of a command line: the file, then `stdin`, then the options.
    ///
    /// # Errors
    /// Returns the errors of [`Config::from_args`].
    pub fn from_invocation(
        invocation: &Invocation,
        stdin: &mut impl Read,
    ) -> Result<Self, ConfigError> {
        let mut config = Self::new()?;
        if let Some(path) = &invocation.file {
            config.file = Some(config.settings.dir.join(path));
        }
        let file = config.file.clone();
        let mut reader = Reader::new(&mut config);
        if let Some(path) = &file {
            reader.file(path)?;
        }
        if invocation.stdin {
            let mut text = Vec::new();
            stdin
                .read_to_end(&mut text)
                .map_err(|source| ConfigError::Open {
                    path: "standard input".into(),
                    source,
                })?;
            reader.text(&text, "standard input")?;
        }
        for option in &invocation.overrides {
            reader.option(option)?;
        }
        Ok(config)
    }

    /// Reads more configuration text; `origin` names it in errors.
    ///
    /// # Errors
    /// Returns the errors of [`Config::from_args`].
    pub fn load(&mut self, text: &[u8], origin: &str) -> Result<(), ConfigError> {
        Reader::new(self).text(text, origin)
    }

    /// Sets one directive of an embedded server. Several values are one text, separated by spaces.
    /// For `rename-command`, `user` and `role`, the text is split and unquoted like a line of a
    /// file: `KEYS ""`.
    ///
    /// # Errors
    /// Returns the errors of [`Config::from_args`].
    pub fn option(&mut self, name: &str, value: &str) -> Result<(), ConfigError> {
        let several = ["rename-command", "user", "role"]
            .iter()
            .any(|s| name.eq_ignore_ascii_case(s));
        let values = if several {
            quoting::split(value.as_bytes())
        } else {
            None
        };
        let mut words = vec![name.into()];
        words.extend(values.unwrap_or_else(|| vec![value.into()]));
        let option = Override {
            argument: name.to_owned(),
            words,
        };
        Reader::new(self)
            .option(&option)
            .map_err(|error| match error {
                ConfigError::Line {
                    place: Place::Argument(name),
                    line,
                    reason,
                } => ConfigError::Line {
                    place: Place::Program(name),
                    line,
                    reason,
                },
                other => other,
            })
    }

    /// Returns the directives that the server uses as plain fields. O(1): all callers share one
    /// value until the next change.
    #[must_use]
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings)
    }

    /// Returns the `rename-command` lines, in order.
    pub(crate) fn renames(&self) -> &[Rename] {
        &self.renames
    }

    /// Returns the `user` and `role` lines, in order.
    pub(crate) fn accounts(&self) -> &[AccountLine] {
        &self.accounts
    }

    /// Sets the `user` and `role` lines that the next CONFIG REWRITE writes.
    pub(crate) fn set_accounts(&mut self, lines: Vec<Vec<u8>>) {
        self.rewritten_accounts = Some(lines);
    }

    /// Returns the absolute path of the configuration file.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Returns the directives with non-default values that have no effect in this version, for a
    /// warning at start.
    #[must_use]
    pub fn without_effect(&self) -> Vec<&'static str> {
        DIRECTIVES
            .iter()
            .zip(&self.values)
            .zip(self.defaults.iter())
            .filter(|((directive, value), default)| {
                directive.effect == Effect::Accepted && value != default
            })
            .map(|((directive, _), _)| directive.name)
            .collect()
    }

    /// Returns each directive that matches a pattern, once, with its value (CONFIG GET).
    ///
    /// As in Redis, a pattern without wildcards also finds hidden directives. A directive that
    /// several patterns match is listed once, under the name and the case of the first match.
    /// **O(patterns · directives²)**.
    pub fn get<'p>(&self, patterns: impl IntoIterator<Item = &'p [u8]>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut add = |name: &[u8], value: &Value| {
            if !found
                .iter()
                .any(|(known, _)| known.eq_ignore_ascii_case(name))
            {
                found.push((name.to_vec(), value.display()));
            }
        };
        for pattern in patterns {
            if !pattern.iter().any(|byte| b"[*?".contains(byte)) {
                if let Some((index, _)) = table::find(pattern) {
                    add(pattern, &self.values[index]);
                }
                continue;
            }
            for (directive, value) in DIRECTIVES.iter().zip(&self.values) {
                for name in directive.names() {
                    if !directive.hidden && glob::matches_nocase(pattern, name.as_bytes()) {
                        add(name.as_bytes(), value);
                    }
                }
            }
        }
        found
    }

    /// Returns true if the value of this directive is a secret, hidden from the slow log and
    /// MONITOR.
    #[must_use]
    pub fn is_sensitive(name: &[u8]) -> bool {
        table::find(name).is_some_and(|(_, directive)| directive.sensitive)
    }

    /// Sets all pairs, or no pair (CONFIG SET). With `enable-protected-configs local` only a caller
    /// on this machine may set protected directives. While the server is `loading`, some directives
    /// cannot change.
    ///
    /// # Errors
    /// Returns Redis's errors, in Redis's order of checks. After an error no value has changed.
    pub fn set(
        &mut self,
        pairs: &[(&[u8], &[u8])],
        caller_is_local: bool,
        loading: bool,
    ) -> Result<Changes, SetError> {
        let shown = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let protected_allowed = Values(&self.values)
            .permission("enable-protected-configs")
            .allows(caller_is_local);
        // All names are checked before the first value is parsed, so that an unknown name is
        // reported even if the value of an earlier pair is invalid.
        let mut rows = Vec::with_capacity(pairs.len());
        for (name, value) in pairs {
            let Some((index, directive)) = table::find(name) else {
                return Err(SetError::Unknown(name.to_vec()));
            };
            let refusal = match directive.change {
                Change::AtStart => Some("can't set immutable config"),
                Change::Protected if !protected_allowed => Some("can't set protected config"),
                _ if rows.iter().any(|(known, _, _)| *known == index) => {
                    Some("duplicate parameter")
                }
                _ => None,
            };
            if let Some(reason) = refusal {
                return Err(SetError::refused(shown(name), reason));
            }
            if loading && directive.not_while_loading {
                return Err(SetError::Loading);
            }
            rows.push((index, directive, *value));
        }
        let mut values = self.values.clone();
        for &(index, directive, text) in &rows {
            let words: Vec<&[u8]> = match directive.kind.takes_words() {
                true if text.is_empty() => Vec::new(),
                true => text.split(|byte| *byte == b' ').collect(),
                false => vec![text],
            };
            let refused = |reason| SetError::refused(directive.name, reason);
            let value = directive
                .kind
                .parse(&words, Some(&values[index]))
                .map_err(refused)?;
            values[index] = value;
        }
        let names = rows
            .iter()
            .filter(|(index, directive, _)| {
                directive.reread || self.values[*index] != values[*index]
            })
            .map(|(_, directive, _)| directive.name)
            .collect();
        let before = std::mem::replace(&mut self.values, values);
        self.refresh();
        Ok(Changes { names, before })
    }

    /// Sets `replicaof` for the command REPLICAOF; CONFIG SET refuses this directive.
    pub(crate) fn set_primary(&mut self, primary: Option<(&str, u16)>) {
        if let Some((index, _)) = table::find(b"replicaof") {
            self.values[index] = Value::Words(match primary {
                None => Vec::new(),
                Some((host, port)) => vec![host.into(), port.to_string().into()],
            });
            self.refresh();
        }
    }

    /// Reverts the latest [`Config::set`], whose changes could not be applied.
    pub fn undo(&mut self, changes: Changes) {
        self.values = changes.before;
        self.refresh();
    }

    fn refresh(&mut self) {
        self.settings = Arc::new(Settings::from_values(&self.values));
    }
}

/// Returns the default value of a directive; a test checks that every default parses.
fn default_value(directive: &directive::Directive, here: &Path) -> Value {
    use std::os::unix::ffi::OsStrExt as _;
    if matches!(directive.kind, value::Kind::Directory) {
        return Value::Text(here.as_os_str().as_bytes().to_vec());
    }
    let words: Vec<&[u8]> = match directive.kind.takes_words() {
        true => directive
            .default
            .split_ascii_whitespace()
            .map(str::as_bytes)
            .collect(),
        false => vec![directive.default.as_bytes()],
    };
    directive
        .kind
        .parse(&words, None)
        .unwrap_or_else(|_| Value::Text(directive.default.as_bytes().to_vec()))
}
