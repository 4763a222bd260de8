//! CSV file with one line per measurement.

use std::path::Path;

use crate::error::Result;

/// The columns.
const HEAD: &str = "date,benchmark,server,case,round,metric,unit,value";

/// One measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measurement<'a> {
    /// Name of the benchmark, for example `server`.
    pub(crate) benchmark: &'a str,
    /// Product and version.
    pub(crate) server: &'a str,
    /// The measured operation, for example `get pipeline=16`.
    pub(crate) case: &'a str,
    /// Number of the round, from 1.
    pub(crate) round: u32,
    /// The measured quantity, for example `cpu_per_command`.
    pub(crate) metric: &'a str,
    /// Its unit, for example `us`.
    pub(crate) unit: &'a str,
    pub(crate) value: f64,
}

/// The CSV file.
#[derive(Debug)]
pub(crate) struct Csv {
    file: punctual_figures::csv::Csv,
    date: String,
}

impl Csv {
    /// Creates or truncates the file, and writes its head.
    pub(crate) fn create(path: &Path, date: &str) -> Result<Self> {
        Ok(Self {
            file: punctual_figures::csv::Csv::create(path, HEAD)?,
            date: date.to_owned(),
        })
    }

    /// Appends one line.
    pub(crate) fn write(&mut self, one: Measurement<'_>) -> Result<()> {
        Ok(self.file.line(&[
            &self.date,
            &one.benchmark,
            &one.server,
            &one.case,
            &one.round,
            &one.metric,
            &one.unit,
            &one.value,
        ])?)
    }

    /// Flushes the buffer.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.file.finish()?;
        Ok(())
    }
}
