//! Reads configuration text: lines, includes, and directives without a row in the table.

use std::path::{Path, PathBuf};

use punctual_store::glob;

use crate::config::error::{ConfigError, Place};
use crate::config::invocation::Override;
use crate::config::value::{Kind, Value};
use crate::config::{AccountLine, Config, Rename, quoting, table};

/// Maximum depth of nested includes. Deeper nesting usually means that a file includes itself.
const DEPTH_MAX: usize = 16;

/// Reads texts into a configuration. Later lines override earlier ones.
pub(super) struct Reader<'a> {
    config: &'a mut Config,
    depth: usize,
    /// True if a `save` line has been read. The first `save` line replaces the default save points,
    /// later `save` lines add save points.
    save_seen: bool,
    /// Old and new name in the current line, if it is a `rename-command` line.
    renamed: Option<(Vec<u8>, Vec<u8>)>,
    /// Name and rules in the current line, if it is a `user` or `role` line.
    account: Option<Vec<Vec<u8>>>,
    /// Whether the current line is a `role` line.
    is_role: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(config: &'a mut Config) -> Self {
        Self {
            config,
            depth: 0,
            save_seen: false,
            renamed: None,
            account: None,
            is_role: false,
        }
    }

    pub(super) fn text(&mut self, text: &[u8], origin: &str) -> Result<(), ConfigError> {
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            let place = || Place::File {
                origin: origin.to_owned(),
                line: index + 1,
            };
            let shown = || String::from_utf8_lossy(line).into_owned();
            let fault = |reason: String| ConfigError::Line {
                place: place(),
                line: shown(),
                reason,
            };
            let Some(words) = quoting::split(line) else {
                return Err(fault("Unbalanced quotes in configuration line".to_owned()));
            };
            if let [name, pattern] = words.as_slice()
                && name.eq_ignore_ascii_case(b"include")
            {
                if self.depth == DEPTH_MAX {
                    return Err(fault(format!(
                        "include files nest more than {DEPTH_MAX} deep"
                    )));
                }
                self.include(pattern)?;
            } else {
                self.directive(&words).map_err(fault)?;
                self.keep_line(place, shown);
            }
        }
        Ok(())
    }

    pub(super) fn file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let text = std::fs::read(path).map_err(|source| ConfigError::Open {
            path: path.to_owned(),
            source,
        })?;
        self.depth += 1;
        let read = self.text(&text, &path.display().to_string());
        self.depth -= 1;
        read
    }

    pub(super) fn option(&mut self, option: &Override) -> Result<(), ConfigError> {
        let is_include = matches!(option.words.as_slice(), [name, _] if name == b"include");
        if is_include {
            return self.include(&option.words[1]);
        }
        let place = || Place::Argument(option.argument.clone());
        self.directive(&option.words)
            .map_err(|reason| ConfigError::Line {
                place: place(),
                line: option.line(),
                reason,
            })?;
        self.keep_line(place, || option.line());
        Ok(())
    }

    /// Stores the current line, with its place for errors, if it is a `rename-command`,
    /// `user` or `role` line.
    fn keep_line(&mut self, place: impl Fn() -> Place, line: impl Fn() -> String) {
        if let Some((from, to)) = self.renamed.take() {
            let (place, line) = (place(), line());
            self.config.renames.push(Rename {
                from,
                to,
                place,
                line,
            });
        }
        if let Some(mut rules) = self.account.take() {
            self.config.accounts.push(AccountLine {
                is_role: self.is_role,
                name: rules.remove(0),
                rules,
                place: place(),
                line: line(),
            });
        }
    }

    /// Reads the included files. A plain path must exist. A pattern may match no file, because an
    /// empty `conf.d` is no error.
    fn include(&mut self, pattern: &[u8]) -> Result<(), ConfigError> {
        use std::os::unix::ffi::OsStrExt as _;
        let base = self.config.settings.dir.clone();
        let path = base.join(std::ffi::OsStr::from_bytes(pattern));
        if !pattern.iter().any(|byte| b"*?[".contains(byte)) {
            return self.file(&path);
        }
        for file in expand(&path) {
            self.file(&file)?;
        }
        Ok(())
    }

    fn directive(&mut self, words: &[Vec<u8>]) -> Result<(), String> {
        let Some((name, args)) = words.split_first() else {
            return Ok(());
        };
        let mut args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let Some((index, directive)) = table::find(name) else {
            return self.other(name, &args);
        };
        if directive.kind.takes_words() {
            // `save "900 1"` means `save 900 1`.
            if let [joined] = args.as_slice()
                && !joined.is_empty()
            {
                args = joined.split(|byte| *byte == b' ').collect();
            }
        } else if args.len() != 1 {
            return Err("wrong number of arguments".to_owned());
        }
        let mut value = directive
            .kind
            .parse(&args, Some(&self.config.values[index]))?;
        if let (Kind::Save, Value::Save(points), Value::Save(before)) =
            (directive.kind, &mut value, &self.config.values[index])
        {
            if self.save_seen && !points.is_empty() {
                points.splice(0..0, before.iter().copied());
            }
            self.save_seen = true;
        }
        // Each line adds rules; an empty line removes all rules.
        if let (Value::TtlRules(rules), Value::TtlRules(before)) =
            (&mut value, &self.config.values[index])
            && !rules.is_empty()
        {
            rules.splice(0..0, before.iter().cloned());
        }
        self.config.values[index] = value;
        self.config.refresh();
        Ok(())
    }

    fn other(&mut self, name: &[u8], args: &[&[u8]]) -> Result<(), String> {
        match (name.to_ascii_lowercase().as_slice(), args) {
            (b"rename-command", [from, to]) => {
                self.renamed = Some((from.to_vec(), to.to_vec()));
                Ok(())
            }
            (b"loadmodule", _) => Err("modules are not supported".to_owned()),
            (kind @ (b"user" | b"role"), [_, ..]) => {
                self.is_role = kind == b"role";
                self.account = Some(args.iter().map(|word| word.to_vec()).collect());
                Ok(())
            }
            (b"sentinel", _) => Err("sentinel directive while not in sentinel mode".to_owned()),
            (known, [_]) if table::IGNORED.iter().any(|name| name.as_bytes() == known) => Ok(()),
            (unknown, _) => Err(match nearest(unknown) {
                Some(near) => {
                    format!("Bad directive or wrong number of arguments (did you mean '{near}'?)")
                }
                None => "Bad directive or wrong number of arguments".to_owned(),
            }),
        }
    }
}

/// Returns the existing files that match a pattern, sorted. Any part of the path may contain
/// wildcards.
fn expand(pattern: &Path) -> Vec<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;
    let mut found = vec![PathBuf::new()];
    for part in pattern.components() {
        let part = part.as_os_str();
        let bytes = part.as_bytes();
        if !bytes.iter().any(|byte| b"*?[".contains(byte)) {
            for path in &mut found {
                path.push(part);
            }
            continue;
        }
        let mut next = Vec::new();
        for path in &found {
            let Ok(entries) = std::fs::read_dir(path) else {
                continue;
            };
            for entry in entries.flatten() {
                let name = entry.file_name();
                let hidden = name.as_bytes().starts_with(b".") && !bytes.starts_with(b".");
                if !hidden && glob::matches(bytes, name.as_bytes()) {
                    next.push(path.join(name));
                }
            }
        }
        next.sort();
        found = next;
    }
    found.retain(|path| path.exists());
    found
}

/// Returns the names of all directives that are not hidden, without aliases.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let shown = table::DIRECTIVES.iter().filter(|row| !row.hidden);
    shown.map(|row| row.name)
}

/// Returns the known name that is most similar to a mistyped one, at most two edits away.
fn nearest(unknown: &[u8]) -> Option<&'static str> {
    names()
        .map(|name| (distance(unknown, name.as_bytes()), name))
        .filter(|(distance, name)| *distance <= 2 && *distance * 3 <= name.len())
        .min()
        .map(|(_, name)| name)
}

/// Returns the edit distance of `a` and `b` (Levenshtein 1965), or 1 if they are different
/// arrangements of the same letters. O(a·b).
fn distance(a: &[u8], b: &[u8]) -> usize {
    let sorted = |name: &[u8]| {
        let mut letters = name.to_vec();
        letters.sort_unstable();
        letters
    };
    if a.len() == b.len() && a != b && sorted(a) == sorted(b) {
        return 1;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
