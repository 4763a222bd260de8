//! Records of a snapshot that the server cannot keep.

use std::path::PathBuf;

use punctual_rdb::Skipped;

use crate::log;
use crate::node::Shared;
use crate::persist::load::{LoadError, ReadFailure};

/// Maximum number of unsupported records that the log or an error lists.
const LISTED_MAX: u64 = 10;

/// Records of types that the server does not support. The next save would lose these records, so
/// the load is refused unless `import-skip-unknown` is on.
pub(super) struct Unsupported {
    /// Value of `import-skip-unknown`.
    skip: bool,
    count: u64,
    /// Descriptions of the first records, for the error.
    listed: Vec<String>,
}

impl Unsupported {
    /// Creates an empty list. `skip` is the value of `import-skip-unknown`.
    pub(super) fn new(skip: bool) -> Self {
        Self {
            skip,
            count: 0,
            listed: Vec::new(),
        }
    }

    pub(super) fn refuses(&self) -> bool {
        !self.skip && self.count > 0
    }

    pub(super) fn add(&mut self, shared: &Shared, passed: &Skipped<'_>, db: usize) {
        self.count += 1;
        if self.count > LISTED_MAX {
            return;
        }
        let record = format!(
            "{} \"{}\" (type {}, database {db}, byte {})",
            passed.what,
            passed.name.escape_ascii(),
            passed.type_byte,
            passed.offset
        );
        if self.skip {
            log::warning!(
                shared.logger,
                "Skipped a record of the RDB file, because its type is not supported: {record}"
            );
        } else {
            self.listed.push(record);
        }
    }

    pub(super) fn end(self, shared: &Shared) -> Result<(), ReadFailure> {
        if self.refuses() {
            let mut records = self.listed.join(", ");
            if self.count > LISTED_MAX {
                records.push_str(", ...");
            }
            return Err(ReadFailure::Other(LoadError::Unsupported {
                path: PathBuf::new(),
                count: self.count,
                records,
            }));
        }
        if self.count > LISTED_MAX {
            log::warning!(
                shared.logger,
                "Skipped {} records of the RDB file in total",
                self.count
            );
        }
        Ok(())
    }
}
