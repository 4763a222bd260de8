//! Parsing of arguments: numbers, times and option words, with Redis's errors.

use punctual_resp::Args;
use punctual_resp::decimal::parse_i64;

use crate::error::Error;
use crate::time::Now;

/// Parses a 64-bit integer.
#[inline]
pub(crate) fn int(arg: &[u8]) -> Result<i64, Error> {
    parse_i64(arg).ok_or(Error::NotInteger)
}

/// Returns true if `arg` is the option `word`; the case of letters does not matter.
#[inline]
pub(crate) fn is(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

/// Unit and base of a time argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TimeUnit {
    /// The amount is in seconds; otherwise in milliseconds.
    pub(crate) seconds: bool,
    /// The amount counts from the Unix epoch; otherwise from now.
    pub(crate) absolute: bool,
}

impl TimeUnit {
    /// Parses an expiration option of SET, GETEX and INCREX.
    pub(crate) fn of_option(arg: &[u8]) -> Option<Self> {
        let (seconds, absolute) = match () {
            () if is(arg, "EX") => (true, false),
            () if is(arg, "PX") => (false, false),
            () if is(arg, "EXAT") => (true, true),
            () if is(arg, "PXAT") => (false, true),
            () => return None,
        };
        Some(Self { seconds, absolute })
    }

    /// Converts `amount` to a deadline in Unix ms, which may be negative.
    ///
    /// # Errors
    /// [`Error::ExpireTime`] with `command` on overflow.
    #[inline]
    pub(crate) fn deadline(
        self,
        amount: i64,
        now: Now,
        command: &'static str,
    ) -> Result<i64, Error> {
        let invalid = Error::ExpireTime(command);
        let ms = if self.seconds {
            amount.checked_mul(1000).ok_or(invalid.clone())?
        } else {
            amount
        };
        if self.absolute {
            return Ok(ms);
        }
        let base = i64::try_from(now.base_ms()).map_err(|_| invalid.clone())?;
        ms.checked_add(base).ok_or(invalid)
    }
}

/// Expiration option of SET, GETEX and INCREX. Redis parses all options before it parses the
/// amount.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeadlineOption {
    /// Unit and base of the amount.
    pub(crate) unit: TimeUnit,
    /// Position of the amount among the arguments.
    pub(crate) amount: usize,
}

impl DeadlineOption {
    /// Returns the deadline in Unix ms, which may have passed.
    ///
    /// # Errors
    /// [`Error::NotInteger`]; [`Error::ExpireTime`] with `command` if the amount is not positive or
    /// overflows.
    pub(crate) fn deadline(
        self,
        args: Args,
        now: Now,
        command: &'static str,
    ) -> Result<u64, Error> {
        let amount = int(&args[self.amount])?;
        if amount <= 0 {
            return Err(Error::ExpireTime(command));
        }
        let deadline = self.unit.deadline(amount, now, command)?;
        u64::try_from(deadline).map_err(|_| Error::ExpireTime(command))
    }
}

/// Parses a timeout of BLOCK, in milliseconds, into a deadline in Unix ms. Returns `None` for 0,
/// which means no timeout.
pub(crate) fn block_deadline(now: Now, ms: &[u8]) -> Result<Option<u64>, Error> {
    let ms = parse_i64(ms).ok_or(Error::fixed(
        "ERR timeout is not an integer or out of range",
    ))?;
    let ms = u64::try_from(ms).map_err(|_| Error::fixed("ERR timeout is negative"))?;
    if ms == 0 {
        return Ok(None);
    }
    let at = now.base_ms().checked_add(ms);
    at.filter(|at| i64::try_from(*at).is_ok())
        .ok_or(Error::fixed("ERR timeout is out of range"))
        .map(Some)
}

/// Iterator over alternating names and values.
#[derive(Clone)]
pub(crate) struct Pairs<'a>(pub(crate) Args<'a>);

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let pair = (self.0.get(0)?, self.0.get(1)?);
        self.0 = self.0.skip(2);
        Some(pair)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.len() / 2, Some(self.0.len() / 2))
    }
}

impl ExactSizeIterator for Pairs<'_> {}
