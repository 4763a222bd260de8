//! Compiles Lua 5.1.5 from the sources that the crate `lua-src` packages, with the edits of
//! `lua/edits.rs` and the additions of `lua/punctual.c`.
//!
//! `lua-src` is a build dependency for its files alone: its own build would compile them as they
//! are.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::{env, fs, panic};

#[path = "lua/edits.rs"]
mod edits;

/// Modules of Lua that scripts get nothing from.
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
        // `unpack` checks for an overflow after it has happened (CVE-2025-46817), which is only
        // then well defined.
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
/// `lua-src` does not say where it is. Its build panics for a target that it does not know, and a
/// panic has a place.
fn packaged_sources() -> PathBuf {
    let place = Arc::new(Mutex::new(None));
    let noted = Arc::clone(&place);
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let file = info
            .location()
            .map(|location| PathBuf::from(location.file()));
        *noted.lock().expect("one thread has it") = file;
    }));
    let built = panic::catch_unwind(|| {
        lua_src::Build::new().target("none").build(lua_src::Lua51);
    });
    panic::set_hook(hook);
    assert!(built.is_err(), "lua-src knows the target `none`");
    let file = place.lock().expect("one thread has it").take();
    let file = file.expect("a panic has a place");
    let package = file.ancestors().nth(2).expect("the file is src/lib.rs");
    package.join("lua-5.1.5")
}
