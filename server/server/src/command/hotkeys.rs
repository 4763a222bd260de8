//! HOTKEYS (Redis 8.6): the keys that cost most CPU time and bytes.

use std::sync::Arc;

use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::spec::{Flags, Group};

use crate::node::call::{Call, ServerCommand, ServerHandler};
use crate::observe::hot_keys::Asked;

const fn row(name: &'static str, arity: i32, handler: ServerHandler) -> ServerCommand {
    let flags = Flags::ADMIN.or(Flags::NOSCRIPT);
    ServerCommand::new(name, arity, flags, Group::Server, handler)
}

/// The family's rows.
pub(crate) static COMMANDS: &[ServerCommand] = &[ServerCommand::container(
    "hotkeys",
    Group::Server,
    &[
        row("get", 2, get).doc(
            "8.6.0",
            "O(N log(N)) where N is the number of tracked keys, at most 4096.",
            "Returns the keys that have cost most, and what all commands have cost.",
        ),
        ServerCommand::help(Group::Server, "8.6.0", help),
        row("reset", 2, reset).doc("8.6.0", "O(1)", "Releases what was tracked."),
        row("start", -2, start)
            .doc("8.6.0", "O(1)", "Starts to track what keys cost.")
            .syntax(
                "METRICS (count [CPU] [NET]) [COUNT k:integer] [DURATION seconds] [SAMPLE \
                 ratio:integer] [SLOTS (count slot ...)]",
            ),
        row("stop", 2, stop).doc("8.6.0", "O(1)", "Stops to track what keys cost."),
    ],
)
.doc(
    "8.6.0",
    "Depends on subcommand.",
    "A container for commands that find the keys that cost most.",
)];

/// Number of keys that are shown unless COUNT says otherwise.
const COUNT: usize = 10;

fn parse(args: Args) -> Result<Asked, Error> {
    let mut asked = Asked {
        cpu: false,
        net: false,
        count: COUNT,
        duration_s: None,
        sample: 1,
    };
    let mut options = args.skip(2);
    while let Some(option) = options.get(0) {
        let is = |name: &str| option.eq_ignore_ascii_case(name.as_bytes());
        if is("SLOTS") {
            return Err(Error::fixed(
                "ERR SLOTS parameter cannot be used in non-cluster mode",
            ));
        }
        let value = options.get(1).ok_or(Error::Syntax)?;
        let positive = parse_i64(value).filter(|value| *value > 0);
        let mut words = 2;
        if is("METRICS") {
            let count = positive.ok_or(Error::fixed("ERR METRICS count must be positive"))?;
            let names = options.skip(2).take(count.min(args.len() as i64) as usize);
            metrics(&mut asked, names, count)?;
            words += names.len();
        } else if is("COUNT") {
            let count = positive.filter(|count| *count <= 64);
            asked.count = count.ok_or(Error::fixed("ERR COUNT must be between 1 and 64"))? as usize;
        } else if is("DURATION") {
            let seconds = positive.filter(|seconds| u32::try_from(*seconds).is_ok());
            let seconds = seconds.ok_or(Error::fixed("ERR DURATION must be positive"))?;
            asked.duration_s = Some(seconds as u64);
        } else if is("SAMPLE") {
            let ratio = positive.and_then(|ratio| u32::try_from(ratio).ok());
            asked.sample = ratio.ok_or(Error::fixed("ERR SAMPLE ratio must be positive"))?;
        } else {
            return Err(Error::Syntax);
        }
        options = options.skip(words);
    }
    if !asked.cpu && !asked.net {
        return Err(Error::fixed("ERR METRICS parameter is required"));
    }
    Ok(asked)
}

/// Parses the names behind METRICS and their number. As in Redis, unknown ones are passed over.
fn metrics(asked: &mut Asked, names: Args, count: i64) -> Result<(), Error> {
    for name in names.iter() {
        let (metric, twice) = if name.eq_ignore_ascii_case(b"CPU") {
            (&mut asked.cpu, "ERR METRICS CPU defined more than once")
        } else if name.eq_ignore_ascii_case(b"NET") {
            (&mut asked.net, "ERR METRICS NET defined more than once")
        } else {
            continue;
        };
        if std::mem::replace(metric, true) {
            return Err(Error::fixed(twice));
        }
    }
    if names.len() as i64 != count {
        return Err(Error::fixed(
            "ERR METRICS count does not match number of metric types provided",
        ));
    }
    match asked.cpu || asked.net {
        true => Ok(()),
        false => Err(Error::fixed("ERR METRICS no valid metrics passed")),
    }
}

fn start(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let asked = parse(args)?;
    if !call.shared.hot_keys.start(asked, call.now()) {
        return Err(Error::fixed(
            "ERR hotkey tracking session already in progress",
        ));
    }
    reply.ok();
    Ok(())
}

fn stop(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    if !call.shared.hot_keys.stop(call.now()) {
        return Err(Error::fixed("ERR no hotkey tracking session in progress"));
    }
    reply.ok();
    Ok(())
}

fn reset(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    if !call.shared.hot_keys.reset(call.now()) {
        return Err(Error::fixed(
            "ERR hotkey tracking session in progress, stop tracking first",
        ));
    }
    reply.ok();
    Ok(())
}

fn get(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let Some(shown) = call.shared.hot_keys.shown(call.now()) else {
        reply.null_array();
        return Ok(());
    };
    let more = |list: &Option<_>, fields: usize| if list.is_some() { fields } else { 0 };
    reply.array(1);
    reply.map(7 + more(&shown.by_cpu, 3) + more(&shown.by_net, 2));
    let number = |reply: &mut Reply, name: &str, value: u64| {
        reply.bulk(name.as_bytes());
        reply.int(value as i64);
    };
    number(reply, "tracking-active", shown.active.into());
    number(reply, "sample-ratio", shown.sample.into());
    reply.bulk(b"selected-slots");
    reply.array(1);
    reply.array(2);
    reply.int(0);
    reply.int(16_383);
    number(reply, "all-commands-all-slots-us", shown.micros);
    number(reply, "net-bytes-all-commands-all-slots", shown.bytes);
    number(reply, "collection-start-time-unix-ms", shown.began_ms);
    number(reply, "collection-duration-ms", shown.duration_ms);
    if shown.by_cpu.is_some() {
        number(reply, "total-cpu-time-user-ms", shown.cpu_ms.0);
        number(reply, "total-cpu-time-sys-ms", shown.cpu_ms.1);
    }
    if shown.by_net.is_some() {
        number(reply, "total-net-bytes", shown.bytes);
    }
    let mut list = |name: &str, keys: Option<Vec<(Arc<[u8]>, u64)>>| {
        let Some(keys) = keys else { return };
        reply.bulk(name.as_bytes());
        reply.array(2 * keys.len());
        for (key, cost) in keys {
            reply.bulk(&key);
            reply.int(cost as i64);
        }
    };
    list("by-cpu-time-us", shown.by_cpu);
    list("by-net-bytes", shown.by_net);
    Ok(())
}

fn help(_: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    punctual_store::command::help(
        reply,
        "HOTKEYS",
        &[
            "GET",
            "    Return the keys that have cost most since START.",
            "RESET",
            "    Release what was tracked.",
            "START METRICS <count> [CPU] [NET] [COUNT <k>] [DURATION <seconds>] [SAMPLE <ratio>]",
            "    Start to track what keys cost.",
            "STOP",
            "    Stop to track, and keep the result for GET.",
        ],
    );
    Ok(())
}
