//! Parsers of stream IDs, of the ends of ranges, and of the options of XADD and XTRIM.

use std::borrow::Cow;

use punctual_resp::Args;
use sha1::{Digest as _, Sha1};
use smallvec::SmallVec;

use crate::arguments::{Pairs, int, is};
use crate::error::{Error, c_string};
use crate::turn::Cx;
use crate::value::stream::{Bound, Id, Trim};

const INVALID_ID: Error =
    Error::fixed("ERR Invalid stream ID specified as stream command argument");

/// Parses an ID; a missing sequence number is 0.
pub(super) fn id(arg: &[u8]) -> Result<Id, Error> {
    Id::parse(arg, 0).ok_or(INVALID_ID)
}

/// Parses a list of IDs.
pub(super) fn ids(args: Args) -> Result<SmallVec<[Id; 8]>, Error> {
    args.iter().map(id).collect()
}

/// Parses the last-delivered ID of a group; `$` is `last`.
pub(super) fn id_or_last(arg: &[u8], last: Id) -> Result<Id, Error> {
    match arg {
        b"$" => Ok(last),
        arg => id(arg),
    }
}

/// Parses an ID, `-` or `+`. An ID without a sequence number gets the number `missing`.
pub(super) fn id_or_end(arg: &[u8], missing: u64) -> Result<Id, Error> {
    match c_string(arg) {
        b"-" => Ok(Id::MIN),
        b"+" => Ok(Id::MAX),
        _ => Id::parse(arg, missing).ok_or(INVALID_ID),
    }
}

/// Parses the start of a range: an ID, `-`, `+`, or `(` followed by an ID that is excluded. Returns
/// the first ID of the range.
pub(super) fn start(arg: &[u8]) -> Result<Id, Error> {
    match arg {
        [b'(', excluded @ ..] if !excluded.is_empty() => Id::parse(excluded, 0)
            .ok_or(INVALID_ID)?
            .next()
            .ok_or(Error::fixed("ERR invalid start ID for the interval")),
        arg => id_or_end(arg, 0),
    }
}

/// Parses the end of a range in the forms of [`start`]. Returns the last ID of the range.
pub(super) fn end(arg: &[u8]) -> Result<Id, Error> {
    match arg {
        [b'(', excluded @ ..] if !excluded.is_empty() => Id::parse(excluded, u64::MAX)
            .ok_or(INVALID_ID)?
            .prev()
            .ok_or(Error::fixed("ERR invalid end ID for the interval")),
        arg => id_or_end(arg, u64::MAX),
    }
}

/// ID of the new entry, as an argument of XADD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NewId {
    /// `*`: the current time.
    Now,
    /// `ms-*`: the next ID in this millisecond.
    In(u64),
    /// `ms-seq`, or `ms` for the sequence number 0.
    Exactly(Id),
}

impl NewId {
    fn parse(arg: &[u8]) -> Result<Self, Error> {
        match Id::parse_ms(arg) {
            Some(ms) => Ok(Self::In(ms)),
            None => id(arg).map(Self::Exactly),
        }
    }
}

/// Option for the references of consumer groups (pending entries) to an entry that is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum References {
    /// KEEPREF: the references stay.
    #[default]
    Keep,
    /// DELREF: the references are removed with the entry.
    Drop,
    /// ACKED: an entry with references, or that a group has not read, is not removed.
    Acked,
}

impl References {
    /// Parses an option.
    pub(super) fn parse(word: &[u8]) -> Option<Self> {
        let all = [
            ("KEEPREF", Self::Keep),
            ("DELREF", Self::Drop),
            ("ACKED", Self::Acked),
        ];
        all.into_iter()
            .find(|(name, _)| is(word, name))
            .map(|(_, references)| references)
    }
}

/// XADD's option IDMP or IDMPAUTO.
#[derive(Clone, Copy, Debug)]
pub(super) struct Idempotent {
    /// Position of the option.
    at: usize,
    /// True for IDMP, which has the name of the message after the name of the producer.
    named: bool,
}

impl Idempotent {
    /// Parses the option at `at`, which `more` arguments follow. Returns `None` for another word.
    fn parse(args: Args, at: usize, more: usize) -> Result<Option<Self>, Error> {
        let named = match args.at(at) {
            word if more > 1 && is(word, "IDMP") => true,
            word if more > 0 && is(word, "IDMPAUTO") => false,
            _ => return Ok(None),
        };
        let empty = |at: usize| args.at(at).is_empty();
        match named {
            true if empty(at + 1) => Err(Error::fixed("ERR IDMP requires a non-empty producer ID")),
            true if empty(at + 2) => {
                Err(Error::fixed("ERR IDMP requires a non-empty idempotent ID"))
            }
            false if empty(at + 1) => Err(Error::fixed(
                "ERR IDMPAUTO requires a non-empty producer ID",
            )),
            _ => Ok(Some(Self { at, named })),
        }
    }

    /// Returns the arguments of the option: its name, the producer and, for IDMP, the message.
    pub(super) fn words(self, args: Args<'_>) -> Args<'_> {
        args.skip(self.at).take(2 + usize::from(self.named))
    }

    /// Returns the names of the producer and of the message. IDMPAUTO names the message by a digest
    /// of the fields, whose order does not matter.
    pub(super) fn names<'a>(self, args: Args<'a>, fields: Args<'_>) -> (&'a [u8], Cow<'a, [u8]>) {
        let producer = args.at(self.at + 1);
        if self.named {
            return (producer, args.at(self.at + 2).into());
        }
        let mut pairs: SmallVec<[(&[u8], &[u8]); 8]> = Pairs(fields).collect();
        pairs.sort_unstable();
        let mut digest = Sha1::new();
        for text in pairs.into_iter().flat_map(|(name, value)| [name, value]) {
            digest.update((text.len() as u64).to_le_bytes());
            digest.update(text);
        }
        (producer, digest.finalize().to_vec().into())
    }
}

/// Options of XADD and XTRIM.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) trim: Option<Trim>,
    /// NOMKSTREAM: XADD does not create the stream.
    pub(super) only_existing: bool,
    pub(super) new_id: NewId,
    pub(super) idempotent: Option<Idempotent>,
    /// KEEPREF, DELREF or ACKED; `None` if no such option is given.
    pub(super) references: Option<References>,
    /// Position of the first argument after the options and after XADD's ID.
    pub(super) end: usize,
}

impl Options {
    /// Parses the arguments from index 2 on: the options, and XADD's ID if `adds`.
    pub(super) fn parse(cx: &Cx, args: Args, adds: bool) -> Result<Self, Error> {
        let mut options = Self {
            trim: None,
            only_existing: false,
            new_id: NewId::Now,
            idempotent: None,
            references: None,
            end: args.len(),
        };
        let mut limit = None;
        let mut at = 2;
        while at < args.len() {
            let (arg, more) = (args.at(at), args.len() - 1 - at);
            if adds && arg == b"*" {
                options.end = at + 1;
                break;
            } else if more > 0 && (is(arg, "MAXLEN") || is(arg, "MINID")) {
                if options.trim.is_some() {
                    return Err(Error::fixed(
                        "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
                    ));
                }
                let sign = args.at(at + 1);
                let signed = more > 1 && matches!(sign, b"~" | b"=");
                at += 1 + usize::from(signed);
                options.trim = Some(Trim {
                    bound: bound(is(arg, "MAXLEN"), args.at(at))?,
                    approximate: signed && sign == b"~",
                    limit: 0,
                });
            } else if more > 0 && is(arg, "LIMIT") {
                at += 1;
                let given = int(&args[at])?;
                let given = u64::try_from(given)
                    .map_err(|_| Error::fixed("ERR The LIMIT argument must be >= 0."))?;
                limit = Some(given);
            } else if adds && is(arg, "NOMKSTREAM") {
                options.only_existing = true;
            } else if let Some(references) = References::parse(arg) {
                if options.references.replace(references).is_some() {
                    return Err(Error::Syntax);
                }
            } else if adds && let Some(idempotent) = Idempotent::parse(args, at, more)? {
                if options.idempotent.replace(idempotent).is_some() {
                    return Err(Error::fixed("ERR IDMP/IDMPAUTO specified multiple times"));
                }
                at += idempotent.words(args).len() - 1;
            } else if adds {
                options.new_id = NewId::parse(arg)?;
                if options.idempotent.is_some() && !cx.turn.replays() {
                    return Err(Error::fixed(
                        "ERR IDMP/IDMPAUTO can be used only with auto-generated IDs",
                    ));
                }
                options.end = at + 1;
                break;
            } else {
                return Err(Error::Syntax);
            }
            at += 1;
        }
        options.limit(cx, limit, adds)?;
        Ok(options)
    }

    /// Returns whether the effect has an exact trim in place of the command's own options. An
    /// approximate trim depends on the stream's blocks, and Redis 7 has no options for references.
    pub(super) fn needs_exact_trim(&self) -> bool {
        self.references.is_some() || self.trim.is_some_and(|trim| trim.approximate)
    }

    /// Checks the LIMIT option, and sets the trim's limit to it or to the default.
    fn limit(&mut self, cx: &Cx, limit: Option<u64>, adds: bool) -> Result<(), Error> {
        const DEFAULT_MAX: u64 = 1_000_000;
        let Some(trim) = &mut self.trim else {
            if limit.is_some_and(|limit| limit > 0) {
                return Err(Error::fixed(
                    "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
                ));
            }
            return match adds {
                true => Ok(()),
                false => Err(Error::fixed(
                    "ERR syntax error, XTRIM must be called with a trimming strategy",
                )),
            };
        };
        // The commands of a log have exact bounds, so a replay needs no limit.
        if cx.turn.replays() {
            return Ok(());
        }
        match limit {
            Some(_) if !trim.approximate => {
                return Err(Error::fixed(
                    "ERR syntax error, LIMIT cannot be used without the special ~ option",
                ));
            }
            Some(limit) => trim.limit = limit,
            None if trim.approximate => {
                trim.limit = match cx.limits().stream_entries as u64 {
                    0 => 10_000,
                    entries => entries.saturating_mul(100).min(DEFAULT_MAX),
                };
            }
            None => {}
        }
        Ok(())
    }
}

fn bound(by_length: bool, arg: &[u8]) -> Result<Bound, Error> {
    if !by_length {
        return id(arg).map(Bound::MinId);
    }
    u64::try_from(int(arg)?)
        .map(Bound::Len)
        .map_err(|_| Error::fixed("ERR The MAXLEN argument must be >= 0."))
}
