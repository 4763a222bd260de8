//! Sessions that end after half an hour without activity. A map holds the sessions, and a
//! `DelayQueue` yields the sessions that end. The example simulates a day on a virtual clock.
//!
//!     cargo run -p punctual --features async --example sessions
use std::collections::HashMap;
use std::time::Duration;

use punctual::TimerKey;
use punctual::future::{DelayQueue, sleep};
use punctual::time::VirtualTime;
use tokio::sync::mpsc;

const MINUTE: Duration = Duration::from_secs(60);
const HALF_AN_HOUR: Duration = Duration::from_secs(30 * 60);

/// An action of a user.
enum Event {
    /// Visits a page, after logging in if necessary.
    Visit(&'static str),
    /// Logs out.
    Leave(&'static str),
}

struct Session {
    pages: u32,
    /// Handle of the session's end in the queue.
    end: TimerKey,
}

#[derive(Default)]
struct Sessions {
    by_name: HashMap<&'static str, Session>,
    ends: DelayQueue<&'static str>,
}

impl Sessions {
    fn handle(&mut self, event: Event) {
        match event {
            Event::Visit(name) => {
                if let Some(session) = self.by_name.get_mut(name) {
                    session.pages += 1;
                    self.ends.reset(session.end, HALF_AN_HOUR);
                } else {
                    let end = self.ends.insert(name, HALF_AN_HOUR);
                    self.by_name.insert(name, Session { pages: 1, end });
                }
            }
            Event::Leave(name) => {
                if let Some(session) = self.by_name.remove(name) {
                    self.ends.remove(session.end);
                }
            }
        }
    }

    /// Runs until the channel is disconnected and all sessions have ended. Returns the users whose
    /// sessions ended for inactivity, with the numbers of pages that they visited.
    async fn run(mut self, mut events: mpsc::Receiver<Event>) -> Vec<(&'static str, u32)> {
        let mut expired = Vec::new();
        let mut open = true;
        while open || !self.ends.is_empty() {
            tokio::select! {
                event = events.recv(), if open => match event {
                    Some(event) => self.handle(event),
                    None => open = false,
                },
                Some(end) = self.ends.next(), if !self.ends.is_empty() => {
                    if let Some(session) = self.by_name.remove(end.value) {
                        expired.push((end.value, session.pages));
                    }
                }
            }
        }
        expired
    }
}

/// Simulates a day. The clock advances to the next deadline by itself.
pub fn main() {
    let time = VirtualTime::new();
    let before = time.now();
    let (sender, events) = mpsc::channel(10);
    let visitors = async move {
        let visit = |name| sender.send(Event::Visit(name));
        visit("anna").await?;
        visit("bert").await?;
        sleep(29 * MINUTE).await;
        visit("anna").await?; // before her session ends
        sleep(29 * MINUTE).await;
        visit("bert").await?; // his session has ended, so he logs in again
        sleep(MINUTE).await; // anna's session ends
        visit("carl").await?;
        sleep(MINUTE).await;
        sender.send(Event::Leave("bert")).await?;
        sleep(24 * 60 * MINUTE).await;
        Ok::<(), mpsc::error::SendError<Event>>(())
    };
    let (expired, visited) = time.block_on(async {
        // Created inside `block_on`, so that its queue uses this clock.
        let sessions = Sessions::default();
        tokio::join!(sessions.run(events), visitors)
    });
    visited.expect("the events are received");
    println!("logged out, with the pages they saw: {expired:?}");
    assert_eq!(expired, [("bert", 1), ("anna", 2), ("carl", 1)]);
    assert_eq!(time.now() - before, 25 * 60 * MINUTE);
}
