//! XLEN, XRANGE and XREVRANGE.

use punctual_resp::{Args, Reply};

use super::arguments::{end, start};
use super::reply::reply_entries;
use crate::arguments::{int, is};
use crate::error::Error;
use crate::turn::Cx;
use crate::value::stream::Id;

pub(super) fn xlen(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let len = cx
        .read_stream(&args[1])?
        .map_or(0, |(stream, floor)| match floor {
            Id::MIN => stream.len(),
            floor => stream.len_from(floor),
        });
    reply.int(len as i64);
    Ok(())
}

pub(super) fn xrange(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let range = (start(&args[2])?, end(&args[3])?);
    reply_range(cx, args, range, false, reply)
}

pub(super) fn xrevrange(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let range = (start(&args[3])?, end(&args[2])?);
    reply_range(cx, args, range, true, reply)
}

fn reply_range(
    cx: &mut Cx,
    args: Args,
    (start, end): (Id, Id),
    back: bool,
    reply: &mut Reply,
) -> Result<(), Error> {
    let mut count = usize::MAX;
    let mut options = args.skip(4);
    while let Some(option) = options.get(0) {
        match options.get(1) {
            Some(value) if is(option, "COUNT") => count = usize::try_from(int(value)?).unwrap_or(0),
            _ => return Err(Error::Syntax),
        }
        options = options.skip(2);
    }
    let Some((stream, floor)) = cx.read_stream(&args[1])? else {
        reply.array(0);
        return Ok(());
    };
    let start = start.max(floor);
    if count == 0 {
        reply.null_array();
        return Ok(());
    }
    let expected = count.min(stream.len() as usize);
    if back {
        reply_entries(reply, expected, stream.range_back(start, end).take(count));
    } else {
        reply_entries(reply, expected, stream.range(start, end).take(count));
    }
    Ok(())
}
