//! Exports the program's functions, so that crates find them with `dlsym`, as getrandom does.

fn main() {
    println!("cargo:rustc-link-arg-bins=-rdynamic");
    println!("cargo:rerun-if-changed=build.rs");
}
