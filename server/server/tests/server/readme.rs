//! Runs the `console` blocks of the README, ARCHITECTURE.md, CONTRIBUTING.md, CHANGELOG.md and the
//! pages in `docs`, and compares their output with the pages.
//!
//! `$ make run` starts a server in this process, on a free port that replaces the port on the page.
//! `redis-cli` and `sleep` run as on the page; a `redis-cli` that subscribes runs until the end of
//! the page. Other commands do not run: the test checks that targets of `make` and examples exist,
//! and that `punctual` accepts its arguments. Rust blocks of the README are doc tests of the
//! library.

use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use punctual_server::Server;
use punctual_server::config::Config;

/// Timeout for a message.
const PATIENCE: Duration = Duration::from_secs(20);

/// Fields with measured values, for which any number matches.
const MEASURED: &[&str] = &["timers_lateness_usec_"];

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the workspace exists")
}

/// A command on the page, and the lines that the page shows below it.
struct Example {
    line: usize,
    command: String,
    shown: Vec<String>,
}

/// Returns the examples of a page's `console` blocks, in order.
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

/// Returns whether an output line matches the line on the page.
fn matches_page(shown: &str, came: &str) -> bool {
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

/// A subscribed `redis-cli` and its output lines.
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
                // redis-cli's own messages differ between versions.
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
        // Three lines confirm the subscription.
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
        // redis-cli may have exited together with the server.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// State of a page while its examples run.
struct Page {
    name: String,
    /// Servers by the port on the page.
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
            shown.len() == came.len() && shown.iter().zip(came).all(|(a, b)| matches_page(a, b));
        assert!(
            same,
            "{}:{line}: $ {command}\nshould print\n{}\nbut printed\n{}",
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
                assert!(
                    root().join(&file).is_file(),
                    "{place}: {file} does not exist"
                );
            }
            ["target/release/punctual", arguments @ ..] => {
                let status = Command::new(env!("CARGO_BIN_EXE_punctual"))
                    .args(arguments)
                    .arg("--help")
                    .stdout(Stdio::null())
                    .status();
                assert!(
                    status.is_ok_and(|s| s.success()),
                    "{place}: the program refuses these arguments"
                );
            }
            // scripts/check-docs checks the options of the benchmarks.
            ["cargo", "build", ..] | ["target/release/punctual-bench", ..] => {}
            ["redis-cli" | "sleep", ..] => self.run_shell(example, &words, &place),
            _ => panic!("{place}: this test does not support the command"),
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
                .unwrap_or_else(|| panic!("{place}: no server on port {port}"));
            // `--no-raw` prints as on a terminal. The port of the server replaces the port on the
            // page.
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

/// Splits a command line into words: quotes group, as in the shell, and a lone `#` ends the line.
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

/// Starts the server of `make run` with these settings on a free port. Returns the port on the page
/// and the server.
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
    // Without save points, no snapshot file remains.
    arguments.extend(["--bind", "127.0.0.1", "--save", ""].map(str::to_owned));
    let config = Config::from_args(arguments)?;
    Ok((port, Server::builder().config(config).port(0).spawn()?))
}

fn has_target(name: &str) -> bool {
    let makefile =
        std::fs::read_to_string(root().join("Makefile")).expect("the Makefile is readable");
    makefile
        .lines()
        .any(|line| line.starts_with(&format!("{name}:")))
}

/// Returns the pages whose examples run.
fn pages() -> Vec<PathBuf> {
    let docs = std::fs::read_dir(root().join("docs")).expect("the folder `docs` is readable");
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
    assert!(ours.len() == 10 && ours.is_disjoint(&effective));
    effective.extend(ours);
    let table = std::fs::read_to_string(root().join("server/server/src/config/table.rs")).unwrap();
    let mut on_page = [BTreeSet::new(), BTreeSet::new()];
    let mut last = "";
    for line in table.lines() {
        if let Some(row) = line.strip_prefix("    ")
            && let Some((kind, rest)) = row.split_once("(\"")
            && kind.chars().all(|c| c.is_ascii_lowercase() || c == '_')
        {
            last = rest.split('"').next().unwrap_or_default();
        }
        if line.contains(".implemented()") {
            on_page[0].insert(last);
        } else if line.contains(".fixed(\"") {
            on_page[1].insert(last);
        }
    }
    assert_eq!(effective, on_page[0]);
    assert_eq!(fixed, on_page[1]);
}

#[test]
fn output_lines_are_compared() {
    assert!(matches_page("OK", "OK") && !matches_page("OK", "KO"));
    assert!(matches_page(
        "timers_lateness_usec_p50:7",
        "timers_lateness_usec_p50:150.5"
    ));
    assert!(!matches_page(
        "timers_lateness_usec_p50:7",
        "timers_lateness_usec_p90:7"
    ));
    assert!(!matches_page("timers_fired:1", "timers_fired:2"));
    assert_eq!(
        words("make run ARGS=\"--a b\" # c"),
        ["make", "run", "ARGS=--a b"]
    );
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
