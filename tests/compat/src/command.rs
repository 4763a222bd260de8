//! A command: its arguments, and its text for redis-cli.

use std::fmt;

/// One command: the name and its arguments, which may be any bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    args: Vec<Vec<u8>>,
}

impl Command {
    /// Returns a command without arguments.
    pub fn new(name: impl AsRef<[u8]>) -> Self {
        Self {
            args: vec![name.as_ref().to_vec()],
        }
    }

    /// Returns a command with these words: the name and the arguments.
    pub fn of(words: &[&str]) -> Self {
        Self {
            args: words.iter().map(|word| word.as_bytes().to_vec()).collect(),
        }
    }

    /// Returns the command with one more argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<[u8]>) -> Self {
        self.push(argument);
        self
    }

    /// Appends one argument.
    pub fn push(&mut self, argument: impl AsRef<[u8]>) {
        self.args.push(argument.as_ref().to_vec());
    }

    /// Appends several arguments.
    pub fn extend<A: AsRef<[u8]>>(&mut self, arguments: impl IntoIterator<Item = A>) {
        for argument in arguments {
            self.push(argument);
        }
    }

    /// Returns the name and the arguments.
    pub fn args(&self) -> &[Vec<u8>] {
        &self.args
    }

    /// Returns the name and the arguments for modification; the name must stay first.
    pub fn args_mut(&mut self) -> &mut Vec<Vec<u8>> {
        &mut self.args
    }

    /// Returns the name in capitals, the form in which names are compared.
    pub fn name(&self) -> String {
        self.word(0)
    }

    /// Returns the argument at `index` in capitals, or an empty string if it is absent.
    pub fn word(&self, index: usize) -> String {
        self.args
            .get(index)
            .map(|argument| String::from_utf8_lossy(argument).to_ascii_uppercase())
            .unwrap_or_default()
    }

    /// Returns true if any argument after the name is exactly `key`.
    pub fn mentions(&self, key: &[u8]) -> bool {
        self.args.iter().skip(1).any(|argument| argument == key)
    }
}

/// Formats the command as a line for `redis-cli` (typed, or on its standard input).
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

/// Bytes in the syntax of `redis-cli`: plain if that is unambiguous, otherwise quoted with `\xHH`
/// escapes.
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

/// A command of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The command.
    pub command: Command,
    /// True if the server sends one reply; false if `CLIENT REPLY OFF` or `SKIP` suppresses it.
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
    fn lines_have_the_syntax_of_redis_cli() {
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
