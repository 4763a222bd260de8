//! Tests of the server over sockets, in this process or a child process. All tests are one binary,
//! which is built and linked once. A test that changes process-wide state is a separate file beside
//! this folder.
//!
//! - `punctual_harness` has the client and starts programs; [`process`] starts the binary; [`wire`]
//!   starts the servers to compare with; [`waiters`] blocks clients and counts them; [`console`]
//!   runs the examples of a page.
//! - Every test starts its own server on its own port, so tests run in parallel.

mod console;
mod follower;
#[path = "../process/mod.rs"]
mod process;
mod waiters;
mod wire;

mod acl;
mod acl_databases;
mod acl_file;
mod acl_roles;
mod admin;
mod any_arguments;
mod aof;
mod aof_load;
mod auth;
mod backup;
mod bad_input;
mod blocking;
mod blocking_ends;
mod client_figures;
mod client_library;
mod client_library_queues;
mod client_types;
mod clients;
mod clock;
mod cluster;
mod command_docs;
mod commands;
mod config;
mod crash;
mod debug;
mod debug_subcommands;
mod embedded;
mod eviction;
mod failover;
mod full_sync;
mod functions;
mod functions_kept;
mod gathered;
mod hashes;
mod held_input;
mod himport;
mod info;

mod inside;
mod installed;
mod jobs;
mod killed;
mod killed_log;
mod killed_timers;
mod log_lines;
mod long_replies;
mod many_clients;
mod members;
mod memory;
mod metrics;
mod migrate;
mod migrating;
mod migrating_cluster;
mod notify;
mod own_commands;
mod own_requests;
mod page;
mod pause;
mod persistence;
mod primary;
mod primary_restart;
mod primary_stream;
mod primary_waits;
mod pubsub;
mod readme;
mod redis_py;
mod refused;
mod renamed;
mod replica;
mod replica_chain;
mod replica_restart;
mod replication;
mod scripts;
mod shutdown;
mod signals;
mod slow_readers;
mod start_up;
mod streams_timed;
mod subkeys;
mod timers;
mod timers_kept;
mod tls;
mod tls_clients;
mod tls_config;
mod tls_links;
mod top;
mod tracking;
mod tracking_races;
mod transactions;
mod ttl_rules;
mod unsupported_records;
mod visit;
