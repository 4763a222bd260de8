//! The terminal: raw mode, the alternate screen, and the lines that it shows.
//!
//! Ground rules: a line is written only if it has changed, and one write has all changed lines. The
//! terminal is restored when [`Terminal`] is dropped, and also when a thread panics.

use std::io::{self, Write as _};
use std::panic;

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::terminal::{
    self, BeginSynchronizedUpdate, Clear, ClearType, DisableLineWrap, EnableLineWrap,
    EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
};
use crossterm::{execute, queue};

use crate::screen::{Line, State, draw};

/// The terminal in raw mode. Dropping it restores the terminal.
#[derive(Default)]
pub(crate) struct Terminal {
    /// Columns and rows.
    size: (u16, u16),
    /// The lines that the terminal shows.
    frame: Vec<Line>,
}

impl Terminal {
    /// Switches the terminal to raw mode and the alternate screen.
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

    /// Draws a state, and writes the lines that differ from the lines on the screen.
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

/// Restores the terminal if it is in raw mode. Leaving the alternate screen twice would move the
/// cursor back over text that was printed in between.
fn restore() {
    if terminal::is_raw_mode_enabled().unwrap_or(false) {
        let _ = execute!(io::stdout(), Show, EnableLineWrap, LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

/// Writes the lines of `now` that differ from the lines of `before`.
fn changes(out: &mut Vec<u8>, before: &[Line], now: &[Line]) -> io::Result<()> {
    for ((row, line), at) in now.iter().enumerate().zip(0..) {
        if before.get(row) != Some(line) {
            // Clears the row before writing. After a line of full width the cursor is still on the
            // last column, so clearing afterwards would remove the last character.
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
