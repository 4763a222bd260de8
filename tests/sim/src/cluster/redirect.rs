//! What a client does after an error reply of a cluster's node.

use crate::kernel::NodeId;
use crate::verdict;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirect {
    /// MOVED: the slot's owner is this node.
    Moved(NodeId),
    /// ASK: this command goes to this node.
    Ask(NodeId),
    /// The same node carries the command out later.
    Later,
    /// Another node may carry the command out.
    Elsewhere,
}

/// Returns the node of an address.
pub fn node_of(address: &str) -> Option<NodeId> {
    let host = address.split(':').next()?;
    host.strip_prefix("10.0.0.")?.parse().ok()
}

impl Redirect {
    /// Reads an error. Any error that no client of a cluster expects fails the run.
    pub fn of(text: &str, script: bool) -> Self {
        let because = "EXECABORT Transaction discarded because of: ";
        let text = text.strip_prefix(because).unwrap_or(text);
        let words: Vec<&str> = text.split(' ').collect();
        let node = words.get(2).and_then(|address| node_of(address));
        match (words[0], node) {
            ("MOVED", Some(node)) => Self::Moved(node),
            ("ASK", Some(node)) => Self::Ask(node),
            // A node does not know the owner's address yet.
            ("MOVED" | "ASK", None) => Self::Elsewhere,
            ("CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "READONLY" | "UNBLOCKED", _) => {
                Self::Elsewhere
            }
            ("TRYAGAIN" | "MISCONF", _) => Self::Later,
            // The slot was lost while the script ran.
            _ if script && text.contains("in script attempted to access a non local key") => {
                Self::Elsewhere
            }
            _ if script && text.contains("Script attempted to") => Self::Elsewhere,
            _ => verdict::stop(&format!("an unexpected error: {text}")),
        }
    }
}
