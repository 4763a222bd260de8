//! Reports of the first difference, with the data to understand and reproduce it.

use std::fmt;

use punctual_resp::Value;

use crate::command::{Command, Quoted, Step};
use crate::generate::Protocol;

/// Maximum length of values in reports, in characters.
const SHOWN_MAX: usize = 400;

/// Maximum length of the command with different replies, in characters: scripts are long.
const COMMAND_SHOWN_MAX: usize = 4000;

/// Number of preceding commands on the same keys that a report shows.
const RECENT: usize = 10;

/// Formats a value on one line, in a notation like the protocol's, and truncates a long text.
pub fn show(value: &Value) -> String {
    let mut out = String::new();
    write_value(&mut out, value);
    cut(out)
}

fn write_value(out: &mut String, value: &Value) {
    let list = |out: &mut String, open: &str, items: &[Value]| {
        out.push_str(open);
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                out.push_str(", ");
            }
            write_value(out, item);
        }
        out.push(']');
    };
    match value {
        Value::Simple(text) => out.push_str(&format!("+{}", String::from_utf8_lossy(text))),
        Value::Error(text) => {
            out.push_str(&format!("-{}", text.escape_ascii()).replace("\\'", "'"))
        }
        Value::Int(number) => out.push_str(&format!(":{number}")),
        Value::Bulk(bytes) => out.push_str(&format!("${}", Quoted(bytes))),
        Value::NullBulk => out.push_str("$-1"),
        Value::NullArray => out.push_str("*-1"),
        Value::Null => out.push('_'),
        Value::Array(items) => list(out, "*[", items),
        Value::Set(items) => list(out, "~[", items),
        Value::Push(items) => list(out, ">[", items),
        other => out.push_str(&format!("{other:?}")),
    }
}

/// Formats bytes, escaped and truncated.
pub fn show_bytes(bytes: &[u8]) -> String {
    cut(bytes.escape_ascii().to_string())
}

fn cut(text: String) -> String {
    cut_at(text, SHOWN_MAX)
}

fn cut_at(text: String, shown: usize) -> String {
    match text.char_indices().nth(shown) {
        Some((at, _)) => format!("{}... ({} bytes in all)", &text[..at], text.len()),
        None => text,
    }
}

/// A difference without its context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finding {
    /// A short description.
    pub headline: String,
    /// The command with different replies, if any.
    pub command: Option<Command>,
    /// The output of A.
    pub a: String,
    /// The output of B.
    pub b: String,
    /// The affected keys.
    pub keys: Vec<Vec<u8>>,
    /// Commands that show the difference if they run after the preceding commands; `None` if a
    /// replay of commands cannot show it.
    pub probes: Option<Vec<Command>>,
}

/// A difference between the two servers, with the data to reproduce it.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The seed of the stream.
    pub seed: u64,
    /// The protocol of the connections.
    pub protocol: Protocol,
    /// Number of commands sent so far, including the command with different replies.
    pub number: u64,
    /// The difference itself.
    pub finding: Finding,
    /// The last commands on the same keys, with their numbers.
    pub recent: Vec<(u64, Command)>,
    /// A short list of commands that shows the difference on two empty servers; empty if none was
    /// found.
    pub repro: Vec<Command>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference {
            seed,
            protocol,
            number,
            finding,
            ..
        } = self;
        writeln!(
            f,
            "the servers differ: {} (seed {seed}, {protocol}, near command {number})",
            finding.headline
        )?;
        if let Some(command) = &finding.command {
            let command = cut_at(command.to_string(), COMMAND_SHOWN_MAX);
            writeln!(f, "  command: {command}")?;
        }
        for (side, output) in [("A", &finding.a), ("B", &finding.b)] {
            if !(finding.a.is_empty() && finding.b.is_empty()) {
                writeln!(f, "  {side}: {output}")?;
            }
        }
        if !self.recent.is_empty() {
            writeln!(f, "the last commands on the same keys:")?;
            for (number, command) in &self.recent {
                writeln!(f, "  {number:>8}  {}", cut(command.to_string()))?;
            }
        }
        if self.repro.is_empty() {
            writeln!(
                f,
                "not reproduced by replaying recent commands alone; replay the stream with --seed {seed}"
            )?;
        } else {
            writeln!(
                f,
                "to reproduce it, feed this to redis-cli{}:",
                if *protocol == Protocol::Resp3 {
                    " -3"
                } else {
                    ""
                }
            )?;
            writeln!(f, "  FLUSHALL")?;
            for command in &self.repro {
                writeln!(f, "  {command}")?;
            }
        }
        Ok(())
    }
}

/// Returns the last commands that have any of the keys as arguments.
pub fn recent<'s>(
    history: impl DoubleEndedIterator<Item = &'s (u64, Step)>,
    keys: &[Vec<u8>],
) -> Vec<(u64, Command)> {
    let mut found: Vec<_> = history
        .rev()
        .filter(|(_, step)| keys.iter().any(|key| step.command.mentions(key)))
        .take(RECENT)
        .map(|(number, step)| (*number, step.command.clone()))
        .collect();
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_show_their_types() {
        let value = Value::Array(vec![
            Value::Int(1),
            Value::NullBulk,
            Value::bulk("a b"),
            Value::Simple(b"OK".to_vec()),
        ]);
        assert_eq!(show(&value), r#"*[:1, $-1, $"a b", +OK]"#);
        assert_eq!(show(&Value::Error(b"ERR \r\n".to_vec())), r"-ERR \r\n");
    }

    #[test]
    fn long_values_are_cut_between_characters() {
        let shown = show(&Value::Simple("ж".repeat(1000).into_bytes()));
        assert!(shown.ends_with("in all)") && shown.len() < 1000);
    }

    #[test]
    fn recent_commands_are_those_on_the_keys_in_order() {
        let history: Vec<(u64, Step)> = (0..50)
            .map(|n| {
                (
                    n,
                    Command::of(&["SET", if n % 2 == 0 { "even" } else { "odd" }, "v"]).into(),
                )
            })
            .collect();
        let found = recent(history.iter(), &[b"odd".to_vec()]);
        assert_eq!(
            found.iter().map(|(number, _)| *number).collect::<Vec<_>>(),
            (31..50).step_by(2).collect::<Vec<_>>()
        );
    }
}
