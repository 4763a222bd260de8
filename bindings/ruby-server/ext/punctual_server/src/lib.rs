//! The native extension of the gem `punctual-server`.
//!
//! The gem `punctual` has its own extension. The two share the source files `fork.rs` and `gvl.rs`,
//! and nothing at run time.

#![deny(unsafe_code)]

mod call;
mod commands;
#[path = "../../../../ruby/ext/punctual/src/fork.rs"]
mod fork;
#[path = "../../../../ruby/ext/punctual/src/gvl.rs"]
mod gvl;
mod server;

use magnus::{Error, Module, Ruby};

/// The file with the version of both gems, as a string of Ruby.
const VERSION: &str = include_str!("../../../../ruby/lib/punctual/version.rb");

#[magnus::init(name = "punctual_server")]
fn init(ruby: &Ruby) -> Result<(), Error> {
    let punctual = ruby.define_module("Punctual")?;
    server::define(ruby, punctual)?;
    let server = punctual.define_class("Server", ruby.class_object())?;
    call::define(ruby, server)?;
    commands::define(ruby, punctual, server)?;
    punctual.const_set("NATIVE_SERVER_VERSION", VERSION.split('"').nth(1))
}
