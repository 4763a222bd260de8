//! Log lines as Redis writes them: `12345:M 21 Nov 2026 05:31:26.123 * Ready to accept connections
//! tcp`.
//!
//! A line has the process id, the role, the local time, a sign for the level and the message. Each
//! server has its own [`Logger`], so the lines of two servers in one process do not mix. Each line
//! is written by one call, so lines of several threads do not interleave. The log file is opened
//! for each line, as in Redis, so `logrotate` may move the file at any time. Timestamps show the
//! machine's time, even under a virtual clock. With [`Format::Json`] a line is a JSON object.
//!
//! ```
//! use punctual_server::log::{self, Level, Logger};
//!
//! let logger = Logger::stdout(Level::Notice);
//! log::notice!(logger, "Ready to accept connections {}", "tcp");
//! log::debug!(logger, "not shown");
//! ```

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Importance of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// `.`: details for debugging the server.
    Debug,
    /// `-`: frequent events, too many for production.
    Verbose,
    /// `*`: events of interest in production.
    Notice,
    /// `#`: only important events.
    Warning,
}

impl Level {
    fn sign(self) -> char {
        match self {
            Self::Debug => '.',
            Self::Verbose => '-',
            Self::Notice => '*',
            Self::Warning => '#',
        }
    }

    /// Returns the word that `loglevel` has for the level.
    fn word(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Verbose => "verbose",
            Self::Notice => "notice",
            Self::Warning => "warning",
        }
    }
}

/// Form of the lines (`log-format`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Format {
    /// Redis's form.
    Legacy,
    /// A JSON object with `timestamp` (RFC 3339), `pid`, `role`, `level` and `message`.
    Json,
}

/// Role of the process: the letter after the process id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// `M`: the server accepts writes.
    Master = b'M',
    /// `S`: the server is a replica.
    Replica = b'S',
    /// `C`: the server does not serve clients yet.
    Child = b'C',
}

impl Role {
    /// Returns the word for a role that was stored as a byte.
    fn word(byte: u8) -> &'static str {
        match byte {
            b'M' => "primary",
            b'S' => "replica",
            _ => "child",
        }
    }
}

/// Writes log lines. Clones write to the same output.
#[derive(Clone)]
pub struct Logger {
    shared: Arc<Shared>,
}

struct Shared {
    level: AtomicU8,
    role: AtomicU8,
    /// Whether lines are JSON objects.
    json: AtomicBool,
    output: Output,
}

/// Function of an embedding program that receives the lines.
type LineHandler = Box<dyn Fn(Level, &str) + Send + Sync>;

enum Output {
    Nowhere,
    Stdout,
    File(PathBuf),
    Lines(LineHandler),
    #[cfg(test)]
    Memory(parking_lot::Mutex<Vec<u8>>),
}

impl Logger {
    fn new(level: Level, output: Output) -> Self {
        Self {
            shared: Arc::new(Shared {
                level: AtomicU8::new(level as u8),
                role: AtomicU8::new(Role::Child as u8),
                json: AtomicBool::new(false),
                output,
            }),
        }
    }

    /// Creates a logger that drops every line, for embedded servers.
    #[must_use]
    pub fn silent() -> Self {
        Self::new(Level::Warning, Output::Nowhere)
    }

    /// Creates a logger that writes to standard output.
    #[must_use]
    pub fn stdout(level: Level) -> Self {
        Self::new(level, Output::Stdout)
    }

    /// Creates a logger that appends to a file, which it creates if it does not exist.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened for writing. Later failures, such as a full
    /// disk, lose lines silently: they must not stop the server.
    pub fn file(level: Level, path: &Path) -> io::Result<Self> {
        open(path)?;
        Ok(Self::new(level, Output::File(path.to_owned())))
    }

    /// Creates a logger that calls `take` with each message, for programs with their own log. The
    /// message has no process id, role and time. Several threads of the server may call `take` at
    /// the same time, and each thread blocks until `take` returns.
    ///
    /// ```
    /// use punctual_server::log::{self, Level, Logger};
    ///
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// let logger = Logger::lines(Level::Notice, move |level, message| {
    ///     let _ = sender.send((level, message.to_owned()));
    /// });
    /// log::notice!(logger, "Ready to accept connections {}", "tcp");
    /// assert_eq!(receiver.recv()?, (Level::Notice, "Ready to accept connections tcp".to_owned()));
    /// # Ok::<(), std::sync::mpsc::RecvError>(())
    /// ```
    #[must_use]
    pub fn lines(level: Level, take: impl Fn(Level, &str) + Send + Sync + 'static) -> Self {
        Self::new(level, Output::Lines(Box::new(take)))
    }

    /// Sets the minimum level of the lines that are written.
    pub fn set_level(&self, level: Level) {
        self.shared.level.store(level as u8, Ordering::Relaxed);
    }

    /// Sets the form of later lines.
    pub fn set_format(&self, format: Format) {
        let json = format == Format::Json;
        self.shared.json.store(json, Ordering::Relaxed);
    }

    /// Sets the role shown in later lines. As in Redis, the role is [`Role::Child`] at first.
    pub fn set_role(&self, role: Role) {
        self.shared.role.store(role as u8, Ordering::Relaxed);
    }

    /// Returns true if lines of this level are written. The macros check it before they format a
    /// message.
    #[must_use]
    pub fn enabled(&self, level: Level) -> bool {
        !matches!(self.shared.output, Output::Nowhere)
            && level as u8 >= self.shared.level.load(Ordering::Relaxed)
    }

    /// Writes a line if its level is [enabled](Self::enabled). The macros of this module call this
    /// function.
    pub fn write(&self, level: Level, message: fmt::Arguments<'_>) {
        if !self.enabled(level) {
            return;
        }
        if let Output::Lines(take) = &self.shared.output {
            return take(level, &message.to_string());
        }
        let (pid, now) = (std::process::id(), jiff::Zoned::now());
        let role = self.shared.role.load(Ordering::Relaxed);
        let line = if self.shared.json.load(Ordering::Relaxed) {
            format!(
                "{{\"timestamp\":\"{}\",\"pid\":{pid},\"role\":\"{}\",\"level\":\"{}\",\
                 \"message\":{}}}\n",
                now.strftime("%Y-%m-%dT%H:%M:%S%.3f%:z"),
                Role::word(role),
                level.word(),
                serde_json::Value::from(message.to_string()),
            )
        } else {
            format!(
                "{pid}:{} {} {} {message}\n",
                char::from(role),
                now.strftime("%d %b %Y %H:%M:%S%.3f"),
                level.sign(),
            )
        };
        // A failure to write the log has no other place to be reported.
        let _ = self.shared.output.append(line.as_bytes());
    }
}

impl Output {
    fn append(&self, line: &[u8]) -> io::Result<()> {
        match self {
            Self::Nowhere | Self::Lines(_) => Ok(()),
            Self::Stdout => io::stdout().lock().write_all(line),
            Self::File(path) => open(path)?.write_all(line),
            #[cfg(test)]
            Self::Memory(lines) => {
                lines.lock().extend_from_slice(line);
                Ok(())
            }
        }
    }
}

fn open(path: &Path) -> io::Result<std::fs::File> {
    OpenOptions::new().create(true).append(true).open(path)
}

impl fmt::Debug for Logger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logger").finish_non_exhaustive()
    }
}

/// Writes a line of [`Level::Debug`]: `debug!(logger, "format", ...)`.
#[doc(hidden)]
#[macro_export]
macro_rules! __log_debug {
    ($logger:expr, $($message:tt)+) => {
        $logger.write($crate::log::Level::Debug, format_args!($($message)+))
    };
}

/// Writes a line of [`Level::Verbose`]: `verbose!(logger, "format", ...)`.
#[doc(hidden)]
#[macro_export]
macro_rules! __log_verbose {
    ($logger:expr, $($message:tt)+) => {
        $logger.write($crate::log::Level::Verbose, format_args!($($message)+))
    };
}

/// Writes a line of [`Level::Notice`]: `notice!(logger, "format", ...)`.
#[doc(hidden)]
#[macro_export]
macro_rules! __log_notice {
    ($logger:expr, $($message:tt)+) => {
        $logger.write($crate::log::Level::Notice, format_args!($($message)+))
    };
}

/// Writes a line of [`Level::Warning`]: `warning!(logger, "format", ...)`.
#[doc(hidden)]
#[macro_export]
macro_rules! __log_warning {
    ($logger:expr, $($message:tt)+) => {
        $logger.write($crate::log::Level::Warning, format_args!($($message)+))
    };
}

#[doc(inline)]
pub use crate::{
    __log_debug as debug, __log_notice as notice, __log_verbose as verbose,
    __log_warning as warning,
};

#[cfg(test)]
mod tests {
    use super::*;

    fn in_memory(level: Level) -> Logger {
        Logger::new(level, Output::Memory(parking_lot::Mutex::new(Vec::new())))
    }

    fn lines(logger: &Logger) -> Vec<String> {
        let Output::Memory(bytes) = &logger.shared.output else {
            panic!("not in memory");
        };
        let text = String::from_utf8(bytes.lock().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn lines_look_like_redis() {
        let logger = in_memory(Level::Debug);
        warning!(logger, "early");
        logger.set_role(Role::Master);
        notice!(logger, "Ready to accept connections {}", "tcp");
        debug!(logger, "d");
        verbose!(logger, "v");
        let lines = lines(&logger);
        let pid = std::process::id();
        assert!(lines[0].starts_with(&format!("{pid}:C ")) && lines[0].ends_with(" # early"));
        assert!(lines[1].ends_with(" * Ready to accept connections tcp"));
        assert!(lines[2].ends_with(" . d") && lines[3].ends_with(" - v"));
        let rest = lines[1].strip_prefix(&format!("{pid}:M ")).unwrap();
        let stamp = rest.split(" * ").next().unwrap();
        // 21 Nov 2026 05:31:26.123
        let shape: String = stamp
            .chars()
            .map(|c| match c {
                '0'..='9' => '9',
                'A'..='Z' => 'A',
                'a'..='z' => 'a',
                other => other,
            })
            .collect();
        assert_eq!(shape, "99 Aaa 9999 99:99:99.999");
    }

    #[test]
    fn json_lines_have_every_field() {
        let logger = in_memory(Level::Debug);
        logger.set_format(Format::Json);
        notice!(logger, "early");
        logger.set_role(Role::Master);
        warning!(logger, "a \"quote\"\nand {}", "a\tsecond line");
        logger.set_format(Format::Legacy);
        verbose!(logger, "plain");
        let lines = lines(&logger);
        assert_eq!(lines.len(), 3);
        let object = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
        let (first, second) = (object(&lines[0]), object(&lines[1]));
        assert_eq!(
            (&first["role"], &first["level"]),
            (&"child".into(), &"notice".into())
        );
        assert_eq!(
            (&second["role"], &second["level"]),
            (&"primary".into(), &"warning".into())
        );
        assert_eq!(second["pid"], std::process::id());
        assert_eq!(second["message"], "a \"quote\"\nand a\tsecond line");
        let timestamp = second["timestamp"].as_str().unwrap();
        assert!(timestamp.parse::<jiff::Timestamp>().is_ok(), "{timestamp}");
        assert!(lines[2].ends_with(" - plain"));
    }

    #[test]
    fn levels_filter_and_can_change() {
        let logger = in_memory(Level::Notice);
        let clone = logger.clone();
        debug!(logger, "1");
        verbose!(logger, "2");
        notice!(logger, "3");
        clone.set_level(Level::Warning);
        notice!(logger, "4");
        warning!(logger, "5");
        let lines = lines(&logger);
        assert_eq!(lines.len(), 2);
        assert!(lines[0].ends_with("* 3") && lines[1].ends_with("# 5"));
        assert!(!Logger::silent().enabled(Level::Warning));
    }

    #[test]
    fn a_file_that_is_rotated_away_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.log");
        let logger = Logger::file(Level::Notice, &path).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    (0..50).for_each(|i| notice!(logger, "line {i} {}", "x".repeat(200)))
                });
            }
        });
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 200);
        assert!(
            text.lines()
                .all(|line| line.contains(" * line ") && line.ends_with("xx"))
        );
        std::fs::rename(&path, folder.path().join("server.log.1")).unwrap();
        notice!(logger, "after");
        assert!(
            std::fs::read_to_string(&path)
                .unwrap()
                .ends_with("* after\n")
        );
        assert!(Logger::file(Level::Notice, folder.path()).is_err());
    }
}
