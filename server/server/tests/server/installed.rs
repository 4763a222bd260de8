//! Files that `make install` installs.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_punctual");

/// Returns the output of a command that must succeed.
fn output(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the long options in a text.
fn options(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    words.filter(|word| word.len() > 2 && word.starts_with("--"))
}

/// Returns the completions of bash for the last word of a command line.
fn completed(script: &Path, program: &Path, words: &str) -> Vec<String> {
    let offered = output(Command::new("bash").arg("-c").arg(format!(
        "source {script:?}; COMP_WORDS=({program:?} {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
         _punctual {program:?}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )));
    offered.lines().map(str::to_owned).collect()
}

#[test]
fn an_installation_is_complete() {
    let stage = tempfile::tempdir().unwrap();
    output(
        Command::new("../../scripts/install")
            .arg("/opt/punctual")
            .env("DESTDIR", stage.path())
            .env("BINARY", PROGRAM),
    );
    let root = stage.path().join("opt/punctual");
    let program = root.join("bin/punctual");
    assert!(output(Command::new(&program).arg("--version")).starts_with("Punctual "));
    assert!(fs::metadata(&program).unwrap().len() < fs::metadata(PROGRAM).unwrap().len());

    let unit = fs::read_to_string(root.join("lib/systemd/system/punctual.service")).unwrap();
    assert!(unit.contains("\nExecStart=/opt/punctual/bin/punctual /etc/"));

    let manual = fs::read_to_string(root.join("share/man/man1/punctual.1")).unwrap();
    let manual = manual.replace("\\-", "-");
    let help = output(Command::new(&program).args(["top", "--help"]));
    let options: Vec<&str> = options(&help).collect();
    assert!(options.contains(&"--once"));
    for option in &options {
        assert!(manual.contains(option), "{option} is not in the manual");
    }

    let script = root.join("share/bash-completion/completions/punctual");
    let completed = |words| completed(&script, &program, words);
    assert_eq!(completed("--maxmemory-p"), ["--maxmemory-policy"]);
    assert_eq!(completed("a.conf --dbf"), ["--dbfilename"]);
    assert_eq!(completed("top --insec"), ["--insecure"]);
    assert_eq!(completed("to"), ["top"]);
    for zsh_or_fish in [
        "zsh/site-functions/_punctual",
        "fish/vendor_completions.d/punctual.fish",
    ] {
        assert!(root.join("share").join(zsh_or_fish).exists());
    }
}
