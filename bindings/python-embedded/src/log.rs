//! The queue between a server's log and a Python thread. The server's threads never run Python, and
//! never wait for the reader.

use parking_lot::{Condvar, Mutex};
use punctual_server::log::{Level, Logger};
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;

/// Capacity of the queue. While the queue is full, new lines are only counted.
const LINES_MAX: usize = 10_000;

/// The lines of a server's log. Iteration yields `(level, message)`, with a level of Python's
/// `logging`. It blocks while the queue is empty, and ends when the server has stopped.
#[pyclass(frozen, module = "punctual_embedded._punctual_embedded")]
pub(crate) struct LogLines {
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
    /// Number of lines dropped because the queue was full.
    lost: u64,
    ended: bool,
}

/// The writing end of the log. Dropping it ends the log.
pub(crate) struct LogWriter {
    log: Arc<Log>,
}

impl LogWriter {
    pub(crate) fn of(lines: &Bound<'_, LogLines>) -> Self {
        LogWriter {
            log: Arc::clone(&lines.get().log),
        }
    }

    /// Returns the logger for the server.
    pub(crate) fn logger(&self, level: Level) -> Logger {
        let log = Arc::clone(&self.log);
        Logger::lines(level, move |level, message| log.add(level, message))
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.log.state.lock().ended = true;
        self.log.changed.notify_all();
    }
}

impl Log {
    fn add(&self, level: Level, message: &str) {
        let mut state = self.state.lock();
        if state.lines.len() < LINES_MAX {
            state.lines.push_back((level, message.to_owned()));
            self.changed.notify_one();
        } else {
            state.lost += 1;
        }
    }

    /// Blocks until the next line; returns `None` at the end.
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
                    let text =
                        format!("{lost} lines of this log were lost: the reader was too slow");
                    return Some((Level::Warning, text));
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
