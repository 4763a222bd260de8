//! Differences between Unix systems: clocks, flags of sockets, and IDs of threads.

use nix::time::ClockId;
use rustix::fd::BorrowedFd;
use rustix::net::SendFlags;

/// The clock of the stopwatch, which goes on while the machine is suspended. The system's
/// `CLOCK_MONOTONIC` does so on macOS, but not on every BSD.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) const STOPWATCH: ClockId = ClockId::CLOCK_BOOTTIME;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) const STOPWATCH: ClockId = ClockId::CLOCK_MONOTONIC;

/// The system's interface that mio uses, for INFO.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) const POLL: &str = "epoll";
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) const POLL: &str = "kqueue";

/// Writing to a socket whose peer has closed it raises no signal.
#[cfg(not(target_vendor = "apple"))]
pub(crate) const NO_SIGNAL: SendFlags = SendFlags::NOSIGNAL;
/// macOS has an option of the socket instead: [`ignore_broken_pipe`].
#[cfg(target_vendor = "apple")]
pub(crate) const NO_SIGNAL: SendFlags = SendFlags::empty();

/// Sets the option that replaces [`NO_SIGNAL`] on macOS.
#[cfg(target_vendor = "apple")]
pub(crate) fn ignore_broken_pipe(socket: BorrowedFd<'_>) {
    // If this fails, the signal is still ignored unless the embedding program handles it.
    let _ = socket2::SockRef::from(&socket).set_nosigpipe(true);
}
#[cfg(not(target_vendor = "apple"))]
pub(crate) fn ignore_broken_pipe(_: BorrowedFd<'_>) {}

/// Returns a number of the calling thread that no other running thread has; never 0.
/// Async-signal-safe.
#[must_use]
pub fn thread_id() -> usize {
    cfg_select! {
        any(target_os = "linux", target_os = "android") => {
            rustix::thread::gettid().as_raw_nonzero().get() as usize
        }
        _ => nix::sys::pthread::pthread_self() as usize,
    }
}

/// Returns the name of a running thread, or its number if the name cannot be read, as on systems
/// other than Linux.
#[must_use]
pub fn thread_name(id: usize) -> String {
    let name = std::fs::read_to_string(format!("/proc/self/task/{id}/comm"));
    name.map_or_else(|_| id.to_string(), |name| name.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_numbers_of_their_own() {
        let (ready, wait) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let other = std::thread::Builder::new().name("punctual-other".into());
        let other = other.spawn(move || {
            ready.send(thread_id()).unwrap();
            let _ = ended.recv();
        });
        let id = wait.recv().unwrap();
        assert_ne!(id, thread_id());
        if cfg!(target_os = "linux") {
            assert_eq!(thread_name(id), "punctual-other");
        }
        drop(end);
        other.unwrap().join().unwrap();
        assert!(!thread_name(id).is_empty());
    }
}
