//! Parsing some commands of a pipeline ahead of running them.

use punctual_resp::{Command, Limits, Parser};
use punctual_store::hash_table::WARM_MAX;
use smallvec::SmallVec;

/// Commands that are looked ahead.
pub(crate) type Ahead<'a> = SmallVec<[Command<'a>; WARM_MAX]>;

/// A parser for each command that is looked ahead. Shared by all connections of a loop, so between two calls they
/// hold nothing.
pub(crate) struct Lookahead {
    parsers: Vec<Parser>,
}

impl Lookahead {
    pub(crate) fn new() -> Self {
        Self {
            parsers: (0..WARM_MAX).map(|_| Parser::new()).collect(),
        }
    }

    /// The complete commands at the start of `bytes`, at most [`WARM_MAX`]. What is incomplete or wrong is left to the
    /// connection's own parser.
    pub(crate) fn parse<'a>(&'a mut self, bytes: &'a [u8], limits: &Limits) -> Ahead<'a> {
        let mut ahead = Ahead::new();
        let mut at = 0;
        for parser in &mut self.parsers {
            // It may have stopped in the middle of another connection's command.
            parser.reset();
            let Ok(Some(command)) = parser.parse(&bytes[at..], limits) else {
                break;
            };
            at += command.consumed;
            ahead.push(command);
        }
        ahead
    }
}
