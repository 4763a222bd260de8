//! The field, side by side: Punctual's queues and other people's timers in one run.

mod contender;
mod ours;
mod peers;

fn main() {}
