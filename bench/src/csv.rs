//! Every round as one line of comma-separated values.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::figure::Sample;

/// The columns. `round` 0 is a warm-up round that was slow enough to count.
const HEAD: &str = "figure,unit,timers,contender,round,value,operations,cut,faults";

/// The file.
pub struct Csv {
    path: PathBuf,
    out: BufWriter<File>,
}

impl Csv {
    /// Makes the file anew, with its head.
    pub fn create(path: &Path) -> Result<Self> {
        let failed = |source| Error::File {
            path: path.to_owned(),
            source,
        };
        let mut out = BufWriter::new(File::create(path).map_err(failed)?);
        writeln!(out, "{HEAD}").map_err(failed)?;
        Ok(Csv {
            path: path.to_owned(),
            out,
        })
    }

    /// Appends a line.
    pub fn write(
        &mut self,
        contender: &str,
        size: usize,
        round: usize,
        sample: &Sample,
    ) -> Result<()> {
        let line = format!(
            "{},{},{size},{},{round},{:.4},{},{},{}",
            sample.figure.name(),
            sample.figure.unit(),
            quoted(contender),
            sample.value,
            sample.operations,
            u8::from(sample.cut),
            sample.faults
        );
        writeln!(self.out, "{line}").map_err(|source| self.failed(source))
    }

    /// Brings everything to the file.
    pub fn finish(mut self) -> Result<PathBuf> {
        self.out.flush().map_err(|source| self.failed(source))?;
        Ok(self.path)
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
    use crate::figure::Figure;

    #[test]
    fn a_round_is_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let mut csv = Csv::create(&folder.path().join("a.csv")).unwrap();
        let sample = Sample {
            figure: Figure::Arm,
            value: 1.5,
            operations: 7,
            cut: true,
            faults: 0,
        };
        csv.write("heap, d = 4", 10, 2, &sample).unwrap();
        let text = std::fs::read_to_string(csv.finish().unwrap()).unwrap();
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [HEAD, "arm,ns a timer,10,\"heap, d = 4\",2,1.5000,7,1,0"]
        );
    }
}
