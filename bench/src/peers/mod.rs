//! Other people's timers.

use crate::contender::Visitor;

/// Shows all peers to the visitor.
pub fn for_each(_visitor: &mut impl Visitor) {}
