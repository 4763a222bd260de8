//! LMOVE and RPOPLPUSH move an element to another list, LMOVEM moves several elements, and LMPOP
//! pops from the first non-empty list.

use punctual_resp::{Args, Reply};

use super::ends::{Found, commit_pop, find, pop_keyed, push_event};
use super::piece_size;
use crate::arguments::{int, is};
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

/// Moves an element from an end of a list to an end of the list at `key`, replies with the element
/// and sends the events. The lists may be the same.
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
    // Copies the element's text from the end of the reply, without the line end.
    let out = reply.out();
    let end = out.len() - 2;
    let text = std::iter::once(&out[end - len..end]);
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

/// Parses a number above 0.
fn positive(arg: &[u8]) -> Option<usize> {
    let number = int(arg).ok().and_then(|n| usize::try_from(n).ok());
    number.filter(|n| *n > 0)
}

/// Arguments of LMOVEM and BLMOVEM (Redis 8.10).
#[derive(Clone, Copy)]
pub(crate) struct Movem {
    from: End,
    to: End,
    count: usize,
    /// EXACTLY: a list with fewer than `count` elements stays unchanged.
    exactly: bool,
    /// BULK: the elements keep their order. False for OBO: the elements move one by one.
    bulk: bool,
}

impl Movem {
    /// Parses the ends of the lists, and the options at position `at`: `COUNT n` or `EXACTLY n`,
    /// and then BULK or OBO. Without options, one element moves.
    ///
    /// # Errors
    /// [`Error::Syntax`], or LMPOP's error for a number that is not positive.
    pub(crate) fn parse(args: Args<'_>, at: usize) -> Result<Self, Error> {
        let mut moves = Self {
            from: end_named(&args[3])?,
            to: end_named(&args[4])?,
            count: 1,
            exactly: false,
            bulk: true,
        };
        let options = args.skip(at);
        match options.len() {
            0 => return Ok(moves),
            3 => {}
            _ => return Err(Error::Syntax),
        }
        moves.exactly = is(&options[0], "EXACTLY");
        if !moves.exactly && !is(&options[0], "COUNT") {
            return Err(Error::Syntax);
        }
        moves.count = positive(&options[1]).ok_or(NO_COUNT)?;
        moves.bulk = is(&options[2], "BULK");
        if !moves.bulk && !is(&options[2], "OBO") {
            return Err(Error::Syntax);
        }
        Ok(moves)
    }

    /// Returns the minimum length of the source list; elements of a shorter list do not move.
    pub(crate) fn len_min(self) -> usize {
        if self.exactly { self.count } else { 1 }
    }

    /// Moves elements from the list at the first key to the list at the second key, replies with
    /// the elements in their order in the second list, and sends the events. The lists may be the
    /// same. Returns false if the first list has too few elements.
    ///
    /// # Errors
    /// [`Error::WrongType`] if a key holds another type; then no element moves.
    pub(crate) fn run(self, cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<bool, Error> {
        let Some(source) = find(cx, &args[1])? else {
            return Ok(false);
        };
        let key = &args[2];
        let (place, found) = cx.seek_as::<List>(key)?;
        let piece = piece_size(cx);
        let len = cx.view::<List>(source.place, source.id)?.len();
        if len < self.len_min() {
            return Ok(false);
        }
        let count = self.count.min(len);
        let list = cx.edit::<List>(source.place, source.id)?;
        let first = match self.from {
            End::Head => 0,
            End::Tail => len - 1,
        };
        // The elements in the order in which they are pushed.
        let mut moved: Vec<Vec<u8>> = (list.walk(first, self.from.other()).take(count))
            .map(|element| element.with_text(<[u8]>::to_vec))
            .collect();
        if self.bulk && self.from == self.to {
            moved.reverse();
        }
        list.drop_end(self.from, count, piece);
        let texts = moved.iter().map(Vec::as_slice);
        match found {
            Some(id) => cx.edit::<List>(place, id)?.push(self.to, texts, piece),
            None => {
                let mut list = List::new();
                list.push(self.to, texts, piece);
                cx.add_at(place, key, list.into_value());
            }
        }
        cx.commit(key, Classes::LIST, push_event(self.to), 0);
        commit_pop(cx, source, self.from, count);
        if cx.is_logged() {
            let all_stay = count == len && found == Some(source.id);
            log_moves(
                cx,
                (source.key, self.from),
                (key, self.to),
                &moved,
                all_stay,
            );
        }
        reply.array(count);
        let write = |text: &Vec<u8>| reply.bulk(text);
        match self.to {
            End::Head => moved.iter().rev().for_each(write),
            End::Tail => moved.iter().for_each(write),
        }
        Ok(true)
    }
}

/// Adds a pop and pushes as effects, because not every redis-server has LMOVEM. `all_stay` is true
/// if all elements of a list move within the list. Then the pushes come first and the pop takes the
/// other end, so the list never becomes empty and keeps its deadline.
fn log_moves(
    cx: &mut Cx,
    (source, from): (&[u8], End),
    (key, to): (&[u8], End),
    moved: &[Vec<u8>],
    all_stay: bool,
) {
    /// Maximum number of elements in a push.
    const ELEMENTS: usize = 1024;
    let mut buffer = itoa::Buffer::new();
    let from = if all_stay { to.other() } else { from };
    let pop = [
        pop_name(from),
        source,
        buffer.format(moved.len()).as_bytes(),
    ];
    let push: &[u8] = if to == End::Head { b"LPUSH" } else { b"RPUSH" };
    if !all_stay {
        cx.effect(&pop);
    }
    for part in moved.chunks(ELEMENTS) {
        let mut words = vec![push, key];
        words.extend(part.iter().map(Vec::as_slice));
        cx.effect(&words);
    }
    if all_stay {
        cx.effect(&pop);
    }
}

pub(super) fn lmovem(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    if !Movem::parse(args, 5)?.run(cx, args, reply)? {
        reply.null_array();
    }
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
        let keys = positive(args.get(0).unwrap_or_default()).ok_or(NO_KEYS)?;
        // LEFT or RIGHT follows the number of keys and the keys.
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
    if !mpop(cx, Mpop::parse(args, 1)?, reply)? {
        reply.null_array();
    }
    Ok(())
}

/// Pops elements from the first existing list, replies with its key and the elements, and sends the
/// events. As in Redis, the effect is a pop of the actual number of elements. Returns false,
/// without a reply, if no list exists.
///
/// # Errors
/// [`Error::WrongType`] if a key before that list holds another type.
pub(crate) fn mpop(cx: &mut Cx, pops: Mpop, reply: &mut Reply) -> Result<bool, Error> {
    for key in pops.keys {
        if let Some(found) = find(cx, key)? {
            let count = pop_keyed(cx, found, pops.end, pops.count, reply)?;
            let mut buffer = itoa::Buffer::new();
            cx.effect(&[pop_name(pops.end), key, buffer.format(count).as_bytes()]);
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the command that pops from an end.
pub(crate) const fn pop_name(end: End) -> &'static [u8] {
    match end {
        End::Head => b"LPOP",
        End::Tail => b"RPOP",
    }
}
