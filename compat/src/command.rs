//! A command as it is sent: its arguments, and how a person would type it.

use std::fmt;

/// One command: the name and its arguments, any bytes at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    args: Vec<Vec<u8>>,
}

impl Command {
    /// A command without arguments yet.
    pub fn new(name: impl AsRef<[u8]>) -> Self {
        Self {
            args: vec![name.as_ref().to_vec()],
        }
    }

    /// A command from words; for fixed commands.
    pub fn of(words: &[&str]) -> Self {
        Self {
            args: words.iter().map(|word| word.as_bytes().to_vec()).collect(),
        }
    }

    /// The same command with one more argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<[u8]>) -> Self {
        self.push(argument);
        self
    }

    /// Adds one argument.
    pub fn push(&mut self, argument: impl AsRef<[u8]>) {
        self.args.push(argument.as_ref().to_vec());
    }

    /// Adds several arguments.
    pub fn extend<A: AsRef<[u8]>>(&mut self, arguments: impl IntoIterator<Item = A>) {
        for argument in arguments {
            self.push(argument);
        }
    }

    /// Every argument, the name first.
    pub fn args(&self) -> &[Vec<u8>] {
        &self.args
    }

    /// Every argument, to be changed in place; the name stays first.
    pub fn args_mut(&mut self) -> &mut Vec<Vec<u8>> {
        &mut self.args
    }

    /// The name in capitals; how names are compared everywhere.
    pub fn name(&self) -> String {
        self.word(0)
    }

    /// The argument at `index` in capitals, empty when there is none.
    pub fn word(&self, index: usize) -> String {
        self.args
            .get(index)
            .map(|argument| String::from_utf8_lossy(argument).to_ascii_uppercase())
            .unwrap_or_default()
    }

    /// Whether any argument after the name is exactly `key`.
    pub fn mentions(&self, key: &[u8]) -> bool {
        self.args.iter().skip(1).any(|argument| argument == key)
    }
}

/// As a line for `redis-cli` (typed, or fed to its standard input).
impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, argument) in self.args.iter().enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            write!(f, "{}", Quoted(argument))?;
        }
        Ok(())
    }
}

/// Bytes as `redis-cli` reads them: plain when that is unambiguous, else quoted with `\xHH` escapes.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(pub &'a [u8]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = !self.0.is_empty()
            && self
                .0
                .iter()
                .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\'));
        if plain {
            return f.write_str(&String::from_utf8_lossy(self.0));
        }
        f.write_str("\"")?;
        for &byte in self.0 {
            match byte {
                b'"' | b'\\' => write!(f, "\\{}", char::from(byte))?,
                b'\n' => f.write_str("\\n")?,
                b'\r' => f.write_str("\\r")?,
                b'\t' => f.write_str("\\t")?,
                b' '..=b'~' => write!(f, "{}", char::from(byte))?,
                _ => write!(f, "\\x{byte:02x}")?,
            }
        }
        f.write_str("\"")
    }
}

/// A command and whether it is answered: `CLIENT REPLY OFF` and `SKIP` silence some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is sent.
    pub command: Command,
    /// Whether one reply follows; otherwise none does.
    pub answered: bool,
}

impl From<Command> for Step {
    fn from(command: Command) -> Self {
        Self {
            command,
            answered: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_what_redis_cli_reads() {
        let command = Command::new("SET")
            .arg("a b")
            .arg(b"\x00\"\r\n")
            .arg("")
            .arg("plain:1");
        assert_eq!(command.to_string(), r#"SET "a b" "\x00\"\r\n" "" plain:1"#);
    }

    #[test]
    fn words_are_in_capitals_and_absent_ones_empty() {
        let command = Command::of(&["object", "Encoding", "k"]);
        assert_eq!(
            (command.name().as_str(), command.word(1).as_str()),
            ("OBJECT", "ENCODING")
        );
        assert_eq!(command.word(9), "");
        assert!(command.mentions(b"k") && !command.mentions(b"object"));
    }
}
