//! DUMP and RESTORE: one value as a snapshot has it.

use punctual_rdb::dump::{self, Restore};
use punctual_resp::{Args, Reply};

use crate::command::arguments::{TimeUnit, int, is};
use crate::error::Error;
use crate::events::Classes;
use crate::snapshot;
use crate::spec::{Flags, Group};
use crate::turn::{Command, Cx};
use crate::uses::Uses;
use crate::value::Value;

/// The family's rows.
pub static COMMANDS: &[Command] = &[
    Command::new("dump", 2, Flags::READONLY, Group::Generic, dump)
        .keys(1, 1, 1)
        .access(&["RO access"])
        .tips(&["nondeterministic_output"])
        .doc(
            "2.6.0",
            "O(N) where N is the size of the value.",
            "Returns a value in the form that RESTORE takes.",
        ),
    Command::new(
        "restore",
        -4,
        Flags::WRITE.or(Flags::DENYOOM),
        Group::Generic,
        restore,
    )
    .keys(1, 1, 1)
    .access(&["OW update"])
    .categories(&["dangerous"])
    .doc(
        "2.6.0",
        "O(N) where N is the size of the value; O(N log N) for sorted sets.",
        "Gives a key the value that DUMP has returned.",
    )
    .history(&[
        ("3.0.0", "Added the `REPLACE` modifier."),
        ("5.0.0", "Added the `ABSTTL` modifier."),
        ("5.0.0", "Added the `IDLETIME` and `FREQ` options."),
    ]),
];

fn dump(cx: &mut Cx<'_, '_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
    match cx.read(&args[1]) {
        Some(record) => {
            let payload = snapshot::dump(&record.value);
            reply.bulk(&payload);
        }
        None => reply.null(),
    }
    Ok(())
}

#[derive(Default)]
struct Options {
    replace: bool,
    absolute: bool,
    idle_s: Option<i64>,
    freq: Option<i64>,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Self, Error> {
        let mut options = Self::default();
        let mut at = 4;
        while let Some(word) = args.get(at) {
            let next = args.get(at + 1);
            if is(word, "REPLACE") {
                options.replace = true;
            } else if is(word, "ABSTTL") {
                options.absolute = true;
            } else if is(word, "IDLETIME")
                && options.freq.is_none()
                && let Some(seconds) = next
            {
                let seconds = int(seconds)?;
                if seconds < 0 {
                    return Err(Error::fixed("ERR Invalid IDLETIME value, must be >= 0"));
                }
                options.idle_s = Some(seconds);
                at += 1;
            } else if is(word, "FREQ")
                && options.idle_s.is_none()
                && let Some(count) = next
            {
                let count = int(count)?;
                if !(0..=255).contains(&count) {
                    return Err(Error::fixed(
                        "ERR Invalid FREQ value, must be >= 0 and <= 255",
                    ));
                }
                options.freq = Some(count);
                at += 1;
            } else {
                return Err(Error::Syntax);
            }
            at += 1;
        }
        Ok(options)
    }

    /// What the restored key remembers of its uses; `None`: as a new one.
    fn uses(&self, cx: &Cx<'_, '_>) -> Option<u32> {
        match cx.limits().uses {
            Uses::Last => self.idle_s.map(|seconds| {
                let used_ms = (cx.now().read_ms()).saturating_sub(seconds as u64 * 1000);
                Uses::Last.first(crate::Now::from_ms(used_ms))
            }),
            counts => {
                let count = u32::try_from(self.freq?).ok()?;
                Some(counts.first(cx.now()) & !0xff | count)
            }
        }
    }
}

fn restore(cx: &mut Cx<'_, '_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
    let key = &args[1];
    let options = Options::parse(args)?;
    let found = cx.find_to_write(key);
    if found.is_some() && !options.replace {
        return Err(Error::fixed("BUSYKEY Target key name already exists."));
    }
    let ttl = int(&args[2])?;
    if ttl < 0 {
        return Err(Error::fixed("ERR Invalid TTL value, must be >= 0"));
    }
    let value = read(cx, &args[3])?;
    let replaced = cx.remove(key).is_some();
    let unit = TimeUnit {
        seconds: false,
        absolute: options.absolute,
    };
    let deadline = match ttl {
        0 => None,
        ttl => Some(unit.deadline(ttl, cx.now(), "restore")?.max(0) as u64),
    };
    if deadline.is_some_and(|at| cx.now().is_due(at)) {
        // It would go at once: only what it replaces is seen to go.
        if replaced {
            cx.notify(Classes::GENERIC, "del", key);
            cx.changed(1);
        }
        reply.ok();
        return Ok(());
    }
    let id = cx.add(key, value);
    if let Some(uses) = options.uses(cx) {
        cx.db_of(key).touch(id, uses);
    }
    cx.set_deadline(key, id, deadline);
    cx.changed(1);
    cx.notify(Classes::GENERIC, "restore", key);
    reply.ok();
    Ok(())
}

/// The value in a payload.
fn read(cx: &Cx<'_, '_>, payload: &[u8]) -> Result<Value, Error> {
    let bad = |_| Error::fixed("ERR Bad data format");
    let body = if cx.store().checks_payloads() {
        dump::open(payload).ok()
    } else {
        dump::body(payload)
    };
    let body = body.ok_or(Error::fixed(
        "ERR DUMP payload version or checksum are wrong",
    ))?;
    let mut restore = Restore::from_body(body);
    let contents = restore.value().map_err(bad)?.read();
    let contents = contents.map_err(|failure| bad(failure.into()))?;
    let value = snapshot::read_value(contents, &cx.limits());
    value
        .ok()
        .flatten()
        .ok_or(Error::fixed("ERR Bad data format"))
}
