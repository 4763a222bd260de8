//! MULTI, EXEC, DISCARD and WATCH on the main connection; a transaction always ends within its
//! group.

use super::{Family, named};
use crate::command::{Command, Step};
use crate::draw::Draw;

/// Appends one transaction, or a single command of this family. `data` appends a group of steps of
/// another family.
pub(super) fn commands(
    draw: &mut Draw,
    data: &mut dyn FnMut(&mut Draw, &mut Vec<Step>),
    steps: &mut Vec<Step>,
) {
    match draw.between(0..=99) {
        0..=4 => steps.push(named(draw, "EXEC").into()),
        5..=9 => steps.push(named(draw, "DISCARD").into()),
        10..=13 => steps.push(named(draw, "UNWATCH").into()),
        14..=19 => wrong(draw, steps),
        20..=44 => watched(draw, data, steps),
        _ => transaction(draw, data, steps),
    }
}

/// Commands that are always invalid: EXEC refuses a transaction with one of them.
const WRONG: &[&[&str]] = &[
    &["MULTI", "x"],
    &["EXEC", "x"],
    &["DISCARD", "x"],
    &["WATCH"],
    &["UNWATCH", "x"],
    &["NOSUCHCOMMAND"],
    &["GET"],
    &["SET", "k0"],
    &["LPUSH", "l0"],
    &["CLIENT", "NOSUCH"],
    &["OBJECT"],
];

/// Commands that are refused only inside a transaction; some of them do not make EXEC fail.
const REFUSED_INSIDE: &[&[&str]] = &[
    &["MULTI"],
    &["MULTI"],
    &["WATCH", "k0"],
    &["WATCH", "k0", "nosuch"],
    &["SAVE"],
];

fn wrong(draw: &mut Draw, steps: &mut Vec<Step>) {
    steps.push(Command::of(WRONG[draw.count(0..=WRONG.len() - 1)]).into());
}

fn transaction(
    draw: &mut Draw,
    data: &mut dyn FnMut(&mut Draw, &mut Vec<Step>),
    steps: &mut Vec<Step>,
) {
    steps.push(named(draw, "MULTI").into());
    let spoiled = draw.chance(12);
    for _ in 0..draw.weighted(&[(1, 0), (3, 1), (4, 2), (4, 4), (2, 8)]) {
        match draw.between(0..=99) {
            0..=4 => steps
                .push(Command::of(REFUSED_INSIDE[draw.count(0..=REFUSED_INSIDE.len() - 1)]).into()),
            5..=7 => steps.push(named(draw, "UNWATCH").into()),
            8..=11 => {
                let database = draw.between(0..=2).to_string();
                steps.push(named(draw, "SELECT").arg(database).into());
            }
            12..=14 if spoiled => wrong(draw, steps),
            15..=17 => steps.push(Command::of(&["PUBLISH", "ch:a", "from a transaction"]).into()),
            _ => data(draw, steps),
        }
    }
    if spoiled {
        wrong(draw, steps);
        data(draw, steps);
    }
    let end = draw.weighted(&[(9, "EXEC"), (1, "DISCARD")]);
    steps.push(named(draw, end).into());
}

/// Appends WATCH, commands on the same connection, and a transaction. The connection's own changes
/// between WATCH and MULTI make EXEC fail.
fn watched(
    draw: &mut Draw,
    data: &mut dyn FnMut(&mut Draw, &mut Vec<Step>),
    steps: &mut Vec<Step>,
) {
    let mut watch = named(draw, "WATCH");
    watch.extend(draw.any_keys(4));
    steps.push(watch.into());
    for _ in 0..draw.between(0..=2) {
        data(draw, steps);
    }
    if draw.chance(15) {
        let end = draw.pick(&["UNWATCH", "DISCARD", "EXEC"]);
        steps.push(named(draw, end).into());
    }
    transaction(draw, data, steps);
}

/// Returns true if commands of the family may be in a transaction: each command gets one reply,
/// independently of the state of the connection.
pub(super) fn may_be_queued(family: Family) -> bool {
    matches!(
        family,
        Family::Strings
            | Family::Lists
            | Family::Hashes
            | Family::Fields
            | Family::Sets
            | Family::Zsets
            | Family::Bitmaps
            | Family::Hyperloglog
            | Family::Geo
            | Family::Sort
            | Family::Keys
            | Family::Expiry
            | Family::Dumps
            | Family::Blocking
            | Family::Scripts
    )
}
