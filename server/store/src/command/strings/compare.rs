//! Conditions on a key's current string, as in Redis 8.4: the options IFEQ, IFNE, IFDEQ and IFDNE
//! of SET and DELEX, and the command DIGEST.

use punctual_resp::{Args, Reply};
use twox_hash::XxHash3_64;

use crate::arguments::is;
use crate::error::Error;
use crate::events::Classes;
use crate::turn::Cx;
use crate::value::string::Str;

/// A condition on the current string of a key.
#[derive(Clone, Copy)]
pub(super) struct Comparison {
    /// Compares digests instead of values.
    digest: bool,
    /// True if the condition holds for equality, false if it holds for a difference.
    equal: bool,
}

impl Comparison {
    /// Parses the option word; its operand follows it.
    pub(super) fn of_option(word: &[u8]) -> Option<Self> {
        let (digest, equal) = match () {
            () if is(word, "IFEQ") => (false, true),
            () if is(word, "IFNE") => (false, false),
            () if is(word, "IFDEQ") => (true, true),
            () if is(word, "IFDNE") => (true, false),
            () => return None,
        };
        Some(Self { digest, equal })
    }

    /// Returns whether the condition holds for a key that does not exist.
    pub(super) fn holds_without_key(self) -> bool {
        !self.equal
    }

    /// Checks the operand's format. Commands do this before they look up the key.
    pub(super) fn check(self, operand: &[u8]) -> Result<(), Error> {
        if self.digest && (operand.len() != 16 || !operand.iter().all(u8::is_ascii_hexdigit)) {
            return Err(Error::fixed(
                "ERR must be exactly 16 hexadecimal characters",
            ));
        }
        Ok(())
    }

    /// Returns whether the condition holds for a string. O(length).
    pub(super) fn holds(self, string: &Str, operand: &[u8]) -> bool {
        let mut buffer = itoa::Buffer::new();
        let text = string.text(&mut buffer);
        let same = match self.digest {
            true => operand.eq_ignore_ascii_case(digest_of(text).as_bytes()),
            false => operand == text,
        };
        same == self.equal
    }
}

/// Returns the XXH3 hash of a string, in 16 hexadecimal digits.
fn digest_of(text: &[u8]) -> String {
    format!("{:016x}", XxHash3_64::oneshot(text))
}

pub(super) fn digest(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let mut buffer = itoa::Buffer::new();
    match cx.read_str(&args[1])? {
        Some(string) => reply.bulk(digest_of(string.text(&mut buffer)).as_bytes()),
        None => reply.null(),
    }
    Ok(())
}

pub(super) fn delex(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let condition = match args.len() {
        2 => None,
        4 => Some(Comparison::of_option(&args[2]).ok_or(Error::fixed(
            "ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE",
        ))?),
        _ => return Err(Error::Arity("delex".into())),
    };
    let key = &args[1];
    if let Some(condition) = condition {
        condition.check(&args[3])?;
        let (place, found) = cx.seek_to_write(key);
        let Some(id) = found else {
            reply.int(0);
            return Ok(());
        };
        let Some(string) = cx.db_at(place).get(id).value.as_str() else {
            return Err(Error::fixed(
                "ERR Key should be of string type if conditions are specified",
            ));
        };
        if !condition.holds(string, &args[3]) {
            reply.int(0);
            return Ok(());
        }
    }
    let removed = cx.remove(key).is_some();
    if removed {
        cx.commit(key, Classes::GENERIC, "del", 1);
        cx.effect(&[b"DEL", key]);
    }
    reply.int(i64::from(removed));
    Ok(())
}
