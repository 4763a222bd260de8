use super::*;

fn ms(text: &str) -> u64 {
    let instant: Timestamp = text.parse().unwrap();
    instant.as_millisecond().cast_unsigned()
}

/// Returns the next `count` instants of an expression after `after`, in UTC.
fn following(expression: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let (cron, zone) = (Cron::parse(expression).unwrap(), Zone::find(zone).unwrap());
    let mut last = ms(after);
    let next = std::iter::from_fn(|| {
        last = cron.next(&zone, last)?;
        let instant = Timestamp::from_millisecond(last.cast_signed()).unwrap();
        Some(instant.to_string())
    });
    next.take(count).collect()
}

#[track_caller]
fn utc(expression: &str, after: &str, expected: &[&str]) {
    let found = following(expression, "UTC", after, expected.len());
    assert_eq!(found, expected, "{expression}");
}

#[test]
fn fields_are_values_ranges_steps_and_names() {
    utc(
        "*/20 * * * *",
        "2026-01-01T00:00:00Z",
        &[
            "2026-01-01T00:20:00Z",
            "2026-01-01T00:40:00Z",
            "2026-01-01T01:00:00Z",
        ],
    );
    utc(
        "30 9-10 * * MON-FRI",
        "2026-01-02T10:00:00Z",
        &["2026-01-02T10:30:00Z", "2026-01-05T09:30:00Z"],
    );
    utc(
        "0 0 1 jan,Jul *",
        "2026-01-01T00:00:00Z",
        &["2026-07-01T00:00:00Z", "2027-01-01T00:00:00Z"],
    );
    utc(
        "15 30 12 * * *",
        "2026-01-01T12:30:15Z",
        &["2026-01-02T12:30:15Z"],
    );
    utc(
        "*/25 * * * * *",
        "2026-01-01T00:00:26Z",
        &["2026-01-01T00:00:50Z", "2026-01-01T00:01:00Z"],
    );
    utc(
        "50/5 * * * *",
        "2026-01-01T00:51:00Z",
        &["2026-01-01T00:55:00Z", "2026-01-01T01:50:00Z"],
    );
    utc(
        "0 0 L * *",
        "2026-02-01T00:00:00Z",
        &["2026-02-28T00:00:00Z", "2026-03-31T00:00:00Z"],
    );
    utc(
        "0 0 29 2 *",
        "2026-01-01T00:00:00Z",
        &["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"],
    );
    utc(
        "0 0 * * 7",
        "2026-01-01T00:00:00Z",
        &["2026-01-04T00:00:00Z"],
    );
    // If both days are restricted, a day matches if either field matches.
    utc(
        "0 0 13 * 5",
        "2026-02-01T00:00:00Z",
        &[
            "2026-02-06T00:00:00Z",
            "2026-02-13T00:00:00Z",
            "2026-02-20T00:00:00Z",
        ],
    );
    utc(
        "0 0 13 * FRI",
        "2026-03-13T00:00:00.001Z",
        &["2026-03-20T00:00:00Z"],
    );
}

#[test]
fn names_stand_for_expressions() {
    utc("@hourly", "2026-05-05T05:05:05Z", &["2026-05-05T06:00:00Z"]);
    utc("@daily", "2026-05-05T05:05:05Z", &["2026-05-06T00:00:00Z"]);
    utc(
        "@midnight",
        "2026-05-05T05:05:05Z",
        &["2026-05-06T00:00:00Z"],
    );
    utc("@weekly", "2026-05-05T05:05:05Z", &["2026-05-10T00:00:00Z"]);
    utc(
        "@Monthly",
        "2026-05-05T05:05:05Z",
        &["2026-06-01T00:00:00Z"],
    );
    utc("@yearly", "2026-05-05T05:05:05Z", &["2027-01-01T00:00:00Z"]);
}

#[test]
fn the_next_instant_is_later() {
    utc(
        "* * * * * *",
        "2026-01-01T00:00:00.999Z",
        &["2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"],
    );
    utc(
        "0 12 * * *",
        "2026-01-01T12:00:00Z",
        &["2026-01-02T12:00:00Z"],
    );
    utc(
        "0 12 * * *",
        "2026-01-01T11:59:59.999Z",
        &["2026-01-01T12:00:00Z"],
    );
}

#[test]
fn zones_have_their_own_days() {
    assert_eq!(
        following("0 9 * * *", "Asia/Tokyo", "2026-01-01T00:00:00Z", 1),
        ["2026-01-02T00:00:00Z"]
    );
    assert_eq!(
        following("0 9 * * *", "+05:30", "2026-01-01T00:00:00Z", 1),
        ["2026-01-01T03:30:00Z"]
    );
    assert_eq!(
        following("0 9 * * *", "America/New_York", "2026-07-01T00:00:00Z", 1),
        ["2026-07-01T13:00:00Z"]
    );
    for zone in [
        "Mars/Olympus",
        "",
        "+25:99",
        "+1",
        "Europe/",
        "+-1:00",
        "-+1:00",
        "+01:-5",
    ] {
        assert!(Zone::find(zone).is_err(), "{zone}");
    }
}

/// Berlin skips 02:00 to 03:00 on 29 March 2026 and repeats it on 25 October.
#[test]
fn a_time_in_the_gap_is_the_first_instant_after_it() {
    let berlin =
        |expression, count| following(expression, "Europe/Berlin", "2026-03-28T12:00:00Z", count);
    assert_eq!(
        berlin("30 2 * * *", 2),
        ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
    );
    // Several matching times in the gap are one instant.
    assert_eq!(
        berlin("10,50 2 * * *", 3),
        [
            "2026-03-29T01:00:00Z",
            "2026-03-30T00:10:00Z",
            "2026-03-30T00:50:00Z"
        ]
    );
    assert_eq!(
        berlin("0 2,3 * * *", 2),
        ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"]
    );
    // Searches that begin one second before the gap, or at its end, find the same instants.
    assert_eq!(
        following("30 2 * * *", "Europe/Berlin", "2026-03-29T00:59:59Z", 1),
        ["2026-03-29T01:00:00Z"]
    );
    assert_eq!(
        following("30 2 * * *", "Europe/Berlin", "2026-03-29T01:00:00Z", 1),
        ["2026-03-30T00:30:00Z"]
    );
    // Samoa had no 30 December 2011.
    assert_eq!(
        following("0 12 30 12 *", "Pacific/Apia", "2011-12-29T00:00:00Z", 1),
        ["2011-12-30T10:00:00Z"]
    );
}

#[test]
fn a_time_that_occurs_twice_matches_its_first_occurrence() {
    let berlin =
        |expression, count| following(expression, "Europe/Berlin", "2026-10-24T12:00:00Z", count);
    assert_eq!(
        berlin("30 2 * * *", 2),
        ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
    );
    assert_eq!(berlin("0 3 * * *", 1), ["2026-10-25T02:00:00Z"]);
    assert_eq!(
        following("30 2 * * *", "Europe/Berlin", "2026-10-25T01:15:00Z", 1),
        ["2026-10-26T01:30:00Z"]
    );
}

#[test]
fn an_expression_of_all_hours_follows_elapsed_time() {
    let spring = following("30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 3);
    assert_eq!(
        spring,
        [
            "2026-03-29T00:30:00Z",
            "2026-03-29T01:30:00Z",
            "2026-03-29T02:30:00Z"
        ]
    );
    let autumn = following("30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", 3);
    assert_eq!(
        autumn,
        [
            "2026-10-25T00:30:00Z",
            "2026-10-25T01:30:00Z",
            "2026-10-25T02:30:00Z"
        ]
    );
}

/// Compares with a check of every minute of a year.
#[test]
fn minutes_agree_with_a_walk() {
    for expression in [
        "*/7 3-5 * * *",
        "59 23 L * *",
        "0 0 1,15 * MON",
        "13 13 13 * *",
    ] {
        let cron = Cron::parse(expression).unwrap();
        let zone = Zone::find("UTC").unwrap();
        let mut last = ms("2027-01-01T00:00:00Z");
        let end = ms("2028-01-01T00:00:00Z");
        let mut minute = last;
        while minute < end {
            minute += 60_000;
            let instant = Timestamp::from_millisecond(minute.cast_signed()).unwrap();
            let civil = TimeZone::UTC.to_datetime(instant);
            let matches = cron.matches_day(civil.date())
                && cron.hours & 1 << civil.hour() != 0
                && cron.minutes & 1 << civil.minute() != 0;
            if matches {
                let next = cron.next(&zone, last);
                assert_eq!(next, Some(minute), "{expression} after {last}");
                last = minute;
            }
        }
    }
}

#[test]
fn errors_name_the_invalid_part() {
    for (expression, error) in [
        ("", "'' has neither five nor six fields"),
        ("* * * *", "'* * * *' has neither five nor six fields"),
        ("60 * * * *", "invalid minute '60'"),
        ("* 24 * * *", "invalid hour '24'"),
        ("* * 0 * *", "invalid day of month '0'"),
        ("* * * 13 *", "invalid month '13'"),
        ("* * * * 8", "invalid day of week '8'"),
        ("* * * FOO *", "invalid month 'FOO'"),
        ("*/0 * * * *", "invalid minute '*/0'"),
        ("5-1 * * * *", "invalid minute '5-1'"),
        ("1,,2 * * * *", "invalid minute ''"),
        ("+5 * * * *", "invalid minute '+5'"),
        ("*/+5 * * * *", "invalid minute '*/+5'"),
        ("@never", "'@never' has neither five nor six fields"),
        ("0 0 30 2 *", "no day matches '0 0 30 2 *'"),
        ("0 0 31 4,6,9,11 *", "no day matches '0 0 31 4,6,9,11 *'"),
    ] {
        assert_eq!(
            Cron::parse(expression),
            Err(error.to_owned()),
            "{expression}"
        );
    }
}
