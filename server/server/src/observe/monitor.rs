//! MONITOR: sends the commands that run, except administrative commands, to the monitoring clients.
//! A script is sent before its own commands.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use punctual_resp::Args;
use punctual_store::Now;

use crate::net::mailbox::{Mailbox, Origin};
use crate::observe::redact::redacted;
use crate::session::Session;
use crate::table::Entry;
use crate::table::names::CommandNames;

/// Monitoring clients.
#[derive(Default)]
pub struct Monitors {
    /// Id, loop number and connection slot of each monitoring client.
    all: Mutex<Vec<(u64, usize, usize)>>,
    /// Length of `all`, readable without the lock.
    count: AtomicUsize,
}

impl Monitors {
    /// Returns true if there are monitors. Costs one load.
    #[inline]
    pub fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Adds a client.
    pub fn add(&self, session: &mut Session) {
        if !std::mem::replace(&mut session.monitor, true) {
            session.info.monitor.store(true, Ordering::Relaxed);
            let mut all = self.all.lock();
            all.push((session.id, session.info.loop_number, session.info.slot));
            self.count.store(all.len(), Ordering::Relaxed);
        }
    }

    /// Removes a client if it is a monitor.
    pub fn remove(&self, session: &Session) {
        if session.monitor {
            session.info.monitor.store(false, Ordering::Relaxed);
            let mut all = self.all.lock();
            all.retain(|(client, ..)| *client != session.id);
            self.count.store(all.len(), Ordering::Relaxed);
        }
    }

    /// Sends a command to all monitoring clients.
    #[cold]
    pub(crate) fn feed<O>(
        &self,
        mailboxes: &[Mailbox<O>],
        commands: &CommandNames,
        now: Now,
        session: &Session,
        entry: &Entry,
        args: Args,
    ) {
        let micros = now.micros();
        let mut line = format!(
            "+{}.{:06} [{} {}]",
            micros / 1_000_000,
            micros % 1_000_000,
            session.db,
            if session.info.unix {
                format!("unix:{}", session.info.addr.trim_end_matches(":0"))
            } else {
                session.info.addr.clone()
            },
        );
        for arg in redacted(commands, entry, args) {
            line.push(' ');
            quote(&mut line, arg);
        }
        line.push_str("\r\n");
        for (number, mailbox) in mailboxes.iter().enumerate() {
            let all = self.all.lock();
            let here: Vec<(u64, usize)> = all
                .iter()
                .filter(|(_, l, _)| *l == number)
                .map(|(client, _, slot)| (*client, *slot))
                .collect();
            drop(all);
            if !here.is_empty() {
                mailbox.deliver(Origin::Observed, line.as_bytes(), here.into_iter());
            }
        }
    }
}

/// Appends text in double quotes, with Redis's escapes.
pub(crate) fn quote(line: &mut String, text: &[u8]) {
    line.push('"');
    for &b in text {
        match b {
            b'\\' | b'"' => {
                line.push('\\');
                line.push(char::from(b));
            }
            b'\n' => line.push_str("\\n"),
            b'\r' => line.push_str("\\r"),
            b'\t' => line.push_str("\\t"),
            0x07 => line.push_str("\\a"),
            0x08 => line.push_str("\\b"),
            b' '..=b'~' => line.push(char::from(b)),
            _ => {
                // Writing to a String cannot fail.
                let _ = write!(line, "\\x{b:02x}");
            }
        }
    }
    line.push('"');
}
