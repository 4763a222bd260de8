//! The live page: one thread asks the server, the other one draws and reads keys.
//!
//! Ground rules: the asking thread owns the connection, opens a new one when it breaks, and sleeps for the interval between two
//! refreshes. The drawing thread owns the terminal, never waits for the server, and looks for signals between two waits for keys. The terminal is as
//! it was before however the program ends: at the end of `live`, in a panic, and on SIGTERM, SIGINT, SIGHUP and SIGQUIT.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::connection::{Connection, Target};
use crate::sample::Sample;
use crate::screen::{State, View, draw};

/// Longest wait for a key.
const PATIENCE: Duration = Duration::from_millis(100);

type Look = Result<Sample, String>;

/// Takes looks until nobody wants them any more.
fn watch(target: &Target, interval: Duration, looks: &Sender<Look>, stop: &Receiver<()>) {
    let mut connection: Option<Connection> = None;
    loop {
        let look = match connection.take() {
            Some(connection) => Ok(connection),
            None => target.connect(),
        };
        let look = look.and_then(|mut open| {
            let sample = Sample::take(&mut open)?;
            connection = Some(open);
            Ok(sample)
        });
        let refused = look.is_err();
        if looks.send(look.map_err(|error| error.to_string())).is_err() {
            return;
        }
        // A wrong password is logged by the server each time.
        let wait = if refused {
            interval.max(Duration::from_secs(1))
        } else {
            interval
        };
        match stop.recv_timeout(wait) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Does what a key asks for. Returns false if it ends the program.
fn press(state: &mut State, key: KeyEvent) -> bool {
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return false,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
        KeyCode::Char(digit @ '1'..='6') => {
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

/// The terminal as it was before, when this is dropped.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Shows the page until the user or a signal ends it.
///
/// # Errors
/// That of the terminal.
pub(crate) fn live(target: Target, interval: Duration) -> io::Result<()> {
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP, SIGQUIT] {
        signal_hook::flag::register(signal, Arc::clone(&ended))?;
    }
    let mut state = State {
        address: target.address(),
        ..State::default()
    };
    // Its panic hook restores the terminal before the message is printed.
    let mut terminal = ratatui::try_init()?;
    let _restored = Restored;
    let (send, looks) = channel();
    let (_stop, stopped) = channel();
    // Not joined: it may wait for a server that hangs.
    thread::Builder::new()
        .name("punctual-top".to_owned())
        .spawn(move || watch(&target, interval, &send, &stopped))?;
    while !ended.load(Ordering::Relaxed) {
        looks.try_iter().for_each(|look| state.take(look));
        terminal.draw(|frame| draw(frame, &mut state))?;
        let waited = event::poll(PATIENCE);
        match waited {
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
