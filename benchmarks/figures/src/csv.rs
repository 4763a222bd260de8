//! Files of comma-separated values.

use std::fmt::Display;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// A file that is being written.
#[derive(Debug)]
pub struct Csv {
    path: PathBuf,
    out: BufWriter<File>,
}

impl Csv {
    /// Creates or truncates the file, and writes `head`, the names of the columns separated by
    /// commas.
    ///
    /// # Errors
    /// [`Error::File`] if the file cannot be created.
    pub fn create(path: &Path, head: &str) -> Result<Self> {
        let failed = |source| Error::file(path, source);
        let mut out = BufWriter::new(File::create(path).map_err(failed)?);
        writeln!(out, "{head}").map_err(failed)?;
        Ok(Csv {
            path: path.to_owned(),
            out,
        })
    }

    /// Appends a line.
    ///
    /// # Errors
    /// [`Error::File`] if the file cannot be written.
    pub fn line(&mut self, fields: &[&dyn Display]) -> Result<()> {
        let fields: Vec<String> = fields
            .iter()
            .map(|field| quoted(field.to_string()))
            .collect();
        writeln!(self.out, "{}", fields.join(",")).map_err(|source| Error::file(&self.path, source))
    }

    /// Flushes the buffer, and returns the path of the file.
    ///
    /// # Errors
    /// [`Error::File`] if the file cannot be written.
    pub fn finish(&mut self) -> Result<&Path> {
        match self.out.flush() {
            Ok(()) => Ok(&self.path),
            Err(source) => Err(Error::file(&self.path, source)),
        }
    }
}

/// Returns a field, in quotes if necessary (RFC 4180).
fn quoted(field: String) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_need_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut csv = Csv::create(&folder.path().join("a.csv"), "name,round,value").unwrap();
        csv.line(&[&"heap, d = 4", &2, &1.5]).unwrap();
        csv.line(&[&"a\"b", &3, &"plain"]).unwrap();
        let text = std::fs::read_to_string(csv.finish().unwrap()).unwrap();
        assert_eq!(
            text,
            "name,round,value\n\"heap, d = 4\",2,1.5\n\"a\"\"b\",3,plain\n"
        );
    }
}
