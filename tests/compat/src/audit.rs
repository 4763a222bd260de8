//! Comparison of the whole state of both servers: every key of every database.

use punctual_resp::Value;

use crate::command::Command;
use crate::compare::{Rule, Tolerance};
use crate::differences::accepts;
use crate::link::{LinkError, Pair};
use crate::report::{Finding, show};

/// Number of databases that are compared: Redis's default.
const DATABASES: usize = 16;

/// The queries for each key. The query for the value follows them, because it depends on TYPE.
const QUESTIONS: [&[&str]; 4] = [
    &["TYPE"],
    &["PEXPIRETIME"],
    &["PTTL"],
    &["OBJECT", "ENCODING"],
];

/// Limits up to which a collection has a compact encoding: bytes of an element, number of elements
/// of a set or sorted set, bytes of a list.
const SMALL_ELEMENT_MAX: usize = 64;
const SMALL_SET_MAX: usize = 128;
const SMALL_LIST_MAX: usize = 8192;

/// Returns the command that reads the whole value of a key of this type.
fn value_of(kind: &Value, key: &[u8]) -> Option<Command> {
    let Value::Simple(kind) = kind else {
        return None;
    };
    Some(match &kind[..] {
        b"string" => Command::new("GET").arg(key),
        b"list" => Command::new("LRANGE").arg(key).arg("0").arg("-1"),
        b"hash" => Command::new("HGETALL").arg(key),
        b"set" => Command::new("SMEMBERS").arg(key),
        b"zset" => Command::new("ZRANGE")
            .arg(key)
            .arg("0")
            .arg("-1")
            .arg("WITHSCORES"),
        b"stream" => Command::of(&["XINFO", "STREAM"])
            .arg(key)
            .arg("FULL")
            .arg("COUNT")
            .arg("0"),
        _ => return None,
    })
}

/// Returns true if a key of this type and value may have this encoding. `oracle` is the encoding on
/// the redis-server. Equality with it is not required, because 7.0 has other encodings for small
/// sets and lists.
fn encoding_fits(kind: &Value, encoding: &Value, value: &Value, oracle: &Value) -> bool {
    let Value::Simple(kind) = kind else {
        return true;
    };
    let elements = value.as_slice().unwrap_or_default();
    let lengths = || elements.iter().filter_map(Value::as_bytes).map(<[u8]>::len);
    match (&kind[..], encoding.as_bytes().unwrap_or_default()) {
        (b"set", b"listpack") => {
            elements.len() <= SMALL_SET_MAX && lengths().all(|length| length <= SMALL_ELEMENT_MAX)
        }
        // Integers are packed, so texts of up to twenty bytes, which may be integers, do not count.
        (b"list", b"listpack") => {
            lengths().filter(|length| *length > 20).sum::<usize>() <= SMALL_LIST_MAX
        }
        // SORT converts a sorted set of the oracle to a skiplist.
        (b"zset", b"listpack") if encoding != oracle => {
            let pairs = elements.iter().filter_map(Value::as_slice);
            let entries = pairs.clone().count().max(elements.len() / 2);
            let names = pairs.flatten().filter_map(Value::as_bytes).map(<[u8]>::len);
            entries <= SMALL_SET_MAX
                && lengths()
                    .chain(names)
                    .all(|length| length <= SMALL_ELEMENT_MAX)
        }
        (b"set" | b"list", _) => true,
        (b"hash", b"listpack") => oracle.as_bytes() != Some(b"hashtable"),
        _ => encoding == oracle,
    }
}

/// Compares one key of the selected database.
///
/// # Errors
/// A [`LinkError`] if a server does not reply.
pub fn key(
    pair: &mut Pair,
    key: &[u8],
    mut tolerance: Tolerance,
) -> Result<Option<Finding>, LinkError> {
    keys(pair, &[Value::bulk(key)], &mut tolerance, "a key")
}

/// Compares keys of the selected database.
fn keys(
    pair: &mut Pair,
    keys: &[Value],
    tolerance: &mut Tolerance,
    place: &str,
) -> Result<Option<Finding>, LinkError> {
    let names = || keys.iter().filter_map(Value::as_bytes);
    let commands: Vec<Command> = names()
        .flat_map(|key| {
            QUESTIONS
                .iter()
                .map(move |words| Command::of(words).arg(key))
        })
        .collect();
    let replies = ask_all(pair, &commands, tolerance)?;
    for (at, (command, answers)) in commands.iter().zip(&replies).enumerate() {
        let (a, b) = answers;
        if !Rule::of(command).same(a, b, *tolerance) && !accepts(pair.peer, command, a, b) {
            let key = names().nth(at / QUESTIONS.len()).unwrap_or_default();
            return Ok(Some(finding(
                place,
                command.clone(),
                vec![key.to_vec()],
                answers,
            )));
        }
    }
    let kinds: Vec<&Value> = replies
        .chunks(QUESTIONS.len())
        .map(|answers| &answers[0].0)
        .collect();
    let encodings = replies.chunks(QUESTIONS.len()).map(|answers| &answers[3]);
    let asked: Vec<_> = names()
        .zip(kinds)
        .zip(encodings)
        .filter_map(|((key, kind), encodings)| Some((key, kind, encodings, value_of(kind, key)?)))
        .collect();
    let commands: Vec<Command> = asked.iter().map(|(.., command)| command.clone()).collect();
    let values = ask_all(pair, &commands, tolerance)?;
    for ((key, kind, encodings, command), answers) in asked.into_iter().zip(&values) {
        let (a, b) = answers;
        if !Rule::of(&command).same(a, b, *tolerance) && !accepts(pair.peer, &command, a, b) {
            return Ok(Some(finding(place, command, vec![key.to_vec()], answers)));
        }
        let ask = Command::of(&["OBJECT", "ENCODING"]).arg(key);
        if !encoding_fits(kind, &encodings.0, &answers.0, &encodings.1)
            && !accepts(pair.peer, &ask, &encodings.0, &encodings.1)
        {
            let command = ask;
            return Ok(Some(finding(place, command, vec![key.to_vec()], encodings)));
        }
    }
    Ok(None)
}

/// Compares all databases over `pair`, which has no unread replies. Returns `Ok(None)` if they are
/// equal.
///
/// # Errors
/// A [`LinkError`] if a server does not reply.
pub fn audit(pair: &mut Pair, tolerance: &mut Tolerance) -> Result<Option<Finding>, LinkError> {
    let sizes: Vec<Command> = (0..DATABASES)
        .flat_map(|db| {
            [
                Command::of(&["SELECT", &db.to_string()]),
                Command::of(&["DBSIZE"]),
            ]
        })
        .collect();
    let replies = ask_all(pair, &sizes, tolerance)?;
    for (db, answers) in replies.chunks(2).enumerate() {
        let sizes = &answers[1];
        if sizes.0 == Value::Int(0) && sizes.1 == Value::Int(0) {
            continue;
        }
        if let Some(finding) = database(pair, db, tolerance)? {
            return Ok(Some(finding));
        }
        if sizes.0 != sizes.1 {
            let finding = finding(&place(db), Command::of(&["DBSIZE"]), Vec::new(), sizes);
            return Ok(Some(seen_in(db, finding)));
        }
    }
    Ok(None)
}

/// Audits, then gives the keys of server A the deadlines that they have on server B, so that the
/// tolerance can be small again after a stall of the machine.
///
/// The audit fails for deadlines that differ by more than the tolerance. The commands that set the
/// deadlines go to both servers, so that both publish the same events.
///
/// # Errors
/// A [`LinkError`] if a server does not reply.
pub fn align(pair: &mut Pair, tolerance: &mut Tolerance) -> Result<Option<Finding>, LinkError> {
    if let Some(finding) = audit(pair, tolerance)? {
        return Ok(Some(finding));
    }
    for db in 0..DATABASES {
        let listing = [
            Command::of(&["SELECT", &db.to_string()]),
            Command::of(&["KEYS", "*"]),
        ];
        let keys = ask_all(pair, &listing, tolerance)?.remove(1).0;
        let keys: Vec<&[u8]> = keys
            .as_slice()
            .unwrap_or_default()
            .iter()
            .filter_map(Value::as_bytes)
            .collect();
        let questions: Vec<Command> = keys
            .iter()
            .map(|key| Command::of(&["PEXPIRETIME"]).arg(key))
            .collect();
        let deadlines = ask_all(pair, &questions, tolerance)?;
        let moves: Vec<Command> = keys
            .iter()
            .zip(&deadlines)
            .filter(|(_, (a, b))| a != b)
            .filter_map(|(key, (_, b))| {
                Some(
                    Command::of(&["PEXPIREAT"])
                        .arg(key)
                        .arg(b.as_int()?.to_string()),
                )
            })
            .collect();
        for (command, answers) in moves.iter().zip(ask_all(pair, &moves, tolerance)?) {
            if answers != (Value::Int(1), Value::Int(1)) {
                let about = vec![command.args()[1].clone()];
                let finding = finding(&place(db), command.clone(), about, &answers);
                return Ok(Some(seen_in(db, finding)));
            }
        }
    }
    *tolerance = Tolerance::default();
    Ok(None)
}

fn ask_all(
    pair: &mut Pair,
    commands: &[Command],
    tolerance: &mut Tolerance,
) -> Result<Vec<(Value, Value)>, LinkError> {
    let exchange = pair.exchange(commands, commands.len());
    tolerance.record(exchange.elapsed);
    match exchange.failure {
        Some(error) => Err(error),
        None => Ok(exchange.replies),
    }
}

fn database(
    pair: &mut Pair,
    db: usize,
    tolerance: &mut Tolerance,
) -> Result<Option<Finding>, LinkError> {
    let select = Command::of(&["SELECT", &db.to_string()]);
    let list = Command::of(&["KEYS", "*"]);
    let mut replies = ask_all(
        pair,
        &[select.clone(), list.clone(), Command::of(&["RANDOMKEY"])],
        tolerance,
    )?;
    let random = replies.remove(2);
    let keys = replies.remove(1);
    if !Rule::AnyOrder.same(&keys.0, &keys.1, *tolerance) {
        return Ok(Some(missing_keys(db, list, &keys)));
    }
    let keys = keys.0.as_slice().unwrap_or_default();
    for (side, key) in [("A", &random.0), ("B", &random.1)] {
        if !keys.contains(key) {
            let finding = Finding {
                headline: format!("RANDOMKEY of {side} names no key of database {db}"),
                ..finding(&place(db), Command::of(&["RANDOMKEY"]), Vec::new(), &random)
            };
            return Ok(Some(seen_in(db, finding)));
        }
    }
    let found = self::keys(pair, keys, tolerance, &place(db))?;
    Ok(found.map(|finding| seen_in(db, finding)))
}

/// Adds the commands that show the finding: SELECT, and the finding's own command.
fn seen_in(db: usize, finding: Finding) -> Finding {
    let select = Command::of(&["SELECT", &db.to_string()]);
    Finding {
        probes: Some(
            [select]
                .into_iter()
                .chain(finding.command.clone())
                .collect(),
        ),
        ..finding
    }
}

fn place(db: usize) -> String {
    format!("the state of database {db}")
}

fn finding(place: &str, command: Command, keys: Vec<Vec<u8>>, answers: &(Value, Value)) -> Finding {
    Finding {
        headline: place.to_owned(),
        probes: None,
        command: Some(command),
        a: show(&answers.0),
        b: show(&answers.1),
        keys,
    }
}

/// Returns a finding with the keys that only one side has.
fn missing_keys(db: usize, list: Command, keys: &(Value, Value)) -> Finding {
    let only = |these: &Value, those: &Value| -> Vec<Value> {
        let those = those.as_slice().unwrap_or_default();
        these
            .as_slice()
            .unwrap_or_default()
            .iter()
            .filter(|key| !those.contains(key))
            .cloned()
            .collect()
    };
    let (only_a, only_b) = (only(&keys.0, &keys.1), only(&keys.1, &keys.0));
    let about = only_a
        .iter()
        .chain(&only_b)
        .filter_map(Value::as_bytes)
        .map(<[u8]>::to_vec)
        .collect();
    let finding = Finding {
        headline: format!("the keys of database {db}"),
        a: format!("only here: {}", show(&Value::Array(only_a))),
        b: format!("only here: {}", show(&Value::Array(only_b))),
        ..finding(&place(db), list, about, keys)
    };
    seen_in(db, finding)
}
