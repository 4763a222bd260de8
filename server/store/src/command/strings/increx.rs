//! INCREX: an increment within bounds that also sets the deadline, as in Redis 8.8.

use punctual_resp::{Args, Protocol, Reply};

use crate::arguments::{DeadlineOption, TimeUnit, int, is};
use crate::error::Error;
use crate::events::Classes;
use crate::turn::Cx;
use crate::value::Value;
use crate::value::float::Float;
use crate::value::string::Str;

const CROSSED: Error = Error::fixed("ERR LBOUND can't be greater than UBOUND");
const ENX_ALONE: Error = Error::fixed("ERR ENX flag requires an expiration");
const FAR: Error = Error::fixed("ERR applied increment would overflow");
const INFINITE: Error = Error::fixed("ERR value cannot be Infinity");

/// Options, as positions of their arguments.
#[derive(Default)]
struct Options {
    /// The increment and the bounds are floats.
    float: bool,
    by: Option<usize>,
    lower: Option<usize>,
    upper: Option<usize>,
    saturate: bool,
    deadline: Option<DeadlineOption>,
    persist: bool,
    /// ENX: keeps an existing deadline.
    only_new_deadline: bool,
}

impl Options {
    fn parse(args: Args) -> Result<Self, Error> {
        let mut options = Self::default();
        let mut at = 2;
        while let Some(word) = args.get(at) {
            let has_operand = at + 1 < args.len();
            let slot = match () {
                () if is(word, "BYINT") => Some(&mut options.by),
                () if is(word, "BYFLOAT") => {
                    options.float = true;
                    Some(&mut options.by)
                }
                () if is(word, "LBOUND") => Some(&mut options.lower),
                () if is(word, "UBOUND") => Some(&mut options.upper),
                () => None,
            };
            if let Some(slot) = slot {
                if !has_operand || slot.replace(at + 1).is_some() {
                    return Err(Error::Syntax);
                }
                at += 2;
                continue;
            }
            if let Some(unit) = TimeUnit::of_option(word) {
                let amount = at + 1;
                let before = options.deadline.replace(DeadlineOption { unit, amount });
                if !has_operand || before.is_some() || options.persist {
                    return Err(Error::Syntax);
                }
                at += 2;
                continue;
            }
            let flag = match () {
                () if is(word, "SATURATE") => &mut options.saturate,
                () if is(word, "PERSIST") => &mut options.persist,
                () if is(word, "ENX") => &mut options.only_new_deadline,
                () => return Err(Error::Syntax),
            };
            if std::mem::replace(flag, true) {
                return Err(Error::Syntax);
            }
            at += 1;
        }
        if options.persist && (options.deadline.is_some() || options.only_new_deadline) {
            return Err(Error::Syntax);
        }
        if options.only_new_deadline && options.deadline.is_none() {
            return Err(ENX_ALONE);
        }
        Ok(options)
    }
}

/// An increment and its bounds.
struct Step<N> {
    by: N,
    lower: N,
    upper: N,
}

/// Result of an increment: the new value, and the number that was added.
type Applied<N> = (N, N);

impl Step<i64> {
    fn parse(args: Args, options: &Options) -> Result<Self, Error> {
        const BY: Error = Error::fixed("ERR Increment is not an integer or out of range");
        const LOWER: Error = Error::fixed("ERR LBOUND is not an integer or out of range");
        const UPPER: Error = Error::fixed("ERR UBOUND is not an integer or out of range");
        let number = |at: Option<usize>, default, error| {
            at.map_or(Ok(default), |at| int(&args[at]).map_err(|_| error))
        };
        let step = Self {
            by: number(options.by, 1, BY)?,
            lower: number(options.lower, i64::MIN, LOWER)?,
            upper: number(options.upper, i64::MAX, UPPER)?,
        };
        match step.lower <= step.upper {
            true => Ok(step),
            false => Err(CROSSED),
        }
    }

    /// Adds the increment. With `saturate`, limits the sum to the bounds; otherwise returns `None`
    /// for a sum that is out of bounds.
    fn apply(&self, old: i64, saturate: bool) -> Result<Option<Applied<i64>>, Error> {
        let (lower, upper) = (i128::from(self.lower), i128::from(self.upper));
        let sum = i128::from(old) + i128::from(self.by);
        let bounded = sum.clamp(lower, upper);
        if sum != bounded && !saturate {
            return Ok(None);
        }
        let added = i64::try_from(bounded - i128::from(old)).map_err(|_| FAR)?;
        Ok(Some((bounded as i64, added)))
    }
}

impl Step<Float> {
    fn parse(args: Args, options: &Options) -> Result<Self, Error> {
        const BY: Error = Error::fixed("ERR Increment is not a valid float");
        const INFINITE_BY: Error = Error::fixed("ERR BYFLOAT increment cannot be Infinity");
        const LOWER: Error = Error::fixed("ERR LBOUND is not a valid float");
        const UPPER: Error = Error::fixed("ERR UBOUND is not a valid float");
        let number = |at: Option<usize>, default, error| {
            at.map_or(Ok(default), |at| Float::parse(&args[at]).ok_or(error))
        };
        let step = Self {
            by: number(options.by, Float::from(1), BY)?,
            lower: number(options.lower, Float::smallest(), LOWER)?,
            upper: number(options.upper, Float::largest(), UPPER)?,
        };
        if !step.by.is_finite() {
            return Err(INFINITE_BY);
        }
        match step.lower <= step.upper {
            true => Ok(step),
            false => Err(CROSSED),
        }
    }

    /// Adds the increment. With `saturate`, limits the sum to the bounds; otherwise returns `None`
    /// for a sum that is out of bounds.
    fn apply(&self, old: Float, saturate: bool) -> Result<Option<Applied<Float>>, Error> {
        let sum = old.plus(self.by);
        let bound = match () {
            () if sum > self.upper => self.upper,
            () if sum < self.lower => self.lower,
            () => return Ok(Some((sum, self.by))),
        };
        if !saturate {
            return Ok(None);
        }
        let added = bound.minus(old);
        match bound.is_finite() && added.is_finite() {
            true => Ok(Some((bound, added))),
            false => Err(FAR),
        }
    }
}

pub(super) fn increx(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let options = Options::parse(args)?;
    if options.float {
        increx_float(cx, args, &options, reply)
    } else {
        increx_int(cx, args, &options, reply)
    }
}

fn increx_int(cx: &mut Cx, args: Args, options: &Options, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[1];
    let step = Step::<i64>::parse(args, options)?;
    let change = Change::of(cx, args, options)?;
    let (place, found) = cx.seek_to_write(key);
    let old = match found {
        Some(id) => cx.str_at(place, id)?.as_int().ok_or(Error::NotInteger)?,
        None => 0,
    };
    let applied = step.apply(old, options.saturate)?;
    let (new, added) = applied.unwrap_or((old, 0));
    reply.array(2);
    reply.int(new);
    reply.int(added);
    if applied.is_some() {
        let mut buffer = itoa::Buffer::new();
        let text = buffer.format(new).as_bytes();
        change.write(cx, key, (Str::Int(new.into()), text), "incrby");
    }
    Ok(())
}

fn increx_float(
    cx: &mut Cx,
    args: Args,
    options: &Options,
    reply: &mut Reply,
) -> Result<(), Error> {
    let key = &args[1];
    let step = Step::<Float>::parse(args, options)?;
    let change = Change::of(cx, args, options)?;
    let (place, found) = cx.seek_to_write(key);
    let old = match found {
        Some(id) => cx.str_at(place, id)?.as_float().ok_or(Error::NotFloat)?,
        None => Float::from(0),
    };
    if !old.is_finite() {
        return Err(INFINITE);
    }
    let applied = step.apply(old, options.saturate)?;
    let (new, added) = applied.unwrap_or((old, Float::from(0)));
    let text = new.text();
    reply.array(2);
    for number in [&text, &added.text()] {
        match reply.protocol() {
            Protocol::Resp2 => reply.bulk(number),
            // Writes the same digits as in RESP2.
            Protocol::Resp3 => {
                reply.out().push(b',');
                reply.out().extend_from_slice(number);
                reply.out().extend_from_slice(b"\r\n");
            }
        }
    }
    if applied.is_some() {
        change.write(cx, key, (Str::plain(&text), &text), "incrbyfloat");
    }
    Ok(())
}

/// Change of the deadline.
struct Change {
    deadline: Option<u64>,
    /// The option has an absolute time, which may have passed.
    absolute: bool,
    persist: bool,
    only_new: bool,
}

impl Change {
    fn of(cx: &Cx, args: Args, options: &Options) -> Result<Self, Error> {
        let deadline = options.deadline;
        Ok(Self {
            deadline: deadline
                .map(|option| option.deadline(args, cx.now(), "increx"))
                .transpose()?,
            absolute: deadline.is_some_and(|option| option.unit.absolute),
            persist: options.persist,
            only_new: options.only_new_deadline,
        })
    }

    /// Writes the value and the deadline, and sends the events.
    fn write(&self, cx: &mut Cx, key: &[u8], (value, text): (Str, &[u8]), event: &'static str) {
        let (place, found) = cx.seek_to_write(key);
        let had = found.is_some_and(|id| cx.db_at(place).deadline(id).is_some());
        let deadline = self.deadline.filter(|_| !(self.only_new && had));
        if self.absolute && deadline.is_some_and(|at| cx.now().is_due(at)) {
            if cx.remove(key).is_some() {
                cx.commit(key, Classes::GENERIC, "del", 1);
                cx.effect(&[b"DEL", key]);
            }
            return;
        }
        let value = Value::Str(value);
        let id = match found {
            Some(id) => {
                cx.db_at(place).replace(id, value);
                id
            }
            None => cx.add_at(place, key, value),
        };
        cx.commit(key, Classes::STRING, event, 1);
        if let Some(deadline) = deadline {
            cx.set_deadline_at(place, id, Some(deadline));
            cx.commit(key, Classes::GENERIC, "expire", 0);
            let mut buffer = itoa::Buffer::new();
            let at = buffer.format(deadline).as_bytes();
            cx.effect(&[b"SET", key, text, b"PXAT", at]);
        } else if self.persist {
            if had {
                cx.set_deadline_at(place, id, None);
                cx.commit(key, Classes::GENERIC, "persist", 0);
            }
            cx.effect(&[b"SET", key, text]);
        } else {
            cx.effect(&[b"SET", key, text, b"KEEPTTL"]);
        }
    }
}
