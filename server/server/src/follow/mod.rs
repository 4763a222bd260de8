//! The server as a replica: the link to its primary, and the stream that it applies.

pub(crate) mod apply;
pub(crate) mod link;
mod promotion;
pub(crate) mod sync;
