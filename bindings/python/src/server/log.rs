//! What a server logs, on its way to a thread of Python's: the server's own threads never touch Python, and never wait
//! for whoever reads.

use parking_lot::{Condvar, Mutex};
use punctual_server::log::{Level, Logger};
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;

/// So many lines wait for a reader; what comes after them is only counted.
const MOST: usize = 10_000;

/// The lines of a server's log. Iterating yields `(level, message)`, the level as in Python's `logging`, waits for more,
/// and ends when the server has stopped.
#[pyclass(frozen, module = "punctual._punctual")]
pub(super) struct LogLines {
    log: Arc<Log>,
}

#[derive(Default)]
struct Log {
    state: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    lines: VecDeque<(Level, String)>,
    /// Lines that came when there were too many.
    lost: u64,
    ended: bool,
}

/// The server's side of a log. When it is dropped the log has ended.
pub(super) struct EndsLog {
    log: Arc<Log>,
}

impl EndsLog {
    pub(super) fn of(lines: &Bound<'_, LogLines>) -> Self {
        EndsLog {
            log: Arc::clone(&lines.get().log),
        }
    }

    /// What the server writes to.
    pub(super) fn logger(&self, level: Level) -> Logger {
        let log = Arc::clone(&self.log);
        Logger::lines(level, move |level, message| log.add(level, message))
    }
}

impl Drop for EndsLog {
    fn drop(&mut self) {
        self.log.state.lock().ended = true;
        self.log.changed.notify_all();
    }
}

impl Log {
    fn add(&self, level: Level, message: &str) {
        let mut state = self.state.lock();
        if state.lines.len() < MOST {
            state.lines.push_back((level, message.to_owned()));
            self.changed.notify_one();
        } else {
            state.lost += 1;
        }
    }

    /// The next line; `None` at the end.
    fn next(&self) -> Option<(Level, String)> {
        let mut state = self.state.lock();
        loop {
            if let Some(line) = state.lines.pop_front() {
                return Some(line);
            }
            match std::mem::take(&mut state.lost) {
                0 if state.ended => return None,
                0 => self.changed.wait(&mut state),
                lost => {
                    return Some((Level::Warning, format!("{lost} lines of this log are lost")));
                }
            }
        }
    }
}

#[pymethods]
impl LogLines {
    #[new]
    fn new() -> Self {
        LogLines {
            log: Arc::default(),
        }
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> Option<(u8, String)> {
        let (level, message) = py.detach(|| self.log.next())?;
        let level = match level {
            Level::Debug | Level::Verbose => 10,
            Level::Notice => 20,
            Level::Warning => 30,
        };
        Some((level, message))
    }
}
