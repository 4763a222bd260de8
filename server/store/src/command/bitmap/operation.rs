//! BITOP: bitwise operations on strings. DIFF, DIFF1, ANDOR and ONE are from Redis 8.2.

use punctual_resp::{Args, Reply};

use crate::arguments::is;
use crate::error::Error;
use crate::events::Classes;
use crate::turn::Cx;
use crate::value::Value;
use crate::value::string::Str;

const NOT_NEEDS_ONE_SOURCE: Error =
    Error::fixed("ERR BITOP NOT must be called with a single source key.");

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
    /// Bits of the first string and of no other one.
    Diff,
    /// Bits of any other string and not of the first one.
    Diff1,
    /// Bits of the first string and of any other one.
    AndOr,
    /// Bits of exactly one string.
    One,
}

impl Operation {
    fn parse(word: &[u8]) -> Result<Self, Error> {
        match () {
            () if is(word, "AND") => Ok(Self::And),
            () if is(word, "OR") => Ok(Self::Or),
            () if is(word, "XOR") => Ok(Self::Xor),
            () if is(word, "NOT") => Ok(Self::Not),
            () if is(word, "DIFF") => Ok(Self::Diff),
            () if is(word, "DIFF1") => Ok(Self::Diff1),
            () if is(word, "ANDOR") => Ok(Self::AndOr),
            () if is(word, "ONE") => Ok(Self::One),
            () => Err(Error::Syntax),
        }
    }

    /// Returns whether Redis 7 has the operation. Other operations have SET or DEL as effects, so
    /// that a replica that runs Redis 7 can apply them.
    fn is_old(self) -> bool {
        matches!(self, Self::And | Self::Or | Self::Xor | Self::Not)
    }

    fn check_sources(self, number: usize) -> Result<(), Error> {
        let name = match self {
            Self::Not if number != 1 => {
                return Err(NOT_NEEDS_ONE_SOURCE);
            }
            Self::Diff => "DIFF",
            Self::Diff1 => "DIFF1",
            Self::AndOr => "ANDOR",
            _ => return Ok(()),
        };
        if number < 2 {
            let (before, after) = (
                "ERR BITOP ",
                " must be called with at least two source keys.",
            );
            return Err(Error::repeating(before, name.as_bytes(), after));
        }
        Ok(())
    }

    /// Combines `all` with `more` byte by byte and stores the result in `all`. The shorter text is
    /// padded with zeros. O(length of the longer text).
    fn combine(all: &mut Vec<u8>, more: &[u8], operation: impl Fn(u8, u8) -> u8) {
        all.resize(all.len().max(more.len()), 0);
        let (with, beyond) = all.split_at_mut(more.len());
        with.iter_mut()
            .zip(more)
            .for_each(|(a, b)| *a = operation(*a, *b));
        beyond.iter_mut().for_each(|a| *a = operation(*a, 0));
    }
}

/// Intermediate results of a BITOP, to which `add` adds one string after another.
struct Sources {
    operation: Operation,
    first: Vec<u8>,
    /// Combination of the added strings. For DIFF, DIFF1 and ANDOR, the first string is left out.
    all: Vec<u8>,
    /// Bits that more than one string has, for ONE.
    twice: Vec<u8>,
}

impl Sources {
    fn add(&mut self, index: usize, text: &[u8]) {
        let Self {
            operation,
            first,
            all,
            twice,
        } = self;
        match operation {
            Operation::Diff | Operation::Diff1 | Operation::AndOr if index == 0 => {
                first.extend_from_slice(text);
            }
            Operation::One => {
                let mut both = all.clone();
                Operation::combine(&mut both, text, |a, b| a & b);
                Operation::combine(twice, &both, |a, b| a | b);
                Operation::combine(all, text, |a, b| a | b);
            }
            _ if index == 0 => all.extend_from_slice(text),
            Operation::And => Operation::combine(all, text, |a, b| a & b),
            Operation::Xor => Operation::combine(all, text, |a, b| a ^ b),
            _ => Operation::combine(all, text, |a, b| a | b),
        }
    }

    fn result(mut self) -> Vec<u8> {
        let all = &mut self.all;
        match self.operation {
            Operation::Not => all.iter_mut().for_each(|byte| *byte = !*byte),
            Operation::Diff => {
                Operation::combine(all, &self.first, |others, first| first & !others)
            }
            Operation::Diff1 => {
                Operation::combine(all, &self.first, |others, first| others & !first)
            }
            Operation::AndOr => {
                Operation::combine(all, &self.first, |others, first| first & others)
            }
            Operation::One => Operation::combine(all, &self.twice, |once, twice| once & !twice),
            Operation::And | Operation::Or | Operation::Xor => {}
        }
        self.all
    }
}

pub(super) fn bitop(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let operation = Operation::parse(&args[1])?;
    let (target, sources) = (&args[2], args.skip(3));
    operation.check_sources(sources.len())?;
    let mut combined = Sources {
        operation,
        first: Vec::new(),
        all: Vec::new(),
        twice: Vec::new(),
    };
    for (index, key) in sources.iter().enumerate() {
        let mut buffer = itoa::Buffer::new();
        let text = match cx.read_str(key)? {
            Some(string) => string.text(&mut buffer),
            None => b"",
        };
        combined.add(index, text);
    }
    let all = combined.result();
    let len = all.len();
    if len > 0 {
        if !operation.is_old() {
            cx.effect(&[b"SET", target, &all]);
        }
        cx.overwrite(target, Value::Str(Str::from_vec(all)));
        cx.commit(target, Classes::STRING, "set", 1);
    } else if cx.remove(target).is_some() {
        cx.commit(target, Classes::GENERIC, "del", 1);
        if !operation.is_old() {
            cx.effect(&[b"DEL", target]);
        }
    }
    reply.int(len as i64);
    Ok(())
}
