//! A fixed corpus of scripts in `corpus/*.txt`. Punctual ("ours") and redis-server must give the
//! same bytes. A line `= SCRIPT` is a whole entry: `EVAL SCRIPT 0`. Any other entry starts with
//! `=== NAME`, and has these lines:
//!
//! - `> COMMAND ...`: a command in redis-cli's syntax. An argument `$` stands for the lines below.
//! - `! stricter: REASON`: where the replies differ, ours must be an error.
//! - `! unsafe: REASON`: redis-server 7.0 would crash, stall or leak memory, so only our server
//!   runs the entry; replies without a `<` line must be errors.
//! - `! ours: REASON`: redis-server's reply is wrong or depends on its internals, so only our
//!   server runs the entry.
//! - `< REPLY`: our server's required reply to the command before, in the notation of [`show`].
//!   With this line, redis-server's reply to the command is not compared.
//!
//! Lines that start with `##` are headings. An entry runs on a new connection, without keys,
//! scripts and functions.

use punctual_resp::{Limits, Parser, Value, decode, encode_command};

use crate::command::Command;
use crate::generate::Protocol;
use crate::link::{Addresses, Link, LinkError, Side};
use crate::report::{show, show_bytes};

/// Number of commands that precede every entry, and of their replies.
const SET_UP: usize = 4;

/// How the replies of an entry are judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The replies are equal.
    Same,
    /// The replies are equal, or ours is an error.
    Stricter,
    /// Only our server runs the entry. Its replies are errors unless the entry states others.
    Unsafe,
    /// Only our server runs the entry. It may have any replies unless the entry states them.
    Ours,
}

/// One command of an entry, and our reply if the entry states it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The command.
    pub command: Command,
    /// Our reply, in the notation of [`show`].
    pub reply: Option<String>,
}

/// One entry of the corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name; for an entry of a single line, the script.
    pub name: String,
    /// Number of the first line.
    pub line: usize,
    /// How the replies are judged.
    pub verdict: Verdict,
    /// Commands of the entry, one per line of the corpus.
    pub steps: Vec<Step>,
}

/// Parses a file of the corpus.
///
/// # Errors
/// The first line that is not of the format, with its number.
pub fn parse(text: &str) -> Result<Vec<Entry>, String> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((at, line)) = lines.next() {
        let wrong = |why: &str| format!("line {}: {why}: {line}", at + 1);
        if line.trim().is_empty() || line.starts_with("##") {
            continue;
        }
        let mut begin = |name: &str, steps| {
            entries.push(Entry {
                name: name.to_owned(),
                line: at + 1,
                verdict: Verdict::Same,
                steps,
            });
        };
        if let Some(name) = line.strip_prefix("=== ") {
            begin(name, Vec::new());
            continue;
        }
        if let Some(script) = line.strip_prefix("= ") {
            let command = Command::new("EVAL").arg(script).arg("0");
            begin(
                script,
                vec![Step {
                    command,
                    reply: None,
                }],
            );
            continue;
        }
        let entry = entries.last_mut().ok_or_else(|| wrong("no entry"))?;
        if let Some(verdict) = line.strip_prefix("! ") {
            entry.verdict = match verdict.split_once(": ").map(|(word, _)| word) {
                Some("stricter") => Verdict::Stricter,
                Some("unsafe") => Verdict::Unsafe,
                Some("ours") => Verdict::Ours,
                _ => return Err(wrong("no verdict with a reason")),
            };
        } else if let Some(reply) = line.strip_prefix("< ") {
            let step = entry
                .steps
                .last_mut()
                .ok_or_else(|| wrong("no command before it"))?;
            step.reply = Some(reply.to_owned());
        } else if let Some(command) = line.strip_prefix("> ") {
            let mut script = String::new();
            while let Some((_, line)) = lines.next_if(|(_, line)| !is_structure(line)) {
                script.push_str(line);
                script.push('\n');
            }
            // The line break at the end is not part of a script.
            script.pop();
            let command = words(command, &script).ok_or_else(|| wrong("not a command"))?;
            entry.steps.push(Step {
                command,
                reply: None,
            });
        } else {
            return Err(wrong("neither a command nor below one"));
        }
    }
    if let Some(empty) = entries.iter().find(|entry| entry.steps.is_empty()) {
        return Err(format!("line {}: an entry without commands", empty.line));
    }
    Ok(entries)
}

/// Returns true if the line ends the script above it.
fn is_structure(line: &str) -> bool {
    line.trim().is_empty()
        || ["> ", "< ", "! ", "= ", "=== ", "##"]
            .iter()
            .any(|mark| line.starts_with(mark))
}

/// Splits a line as redis-cli does; `$` is replaced by the script.
fn words(line: &str, script: &str) -> Option<Command> {
    let mut parser = Parser::new();
    let line = format!("{line}\n");
    let parsed = parser
        .parse(line.as_bytes(), &Limits::default())
        .ok()
        .flatten()?;
    let mut words = parsed.args.iter();
    let mut command = Command::new(words.next()?);
    for word in words {
        match word {
            b"$" => command.push(script),
            _ => command.push(word),
        }
    }
    Some(command)
}

/// Runs an entry on both servers. Returns a description of the first difference.
///
/// # Errors
/// A [`LinkError`] if a server cannot be reached or does not end the conversation.
pub fn run(
    entry: &Entry,
    addresses: Addresses,
    protocol: Protocol,
) -> Result<Option<String>, LinkError> {
    let ours = converse(entry, Side::A, addresses, protocol)?;
    let theirs = match entry.verdict {
        Verdict::Same | Verdict::Stricter => Some(converse(entry, Side::B, addresses, protocol)?),
        Verdict::Unsafe | Verdict::Ours => None,
    };
    for (at, step) in entry.steps.iter().enumerate() {
        let our_reply = ours.get(at);
        let their_reply = theirs.as_ref().map(|replies| replies.get(at));
        let refused = our_reply.is_some_and(|bytes| bytes.starts_with(b"-"));
        let expected = match (&step.reply, their_reply, &entry.verdict) {
            (Some(text), ..) => our_reply.is_some_and(|bytes| notation(bytes) == *text),
            (None, None, Verdict::Unsafe) => refused,
            (None, None, _) => our_reply.is_some(),
            (None, Some(reply), verdict) => {
                same(our_reply, reply) || *verdict == Verdict::Stricter && refused
            }
        };
        if !expected {
            let told =
                |reply: Option<&Vec<u8>>| reply.map_or("nothing".to_owned(), |r| notation(r));
            let wanted = match (&step.reply, their_reply) {
                (Some(text), _) => format!("the entry: {text}"),
                (None, Some(reply)) => format!("redis: {}", told(reply)),
                (None, None) if entry.verdict == Verdict::Ours => "the entry: a reply".to_owned(),
                (None, None) => "the entry: an error".to_owned(),
            };
            return Ok(Some(format!(
                "line {}, {protocol}: {}\n  command {}: {}\n  ours:  {}\n  {wanted}",
                entry.line,
                entry.name,
                at + 1,
                show_bytes(step.command.to_string().as_bytes()),
                told(our_reply),
            )));
        }
    }
    Ok(None)
}

/// Returns true if the replies are the same bytes, except for the digits of doubles: ours has the
/// digits of 7.2.
fn same(ours: Option<&Vec<u8>>, theirs: Option<&Vec<u8>>) -> bool {
    let (Some(ours), Some(theirs)) = (ours, theirs) else {
        return false;
    };
    ours == theirs
        || matches!((decode(ours), decode(theirs)), (Ok(Some((a, _))), Ok(Some((b, _))))
            if has_double(&a) && format!("{a:?}") == format!("{b:?}"))
}

/// Returns the raw replies of one server to an entry's commands.
fn converse(
    entry: &Entry,
    side: Side,
    addresses: Addresses,
    protocol: Protocol,
) -> Result<Vec<Vec<u8>>, LinkError> {
    let address = match side {
        Side::A => addresses.a,
        Side::B => addresses.b,
    };
    let link = Link::connect(side, address)?;
    let set_up: [Command; SET_UP] = [
        Command::of(&["FLUSHALL"]),
        Command::of(&["SCRIPT", "FLUSH"]),
        Command::of(&["FUNCTION", "FLUSH"]),
        protocol.hello(),
    ];
    let mut bytes = Vec::new();
    for command in set_up
        .iter()
        .chain(entry.steps.iter().map(|step| &step.command))
    {
        encode_command(&mut bytes, command.args());
    }
    link.send(&bytes)?;
    let output = link.finish()?;
    let mut rest = &output[..];
    let mut replies = Vec::new();
    while let Ok(Some((_, length))) = decode(rest) {
        replies.push(rest[..length].to_vec());
        rest = &rest[length..];
    }
    if !rest.is_empty() {
        // Bytes that cannot be decoded are compared without decoding.
        replies.push(rest.to_vec());
    }
    Ok(replies.split_off(SET_UP.min(replies.len())))
}

/// Formats a raw reply.
fn notation(bytes: &[u8]) -> String {
    match decode(bytes) {
        // The decoded form of a double does not have its digits.
        Ok(Some((value, _))) if !has_double(&value) => show(&value),
        _ => show_bytes(bytes),
    }
}

fn has_double(value: &Value) -> bool {
    match value {
        Value::Double(_) => true,
        Value::Map(pairs) => pairs
            .iter()
            .any(|(key, value)| has_double(key) || has_double(value)),
        other => other.as_slice().unwrap_or_default().iter().any(has_double),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_scripts_verdicts_and_replies() {
        let text = "## heading\n= return 1\n\n=== two\n! unsafe: it crashes\n> FUNCTION LOAD $\n#!lua name=a\n  x = 1\n< -ERR no\n> GET \"a b\"\n";
        let entries = parse(text).expect("the format");
        assert_eq!(entries.len(), 2);
        assert_eq!(entries[0].name, "return 1");
        assert_eq!(
            (entries[1].line, &entries[1].verdict),
            (4, &Verdict::Unsafe)
        );
        let steps = &entries[1].steps;
        assert_eq!(steps[0].command.args()[2], b"#!lua name=a\n  x = 1");
        assert_eq!(steps[0].reply.as_deref(), Some("-ERR no"));
        assert_eq!(steps[1].command.args()[1], b"a b");
        assert_eq!(steps[1].reply, None);
    }

    #[test]
    fn lines_outside_of_the_format_are_refused() {
        for text in [
            "return 1",
            "=== a\nreturn 1",
            "=== a\n! perhaps\n> PING",
            "=== a",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
