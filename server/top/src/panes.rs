//! What is shown of a server: titles and lines, for the screen and for `--once` alike.
//!
//! Ground rules: everything here is a function of one sample and the one before it, if there is one; nothing reads a clock or a socket.

use std::collections::BTreeMap;

use crate::figures::{bars, bytes, duration, percentile, thousands, until};
use crate::info::{Info, part};
use crate::sample::{Answer, Queue, SPANS, Sample, Slow};

/// A part of the page.
#[derive(Clone, Debug)]
pub(crate) struct Pane {
    pub(crate) title: String,
    pub(crate) lines: Vec<String>,
    /// The server has refused what the pane needs; the only line says why.
    pub(crate) refused: bool,
}

/// Returns a pane of an answer, or of the reason why there is none.
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

/// Two looks at a server: the last one, and the one before.
#[derive(Clone, Copy)]
pub(crate) struct Looks<'a> {
    pub(crate) now: &'a Sample,
    pub(crate) before: Option<&'a Sample>,
}

/// Names of the percentiles in INFO, and their titles.
const PERCENTILES: [(&str, &str, f64); 4] = [
    ("p50", "p50", 50.0),
    ("p90", "p90", 90.0),
    ("p99", "p99", 99.0),
    ("p99_9", "p99.9", 99.9),
];

impl Looks<'_> {
    /// Returns INFO of the look before, if it is of the same process: counters have not begun anew.
    fn earlier(&self, info: &Info) -> Option<(&Info, f64)> {
        let before = self.before?;
        let old = before.info.as_ref().ok()?;
        let same = old.get("run_id") == info.get("run_id");
        let seconds = self.now.at.duration_since(before.at).as_secs_f64();
        (same && seconds > 0.0).then_some((old, seconds))
    }

    /// Returns the growth of a counter in a second since the look before.
    fn rate(&self, info: &Info, name: &str) -> Option<f64> {
        let (old, seconds) = self.earlier(info)?;
        let grown = info.number(name)? - old.number(name)?;
        // Smaller after CONFIG RESETSTAT.
        Some((grown / seconds).max(0.0))
    }

    pub(crate) fn server(&self) -> Pane {
        pane("server", &self.now.info, |info| {
            let number = |name| info.number(name).unwrap_or(0.0);
            let rate = |name, instant| {
                let rate = self.rate(info, name);
                rate.or_else(|| info.number(instant)).unwrap_or(0.0)
            };
            let name = match info.get("punctual_version") {
                Some(version) => format!("punctual {version}"),
                None => format!("redis {}", info.shown("redis_version")),
            };
            let up = duration((number("uptime_in_seconds") * 1000.0) as u64);
            let kilobytes = |name| bytes(1024.0 * number(name));
            let (input, output) = (
                self.rate(info, "total_net_input_bytes")
                    .map_or_else(|| kilobytes("instantaneous_input_kbps"), bytes),
                self.rate(info, "total_net_output_bytes")
                    .map_or_else(|| kilobytes("instantaneous_output_kbps"), bytes),
            );
            let cpu = match (
                self.rate(info, "used_cpu_user"),
                self.rate(info, "used_cpu_sys"),
            ) {
                (Some(user), Some(system)) => format!(
                    "{:.1}% of one processor ({:.1} user, {:.1} system)",
                    100.0 * (user + system),
                    100.0 * user,
                    100.0 * system
                ),
                _ => format!(
                    "{:.1}s user and {:.1}s system since start",
                    number("used_cpu_user"),
                    number("used_cpu_sys")
                ),
            };
            let maxmemory = match number("maxmemory") {
                0.0 => String::new(),
                most => format!(
                    ", at most {} ({})",
                    bytes(most),
                    info.shown("maxmemory_policy")
                ),
            };
            let hits = self
                .rate(info, "keyspace_hits")
                .unwrap_or_else(|| number("keyspace_hits"));
            let misses = self
                .rate(info, "keyspace_misses")
                .unwrap_or_else(|| number("keyspace_misses"));
            let found = match hits + misses {
                0.0 => "-".to_owned(),
                all => format!("{:.1}%", 100.0 * hits / all),
            };
            let mut lines = vec![
                format!(
                    "{name}, {}, up {up}, port {}",
                    info.shown("role"),
                    info.shown("tcp_port")
                ),
                format!(
                    "commands  {} a second, in {input}/s, out {output}/s, found {found}",
                    thousands(rate(
                        "total_commands_processed",
                        "instantaneous_ops_per_sec"
                    ))
                ),
                format!(
                    "clients   {}, {} blocked, at most {}",
                    thousands(number("connected_clients")),
                    thousands(number("blocked_clients")),
                    thousands(number("maxclients"))
                ),
                format!(
                    "memory    {} used, {} resident, {} peak{maxmemory}",
                    bytes(number("used_memory")),
                    bytes(number("used_memory_rss")),
                    bytes(number("used_memory_peak"))
                ),
                format!("cpu       {cpu}"),
            ];
            let gone = |name| {
                self.rate(info, name).map_or_else(
                    || format!("{} since start", thousands(number(name))),
                    |rate| format!("{} a second", thousands(rate)),
                )
            };
            lines.push(format!(
                "keys      expired {}, evicted {}",
                gone("expired_keys"),
                gone("evicted_keys")
            ));
            let keys = info.named("db").filter_map(|(db, value)| {
                Some(format!(
                    "db{db} {} ({} with a deadline)",
                    thousands(part(value, "keys")?),
                    thousands(part(value, "expires")?)
                ))
            });
            lines.push(format!("          {}", keys.collect::<Vec<_>>().join(", ")));
            lines
        })
    }

    pub(crate) fn lateness(&self) -> Pane {
        let title = "lateness of what was due, in microseconds";
        let answer = self.now.info.as_ref().map_err(Clone::clone);
        let answer = answer.and_then(|info| match info.is_punctual() {
            true => Ok(info),
            false => Err("this needs Punctual: redis-server does not measure it".to_owned()),
        });
        pane(title, &answer, |info| {
            let titles = PERCENTILES
                .iter()
                .map(|(_, title, _)| format!("{title:>9}"));
            let head: String = titles.collect();
            let since = PERCENTILES.iter().map(|(name, ..)| {
                format!("{:>9}", info.shown(&format!("timers_lateness_usec_{name}")))
            });
            let since: String = since.collect();
            let recent = self.recent_lateness(info);
            let fired: u64 = recent.iter().map(|bucket| bucket.1).sum();
            let now = PERCENTILES.iter().map(|(.., percent)| {
                let bound = percentile(&recent, *percent);
                format!(
                    "{:>9}",
                    bound.map_or("-".to_owned(), |bound| format!("≤{bound}"))
                )
            });
            let now: String = now.collect();
            vec![
                format!("{:<12}{head}{:>9}{:>12}", "", "max", "due"),
                format!("{:<12}{now}{:>9}{:>12}", "now", "", thousands(fired as f64)),
                format!(
                    "{:<12}{since}{:>9}{:>12}",
                    "since start",
                    info.shown("timers_lateness_usec_max"),
                    thousands(
                        info.number("timers_fired").unwrap_or(0.0)
                            + info.number("timer_commands_run").unwrap_or(0.0)
                    )
                ),
            ]
        })
    }

    /// Returns the counts of the histogram of lateness by upper bound, since the look before.
    fn recent_lateness(&self, info: &Info) -> Vec<(u64, u64)> {
        const NAME: &str = "timers_lateness_usec_histogram";
        let buckets = |info: &Info| -> BTreeMap<u64, u64> {
            let parts = info.get(NAME).unwrap_or_default().split(',');
            let parts = parts.filter_map(|part| part.split_once('='));
            parts
                .filter_map(|(bound, count)| Some((bound.parse().ok()?, count.parse().ok()?)))
                .collect()
        };
        let Some((old, _)) = self.earlier(info) else {
            return Vec::new();
        };
        let old = buckets(old);
        let new = buckets(info).into_iter();
        new.map(|(bound, count)| {
            (
                bound,
                count.saturating_sub(old.get(&bound).copied().unwrap_or(0)),
            )
        })
        .collect()
    }

    pub(crate) fn future(&self) -> Pane {
        let mut lines = Vec::new();
        let mut refused = true;
        for (of, due) in [
            ("timers", &self.now.timers_due),
            ("jobs", &self.now.jobs_due),
        ] {
            for ((name, ..), answer) in SPANS.iter().zip(due) {
                match answer {
                    Ok(counts) => {
                        refused = false;
                        let all = thousands(counts.iter().sum::<u64>() as f64);
                        lines.push(format!("{of:<7}{name:<7}{all:>11}  {}", bars(counts)));
                    }
                    Err(reason) => {
                        let line = format!("{of:<7}{reason}");
                        if lines.last() != Some(&line) {
                            lines.push(line);
                        }
                    }
                }
            }
        }
        Pane {
            title: "due in the next minute, hour and day".to_owned(),
            lines,
            refused,
        }
    }

    pub(crate) fn timers(&self) -> Pane {
        pane("timers, the next one first", &self.now.timers, |timers| {
            let line = |(key, at): &(String, Option<u64>)| {
                let when = at.map_or("paused".to_owned(), |at| until(at, self.now.now_ms));
                format!("{when:<16}{key}")
            };
            match timers.is_empty() {
                true => vec!["there are no timers".to_owned()],
                false => timers.iter().map(line).collect(),
            }
        })
    }

    pub(crate) fn queues(&self) -> Pane {
        pane("queues of jobs", &self.now.queues, |queues| {
            if queues.is_empty() {
                return vec!["there are no queues".to_owned()];
            }
            let head = format!(
                "{:>10}{:>10}{:>9}{:>9}{:>11}{:>13}  {}",
                "ready", "delayed", "leased", "dead", "waits for", "next", "queue"
            );
            std::iter::once(head)
                .chain(queues.iter().map(|queue| self.queue(queue)))
                .collect()
        })
    }

    fn queue(&self, queue: &Queue) -> String {
        let count = |name| thousands(queue.number(name).unwrap_or(0) as f64);
        let time = |name: &str| queue.number(name).and_then(|ms| u64::try_from(ms).ok());
        let oldest = time("oldest-ready-ms").map_or("-".to_owned(), duration);
        let next = time("next-due").map_or("-".to_owned(), |at| until(at, self.now.now_ms));
        let paused = match queue.number("paused") {
            Some(1) => " (paused)",
            _ => "",
        };
        format!(
            "{:>10}{:>10}{:>9}{:>9}{oldest:>11}{next:>13}  {}{paused}",
            count("ready"),
            count("delayed"),
            count("leased"),
            count("dead"),
            queue.name
        )
    }

    pub(crate) fn slow(&self) -> Pane {
        pane("slow log, the last one first", &self.now.slow, |slow| {
            let line = |entry: &Slow| {
                let when = until(
                    entry.at_s * 1000,
                    self.now.now_ms.max(entry.at_s * 1000 + 1),
                );
                format!(
                    "{when:<16}{:>10} us  {}",
                    thousands(entry.micros as f64),
                    entry.words
                )
            };
            match slow.is_empty() {
                true => vec!["no command was slow".to_owned()],
                false => slow.iter().map(line).collect(),
            }
        })
    }

    /// Commands by the time that they take.
    pub(crate) fn commands(&self) -> Pane {
        pane(
            "commands, by their share of the time",
            &self.now.info,
            |info| {
                let earlier = self.earlier(info);
                let mut rows: Vec<(f64, String)> = Vec::new();
                for (name, value) in info.named("cmdstat_") {
                    let old = earlier.and_then(|(old, _)| old.get(&format!("cmdstat_{name}")));
                    let grown = |field: &str| {
                        let new = part(value, field).unwrap_or(0.0);
                        (new - old.and_then(|old| part(old, field)).unwrap_or(0.0)).max(0.0)
                    };
                    let (calls, micros) = (grown("calls"), grown("usec"));
                    let seconds = earlier.map(|earlier| earlier.1);
                    let all = format!("latency_percentiles_usec_{name}");
                    let quantile = |name| {
                        info.get(&all)
                            .and_then(|value| part(value, name))
                            .map_or("-".to_owned(), |us| format!("{us:.1}"))
                    };
                    let row = format!(
                        "{:>12}{:>12.2}{:>10}{:>10}{:>10}{:>9}  {name}",
                        thousands(seconds.map_or(calls, |seconds| calls / seconds)),
                        micros / calls.max(1.0),
                        quantile("p50"),
                        quantile("p99"),
                        quantile("p99.9"),
                        thousands(
                            part(value, "failed_calls").unwrap_or(0.0)
                                + part(value, "rejected_calls").unwrap_or(0.0)
                        ),
                    );
                    rows.push((micros, row));
                }
                rows.sort_by(|a, b| b.0.total_cmp(&a.0));
                let calls = if earlier.is_some() {
                    "calls/s"
                } else {
                    "calls"
                };
                let head = format!(
                    "{calls:>12}{:>12}{:>10}{:>10}{:>10}{:>9}  command",
                    "us/call", "p50", "p99", "p99.9", "errors"
                );
                std::iter::once(head)
                    .chain(rows.into_iter().map(|row| row.1))
                    .collect()
            },
        )
    }

    /// Returns the whole page as text.
    pub(crate) fn page(&self) -> String {
        let panes = [
            self.server(),
            self.lateness(),
            self.future(),
            self.timers(),
            self.queues(),
            self.slow(),
            self.commands(),
        ];
        let mut page = String::new();
        for Pane { title, lines, .. } in panes {
            page.push_str(&title);
            page.push('\n');
            for line in lines {
                page.push_str("  ");
                page.push_str(line.trim_end());
                page.push('\n');
            }
            page.push('\n');
        }
        page.truncate(page.trim_end().len());
        page.push('\n');
        page
    }
}
