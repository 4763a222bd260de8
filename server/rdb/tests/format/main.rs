//! Tests of the format: compared with redis-server, with hand-made bytes, and with damaged bytes.

mod by_hand;
mod contents;
mod damage;
mod functions;
mod ours_to_redis;
mod redis_to_ours;
mod server;
mod streams;
mod valkey;
