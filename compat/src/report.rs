//! The first difference, told so that it can be understood and replayed.

use std::fmt;

use punctual_resp::Value;

use crate::command::{Command, Quoted, Step};
use crate::generate::Protocol;

/// Values longer than this are cut in reports.
const SHOWN_MAX: usize = 400;

/// How many commands that touched the same keys a report shows.
const RECENT: usize = 10;

/// A value in the notation of the protocol, on one line.
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

/// Bytes, escaped and cut.
pub fn show_bytes(bytes: &[u8]) -> String {
    cut(bytes.escape_ascii().to_string())
}

fn cut(text: String) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((at, _)) => format!("{}... ({} bytes in all)", &text[..at], text.len()),
        None => text,
    }
}

/// What was found to differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finding {
    /// In a few words.
    pub headline: String,
    /// The command answered differently, if it was one.
    pub command: Option<Command>,
    /// What A said.
    pub a: String,
    /// What B said.
    pub b: String,
    /// The keys it is about.
    pub keys: Vec<Vec<u8>>,
    /// Commands that show it, sent after those that led to it; `None` if it cannot be seen by replaying commands.
    pub probes: Option<Vec<Command>>,
}

/// A difference between the two servers, with all that is needed to see it again.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Of the stream.
    pub seed: u64,
    /// Of the connections.
    pub protocol: Protocol,
    /// Commands sent before it, or with it.
    pub number: u64,
    /// The difference itself.
    pub finding: Finding,
    /// The last commands that touched the same keys, with their numbers.
    pub recent: Vec<(u64, Command)>,
    /// Commands that show the difference on two empty servers, as few as were found; empty if none were.
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
            writeln!(f, "  command: {}", cut(command.to_string()))?;
        }
        for (side, said) in [("A", &finding.a), ("B", &finding.b)] {
            if !(finding.a.is_empty() && finding.b.is_empty()) {
                writeln!(f, "  {side}: {said}")?;
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
                "not seen again by replaying recent commands on their own; replay the stream with --seed {seed}"
            )?;
        } else {
            writeln!(
                f,
                "to see it again, feed this to redis-cli{}:",
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

/// The last of the commands that touched any of the keys.
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
