//! The live page: one thread takes samples of the server, and the main thread draws and reads keys.
//!
//! Ground rules: the sampling thread owns the connection, opens a new connection after an error,
//! and sleeps between two samples. The main thread owns the terminal and never waits for the
//! server. It checks for signals after each wait for a key. SIGTERM, SIGINT, SIGHUP and SIGQUIT end
//! [`live`], which restores the terminal.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::connection::{Connection, Target};
use crate::sample::Sample;
use crate::screen::{State, View};
use crate::terminal::Terminal;

/// Maximum time to wait for a key before samples and signals are checked again.
const KEY_WAIT_MAX: Duration = Duration::from_millis(100);

/// A sample, or the error of the connection as text.
type Outcome = Result<Sample, String>;

/// Takes samples and sends them to the main thread, until the main thread ends.
fn watch(target: &Target, interval: Duration, outcomes: &Sender<Outcome>, stop: &Receiver<()>) {
    let mut connection: Option<Connection> = None;
    loop {
        let outcome = connection.take().map_or_else(|| target.connect(), Ok);
        let outcome = outcome.and_then(|mut open| {
            let sample = Sample::take(&mut open)?;
            connection = Some(open);
            Ok(sample)
        });
        let failed = outcome.is_err();
        let outcome = outcome.map_err(|error| error.to_string());
        if outcomes.send(outcome).is_err() {
            return;
        }
        // After an error, waits at least a second, because the server logs each wrong password.
        let wait = if failed {
            interval.max(Duration::from_secs(1))
        } else {
            interval
        };
        if stop.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// Handles a pressed key. Returns false if the key ends the program.
fn press(state: &mut State, key: KeyEvent) -> bool {
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return false,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
        KeyCode::Char(digit @ '1'..='7') => {
            state.show(View::ALL[digit as usize - '1' as usize]);
        }
        KeyCode::Tab | KeyCode::Right => state.show_next(),
        KeyCode::Up => state.scroll(-1),
        KeyCode::Down => state.scroll(1),
        KeyCode::PageUp => state.scroll(-20),
        KeyCode::PageDown => state.scroll(20),
        KeyCode::Home => state.scroll = 0,
        _ => {}
    }
    true
}

/// Shows the page until the user or a signal ends it.
///
/// # Errors
/// An error of the terminal.
pub(crate) fn live(target: Target, interval: Duration) -> io::Result<()> {
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP, SIGQUIT] {
        signal_hook::flag::register(signal, Arc::clone(&ended))?;
    }
    let mut state = State {
        address: target.address(),
        ..State::default()
    };
    let mut terminal = Terminal::open()?;
    let (send, outcomes) = channel();
    // Dropping `_stop` at the end of this function ends the thread's sleep.
    let (_stop, stopped) = channel();
    // The thread is not joined, because it may be waiting for a server that hangs.
    thread::Builder::new()
        .name("punctual-top".to_owned())
        .spawn(move || watch(&target, interval, &send, &stopped))?;
    while !ended.load(Ordering::Relaxed) {
        outcomes.try_iter().for_each(|outcome| state.take(outcome));
        terminal.show(&mut state)?;
        match event::poll(KEY_WAIT_MAX) {
            Ok(false) => continue,
            Ok(true) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        if let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
            && !press(&mut state, key)
        {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_choose_views_and_end() {
        let mut state = State::default();
        let mut press = |code: KeyCode, modifiers| {
            let goes_on = super::press(&mut state, KeyEvent::new(code, modifiers));
            (goes_on, state.view, state.scroll)
        };
        let plain = KeyModifiers::NONE;
        assert_eq!(press(KeyCode::Char('5'), plain), (true, View::Commands, 0));
        assert_eq!(press(KeyCode::PageDown, plain), (true, View::Commands, 20));
        assert_eq!(press(KeyCode::Up, plain), (true, View::Commands, 19));
        assert_eq!(press(KeyCode::Tab, plain), (true, View::Slow, 0));
        assert_eq!(press(KeyCode::Up, plain), (true, View::Slow, 0));
        assert_eq!(press(KeyCode::Tab, plain), (true, View::Cluster, 0));
        assert_eq!(press(KeyCode::Tab, plain), (true, View::Overview, 0));
        assert_eq!(press(KeyCode::Char('c'), plain), (true, View::Overview, 0));
        for (code, modifiers) in [
            (KeyCode::Char('q'), plain),
            (KeyCode::Esc, plain),
            (KeyCode::Char('c'), KeyModifiers::CONTROL),
        ] {
            assert!(!press(code, modifiers).0);
        }
    }
}
