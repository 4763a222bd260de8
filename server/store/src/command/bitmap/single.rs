//! SETBIT and GETBIT.

use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};

use super::{commit_bits, grow_string, offset};
use crate::error::Error;
use crate::turn::Cx;

const BAD_BIT: Error = Error::fixed("ERR bit is not an integer or out of range");

pub(super) fn setbit(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[1];
    let at = offset(cx, &args[2], 1)?;
    let on = match parse_i64(&args[3]) {
        Some(0) => false,
        Some(1) => true,
        _ => return Err(BAD_BIT),
    };
    let (bytes, longer) = grow_string(cx, key, at >> 3)?;
    let byte = &mut bytes[(at >> 3) as usize];
    let mask = 0x80 >> (at & 7);
    let before = *byte & mask != 0;
    if before != on {
        *byte ^= mask;
    }
    if longer || before != on {
        commit_bits(cx, key, 1);
    }
    reply.int(before.into());
    Ok(())
}

pub(super) fn getbit(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let at = offset(cx, &args[2], 1)?;
    let mut buffer = itoa::Buffer::new();
    let text = match cx.read_str(&args[1])? {
        Some(string) => string.text(&mut buffer),
        None => b"",
    };
    let byte = usize::try_from(at >> 3)
        .ok()
        .and_then(|at| text.get(at))
        .unwrap_or(&0);
    reply.int((byte >> (7 - (at & 7)) & 1).into());
    Ok(())
}
