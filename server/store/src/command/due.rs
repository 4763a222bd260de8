//! Arguments and replies of TIMER COUNT and JOB COUNT, which count due entries in a time range or
//! in each of its equal parts.

use std::ops::Range;

use punctual_resp::{Args, Reply};

use crate::arguments::{int, is};
use crate::error::Error;
use crate::time::NEVER;

/// Maximum number of parts: the minutes of a day.
const PARTS_MAX: usize = 1_440;

/// A time range in unix milliseconds, and the number of timers or jobs that become due in each
/// part.
#[derive(Debug)]
pub struct DueCounts {
    /// The range; its end is excluded.
    pub range: Range<u64>,
    /// One count for each equal part of the range.
    pub counts: Vec<u64>,
    has_parts: bool,
}

impl DueCounts {
    /// Parses `from to [BUCKETS n]`, where n is the number of parts.
    ///
    /// # Errors
    /// A syntax error, an invalid number, a range that ends before it begins, or BUCKETS with
    /// `-` or `+`.
    pub fn parse(args: Args) -> Result<Self, Error> {
        let end = |text: &[u8], open: &[u8], ms: u64| match text {
            text if text == open => Ok(ms),
            text => Ok(u64::try_from(int(text)?).unwrap_or(0)),
        };
        let range = end(&args[0], b"-", 0)?..end(&args[1], b"+", NEVER)?;
        if range.start > range.end {
            return Err(Error::fixed("ERR the range ends before it begins"));
        }
        let parts = match args.len() {
            2 => None,
            4 if is(&args[2], "BUCKETS") => Some(int(&args[3])?),
            _ => return Err(Error::Syntax),
        };
        let has_parts = parts.is_some();
        let parts = usize::try_from(parts.unwrap_or(1)).unwrap_or(0);
        if parts == 0 || parts > PARTS_MAX {
            return Err(Error::fixed("ERR BUCKETS is from 1 to 1440"));
        }
        if has_parts && (args[0] == *b"-" || args[1] == *b"+") {
            return Err(Error::fixed("ERR BUCKETS needs a range with two times"));
        }
        Ok(Self {
            range,
            counts: vec![0; parts],
            has_parts,
        })
    }

    /// Writes the counts: an array with BUCKETS, else a number.
    pub fn write(&self, reply: &mut Reply) {
        if self.has_parts {
            reply.array(self.counts.len());
        }
        for count in &self.counts {
            reply.int(i64::try_from(*count).unwrap_or(i64::MAX));
        }
    }
}
