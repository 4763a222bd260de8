//! The format held against redis-server, against bytes made by hand, and against damage.

mod by_hand;
mod contents;
mod damage;
mod ours_to_redis;
mod redis_to_ours;
mod server;
