//! Crash reports of the binary, for a signal such as SIGSEGV or a panic in any thread.
//!
//! Invariants: a crashed thread only records the cause in statics, sends a request through a pipe,
//! and waits for a bounded time. The thread `punctual-crash` writes the report. So a lock that the
//! crashed thread holds can truncate the report, but cannot hang the process. Signal handlers
//! allocate nothing and take no lock: they use atomics, `read`, `write`, `poll`, `nanosleep` and,
//! after the report's head is written, the unwinder, which may itself fail on a damaged stack.

mod handler;

use std::ffi::c_int;
use std::fmt::Write as _;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::time::Duration;

use punctual_server::crash_report::{CrashReporter, thread_id, thread_name};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Maximum number of return addresses in a report.
const FRAMES: usize = 64;
/// Maximum time for which a crashed thread waits for each part of its report.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Requests to the *writer*, the thread `punctual-crash`: for the head of a signal's report, for
/// the rest of it, or for the report of a panic.
const HEAD: u8 = b'h';
const REST: u8 = b'r';
const PANIC: u8 = b'p';

/// State of the first signal, which the handler records. `OWNER` is the thread that received it.
static OWNER: AtomicUsize = AtomicUsize::new(0);
static SIGNAL: AtomicI32 = AtomicI32::new(0);
static CODE: AtomicI32 = AtomicI32::new(0);
static ADDRESS: AtomicUsize = AtomicUsize::new(0);
static RETURN_ADDRESSES: [AtomicUsize; FRAMES] = [const { AtomicUsize::new(0) }; FRAMES];
static RETURN_ADDRESSES_COUNT: AtomicUsize = AtomicUsize::new(0);
static REST_REQUESTED: AtomicBool = AtomicBool::new(false);

static PANICS: Mutex<Vec<Panicked>> = Mutex::new(Vec::new());
static LINK: OnceLock<Link> = OnceLock::new();

/// The crashed thread's ends of the pipes from and to the writer.
struct Link {
    requests: PipeWriter,
    answers: PipeReader,
    /// ID of the thread `punctual-crash`, which must not wait for itself.
    writer: AtomicUsize,
}

struct Panicked {
    message: String,
    thread: String,
    returns: Vec<usize>,
    /// Gets a message when the report is written.
    done: mpsc::Sender<()>,
}

/// Installs the handlers and starts the writer.
pub(crate) fn watch(reporter: CrashReporter) -> io::Result<()> {
    let (incoming, requests) = io::pipe()?;
    let (answers, answer) = io::pipe()?;
    let writer = AtomicUsize::new(0);
    let link = LINK.get_or_init(|| Link {
        requests,
        answers,
        writer,
    });
    std::thread::Builder::new()
        .name("punctual-crash".into())
        .spawn(move || {
            link.writer.store(thread_id(), Ordering::Release);
            handler::block_signals();
            serve(&reporter, incoming, answer);
        })?;
    // The unwinder allocates when it is first used, which must not happen in a handler.
    backtrace::trace(|_| true);
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        print(info);
        report_panic(link, info.to_string());
    }));
    handler::install()
}

impl Link {
    /// Requests a part of the report, and blocks until it is written or [`TIMEOUT`] has passed.
    /// Async-signal-safe.
    fn request(&self, part: u8) {
        if (&self.requests).write_all(&[part]).is_err() {
            return;
        }
        let timeout = Timespec {
            tv_sec: TIMEOUT.as_secs() as i64,
            tv_nsec: 0,
        };
        let mut answers = [PollFd::new(&self.answers, PollFlags::IN)];
        loop {
            match poll(&mut answers, Some(&timeout)) {
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

/// Reports a signal, from the thread that has received it. The caller then ends the process.
/// Async-signal-safe, except the unwinder.
fn report_signal(signal: c_int, code: c_int, address: usize) {
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
            link.request(HEAD);
            backtrace::trace(|frame| {
                let count = RETURN_ADDRESSES_COUNT.load(Ordering::Relaxed);
                if let Some(slot) = RETURN_ADDRESSES.get(count) {
                    slot.store(frame.ip().addr(), Ordering::Relaxed);
                    RETURN_ADDRESSES_COUNT.store(count + 1, Ordering::Relaxed);
                }
                count + 1 < FRAMES
            });
        }
        // The unwinder has crashed. The report continues with the frames found so far.
        Err(owner) if owner == me => {}
        // Another thread crashed first, and ends the process.
        Err(_) => {
            std::thread::sleep(TIMEOUT * 2);
            return;
        }
    }
    if !REST_REQUESTED.swap(true, Ordering::AcqRel) {
        link.request(REST);
    }
}

/// Reports a panic. The thread then unwinds.
fn report_panic(link: &Link, message: String) {
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
        let _ = wait.recv_timeout(TIMEOUT);
    }
}

/// Writes the requested parts of reports, on the thread `punctual-crash`.
fn serve(reporter: &CrashReporter, mut incoming: PipeReader, mut answer: PipeWriter) {
    let mut part = [0];
    while incoming.read_exact(&mut part).is_ok() {
        let enabled = reporter.is_enabled();
        match part[0] {
            PANIC => {
                let panics =
                    std::mem::take(&mut *PANICS.lock().unwrap_or_else(PoisonError::into_inner));
                for panic in panics {
                    if enabled {
                        reporter.begin(&format!("a panic: {}", panic.message), &panic.thread);
                        write_rest(reporter, &panic.returns);
                    }
                    let _ = panic.done.send(());
                }
                continue;
            }
            HEAD if enabled => {
                let signal = SIGNAL.load(Ordering::Relaxed);
                let name = signal_hook::low_level::signal_name(signal).unwrap_or("unknown");
                let code = CODE.load(Ordering::Relaxed);
                let mut cause = format!("signal: {signal} ({name}), code {code}");
                // Only signals that the kernel raises have an address.
                if code > 0 {
                    let _ = write!(cause, ", address {:#x}", ADDRESS.load(Ordering::Relaxed));
                }
                reporter.begin(&cause, &thread_name(OWNER.load(Ordering::Relaxed)));
            }
            REST if enabled => {
                let count = RETURN_ADDRESSES_COUNT.load(Ordering::Relaxed);
                let returns = RETURN_ADDRESSES[..count]
                    .iter()
                    .map(|at| at.load(Ordering::Relaxed));
                write_rest(reporter, &returns.collect::<Vec<_>>());
            }
            _ => {}
        }
        if answer.write_all(&part).is_err() {
            return;
        }
    }
}

fn write_rest(reporter: &CrashReporter, returns: &[usize]) {
    reporter.backtrace(&format_backtrace(returns));
    reporter.state();
    reporter.end();
}

/// Formats a backtrace, one line for each function, including inlined functions.
fn format_backtrace(returns: &[usize]) -> String {
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
