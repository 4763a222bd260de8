//! Options of HGETEX, HSETEX, SADDEX and ZADDEX: a condition, a deadline, and the named elements.

use punctual_resp::Args;

use super::deadline;
use crate::arguments::{TimeUnit, int, is};
use crate::error::Error;
use crate::turn::Cx;
use crate::value::parts::Words;

/// Change of the elements' deadlines.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::command) enum Ttl {
    /// No such option was given: HGETEX then keeps deadlines, and the others remove them.
    NotGiven,
    /// KEEPTTL.
    Keep,
    /// PERSIST.
    Remove,
    Until(u64),
    /// The new deadline has passed, so the elements are removed at once.
    Past,
}

/// Condition on the existence of the named elements.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Always,
    NoneExists,
    AllExist,
}

/// What the commands' grammars do not have in common.
pub(in crate::command) struct Grammar {
    pub(in crate::command) command: &'static str,
    /// Number of arguments of an element. An element's name is the first in a hash, else the last.
    pub(in crate::command) each: usize,
    /// The command writes elements: it has conditions, and KEEPTTL instead of PERSIST.
    pub(in crate::command) writes: bool,
    /// Options may also follow the elements, as in Redis 8.12.
    pub(in crate::command) any_order: bool,
}

pub(in crate::command) struct Options<'a> {
    pub(in crate::command) ttl: Ttl,
    condition: Condition,
    /// The arguments of the elements.
    pub(in crate::command) elements: Args<'a>,
}

impl<'a> Options<'a> {
    /// Parses the arguments after the key.
    pub(in crate::command) fn parse(
        cx: &Cx,
        args: Args<'a>,
        words: &Words,
        grammar: &Grammar,
    ) -> Result<Self, Error> {
        let arity = || Error::Arity(grammar.command.into());
        let (mut ttl, mut condition, mut elements) = (Ttl::NotGiven, Condition::Always, None);
        let mut at = 2;
        while let Some(word) = args.get(at) {
            at += 1;
            let without_ttl = || match ttl {
                Ttl::NotGiven => Ok(()),
                _ if grammar.writes => Err(Error::fixed(
                    "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
                )),
                _ => Err(Error::fixed(
                    "ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified",
                )),
            };
            if is(word, words.keyword) {
                if elements.is_some() {
                    return Err(Error::fixed("ERR MEMBERS keyword specified multiple times"));
                }
                let count = int(args.get(at).ok_or_else(arity)?).ok();
                let count = count.filter(|count| (1..=i64::from(i32::MAX)).contains(count));
                let len = count.ok_or(Error::fixed(words.invalid_number))? as usize * grammar.each;
                let rest = args.skip(at + 1);
                if rest.len() < len && grammar.any_order {
                    return Err(Error::fixed("ERR wrong number of arguments"));
                } else if rest.len() != len && !grammar.any_order {
                    return Err(arity());
                }
                elements = Some(rest.take(len));
                at += 1 + len;
            } else if let Some(unit) = TimeUnit::of_option(word) {
                without_ttl()?;
                let amount = args
                    .get(at)
                    .ok_or(Error::fixed("ERR missing expire time"))?;
                let unit_ms = if unit.seconds { 1000 } else { 1 };
                let amount = int(amount)?;
                let deadline = deadline(cx, amount, (unit_ms, unit.absolute), grammar.command)?;
                // A relative time counts from the current time rounded up, so a deadline 0 ms from
                // now may not be due yet.
                let past = cx.now().is_due(deadline) || (amount == 0 && !unit.absolute);
                ttl = if past {
                    Ttl::Past
                } else {
                    Ttl::Until(deadline)
                };
                at += 1;
            } else if is(word, "KEEPTTL") && grammar.writes {
                without_ttl()?;
                ttl = Ttl::Keep;
            } else if is(word, "PERSIST") && !grammar.writes {
                without_ttl()?;
                ttl = Ttl::Remove;
            } else if let Some(exists) = words.conditions.iter().position(|w| is(word, w))
                && grammar.writes
            {
                if condition != Condition::Always {
                    return Err(Error::fixed(words.one_condition));
                }
                condition = [Condition::NoneExists, Condition::AllExist][exists];
            } else {
                return Err(Error::repeating("ERR unknown argument: ", word, ""));
            }
        }
        let missing = || match grammar.any_order {
            true => Error::fixed("ERR missing MEMBERS argument"),
            false => arity(),
        };
        Ok(Self {
            ttl,
            condition,
            elements: elements.ok_or_else(missing)?,
        })
    }

    /// Returns whether the condition holds for elements of these names.
    pub(in crate::command) fn hold<'n>(
        &self,
        mut names: impl Iterator<Item = &'n [u8]>,
        exists: impl Fn(&[u8]) -> bool,
    ) -> bool {
        match self.condition {
            Condition::Always => true,
            Condition::NoneExists => !names.any(exists),
            Condition::AllExist => names.all(exists),
        }
    }
}
