//! Commands as text, for inputs that people and other programs write: the simulation records the
//! commands of its clients in this form.
//!
//! The first line is `#1` or `#8`, the number of shards. Each other line is a command, whose words
//! have no spaces. SELECT, MULTI and EXEC work as a client's; `+n` advances the clock by n ms and
//! expires what is due.

use punctual_resp::OwnedArgs;
use punctual_store::events::Classes;
use punctual_store::{Now, Source, Turn};

use super::{DATABASES, World, row_of, run_checked};

/// The first byte of an input that has commands as text.
pub const MARK: u8 = b'#';
/// Maximum number of lines.
const LINES: usize = 300;
/// Maximum number of lines of a transaction.
const QUEUED: usize = 20;
/// Number of lines between two comparisons.
const BETWEEN: usize = 16;
/// Maximum length of a string: mutated offsets would create values of 512 MiB.
pub const STRING_MAX: u64 = 1 << 16;

type Words<'a> = Vec<&'a [u8]>;

/// Returns the number of shards.
pub fn shards(input: &[u8]) -> usize {
    match input.get(1) {
        Some(b'8') => 8,
        _ => 1,
    }
}

fn number(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Returns whether a command may reply with a very large number of elements.
fn is_endless(words: &Words) -> bool {
    let long = |word: &&&[u8]| word.starts_with(b"-") && word.len() > 4;
    words[0]
        .to_ascii_lowercase()
        .windows(4)
        .any(|part| part == b"rand")
        && words.iter().any(|word| long(&word))
}

impl World {
    /// Runs the commands of a text.
    pub fn run_text(&mut self, text: &[u8]) {
        let mut queued: Option<Vec<Words>> = None;
        let mut db = 0;
        for (at, line) in text
            .split(|byte| *byte == b'\n')
            .skip(1)
            .take(LINES)
            .enumerate()
        {
            let words: Words = line.split(|byte| *byte == b' ').collect();
            let name = words[0].to_ascii_lowercase();
            match (&name[..], &mut queued) {
                (b"select", _) => {
                    let wanted = words.get(1).and_then(|word| number(word)).unwrap_or(0);
                    db = wanted as usize % DATABASES;
                }
                (b"multi", None) => queued = Some(Vec::new()),
                (b"multi" | b"exec", Some(lines)) => {
                    let lines = std::mem::take(lines);
                    queued = None;
                    self.run_lines(db, Source::Exec, &lines);
                }
                (_, Some(lines)) if lines.len() < QUEUED => lines.push(words),
                (_, Some(_)) => {}
                ([b'+', ms @ ..], None) => self.advance(number(ms).unwrap_or(1)),
                (_, None) => self.run_lines(db, Source::Client, &[words]),
            }
            self.follow();
            if at % BETWEEN == BETWEEN - 1 {
                self.compare_sizes();
                self.compare_followers();
            }
        }
    }

    /// Advances the clock by at most a day, and expires what is due.
    fn advance(&mut self, ms: u64) {
        self.now = Now::from_micros(self.now.micros() + ms.min(86_400_000) * 1_000);
        let mut turn = Turn::new(&self.store, self.now, &mut self.log, Classes::none());
        for shard in 0..self.store.shards() {
            turn.expire(shard, &mut 256);
            Self::fire(&mut turn);
        }
    }

    /// Runs lines in one turn.
    fn run_lines(&mut self, db: usize, source: Source, lines: &[Words]) {
        let mut turn = Turn::new(&self.store, self.now, &mut self.log, Classes::none());
        if source != Source::Client {
            turn.pin(None);
        }
        let outer = turn.enter(source);
        for words in lines {
            let args: OwnedArgs = words.iter().collect();
            let args = args.as_args();
            let Some(row) = row_of(args).filter(|row| row.takes(args.len())) else {
                continue;
            };
            if is_endless(words) {
                continue;
            }
            let shown = words.join(&b' ').escape_ascii().to_string();
            self.trace
                .0
                .push(format!("{:?} @{db} {source:?}: {shown}", turn.now));
            run_checked(&mut turn, row, db, args, self.protocol);
        }
        turn.leave(outer);
        turn.unpin();
    }
}
