//! Drawing. The lines of the screen are a function of the state and of the terminal's size, so
//! tests draw without a terminal.

use crossterm::style::{StyledContent, Stylize};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::panes::{Pane, Samples};
use crate::sample::Sample;

/// A selection of panes, which the user chooses with a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// All panes except the slow log, in short form.
    #[default]
    Overview,
    /// Lateness, counts of due timers and jobs, and the next timers.
    Future,
    /// The next timers.
    Timers,
    /// Queues of jobs.
    Queues,
    /// Latency by command.
    Commands,
    /// The slow log.
    Slow,
    /// Slots, roles and lag of a cluster's nodes.
    Cluster,
}

impl View {
    /// All views, in the order of their keys.
    pub const ALL: [Self; 7] = [
        Self::Overview,
        Self::Future,
        Self::Timers,
        Self::Queues,
        Self::Commands,
        Self::Slow,
        Self::Cluster,
    ];

    /// Names of the views, in the same order.
    const NAMES: [&str; 7] = [
        "overview", "future", "timers", "queues", "commands", "slow", "cluster",
    ];

    /// Returns the panes of a view and their heights in rows. Panes without a height share the
    /// remaining rows equally.
    fn panes(self, samples: Samples<'_>) -> Vec<(Pane, Option<usize>)> {
        match self {
            Self::Overview => vec![
                (samples.server(), Some(8)),
                (samples.lateness(), Some(4)),
                (samples.future(), Some(7)),
                (samples.timers(), None),
                (samples.queues(), None),
                (samples.commands(), None),
            ],
            Self::Future => vec![
                (samples.lateness(), Some(4)),
                (samples.future(), Some(7)),
                (samples.timers(), None),
            ],
            Self::Timers => vec![(samples.timers(), None)],
            Self::Queues => vec![(samples.queues(), None)],
            Self::Commands => vec![(samples.commands(), None)],
            Self::Slow => vec![(samples.slow(), None)],
            Self::Cluster => vec![(samples.shards(), None)],
        }
    }
}

/// The last samples of the server, and the user's choice of a view.
#[derive(Debug, Default)]
pub struct State {
    /// The server's address.
    pub address: String,
    /// The last sample; `None` before the first one.
    pub now: Option<Sample>,
    /// The sample before `now`.
    pub before: Option<Sample>,
    /// The reason for which there is no connection.
    pub trouble: Option<String>,
    /// The chosen view.
    pub view: View,
    /// Number of lines of the last pane that are scrolled out of view.
    pub scroll: usize,
}

impl State {
    /// Stores a sample, or the error of the connection.
    pub fn take(&mut self, outcome: Result<Sample, String>) {
        match outcome {
            Ok(sample) => {
                self.before = self.now.replace(sample);
                self.trouble = None;
            }
            Err(trouble) => self.trouble = Some(trouble),
        }
    }

    /// Chooses a view.
    pub fn show(&mut self, view: View) {
        self.view = view;
        self.scroll = 0;
    }

    /// Chooses the next view.
    pub fn show_next(&mut self) {
        self.show(View::ALL[(self.view as usize + 1) % View::ALL.len()]);
    }

    /// Scrolls down by a number of lines, or up if it is negative. [`draw`] limits the number to
    /// the length of the pane.
    pub fn scroll(&mut self, by: isize) {
        self.scroll = self.scroll.saturating_add_signed(by);
    }
}

/// A line of the screen: pieces of printable text, each with its style.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line(pub(crate) Vec<StyledContent<String>>);

impl Line {
    /// Returns the line without its styles.
    pub fn text(&self) -> String {
        let pieces = self.0.iter().map(|piece| piece.content().as_str());
        pieces.collect()
    }
}

/// Returns whether a character may be sent to the terminal. Control characters may not. Invisible
/// characters that reorder, join or restyle their neighbours may not either, because their effect
/// on the width of the text depends on the terminal.
fn is_drawable(c: &char) -> bool {
    match c {
        '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => false,
        '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' => false,
        c => !c.is_control(),
    }
}

/// Returns as much of a text as fits in `columns`, without characters that are not drawable.
fn fit(text: &str, columns: usize) -> String {
    let mut used = 0;
    let fitting = text.chars().filter(is_drawable).take_while(|c| {
        used += c.width().unwrap_or(0);
        used <= columns
    });
    fitting.collect()
}

/// Breaks a text into lines of at most `columns`. Breaks between words, and within a word only if
/// the word is longer than a line.
fn wrap(text: &str, columns: usize) -> Vec<String> {
    let text = fit(text, usize::MAX);
    let (mut rest, mut lines) = (text.trim(), Vec::new());
    loop {
        let max = fit(rest, columns).len();
        let end = match rest.len() == max || rest[max..].starts_with(' ') {
            true => max,
            false => rest[..max].rfind(' ').unwrap_or(max),
        };
        if end == 0 {
            return lines;
        }
        lines.push(rest[..end].trim_end().to_owned());
        rest = rest[end..].trim_start();
    }
}

/// Draws a pane in `rows` rows. Only the last pane of a page has `scroll`. Limits `scroll` to the
/// number of lines that can be scrolled.
fn draw_pane(pane: &Pane, columns: usize, rows: usize, scroll: Option<&mut usize>) -> Vec<Line> {
    let lines = pane.lines.iter().flat_map(|line| match pane.refused {
        true => wrap(line, columns)
            .into_iter()
            .map(Stylize::dark_yellow)
            .collect(),
        false => vec![fit(line, columns).stylize()],
    });
    let mut text: Vec<_> = lines.map(|line| Line(vec![line])).collect();
    if let Some(scroll) = scroll {
        *scroll = (*scroll).min((text.len() + 1).saturating_sub(rows.max(1)));
        text.drain(..*scroll);
    }
    let title = fit(&format!(" {} ", pane.title), columns);
    let rule = "─".repeat(columns - title.width());
    text.insert(0, Line(vec![title.dark_cyan().bold(), rule.dark_grey()]));
    text.resize(rows, Line::default());
    text
}

/// Draws a state. Returns one line for each row of the screen, at most as wide as the screen.
pub fn draw(state: &mut State, columns: u16, rows: u16) -> Vec<Line> {
    let (columns, rows) = (usize::from(columns), usize::from(rows));
    let head = fit(&format!("punctual top  {}", state.address), columns);
    let mut lines = vec![Line(vec![head.bold()])];
    let panes = state.now.as_ref().map_or_else(Vec::new, |now| {
        let before = state.before.as_ref();
        state.view.panes(Samples { now, before })
    });
    let mut free = rows.saturating_sub(2);
    for (at, (pane, height)) in panes.iter().enumerate() {
        let left = panes.len() - at;
        let height = height.unwrap_or(free.div_ceil(left)).min(free);
        let scroll = (left == 1).then_some(&mut state.scroll);
        lines.extend(draw_pane(pane, columns, height, scroll));
        free -= height;
    }
    let (chosen, tabs) = (state.view as usize + 1, View::NAMES.iter().zip(1..));
    let tabs = tabs.map(|(name, key)| match key == chosen {
        true => format!("[{key} {name}]"),
        false => format!(" {key} {name} "),
    });
    let foot = match &state.trouble {
        None => fit(&format!("{}q quit", tabs.collect::<String>()), columns).dark_grey(),
        Some(trouble) => {
            let trouble = format!("no connection, trying again: {trouble}  (q quits)");
            fit(&trouble, columns).dark_red().bold()
        }
    };
    lines.resize(rows.saturating_sub(1), Line::default());
    lines.push(Line(vec![foot]));
    lines.truncate(rows);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_printable_text_that_fits_is_drawn() {
        assert_eq!(fit("abc", 2), "ab");
        assert_eq!(fit("時間切れ", 5), "時間");
        assert_eq!(fit("e\u{301}e\u{301}", 1), "e\u{301}");
        assert_eq!(
            fit("a\x1b[2J\r\n\u{9b}b\u{202e}c\u{200d}d\u{7f}", 9),
            "a[2Jbcd"
        );
        assert_eq!(fit("a", 0), "");
    }

    #[test]
    fn texts_break_between_words() {
        assert_eq!(
            wrap("jobs   this needs it", 11),
            ["jobs   this", "needs it"]
        );
        assert_eq!(
            wrap("jobs   this needs it", 10),
            ["jobs", "this needs", "it"]
        );
        assert_eq!(wrap(" abcdef gh ", 4), ["abcd", "ef", "gh"]);
        assert_eq!(wrap("時間切れ", 3), ["時", "間", "切", "れ"]);
        assert_eq!(wrap("時", 1), [""; 0]);
        assert_eq!(wrap("a", 0), [""; 0]);
        assert_eq!(wrap("", 9), [""; 0]);
    }

    #[test]
    fn a_pane_has_a_rule_and_scrolls_to_its_end() {
        let mut pane = Pane {
            title: "keys".to_owned(),
            lines: ["a", "b", "c", "d e"].map(str::to_owned).to_vec(),
            refused: false,
        };
        let mut scroll = 9;
        let shown = draw_pane(&pane, 8, 3, Some(&mut scroll));
        let text: Vec<_> = shown.iter().map(Line::text).collect();
        assert_eq!(
            (text, scroll),
            ([" keys ──", "c", "d e"].map(str::to_owned).to_vec(), 2)
        );
        let rule = [
            " keys ".to_owned().dark_cyan().bold(),
            "──".to_owned().dark_grey(),
        ];
        assert_eq!(shown[0].0, rule);
        assert_eq!(draw_pane(&pane, 8, 6, None)[5], Line::default());
        pane.refused = true;
        // The pane has five wrapped lines. A pane with no rows shows no lines.
        for (rows, end) in [(3, 3), (1, 5), (0, 5), (9, 0)] {
            scroll = 9;
            let shown = draw_pane(&pane, 2, rows, Some(&mut scroll));
            assert_eq!((shown.len(), scroll), (rows, end));
        }
        let yellow = Line(vec!["e".to_owned().dark_yellow()]);
        assert_eq!(draw_pane(&pane, 2, 6, None)[5], yellow);
    }
}
