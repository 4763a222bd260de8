//! The server as its clients meet it: over sockets, in this process or one of its own. One program, so that it is
//! built and linked once; a test that changes the whole process has a file of its own beside this folder.
//!
//! - [`wire`] says which bytes go and come; [`process`] starts the binary; [`hall`] knows clients that wait.
//! - Every test starts its own server, on a port of its own: they run side by side.

mod hall;
#[path = "../process/mod.rs"]
mod process;
mod wire;

mod admin;
mod any_arguments;
mod auth;
mod bad_input;
mod blocking;
mod blocking_ends;
mod client_library;
mod client_library_queues;
mod client_types;
mod clients;
mod clock;
mod commands;
mod config;
mod crash;
mod debug;
mod hashes;
mod info;
mod inside;
mod killed;
mod many_clients;
mod memory;
mod pause;
mod persistence;
mod pubsub;
mod readme;
mod redis_py;
mod refused;
mod renamed;
mod start_up;
mod transactions;
