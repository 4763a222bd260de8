//! Cron expressions: five fields (minute, hour, day of month, month, day of week), six fields with
//! seconds in front, or a name such as `@daily`.
//!
//! A field is a list of values, ranges and steps: `*`, `5`, `1-5`, `*/15`, `10-50/20`, `MON-FRI`,
//! `JAN,JUL`. Sunday is 0 or 7. If both the day of the month and the day of the week are
//! restricted, a day matches if either field matches, as in Vixie's cron. `L` in the day of the
//! month is the last day of the month.
//!
//! Daylight saving time: if an expression matches every hour, it follows elapsed time, so "every
//! ten minutes" has no gap. Other expressions match times of the day. If the clock skips a matching
//! time, the match is the first instant after the gap. If a matching time occurs twice, the match
//! is its first occurrence.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, ToSpan as _};

/// Maximum number of days to search for a match. The rarest match is 29 February on a given day of
/// the week, which occurs within 40 years.
const DAYS_MAX: u32 = 366 * 41;

/// A time zone: an IANA zone or a fixed offset.
pub struct Zone(TimeZone);

impl Zone {
    /// Returns the zone with this IANA name, `UTC` or a fixed offset such as `+02:00`.
    ///
    /// # Errors
    /// If the name is unknown or the offset is malformed.
    pub fn find(name: &str) -> Result<Self, String> {
        if name.eq_ignore_ascii_case("UTC") {
            return Ok(Self(TimeZone::UTC));
        }
        let unknown = || format!("unknown time zone '{name}'");
        if name.starts_with(['+', '-']) {
            return fixed(name).map(Self).ok_or_else(unknown);
        }
        TimeZoneDatabase::bundled()
            .get(name)
            .map(Self)
            .map_err(|_| unknown())
    }
}

/// Parses a fixed offset: `+02:00`.
fn fixed(name: &str) -> Option<TimeZone> {
    let (hours, minutes) = name.get(1..)?.split_once(':')?;
    let two = |text: &str| digits(text).filter(|_| text.len() == 2);
    let seconds = two(hours)? * 3_600 + two(minutes).filter(|m| *m < 60)? * 60;
    let seconds = seconds.cast_signed();
    let sign = if name.starts_with('-') { -1 } else { 1 };
    let offset = jiff::tz::Offset::from_seconds(sign * seconds).ok()?;
    Some(TimeZone::fixed(offset))
}

/// Parses a number without a sign.
fn digits(text: &str) -> Option<u32> {
    let all = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| all)
}

/// A parsed expression: one bit for each value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// `L`: the last day of the month.
    last_day: bool,
    /// The day of the month does not start with `*` or `?`.
    restricts_day: bool,
    /// The day of the week does not start with `*` or `?`.
    restricts_weekday: bool,
}

/// A field: its name for errors, its minimum and maximum value, and the names of its values in
/// order.
struct Field {
    name: &'static str,
    least: u32,
    greatest: u32,
    names: &'static [&'static str],
}

const SECOND: Field = field("second", 0, 59, &[]);
const MINUTE: Field = field("minute", 0, 59, &[]);
const HOUR: Field = field("hour", 0, 23, &[]);
const DAY: Field = field("day of month", 1, 31, &[]);
const MONTH: Field = field(
    "month",
    1,
    12,
    &[
        "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
    ],
);
const WEEKDAY: Field = field(
    "day of week",
    0,
    7,
    &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
);

const fn field(
    name: &'static str,
    least: u32,
    greatest: u32,
    names: &'static [&'static str],
) -> Field {
    Field {
        name,
        least,
        greatest,
        names,
    }
}

impl Field {
    fn refusal(&self, text: &str) -> String {
        format!("invalid {} '{text}'", self.name)
    }

    fn value(&self, text: &str) -> Option<u32> {
        let named = self
            .names
            .iter()
            .position(|name| name.eq_ignore_ascii_case(text));
        if let Some(at) = named {
            return Some(at as u32 + self.least);
        }
        let value = digits(text)?;
        (self.least..=self.greatest)
            .contains(&value)
            .then_some(value)
    }

    /// Parses a list into one bit for each value.
    fn parse(&self, text: &str) -> Result<u64, String> {
        let mut bits = 0;
        for item in text.split(',') {
            let refusal = || self.refusal(item);
            let (range, step) = match item.split_once('/') {
                None => (item, None),
                Some((range, step)) => {
                    let step = digits(step).filter(|step| (1..=60).contains(step));
                    (range, Some(step.ok_or_else(refusal)?))
                }
            };
            let (from, to) = match range.split_once('-') {
                _ if range == "*" || range == "?" => (self.least, self.greatest),
                Some((from, to)) => {
                    let ends = self.value(from).zip(self.value(to));
                    ends.filter(|(from, to)| from <= to).ok_or_else(refusal)?
                }
                None => {
                    let one = self.value(range).ok_or_else(refusal)?;
                    // As in other crons, `5/10` is every tenth value from 5 to the maximum.
                    (one, if step.is_some() { self.greatest } else { one })
                }
            };
            for value in (from..=to).step_by(step.unwrap_or(1) as usize) {
                bits |= 1 << value;
            }
        }
        Ok(bits)
    }
}

impl Cron {
    /// Parses an expression.
    ///
    /// # Errors
    /// If a field is invalid, or if no day ever matches.
    pub fn parse(text: &str) -> Result<Self, String> {
        let named = match text.to_ascii_lowercase().as_str() {
            "@yearly" | "@annually" => Some("0 0 1 1 *"),
            "@monthly" => Some("0 0 1 * *"),
            "@weekly" => Some("0 0 * * 0"),
            "@daily" | "@midnight" => Some("0 0 * * *"),
            "@hourly" => Some("0 * * * *"),
            "@minutely" => Some("* * * * *"),
            _ => None,
        };
        let fields: Vec<&str> = named.unwrap_or(text).split_ascii_whitespace().collect();
        let (second, fields) = match fields.len() {
            5 => ("0", &fields[..]),
            6 => (fields[0], &fields[1..]),
            _ => return Err(format!("'{text}' has neither five nor six fields")),
        };
        let mut cron = Self {
            seconds: SECOND.parse(second)?,
            minutes: MINUTE.parse(fields[0])?,
            hours: HOUR.parse(fields[1])?,
            days: 0,
            months: MONTH.parse(fields[3])?,
            weekdays: WEEKDAY.parse(fields[4])?,
            last_day: false,
            restricts_day: !fields[2].starts_with(['*', '?']),
            restricts_weekday: !fields[4].starts_with(['*', '?']),
        };
        let mut days: Vec<&str> = fields[2].split(',').collect();
        days.retain(|day| !day.eq_ignore_ascii_case("L"));
        cron.last_day = days.len() < fields[2].split(',').count();
        if !days.is_empty() {
            cron.days = DAY.parse(&days.join(","))?;
        }
        // Both 0 and 7 are Sunday.
        cron.weekdays = (cron.weekdays | cron.weekdays >> 7) & 0x7f;
        // The search begins at a fixed day, so the result does not depend on the time.
        let begin = Date::constant(2000, 1, 1);
        match cron.next_day(begin) {
            Some(_) => Ok(cron),
            None => Err(format!("no day matches '{text}'")),
        }
    }

    fn matches_day(&self, date: Date) -> bool {
        if self.months & 1 << date.month() == 0 {
            return false;
        }
        let day =
            self.days & 1 << date.day() != 0 || self.last_day && date.day() == date.days_in_month();
        let weekday = self.weekdays & 1 << date.weekday().to_sunday_zero_offset() != 0;
        match (self.restricts_day, self.restricts_weekday) {
            (true, true) => day || weekday,
            _ => day && weekday,
        }
    }

    /// Returns the first day from `date` on that matches.
    fn next_day(&self, date: Date) -> Option<Date> {
        let mut day = date;
        for _ in 0..DAYS_MAX {
            if self.matches_day(day) {
                return Some(day);
            }
            day = match self.months & 1 << day.month() {
                0 => day.first_of_month().checked_add(1.month()).ok()?,
                _ => day.tomorrow().ok()?,
            };
        }
        None
    }

    /// Returns the first matching time of a day at or after this time.
    fn next_time(&self, hour: u32, minute: u32, second: u32) -> Option<Time> {
        let at_or_after = |bits: u64, least: u32| {
            let rest = bits.checked_shr(least).unwrap_or(0);
            (rest != 0).then(|| least + rest.trailing_zeros())
        };
        let found = |hour: u32, minute: u32, second: u32| {
            Time::new(hour as i8, minute as i8, second as i8, 0).ok()
        };
        let first_minute = self.minutes.trailing_zeros();
        let first_second = self.seconds.trailing_zeros();
        let first_hour = at_or_after(self.hours, hour)?;
        if first_hour > hour {
            return found(first_hour, first_minute, first_second);
        }
        if let Some(next_minute) = at_or_after(self.minutes, minute) {
            if next_minute > minute {
                return found(hour, next_minute, first_second);
            }
            if let Some(next_second) = at_or_after(self.seconds, second) {
                return found(hour, minute, next_second);
            }
            if let Some(next_minute) = at_or_after(self.minutes, minute + 1) {
                return found(hour, next_minute, first_second);
            }
        }
        let next_hour = at_or_after(self.hours, hour + 1)?;
        found(next_hour, first_minute, first_second)
    }

    /// Returns the first matching date and time at or after `from`, without regard to a time zone.
    fn next_civil(&self, from: DateTime) -> Option<DateTime> {
        let day = self.next_day(from.date())?;
        let time = match day == from.date() {
            true => self.next_time(
                from.hour().unsigned_abs().into(),
                from.minute().unsigned_abs().into(),
                from.second().unsigned_abs().into(),
            ),
            false => self.next_time(0, 0, 0),
        };
        match time {
            Some(time) => Some(day.to_datetime(time)),
            None => {
                let day = self.next_day(day.tomorrow().ok()?)?;
                Some(day.to_datetime(self.next_time(0, 0, 0)?))
            }
        }
    }

    /// Returns the first matching instant after `after_ms`, both in Unix ms. O(days until then).
    pub fn next(&self, zone: &Zone, after_ms: u64) -> Option<u64> {
        // Matches are whole seconds.
        let after_s = i64::try_from(after_ms / 1000).ok()?;
        let after = Timestamp::from_second(after_s.checked_add(1)?).ok()?;
        let found = if self.hours == (1 << 24) - 1 {
            self.next_elapsed(zone, after)?
        } else {
            self.next_of_day(zone, after)?
        };
        u64::try_from(found.as_millisecond()).ok()
    }

    /// Implements [`Cron::next`] for an expression that follows elapsed time. `from` itself may
    /// match.
    fn next_elapsed(&self, Zone(zone): &Zone, from: Timestamp) -> Option<Timestamp> {
        let mut from = from;
        loop {
            let offset = zone.to_offset(from);
            let civil = self.next_civil(offset.to_datetime(from))?;
            let found = offset.to_timestamp(civil).ok()?;
            // If the zone's offset changes before the match, the search restarts at the change.
            match zone.following(from).next().map(|change| change.timestamp()) {
                Some(change) if change <= found => from = change,
                _ => return Some(found),
            }
        }
    }

    /// Implements [`Cron::next`] for an expression that matches times of the day. `from` itself may
    /// match.
    fn next_of_day(&self, Zone(zone): &Zone, from: Timestamp) -> Option<Timestamp> {
        // A time before `from` on the calendar may be skipped by the clock, and then match at the
        // end of the gap, which may be after `from`.
        let mut civil = zone.to_datetime(from.checked_sub(GAP_MAX.seconds()).ok()?);
        loop {
            civil = self.next_civil(civil)?;
            let instant = match zone.to_ambiguous_timestamp(civil).offset() {
                AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(civil).ok()?,
                AmbiguousOffset::Fold { before, .. } => before.to_timestamp(civil).ok()?,
                AmbiguousOffset::Gap { before, after } => {
                    // With the offset from before the change, the skipped time is an instant after
                    // the change. So the last change up to it is the end of the gap.
                    let inside = before.to_timestamp(civil).ok()?;
                    let change = zone.preceding(inside.checked_add(1.second()).ok()?).next();
                    let change = change.map(|change| change.timestamp());
                    change.or_else(|| after.to_timestamp(civil).ok())?
                }
            };
            if instant >= from {
                return Some(instant);
            }
            civil = civil.checked_add(1.second()).ok()?;
        }
    }
}

/// Maximum time that a change of a zone's offset skips, in seconds: a day, as in Samoa in 2011.
const GAP_MAX: i64 = 86_400;

#[cfg(test)]
mod tests;
