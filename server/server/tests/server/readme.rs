//! Runs the `console` blocks of the README, ARCHITECTURE.md, CONTRIBUTING.md, CHANGELOG.md and the
//! pages in `docs` ([`console`](crate::console) says how), and compares the pages' lists of commands
//! and directives with the server's. Rust blocks of the README are doc tests of the library.

use std::collections::BTreeSet;
use std::path::PathBuf;

use punctual_server::Server;
use punctual_server::config::Config;

use crate::console::{Page, examples, root};

/// A test of its own, because its servers and waits take some seconds.
const TUTORIAL: &str = "docs/tutorial.md";

/// Returns the pages whose examples run, except the tutorial.
fn pages() -> Vec<PathBuf> {
    let docs = std::fs::read_dir(root().join("docs")).expect("the folder `docs` is readable");
    let mut pages: Vec<PathBuf> = docs.flatten().map(|entry| entry.path()).collect();
    pages.retain(|path| path.extension().is_some_and(|e| e == "md") && !path.ends_with(TUTORIAL));
    pages.extend(
        [
            "README.md",
            "ARCHITECTURE.md",
            "CONTRIBUTING.md",
            "CHANGELOG.md",
        ]
        .map(|name| root().join(name)),
    );
    pages
}

#[test]
fn pages_show_real_output() {
    assert!(
        examples(&std::fs::read_to_string(root().join("README.md")).unwrap()).len() > 10,
        "the README has console examples"
    );
    for page in pages() {
        Page::follow(&page);
    }
}

#[test]
fn the_tutorial_shows_real_output() {
    let path = root().join(TUTORIAL);
    assert!(
        examples(&std::fs::read_to_string(&path).unwrap()).len() > 40,
        "each step of the tutorial is a console example"
    );
    Page::follow(&path);
}

#[test]
fn the_tour_names_existing_functions() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let mut steps = 0;
    for row in rows(&text) {
        let [_, file, function] = row[..] else {
            continue;
        };
        let file = file.trim_matches('`');
        if !file.ends_with(".rs") {
            continue;
        }
        let code = std::fs::read_to_string(root().join(file)).expect(file);
        let function = function.trim_matches('`');
        assert!(
            ["(", "<"]
                .iter()
                .any(|open| code.contains(&format!("fn {function}{open}"))),
            "{file} has no function `{function}`"
        );
        steps += 1;
    }
    assert!(steps > 20, "the tour follows three commands");
}

/// Returns the cells of a page's table rows.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
}

#[test]
fn the_page_lists_the_server_s_commands() {
    let text = std::fs::read_to_string(root().join("docs/redis-compatibility.md")).unwrap();
    let mut shown = BTreeSet::new();
    let mut of_containers = false;
    for row in rows(&text) {
        match row[..] {
            ["family" | "of", _] => of_containers = row[0] == "of",
            [_, ""] => {}
            [first, ..] if first.is_empty() || first.starts_with(['-', '`']) => {}
            // COMMAND LIST has no subcommands of DEBUG, as in Redis.
            ["DEBUG", _] => {}
            [container, words] if of_containers && container == container.to_uppercase() => {
                shown.extend(
                    words
                        .split(' ')
                        .map(|word| format!("{container}|{word}").to_lowercase()),
                );
            }
            [_, words] if words == words.to_uppercase() => {
                shown.extend(words.split(' ').map(str::to_lowercase));
            }
            _ => {}
        }
    }
    let server = Server::builder().port(0).spawn().unwrap();
    let client = redis::Client::open(format!("redis://127.0.0.1:{}", server.port())).unwrap();
    let mut connection = client.get_connection().unwrap();
    let in_table: BTreeSet<String> = redis::cmd("COMMAND")
        .arg("LIST")
        .query(&mut connection)
        .unwrap();
    assert_eq!(
        shown.difference(&in_table).collect::<Vec<_>>(),
        [""; 0],
        "on the page only"
    );
    assert_eq!(
        in_table.difference(&shown).collect::<Vec<_>>(),
        [""; 0],
        "in the server only"
    );
}

#[test]
fn the_page_lists_the_server_s_directives() {
    let text = std::fs::read_to_string(root().join("docs/redis-compatibility.md")).unwrap();
    let (mut effective, mut ours) = (BTreeSet::new(), BTreeSet::new());
    let mut in_ours = false;
    for row in rows(&text) {
        match row[..] {
            ["have an effect", words] => effective.extend(words.split(' ')),
            ["ours", _, _] => in_ours = true,
            [first, _, _] if in_ours && !first.starts_with('-') => {
                ours.insert(first);
            }
            _ => {}
        }
    }
    assert!(ours.len() == 15 && ours.is_disjoint(&effective));
    effective.extend(ours);
    let table = std::fs::read_to_string(root().join("server/server/src/config/table.rs")).unwrap();
    let mut implemented = BTreeSet::new();
    let mut last = "";
    for line in table.lines() {
        if let Some(row) = line.strip_prefix("    ")
            && let Some((kind, rest)) = row.split_once("(\"")
            && kind.chars().all(|c| c.is_ascii_lowercase() || c == '_')
        {
            last = rest.split('"').next().unwrap_or_default();
        }
        if line.contains(".implemented()") {
            implemented.insert(last);
        }
    }
    assert_eq!(effective, implemented);
}

/// The options in the files that start the server elsewhere are valid options of this binary.
#[test]
fn the_unit_and_the_image_start_this_server() {
    let unit = std::fs::read_to_string(root().join("packaging/punctual.service")).unwrap();
    let image = std::fs::read_to_string(root().join("Dockerfile")).unwrap();
    let start = unit.lines().find_map(|line| {
        let (_, options) = line.strip_prefix("ExecStart=")?.split_once(".conf ")?;
        Some(options.split(' ').map(String::from).collect::<Vec<_>>())
    });
    let entry = image.lines().find_map(|line| {
        let words = line.strip_prefix("ENTRYPOINT [\"punctual\", ")?;
        let words = words.strip_suffix(']')?.split(", ");
        Some(words.map(|word| word.trim_matches('"').into()).collect())
    });
    for options in [start.unwrap(), entry.unwrap()] {
        let mut config = Config::new().unwrap();
        for pair in options.chunks(2) {
            let name = pair[0].strip_prefix("--").unwrap();
            // `dir` names a folder of the user's machine, which need not exist here.
            if name != "dir" {
                config.option(name, &pair[1]).unwrap();
            }
        }
        assert!(options.contains(&"--dir".into()), "{options:?}");
    }
}
