//! Tests of the format against redis-server, hand-made bytes, and damage.

mod by_hand;
mod contents;
mod damage;
mod functions;
mod ours_to_redis;
mod redis_to_ours;
mod server;
mod streams;
