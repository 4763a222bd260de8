//! Two nodes.
