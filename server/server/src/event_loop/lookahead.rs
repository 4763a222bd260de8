//! Parsing of the next commands of a pipeline before they run. The dispatcher prefetches their keys
//! together ([`Dispatcher::look_ahead`](crate::dispatch::Dispatcher::look_ahead)).

use punctual_resp::{Args, Command, Limits, Parser};
use punctual_store::hash_table::WARM_MAX;
use smallvec::SmallVec;

/// Commands parsed ahead.
pub(crate) type Ahead<'a> = SmallVec<[Command<'a>; WARM_MAX]>;

/// Parsers, one for each command that is parsed ahead. All connections of a loop share them, so
/// they keep no state between two calls.
#[derive(Default)]
pub(crate) struct Lookahead {
    parsers: Vec<Parser>,
}

impl Lookahead {
    pub(crate) fn new() -> Self {
        Self {
            parsers: (0..WARM_MAX).map(|_| Parser::new()).collect(),
        }
    }

    /// Takes inputs with the numbers of their databases. Yields, for each input, the database and
    /// the arguments of the first command, if the command is complete. Reads at most [`WARM_MAX`]
    /// inputs.
    pub(crate) fn parse_first<'a>(
        &'a mut self,
        inputs: impl Iterator<Item = (usize, &'a [u8])>,
        limits: &Limits,
    ) -> impl Iterator<Item = (usize, Option<Args<'a>>)> {
        let inputs = self.parsers.iter_mut().zip(inputs);
        inputs.map(|(parser, (db, bytes))| {
            parser.reset();
            let command = parser.parse(bytes, limits).ok().flatten();
            (db, command.map(|command| command.args))
        })
    }

    /// Returns the complete commands at the start of `bytes`, at most [`WARM_MAX`]. The
    /// connection's own parser handles incomplete and malformed commands.
    pub(crate) fn parse<'a>(&'a mut self, bytes: &'a [u8], limits: &Limits) -> Ahead<'a> {
        let mut ahead = Ahead::new();
        let mut at = 0;
        for parser in &mut self.parsers {
            // The parser may have stopped within another connection's command.
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
