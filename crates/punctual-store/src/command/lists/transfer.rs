//! LMOVE and RPOPLPUSH, from one list to another; LMPOP, from the first of several lists.

use punctual_resp::{Args, Reply};

use super::ends::{Found, find, pop_keyed, push_event, taken};
use super::{answer, piece_size};
use crate::command::arguments::{int, is};
use crate::error::Error;
use crate::events::Classes;
use crate::turn::Cx;
use crate::value::Kind;
use crate::value::list::{End, List};

const NO_KEYS: Error = Error::fixed("ERR numkeys should be greater than 0");
const NO_COUNT: Error = Error::fixed("ERR count should be greater than 0");

/// The end that LEFT or RIGHT names.
///
/// # Errors
/// [`Error::Syntax`] for any other word.
pub(crate) fn end_named(arg: &[u8]) -> Result<End, Error> {
    match () {
        () if is(arg, "LEFT") => Ok(End::Head),
        () if is(arg, "RIGHT") => Ok(End::Tail),
        () => Err(Error::Syntax),
    }
}

pub(super) fn lmove(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    let (from, to) = (end_named(&args[3])?, end_named(&args[4])?);
    transfer_if_any(cx, args, from, to, reply)
}

pub(super) fn rpoplpush(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    transfer_if_any(cx, args, End::Tail, End::Head, reply)
}

fn transfer_if_any(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    from: End,
    to: End,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    match find(cx, &args[1])? {
        Some(source) => transfer(cx, source, from, &args[2], to, reply),
        None => {
            reply.null();
            Ok(())
        }
    }
}

/// Moves an element from an end of a list to an end of the list of another key, or the same, and answers with it;
/// tells the events.
///
/// # Errors
/// [`Error::WrongType`] if the other key holds something else; then nothing is moved.
pub(crate) fn transfer(
    cx: &mut Cx<'_, '_>,
    source: Found<'_>,
    from: End,
    key: &[u8],
    to: End,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    let (place, found) = cx.seek_as::<List>(key)?;
    let piece = piece_size(cx);
    let list = cx.edit::<List>(source.place, source.id)?;
    let Some(element) = list.at_end(from) else {
        reply.null();
        return Ok(());
    };
    let len = element.text_len();
    answer(reply, element);
    list.drop_end(from, 1, piece);
    // Between the two lists the text is in the reply, before its line end.
    let end = reply.len() - 2;
    let text = std::iter::once(&reply.out()[end - len..end]);
    match found {
        Some(id) => cx.edit::<List>(place, id)?.push(to, text, piece),
        None => {
            let mut list = List::new();
            list.push(to, text, piece);
            cx.add_at(place, key, list.into_value());
        }
    }
    cx.commit(key, Classes::LIST, push_event(to), 0);
    taken(cx, source, from, 1);
    Ok(())
}

/// What LMPOP and BLMPOP are asked for.
#[derive(Clone, Copy)]
pub(crate) struct Mpop<'a> {
    /// The keys, in the order in which they are tried.
    pub(crate) keys: Args<'a>,
    pub(crate) end: End,
    /// At most so many elements; at least 1.
    pub(crate) count: usize,
}

impl<'a> Mpop<'a> {
    /// Reads the arguments from the one at `at` on, which is the number of keys.
    ///
    /// # Errors
    /// Redis's, for numbers that are not positive and words that are not known.
    pub(crate) fn parse(args: Args<'a>, at: usize) -> Result<Self, Error> {
        let args = args.skip(at);
        let positive = |arg: &[u8]| {
            let number = int(arg).ok().and_then(|n| usize::try_from(n).ok());
            number.filter(|n| *n > 0)
        };
        let keys = positive(args.get(0).unwrap_or_default()).ok_or(NO_KEYS)?;
        // As many arguments stand before the end as there are keys, and their number.
        let options = args.skip(1).skip(keys);
        let end = end_named(options.get(0).ok_or(Error::Syntax)?)?;
        let count = match options.len() {
            1 => 1,
            2 => return Err(Error::Syntax),
            more => {
                if !is(&options[1], "COUNT") {
                    return Err(Error::Syntax);
                }
                let count = positive(&options[2]).ok_or(NO_COUNT)?;
                if more > 3 {
                    return Err(Error::Syntax);
                }
                count
            }
        };
        Ok(Self {
            keys: args.skip(1).take(keys),
            end,
            count,
        })
    }
}

pub(super) fn lmpop(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    if !mpop(cx, Mpop::parse(args, 1)?, reply)? {
        reply.null_array();
    }
    Ok(())
}

/// Takes elements off the first of the lists that is there, and answers with its key and them; tells the events.
/// Whether there was one.
///
/// # Errors
/// [`Error::WrongType`] if a key before that holds something else.
pub(crate) fn mpop(
    cx: &mut Cx<'_, '_>,
    asked: Mpop<'_>,
    reply: &mut Reply<'_>,
) -> Result<bool, Error> {
    for key in asked.keys {
        if let Some(found) = find(cx, key)? {
            pop_keyed(cx, found, asked.end, asked.count, reply)?;
            return Ok(true);
        }
    }
    Ok(false)
}
