//! Compiles Lua 5.1.5 from the sources that the crate `lua-src` packages, with the edits of `lua/edits.rs` and the additions of
//! `lua/punctual.c`.
//!
//! `lua-src` is a build dependency for its files alone: its own build would compile them as they are. Cargo tells where it
//! has put them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

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
        // `unpack` checks for an overflow after it has happened (CVE-2025-46817), which is only then well defined.
        .flag("-fwrapv")
        .include(&out)
        .opt_level(2)
        .warnings(false)
        .compile("punctual_lua51");
}

/// Returns the folder with the sources of Lua 5.1.
fn packaged_sources() -> PathBuf {
    let cargo = env::var_os("CARGO").expect("cargo sets CARGO");
    let manifest = env::var_os("CARGO_MANIFEST_PATH").expect("cargo sets CARGO_MANIFEST_PATH");
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--format-version=1",
            "--offline",
            "--manifest-path",
        ])
        .arg(manifest)
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let path = text
        .split("\"manifest_path\":\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .find(|path| {
            let folder = Path::new(path).parent().and_then(Path::file_name);
            folder.is_some_and(|name| name.to_string_lossy().starts_with("lua-src-"))
        })
        .expect("the package lua-src is among the dependencies");
    Path::new(path).with_file_name("lua-5.1.5")
}
