//! Deadline queues.

pub mod wheel;
