//! The README and the pages in `docs` are true: their `console` blocks are run, and what is shown must come.
//!
//! `$ make run` starts a server in this process, on a free port that stands in for the one on the page. `redis-cli` is
//! the real one. A command that subscribes goes on until the end of the page. Of `make`, `cargo` and benchmarks only
//! the arguments are tried. Rust blocks of the README are doctests of the library.

use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use punctual_server::Server;
use punctual_server::config::Config;

/// A message that does not come is waited for no longer than this.
const PATIENCE: Duration = Duration::from_secs(20);

/// Fields whose numbers are measured: any number will do.
const MEASURED: &[&str] = &["timers_lateness_usec_"];

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the workspace is there")
}

/// A command on the page and the lines shown below it.
struct Example {
    line: usize,
    command: String,
    shown: Vec<String>,
}

/// The examples of a page's `console` blocks, in order.
fn examples(text: &str) -> Vec<Example> {
    let mut all: Vec<Example> = Vec::new();
    let mut inside = false;
    for (number, line) in text.lines().enumerate() {
        match (inside, line.strip_prefix("$ ")) {
            (false, _) => inside = line == "```console",
            (true, _) if line == "```" => inside = false,
            (true, Some(command)) => all.push(Example {
                line: number + 1,
                command: command.to_owned(),
                shown: Vec::new(),
            }),
            (true, None) => {
                let last = all.last_mut();
                last.expect("a block begins with a command")
                    .shown
                    .push(line.to_owned());
            }
        }
    }
    all
}

/// Whether a line came as it is shown.
fn is_as_shown(shown: &str, came: &str) -> bool {
    let measured = |line: &str| {
        let (name, number) = line.split_once(':')?;
        number.parse::<f64>().ok()?;
        MEASURED
            .iter()
            .any(|field| name.starts_with(field))
            .then(|| name.to_owned())
    };
    shown == came || (measured(shown).is_some() && measured(shown) == measured(came))
}

fn lines_of(output: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(output).replace('\r', "");
    text.trim_end().lines().map(str::to_owned).collect()
}

/// A `redis-cli` that subscribes, and its lines.
struct Listener {
    example: Example,
    process: Child,
    lines: Receiver<String>,
    came: Vec<String>,
}

impl Listener {
    fn start(example: Example, command: &str) -> Self {
        let mut process = Command::new("sh")
            .args(["-c", &format!("exec {command}")])
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh runs");
        let out = process.stdout.take().expect("it is piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                // What redis-cli says by itself differs between versions.
                if !line.starts_with("Reading messages") && sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut listener = Self {
            example,
            process,
            lines,
            came: Vec::new(),
        };
        // It has subscribed when the three lines that say so are there.
        listener.read_until(3);
        listener
    }

    fn read_until(&mut self, count: usize) {
        let end = Instant::now() + PATIENCE;
        while self.came.len() < count {
            match self
                .lines
                .recv_timeout(end.saturating_duration_since(Instant::now()))
            {
                Ok(line) => self.came.push(line),
                Err(_) => return,
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // It may have ended with the server.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A page as it is followed.
struct Page {
    name: String,
    /// By the port on the page.
    servers: HashMap<String, Server>,
    listeners: Vec<Listener>,
}

impl Page {
    fn follow(path: &Path) {
        let name = path
            .strip_prefix(root())
            .unwrap_or(path)
            .display()
            .to_string();
        let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut page = Self {
            name,
            servers: HashMap::new(),
            listeners: Vec::new(),
        };
        for example in examples(&text) {
            page.run(example);
        }
        for mut listener in std::mem::take(&mut page.listeners) {
            listener.read_until(listener.example.shown.len());
            page.compare(&listener.example, &listener.came);
        }
    }

    fn compare(&self, example: &Example, came: &[String]) {
        let Example {
            line,
            command,
            shown,
        } = example;
        let same =
            shown.len() == came.len() && shown.iter().zip(came).all(|(a, b)| is_as_shown(a, b));
        assert!(
            same,
            "{}:{line}: $ {command}\nis shown with\n{}\nand gave\n{}",
            self.name,
            shown.join("\n"),
            came.join("\n")
        );
    }

    fn run(&mut self, example: Example) {
        let place = format!("{}:{}: {}", self.name, example.line, example.command);
        let words = words(&example.command);
        match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["make", "run", settings @ ..] => {
                let (port, server) = serve(settings).unwrap_or_else(|e| panic!("{place}: {e}"));
                self.servers.insert(port, server);
            }
            ["make", target, ..] => assert!(
                has_target(target),
                "{place}: the Makefile has no such target"
            ),
            [
                "cargo",
                "run",
                "--release",
                "-p",
                package,
                "--example",
                example,
                ..,
            ] => {
                let file = format!("crates/{package}/examples/{example}.rs");
                assert!(root().join(&file).is_file(), "{place}: {file} is not there");
            }
            ["target/release/punctual", arguments @ ..] => {
                let status = Command::new(env!("CARGO_BIN_EXE_punctual"))
                    .args(arguments)
                    .arg("--help")
                    .stdout(Stdio::null())
                    .status();
                assert!(
                    status.is_ok_and(|s| s.success()),
                    "{place}: it does not take these arguments"
                );
            }
            ["redis-cli" | "sleep", ..] => self.run_shell(example, &words, &place),
            _ => panic!("{place}: this test does not know how to try that"),
        }
    }

    fn run_shell(&mut self, example: Example, words: &[String], place: &str) {
        let port = match words {
            [_, p, port, ..] if p == "-p" => port,
            _ => "6379",
        };
        let mut command = example.command.clone();
        if words[0] == "redis-cli" {
            let server = self
                .servers
                .get(port)
                .unwrap_or_else(|| panic!("{place}: no server on {port} yet"));
            // As on a terminal; the last port holds.
            command = format!("redis-cli --no-raw {}", &command["redis-cli".len()..]).replacen(
                &format!("-p {port}"),
                "",
                1,
            );
            command = command.replacen("--no-raw", &format!("--no-raw -p {}", server.port()), 1);
        }
        if words
            .iter()
            .any(|w| w.to_ascii_lowercase().ends_with("subscribe"))
        {
            self.listeners.push(Listener::start(example, &command));
            return;
        }
        let output = Command::new("sh")
            .args(["-c", &command])
            .output()
            .expect("sh runs");
        assert!(
            output.status.success(),
            "{place}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        self.compare(&example, &lines_of(&output.stdout));
    }
}

/// The words of a command line; quotes group, as in the shell, and a lone `#` ends it.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    for c in command.chars().chain([' ']) {
        match (quote, c) {
            (Some(q), _) if q == c => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, ' ') if word.is_empty() => {}
            (None, ' ') if word == "#" => break,
            (None, ' ') => words.push(std::mem::take(&mut word)),
            _ => word.push(c),
        }
    }
    words
}

/// What `make run` does with these settings, on a free port; and the port that it says.
fn serve(settings: &[&str]) -> Result<(String, Server), Box<dyn std::error::Error>> {
    let mut port = "6379".to_owned();
    let mut arguments: Vec<String> = Vec::new();
    for setting in settings {
        match setting.split_once('=') {
            Some(("PORT", number)) => number.clone_into(&mut port),
            Some(("ARGS", text)) => {
                arguments = text.split_whitespace().map(str::to_owned).collect()
            }
            _ => return Err(format!("make run takes no {setting}").into()),
        }
    }
    // A test leaves no snapshots behind.
    arguments.extend(["--bind", "127.0.0.1", "--save", ""].map(str::to_owned));
    let config = Config::from_args(arguments)?;
    Ok((port, Server::builder().config(config).port(0).spawn()?))
}

fn has_target(name: &str) -> bool {
    let makefile = std::fs::read_to_string(root().join("Makefile")).expect("there is a Makefile");
    makefile
        .lines()
        .any(|line| line.starts_with(&format!("{name}:")))
}

/// Every page for people who come to the project.
fn pages() -> Vec<PathBuf> {
    let docs = std::fs::read_dir(root().join("docs")).expect("there is a folder `docs`");
    let mut pages: Vec<PathBuf> = docs.flatten().map(|entry| entry.path()).collect();
    pages.retain(|path| path.extension().is_some_and(|e| e == "md"));
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
fn what_pages_show_is_what_comes() {
    assert!(
        examples(&std::fs::read_to_string(root().join("README.md")).unwrap()).len() > 10,
        "the README has a tour"
    );
    for page in pages() {
        Page::follow(&page);
    }
}

#[test]
fn the_tour_names_functions_that_exist() {
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

/// The cells of a page's table rows.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
}

#[test]
fn commands_on_the_page_are_those_of_the_server() {
    let text = std::fs::read_to_string(root().join("docs/redis-compatibility.md")).unwrap();
    let mut shown = BTreeSet::new();
    let mut of_containers = false;
    for row in rows(&text) {
        match row[..] {
            ["family" | "of", _] => of_containers = row[0] == "of",
            [_, ""] => {}
            [first, ..] if first.is_empty() || first.starts_with('-') => {}
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
    let there: BTreeSet<String> = redis::cmd("COMMAND")
        .arg("LIST")
        .query(&mut connection)
        .unwrap();
    assert_eq!(
        shown.difference(&there).collect::<Vec<_>>(),
        [""; 0],
        "on the page only"
    );
    assert_eq!(
        there.difference(&shown).collect::<Vec<_>>(),
        [""; 0],
        "in the server only"
    );
}

#[test]
fn directives_on_the_page_are_those_of_the_table() {
    let text = std::fs::read_to_string(root().join("docs/redis-compatibility.md")).unwrap();
    let (mut effective, mut fixed, mut ours) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut in_ours = false;
    for row in rows(&text) {
        match row[..] {
            ["have an effect", words] => effective.extend(words.split(' ')),
            [first, words] if first.starts_with("must stay") => fixed.extend(words.split(' ')),
            ["ours", _, _] => in_ours = true,
            [first, _, _] if in_ours && !first.starts_with('-') => {
                ours.insert(first);
            }
            _ => {}
        }
    }
    assert!(ours.len() == 4 && ours.is_disjoint(&effective));
    effective.extend(ours);
    let table =
        std::fs::read_to_string(root().join("crates/punctual-server/src/config/table.rs")).unwrap();
    let mut there = [BTreeSet::new(), BTreeSet::new()];
    let mut last = "";
    for line in table.lines() {
        if let Some(row) = line.strip_prefix("    ")
            && let Some((kind, rest)) = row.split_once("(\"")
            && kind.chars().all(|c| c.is_ascii_lowercase() || c == '_')
        {
            last = rest.split('"').next().unwrap_or_default();
        }
        if line.contains(".implemented()") {
            there[0].insert(last);
        } else if line.contains(".fixed(\"") {
            there[1].insert(last);
        }
    }
    assert_eq!(effective, there[0]);
    assert_eq!(fixed, there[1]);
}

#[test]
fn lines_are_compared() {
    assert!(is_as_shown("OK", "OK") && !is_as_shown("OK", "KO"));
    assert!(is_as_shown(
        "timers_lateness_usec_p50:7",
        "timers_lateness_usec_p50:150.5"
    ));
    assert!(!is_as_shown(
        "timers_lateness_usec_p50:7",
        "timers_lateness_usec_p90:7"
    ));
    assert!(!is_as_shown("timers_fired:1", "timers_fired:2"));
    assert_eq!(
        words("make run ARGS=\"--a b\" # c"),
        ["make", "run", "ARGS=--a b"]
    );
}
