//! LMOVE and RPOPLPUSH, which move an element to another list, and LMPOP, which pops from the first non-empty list.

use punctual_resp::{Args, Reply};

use super::ends::{Found, commit_pop, find, pop_keyed, push_event};
use super::piece_size;
use crate::command::arguments::{int, is};
use crate::command::replies::reply_element;
use crate::error::Error;
use crate::events::Classes;
use crate::turn::Cx;
use crate::value::Kind;
use crate::value::list::{End, List};

const NO_KEYS: Error = Error::fixed("ERR numkeys should be greater than 0");
const NO_COUNT: Error = Error::fixed("ERR count should be greater than 0");

/// Parses LEFT or RIGHT.
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

pub(super) fn lmove(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (from, to) = (end_named(&args[3])?, end_named(&args[4])?);
    transfer_if_any(cx, args, from, to, reply)
}

pub(super) fn rpoplpush(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    transfer_if_any(cx, args, End::Tail, End::Head, reply)
}

fn transfer_if_any(
    cx: &mut Cx,
    args: Args,
    from: End,
    to: End,
    reply: &mut Reply,
) -> Result<(), Error> {
    match find(cx, &args[1])? {
        Some(source) => transfer(cx, source, from, &args[2], to, reply),
        None => {
            reply.null();
            Ok(())
        }
    }
}

/// Moves an element from an end of a list to an end of the list at `key`, which may be the same, replies with it and
/// sends the events.
///
/// # Errors
/// [`Error::WrongType`] if `key` holds another type; then no element moves.
pub(crate) fn transfer(
    cx: &mut Cx,
    source: Found<'_>,
    from: End,
    key: &[u8],
    to: End,
    reply: &mut Reply,
) -> Result<(), Error> {
    let (place, found) = cx.seek_as::<List>(key)?;
    let piece = piece_size(cx);
    let list = cx.edit::<List>(source.place, source.id)?;
    let Some(element) = list.at_end(from) else {
        reply.null();
        return Ok(());
    };
    let len = element.text_len();
    reply_element(reply, element);
    list.drop_end(from, 1, piece);
    // Copies the text from the reply, where it stands before the line end.
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
    commit_pop(cx, source, from, 1);
    Ok(())
}

/// Arguments of LMPOP and BLMPOP.
#[derive(Clone, Copy)]
pub(crate) struct Mpop<'a> {
    /// Keys, in the order of the look-ups.
    pub(crate) keys: Args<'a>,
    pub(crate) end: End,
    /// Maximum number of elements, at least 1.
    pub(crate) count: usize,
}

impl<'a> Mpop<'a> {
    /// Parses the arguments from position `at` on, which is the number of keys.
    ///
    /// # Errors
    /// Redis's errors for numbers that are not positive, and for unknown words.
    pub(crate) fn parse(args: Args<'a>, at: usize) -> Result<Self, Error> {
        let args = args.skip(at);
        let positive = |arg: &[u8]| {
            let number = int(arg).ok().and_then(|n| usize::try_from(n).ok());
            number.filter(|n| *n > 0)
        };
        let keys = positive(args.get(0).unwrap_or_default()).ok_or(NO_KEYS)?;
        // The end follows the number of keys and the keys.
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

pub(super) fn lmpop(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    if mpop(cx, Mpop::parse(args, 1)?, reply)?.is_none() {
        reply.null_array();
    }
    Ok(())
}

/// Pops elements from the first existing list, replies with its key and them, and sends the events. Returns the key, or
/// `None` if no list exists.
///
/// # Errors
/// [`Error::WrongType`] if a key before that list holds another type.
pub(crate) fn mpop<'a>(
    cx: &mut Cx<'_, '_>,
    asked: Mpop<'a>,
    reply: &mut Reply<'_>,
) -> Result<Option<&'a [u8]>, Error> {
    for key in asked.keys {
        if let Some(found) = find(cx, key)? {
            pop_keyed(cx, found, asked.end, asked.count, reply)?;
            return Ok(Some(key));
        }
    }
    Ok(None)
}
