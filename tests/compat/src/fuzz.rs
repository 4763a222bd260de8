//! Many clients that send random commands to one server, which must neither end nor leave a client
//! without a reply.
//!
//! [`grammar`] draws commands from the server's own description of their arguments. There are three
//! kinds of connections. *Sessions* send the commands in pipelines, transactions and scripts, and
//! wait for every reply. *Short-lived* connections send something and close without reading.
//! *Simple* connections only send GET, to notice an event loop that stands still. If a reply does
//! not come, the report has the state of the server. Replies must be RESP; the comparison with
//! redis-server checks their contents.

mod client;
pub mod grammar;
mod words;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::command::Command;
use crate::draw::Draw;
use crate::link::{Link, LinkError, Side};
use client::{End, Session, batch, short_lived};
use grammar::Grammar;

/// Number of simple connections, several for each event loop.
const SIMPLE: u64 = 8;

/// Maximum number of short-lived connections that are open.
const PARKED_MAX: usize = 60;

/// While a GET takes longer than this, no short-lived connections are opened.
const SLOW: Duration = Duration::from_millis(100);

/// Number of reports that end a run.
const REPORTS_MAX: usize = 5;

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address of the tested server.
    pub address: SocketAddr,
    /// A server whose COMMAND DOCS describes the arguments; by default the tested server.
    pub documented: Option<SocketAddr>,
    /// The seed. It determines the commands of each connection, except for times near the present,
    /// but not the order in which the server receives the commands of different connections.
    pub seed: u64,
    /// Length of the run.
    pub duration: Duration,
    /// Time without any byte from the server after which a client counts as left without a reply.
    /// No command of the grammar blocks for longer than a tenth of a second.
    pub silence: Duration,
    /// Number of sessions.
    pub sessions: u64,
    /// Number of short-lived connections a second.
    pub short_lived: u32,
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Number of the server's commands, and number of commands whose arguments are described or
    /// that have no arguments.
    pub grammar: (usize, usize),
    /// Number of replies in sessions, and number of errors among them.
    pub replies: (u64, u64),
    /// Number of short-lived connections.
    pub short_lived: u64,
    /// Number of sessions that ended because the server closed the connection.
    pub closed: u64,
    /// Maximum time until the reply of a GET.
    pub slowest: Duration,
    /// Descriptions of failures: missing replies, replies that are not RESP, and connections that
    /// the server does not accept.
    pub failures: Vec<String>,
}

struct Run<'o> {
    options: &'o Options,
    grammar: Grammar,
    threads_of: &'o (dyn Fn() -> String + Sync),
    stop: AtomicBool,
    replies: AtomicU64,
    errors: AtomicU64,
    closed: AtomicU64,
    short_lived: AtomicU64,
    slowest_us: AtomicU64,
    /// Time at which the pending GET was sent; `None` if no GET waits for its reply.
    asked: Mutex<Option<Instant>>,
    failures: Mutex<Vec<String>>,
}

/// Runs until the time is over, `ended` returns true, or there are too many failures. `threads_of`
/// describes the server's threads for reports.
///
/// # Errors
/// A [`LinkError`] while the grammar is read.
pub fn run(
    options: &Options,
    ended: &dyn Fn() -> bool,
    threads_of: &(dyn Fn() -> String + Sync),
) -> Result<Report, LinkError> {
    let mut link = Link::connect(Side::A, options.address)?;
    let mut documented = Link::connect(Side::B, options.documented.unwrap_or(options.address))?;
    let run = Run {
        options,
        grammar: Grammar::read(&mut link, &mut documented)?,
        threads_of,
        stop: AtomicBool::new(false),
        replies: AtomicU64::new(0),
        errors: AtomicU64::new(0),
        closed: AtomicU64::new(0),
        short_lived: AtomicU64::new(0),
        slowest_us: AtomicU64::new(0),
        asked: Mutex::default(),
        failures: Mutex::default(),
    };
    let until = Instant::now() + options.duration;
    std::thread::scope(|scope| {
        for number in 0..options.sessions {
            let run = &run;
            scope.spawn(move || run.sessions(number));
        }
        scope.spawn(|| run.come_and_go());
        scope.spawn(|| run.ask_simply());
        while Instant::now() < until && !ended() && run.failures().len() < REPORTS_MAX {
            std::thread::sleep(Duration::from_millis(20));
        }
        run.stop.store(true, Ordering::SeqCst);
    });
    let count = |number: &AtomicU64| number.load(Ordering::SeqCst);
    Ok(Report {
        grammar: run.grammar.size(),
        replies: (count(&run.replies), count(&run.errors)),
        short_lived: count(&run.short_lived),
        closed: count(&run.closed),
        slowest: Duration::from_micros(count(&run.slowest_us)),
        failures: run.failures().clone(),
    })
}

impl Run<'_> {
    fn connect(&self) -> Result<Session, End> {
        Session::connect(self.options)
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::SeqCst)
    }

    fn failures(&self) -> MutexGuard<'_, Vec<String>> {
        locked(&self.failures)
    }

    fn draw(&self, number: u64) -> Draw {
        Draw::new(self.options.seed.wrapping_add(number << 32))
    }

    /// Runs one session after the other.
    fn sessions(&self, number: u64) {
        let mut draw = self.draw(number);
        while self.goes_on() {
            let Ok(mut session) = self.connect() else {
                std::thread::sleep(Duration::from_millis(50));
                continue;
            };
            for _ in 0..draw.weighted(&[(2, 1), (3, 20), (1, 300)]) {
                if !self.goes_on() {
                    break;
                }
                let commands = batch(&mut draw, &self.grammar);
                let divided = draw.chance(10);
                if let Err(end) = session.exchange(&mut draw, commands, divided) {
                    self.ended(&end, &mut session);
                    break;
                }
            }
            self.replies
                .fetch_add(session.replies.all, Ordering::SeqCst);
            self.errors
                .fetch_add(session.replies.errors, Ordering::SeqCst);
        }
    }

    /// Counts the end of a session, or adds a failure with a report.
    fn ended(&self, end: &End, session: &mut Session) {
        let cause = match end {
            End::Closed => {
                self.closed.fetch_add(1, Ordering::SeqCst);
                return;
            }
            End::Malformed(cause) => format!("a reply is not RESP: {cause}"),
            End::Silent if !self.goes_on() => return,
            End::Silent => format!(
                "no byte for {:?} while a reply was due",
                self.options.silence
            ),
        };
        let since = Instant::now();
        let state = self.state_of_server();
        let late = match end {
            End::Silent => session.wait_longer(since),
            _ => String::new(),
        };
        let recent: Vec<String> = session
            .recent
            .iter()
            .map(|command| shortened(&command.to_string()))
            .collect();
        let text = format!(
            "{cause}. {late}\nIts last commands:\n  {}\n{state}",
            recent.join("\n  ")
        );
        eprintln!("{text}");
        self.failures().push(text);
    }

    /// Returns the state of the server: its threads, CLIENT LIST, INFO and SLOWLOG.
    fn state_of_server(&self) -> String {
        let mut text = (self.threads_of)();
        for words in [
            ["CLIENT", "LIST"],
            ["INFO", "everything"],
            ["SLOWLOG", "GET"],
        ] {
            let reply = Link::connect(Side::A, self.options.address)
                .and_then(|mut link| link.ask(&Command::of(&words)));
            text.push_str(&match reply {
                Ok(reply) => match reply.as_bytes() {
                    Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                    None => shortened(&format!("{reply:?}")),
                },
                Err(error) => format!("{}: {error}\n", words.join(" ")),
            });
        }
        text
    }

    /// Returns true if a GET has had no reply for longer than [`SLOW`].
    fn is_slow(&self) -> bool {
        locked(&self.asked).is_some_and(|asked| asked.elapsed() > SLOW)
    }

    /// Opens short-lived connections. Opens none while the server is slow: otherwise commands of
    /// closed connections would pile up in the server, and a late reply would not mean that the
    /// server has forgotten a client.
    fn come_and_go(&self) {
        let mut draw = self.draw(1 << 20);
        let mut parked = Vec::new();
        let mut next = Instant::now();
        let pause = Duration::from_secs(1) / self.options.short_lived.max(1);
        while self.goes_on() {
            parked.extend(short_lived(&mut draw, &self.grammar, self.options));
            self.short_lived.fetch_add(1, Ordering::SeqCst);
            let now = Instant::now();
            parked.retain(|parked| parked.until > now);
            if parked.len() > PARKED_MAX {
                parked.remove(0);
            }
            while self.goes_on() && self.is_slow() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let now = Instant::now();
            next = (next + pause).max(now - Duration::from_millis(100));
            std::thread::sleep(next.saturating_duration_since(now));
        }
    }

    /// Runs the simple connections: each sends GET, and the PING that ends every exchange.
    fn ask_simply(&self) {
        let mut draw = self.draw(2 << 20);
        let mut sessions: Vec<Option<Session>> = (0..SIMPLE).map(|_| None).collect();
        let mut last_reply = Instant::now();
        while self.goes_on() {
            for session in &mut sessions {
                let asked = Instant::now();
                *locked(&self.asked) = Some(asked);
                let mut asks = match session.take().map_or_else(|| self.connect(), Ok) {
                    Ok(session) => session,
                    Err(_) if last_reply.elapsed() < self.options.silence => continue,
                    Err(_) => {
                        self.failures()
                            .push(format!("no connection for {:?}", self.options.silence));
                        last_reply = Instant::now();
                        continue;
                    }
                };
                match asks.exchange(&mut draw, vec![Command::of(&["GET", "k0"])], false) {
                    Ok(()) => {
                        last_reply = Instant::now();
                        self.slowest_us
                            .fetch_max(asked.elapsed().as_micros() as u64, Ordering::SeqCst);
                        *session = Some(asks);
                    }
                    Err(end) => self.ended(&end, &mut asks),
                }
            }
            *locked(&self.asked) = None;
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the beginning of a command's text if the text is very long.
fn shortened(text: &str) -> String {
    const MAX: usize = 1_000;
    match text.char_indices().nth(MAX) {
        Some((at, _)) => format!("{}... ({} bytes)", &text[..at], text.len()),
        None => text.to_owned(),
    }
}
