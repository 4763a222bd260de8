//! Counts of error replies by code, for INFO errorstats.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// Number of error replies for each code (the first word of the error).
#[derive(Default)]
pub struct ErrorCounts(Mutex<BTreeMap<String, u64>>);

impl ErrorCounts {
    /// Counts an error.
    pub fn count(&self, error: &punctual_store::Error) {
        /// Maximum number of codes; further codes count as `OTHERS`. Clients could create any
        /// number of codes, for example with DEBUG ERROR.
        const CODES_MAX: usize = 128;
        const OTHERS: &str = "ERRORSTATS_OVERFLOW";
        let is_name = |code: &str| {
            code.bytes()
                .all(|b| b.is_ascii_graphic() && !b":#=".contains(&b))
                && !code.is_empty()
        };
        let text = error.bytes();
        let text = String::from_utf8_lossy(&text);
        // As in Redis, a text counts as `ERR` if it has no space, or if its first word is long or
        // no valid name.
        let code = match text.split_once(' ') {
            Some((code, _)) if code.len() < 32 && is_name(code) => code,
            _ => "ERR",
        };
        let mut counts = self.0.lock();
        match counts.get_mut(code) {
            Some(count) => *count += 1,
            None => {
                let code = if counts.len() < CODES_MAX {
                    code
                } else {
                    OTHERS
                };
                *counts.entry(code.to_owned()).or_default() += 1;
            }
        }
    }

    /// Returns all counts in the order of the code words.
    pub fn all(&self) -> Vec<(String, u64)> {
        self.0.lock().iter().map(|(k, v)| (k.clone(), *v)).collect()
    }

    /// Removes all counts.
    pub fn reset(&self) {
        self.0.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_error_codes_count_as_err() {
        let counts = ErrorCounts::default();
        for text in [
            "WRONGTYPE x",
            "A:B x",
            "A\r\nB x",
            "\u{e9} x",
            "alone",
            " x",
        ] {
            counts.count(&punctual_store::Error::Text(text.into()));
        }
        let all = counts.all();
        assert_eq!(all, [("ERR".to_owned(), 5), ("WRONGTYPE".to_owned(), 1)]);
    }
}
