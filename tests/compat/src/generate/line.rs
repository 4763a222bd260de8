//! Random commands as lines of words: `LPOP|RPOP list 40% how-many`.
//!
//! - A word in capitals stands for itself, sometimes in mixed case, and so do numbers. `LPOP|RPOP`
//!   is one of these words.
//! - A word in small letters is drawn: `list` is a key of a list, `element` an element. [`drawn`]
//!   has all of them. `element*5` is one to five elements.
//! - `40%` goes on with this probability, and else ends the line.

use crate::command::Command;
use crate::draw::{Draw, Kind};

/// Returns the command of a line.
pub(super) fn command(draw: &mut Draw, line: &str) -> Command {
    let (name, arguments) = line.split_once(' ').unwrap_or((line, ""));
    let mut command = Command::new(one_of(draw, name));
    append(draw, &mut command, arguments);
    command
}

/// Appends the arguments of a line.
///
/// # Panics
/// If the number before `%` or after `*` is not a number.
pub(super) fn append(draw: &mut Draw, command: &mut Command, line: &str) {
    for word in line.split_whitespace() {
        if let Some(percent) = word.strip_suffix('%') {
            if !draw.chance(percent.parse().expect("a number of percent")) {
                return;
            }
        } else if word == "many-elements" {
            command.extend(draw.many_elements());
        } else if let Some((word, most)) = word.split_once('*') {
            for _ in 0..draw.count(1..=most.parse().expect("a maximum number")) {
                command.push(drawn(draw, word));
            }
        } else {
            command.push(drawn(draw, word));
        }
    }
}

fn drawn(draw: &mut Draw, word: &str) -> Vec<u8> {
    match word {
        "list" => draw.key_of(Kind::List),
        "hash" => draw.key_of(Kind::Hash),
        "set" => draw.key_of(Kind::Set),
        "zset" => draw.key_of(Kind::Zset),
        "stream" => draw.key_of(Kind::Stream),
        "bits" => draw.key_of(Kind::Bits),
        "hll" => draw.hll_key(),
        "geo" => draw.geo_key(),
        "geo-source" => draw.geo_source(),
        "lcs" => draw.lcs_key(),
        "lcs-text" => draw.lcs_text(),
        "key" => draw.key(),
        "any-key" => draw.any_key(),
        "big-key" => draw.big_key(),
        "big-value" => draw.big_value(),
        "value" => draw.value(),
        "element" => draw.element(),
        "integer" => draw.integer(),
        "float" => draw.float(),
        "score" => draw.score(),
        "index" => draw.index(),
        "how-many" => draw.how_many(),
        "sample-size" => draw.sample_size(),
        "pattern" => draw.pattern(),
        "database" => draw.database(),
        "longitude" => draw.longitude(),
        "latitude" => draw.latitude(),
        _ => one_of(draw, word),
    }
}

/// Returns one of the words between `|`, in mixed case if it has capitals.
fn one_of(draw: &mut Draw, words: &str) -> Vec<u8> {
    let word = match words.contains('|') {
        true => draw.one_of(words),
        false => words,
    };
    match word.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => draw.case(word),
        false => word.as_bytes().to_vec(),
    }
}
