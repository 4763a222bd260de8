//! The manifest: an ordered list of the files that make up an append-only file.
//!
//! A line is `file NAME seq NUMBER type TYPE`, in the quoting of redis.conf. There is at most one
//! base file (`b`); the incremental files (`i`) follow in the order of their numbers. History files
//! (`h`) were replaced and will be removed.

use std::fmt;

use crate::config::quoting::{quote, split};

/// Type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileType {
    /// A keyspace at one instant.
    Base,
    /// The changes after the base, or after the previous incremental file.
    Incremental,
    /// A file that is no longer needed.
    History,
}

impl FileType {
    fn letter(self) -> char {
        match self {
            Self::Base => 'b',
            Self::Incremental => 'i',
            Self::History => 'h',
        }
    }
}

/// One file of the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Name in the folder `appenddirname`.
    pub(crate) name: String,
    pub(crate) number: i64,
    pub(crate) file_type: FileType,
}

/// The files of an append-only file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) base: Option<Entry>,
    pub(crate) history: Vec<Entry>,
    /// Incremental files in the order of their numbers.
    pub(crate) incremental: Vec<Entry>,
}

/// Error of a manifest that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestError {
    /// Line number, counted from 1; 0 if the error concerns the whole file.
    pub line: usize,
    /// The invalid line, without white space around it.
    pub text: String,
    /// Description of the error, in Redis's words.
    pub reason: &'static str,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "*** FATAL AOF MANIFEST FILE ERROR ***")?;
        if self.line > 0 {
            writeln!(f, "Reading the manifest file, at line {}", self.line)?;
            writeln!(f, ">>> '{}'", self.text)?;
        }
        f.write_str(self.reason)
    }
}

impl std::error::Error for ManifestError {}

const FORMAT: &str = "Invalid AOF manifest file format";
/// Maximum length of a line, as in Redis.
const LINE_MAX: usize = 1024;

impl Manifest {
    /// Parses the content of a manifest.
    ///
    /// # Errors
    /// Returns Redis's error for an empty manifest, or for the first line that is invalid.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        let mut manifest = Self::default();
        if bytes.is_empty() {
            return Err(ManifestError {
                line: 0,
                text: String::new(),
                reason: "Found an empty AOF manifest",
            });
        }
        for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let failed = |reason| ManifestError {
                line: index + 1,
                text: String::from_utf8_lossy(line).trim().to_owned(),
                reason,
            };
            if line.starts_with(b"#") {
                continue;
            }
            if !line.ends_with(b"\n") || line.len() > LINE_MAX {
                return Err(failed("The AOF manifest file contains too long line"));
            }
            let entry = parse_line(line).map_err(failed)?;
            manifest.add(entry).map_err(failed)?;
        }
        Ok(manifest)
    }

    fn add(&mut self, entry: Entry) -> Result<(), &'static str> {
        match entry.file_type {
            FileType::Base if self.base.is_some() => {
                return Err("Found duplicate base file information");
            }
            FileType::Base => self.base = Some(entry),
            FileType::History => self.history.push(entry),
            FileType::Incremental => {
                let last = self.incremental.last().map_or(0, |last| last.number);
                if entry.number <= last {
                    return Err("Found a non-monotonic sequence number");
                }
                self.incremental.push(entry);
            }
        }
        Ok(())
    }

    /// Returns true if there are no files to load.
    pub(crate) fn is_empty(&self) -> bool {
        self.base.is_none() && self.incremental.is_empty()
    }

    /// Returns the files to load, in their order.
    pub(crate) fn to_load(&self) -> impl Iterator<Item = &Entry> {
        self.base.iter().chain(&self.incremental)
    }

    /// Adds the next incremental file and returns its name. `prefix` is `appendfilename`.
    pub(crate) fn add_incremental(&mut self, prefix: &str) -> String {
        let number = self.incremental.last().map_or(0, |last| last.number) + 1;
        let name = format!("{prefix}.{number}.incr.aof");
        self.incremental.push(Entry {
            name: name.clone(),
            number,
            file_type: FileType::Incremental,
        });
        name
    }

    /// Returns the entry of the next base file, which is a snapshot.
    pub(crate) fn next_base(&self, prefix: &str) -> Entry {
        let number = self.base.as_ref().map_or(0, |base| base.number) + 1;
        Entry {
            name: format!("{prefix}.{number}.base.rdb"),
            number,
            file_type: FileType::Base,
        }
    }

    /// Makes `base` the base file. The old base file and the incremental files become history,
    /// except the last incremental file if `keeps_last` is true.
    pub(crate) fn replace_base(&mut self, base: Entry, keeps_last: bool) {
        let count = self.incremental.len();
        let keep = count.saturating_sub(usize::from(keeps_last));
        let old = self.base.replace(base).into_iter();
        for mut entry in old.chain(self.incremental.drain(..keep)) {
            entry.file_type = FileType::History;
            self.history.push(entry);
        }
    }
}

impl fmt::Display for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.base.iter().chain(&self.history);
        for entry in all.chain(&self.incremental) {
            let plain = |byte: u8| byte.is_ascii_graphic() && !b"\\'\"".contains(&byte);
            let name = if entry.name.bytes().all(plain) {
                entry.name.clone()
            } else {
                quote(entry.name.as_bytes())
            };
            let letter = entry.file_type.letter();
            writeln!(f, "file {name} seq {} type {letter}", entry.number)?;
        }
        Ok(())
    }
}

fn parse_line(line: &[u8]) -> Result<Entry, &'static str> {
    let words = split(line).ok_or(FORMAT)?;
    // Unknown pairs are ignored, because a later version of the format may have more pairs.
    if words.len() < 6 || words.len() % 2 != 0 {
        return Err(FORMAT);
    }
    let (mut name, mut number, mut letter) = (None, None, None);
    for pair in words.chunks_exact(2) {
        match pair[0].to_ascii_lowercase().as_slice() {
            b"file" => {
                if pair[1].iter().any(|byte| b"/\\".contains(byte)) {
                    return Err("File can't be a path, just a filename");
                }
                let text = String::from_utf8(pair[1].clone());
                name = Some(text.map_err(|_| "File name is not valid UTF-8")?);
            }
            b"seq" => number = punctual_resp::decimal::parse_i64(&pair[1]).filter(|n| *n != 0),
            b"type" => letter = pair[1].first().copied(),
            _ => {}
        }
    }
    let file_type = match letter.ok_or(FORMAT)? {
        b'b' => FileType::Base,
        b'i' => FileType::Incremental,
        b'h' => FileType::History,
        _ => return Err("Unknown AOF file type"),
    };
    Ok(Entry {
        name: name.filter(|name| !name.is_empty()).ok_or(FORMAT)?,
        number: number.ok_or(FORMAT)?,
        file_type,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(text: &str) -> (usize, &'static str) {
        let error = Manifest::parse(text.as_bytes()).unwrap_err();
        (error.line, error.reason)
    }

    #[test]
    fn what_is_printed_is_read() {
        let text = "file a.aof.2.base.rdb seq 2 type b\nfile a.aof.1.base.rdb seq 1 type h\n\
                    file a.aof.3.incr.aof seq 3 type i\nfile a.aof.4.incr.aof seq 4 type i\n";
        let manifest = Manifest::parse(text.as_bytes()).unwrap();
        assert_eq!(manifest.to_string(), text);
        let names: Vec<&str> = manifest.to_load().map(|entry| &*entry.name).collect();
        assert_eq!(
            names,
            ["a.aof.2.base.rdb", "a.aof.3.incr.aof", "a.aof.4.incr.aof"]
        );
        let quoted = "file \"a b\\\"\\xc3\\xa4.1.incr.aof\" seq 1 type i\n";
        let manifest = Manifest::parse(quoted.as_bytes()).unwrap();
        assert_eq!(manifest.incremental[0].name, "a b\"ä.1.incr.aof");
        assert_eq!(manifest.to_string(), quoted);
        let later = "# comment\n SEQ 1 More 2 FILE x  TYPE incr\r\n";
        let manifest = Manifest::parse(later.as_bytes()).unwrap();
        assert_eq!(manifest.to_string(), "file x seq 1 type i\n");
    }

    #[test]
    fn a_rewrite_replaces_all_but_the_last_file() {
        let mut manifest = Manifest::default();
        assert_eq!(manifest.add_incremental("a b"), "a b.1.incr.aof");
        manifest.replace_base(manifest.next_base("a b"), true);
        assert_eq!(manifest.add_incremental("a b"), "a b.2.incr.aof");
        manifest.replace_base(manifest.next_base("a b"), true);
        assert_eq!(
            manifest.to_string(),
            "file \"a b.2.base.rdb\" seq 2 type b\nfile \"a b.1.base.rdb\" seq 1 type h\n\
             file \"a b.1.incr.aof\" seq 1 type h\nfile \"a b.2.incr.aof\" seq 2 type i\n"
        );
    }

    #[test]
    fn the_errors_of_redis() {
        let base = "file x seq 1 type b\n";
        let incremental = "file x seq 2 type i\n";
        for (text, line, expected) in [
            ("", 0, "Found an empty AOF manifest"),
            (
                "file x seq 1 type b",
                1,
                "The AOF manifest file contains too long line",
            ),
            (
                &format!("file {} seq 1 type b\n", "x".repeat(1024)),
                1,
                "The AOF manifest file contains too long line",
            ),
            ("\n", 1, FORMAT),
            ("file x seq 1\n", 1, FORMAT),
            ("file x seq 1 type b x\n", 1, FORMAT),
            ("file \"x seq 1 type b\n", 1, FORMAT),
            ("file x seq 0 type b\n", 1, FORMAT),
            ("file x seq x type b\n", 1, FORMAT),
            ("file \"\" seq 1 type b\n", 1, FORMAT),
            (
                "file a/b seq 1 type b\n",
                1,
                "File can't be a path, just a filename",
            ),
            ("file x seq 1 type q\n", 1, "Unknown AOF file type"),
            (&base.repeat(2), 2, "Found duplicate base file information"),
            (
                &incremental.repeat(2),
                2,
                "Found a non-monotonic sequence number",
            ),
        ] {
            assert_eq!(reason(text), (line, expected), "{text:?}");
        }
    }
}
