//! A connection of the operator, on which one command at a time waits for its reply.

use punctual_resp::Value;

use crate::kernel::streams::EndId;
use crate::kernel::{Nanos, NodeId, SECOND};
use crate::link::{Link, Prepared};
use crate::world;

/// Time after which a command is given up.
const PATIENCE: Nanos = 3 * SECOND;

#[derive(Default)]
pub struct Errand {
    link: Option<Link>,
    waits: bool,
    /// Time at which the connection or the command is given up.
    pub until: Nanos,
}

/// What has happened on the connection.
pub enum Heard {
    Reply(Value),
    Connected,
    Lost,
    Nothing,
}

impl Errand {
    pub fn owns(&self, end: EndId) -> bool {
        self.link.as_ref().is_some_and(|link| link.owns(end))
    }

    /// Returns the time until which a command waits for its reply.
    pub fn waits(&self) -> Option<Nanos> {
        self.waits.then_some(self.until)
    }

    /// Closes the connection. The command may still be carried out; the next one to the same node
    /// waits until it has been, or is lost.
    pub fn lose(&mut self) {
        if let Some(link) = &mut self.link {
            link.lose();
        }
        self.waits = false;
    }

    /// Sends a command once the node is connected. Returns the time at which to call again if
    /// nothing is heard.
    pub fn send(&mut self, node: NodeId, line: &[String]) -> Nanos {
        let link = self.link.get_or_insert_with(|| Link::new(1));
        if link.node != node {
            link.lose();
            *link = Link::new(1);
            link.node = node;
        }
        let now = world::now();
        match link.prepare() {
            Prepared::Ready { .. } => {
                link.push(line);
                link.flush();
                self.waits = true;
            }
            Prepared::Connecting { .. } => {}
            Prepared::Later(pause) => return now + pause,
        }
        self.until = now + PATIENCE;
        self.until
    }

    /// Reads the replies.
    pub fn hear(&mut self) -> Heard {
        let Some(link) = &mut self.link else {
            return Heard::Nothing;
        };
        let mut arrived = link.read();
        if !arrived.replies.is_empty() {
            self.waits = false;
            return Heard::Reply(arrived.replies.swap_remove(0));
        }
        match (arrived.lost, arrived.connected) {
            (true, _) => Heard::Lost,
            (false, true) => Heard::Connected,
            _ => Heard::Nothing,
        }
    }
}
