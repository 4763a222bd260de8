//! The native extension of the gem `punctual`.
//!
//! Ground rules:
//! - No borrow of an object's Rust data is held while Ruby code runs: a callback may use the same
//!   object.
//! - Every object that stores Ruby values marks them as movable, updates them in `compact`, and
//!   calls the write barrier after each store.
//! - Threads of the Rust library hold no Ruby values. They pass numbers to a Ruby thread (see
//!   `driver`).

#![deny(unsafe_code)]

mod driver;
mod fork;
mod gvl;
mod heap;
mod keys;
mod own;
mod priority_queue;
mod ractor;
mod schedule;
mod score;
mod seconds;
mod timers;

use magnus::{Error, Module, Ruby};

/// The file with the version of both gems, as a string of Ruby.
const VERSION: &str = include_str!("../../../lib/punctual/version.rb");

#[magnus::init(name = "punctual")]
fn init(ruby: &Ruby) -> Result<(), Error> {
    ractor::declare_safe();
    let punctual = ruby.define_module("Punctual")?;
    schedule::define(ruby, punctual)?;
    timers::define(ruby, punctual)?;
    priority_queue::define(ruby, punctual)?;
    driver::define(ruby, punctual)?;
    punctual.const_set("NATIVE_VERSION", VERSION.split('"').nth(1))
}
