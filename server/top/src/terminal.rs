//! The terminal: raw mode, the alternate screen, and the lines that it shows.
//!
//! Ground rules: a line is written only if it has changed, and all changes of a frame are one
//! write. The terminal is restored when [`Terminal`] is dropped and in a panic of any thread, so
//! however the program ends.

use std::io::{self, Write as _};
use std::panic;

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::terminal::{
    self, BeginSynchronizedUpdate, Clear, ClearType, DisableLineWrap, EnableLineWrap,
    EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
};
use crossterm::{execute, queue};

use crate::screen::{Line, State, draw};

/// The terminal, while the page is shown.
#[derive(Default)]
pub(crate) struct Terminal {
    size: (u16, u16),
    frame: Vec<Line>,
}

impl Terminal {
    /// Takes the terminal, until this is dropped.
    pub(crate) fn open() -> io::Result<Self> {
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            restore();
            hook(panic);
        }));
        terminal::enable_raw_mode()?;
        let terminal = Self::default();
        execute!(io::stdout(), EnterAlternateScreen, DisableLineWrap, Hide)?;
        Ok(terminal)
    }

    /// Shows a state.
    pub(crate) fn show(&mut self, state: &mut State) -> io::Result<()> {
        let size = terminal::size()?;
        let frame = draw(state, size.0, size.1);
        if size == self.size && frame == self.frame {
            return Ok(());
        }
        let mut out = Vec::new();
        queue!(out, BeginSynchronizedUpdate)?;
        if size != self.size {
            queue!(out, Clear(ClearType::All))?;
            self.frame.clear();
        }
        changes(&mut out, &self.frame, &frame)?;
        queue!(out, EndSynchronizedUpdate)?;
        (self.size, self.frame) = (size, frame);
        let mut stdout = io::stdout();
        stdout.write_all(&out)?;
        stdout.flush()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal, once: leaving the alternate screen again would move the cursor back onto
/// what was printed since.
fn restore() {
    if terminal::is_raw_mode_enabled().unwrap_or(false) {
        let _ = execute!(io::stdout(), Show, EnableLineWrap, LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

/// Writes the lines of a frame that differ from the lines of the frame before.
fn changes(out: &mut Vec<u8>, before: &[Line], now: &[Line]) -> io::Result<()> {
    for ((row, line), at) in now.iter().enumerate().zip(0..) {
        if before.get(row) != Some(line) {
            // Cleared first: behind a full line, the cursor would stand on its last character.
            queue!(out, MoveTo(0, at), Clear(ClearType::UntilNewLine))?;
            line.0.iter().try_for_each(|piece| write!(out, "{piece}"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossterm::style::Stylize as _;

    #[test]
    fn only_changed_lines_are_written() {
        let line = |text: &str| Line(vec![text.to_owned().stylize()]);
        let written = |before: &[Line], now: &[Line]| {
            let mut out = Vec::new();
            changes(&mut out, before, now).unwrap();
            String::from_utf8(out).unwrap()
        };
        let frame = [line("a"), line("b"), Line::default()];
        assert_eq!(
            written(&[], &frame),
            "\x1b[1;1H\x1b[Ka\x1b[2;1H\x1b[Kb\x1b[3;1H\x1b[K"
        );
        assert_eq!(written(&frame, &frame), "");
        let next = [line("a"), Line::default(), line("c")];
        assert_eq!(written(&frame, &next), "\x1b[2;1H\x1b[K\x1b[3;1H\x1b[Kc");
        let bold = [Line(vec!["a".to_owned().bold()])];
        assert_eq!(written(&frame, &bold), "\x1b[1;1H\x1b[K\x1b[1ma\x1b[0m");
    }
}
