//! The command line: `punctual [redis.conf] [-] [--name value ...]`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use crate::config::error::{ConfigError, Place};
use crate::config::quoting;

/// Contents of the command line, in the order in which they apply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Invocation {
    /// Path of the configuration file.
    pub file: Option<PathBuf>,
    /// True if more configuration follows on standard input (`-` as the first or last argument).
    pub stdin: bool,
    /// Directives given as options, which override the file.
    pub overrides: Vec<Override>,
}

/// A directive given as `--name value ...`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// The option as typed, such as `--port`.
    pub argument: String,
    /// The directive's name and its values.
    pub words: Vec<Vec<u8>>,
}

impl Override {
    /// Returns the equivalent line of a configuration file.
    pub(crate) fn line(&self) -> String {
        let mut line = String::new();
        for (index, word) in self.words.iter().enumerate() {
            if index == 0 {
                line.push_str(&String::from_utf8_lossy(word));
            } else {
                line.push(' ');
                line.push_str(&quoting::quote(word));
            }
        }
        line
    }
}

impl Invocation {
    /// Reads the arguments that follow the program's name.
    ///
    /// The word after an option is its value, even if the word starts with dashes (`--requirepass
    /// --secret`). `--save` without a value means `save ""`. An option and its value may also be
    /// one argument: `'--port 7000'`.
    ///
    /// # Errors
    /// Returns an error for unbalanced quotes inside an option.
    pub fn parse<I>(args: I) -> Result<Self, ConfigError>
    where
        I: IntoIterator,
        I::Item: Into<OsString>,
    {
        let mut args: Vec<OsString> = args.into_iter().map(Into::into).collect();
        let mut invocation = Self::default();
        if args.first().is_some_and(|arg| arg == "-") {
            invocation.stdin = true;
            args.remove(0);
        } else if args
            .first()
            .is_some_and(|arg| !arg.as_bytes().starts_with(b"-"))
        {
            invocation.file = Some(PathBuf::from(args.remove(0)));
        }
        // A trailing `-` directly after an option is the option's value: `--logfile -`.
        let mut value_expected = false;
        let last = args.len().saturating_sub(1);
        for (index, arg) in args.into_iter().enumerate() {
            let text = arg.into_vec();
            if !value_expected && index == last && text == b"-" {
                invocation.stdin = true;
                continue;
            }
            let is_option = text.starts_with(b"--") && text.len() > 2;
            let save_alone = value_expected
                && is_option
                && invocation.overrides.last().is_some_and(Override::is_save);
            if is_option && (!value_expected || save_alone) {
                if save_alone {
                    invocation.add_value(Vec::new());
                }
                value_expected = invocation.add_option(&text)?;
            } else {
                invocation.add_value(text);
                value_expected = false;
            }
        }
        if value_expected && invocation.overrides.last().is_some_and(Override::is_save) {
            invocation.add_value(Vec::new());
        }
        Ok(invocation)
    }

    /// Adds an option. Returns true if the option still needs a value.
    fn add_option(&mut self, text: &[u8]) -> Result<bool, ConfigError> {
        let shown = String::from_utf8_lossy(text).into_owned();
        let words = quoting::split(&text[2..])
            .filter(|words| !words.is_empty())
            .ok_or_else(|| ConfigError::Line {
                place: Place::Argument(shown.clone()),
                line: shown.clone(),
                reason: "Unbalanced quotes in configuration line".to_owned(),
            })?;
        let lacks_value = words.len() == 1;
        let argument = format!("--{}", String::from_utf8_lossy(&words[0]));
        self.overrides.push(Override { argument, words });
        Ok(lacks_value)
    }

    /// Adds a value to the last option. As in Redis, the first option may lack its `--`.
    fn add_value(&mut self, value: Vec<u8>) {
        match self.overrides.last_mut() {
            Some(option) => option.words.push(value),
            None => self.overrides.push(Override {
                argument: String::from_utf8_lossy(&value).into_owned(),
                words: vec![value],
            }),
        }
    }
}

impl Override {
    fn is_save(&self) -> bool {
        matches!(self.words.as_slice(), [name] if name.eq_ignore_ascii_case(b"save"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> (Option<PathBuf>, bool, Vec<String>) {
        let invocation = Invocation::parse(args).unwrap();
        let lines = invocation.overrides.iter().map(Override::line).collect();
        (invocation.file, invocation.stdin, lines)
    }

    fn lines(args: &[&str]) -> Vec<String> {
        parse(args).2
    }

    #[test]
    fn file_stdin_and_options() {
        assert_eq!(parse(&[]), (None, false, vec![]));
        assert_eq!(parse(&["a.conf"]), (Some("a.conf".into()), false, vec![]));
        assert_eq!(
            parse(&["a.conf", "--port", "7", "-"]),
            (Some("a.conf".into()), true, vec!["port \"7\"".to_owned()])
        );
        assert!(parse(&["-", "--port", "7"]).1);
        assert_eq!(
            lines(&["--bind", "a", "b", "--port", "1"]),
            ["bind \"a\" \"b\"", "port \"1\""]
        );
        assert_eq!(lines(&["--port 7000"]), ["port \"7000\""]);
    }

    #[test]
    fn values_may_look_like_options() {
        assert_eq!(lines(&["--requirepass", "--x"]), ["requirepass \"--x\""]);
        assert_eq!(
            lines(&["--save", "--port", "1"]),
            ["save \"\"", "port \"1\""]
        );
        assert_eq!(lines(&["--save"]), ["save \"\""]);
        assert_eq!(lines(&["--save", ""]), ["save \"\""]);
        assert_eq!(
            lines(&["--save", "60 1", "--port", "1"])[0],
            "save \"60 1\""
        );
        assert_eq!(lines(&["--port"]), ["port"]);
    }

    #[test]
    fn the_first_option_may_lack_its_dashes() {
        assert_eq!(
            lines(&["a.conf", "loglevel", "verbose", "--port", "1"]),
            ["loglevel \"verbose\"", "port \"1\""]
        );
    }
}
