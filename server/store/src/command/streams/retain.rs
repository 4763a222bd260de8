//! XRETAIN, which Redis does not have: sets the maximum age and the maximum number of a stream's
//! entries.
//!
//! The effect of XRETAIN is the command itself. A redis-server that is a replica does not know the
//! command. It removes the same entries, because each trim has effects of its own.

use punctual_resp::{Args, Reply};

use crate::arguments::{int, is};
use crate::error::Error;
use crate::events::Classes;
use crate::turn::Cx;
use crate::value::stream::{Retention, Stream};

/// An action of XRETAIN.
enum Action {
    Set(Retention),
    Persist,
    Get,
}

impl Action {
    fn parse(args: Args) -> Result<Self, Error> {
        let word = args.at(2);
        match args.len() {
            3 if is(word, "PERSIST") => return Ok(Self::Persist),
            3 if is(word, "GET") => return Ok(Self::Get),
            4 | 6 if is(word, "MAXAGE") => {}
            _ => return Err(Error::Syntax),
        }
        let positive = |at: usize, error: &'static str| match int(args.at(at))? {
            ..=0 => Err(Error::fixed(error)),
            number => Ok(number as u64),
        };
        let age_max_ms = positive(3, "ERR MAXAGE must be positive")?;
        let len_max = match args.get(4) {
            None => None,
            Some(word) if is(word, "MAXLEN") => Some(positive(5, "ERR MAXLEN must be positive")?),
            Some(_) => return Err(Error::Syntax),
        };
        Ok(Self::Set(Retention {
            age_max_ms,
            len_max,
        }))
    }
}

pub(super) fn xretain(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let action = Action::parse(args)?;
    let key = &args[1];
    let (place, found) = cx.seek_stream(key)?;
    let record = found.ok_or(Error::NoSuchKey)?;
    let before = cx.view::<Stream>(place, record)?.retention();
    match action {
        Action::Get => {
            match before {
                None => reply.null(),
                Some(retention) => {
                    reply.map(2);
                    reply.bulk(b"max-age");
                    reply.int(retention.age_max_ms as i64);
                    reply.bulk(b"max-len");
                    match retention.len_max {
                        Some(len) => reply.int(len as i64),
                        None => reply.null(),
                    }
                }
            }
            return Ok(());
        }
        Action::Persist => {
            if before.is_some() {
                cx.edit::<Stream>(place, record)?.set_retention(None);
                cx.rearm(place, record);
                cx.commit(key, Classes::STREAM, "xretain", 1);
            }
            reply.int(before.is_some().into());
        }
        Action::Set(retention) => {
            cx.edit::<Stream>(place, record)?
                .set_retention(Some(retention));
            cx.commit(key, Classes::STREAM, "xretain", 1);
            let words: Vec<&[u8]> = args.iter().collect();
            cx.effect(&words);
            cx.turn.retain(place.shard(), place.db(), key, record);
            cx.rearm(place, record);
            reply.ok();
        }
    }
    Ok(())
}
