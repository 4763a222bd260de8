//! Sets the soname of the shared library, and a flag by which `dlclose` does not unload it. The
//! library of the package `punctual-c` is `libpunctual`; `punctual-server-c` uses this file too.

use std::env::var;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let part = |name: &str| var(name).unwrap_or_default();
    // Before 1.0, every minor version may break the ABI, so the soname contains the minor version.
    let (major, minor) = (
        part("CARGO_PKG_VERSION_MAJOR"),
        part("CARGO_PKG_VERSION_MINOR"),
    );
    let abi = if major == "0" {
        format!("0.{minor}")
    } else {
        major
    };
    let package = part("CARGO_PKG_NAME");
    let library = format!("lib{}", package.trim_end_matches("-c"));
    match part("CARGO_CFG_TARGET_OS").as_str() {
        "linux" | "android" | "freebsd" | "netbsd" | "openbsd" | "dragonfly" | "illumos" => {
            println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{library}.so.{abi}");
            // The library's threads run until the process ends, so dlclose must not unload it.
            println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
        }
        "macos" | "ios" => {
            println!("cargo::rustc-cdylib-link-arg=-Wl,-install_name,@rpath/{library}.{abi}.dylib");
        }
        _ => {}
    }
}
