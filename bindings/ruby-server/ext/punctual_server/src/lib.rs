//! The native extension of the gem `punctual-server`.
//!
//! The gem `punctual` has its own extension. The two share these source files, and nothing at run
//! time.

#![deny(unsafe_code)]

mod call;
mod commands;
#[path = "../../../../ruby/ext/punctual/src/fork.rs"]
mod fork;
#[path = "../../../../ruby/ext/punctual/src/gvl.rs"]
mod gvl;
mod server;

use magnus::{Error, Module, Ruby};

#[magnus::init(name = "punctual_server")]
fn init(ruby: &Ruby) -> Result<(), Error> {
    let punctual = ruby.define_module("Punctual")?;
    server::define(ruby, punctual)?;
    let server = punctual.define_class("Server", ruby.class_object())?;
    call::define(ruby, server)?;
    commands::define(ruby, punctual, server)?;
    punctual.const_set("NATIVE_SERVER_VERSION", env!("CARGO_PKG_VERSION"))
}
