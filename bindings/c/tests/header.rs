//! Checks that `punctual.h` and `punctual_server.h` equal the output of cbindgen for their sources.

use std::fs;
use std::path::Path;

#[test]
fn the_header_of_the_timers_is_current() {
    check(&Header {
        folder: "../c",
        name: "punctual.h",
        modules: &[
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
        ],
        status_prefix: ("PUNCTUAL_STATUS_", "PUNCTUAL_"),
    });
}

#[test]
fn the_header_of_the_server_is_current() {
    check(&Header {
        folder: "../c-server",
        name: "punctual_server.h",
        modules: &["version", "status", "server", "client", "reply"],
        status_prefix: ("PUNCTUAL_SERVER_STATUS_", "PUNCTUAL_SERVER_"),
    });
}

/// A generated header, and its sources.
struct Header {
    folder: &'static str,
    name: &'static str,
    /// Files of `src/`, in the order of the header.
    modules: &'static [&'static str],
    /// Prefix of the statuses: as cbindgen writes it (the enum's name), and as the header has it.
    status_prefix: (&'static str, &'static str),
}

fn check(header: &Header) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join(header.folder);
    let config =
        cbindgen::Config::from_file(here.join("cbindgen.toml")).expect("cbindgen.toml is valid");
    let mut builder = cbindgen::Builder::new().with_config(config);
    // Adds the files one by one, to define the order of the header and to avoid `cargo metadata`.
    for module in header.modules {
        builder = builder.with_src(here.join("src").join(format!("{module}.rs")));
    }
    let mut written = Vec::new();
    builder
        .generate()
        .expect("the exports of src/ have a C declaration")
        .write(&mut written);
    let (from, to) = header.status_prefix;
    let written = String::from_utf8(written)
        .expect("the header is UTF-8")
        .replace(from, to)
        // Removes Rust's heading of the guarantees that the caller must give.
        .replace(" * # Safety\n *\n", "");

    let name = header.name;
    let file = here.join("include").join(name);
    if std::env::var_os("PUNCTUAL_WRITE_HEADER").is_some() {
        fs::write(&file, &written).expect("the header is writable");
    }
    let committed = fs::read_to_string(&file).expect("the header exists");
    let different = written
        .lines()
        .zip(committed.lines())
        .position(|(written, committed)| written != committed);
    assert!(
        written == committed,
        "{name} is out of date (from line {:?}): PUNCTUAL_WRITE_HEADER=1 cargo test -p punctual-c --test header",
        different.map(|line| line + 1)
    );
}
