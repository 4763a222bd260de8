//! TIMER SET: the options, and the timer that they describe.
//!
//! A client's options depend on the time at which the command runs. The log therefore gets other
//! options, which set the same timer at any time. `AT` is the deadline with its jitter. `ANCHOR` is
//! an instant of the schedule, from which EVERY counts. `NOMINAL` is the schedule's next instant
//! without jitter. `USER` is the user as whom the command runs. Clients may not use ANCHOR, NOMINAL
//! and USER.

use punctual_resp::{Args, OwnedArgs, Reply};

use super::look;
use crate::arguments::{int, is};
use crate::error::Error;
use crate::events::Classes;
use crate::turn::Cx;
use crate::value::timer::{CatchUp, Plan, Repeat, Timer, When};

/// The error of a schedule without a next instant.
pub(super) const NEVER_COMES: Error = Error::fixed("ERR the timer would never fire");

/// The options of TIMER SET.
#[derive(Default)]
pub struct Options<'a> {
    at: Option<u64>,
    /// IN: time in ms from now.
    within: Option<u64>,
    every: Option<u64>,
    offset: Option<u64>,
    anchor: Option<u64>,
    nominal: Option<u64>,
    cron: Option<&'a str>,
    zone: Option<&'a str>,
    start: Option<u64>,
    end: Option<u64>,
    limit: Option<u64>,
    jitter: Option<u64>,
    catch_up: Option<CatchUp>,
    only_new: bool,
    only_old: bool,
    returns_old: bool,
    user: Option<&'a [u8]>,
    /// Position of the timer's command among the arguments.
    pub command: usize,
}

impl<'a> Options<'a> {
    /// Parses the arguments after the key. `replays` allows the options that only logs may use.
    ///
    /// # Errors
    /// Unknown, missing or contradicting options, and numbers out of range.
    pub fn parse(args: Args<'a>, replays: bool) -> Result<Self, Error> {
        let mut options = Self::default();
        let mut at = 3;
        loop {
            let word = args.get(at).ok_or(Error::Syntax)?;
            let next = args.get(at + 1);
            at += 1;
            if is(word, "DO") {
                options.command = at;
                next.ok_or(Error::Syntax)?;
                break;
            }
            match () {
                () if is(word, "NX") => options.only_new = true,
                () if is(word, "XX") => options.only_old = true,
                () if is(word, "GET") => options.returns_old = true,
                () => {
                    let value = next.ok_or(Error::Syntax)?;
                    options.value(word, value, replays)?;
                    at += 1;
                }
            }
        }
        options.check(replays)?;
        Ok(options)
    }

    /// Parses an option that has a value.
    fn value(&mut self, word: &[u8], value: &'a [u8], replays: bool) -> Result<(), Error> {
        let text = |value: &'a [u8]| std::str::from_utf8(value).map_err(|_| Error::Syntax);
        let slot = match () {
            () if is(word, "CRON") => return once(&mut self.cron, text(value)?),
            () if is(word, "TZ") => return once(&mut self.zone, text(value)?),
            () if is(word, "CATCHUP") => {
                let rule = CatchUp::parse(value).ok_or(Error::Syntax)?;
                return once(&mut self.catch_up, rule);
            }
            () if is(word, "USER") && replays => return once(&mut self.user, value),
            () if is(word, "ANCHOR") && replays => &mut self.anchor,
            () if is(word, "NOMINAL") && replays => &mut self.nominal,
            () if is(word, "AT") => &mut self.at,
            () if is(word, "IN") => &mut self.within,
            () if is(word, "EVERY") => &mut self.every,
            () if is(word, "OFFSET") => &mut self.offset,
            () if is(word, "START") => &mut self.start,
            () if is(word, "END") => &mut self.end,
            () if is(word, "LIMIT") => &mut self.limit,
            () if is(word, "JITTER") => &mut self.jitter,
            () => return Err(Error::Syntax),
        };
        let number = u64::try_from(int(value)?).map_err(|_| Error::OutOfRange)?;
        once(slot, number)
    }

    fn check(&self, replays: bool) -> Result<(), Error> {
        let times = [self.at.is_some(), self.within.is_some()];
        let schedules = [self.every.is_some(), self.cron.is_some()];
        let count = |all: &[bool]| all.iter().filter(|set| **set).count();
        let repeats = count(&schedules);
        let fits = match replays && self.nominal.is_some() {
            true => self.at.is_some() && repeats == 1,
            false => count(&times) + repeats == 1,
        };
        let needs_repeat = self.start.is_some()
            || self.end.is_some()
            || self.limit.is_some()
            || self.catch_up.is_some();
        if !fits
            || self.offset.is_some() && self.every.is_none()
            || self.zone.is_some() && self.cron.is_none()
            || needs_repeat && repeats == 0
            || self.only_new && (self.only_old || self.returns_old)
        {
            return Err(Error::Syntax);
        }
        if self.every == Some(0) {
            return Err(Error::fixed("ERR EVERY needs at least 1 millisecond"));
        }
        if self.limit == Some(0) {
            return Err(Error::fixed("ERR LIMIT needs at least 1 run"));
        }
        if self.offset.is_some() && self.offset >= self.every {
            return Err(Error::fixed("ERR OFFSET must be less than EVERY"));
        }
        Ok(())
    }

    /// Returns the timer and its deadline.
    ///
    /// # Errors
    /// An invalid expression or time zone, or a schedule without a next instant.
    fn plan(&self, cx: &mut Cx, args: Args) -> Result<(Plan, u64), Error> {
        let now = cx.now();
        let jitter_ms = self.jitter.unwrap_or(0);
        let mut plan = Plan {
            user: self.user.map(Into::into),
            words: OwnedArgs::from(args.skip(self.command)),
            ..Plan::default()
        };
        let when = match (self.every, self.cron) {
            (Some(every_ms), _) => When::Every {
                every_ms,
                anchor_ms: self.anchor.or(self.offset).unwrap_or_else(|| {
                    let start = self.start.unwrap_or(now.base_ms());
                    start % every_ms
                }),
            },
            (None, Some(expression)) => When::Cron {
                expression: expression.into(),
                zone: self.zone.unwrap_or("UTC").into(),
            },
            (None, None) => {
                let at = match self.within {
                    Some(ms) => now.base_ms().saturating_add(ms),
                    None => self.at.unwrap_or(0),
                };
                let at = cx.turn.jittered(at, jitter_ms);
                return Ok((plan, cx.turn.timer_deadline(at)));
            }
        };
        let mut repeat = Repeat {
            when,
            nominal_ms: 0,
            start_ms: self.start,
            end_ms: self.end,
            limit: self.limit,
            jitter_ms,
            catch_up: self.catch_up.unwrap_or_default(),
        };
        let refused = |reason: String| Error::Text(format!("ERR {reason}").into());
        repeat.check().map_err(refused)?;
        let at = match self.nominal {
            Some(nominal) => {
                repeat.nominal_ms = nominal;
                self.at.unwrap_or(nominal)
            }
            None => {
                // Without OFFSET and START, the first run is a whole period from now.
                let next = match (self.every, self.offset, self.start) {
                    (Some(every), None, None) => {
                        repeat.next_after(now.base_ms().saturating_add(every).saturating_sub(1))
                    }
                    _ => repeat.next_after(now.read_ms()),
                };
                repeat.nominal_ms = next.ok_or(NEVER_COMES)?;
                cx.turn.jittered(repeat.nominal_ms, jitter_ms)
            }
        };
        plan.repeat = Some(repeat);
        Ok((plan, cx.turn.timer_deadline(at)))
    }
}

/// Sets an option, or returns an error if it is set already.
fn once<T>(slot: &mut Option<T>, value: T) -> Result<(), Error> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::Syntax),
    }
}

/// Runs TIMER SET after the server has checked the timer's command. `args` may have the option
/// USER.
pub(super) fn set(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    // The server has already refused USER, ANCHOR and NOMINAL in commands of clients.
    let options = Options::parse(args, true)?;
    let key = &args[2];
    let (place, found) = cx.seek_as::<Timer>(key)?;
    let (plan, at) = options.plan(cx, args)?;
    if options.returns_old {
        match found {
            Some(_) => look::write_timer(cx, key, reply),
            None => reply.null(),
        }
    }
    if options.only_new && found.is_some() || options.only_old && found.is_none() {
        if !options.returns_old {
            reply.null();
        }
        return Ok(());
    }
    let db = cx.db;
    debug_assert_eq!(place.db(), db);
    cx.turn.put_timer(db, key, &plan, at);
    cx.commit(key, Classes::GENERIC, "timer-set", 1);
    if cx.is_logged() {
        write_effect(cx, key, &plan, at);
    }
    if !options.returns_old {
        reply.ok();
    }
    Ok(())
}

/// Adds as an effect a TIMER SET that sets the same timer at any time.
fn write_effect(cx: &mut Cx, key: &[u8], plan: &Plan, at: u64) {
    let mut numbers: Vec<(&str, u64)> = vec![("AT", at)];
    let mut texts: Vec<(&str, &[u8])> = Vec::new();
    if let Some(repeat) = &plan.repeat {
        match &repeat.when {
            When::Every {
                every_ms,
                anchor_ms,
            } => numbers.extend([("EVERY", *every_ms), ("ANCHOR", *anchor_ms)]),
            When::Cron { expression, zone } => {
                texts.extend([("CRON", expression.as_bytes()), ("TZ", zone.as_bytes())]);
            }
        }
        numbers.push(("NOMINAL", repeat.nominal_ms));
        let optional = [
            ("START", repeat.start_ms),
            ("END", repeat.end_ms),
            ("LIMIT", repeat.limit),
            ("JITTER", Some(repeat.jitter_ms).filter(|ms| *ms > 0)),
        ];
        numbers.extend(optional.iter().filter_map(|(name, n)| Some((*name, (*n)?))));
        texts.push(("CATCHUP", repeat.catch_up.name().as_bytes()));
    }
    texts.extend(plan.user.iter().map(|user| ("USER", &**user)));
    let numbers: Vec<(&str, String)> = numbers
        .into_iter()
        .map(|(name, number)| (name, number.to_string()))
        .collect();
    let mut words: Vec<&[u8]> = vec![b"TIMER", b"SET", key];
    for (name, number) in &numbers {
        words.extend([name.as_bytes(), number.as_bytes()]);
    }
    for (name, text) in texts {
        words.extend([name.as_bytes(), text]);
    }
    words.push(b"DO");
    words.extend(plan.words.as_args().iter());
    cx.effect(&words);
}
