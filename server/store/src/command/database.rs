//! Commands on whole databases: DBSIZE, FLUSHDB, FLUSHALL and SWAPDB.

use punctual_resp::{Args, Reply};

use crate::arguments::{int, is};
use crate::error::Error;
use crate::spec::{Flags, Group};
use crate::turn::{Command, Cx, Handler};

/// The family's rows.
pub static COMMANDS: &[Command] = &[
    row("dbsize", 1, Flags::READONLY.or(Flags::FAST), dbsize)
        .tips(&["request_policy:all_shards", "response_policy:agg_sum"])
        .categories(&["keyspace"])
        .since("1.0.0")
        .summary("Returns the number of keys in the database."),
    row(
        "flushall",
        -1,
        Flags::WRITE.or(Flags::FLUSHES_ALL),
        flush_all,
    )
    .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
    .categories(&["keyspace", "dangerous"])
    .since("1.0.0")
    .complexity("O(N) where N is the total number of keys in all databases.")
    .summary("Removes all keys from all databases.")
    .history(FLUSH_HISTORY)
    .syntax("[flush-type: ASYNC@4.0.0 | SYNC@6.2.0]"),
    row("flushdb", -1, Flags::WRITE, flush_db)
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .categories(&["keyspace", "dangerous"])
        .since("1.0.0")
        .complexity("O(N) where N is the number of keys in the database.")
        .summary("Removes all keys from the current database.")
        .history(FLUSH_HISTORY)
        .syntax("[flush-type: ASYNC@4.0.0 | SYNC@6.2.0]"),
    row(
        "swapdb",
        3,
        Flags::WRITE.or(Flags::FAST).or(Flags::NO_CLUSTER),
        swap_db,
    )
    .categories(&["keyspace", "dangerous"])
    .since("4.0.0")
    .complexity(
        "O(N) where N is the number of clients watching or blocking on keys from both \
             databases.",
    )
    .summary("Swaps two databases.")
    .databases(|_| vec![1, 2])
    .syntax("index1:integer index2:integer"),
];

const FLUSH_HISTORY: &[(&str, &str)] = &[
    ("4.0.0", "Added the `ASYNC` flushing mode modifier."),
    ("6.2.0", "Added the `SYNC` flushing mode modifier."),
];

/// Steps that DBSIZE spends on expiring due keys before it counts.
const DBSIZE_STEPS: usize = 1000;

crate::family!(Handler, Group::Server, Flags::WHOLE);

/// Parses the number of a database.
pub(crate) fn database_index(cx: &Cx, arg: &[u8]) -> Result<usize, Error> {
    let index = i32::try_from(int(arg)?).map_err(|_| {
        Error::fixed("ERR value is out of range, value must between -2147483648 and 2147483647")
    })?;
    in_range(cx, index)
}

fn in_range(cx: &Cx, index: i32) -> Result<usize, Error> {
    usize::try_from(index)
        .ok()
        .filter(|&index| index < cx.store().databases())
        .ok_or(Error::DbRange)
}

fn dbsize(cx: &mut Cx, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let (db, now) = (cx.db, cx.now());
    // Expires due keys within a budget. DBSIZE counts the due keys that remain.
    if cx.store().active_expire() && !cx.turn.frozen {
        let mut budget = DBSIZE_STEPS;
        for number in 0..cx.store().shards() {
            cx.turn.expire_db(number, db, now, &mut budget);
        }
    }
    let keys: usize = cx.turn.held_dbs(db).map(|(_, part)| part.len()).sum();
    reply.int(keys as i64);
    Ok(())
}

/// Checks the option SYNC or ASYNC, which has no effect: in both cases the memory is freed after
/// the turn.
fn flush_option(args: Args) -> Result<(), Error> {
    match args.get(1) {
        None => Ok(()),
        Some(mode) if args.len() == 2 && (is(mode, "SYNC") || is(mode, "ASYNC")) => Ok(()),
        Some(_) => Err(Error::Syntax),
    }
}

fn flush_db(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    flush_option(args)?;
    cx.turn.flush(cx.db..cx.db + 1);
    reply.ok();
    Ok(())
}

fn flush_all(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    flush_option(args)?;
    let all = 0..cx.store().databases();
    cx.turn.flush(all);
    reply.ok();
    Ok(())
}

fn swap_db(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let index = |arg: &[u8], invalid| {
        let index = int(arg).ok().and_then(|index| i32::try_from(index).ok());
        index.ok_or(Error::fixed(invalid))
    };
    let first = index(&args[1], "ERR invalid first DB index")?;
    let second = index(&args[2], "ERR invalid second DB index")?;
    let (first, second) = (in_range(cx, first)?, in_range(cx, second)?);
    cx.turn.swap(first, second);
    reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::command::testing::Fixture;

    #[test]
    fn due_keys_are_not_counted() {
        let mut fixture = Fixture::sharded(4);
        for n in 0..100 {
            fixture.run(&format!("SET stays:{n} v"));
            fixture.run(&format!("SET due:{n} v PX 10"));
        }
        assert_eq!(fixture.run("DBSIZE"), ":200");
        fixture.advance(10);
        fixture.store.set_active_expire(false);
        assert_eq!(
            fixture.run("DBSIZE"),
            ":200",
            "without active expiry, due keys are counted"
        );
        fixture.store.set_active_expire(true);
        assert_eq!(fixture.run("DBSIZE"), ":100");
        assert_eq!(fixture.stats.expired, 100);
        fixture.db = 1;
        assert_eq!(fixture.run("DBSIZE"), ":0");
    }

    #[test]
    fn flushdb_clears_one_database_and_flushall_all() {
        let mut fixture = Fixture::sharded(4);
        for db in [0, 1, 2] {
            fixture.db = db;
            for n in 0..50 {
                fixture.run(&format!("SET k{n} v EX {}", n + 1));
            }
        }
        fixture.events();
        let dirty = fixture.stats.dirty;
        assert_eq!(fixture.run("FLUSHDB"), "+OK");
        assert_eq!(fixture.stats.dirty - dirty, 50);
        assert_eq!(fixture.run("DBSIZE"), ":0");
        fixture.db = 1;
        assert_eq!(fixture.run("DBSIZE"), ":50");
        assert_eq!(fixture.run("FLUSHALL ASYNC"), "+OK");
        assert_eq!(fixture.run("FLUSHDB sync"), "+OK");
        assert_eq!(fixture.stats.dirty - dirty, 150);
        fixture.advance(100_000);
        fixture.expire();
        assert_eq!(
            fixture.events(),
            "",
            "flushed keys have no events and do not expire"
        );
        fixture.run("SET again v PX 5");
        fixture.advance(5);
        fixture.expire();
        assert_eq!(
            fixture.events(),
            "new again @1, set again @1, expire again @1, expired again @1"
        );
        for line in ["FLUSHDB x", "FLUSHALL sync async", "FLUSHDB async x"] {
            assert_eq!(fixture.run(line), "-ERR syntax error", "{line}");
        }
    }

    #[test]
    fn swapped_databases_keep_their_deadlines() {
        let mut fixture = Fixture::sharded(4);
        for n in 0..20 {
            fixture.run(&format!("SET k{n} v PX 10"));
        }
        assert_eq!(fixture.run("SWAPDB 0 3"), "+OK");
        assert_eq!(fixture.run("SWAPDB 3 3"), "+OK");
        assert_eq!(fixture.run("DBSIZE"), ":0");
        fixture.events();
        fixture.advance(10);
        fixture.expire();
        let events = fixture.events();
        assert_eq!(
            events.split(", ").filter(|e| e.ends_with("@3")).count(),
            20,
            "{events}"
        );
        fixture.expect(&[
            ("SWAPDB x y", "-ERR invalid first DB index"),
            ("SWAPDB 0 y", "-ERR invalid second DB index"),
            ("SWAPDB 99 y", "-ERR invalid second DB index"),
            ("SWAPDB 0 5000000000", "-ERR invalid second DB index"),
            ("SWAPDB 0 16", "-ERR DB index is out of range"),
            ("SWAPDB -1 0", "-ERR DB index is out of range"),
        ]);
    }
}
