//! LATENCY: latency events, and distributions of command durations.

use std::fmt::Write as _;

use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::command::help;
use punctual_store::spec::{Flags, Group};

use crate::node::Shared;
use crate::node::call::{Call, ServerCommand, ServerHandler};
use crate::observe::command_latency::Distribution;
use crate::observe::latency::{COMMAND, EXPIRE_CYCLE, FAST_COMMAND, Series};
use crate::table::Entry;

const ANY_TIME: Flags = Flags::LOADING.or(Flags::STALE);
const FLAGS: Flags = Flags::ADMIN.or(Flags::NOSCRIPT).or(ANY_TIME);
const TIPS: &[&str] = &[
    "nondeterministic_output",
    "request_policy:all_nodes",
    "response_policy:special",
];

const fn row(name: &'static str, arity: i32, handler: ServerHandler) -> ServerCommand {
    ServerCommand::new(name, arity, FLAGS, Group::Server, handler).tips(TIPS)
}

/// Rows of the commands in this file.
pub(crate) static COMMANDS: &[ServerCommand] = &[ServerCommand::container(
    "latency",
    Group::Server,
    &[
        row("doctor", 2, doctor)
            .since("2.8.13")
            .summary("Returns a human-readable latency analysis report."),
        row("graph", 3, graph)
            .doc("2.8.13", "O(1)", "Returns a latency graph for an event.")
            .syntax("event"),
        ServerCommand::help(Group::Server, "2.8.13", |_, _, reply| {
            help(reply, "LATENCY", HELP)
        }),
        row("histogram", -2, histogram)
            .since("7.0.0")
            .complexity(
                "O(N) where N is the number of commands with latency information being retrieved.",
            )
            .summary(
                "Returns the cumulative distribution of latencies of one, several or all commands.",
            )
            .syntax("[command ...]"),
        row("history", 3, history)
            .since("2.8.13")
            .summary("Returns timestamp-latency samples for an event.")
            .syntax("event"),
        row("latest", 2, latest)
            .since("2.8.13")
            .summary("Returns the latest latency samples for all events."),
        row("reset", -2, reset)
            .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
            .since("2.8.13")
            .summary("Resets the latency data for one or more events.")
            .syntax("[event ...]"),
    ],
)
.since("2.8.13")
.summary("A container for latency diagnostics commands.")];

fn latest(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let all = call.shared.observed.latency.all();
    reply.array(all.len());
    for (event, series) in all {
        let last = series.samples.back().copied();
        reply.array(4);
        reply.bulk(event.as_bytes());
        reply.int(last.map_or(0, |s| s.at_s as i64));
        reply.int(last.map_or(0, |s| s.ms as i64));
        reply.int(series.max_ms as i64);
    }
    Ok(())
}

fn history(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let samples = call
        .shared
        .observed
        .latency
        .get(&args[2])
        .map_or_else(Default::default, |(_, s)| s.samples);
    reply.array(samples.len());
    for sample in samples {
        reply.array(2);
        reply.int(sample.at_s as i64);
        reply.int(sample.ms as i64);
    }
    Ok(())
}

fn reset(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let events = args.skip(2);
    let count = call
        .shared
        .observed
        .latency
        .reset(|name| events.is_empty() || events.iter().any(|e| e == name.as_bytes()));
    reply.int(count as i64);
    Ok(())
}

fn graph(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let Some((event, series)) = call.shared.observed.latency.get(&args[2]) else {
        return Err(Error::repeating(
            "ERR No samples available for event '",
            &args[2],
            "'",
        ));
    };
    let summary = series.summary();
    let text = format!(
        "{event} - high {} ms, low {} ms (all time high {} ms)\n{}\n{}",
        summary.max_ms,
        summary.min_ms,
        series.max_ms,
        "-".repeat(80),
        series.plot(call.now()),
    );
    reply.verbatim("txt", text.as_bytes());
    Ok(())
}

fn doctor(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let threshold_ms = call.shared.settings().latency_threshold_ms;
    let all = call.shared.observed.latency.all();
    reply.verbatim("txt", report(threshold_ms, &all).as_bytes());
    Ok(())
}

/// Returns a report on latency events, with advice.
fn report(threshold_ms: u64, all: &[(&str, Series)]) -> String {
    let mut text = String::new();
    if threshold_ms == 0 {
        text.push_str(
            "Latency monitoring is off. Turn it on with CONFIG SET latency-monitor-threshold <milliseconds>.\n",
        );
    }
    if all.is_empty() {
        if threshold_ms > 0 {
            let _ = writeln!(text, "Nothing has taken {threshold_ms} ms or more so far.");
        }
        return text;
    }
    text.push_str("These events were slow:\n\n");
    for (number, (event, series)) in (1..).zip(all) {
        let summary = series.summary();
        let _ = writeln!(
            text,
            "{number}. {event}: {} latency spikes (average {}ms, mean deviation {}ms, period {:.2} sec). Worst all time event {}ms.",
            series.samples.len(),
            summary.mean_ms,
            summary.deviation_ms,
            summary.period_s,
            series.max_ms,
        );
    }
    text.push_str("\nWhat may help:\n\n");
    let slow = |name: &str| all.iter().any(|(event, _)| *event == name);
    if slow(COMMAND) || slow(FAST_COMMAND) {
        text.push_str(
            "- SLOWLOG GET shows the slow commands. Replace one command on many keys (KEYS, FLUSHALL SYNC, DEL) by several smaller ones.\n",
        );
    }
    if slow(FAST_COMMAND) {
        text.push_str(
            "- A command in constant time is slow when the process has to wait: for a processor, or for memory that was swapped out.\n",
        );
    }
    if slow(EXPIRE_CYCLE) {
        text.push_str(
            "- Keys expire in batches of a thousand steps, with commands in between. Subscribers to `expired` events make a batch slower.\n",
        );
    }
    text
}

fn histogram(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let names = args.skip(2);
    let requested: Vec<&Entry> = if names.is_empty() {
        call.shared.commands.table().all().collect()
    } else {
        // As in Redis, the name of a container requests also its subcommands.
        let found = names
            .iter()
            .filter_map(|name| call.shared.commands.get_full(name));
        found
            .flat_map(|e| std::iter::once(e).chain(&e.subcommands))
            .collect()
    };
    let shown: Vec<(&Entry, Distribution)> = requested
        .into_iter()
        .map(|entry| (entry, durations(call.shared, entry)))
        .filter(|(_, durations)| durations.total > 0)
        .collect();
    reply.map(shown.len());
    for (entry, durations) in shown {
        let pairs = durations.cumulative();
        reply.bulk(entry.name.as_bytes());
        reply.map(2);
        reply.bulk(b"calls");
        reply.int(durations.total as i64);
        reply.bulk(b"histogram_usec");
        reply.map(pairs.len());
        for (micros, count) in pairs {
            reply.int(micros as i64);
            reply.int(count as i64);
        }
    }
    Ok(())
}

/// Returns the distribution of a command's durations, summed over all loops.
pub(crate) fn durations(shared: &Shared, entry: &Entry) -> Distribution {
    Distribution::sum(
        shared
            .observed
            .stats
            .iter()
            .map(|s| &s.by_command[entry.id].latency),
    )
}

const HELP: &[&str] = &[
    "DOCTOR",
    "    Return a human readable latency analysis report.",
    "GRAPH <event>",
    "    Return an ASCII latency graph for the <event> class.",
    "HISTORY <event>",
    "    Return time-latency samples for the <event> class.",
    "LATEST",
    "    Return the latest latency samples for all events.",
    "RESET [<event> ...]",
    "    Reset latency data of one or more <event> classes.",
    "    (default: reset all data for all event classes)",
    "HISTOGRAM [COMMAND ...]",
    "    Return a cumulative distribution of latencies in the format of a histogram for the specified command names.",
    "    If no commands are specified then all histograms are replied.",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::latency::Sample;

    #[test]
    fn the_report_describes_the_recorded_events() {
        assert!(report(0, &[]).contains("latency-monitor-threshold"));
        assert_eq!(
            report(100, &[]),
            "Nothing has taken 100 ms or more so far.\n"
        );
        let series = Series {
            samples: [Sample { at_s: 7, ms: 150 }].into(),
            max_ms: 150,
        };
        let text = report(100, &[(COMMAND, series)]);
        assert!(text.contains("1. command: 1 latency spikes (average 150ms, mean deviation 0ms"));
        assert!(text.contains("SLOWLOG GET") && !text.contains("expired"));
    }
}
