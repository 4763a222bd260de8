//! Crash reports of the binary: a signal such as SIGSEGV, or a panic in any thread.
//!
//! Ground rules: a thread that crashes only notes what is known and waits, for a bounded time; the thread
//! `punctual-crash` writes the report. So a lock that the crashed thread holds cuts the report short, and cannot hang
//! the process. What runs in the handler of a signal allocates nothing and takes no lock: it uses atomics, `read`,
//! `write`, `poll` and, last, the unwinder, which may itself fail on a damaged stack.

mod handler;

use std::ffi::c_int;
use std::fmt::Write as _;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::time::Duration;

use punctual_server::observe::crash_report::CrashReporter;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Return addresses that are kept.
const FRAMES: usize = 64;
/// How long a crashed thread waits for each part of its report.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a crashed thread asks the writer for: the head of a signal's report, the rest of it, or a panic's report.
const HEAD: u8 = b'h';
const REST: u8 = b'r';
const PANIC: u8 = b'p';

/// What the handler notes of the first signal.
static OWNER: AtomicI32 = AtomicI32::new(0);
static SIGNAL: AtomicI32 = AtomicI32::new(0);
static CODE: AtomicI32 = AtomicI32::new(0);
static ADDRESS: AtomicUsize = AtomicUsize::new(0);
static RETURNS: [AtomicUsize; FRAMES] = [const { AtomicUsize::new(0) }; FRAMES];
static RETURNS_COUNT: AtomicUsize = AtomicUsize::new(0);
static RESTS: AtomicBool = AtomicBool::new(false);

static PANICS: Mutex<Vec<Panicked>> = Mutex::new(Vec::new());
static LINK: OnceLock<Link> = OnceLock::new();

/// The crashed thread's ends of the pipes to and from the writer.
struct Link {
    requests: PipeWriter,
    answers: PipeReader,
    writer: AtomicI32,
}

struct Panicked {
    message: String,
    thread: String,
    returns: Vec<usize>,
    done: mpsc::Sender<()>,
}

fn thread_id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Installs the handlers and starts the writer.
pub(crate) fn watch(reporter: CrashReporter) -> io::Result<()> {
    let (asked, requests) = io::pipe()?;
    let (answers, answer) = io::pipe()?;
    let writer = AtomicI32::new(0);
    let link = LINK.get_or_init(|| Link {
        requests,
        answers,
        writer,
    });
    std::thread::Builder::new()
        .name("punctual-crash".into())
        .spawn(move || {
            link.writer.store(thread_id(), Ordering::Release);
            handler::leave_signals_to_others();
            serve(&reporter, asked, answer);
        })?;
    // The unwinder prepares itself at its first use; a handler must not be the first.
    backtrace::trace(|_| true);
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        print(info);
        panicked(link, info.to_string());
    }));
    handler::install()
}

impl Link {
    /// Asks for a part of the report and waits until it is written. Async-signal-safe.
    fn ask(&self, part: u8) {
        if (&self.requests).write_all(&[part]).is_err() {
            return;
        }
        let patience = Timespec {
            tv_sec: PATIENCE.as_secs() as i64,
            tv_nsec: 0,
        };
        let mut answers = [PollFd::new(&self.answers, PollFlags::IN)];
        loop {
            match poll(&mut answers, Some(&patience)) {
                Err(Errno::INTR) => {}
                Ok(1) => {
                    let _ = (&self.answers).read(&mut [0]);
                    return;
                }
                _ => return,
            }
        }
    }
}

/// Has a signal reported by the thread that it stopped; the caller then ends the process. Async-signal-safe.
fn caught(signal: c_int, code: c_int, address: usize) {
    let Some(link) = LINK.get() else { return };
    let me = thread_id();
    if me == link.writer.load(Ordering::Acquire) {
        return;
    }
    match OWNER.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            SIGNAL.store(signal, Ordering::Relaxed);
            CODE.store(code, Ordering::Relaxed);
            ADDRESS.store(address, Ordering::Relaxed);
            link.ask(HEAD);
            backtrace::trace(|frame| {
                let count = RETURNS_COUNT.load(Ordering::Relaxed);
                if let Some(place) = RETURNS.get(count) {
                    place.store(frame.ip().addr(), Ordering::Relaxed);
                    RETURNS_COUNT.store(count + 1, Ordering::Relaxed);
                }
                count + 1 < FRAMES
            });
        }
        // The unwinder has crashed: the report goes on with what it has found.
        Err(owner) if owner == me => {}
        // The first thread ends the process.
        Err(_) => {
            std::thread::sleep(PATIENCE * 2);
            return;
        }
    }
    if !RESTS.swap(true, Ordering::AcqRel) {
        link.ask(REST);
    }
}

/// Has a panic reported; the thread then unwinds.
fn panicked(link: &Link, message: String) {
    if thread_id() == link.writer.load(Ordering::Acquire) {
        return;
    }
    let mut returns = Vec::with_capacity(FRAMES);
    backtrace::trace(|frame| {
        returns.push(frame.ip().addr());
        returns.len() < FRAMES
    });
    let thread = std::thread::current();
    let (done, wait) = mpsc::channel();
    let mut panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
    panics.push(Panicked {
        message,
        thread: thread.name().unwrap_or("without a name").to_owned(),
        returns,
        done,
    });
    drop(panics);
    if (&link.requests).write_all(&[PANIC]).is_ok() {
        let _ = wait.recv_timeout(PATIENCE);
    }
}

/// Writes the parts that are asked for.
fn serve(reporter: &CrashReporter, mut asked: PipeReader, mut answer: PipeWriter) {
    let mut part = [0];
    while asked.read_exact(&mut part).is_ok() {
        let enabled = reporter.is_enabled();
        match part[0] {
            PANIC => {
                let panics =
                    std::mem::take(&mut *PANICS.lock().unwrap_or_else(PoisonError::into_inner));
                for panic in panics {
                    if enabled {
                        reporter.begin(&panic.message, &panic.thread);
                        rest(reporter, &panic.returns);
                    }
                    let _ = panic.done.send(());
                }
                continue;
            }
            HEAD if enabled => {
                let signal = SIGNAL.load(Ordering::Relaxed);
                let name = signal_hook::low_level::signal_name(signal).unwrap_or("unknown");
                let code = CODE.load(Ordering::Relaxed);
                let mut cause = format!("signal {signal} ({name}), code {code}");
                // Only the kernel's own signals have an address.
                if code > 0 {
                    let _ = write!(cause, ", address {:#x}", ADDRESS.load(Ordering::Relaxed));
                }
                reporter.begin(&cause, &thread_name(OWNER.load(Ordering::Relaxed)));
            }
            REST if enabled => {
                let count = RETURNS_COUNT.load(Ordering::Relaxed);
                let returns = RETURNS[..count].iter().map(|at| at.load(Ordering::Relaxed));
                rest(reporter, &returns.collect::<Vec<_>>());
            }
            _ => {}
        }
        if answer.write_all(&part).is_err() {
            return;
        }
    }
}

fn rest(reporter: &CrashReporter, returns: &[usize]) {
    reporter.backtrace(&calls(returns));
    reporter.state();
    reporter.end();
}

fn thread_name(id: i32) -> String {
    let name = std::fs::read_to_string(format!("/proc/self/task/{id}/comm"));
    name.map_or_else(|_| id.to_string(), |name| name.trim_end().to_owned())
}

/// A line for each function that was being called, inlined ones included.
fn calls(returns: &[usize]) -> String {
    let mut text = String::new();
    for (number, at) in returns.iter().enumerate() {
        let mut named = false;
        // Writing to a String cannot fail.
        backtrace::resolve(std::ptr::without_provenance_mut(*at), |symbol| {
            named = true;
            let _ = write!(text, "{number:>3}: {at:#x} ");
            let _ = match symbol.name() {
                Some(name) => write!(text, "{name:#}"),
                None => write!(text, "?"),
            };
            if let (Some(file), Some(line)) = (symbol.filename(), symbol.lineno()) {
                let _ = write!(text, " at {}:{line}", file.display());
            }
            text.push('\n');
        });
        if !named {
            let _ = writeln!(text, "{number:>3}: {at:#x} ?");
        }
    }
    text
}
