//! BITOP: bitwise operations on strings.

use punctual_resp::{Args, Reply};

use crate::command::arguments::is;
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
}

impl Operation {
    fn parse(word: &[u8]) -> Result<Self, Error> {
        match () {
            () if is(word, "AND") => Ok(Self::And),
            () if is(word, "OR") => Ok(Self::Or),
            () if is(word, "XOR") => Ok(Self::Xor),
            () if is(word, "NOT") => Ok(Self::Not),
            () => Err(Error::Syntax),
        }
    }

    /// Combines `all` with one more string; the shorter one is padded with zeros. O(length of the longer one).
    fn combine(self, all: &mut Vec<u8>, more: &[u8]) {
        let common = all.len().min(more.len());
        let (with, beyond) = more.split_at(common);
        let pairs = all.iter_mut().zip(with);
        match self {
            Self::And => pairs.for_each(|(a, b)| *a &= b),
            Self::Or => pairs.for_each(|(a, b)| *a |= b),
            Self::Xor => pairs.for_each(|(a, b)| *a ^= b),
            Self::Not => {}
        }
        if self == Self::And {
            all[common..].fill(0);
            all.resize(common + beyond.len().max(all.len() - common), 0);
        } else {
            all.extend_from_slice(beyond);
        }
    }
}

pub(super) fn bitop(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    let operation = Operation::parse(&args[1])?;
    let (target, sources) = (&args[2], args.skip(3));
    if operation == Operation::Not && sources.len() != 1 {
        return Err(NOT_NEEDS_ONE_SOURCE);
    }
    let mut all = Vec::new();
    for (i, key) in sources.iter().enumerate() {
        let mut buffer = itoa::Buffer::new();
        let text = match cx.read_str(key)? {
            Some(string) => string.text(&mut buffer),
            None => b"",
        };
        if i == 0 {
            all.extend_from_slice(text);
        } else {
            operation.combine(&mut all, text);
        }
    }
    if operation == Operation::Not {
        all.iter_mut().for_each(|byte| *byte = !*byte);
    }
    let len = all.len();
    if len > 0 {
        cx.overwrite(target, Value::from_str(Str::from_vec(all)));
        cx.commit(target, Classes::STRING, "set", 1);
    } else if cx.remove(target).is_some() {
        cx.commit(target, Classes::GENERIC, "del", 1);
    }
    reply.int(len as i64);
    Ok(())
}
