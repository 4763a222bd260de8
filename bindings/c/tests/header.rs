//! Checks that `include/punctual.h` equals the output of cbindgen for `src/`.

use std::fs;
use std::path::Path;

#[test]
fn the_header_is_current() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config =
        cbindgen::Config::from_file(here.join("cbindgen.toml")).expect("cbindgen.toml is valid");
    let mut builder = cbindgen::Builder::new().with_config(config);
    // Adds the files one by one, to define the order of the header and to avoid `cargo metadata`.
    for module in MODULES {
        builder = builder.with_src(here.join("src").join(format!("{module}.rs")));
    }
    let mut written = Vec::new();
    builder
        .generate()
        .expect("the exports of src/ have a C declaration")
        .write(&mut written);
    let written = String::from_utf8(written)
        .expect("the header is UTF-8")
        // cbindgen prefixes the values with the name of their enum. The header uses the
        // library's name.
        .replace("PUNCTUAL_STATUS_", "PUNCTUAL_")
        // Removes Rust's heading of the guarantees that the caller must give.
        .replace(" * # Safety\n *\n", "");

    let header = here.join("include/punctual.h");
    if std::env::var_os("PUNCTUAL_WRITE_HEADER").is_some() {
        fs::write(&header, &written).expect("the header is writable");
    }
    let committed = fs::read_to_string(&header).expect("the header exists");
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

/// Files of `src/`, in the order of the header.
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
