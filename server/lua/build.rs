//! Compiles Lua 5.1.5 from the sources that the crate `lua-src` packages, with the edits of
//! `lua/edits.rs` and the additions of `lua/punctual.c`.
//!
//! `lua-src` is a build dependency only for its files. Its own build would compile them without the
//! edits.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::{env, fs, panic};

#[path = "lua/edits.rs"]
mod edits;

/// Modules of Lua that are not compiled, because scripts may not use any of their functions.
const LEFT_OUT: &[&str] = &["ldblib.c", "linit.c", "liolib.c", "loadlib.c"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=lua");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("lua");
    let source = packaged_sources();
    fs::create_dir_all(&out).expect("the output folder can be written");
    let mut build = cc::Build::new();
    for entry in fs::read_dir(&source).unwrap_or_else(|e| panic!("{}: {e}", source.display())) {
        let path = entry.expect("the folder can be read").path();
        let name = path
            .file_name()
            .and_then(|n| n.to_str())
            .unwrap_or_default()
            .to_owned();
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let edited = out.join(&name);
        fs::write(&edited, edits::apply(&name, text)).expect("the output folder can be written");
        if name.ends_with(".c") && !LEFT_OUT.contains(&name.as_str()) {
            build.file(edited);
        }
    }
    // LUA_ANSI: no dlopen, no popen, numbers converted as in Redis's build.
    build
        .file("lua/punctual.c")
        .define("LUA_ANSI", None)
        // `unpack` checks for an overflow of a signed integer after the addition (CVE-2025-46817).
        // Without this flag such an overflow is undefined behaviour.
        .flag("-fwrapv")
        .include(&out)
        .opt_level(3)
        .debug(false)
        .force_frame_pointer(false)
        .warnings(false)
        .compile("punctual_lua51");
}

/// Returns the folder with the sources of Lua 5.1.
///
/// `lua-src` has no function that returns its folder. But its build panics for an unknown target,
/// and a panic has the path of a source file of `lua-src`.
fn packaged_sources() -> PathBuf {
    let panic_file = Arc::new(Mutex::new(None));
    let stored = Arc::clone(&panic_file);
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let file = info
            .location()
            .map(|location| PathBuf::from(location.file()));
        *stored.lock().expect("only this thread locks") = file;
    }));
    let built = panic::catch_unwind(|| {
        lua_src::Build::new().target("none").build(lua_src::Lua51);
    });
    panic::set_hook(hook);
    assert!(built.is_err(), "lua-src knows the target `none`");
    let file = panic_file.lock().expect("only this thread locks").take();
    let file = file.expect("a panic has a location");
    let package = file.ancestors().nth(2).expect("the file is src/lib.rs");
    package.join("lua-5.1.5")
}
