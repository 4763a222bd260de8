//! Every single measurement as one line of comma-separated values.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The columns.
const HEAD: &str = "date,benchmark,server,case,round,metric,unit,value";

/// One measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measurement<'a> {
    /// Which benchmark, for example `server`.
    pub(crate) benchmark: &'a str,
    /// Product and version.
    pub(crate) server: &'a str,
    /// What was done, for example `get pipeline=16`.
    pub(crate) case: &'a str,
    /// Counted from 1.
    pub(crate) round: u32,
    /// What was measured, for example `cpu_per_command`.
    pub(crate) metric: &'a str,
    /// Its unit, for example `us`.
    pub(crate) unit: &'a str,
    pub(crate) value: f64,
}

/// The file.
#[derive(Debug)]
pub(crate) struct Csv {
    path: PathBuf,
    out: BufWriter<File>,
    date: String,
}

impl Csv {
    /// Makes the file anew, with its head.
    pub(crate) fn create(path: &Path, date: &str) -> Result<Self> {
        let failed = |source| Error::File {
            path: path.to_owned(),
            source,
        };
        let mut out = BufWriter::new(File::create(path).map_err(failed)?);
        writeln!(out, "{HEAD}").map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            out,
            date: date.to_owned(),
        })
    }

    /// Appends one line.
    pub(crate) fn write(&mut self, one: Measurement<'_>) -> Result<()> {
        let line = format!(
            "{},{},{},{},{},{},{},{}",
            quoted(&self.date),
            quoted(one.benchmark),
            quoted(one.server),
            quoted(one.case),
            one.round,
            quoted(one.metric),
            quoted(one.unit),
            one.value
        );
        writeln!(self.out, "{line}").map_err(|source| self.failed(source))
    }

    /// Brings everything to the file.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.out.flush().map_err(|source| self.failed(source))
    }

    fn failed(&self, source: std::io::Error) -> Error {
        Error::File {
            path: self.path.clone(),
            source,
        }
    }
}

/// A field, in quotes where it needs them (RFC 4180).
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_and_quotes() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
    }
}
