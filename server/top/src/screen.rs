//! Drawing: a frame is a function of the state, so tests draw into memory.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Paragraph, Wrap};

use crate::panes::{Looks, Pane};
use crate::sample::Sample;

/// What the screen shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// A little of everything.
    #[default]
    Overview,
    /// Lateness and what is due when.
    Future,
    /// The next timers.
    Timers,
    /// Queues of jobs.
    Queues,
    /// Latency by command.
    Commands,
    /// The slow log.
    Slow,
}

impl View {
    /// All views, in the order of their keys.
    pub const ALL: [Self; 6] = [
        Self::Overview,
        Self::Future,
        Self::Timers,
        Self::Queues,
        Self::Commands,
        Self::Slow,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Overview => "overview",
            Self::Future => "future",
            Self::Timers => "timers",
            Self::Queues => "queues",
            Self::Commands => "commands",
            Self::Slow => "slow log",
        }
    }
}

/// What is known of the server, and what the user wants to see.
#[derive(Debug, Default)]
pub struct State {
    /// The server's address.
    pub address: String,
    /// The last look.
    pub now: Option<Sample>,
    /// The look before.
    pub before: Option<Sample>,
    /// Why there is no connection.
    pub trouble: Option<String>,
    /// The chosen view.
    pub view: View,
    /// Number of lines that are scrolled away.
    pub scroll: u16,
}

impl State {
    /// Takes a look, or the reason why there is none.
    pub fn take(&mut self, look: Result<Sample, String>) {
        match look {
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
        let at = View::ALL.iter().position(|view| *view == self.view);
        self.show(View::ALL[at.map_or(0, |at| (at + 1) % View::ALL.len())]);
    }

    /// Scrolls, at most as far as there are lines.
    pub fn scroll(&mut self, by: i16) {
        self.scroll = self.scroll.saturating_add_signed(by);
    }
}

fn draw_pane(frame: &mut Frame<'_>, area: Rect, pane: &Pane, scroll: u16) {
    let style = match pane.refused {
        true => Style::new().fg(Color::Yellow),
        false => Style::new(),
    };
    let title = Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD);
    let block = Block::new()
        .borders(Borders::TOP)
        .border_style(Style::new().fg(Color::DarkGray))
        .title(Line::styled(format!(" {} ", pane.title), title));
    let last = u16::try_from(pane.lines.len()).unwrap_or(u16::MAX);
    let lines: Vec<Line<'_>> = pane
        .lines
        .iter()
        .map(|line| Line::raw(line.as_str()))
        .collect();
    let mut text = Paragraph::new(lines).style(style).block(block);
    if pane.refused {
        text = text.wrap(Wrap { trim: true });
    }
    let page = area.height.saturating_sub(1);
    let text = text.scroll((scroll.min(last.saturating_sub(page)), 0));
    frame.render_widget(text, area);
}

/// Draws a state.
pub fn draw(frame: &mut Frame<'_>, state: &mut State) {
    let [head, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let address = format!("punctual top  {}", state.address);
    frame.render_widget(Line::styled(address, bold), head);
    let tabs = View::ALL
        .iter()
        .enumerate()
        .map(|(at, view)| match *view == state.view {
            true => format!("[{} {}]", at + 1, view.name()),
            false => format!(" {} {} ", at + 1, view.name()),
        });
    let tabs = tabs
        .chain([" q quit".to_owned()])
        .collect::<Vec<_>>()
        .join(" ");
    let tabs = match &state.trouble {
        None => Line::styled(tabs, Style::new().fg(Color::DarkGray)),
        Some(trouble) => Line::styled(
            format!("no connection, trying again: {trouble}  (q quits)"),
            Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        ),
    };
    frame.render_widget(tabs, foot);
    let Some(now) = &state.now else {
        return;
    };
    let looks = Looks {
        now,
        before: state.before.as_ref(),
    };
    let panes: Vec<(Pane, Constraint)> = match state.view {
        View::Overview => vec![
            (looks.server(), Constraint::Length(8)),
            (looks.lateness(), Constraint::Length(4)),
            (looks.future(), Constraint::Length(7)),
            (looks.timers(), Constraint::Fill(1)),
            (looks.queues(), Constraint::Fill(1)),
            (looks.commands(), Constraint::Fill(1)),
        ],
        View::Future => vec![
            (looks.lateness(), Constraint::Length(4)),
            (looks.future(), Constraint::Length(7)),
            (looks.timers(), Constraint::Fill(1)),
        ],
        View::Timers => vec![(looks.timers(), Constraint::Fill(1))],
        View::Queues => vec![(looks.queues(), Constraint::Fill(1))],
        View::Commands => vec![(looks.commands(), Constraint::Fill(1))],
        View::Slow => vec![(looks.slow(), Constraint::Fill(1))],
    };
    let areas = Layout::vertical(panes.iter().map(|pane| pane.1)).split(body);
    // The last pane is the one that scrolls.
    let last = panes.len() - 1;
    if let (Some((pane, _)), Some(area)) = (panes.last(), areas.last()) {
        let page = usize::from(area.height.saturating_sub(1));
        let most = u16::try_from(pane.lines.len().saturating_sub(page)).unwrap_or(u16::MAX);
        state.scroll = state.scroll.min(most);
    }
    for (at, ((pane, _), area)) in panes.iter().zip(areas.iter()).enumerate() {
        draw_pane(
            frame,
            *area,
            pane,
            if at == last { state.scroll } else { 0 },
        );
    }
}
