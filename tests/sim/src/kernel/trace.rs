//! A hash of everything that happens in a run. Two runs of a seed must have the same hash.

/// The hash so far.
#[derive(Debug, Default)]
pub struct Trace {
    hash: u64,
    /// Whether events are also printed.
    pub prints: bool,
}

impl Trace {
    /// Returns the hash.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    fn mix(&mut self, word: u64) {
        self.hash = (self.hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    /// Adds an event with its figures.
    pub fn note(&mut self, name: &'static str, figures: [u64; 3]) {
        self.mix(name.len() as u64);
        figures.into_iter().for_each(|figure| self.mix(figure));
        if self.prints {
            eprintln!("{name} {figures:?} {:016x}", self.hash);
        }
    }

    /// Prints a line if events are printed. The line is not part of the hash.
    pub fn tell(&self, line: impl FnOnce() -> String) {
        if self.prints {
            eprintln!("{}", line());
        }
    }

    /// Adds the bytes of a transfer.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words
            .iter()
            .for_each(|word| self.mix(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| self.mix(u64::from(*byte)));
    }
}
