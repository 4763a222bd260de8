//! Parsers of ranges of a sorted set: by rank, score or name, in either direction, with a limit.

use std::ops::Range;

use punctual_resp::Args;

use crate::arguments::{int, is};
use crate::error::Error;
use crate::value::zset::{LexBound, LexRange, ScoreBound, ScoreRange, Zset, parse_score_bound};

const NOT_SCORES: Error = Error::fixed("ERR min or max is not a float");
const NOT_NAMES: Error = Error::fixed("ERR min or max not valid string range item");
const LIMIT_OF_RANKS: Error = Error::fixed(
    "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
);
const SCORES_OF_NAMES: Error =
    Error::fixed("ERR syntax error, WITHSCORES not supported in combination with BYLEX");

/// Kind of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Rank,
    Score,
    Name,
}

/// A range of a sorted set.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part<'a> {
    /// First and last rank; negative ranks count from the end.
    Ranks(i64, i64),
    Scores(ScoreRange),
    Names(LexRange<'a>),
}

impl<'a> Part<'a> {
    pub(super) fn parse(by: By, min: &'a [u8], max: &'a [u8]) -> Result<Self, Error> {
        Ok(match by {
            By::Rank => Self::Ranks(int(min)?, int(max)?),
            By::Score => Self::Scores(ScoreRange {
                min: score_bound(min)?,
                max: score_bound(max)?,
            }),
            By::Name => Self::Names(LexRange {
                min: lex_bound(min)?,
                max: lex_bound(max)?,
            }),
        })
    }

    /// Converts the range to ranks. With `backwards`, ranks count from the highest score, and names
    /// are searched from the last one.
    pub(super) fn ranks(&self, zset: &Zset, backwards: bool) -> Range<usize> {
        match self {
            Self::Scores(range) => zset.ranks_by_score(range),
            Self::Names(range) => zset.ranks_by_lex(range, backwards),
            Self::Ranks(start, end) => {
                let len = zset.len() as i64;
                let from_start = |rank: i64| {
                    if rank < 0 {
                        rank.saturating_add(len)
                    } else {
                        rank
                    }
                };
                let start = from_start(*start).max(0);
                let end = from_start(*end).min(len - 1);
                if start > end {
                    return 0..0;
                }
                let (start, end) = (start as usize, end as usize + 1);
                if backwards {
                    zset.len() - end..zset.len() - start
                } else {
                    start..end
                }
            }
        }
    }
}

fn score_bound(arg: &[u8]) -> Result<ScoreBound, Error> {
    let (exclusive, text) = match arg {
        [b'(', text @ ..] => (true, text),
        text => (false, text),
    };
    let score = parse_score_bound(text).ok_or(NOT_SCORES)?;
    Ok(ScoreBound { score, exclusive })
}

fn lex_bound(arg: &[u8]) -> Result<LexBound<'_>, Error> {
    match arg {
        // As in C, a NUL ends the text.
        [b'-'] | [b'-', 0, ..] => Ok(LexBound::Lowest),
        [b'+'] | [b'+', 0, ..] => Ok(LexBound::Highest),
        [b'[', name @ ..] => Ok(LexBound::Including(name)),
        [b'(', name @ ..] => Ok(LexBound::Excluding(name)),
        _ => Err(NOT_NAMES),
    }
}

/// Arguments of ZRANGE and its variants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Query<'a> {
    part: Part<'a>,
    pub(super) backwards: bool,
    offset: i64,
    /// Maximum number of members; no maximum if negative.
    limit: i64,
    pub(super) with_scores: bool,
}

impl<'a> Query<'a> {
    /// Parses bounds and options. BYSCORE, BYLEX and REV are errors if the command fixes `by` or
    /// `backwards`, and WITHSCORES is an error if the command stores the range.
    pub(super) fn parse(
        args: Args<'a>,
        by: Option<By>,
        backwards: Option<bool>,
        stores: bool,
    ) -> Result<Self, Error> {
        let (mut by, mut backwards) = (by, backwards);
        let (mut offset, mut limit, mut with_scores) = (0, -1, false);
        let mut at = 2;
        while let Some(option) = args.get(at) {
            match () {
                () if !stores && is(option, "WITHSCORES") => with_scores = true,
                () if is(option, "LIMIT") && at + 2 < args.len() => {
                    offset = int(&args[at + 1])?;
                    limit = int(&args[at + 2])?;
                    at += 2;
                }
                () if backwards.is_none() && is(option, "REV") => backwards = Some(true),
                () if by.is_none() && is(option, "BYLEX") => by = Some(By::Name),
                () if by.is_none() && is(option, "BYSCORE") => by = Some(By::Score),
                () => return Err(Error::Syntax),
            }
            at += 1;
        }
        let by = by.unwrap_or(By::Rank);
        let backwards = backwards.unwrap_or(false);
        if limit != -1 && by == By::Rank {
            return Err(LIMIT_OF_RANKS);
        }
        if with_scores && by == By::Name {
            return Err(SCORES_OF_NAMES);
        }
        let (min, max) = match backwards && by != By::Rank {
            true => (args.at(1), args.at(0)),
            false => (args.at(0), args.at(1)),
        };
        Ok(Self {
            part: Part::parse(by, min, max)?,
            backwards,
            offset,
            limit,
            with_scores,
        })
    }

    pub(super) fn is_by_rank(&self) -> bool {
        matches!(self.part, Part::Ranks(..))
    }

    /// Returns the ranks of the range, after LIMIT.
    pub(super) fn ranks(&self, zset: &Zset) -> Range<usize> {
        let all = self.part.ranks(zset, self.backwards);
        if self.is_by_rank() {
            return all;
        }
        // As in Redis, a negative offset skips all members.
        let offset = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let skipped = offset.min(all.len());
        let count = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let count = count.min(all.len() - skipped);
        if self.backwards {
            let end = all.end - skipped;
            end - count..end
        } else {
            let start = all.start + skipped;
            start..start + count
        }
    }
}
