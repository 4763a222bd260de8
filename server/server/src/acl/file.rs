//! Users and roles in files: `aclfile`, and the `user` and `role` lines of redis.conf. Roles are
//! read first, so a file may have its lines in any order.

use std::path::Path;
use std::sync::Arc;

use crate::acl::registry::{Accounts, Users};
use crate::acl::rules::{RuleError, Surroundings, has_spaces, merged, refuse_role_name};
use crate::config::{AccountLine, Config, ConfigError, Settings, io_reason, replace_file};
use crate::log::{self, Logger};
use crate::table::CommandTable;
use crate::world::disk::Disk;

/// Error of the configured users that prevents the server from starting.
#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    /// A `user` or `role` line has the name of an earlier line or a forbidden name, has an
    /// unmatched parenthesis, or has a rule that cannot be applied.
    #[error(transparent)]
    Line(#[from] ConfigError),
    /// Users are defined both in redis.conf and in an ACL file.
    #[error(
        "Configuring Redis with users defined in redis.conf and at the same setting an ACL file path is invalid. This setup \
         is very likely to lead to configuration errors and security holes, please define either an ACL file or declare \
         users directly in your redis.conf, but not both."
    )]
    Both,
    /// The ACL file cannot be read, or has errors. Contains Redis's text.
    #[error("Aborting Redis startup because of ACL errors: {0}")]
    File(String),
}

impl Users {
    /// Creates the users of a configuration.
    ///
    /// # Errors
    /// Returns an error for a user that cannot be created. As in Redis, such an error prevents the
    /// start.
    pub(crate) fn from_config(
        table: &'static CommandTable,
        config: &Config,
        disk: &Disk,
        logger: &Logger,
    ) -> Result<Self, UsersError> {
        let settings = config.settings();
        let users = Self::new(table, &settings);
        if settings.acl_file.is_some() && !config.accounts().is_empty() {
            return Err(UsersError::Both);
        }
        for is_role in [true, false] {
            let mut seen: Vec<&[u8]> = Vec::new();
            let lines = config.accounts().iter();
            for line in lines.filter(|line| line.is_role == is_role) {
                if seen.contains(&&line.name[..]) {
                    let kind = kind(is_role);
                    let reason = format!(
                        "Duplicate {kind} found. A {kind} can only be defined once in config files"
                    );
                    return Err(declaration(line, &line.name, &reason).into());
                }
                seen.push(&line.name);
                users.create(line, &settings, logger)?;
            }
        }
        if let Some(file) = &settings.acl_file {
            let loaded = users
                .read(disk, file, &settings, logger)
                .map_err(UsersError::File)?;
            users.replace(loaded);
        }
        Ok(users)
    }

    /// Creates the user or the role of a line of redis.conf, or changes the default user.
    fn create(
        &self,
        line: &AccountLine,
        settings: &Settings,
        logger: &Logger,
    ) -> Result<(), ConfigError> {
        match line.is_role {
            true => {
                if let Some(reason) = refuse_role_name(&line.name) {
                    return Err(line.refused(reason));
                }
            }
            false if has_spaces(&line.name) => {
                return Err(line.refused("Spaces not allowed in ACL usernames"));
            }
            false => {}
        }
        let words = line.rules.iter().map(Vec::as_slice);
        let mut rules = merged(words).map_err(|at| {
            declaration(
                line,
                &line.rules[at],
                "Unmatched parenthesis in acl selector",
            )
        })?;
        if !line.is_role && self.get(&line.name).is_some() {
            rules.insert(0, b"reset".to_vec());
        }
        let all_channels = settings.acl_all_channels;
        let changed = match line.is_role {
            true => self.set_role(&line.name, &rules, all_channels),
            false => self.set(&line.name, &rules, all_channels),
        };
        let changed = changed
            .map_err(|refused| declaration(line, &refused.rule, &refused.error.to_string()))?;
        warn_of_first_args(logger, &changed.deprecated);
        if !changed.on {
            log::notice!(
                logger,
                "The user '{}' is disabled (there is no 'on' modifier in the user description). Make sure this is not a \
                 configuration error.",
                line.name.escape_ascii()
            );
        }
        Ok(())
    }

    /// Reads a file of users and roles. [`Users::replace`] puts the result into effect.
    ///
    /// # Errors
    /// Returns Redis's text: the reason why the file cannot be read, or the errors of its lines.
    pub(crate) fn read(
        &self,
        disk: &Disk,
        file: &Path,
        settings: &Settings,
        logger: &Logger,
    ) -> Result<Accounts, String> {
        let name = file.display();
        let text = disk.read(&settings.dir.join(file)).map_err(|error| {
            format!(
                "Error loading ACLs, opening file '{name}': {}",
                io_reason(&error)
            )
        })?;
        let all_channels = settings.acl_all_channels;
        let mut read = Reading {
            accounts: Accounts::default(),
            errors: String::new(),
            all_channels,
            logger,
        };
        for is_role in [true, false] {
            for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
                let line = line.trim_ascii();
                let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
                if !line.is_empty() && (words[0] == b"role") == is_role {
                    self.read_line(&words, &format!("{name}:{number}"), &mut read);
                }
            }
        }
        let Reading {
            accounts,
            mut errors,
            ..
        } = read;
        if errors.is_empty() {
            return Ok(accounts);
        }
        errors.push_str(
            "WARNING: ACL errors detected, no change to the previously active ACL rules was performed",
        );
        Err(errors)
    }

    /// Adds the user or the role of a line, or the errors of the line.
    fn read_line(&self, words: &[&[u8]], location: &str, read: &mut Reading<'_>) {
        let errors = &mut read.errors;
        let (is_role, name, rules) = match words {
            [b"role", name, rules @ ..] => (true, name, rules),
            [b"user", name, rules @ ..] => (false, name, rules),
            [b"role"] => {
                return errors.push_str(&format!(
                    "{location}: role definition requires a role name. "
                ));
            }
            _ => {
                return errors.push_str(&format!(
                    "{location} should start with user keyword followed by the username. "
                ));
            }
        };
        let shown = String::from_utf8_lossy(name);
        if is_role && let Some(reason) = refuse_role_name(name) {
            return errors.push_str(&format!(
                "{location}: invalid role name '{shown}': {reason}. "
            ));
        }
        if has_spaces(name) {
            return errors.push_str(&format!(
                "'{location}: username '{shown}' contains invalid characters. "
            ));
        }
        let number = location.rsplit(':').next().unwrap_or_default();
        let Accounts { users, roles } = &mut read.accounts;
        let known = if is_role { &*roles } else { &*users };
        if known.contains_key(*name) {
            let kind = kind(is_role);
            return errors.push_str(&format!(
                "WARNING: Duplicate {kind} '{shown}' found on line {number}. "
            ));
        }
        let around = Surroundings {
            all_channels: read.all_channels,
            roles: (!is_role).then_some(&*roles),
        };
        let mut user = self.new_user(name, read.all_channels);
        let Ok(rules) = merged(rules.iter().copied()) else {
            return errors.push_str(&format!(
                "{location}: Unmatched parenthesis in selector definition."
            ));
        };
        let mut wrong = false;
        for rule in rules {
            let rule = rule.trim_ascii();
            match self.rules.apply(&mut user, rule, around) {
                Ok(false) => {}
                Ok(true) => warn_of_first_args(read.logger, &[rule.to_vec()]),
                // All unknown commands and categories of the line are reported, but only the first
                // error of another kind, because that error may cause the next ones.
                Err(error @ RuleError::Unknown) => errors.push_str(&format!(
                    "{location}: Error in applying operation '{}': {error}. ",
                    String::from_utf8_lossy(rule)
                )),
                Err(error) => {
                    if !std::mem::replace(&mut wrong, true) {
                        errors.push_str(&format!("{location}: {error}. "));
                    }
                }
            }
        }
        let all = if is_role { roles } else { users };
        all.insert((*name).into(), Arc::new(user));
    }

    /// Writes all users and roles to a file. After a crash the file is unchanged or complete.
    pub(crate) fn write(&self, path: &Path) -> std::io::Result<()> {
        let mut text = Vec::new();
        for line in self.lines() {
            text.extend_from_slice(&line);
            text.push(b'\n');
        }
        replace_file(path, &text)
    }
}

/// State of [`Users::read`].
struct Reading<'a> {
    accounts: Accounts,
    errors: String,
    all_channels: bool,
    logger: &'a Logger,
}

fn kind(is_role: bool) -> &'static str {
    if is_role { "role" } else { "user" }
}

/// Logs Redis's warning for deprecated rules that allow a first argument.
pub(crate) fn warn_of_first_args(logger: &Logger, rules: &[Vec<u8>]) {
    for rule in rules {
        log::warning!(
            logger,
            "Deprecation warning: Allowing a first arg of an otherwise blocked command is a misuse of ACL and may get \
             disabled in the future (offender: {})",
            rule.escape_ascii()
        );
    }
}

fn declaration(line: &AccountLine, word: &[u8], reason: &str) -> ConfigError {
    let (kind, word) = (kind(line.is_role), String::from_utf8_lossy(word));
    line.refused(&format!("Error in {kind} declaration '{word}': {reason}"))
}
