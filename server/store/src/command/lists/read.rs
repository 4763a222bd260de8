//! LLEN, LINDEX, LRANGE and LPOS.

use punctual_resp::{Args, Reply};
use smallvec::SmallVec;

use super::{absolute, bounds};
use crate::arguments::{int, is};
use crate::command::replies::reply_element;
use crate::error::Error;
use crate::turn::Cx;
use crate::value::list::{End, List};

const RANK_ZERO: Error = Error::fixed(
    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from \
     the end of the list",
);
const RANK_RANGE: Error = Error::fixed(
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
);
const COUNT_NEGATIVE: Error = Error::fixed("ERR COUNT can't be negative");
const MAXLEN_NEGATIVE: Error = Error::fixed("ERR MAXLEN can't be negative");

pub(super) fn llen(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let list = cx.read_as::<List>(&args[1])?;
    reply.int(list.map_or(0, List::len) as i64);
    Ok(())
}

pub(super) fn lindex(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let Some(list) = cx.read_as::<List>(&args[1])? else {
        reply.null();
        return Ok(());
    };
    let index = absolute(int(&args[2])?, list.len());
    match index.and_then(|index| list.get(index)) {
        Some(element) => reply_element(reply, element),
        None => reply.null(),
    }
    Ok(())
}

pub(super) fn lrange(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (start, end) = (int(&args[2])?, int(&args[3])?);
    let Some(list) = cx.read_as::<List>(&args[1])? else {
        reply.array(0);
        return Ok(());
    };
    let (start, end) = bounds(start, end, list.len());
    reply.array(end - start);
    for element in list.walk(start, End::Tail).take(end - start) {
        reply_element(reply, element);
    }
    Ok(())
}

/// Options of LPOS.
struct Search {
    from: End,
    /// Position of the first match to return; 1 is the first match.
    rank: u64,
    /// COUNT: the maximum number of matches; 0 means all. `None` without COUNT: the reply is then
    /// one index instead of an array.
    count: Option<usize>,
    /// MAXLEN: the maximum number of elements to compare.
    len_max: usize,
}

impl Search {
    fn parse(args: Args) -> Result<Self, Error> {
        let (mut rank, mut count, mut len_max) = (1, None, 0);
        let mut at = 3;
        while let Some(option) = args.get(at) {
            let value = args.get(at + 1).ok_or(Error::Syntax)?;
            let natural = || int(value).ok().and_then(|n| usize::try_from(n).ok());
            match () {
                () if is(option, "RANK") => {
                    rank = int(value)?;
                    if rank == 0 {
                        return Err(RANK_ZERO);
                    } else if rank == i64::MIN {
                        return Err(RANK_RANGE);
                    }
                }
                () if is(option, "COUNT") => count = Some(natural().ok_or(COUNT_NEGATIVE)?),
                () if is(option, "MAXLEN") => len_max = natural().ok_or(MAXLEN_NEGATIVE)?,
                () => return Err(Error::Syntax),
            }
            at += 2;
        }
        Ok(Self {
            from: if rank < 0 { End::Tail } else { End::Head },
            rank: rank.unsigned_abs(),
            count,
            len_max: if len_max == 0 { usize::MAX } else { len_max },
        })
    }

    /// Calls `visit` with the index of each match to return, until `visit` returns false.
    fn run(&self, list: &List, text: &[u8], mut visit: impl FnMut(usize) -> bool) {
        let mut matches = 0;
        list.each_match(text, self.from, self.len_max, |index| {
            matches += 1;
            matches < self.rank || visit(index)
        });
    }
}

pub(super) fn lpos(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let search = Search::parse(args)?;
    let empty = List::new();
    let list = cx.read_as::<List>(&args[1])?.unwrap_or(&empty);
    match search.count {
        None => {
            let mut found = None;
            search.run(list, &args[2], |index| {
                found = Some(index);
                false
            });
            match found {
                Some(index) => reply.int(index as i64),
                None => reply.null(),
            }
        }
        Some(count) => {
            let mut found: SmallVec<[usize; 16]> = SmallVec::new();
            search.run(list, &args[2], |index| {
                found.push(index);
                found.len() != count
            });
            reply.array(found.len());
            for index in found {
                reply.int(index as i64);
            }
        }
    }
    Ok(())
}
