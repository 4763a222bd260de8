//! SCAN: incremental iteration over the keyspace.
//!
//! A cursor is a shard's number followed by 32 bits of hash. SCAN has returned all keys of the
//! shards with lower numbers, and the keys of this shard with lower hashes. This stays true if
//! keys are added or removed, or tables are resized, between the calls. A scan locks one shard at a
//! time. In cluster mode, the order of a part of a table may change, so the cursor also has the
//! order (`hash_table/scan.rs`).

use punctual_resp::decimal::parse_u64;
use punctual_resp::{Args, Reply};

use crate::arguments::{int, is};
use crate::error::{Error, c_string};
use crate::glob;
use crate::keyspace::records::Record;
use crate::keyspace::shard::SHARDS_MAX;
use crate::spec::{Flags, Group};
use crate::turn::{Command, Cx};

/// The family's rows.
pub static COMMANDS: &[Command] = &[Command::new(
    "scan",
    -2,
    Flags::READONLY,
    Group::Generic,
    scan,
)
.tips(&[
    "nondeterministic_output",
    "request_policy:special",
    "response_policy:special",
])
.since("2.8.0")
.complexity(
    "O(1) for each call, O(N) for a complete iteration, where N is the number of keys in \
     the database.",
)
.summary("Iterates over the key names in the database.")
.history(&[("6.0.0", "Added the `TYPE` option.")])
.syntax("cursor [MATCH pattern] [COUNT count] [TYPE type@6.0.0]")];

/// Default of COUNT.
const COUNT_DEFAULT: i64 = 10;

/// Number of bits of a shard's number in a cursor.
const SHARD_BITS: u32 = 14;
const _: () = assert!(SHARDS_MAX == 1 << SHARD_BITS);

/// Cursor of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor(pub(crate) u64);

impl Cursor {
    /// Parses a cursor as C's `strtoul` does, which Redis uses: a sign is allowed, and an empty
    /// text is 0.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, Error> {
        const INVALID: Error = Error::fixed("ERR invalid cursor");
        let (negative, digits) = match c_string(text) {
            [] => return Ok(Self(0)),
            [b'-', digits @ ..] => (true, digits),
            [b'+', digits @ ..] => (false, digits),
            digits => (false, digits),
        };
        let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
        let number = match &digits[zeros..] {
            [] if zeros > 0 => 0,
            digits => parse_u64(digits).ok_or(INVALID)?,
        };
        Ok(Self(if negative {
            number.wrapping_neg()
        } else {
            number
        }))
    }

    /// Returns the shard's number, the hash at which the scan of the shard continues, and the
    /// table's order at this hash.
    const fn parts(self) -> (usize, u32, u32) {
        let shard = (self.0 >> 32) as usize & ((1 << SHARD_BITS) - 1);
        (shard, self.0 as u32, (self.0 >> (32 + SHARD_BITS)) as u32)
    }

    const fn at(shard: usize, place: u32, order: u32) -> Self {
        Self((order as u64) << (32 + SHARD_BITS) | (shard as u64) << 32 | place as u64)
    }
}

/// Options of a scan.
pub(crate) struct Filter<'a> {
    /// Number of keys or elements that a call visits, at least 1.
    pub(crate) count: i64,
    /// Pattern of names.
    pub(crate) pattern: Option<&'a [u8]>,
    /// NOVALUES: return only the names of a hash.
    pub(crate) names_only: bool,
    type_name: Option<&'a [u8]>,
}

/// What a scan iterates over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScanOf {
    Keys,
    Elements,
    Fields,
}

impl<'a> Filter<'a> {
    /// Parses the options. TYPE is valid only for keys, and NOVALUES only for fields.
    pub(crate) fn parse(options: Args<'a>, of: ScanOf) -> Result<Self, Error> {
        let mut filter = Self {
            count: COUNT_DEFAULT,
            pattern: None,
            names_only: false,
            type_name: None,
        };
        let mut at = 0;
        while let Some(option) = options.get(at) {
            if of == ScanOf::Fields && is(option, "NOVALUES") {
                filter.names_only = true;
                at += 1;
                continue;
            }
            let value = options.get(at + 1).ok_or(Error::Syntax)?;
            match () {
                () if is(option, "COUNT") => {
                    filter.count = int(value)?;
                    if filter.count < 1 {
                        return Err(Error::Syntax);
                    }
                }
                // For `glob::matches`, `*` does not match the empty name; for MATCH it does.
                () if is(option, "MATCH") => filter.pattern = (value != b"*").then_some(value),
                () if of == ScanOf::Keys && is(option, "TYPE") => filter.type_name = Some(value),
                () => return Err(Error::Syntax),
            }
            at += 2;
        }
        Ok(filter)
    }

    fn matches_name(&self, record: &Record) -> bool {
        self.pattern
            .is_none_or(|pattern| glob::matches(pattern, record.key.as_bytes()))
    }

    fn is_of_type(&self, record: &Record) -> bool {
        self.type_name
            .is_none_or(|name| is(name, record.value.facts().name))
    }
}

fn scan(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let cursor = Cursor::parse(&args[1])?;
    let filter = Filter::parse(args.skip(2), ScanOf::Keys)?;
    let (db, now, shards) = (cx.db, cx.now(), cx.store().shards());
    let mut written = 0;
    let mut names = Vec::new();
    let mut write = Reply::new(&mut names, reply.protocol());
    let mut ids = Vec::new();

    // A cursor whose shard does not exist ends the scan.
    let mut at = Some(cursor.parts()).filter(|(number, ..)| *number < shards);
    let mut visited = 0;
    let mut steps = filter.count.saturating_mul(10);
    while let Some((number, place, order)) = at
        && visited < filter.count
        && steps > 0
    {
        steps -= 1;
        cx.turn.lock_one(number);
        ids.clear();
        let part = cx.turn.shard_db(number, db);
        let place = part.resume_scan(place, order);
        let next = part.scan(place, |id| ids.push(id));
        // The expiry of keys may change the order.
        let next = next.map(|place| (number, place, part.scan_order(place)));
        visited += ids.len() as i64;
        for &id in &ids {
            let record = cx.turn.shard_db(number, db).get(id);
            if !filter.matches_name(record) {
                continue;
            }
            // As in Redis, a due key expires if its name matches, regardless of TYPE.
            if record.has_expired(now) {
                cx.turn.expire_due(number, db, id);
                continue;
            }
            if !filter.is_of_type(record) {
                continue;
            }
            written += 1;
            write.bulk(record.key.as_bytes());
        }
        at = next.or_else(|| (number + 1 < shards).then_some((number + 1, 0, 0)));
    }

    let next = at.map_or(Cursor(0), |(number, place, order)| {
        Cursor::at(number, place, order)
    });
    reply.array(2);
    reply.bulk(itoa::Buffer::new().format(next.0).as_bytes());
    reply.array(written);
    reply.out().extend_from_slice(&names);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::Cursor;
    use crate::command::testing::Fixture;

    /// Runs one call and returns the next cursor and the keys.
    fn step(fixture: &mut Fixture, line: &str) -> (String, Vec<String>) {
        let reply = fixture.run(line);
        let mut words = reply.split(' ');
        assert_eq!(words.next(), Some("*2"), "{reply}");
        let cursor = words.nth(1).unwrap().to_owned();
        let keys: Vec<String> = words.skip(2).step_by(2).map(str::to_owned).collect();
        (cursor, keys)
    }

    /// Runs a whole scan and returns the number of times that it returned each key.
    fn all(
        fixture: &mut Fixture,
        options: &str,
        mut between: impl FnMut(&mut Fixture),
    ) -> BTreeMap<String, usize> {
        let mut seen = BTreeMap::new();
        let mut cursor = "0".to_owned();
        loop {
            let (next, keys) = step(fixture, &format!("SCAN {cursor} {options}"));
            for key in keys {
                *seen.entry(key).or_default() += 1;
            }
            if next == "0" {
                return seen;
            }
            cursor = next;
            between(fixture);
        }
    }

    #[test]
    fn every_key_is_returned_once() {
        for shards in [1, 3, 8] {
            let mut fixture = Fixture::sharded(shards);
            assert_eq!(fixture.run("SCAN 0"), "*2 $1 0 *0");
            for n in 0..1000 {
                fixture.run(&format!("SET key:{n} v"));
            }
            for options in [
                "",
                "COUNT 1",
                "COUNT 37",
                "COUNT 100000",
                "COUNT 9223372036854775807",
            ] {
                let seen = all(&mut fixture, options, |_| ());
                assert_eq!(seen.len(), 1000, "{shards} shards, {options}");
                assert!(seen.values().all(|&times| times == 1));
            }
        }
    }

    #[test]
    fn a_call_returns_about_count_keys() {
        let mut fixture = Fixture::sharded(4);
        for n in 0..20_000 {
            fixture.run(&format!("SET key:{n} v"));
        }
        for count in [1, 10, 500] {
            let (_, keys) = step(&mut fixture, &format!("SCAN 0 COUNT {count}"));
            // The last step visits a whole chunk of the hash table, so it may exceed the count.
            assert!(
                (count..count + 24).contains(&keys.len()),
                "{count}: {}",
                keys.len()
            );
        }
    }

    #[test]
    fn match_type_and_count_filter_keys() {
        let mut fixture = Fixture::sharded(4);
        for n in 0..300 {
            fixture.run(&format!("SET key:{n} v"));
        }
        assert_eq!(all(&mut fixture, "MATCH key:1?", |_| ()).len(), 10);
        assert_eq!(all(&mut fixture, "MATCH x* MATCH *", |_| ()).len(), 300);
        assert_eq!(
            all(&mut fixture, "type STRING match *9 count 5", |_| ()).len(),
            30
        );
        assert_eq!(all(&mut fixture, "TYPE nosuch", |_| ()).len(), 0);
    }

    #[test]
    fn due_keys_expire_and_are_not_returned() {
        let mut fixture = Fixture::sharded(4);
        for n in 0..100 {
            fixture.run(&format!("SET stays:{n} v"));
            fixture.run(&format!("SET due:{n} v PX 10"));
        }
        fixture.advance(10);
        assert_eq!(all(&mut fixture, "MATCH *7", |_| ()).len(), 10);
        assert_eq!(
            fixture.stats.expired_on_touch, 10,
            "only due keys whose names match expire"
        );
        assert_eq!(all(&mut fixture, "", |_| ()).len(), 100);
        assert_eq!(fixture.stats.expired, 100);
    }

    #[test]
    fn errors_and_odd_cursors() {
        const INVALID: &str = "-ERR invalid cursor";
        const INTEGER: &str = "-ERR value is not an integer or out of range";
        const EMPTY: &str = "*2 $1 0 *0";
        let mut fixture = Fixture::sharded(2);
        fixture.expect(&[
            ("SCAN x", INVALID),
            ("SCAN x foo", INVALID),
            ("SCAN 1x", INVALID),
            ("SCAN -", INVALID),
            ("SCAN 18446744073709551616", INVALID),
            ("SCAN 18446744073709551615", EMPTY),
            ("SCAN 00", EMPTY),
            ("SCAN +5", EMPTY),
            ("SCAN -1", EMPTY),
            ("SCAN \"\"", EMPTY),
            // A NUL ends the number, as in C.
            ("SCAN 7\0x", EMPTY),
            ("SCAN \0x foo", "-ERR syntax error"),
            ("SCAN 0 COUNT 0", "-ERR syntax error"),
            ("SCAN 0 COUNT -1", "-ERR syntax error"),
            ("SCAN 0 COUNT x", INTEGER),
            ("SCAN 0 COUNT 9223372036854775808", INTEGER),
            ("SCAN 0 MATCH", "-ERR syntax error"),
            ("SCAN 0 WHAT 1", "-ERR syntax error"),
            ("SCAN 0 COUNT 5 MATCH", "-ERR syntax error"),
        ]);
        assert_eq!(Cursor::parse(b"-18446744073709551615").unwrap(), Cursor(1));
        assert!(Cursor::parse(b" 1").is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Redis guarantees that a key that exists during the whole scan is returned; here it is
        /// returned exactly once.
        #[test]
        fn keys_that_exist_during_the_whole_scan_are_returned_once(
            shards in prop_oneof![Just(1usize), Just(8)],
            count in 1..200usize,
            churn in proptest::collection::vec((any::<bool>(), 0..4000u32, 1..600u32), 1..40),
        ) {
            let mut fixture = Fixture::sharded(shards);
            for n in 0..400 {
                fixture.run(&format!("SET stays:{n} v"));
            }
            for n in 0..1000 {
                fixture.run(&format!("SET {n} v"));
            }
            let mut churn = churn.into_iter().cycle();
            let mut calls = 0;
            let seen = all(&mut fixture, &format!("COUNT {count}"), |fixture| {
                calls += 1;
                if calls % 3 == 0 {
                    let (add, start, length) = churn.next().unwrap();
                    for n in start..start + length {
                        fixture.run(&if add { format!("SET {n} v") } else { format!("DEL {n}") });
                    }
                }
            });
            for n in 0..400 {
                prop_assert_eq!(seen.get(&format!("stays:{n}")), Some(&1));
            }
        }
    }
}
