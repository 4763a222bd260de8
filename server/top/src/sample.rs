//! One sample of a server: its replies to a few commands. If the server refuses one of the
//! commands, the other replies are still used.

use std::array::from_fn;
use std::io;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use punctual_resp::Value;

use crate::connection::{Connection, printable, text};
use crate::info::Info;
use crate::shards::{Shard, shards};

/// Spans of time in which due timers and jobs are counted: name, length in ms, and the number of
/// equal parts of the span.
pub(crate) const SPANS: [(&str, u64, usize); 3] = [
    ("minute", 60_000, 60),
    ("hour", 3_600_000, 60),
    ("day", 86_400_000, 48),
];
/// Maximum number of timers, of queues and of slow commands that are shown.
const LINES: &str = "200";

/// The content of a reply, or the reason for which the server refused the command.
pub(crate) type Answer<T> = Result<T, String>;

/// A command of the slow log.
#[derive(Clone, Debug)]
pub(crate) struct Slow {
    /// Time of the command in Unix seconds.
    pub(crate) at_s: u64,
    /// Duration of the command in microseconds.
    pub(crate) micros: u64,
    /// The command and its arguments.
    pub(crate) words: String,
}

/// A queue of jobs: its name, and the numbers in the reply of JOB QUEUES.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    pub(crate) name: String,
    numbers: Vec<(String, i64)>,
}

impl Queue {
    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        let number = self.numbers.iter().find(|number| number.0 == name);
        number.map(|number| number.1)
    }
}

/// One sample of a server.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Time of this machine at which the sample was taken.
    pub(crate) at: Instant,
    /// Time of the server in Unix milliseconds.
    pub(crate) now_ms: u64,
    pub(crate) info: Answer<Info>,
    pub(crate) slow: Answer<Vec<Slow>>,
    /// Keys of the next timers, and their deadlines in Unix milliseconds; `None` for a paused
    /// timer.
    pub(crate) timers: Answer<Vec<(String, Option<u64>)>>,
    /// For each of [`SPANS`], the number of timers due in each part.
    pub(crate) timers_due: [Answer<Vec<u64>>; 3],
    pub(crate) queues: Answer<Vec<Queue>>,
    /// For each of [`SPANS`], the number of jobs due in each part.
    pub(crate) jobs_due: [Answer<Vec<u64>>; 3],
    /// Shards, and the ID of the server itself. `None` without cluster mode.
    pub(crate) shards: Option<Answer<(Vec<Shard>, String)>>,
}

/// The reason that panes show on a server without the commands TIMER and JOB.
const NEEDS: &str = "this needs Punctual: the server has no such command";

/// Converts a reply with `read`, or returns the error reply as the reason.
fn accept<T>(reply: &Value, read: impl FnOnce(&Value) -> Option<T>) -> Answer<T> {
    let shown = text(reply);
    match () {
        () if !reply.is_error() => read(reply).ok_or_else(|| "an unexpected reply".to_owned()),
        () if shown.starts_with("ERR unknown command") => Err(NEEDS.to_owned()),
        () => Err(shown),
    }
}

fn number(value: &Value) -> Option<u64> {
    u64::try_from(value.as_int()?).ok()
}

fn slow(reply: &Value) -> Option<Vec<Slow>> {
    let entry = |entry: &Value| {
        let parts = entry.as_slice()?;
        let words = parts.get(3)?.as_slice()?;
        let words: Vec<String> = words.iter().map(text).collect();
        Some(Slow {
            at_s: number(parts.get(1)?)?,
            micros: number(parts.get(2)?)?,
            words: words.join(" "),
        })
    };
    reply.as_slice()?.iter().map(entry).collect()
}

fn timers(reply: &Value) -> Option<Vec<(String, Option<u64>)>> {
    let timer = |timer: &Value| {
        let parts = timer.as_slice()?;
        Some((text(parts.first()?), parts.get(1).and_then(number)))
    };
    reply.as_slice()?.iter().map(timer).collect()
}

fn counts(reply: &Value) -> Option<Vec<u64>> {
    reply.as_slice()?.iter().map(number).collect()
}

fn queues(reply: &Value) -> Option<Vec<Queue>> {
    let queue = |map: &Value| {
        let pairs = map.as_slice()?.chunks_exact(2);
        let mut queue = Queue::default();
        for pair in pairs {
            match (text(&pair[0]).as_str(), &pair[1]) {
                ("name", name) => queue.name = printable(name.as_bytes()?),
                (name, value) => queue
                    .numbers
                    .extend(value.as_int().map(|number| (name.to_owned(), number))),
            }
        }
        Some(queue)
    };
    reply.as_slice()?.iter().map(queue).collect()
}

fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

impl Sample {
    /// Sends the commands to the server and returns the sample.
    ///
    /// # Errors
    /// An error of the connection. An error reply is not an error of this function.
    pub fn take(connection: &mut Connection) -> io::Result<Self> {
        let first = connection.ask(&[
            vec!["INFO", "all"],
            vec!["TIME"],
            vec!["SLOWLOG", "GET", LINES],
        ])?;
        let at = Instant::now();
        let info = accept(&first[0], |reply| {
            Some(Info::parse(&String::from_utf8_lossy(reply.as_bytes()?)))
        });
        // The server's time, because the clocks of the two machines may differ, and the server may
        // have a virtual clock.
        let time = accept(&first[1], |reply| {
            let parts = reply.as_slice()?;
            let part = |at: usize| text(parts.get(at)?).parse::<u64>().ok();
            Some(part(0)? * 1000 + part(1)? / 1000)
        });
        let info_time = info.iter().find_map(|info| info.number("server_time_usec"));
        let now_ms = match (info_time, time) {
            (Some(micros), _) => (micros / 1000.0) as u64,
            (None, Ok(ms)) => ms,
            (None, Err(_)) => wall_ms(),
        };
        let mut sample = Self {
            at,
            now_ms,
            slow: accept(&first[2], slow),
            timers: Err(NEEDS.to_owned()),
            timers_due: from_fn(|_| Err(NEEDS.to_owned())),
            queues: Err(NEEDS.to_owned()),
            jobs_due: from_fn(|_| Err(NEEDS.to_owned())),
            shards: None,
            info,
        };
        sample.take_shards(connection)?;
        if sample.info.as_ref().is_ok_and(|info| !info.is_punctual()) {
            return Ok(sample);
        }
        let from = now_ms.to_string();
        let spans = SPANS.map(|(_, ms, parts)| ((now_ms + ms).to_string(), parts.to_string()));
        let mut commands = vec![
            vec!["TIMER", "LIST", "COUNT", LINES],
            vec!["JOB", "QUEUES", "COUNT", LINES],
        ];
        for family in ["TIMER", "JOB"] {
            commands.extend(
                spans
                    .iter()
                    .map(|(to, parts)| vec![family, "COUNT", &from, to, "BUCKETS", parts]),
            );
        }
        let replies = connection.ask(&commands)?;
        sample.timers = accept(&replies[0], timers);
        sample.queues = accept(&replies[1], queues);
        sample.timers_due = from_fn(|span| accept(&replies[2 + span], counts));
        sample.jobs_due = from_fn(|span| accept(&replies[5 + span], counts));
        Ok(sample)
    }

    /// Asks a server in cluster mode for the shards.
    fn take_shards(&mut self, connection: &mut Connection) -> io::Result<()> {
        let info = self.info.as_ref().ok();
        if info.and_then(|info| info.get("cluster_enabled")) == Some("1") {
            let replies = connection.ask(&[vec!["CLUSTER", "SHARDS"], vec!["CLUSTER", "MYID"]])?;
            let own = text(&replies[1]);
            let shards = accept(&replies[0], shards);
            self.shards = Some(shards.map(|shards| (shards, own)));
        }
        Ok(())
    }
}
