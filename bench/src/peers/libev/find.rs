//! The build script: looks for libev. If it is missing, the comparison has one peer fewer and says so; the
//! build does not fail.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program that uses all functions of the adapter and rejects a different layout of watchers.
const PROGRAM: &str = r"
#include <stddef.h>
#include <ev.h>
#if EV_VERSION_MAJOR != 4
# error another major version
#endif
typedef char size_is_known[sizeof (ev_timer) == 48 ? 1 : -1];
typedef char at_is_known[offsetof (ev_timer, at) == 32 ? 1 : -1];
typedef char repeat_is_known[offsetof (ev_timer, repeat) == 40 ? 1 : -1];
typedef char data_is_known[offsetof (ev_timer, data) == 16 ? 1 : -1];
int main (void)
{
  ev_timer timer = { 0 };
  struct ev_loop *loop = ev_loop_new (EVBACKEND_SELECT);
  ev_timer_start (loop, &timer);
  return 0;
}
";

fn main() {
    println!("cargo::rerun-if-changed=src/peers/libev/find.rs");
    println!("cargo::rerun-if-env-changed=CC");
    println!("cargo::rustc-check-cfg=cfg(has_libev)");
    if env::var_os("CARGO_FEATURE_LIBEV").is_none() {
        return;
    }
    if !builds() {
        println!(
            "cargo::warning=libev was not found: the comparison goes without it (install libev-dev)"
        );
        return;
    }
    println!("cargo::rustc-cfg=has_libev");
    match archive() {
        Some(folder) => {
            println!("cargo::rustc-link-search=native={}", folder.display());
            println!("cargo::rustc-link-lib=static=ev");
        }
        None => println!("cargo::rustc-link-lib=ev"),
    }
}

fn compiler() -> Command {
    Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()))
}

/// Returns whether a program that uses libev compiles and links.
fn builds() -> bool {
    let Some(out) = env::var_os("OUT_DIR").map(PathBuf::from) else {
        return false;
    };
    let source = out.join("libev.c");
    if fs::write(&source, PROGRAM).is_err() {
        return false;
    }
    let done = compiler()
        .arg(&source)
        .arg("-o")
        .arg(out.join("libev"))
        .args(["-lev", "-lm"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    done.is_ok_and(|status| status.success())
}

/// Returns the folder of the static library, whose calls need no jump through a table.
fn archive() -> Option<PathBuf> {
    let answer = compiler()
        .arg("-print-file-name=libev.a")
        .output()
        .ok()?
        .stdout;
    let path = PathBuf::from(String::from_utf8(answer).ok()?.trim());
    // The compiler prints a name without a folder if it finds nothing.
    let folder = path.parent().filter(|f| *f != Path::new(""))?;
    path.is_file().then(|| folder.to_owned())
}
