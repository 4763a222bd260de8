//! The requests of the web page at `metrics-port` for data, and the answers: JSON made of command
//! replies and statistics.
//!
//! | | |
//! |---|---|
//! | GET /api/state | counters, memory, lateness, databases, shards of the cluster |
//! | GET /api/future?hours=1 or 24 | due timers and jobs in each part of the next hour or day |
//! | GET /api/timers?match=pattern | the next timers |
//! | GET /api/queues?match=pattern | the queues of jobs |
//! | POST /api/command | runs one of a few commands |
//!
//! All of them except the first take `db=number`.

use punctual_resp::Value;
use serde_json::{Value as Json, json};

use crate::command::info::lateness;
use crate::http::json;
use crate::http::link::{LinkError, Links, Words, words};
use crate::http::shards::shards;
use crate::node::Shared;
use crate::observe::figures::Figure;

/// Maximum number of timers, and of queues, that the page shows.
const SHOWN_MAX: usize = 50;
/// Maximum length of a shown word of a timer's command, in characters.
const WORD_CHARS_MAX: usize = 80;
/// Maximum number of shown words of a timer's command.
const WORDS_MAX: usize = 12;

const MINUTE_MS: u64 = 60_000;

/// Reason why a request gets an error.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The request is one that the page never sends.
    #[error("{0}")]
    Request(&'static str),
    /// The reply of the command is an error.
    #[error("{0}")]
    Reply(String),
}

/// Parameters of a request.
pub(super) struct Query<'a>(pub(super) &'a str);

impl Query<'_> {
    fn text(&self, name: &str) -> Option<Vec<u8>> {
        let mut pairs = self.0.split('&').filter_map(|pair| pair.split_once('='));
        let (_, value) = pairs.find(|(key, _)| *key == name)?;
        Some(crate::http::gate::decoded(value))
    }

    fn number(&self, name: &str, default: usize) -> Result<usize, ApiError> {
        match self.text(name) {
            None => Ok(default),
            Some(text) => std::str::from_utf8(&text)
                .ok()
                .and_then(|text| text.parse().ok())
                .ok_or(ApiError::Request("A number is expected.")),
        }
    }

    pub(super) fn db(&self) -> Result<usize, ApiError> {
        self.number("db", 0)
    }

    /// Returns the pattern of names, if there is one.
    fn pattern(&self) -> Option<Vec<u8>> {
        self.text("match").filter(|pattern| !pattern.is_empty())
    }
}

/// Returns the reply of a command. An error reply becomes an error, because the page then has
/// nothing to show.
fn expected(reply: Option<Value>) -> Result<Value, ApiError> {
    match reply {
        Some(Value::Error(text)) => {
            Err(ApiError::Reply(String::from_utf8_lossy(&text).into_owned()))
        }
        Some(reply) => Ok(reply),
        None => Ok(Value::Null),
    }
}

/// Returns counters, memory, lateness and databases.
pub(super) async fn state(shared: &Shared, links: &Links, may_act: bool) -> Result<Json, ApiError> {
    // INFO counts this thread's open connections as clients.
    let own_connections = links.open_connections() as f64;
    let figures = links.figures().await?;
    let number = |field| figures.number(field).unwrap_or_default();
    let late = lateness(shared);
    // Eight buckets for each doubling of the lateness are enough for the percentiles that the page
    // computes from the difference of two answers.
    let mut buckets: Vec<(u64, u64)> = Vec::new();
    for step in late.iter_recorded() {
        let top = (2_f64)
            .powf(((step.value_iterated_to() as f64).log2() * 8.0).ceil() / 8.0)
            .ceil() as u64;
        match buckets.last_mut() {
            Some((last, count)) if *last == top => *count += step.count_at_value(),
            _ => buckets.push((top, step.count_at_value())),
        }
    }
    let databases: Vec<Json> = figures
        .each("db")
        .filter_map(|(db, figure)| match (db, figure.part("keys")?) {
            (Figure::Whole(db), Figure::Whole(keys)) => {
                Some(json!({ "db": *db as u64, "keys": *keys as u64 }))
            }
            _ => None,
        })
        .collect();
    let settings = shared.settings();
    let keys = databases.iter().filter_map(|db| db["keys"].as_u64()).sum();
    Ok(json!({
        "cluster": shards(shared, keys),
        "now_ms": shared.clock.now().read_ms(),
        "virtual": shared.clock.is_virtual(),
        "version": env!("CARGO_PKG_VERSION"),
        "redis_version": figures.text("redis_version"),
        "role": figures.text("role"),
        "port": number("tcp_port"),
        "uptime_s": number("uptime_in_seconds"),
        // Without the commands that this thread has sent.
        "commands": number("total_commands_processed") - links.commands_sent() as f64,
        "clients": (number("connected_clients") - own_connections).max(0.0),
        "memory": number("used_memory"),
        "memory_max": number("maxmemory"),
        "deadlines": number("timers_pending"),
        "timers": figures.number("timers_keys"),
        "timers_paused": figures.number("timers_paused"),
        "queues": figures.number("job_queues"),
        "databases": databases,
        "database_count": shared.store.databases(),
        "lateness": {
            "count": late.len(),
            "max_us": late.max(),
            "p50_us": late.value_at_percentile(50.0),
            "p99_us": late.value_at_percentile(99.0),
            "buckets": buckets,
        },
        "has_password": settings.metrics.password.is_some(),
        "may_act": may_act,
    }))
}

/// Returns the numbers of timers and jobs that fall due in each part of the next hour or day.
pub(super) async fn future(
    shared: &Shared,
    links: &Links,
    query: Query<'_>,
) -> Result<Json, ApiError> {
    let (parts, step_ms) = match query.number("hours", 1)? {
        1 => (60, MINUTE_MS),
        24 => (96, 15 * MINUTE_MS),
        _ => return Err(ApiError::Request("hours is 1 or 24.")),
    };
    let from = shared.clock.now().read_ms();
    let [start, end] = [from, from + parts * step_ms].map(|ms| ms.to_string());
    let count = |what| words([what, "COUNT", &start, &end, "BUCKETS", &parts.to_string()]);
    let replies = links
        .ask(query.db()?, &[count("TIMER"), count("JOB")])
        .await?;
    let mut replies = replies.into_iter();
    let timers = expected(replies.next())?;
    let jobs = expected(replies.next())?;
    Ok(json!({
        "from_ms": from,
        "step_ms": step_ms,
        "timers": json::reply(&timers),
        "jobs": json::reply(&jobs),
    }))
}

/// Adds COUNT to a command, and MATCH if the query has a pattern.
fn filtered(mut command: Words, query: &Query<'_>) -> Words {
    if let Some(pattern) = query.pattern() {
        command.extend([b"MATCH".to_vec(), pattern]);
    }
    command.extend(words(["COUNT", &SHOWN_MAX.to_string()]));
    command
}

/// Returns the next timers, and after them the paused timers.
pub(super) async fn timers(links: &Links, query: Query<'_>) -> Result<Json, ApiError> {
    let mut link = links.in_database(query.db()?).await?;
    let list = filtered(words(["TIMER", "LIST"]), &query);
    let found = expected(link.ask(&[list]).await?.pop())?;
    let names: Vec<Vec<u8>> = found
        .as_slice()
        .unwrap_or_default()
        .iter()
        .filter_map(|pair| Some(pair.as_slice()?.first()?.as_bytes()?.to_vec()))
        .collect();
    let gets: Vec<Words> = names
        .iter()
        .map(|name| vec![b"TIMER".to_vec(), b"GET".to_vec(), name.clone()])
        .collect();
    let replies = link.ask(&gets).await?;
    let timers: Vec<Json> = names
        .iter()
        .zip(&replies)
        // A timer that has fired meanwhile may be gone.
        .filter(|(_, timer)| matches!(timer, Value::Map(_)))
        .map(|(name, timer)| {
            let mut timer = json::reply(timer);
            timer["name"] = json::bytes(name);
            shorten(&mut timer["command"]);
            timer
        })
        .collect();
    Ok(json!({ "timers": timers, "shown_at_most": SHOWN_MAX }))
}

/// Shortens a timer's command for display.
fn shorten(command: &mut Json) {
    let Json::Array(words) = command else {
        return;
    };
    if words.len() > WORDS_MAX {
        words.truncate(WORDS_MAX);
        words.push("\u{2026}".into());
    }
    for word in words {
        let text = word.as_str().or(word["hex"].as_str()).unwrap_or_default();
        if let Some((end, _)) = text.char_indices().nth(WORD_CHARS_MAX) {
            *word = format!("{}\u{2026}", &text[..end]).into();
        }
    }
}

/// Returns the queues of jobs.
pub(super) async fn queues(links: &Links, query: Query<'_>) -> Result<Json, ApiError> {
    let list = filtered(words(["JOB", "QUEUES"]), &query);
    let found = expected(links.ask(query.db()?, &[list]).await?.pop())?;
    Ok(json!({ "queues": json::reply(&found), "shown_at_most": SHOWN_MAX }))
}

/// Runs a command of the page. `body` is a JSON array of its words.
pub(super) async fn command(
    links: &Links,
    query: Query<'_>,
    body: &[u8],
) -> Result<Json, ApiError> {
    let words: Words = serde_json::from_slice::<Vec<Json>>(body)
        .ok()
        .and_then(|words| words.iter().map(json::word).collect())
        .ok_or(ApiError::Request("A JSON array of words is expected."))?;
    let is = |at: usize, word: &str| {
        words
            .get(at)
            .is_some_and(|w| w.eq_ignore_ascii_case(word.as_bytes()))
    };
    let any = |all: &[&str]| all.iter().any(|word| is(1, word));
    let mut link = links.in_database(query.db()?).await?;
    let cancels = is(0, "DEL") && words.len() == 2;
    let allowed = cancels
        || is(0, "JOB") && any(&["PAUSE", "RESUME", "REVIVE", "DEL"])
        || is(0, "TIMER") && any(&["RUN", "PAUSE", "RESUME"]);
    if !allowed {
        return Err(ApiError::Request("The page has no such command."));
    }
    if !cancels {
        let reply = expected(link.ask(&[words]).await?.pop())?;
        return Ok(json!({ "reply": json::reply(&reply) }));
    }
    // The page may delete no keys except timers. WATCH makes EXEC fail if the key gets another
    // value after the check of its type.
    let key = &words[1];
    let watch = vec![b"WATCH".to_vec(), key.clone()];
    let kind = vec![b"TYPE".to_vec(), key.clone()];
    let kind = expected(link.ask(&[watch, kind]).await?.pop())?;
    if kind.as_bytes() != Some(b"timer") {
        return Err(ApiError::Reply("There is no such timer any more.".into()));
    }
    let (begin, end) = (vec![b"MULTI".to_vec()], vec![b"EXEC".to_vec()]);
    let replies = link.ask(&[begin, words, end]).await?;
    match expected(replies.into_iter().last())?.as_slice() {
        Some([reply]) => Ok(json!({ "reply": json::reply(reply) })),
        _ => Err(ApiError::Reply("The timer has just changed.".into())),
    }
}
