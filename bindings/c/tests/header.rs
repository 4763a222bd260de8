//! `include/punctual.h` is what cbindgen writes from `src/`.

use std::fs;
use std::path::Path;

#[test]
fn the_header_is_current() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml"))
        .expect("cbindgen.toml is one of cbindgen's");
    let mut builder = cbindgen::Builder::new().with_config(config);
    // By file: no `cargo metadata`, and the header is in this order.
    for module in MODULES {
        builder = builder.with_src(here.join("src").join(format!("{module}.rs")));
    }
    let mut written = Vec::new();
    builder
        .generate()
        .expect("what src/ exports can be said in C")
        .write(&mut written);
    let written = String::from_utf8(written)
        .expect("a header is text")
        // cbindgen names values after their enum; we name them after the library.
        .replace("PUNCTUAL_STATUS_", "PUNCTUAL_")
        // Rust's heading for what the caller promises.
        .replace(" * # Safety\n *\n", "");

    let header = here.join("include/punctual.h");
    if std::env::var_os("PUNCTUAL_WRITE_HEADER").is_some() {
        fs::write(&header, &written).expect("the header can be written");
    }
    let committed = fs::read_to_string(&header).expect("the header is there");
    let different = written
        .lines()
        .zip(committed.lines())
        .position(|(written, committed)| written != committed);
    assert!(
        written == committed,
        "include/punctual.h is out of date (from line {:?}): PUNCTUAL_WRITE_HEADER=1 cargo test -p punctual-c --test header",
        different.map(|line| line + 1)
    );
}

/// In the order of the header.
const MODULES: [&str; 11] = [
    "version",
    "status",
    "wheel",
    "wheel/due",
    "wheel/whole",
    "raw_wheel",
    "callback",
    "time",
    "ticker",
    "virtual_time",
    "fork",
];
