//! Comparison of replies that depend on earlier commands: EXEC and samples.

use punctual_harness::Peer;
use punctual_resp::Value;

use super::collections::is_drawn_from;
use super::{Rule, Tolerance};
use crate::command::Command;
use crate::differences::accepts;

/// Compares the replies to the commands of one connection. It must get all of them in order.
#[derive(Debug, Default)]
pub struct Judge {
    /// Commands queued since MULTI; `None` outside a transaction.
    queued: Option<Vec<Command>>,
    /// The kind of the reference server.
    peer: Option<Peer>,
    /// The key of the last command and both replies, if the reply was a whole collection.
    listing: Option<(Vec<u8>, Value, Value)>,
}

impl Judge {
    /// Returns a judge for a connection outside any transaction, to a reference server of this
    /// kind.
    pub fn beside(peer: Option<Peer>) -> Self {
        Self {
            peer,
            ..Self::default()
        }
    }

    /// Returns true if the replies to the connection's next command count as equal.
    pub fn same(&mut self, command: &Command, a: &Value, b: &Value, tolerance: Tolerance) -> bool {
        let name = command.name();
        if is_status(a, b"QUEUED")
            && is_status(b, b"QUEUED")
            && let Some(queued) = &mut self.queued
        {
            queued.push(command.clone());
            return true;
        }
        let same = match name.as_str() {
            "MULTI" if is_status(a, b"OK") => {
                self.queued.get_or_insert_default();
                a == b
            }
            "EXEC" => {
                let queued = self.queued.take().unwrap_or_default();
                self.same_all(&queued, a, b, tolerance)
            }
            "DISCARD" | "RESET" if !a.is_error() => {
                self.queued = None;
                a == b
            }
            _ => self.same_alone(command, a, b, tolerance),
        };
        same || accepts(self.peer, command, a, b)
    }

    /// Compares the replies within EXEC, each by its own command's rule.
    fn same_all(&mut self, queued: &[Command], a: &Value, b: &Value, tolerance: Tolerance) -> bool {
        match (a, b) {
            (Value::Array(a), Value::Array(b)) => {
                a.len() == b.len()
                    && a.len() == queued.len()
                    && queued.iter().zip(a.iter().zip(b)).all(|(command, (a, b))| {
                        self.same_alone(command, a, b, tolerance)
                            || accepts(self.peer, command, a, b)
                    })
            }
            _ => a == b,
        }
    }

    fn same_alone(
        &mut self,
        command: &Command,
        a: &Value,
        b: &Value,
        tolerance: Tolerance,
    ) -> bool {
        let rule = Rule::of(command);
        let listing = self.listing.take();
        if rule == Rule::Sample
            && let (Some(key), Some((of, whole_a, whole_b))) = (command.args().get(1), listing)
            && *key == of
            && !(a.is_error() || b.is_error())
            && !(is_drawn_from(a, &whole_a) && is_drawn_from(b, &whole_b))
        {
            return false;
        }
        if is_listing(command)
            && let Some(key) = command.args().get(1)
        {
            self.listing = Some((key.clone(), a.clone(), b.clone()));
        }
        rule.same(a, b, tolerance)
    }
}

fn is_status(value: &Value, text: &[u8]) -> bool {
    matches!(value, Value::Simple(status) if status == text)
}

/// Returns true if the reply is the whole collection. Right before a sample of a collection,
/// generators send such a command.
fn is_listing(command: &Command) -> bool {
    match command.name().as_str() {
        "SMEMBERS" | "HGETALL" => true,
        "ZRANGE" => command.args().len() == 5 && command.word(2) == "0" && command.word(3) == "-1",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(text: &str) -> Value {
        Value::Simple(text.as_bytes().to_vec())
    }

    fn bulks(items: &[&str]) -> Value {
        Value::Array(items.iter().map(Value::bulk).collect())
    }

    #[test]
    fn replies_inside_exec_follow_the_rules_of_their_commands() {
        let mut judge = Judge::default();
        let mut same = |words: &[&str], a: Value, b: Value| {
            judge.same(&Command::of(words), &a, &b, Tolerance::default())
        };
        for _ in 0..2 {
            assert!(same(&["MULTI"], status("OK"), status("OK")));
            for words in [&["SMEMBERS", "s"][..], &["GET", "k"]] {
                assert!(same(words, status("QUEUED"), status("QUEUED")));
            }
            let all = |first: &[&str], second: &str| {
                Value::Array(vec![bulks(first), Value::bulk(second)])
            };
            assert!(same(
                &["EXEC"],
                all(&["a", "b"], "v"),
                all(&["b", "a"], "v")
            ));
            assert!(same(&["MULTI"], status("OK"), status("OK")));
            assert!(same(&["GET", "k"], status("QUEUED"), status("QUEUED")));
            assert!(!same(&["EXEC"], bulks(&["v"]), bulks(&["w"])));
            assert!(!same(&["EXEC"], Value::NullArray, bulks(&["w"])));
        }
    }

    #[test]
    fn commands_queued_on_one_side_only_differ() {
        let mut judge = Judge::default();
        assert!(!judge.same(
            &Command::of(&["GET", "k"]),
            &status("QUEUED"),
            &Value::bulk("v"),
            Tolerance::default()
        ));
    }

    #[test]
    fn samples_are_checked_against_the_preceding_listing() {
        let mut judge = Judge::default();
        let tolerance = Tolerance::default();
        let listing = Command::of(&["SMEMBERS", "s"]);
        let sample = Command::of(&["SRANDMEMBER", "s"]);
        let whole = bulks(&["a", "b"]);
        assert!(judge.same(&listing, &whole, &whole, tolerance));
        assert!(judge.same(&sample, &Value::bulk("a"), &Value::bulk("b"), tolerance));
        assert!(judge.same(&listing, &whole, &whole, tolerance));
        assert!(!judge.same(&sample, &Value::bulk("a"), &Value::bulk("c"), tolerance));
    }
}
