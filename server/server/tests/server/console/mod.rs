//! Runs the `console` blocks of a page, and compares their output with the page.
//!
//! - `$ make run` and `$ punctual` start a server. Free ports replace the ports on the page, here
//!   and in later commands.
//! - `redis-cli`, `openssl` and `sleep` run as on the page, in a temporary folder. A `redis-cli`
//!   that subscribes or blocks runs until the end of the page.
//! - Other commands do not run. The test checks that targets of `make` and examples exist, and that
//!   the binary accepts its arguments.

mod listener;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use punctual_harness::{Launch, Wire, free_port};
use tempfile::TempDir;

use crate::process::Process;
use listener::Listener;

/// Fields with measured values, for which any number matches.
const MEASURED: &[&str] = &["timers_lateness_usec_"];

/// Maximum number of attempts to start a server: another process may take one of its ports first.
const ATTEMPTS: usize = 5;

/// Returns the folder of the workspace.
pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the workspace exists")
}

/// A command on the page, and the lines that the page shows below it.
pub struct Example {
    line: usize,
    command: String,
    shown: Vec<String>,
}

/// Returns the examples of a page's `console` blocks, in order.
pub fn examples(text: &str) -> Vec<Example> {
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
                let last = all.last_mut().expect("a block begins with a command");
                match last.command.strip_suffix('\\') {
                    Some(half) if last.shown.is_empty() => {
                        last.command = half.to_owned() + line.trim_start();
                    }
                    _ => last.shown.push(line.to_owned()),
                }
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

/// State of a page while its examples run.
pub struct Page {
    name: String,
    /// Folder in which the commands and the servers run.
    folder: TempDir,
    /// Ports in use, by the port on the page.
    ports: BTreeMap<String, u16>,
    servers: Vec<Process>,
    listeners: Vec<Listener>,
}

impl Page {
    /// Runs all examples of a page.
    ///
    /// # Panics
    /// If a command fails, is not supported, or prints other lines than the page shows.
    pub fn follow(path: &Path) {
        let name = path.strip_prefix(root()).unwrap_or(path);
        let name = name.display().to_string();
        let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut page = Self {
            name,
            folder: TempDir::new().expect("the system has a folder for temporary files"),
            ports: BTreeMap::new(),
            servers: Vec::new(),
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
            ["make", "run", settings @ ..] => self.serve(&run_arguments(settings), &place),
            ["punctual", arguments @ ..] => self.serve(arguments, &place),
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
            ["redis-cli" | "openssl" | "sleep", ..] => self.run_shell(example, &words, &place),
            _ => panic!("{place}: this test does not support the command"),
        }
    }

    /// Starts the binary with these arguments. Each of its ports gets a free port.
    fn serve(&mut self, arguments: &[&str], place: &str) {
        let mut arguments = arguments.to_vec();
        if !arguments.contains(&"--port") {
            arguments.extend(["--port", "6379"]);
        }
        let options = arguments.windows(2);
        let ports =
            options.filter(|pair| matches!(pair, ["--port" | "--tls-port", port] if *port != "0"));
        let ports: Vec<String> = ports.map(|pair| pair[1].to_owned()).collect();
        let mut last = None;
        for _ in 0..ATTEMPTS {
            for port in &ports {
                self.ports.insert(port.clone(), free_port());
            }
            let launch = Launch::of(env!("CARGO_BIN_EXE_punctual"))
                .folder(self.folder.path())
                .options(["--bind", "127.0.0.1"])
                .options(arguments.iter().map(|word| self.with_free_ports(word)));
            match launch.start() {
                Ok(server) => return self.servers.push(server),
                Err(error) => last = Some(error),
            }
        }
        panic!("{place}: {}", last.expect("an attempt failed"));
    }

    /// Replaces ports of the page by the ports in use.
    fn with_free_ports(&self, word: &str) -> String {
        let parts: Vec<String> = word
            .split(' ')
            .map(|part| match self.ports.get(part) {
                Some(port) => port.to_string(),
                None => part.to_owned(),
            })
            .collect();
        parts.join(" ")
    }

    fn run_shell(&mut self, example: Example, words: &[String], place: &str) {
        let mut command = self.with_free_ports(&example.command);
        if words[0] == "redis-cli" {
            let named = words.iter().position(|word| word == "-p");
            let port = named.map_or("6379", |i| &words[i + 1]);
            let Some(port) = self.ports.get(port) else {
                panic!("{place}: no server on port {port}");
            };
            // `--no-raw` prints as on a terminal.
            let rest = &command["redis-cli".len()..];
            command = format!("redis-cli --no-raw -p {port}{rest}");
            let word = |word: &String| word.to_ascii_lowercase();
            if words.iter().any(|w| word(w).ends_with("subscribe")) {
                let mut listener = Listener::start(example, &command, self.folder.path());
                // Three lines confirm the subscription.
                listener.read_until(3);
                return self.listeners.push(listener);
            }
            if words.iter().any(|word| word == "BLOCK") {
                let mut wire = Wire::to(*port);
                let mut blocked = || -> u64 {
                    let field = wire.info("clients", "blocked_clients");
                    field.parse().expect("the field is a number")
                };
                let before = blocked();
                let listener = Listener::start(example, &command, self.folder.path());
                punctual_harness::eventually(|| blocked() > before);
                return self.listeners.push(listener);
            }
        }
        let output = Command::new("sh")
            .args(["-c", &command])
            .current_dir(self.folder.path())
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
    let mut was_quoted = false;
    for c in command.chars().chain([' ']) {
        match (quote, c) {
            (Some(q), _) if q == c => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                was_quoted = true;
            }
            (None, ' ') if word.is_empty() && !was_quoted => {}
            (None, ' ') if word == "#" => break,
            (None, ' ') => {
                words.push(std::mem::take(&mut word));
                was_quoted = false;
            }
            _ => word.push(c),
        }
    }
    words
}

/// Returns the server's arguments for the settings of `make run`.
fn run_arguments<'a>(settings: &[&'a str]) -> Vec<&'a str> {
    // Without save points, no snapshot file remains.
    let mut arguments = vec!["--save", ""];
    for setting in settings {
        match setting.split_once('=') {
            Some(("PORT", number)) => arguments.extend(["--port", number]),
            Some(("ARGS", text)) => arguments.extend(text.split_whitespace()),
            _ => panic!("make run takes no {setting}"),
        }
    }
    arguments
}

fn has_target(name: &str) -> bool {
    let makefile =
        std::fs::read_to_string(root().join("Makefile")).expect("the Makefile is readable");
    makefile
        .lines()
        .any(|line| line.starts_with(&format!("{name}:")))
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
    assert_eq!(words("punctual --save ''"), ["punctual", "--save", ""]);
}
