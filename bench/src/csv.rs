//! Every round as a line of comma-separated values.

use std::path::Path;

pub use punctual_figures::csv::Csv;

use crate::error::Result;
use crate::figure::Sample;

/// The columns. `round` 0 is a warm-up round that was slow enough to count.
const HEAD: &str = "figure,unit,timers,contender,round,value,operations,cut,faults";

/// Creates the file with its header.
pub fn create(path: &Path) -> Result<Csv> {
    Ok(Csv::create(path, HEAD)?)
}

/// Appends a round.
pub fn write(
    csv: &mut Csv,
    contender: &str,
    size: usize,
    round: usize,
    sample: &Sample,
) -> Result<()> {
    Ok(csv.line(&[
        &sample.figure.name(),
        &sample.figure.unit(),
        &size,
        &contender,
        &round,
        &format!("{:.4}", sample.value),
        &sample.operations,
        &u8::from(sample.cut),
        &sample.faults,
    ])?)
}
