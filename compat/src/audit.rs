//! The whole state of both servers: every key of every database.

use punctual_resp::Value;

use crate::command::Command;
use crate::compare::{Rule, Tolerance};
use crate::link::{LinkError, Pair};
use crate::report::{Finding, show};

/// Databases that either server is asked about; redis's default number.
const DATABASES: usize = 16;

/// What is asked about each key, beside its existence.
const QUESTIONS: [&[&str]; 5] = [
    &["TYPE"],
    &["GET"],
    &["PEXPIRETIME"],
    &["PTTL"],
    &["OBJECT", "ENCODING"],
];

/// Compares both servers' databases over `pair`, which nothing else uses. `Ok(None)`: they agree.
///
/// # Errors
/// A [`LinkError`] if a server does not answer.
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
            return Ok(Some(finding(
                db,
                Command::of(&["DBSIZE"]),
                Vec::new(),
                sizes,
            )));
        }
    }
    Ok(None)
}

/// Audits, and then gives A's keys the deadlines that B's have, so that the tolerance can be small again after a stall.
///
/// Deadlines that lie apart by less than the tolerance say the same; the commands go to both servers, so that both tell
/// the same events.
///
/// # Errors
/// A [`LinkError`] if a server does not answer.
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
                return Ok(Some(finding(
                    db,
                    command.clone(),
                    vec![command.args()[1].clone()],
                    &answers,
                )));
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
    tolerance.saw(exchange.elapsed);
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
            return Ok(Some(finding(
                db,
                Command::of(&["RANDOMKEY"]),
                Vec::new(),
                &random,
            ))
            .map(|finding| Finding {
                headline: format!("RANDOMKEY of {side} names no key of database {db}"),
                ..finding
            }));
        }
    }
    let questions: Vec<(Command, &[u8])> = keys
        .iter()
        .filter_map(Value::as_bytes)
        .flat_map(|key| {
            QUESTIONS
                .iter()
                .map(move |words| (Command::of(words).arg(key), key))
        })
        .collect();
    let commands: Vec<Command> = questions
        .iter()
        .map(|(command, _)| command.clone())
        .collect();
    let replies = ask_all(pair, &commands, tolerance)?;
    for ((command, key), answers) in questions.into_iter().zip(&replies) {
        if !Rule::of(&command).same(&answers.0, &answers.1, *tolerance) {
            return Ok(Some(finding(db, command, vec![key.to_vec()], answers)));
        }
    }
    Ok(None)
}

fn finding(db: usize, command: Command, keys: Vec<Vec<u8>>, answers: &(Value, Value)) -> Finding {
    Finding {
        headline: format!("the state of database {db}"),
        probes: Some(vec![
            Command::of(&["SELECT", &db.to_string()]),
            command.clone(),
        ]),
        command: Some(command),
        a: show(&answers.0),
        b: show(&answers.1),
        keys,
    }
}

/// Tells the keys that only one side has.
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
    Finding {
        headline: format!("the keys of database {db}"),
        a: format!("only here: {}", show(&Value::Array(only_a))),
        b: format!("only here: {}", show(&Value::Array(only_b))),
        ..finding(db, list, about, keys)
    }
}
