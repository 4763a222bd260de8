//! SIGTERM and SIGINT. Their handlers are installed before the server starts, so that a signal also
//! stops a load cleanly.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::emulate_default_handler;

use crate::log;
use crate::persist::save;
use crate::server::Starting;
use crate::shutdown;

/// The thread that receives the signals.
pub(super) struct SignalThread {
    handle: Handle,
    thread: JoinHandle<io::Result<()>>,
}

impl SignalThread {
    pub(super) fn start(server: &Starting) -> io::Result<Self> {
        let signals = Signals::new([SIGTERM, SIGINT])?;
        let (handle, server) = (signals.handle(), Arc::clone(server));
        let thread = std::thread::Builder::new()
            .name("punctual-signals".into())
            .spawn(move || receive(signals, &server))?;
        Ok(Self { handle, thread })
    }

    /// Ends the thread. Blocks until the shutdowns that it has begun have ended.
    pub(super) fn end(self) -> io::Result<()> {
        self.handle.close();
        // The panic hook has printed the message of a panic.
        self.thread.join().unwrap_or(Ok(()))
    }
}

/// Begins a shutdown at a signal. The shutdown runs on a separate thread, because this thread must
/// receive a second SIGINT, which ends the process at once.
fn receive(mut signals: Signals, server: &Starting) -> io::Result<()> {
    let mut shutdowns: Vec<JoinHandle<()>> = Vec::new();
    for signal in &mut signals {
        let Some(shared) = server.get() else {
            emulate_default_handler(signal)?;
            continue;
        };
        let (interrupted, logger) = (signal == SIGINT, &shared.logger);
        let again = shared.shutdown.note_signal();
        if again && interrupted {
            log::warning!(logger, "You insist... exiting now.");
            save::remove_temporary_file(shared);
            std::process::exit(1);
        }
        let name = if interrupted { "SIGINT" } else { "SIGTERM" };
        log::warning!(logger, "Received {name} scheduling shutdown...");
        if again {
            continue;
        }
        let settings = shared.settings();
        let options = if interrupted {
            settings.shutdown_on_sigint
        } else {
            settings.shutdown_on_sigterm
        };
        shutdowns.retain(|thread| !thread.is_finished());
        let shared = Arc::clone(shared);
        shutdowns.push(
            std::thread::Builder::new()
                .name("punctual-shutdown".into())
                .spawn(move || shutdown::begin_by_signal(&shared, options))?,
        );
    }
    for thread in shutdowns {
        let _ = thread.join();
    }
    Ok(())
}
