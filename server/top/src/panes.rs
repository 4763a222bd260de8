//! The panes of the page as titles and lines, for the screen and for `--once`.
//!
//! Ground rules: a pane is a function of the last sample and the sample before it, if there is one.
//! No code here reads a clock or a socket.

use std::collections::BTreeMap;
use std::iter;

use crate::figures::{bars, bytes, duration, percentile, thousands, until};
use crate::info::{Info, part};
use crate::sample::{Answer, Queue, SPANS, Sample};
use crate::shards;

/// A part of the page.
#[derive(Clone, Debug)]
pub(crate) struct Pane {
    pub(crate) title: String,
    pub(crate) lines: Vec<String>,
    /// True if the server has refused the pane's command. The lines then give the reason.
    pub(crate) refused: bool,
}

/// Returns a pane with the lines of an answer, or with the reason for which the server refused it.
fn pane<T>(title: &str, answer: &Answer<T>, lines: impl FnOnce(&T) -> Vec<String>) -> Pane {
    Pane {
        title: title.to_owned(),
        lines: match answer {
            Ok(value) => lines(value),
            Err(reason) => vec![reason.clone()],
        },
        refused: answer.is_err(),
    }
}

/// Returns a line for each element, or the line `empty` for an empty slice.
fn list<T>(all: &[T], empty: &str, line: impl Fn(&T) -> String) -> Vec<String> {
    match all.is_empty() {
        true => vec![empty.to_owned()],
        false => all.iter().map(line).collect(),
    }
}

/// The last two samples of a server.
#[derive(Clone, Copy)]
pub(crate) struct Samples<'a> {
    pub(crate) now: &'a Sample,
    /// The sample before `now`, with which rates are computed.
    pub(crate) before: Option<&'a Sample>,
}

/// Percentiles of lateness: the name in INFO, the title, and the percentage.
const PERCENTILES: [(&str, &str, f64); 4] = [
    ("p50", "p50", 50.0),
    ("p90", "p90", 90.0),
    ("p99", "p99", 99.0),
    ("p99_9", "p99.9", 99.9),
];

impl Samples<'_> {
    /// Returns INFO of the sample before, and the seconds since that sample. Returns `None` if
    /// there is no such sample, or if the server has restarted, because its counters then began
    /// again at 0.
    fn earlier(&self, info: &Info) -> Option<(&Info, f64)> {
        let before = self.before?;
        let old = before.info.as_ref().ok()?;
        let same = old.get("run_id") == info.get("run_id");
        let seconds = self.now.at.duration_since(before.at).as_secs_f64();
        (same && seconds > 0.0).then_some((old, seconds))
    }

    /// Returns the growth of a counter per second since the sample before.
    fn rate(&self, info: &Info, name: &str) -> Option<f64> {
        let (old, seconds) = self.earlier(info)?;
        let grown = info.number(name)? - old.number(name)?;
        // The growth is negative after CONFIG RESETSTAT.
        Some((grown / seconds).max(0.0))
    }

    pub(crate) fn server(&self) -> Pane {
        pane("server", &self.now.info, |info| {
            let number = |name| info.number(name).unwrap_or(0.0);
            let count = |name| thousands(number(name));
            let name = match info.get("punctual_version") {
                Some(version) => format!("punctual {version}"),
                None => format!("redis {}", info.shown("redis_version")),
            };
            let (role, port) = (info.shown("role"), info.shown("tcp_port"));
            let up = duration((number("uptime_in_seconds") * 1000.0) as u64);
            let commands = self.rate(info, "total_commands_processed");
            let commands = thousands(commands.unwrap_or(number("instantaneous_ops_per_sec")));
            let traffic = |name, kilobytes| {
                let rate = self.rate(info, name);
                bytes(rate.unwrap_or(1024.0 * number(kilobytes)))
            };
            let input = traffic("total_net_input_bytes", "instantaneous_input_kbps");
            let output = traffic("total_net_output_bytes", "instantaneous_output_kbps");
            let recent = |name| self.rate(info, name).unwrap_or(number(name));
            let hits = recent("keyspace_hits");
            let found = match hits + recent("keyspace_misses") {
                0.0 => "-".to_owned(),
                all => format!("{:.1}%", 100.0 * hits / all),
            };
            let maxmemory = match number("maxmemory") {
                0.0 => String::new(),
                limit => {
                    let policy = info.shown("maxmemory_policy");
                    format!(", at most {} ({policy})", bytes(limit))
                }
            };
            let [used, resident, peak] = ["used_memory", "used_memory_rss", "used_memory_peak"]
                .map(|name| bytes(number(name)));
            let busy = ["used_cpu_user", "used_cpu_sys"];
            let cpu = match busy.map(|name| Some(100.0 * self.rate(info, name)?)) {
                [Some(user), Some(system)] => {
                    let all = user + system;
                    format!("{all:.1}% of one processor ({user:.1} user, {system:.1} system)")
                }
                _ => {
                    let [user, system] = busy.map(number);
                    format!("{user:.1}s user and {system:.1}s system since start")
                }
            };
            let removed = |name| match self.rate(info, name) {
                Some(rate) => format!("{} a second", thousands(rate)),
                None => format!("{} since start", count(name)),
            };
            let keys = info.named("db").filter_map(|(db, value)| {
                let [keys, deadlines] =
                    ["keys", "expires"].map(|name| part(value, name).map(thousands));
                Some(format!("db{db} {} ({} with a deadline)", keys?, deadlines?))
            });
            let [clients, blocked, max] =
                ["connected_clients", "blocked_clients", "maxclients"].map(count);
            let [expired, evicted] = ["expired_keys", "evicted_keys"].map(removed);
            vec![
                format!("{name}, {role}, up {up}, port {port}"),
                format!(
                    "commands  {commands} a second, in {input}/s, out {output}/s, found {found}"
                ),
                format!("clients   {clients}, {blocked} blocked, at most {max}"),
                format!("memory    {used} used, {resident} resident, {peak} peak{maxmemory}"),
                format!("cpu       {cpu}"),
                format!("keys      expired {expired}, evicted {evicted}"),
                format!("          {}", keys.collect::<Vec<_>>().join(", ")),
            ]
        })
    }

    /// Returns the pane of a cluster's shards.
    pub(crate) fn shards(&self) -> Pane {
        let off = Err("cluster mode is off".to_owned());
        let answer = self.now.shards.as_ref().unwrap_or(&off);
        pane("shards of the cluster", answer, |(shards, own)| {
            let none = Info::default();
            shards::lines(shards, own, self.now.info.as_ref().unwrap_or(&none))
        })
    }

    pub(crate) fn lateness(&self) -> Pane {
        let title = "lateness of keys, timers and jobs that were due, in microseconds";
        let answer = self.now.info.as_ref().map_err(Clone::clone);
        let answer = answer.and_then(|info| match info.is_punctual() {
            true => Ok(info),
            false => Err("this needs Punctual: redis-server does not measure it".to_owned()),
        });
        pane(title, &answer, |info| {
            let row = |name, cells: [String; 4], max, due: &str| {
                let cells = cells.map(|cell| format!("{cell:>9}")).concat();
                format!("{name:<12}{cells}{max:>9}{due:>12}")
            };
            let titles = PERCENTILES.map(|(_, title, _)| title.to_owned());
            let recent = self.recent_lateness(info).unwrap_or_default();
            let fired: u64 = recent.iter().map(|bucket| bucket.1).sum();
            let now = PERCENTILES.map(|(.., percent)| {
                let bound = percentile(&recent, percent);
                bound.map_or("-".to_owned(), |bound| format!("≤{bound}"))
            });
            let field = |name| info.shown(&format!("timers_lateness_usec_{name}"));
            let since = PERCENTILES.map(|(name, ..)| field(name).to_owned());
            let due = ["timers_fired", "timer_commands_run"].map(|name| info.number(name));
            let due = due.into_iter().flatten().sum();
            vec![
                row("", titles, "max", "due"),
                row("now", now, "", &thousands(fired as f64)),
                row("since start", since, field("max"), &thousands(due)),
            ]
        })
    }

    /// Returns the buckets of the histogram of lateness, as upper bounds and counts since the
    /// sample before.
    fn recent_lateness(&self, info: &Info) -> Option<Vec<(u64, u64)>> {
        const NAME: &str = "timers_lateness_usec_histogram";
        let buckets = |info: &Info| -> BTreeMap<u64, u64> {
            let parts = info.get(NAME).unwrap_or_default().split(',');
            let buckets = parts.filter_map(|part| {
                let (bound, count) = part.split_once('=')?;
                Some((bound.parse().ok()?, count.parse().ok()?))
            });
            buckets.collect()
        };
        let old = buckets(self.earlier(info)?.0);
        let grown = |(bound, count): (u64, u64)| {
            let before = old.get(&bound).copied().unwrap_or(0);
            (bound, count.saturating_sub(before))
        };
        Some(buckets(info).into_iter().map(grown).collect())
    }

    pub(crate) fn future(&self) -> Pane {
        let mut lines = Vec::new();
        for (kind, due) in [
            ("timers", &self.now.timers_due),
            ("jobs", &self.now.jobs_due),
        ] {
            for ((name, ..), answer) in SPANS.iter().zip(due) {
                lines.push(match answer {
                    Ok(counts) => {
                        let all = thousands(counts.iter().sum::<u64>() as f64);
                        format!("{kind:<7}{name:<7}{all:>11}  {}", bars(counts))
                    }
                    Err(reason) => format!("{kind:<7}{reason}"),
                });
            }
        }
        // Shows the same reason once, and not for each span.
        lines.dedup();
        let mut answers = self.now.timers_due.iter().chain(&self.now.jobs_due);
        Pane {
            title: "due in the next minute, hour and day".to_owned(),
            lines,
            refused: answers.all(Result::is_err),
        }
    }

    pub(crate) fn timers(&self) -> Pane {
        pane("timers, the next one first", &self.now.timers, |timers| {
            list(timers, "there are no timers", |(key, at)| {
                let when = at.map_or("paused".to_owned(), |at| until(at, self.now.now_ms));
                format!("{when:<16}{key}")
            })
        })
    }

    pub(crate) fn queues(&self) -> Pane {
        pane("queues of jobs", &self.now.queues, |queues| {
            let mut lines = list(queues, "there are no queues", |queue| self.queue(queue));
            if !queues.is_empty() {
                let head = "     ready   delayed   leased     dead  waits for         next  queue";
                lines.insert(0, head.to_owned());
            }
            lines
        })
    }

    fn queue(&self, queue: &Queue) -> String {
        let count = |name| thousands(queue.number(name).unwrap_or(0) as f64);
        let [ready, delayed, leased, dead] = ["ready", "delayed", "leased", "dead"].map(count);
        let time = |name: &str| queue.number(name).and_then(|ms| u64::try_from(ms).ok());
        let oldest = time("oldest-ready-ms").map_or("-".to_owned(), duration);
        let next = time("next-due").map_or("-".to_owned(), |at| until(at, self.now.now_ms));
        let (name, paused) = (&queue.name, queue.number("paused") == Some(1));
        let paused = if paused { " (paused)" } else { "" };
        format!(
            "{ready:>10}{delayed:>10}{leased:>9}{dead:>9}{oldest:>11}{next:>13}  {name}{paused}"
        )
    }

    pub(crate) fn slow(&self) -> Pane {
        pane("slow log, the last one first", &self.now.slow, |slow| {
            list(slow, "no command was slow", |entry| {
                let at_ms = entry.at_s * 1000;
                let when = until(at_ms, self.now.now_ms.max(at_ms + 1));
                let micros = thousands(entry.micros as f64);
                format!("{when:<16}{micros:>10} us  {}", entry.words)
            })
        })
    }

    /// Returns the pane of commands, sorted by their total time.
    pub(crate) fn commands(&self) -> Pane {
        let title = "commands, by their share of the time";
        pane(title, &self.now.info, |info| {
            let earlier = self.earlier(info);
            let row = |(name, value): (&str, &str)| {
                let old = earlier.and_then(|(old, _)| old.get(&format!("cmdstat_{name}")));
                let grown = |field: &str| {
                    let old = old.and_then(|old| part(old, field)).unwrap_or(0.0);
                    (part(value, field).unwrap_or(0.0) - old).max(0.0)
                };
                let (calls, micros) = (grown("calls"), grown("usec"));
                let each = micros / calls.max(1.0);
                let calls = thousands(calls / earlier.map_or(1.0, |(_, seconds)| seconds));
                let latency = info.get(&format!("latency_percentiles_usec_{name}"));
                let [p50, p99, p999] = ["p50", "p99", "p99.9"].map(|percentile| {
                    let us = latency.and_then(|value| part(value, percentile));
                    us.map_or("-".to_owned(), |us| format!("{us:.1}"))
                });
                let errors = ["failed_calls", "rejected_calls"].map(|field| part(value, field));
                let errors = thousands(errors.into_iter().flatten().sum());
                let row = format!(
                    "{calls:>12}{each:>12.2}{p50:>10}{p99:>10}{p999:>10}{errors:>9}  {name}"
                );
                (micros, row)
            };
            let mut rows: Vec<_> = info.named("cmdstat_").map(row).collect();
            rows.sort_by(|a, b| b.0.total_cmp(&a.0));
            let calls = earlier.map_or("calls", |_| "calls/s");
            let head =
                format!("{calls:>12}     us/call       p50       p99     p99.9   errors  command");
            iter::once(head)
                .chain(rows.into_iter().map(|row| row.1))
                .collect()
        })
    }

    /// Returns the whole page as text.
    pub(crate) fn page(&self) -> String {
        let shards = self.now.shards.as_ref().map(|_| self.shards());
        let panes = [
            self.server(),
            self.lateness(),
            self.future(),
            self.timers(),
            self.queues(),
            self.slow(),
            self.commands(),
        ];
        let panes = panes.into_iter().chain(shards).map(|pane| {
            let lines = pane.lines.iter().map(|line| line.trim_end());
            let lines = lines.map(|line| format!("  {line}\n"));
            format!("{}\n{}", pane.title, lines.collect::<String>())
        });
        panes.collect::<Vec<_>>().join("\n")
    }
}
