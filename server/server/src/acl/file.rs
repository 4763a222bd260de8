//! Users in files: `aclfile`, and the `user` lines of redis.conf.

use std::collections::btree_map::Entry;
use std::path::Path;
use std::sync::Arc;

use crate::acl::registry::{UserMap, Users};
use crate::acl::rules::{RuleError, has_spaces, merged};
use crate::config::{Config, ConfigError, Settings, UserLine, io_reason, replace_file};
use crate::log::{self, Logger};
use crate::table::CommandTable;
use crate::world::disk::Disk;

/// Error of the configured users that prevents the server from starting.
#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    /// A `user` line names a user that an earlier line names, has white space in the user's name,
    /// has an unmatched parenthesis, or has a rule that cannot be applied.
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
        if settings.acl_file.is_some() && !config.users().is_empty() {
            return Err(UsersError::Both);
        }
        let mut seen: Vec<&[u8]> = Vec::new();
        for line in config.users() {
            if seen.contains(&&line.name[..]) {
                let reason =
                    "Duplicate user found. A user can only be defined once in config files";
                return Err(declaration(line, &line.name, reason).into());
            }
            seen.push(&line.name);
            users.create(line, &settings, logger)?;
        }
        if let Some(file) = &settings.acl_file {
            let loaded = users
                .read(disk, file, &settings, logger)
                .map_err(UsersError::File)?;
            users.replace(loaded);
        }
        Ok(users)
    }

    /// Creates the user of a line of redis.conf, or changes the default user.
    fn create(
        &self,
        line: &UserLine,
        settings: &Settings,
        logger: &Logger,
    ) -> Result<(), ConfigError> {
        if has_spaces(&line.name) {
            return Err(line.refused("Spaces not allowed in ACL usernames"));
        }
        let words = line.rules.iter().map(Vec::as_slice);
        let mut rules = merged(words).map_err(|at| {
            declaration(
                line,
                &line.rules[at],
                "Unmatched parenthesis in acl selector",
            )
        })?;
        if self.get(&line.name).is_some() {
            rules.insert(0, b"reset".to_vec());
        }
        let changed = self
            .set(&line.name, &rules, settings.acl_all_channels)
            .map_err(|refused| declaration(line, &refused.rule, &refused.error.to_string()))?;
        warn_of_first_args(logger, &changed.deprecated);
        if !changed.new.on {
            log::notice!(
                logger,
                "The user '{}' is disabled (there is no 'on' modifier in the user description). Make sure this is not a \
                 configuration error.",
                line.name.escape_ascii()
            );
        }
        Ok(())
    }

    /// Reads a file of users. [`Users::replace`] puts the result into effect.
    ///
    /// # Errors
    /// Returns Redis's text: the reason why the file cannot be read, or the errors of its lines.
    pub(crate) fn read(
        &self,
        disk: &Disk,
        file: &Path,
        settings: &Settings,
        logger: &Logger,
    ) -> Result<UserMap, String> {
        let name = file.display();
        let text = disk.read(&settings.dir.join(file)).map_err(|error| {
            format!(
                "Error loading ACLs, opening file '{name}': {}",
                io_reason(&error)
            )
        })?;
        let all_channels = settings.acl_all_channels;
        let mut users = UserMap::new();
        let mut errors = String::new();
        for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            let location = format!("{name}:{number}");
            let line = line.trim_ascii();
            if !line.is_empty() {
                self.read_line(
                    line,
                    &location,
                    all_channels,
                    logger,
                    &mut users,
                    &mut errors,
                );
            }
        }
        if errors.is_empty() {
            return Ok(users);
        }
        errors.push_str(
            "WARNING: ACL errors detected, no change to the previously active ACL rules was performed",
        );
        Err(errors)
    }

    /// Adds the user of a line to `users`, or the errors of the line to `errors`.
    fn read_line(
        &self,
        line: &[u8],
        location: &str,
        all_channels: bool,
        logger: &Logger,
        users: &mut UserMap,
        errors: &mut String,
    ) {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let [b"user", name, rules @ ..] = &words[..] else {
            return errors.push_str(&format!(
                "{location} should start with user keyword followed by the username. "
            ));
        };
        let shown = String::from_utf8_lossy(name);
        if has_spaces(name) {
            return errors.push_str(&format!(
                "'{location}: username '{shown}' contains invalid characters. "
            ));
        }
        let number = location.rsplit(':').next().unwrap_or_default();
        let Entry::Vacant(vacant) = users.entry((*name).into()) else {
            return errors.push_str(&format!(
                "WARNING: Duplicate user '{shown}' found on line {number}. "
            ));
        };
        let mut user = self.new_user(name, all_channels);
        let Ok(rules) = merged(rules.iter().copied()) else {
            return errors.push_str(&format!(
                "{location}: Unmatched parenthesis in selector definition."
            ));
        };
        let mut wrong = false;
        for rule in rules {
            let rule = rule.trim_ascii();
            match self.rules.apply(&mut user, rule, all_channels) {
                Ok(false) => {}
                Ok(true) => warn_of_first_args(logger, &[rule.to_vec()]),
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
        vacant.insert(Arc::new(user));
    }

    /// Writes all users to a file. After a crash the file is either unchanged or complete.
    pub(crate) fn write(&self, path: &Path) -> std::io::Result<()> {
        let mut text = Vec::new();
        for line in self.lines() {
            text.extend_from_slice(&line);
            text.push(b'\n');
        }
        replace_file(path, &text)
    }
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

fn declaration(line: &UserLine, word: &[u8], reason: &str) -> ConfigError {
    let word = String::from_utf8_lossy(word);
    line.refused(&format!("Error in user declaration '{word}': {reason}"))
}
