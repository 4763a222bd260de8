//! The live page: one thread asks the server, the other one draws and reads keys.
//!
//! Ground rules: the asking thread owns the connection, opens a new one when it breaks, and sleeps
//! for the interval between two refreshes. The drawing thread owns the terminal, never waits for
//! the server, and looks for signals between two waits for keys. SIGTERM, SIGINT, SIGHUP and
//! SIGQUIT end `live`, which restores the terminal.

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

/// Longest wait for a key.
const PATIENCE: Duration = Duration::from_millis(100);

type Look = Result<Sample, String>;

/// Takes looks until nobody wants them any more.
fn watch(target: &Target, interval: Duration, looks: &Sender<Look>, stop: &Receiver<()>) {
    let mut connection: Option<Connection> = None;
    loop {
        let look = connection.take().map_or_else(|| target.connect(), Ok);
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
        if stop.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            return;
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
    let mut terminal = Terminal::open()?;
    let (send, looks) = channel();
    let (_stop, stopped) = channel();
    // Not joined: it may wait for a server that hangs.
    thread::Builder::new()
        .name("punctual-top".to_owned())
        .spawn(move || watch(&target, interval, &send, &stopped))?;
    while !ended.load(Ordering::Relaxed) {
        looks.try_iter().for_each(|look| state.take(look));
        terminal.show(&mut state)?;
        match event::poll(PATIENCE) {
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
