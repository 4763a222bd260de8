//! Commands on keys of any type: deletion, renaming, copying, inspection.

use super::Maker::{self, Call, Line};
use super::line;
use crate::command::{Command, Step};
use crate::draw::Draw;

const MAKERS: &[(u32, Maker)] = &[
    (10, Line("DEL|DEL|UNLINK any-key*3")),
    (8, Line("EXISTS|TOUCH any-key*5")),
    (4, Line("TYPE any-key")),
    (3, Line("KEYS pattern")),
    (3, Call(scan_page)),
    (1, Line("RANDOMKEY")),
    (9, Line("RENAME|RENAMENX any-key any-key")),
    (9, Call(copy)),
    (6, Line("MOVE any-key database")),
    (8, Call(object)),
];

/// Appends one key command.
pub(super) fn commands(draw: &mut Draw, steps: &mut Vec<Step>) {
    super::make(draw, MAKERS, steps);
}

/// Appends SCAN for a single page. Only the shape of the reply and errors can be compared. Another
/// generator makes whole iterations.
fn scan_page(draw: &mut Draw, steps: &mut Vec<Step>) {
    let cursor = draw.one_of("0|0|0|7|18446744073709551615|18446744073709551616|-1|abc||1.5|00| 0");
    let mut command = Command::new(draw.case("SCAN")).arg(cursor);
    for _ in 0..draw.weighted(&[(4, 0), (4, 1), (2, 2), (1, 3)]) {
        match draw.weighted(&[(3, "MATCH"), (3, "COUNT"), (2, "TYPE"), (1, "NOVALUES")]) {
            "MATCH" => line::append(draw, &mut command, "MATCH pattern"),
            "COUNT" => {
                let count = "COUNT 1|10|1000|0|-1|abc|1.5|9223372036854775808";
                line::append(draw, &mut command, count);
            }
            "TYPE" => {
                command.push(draw.case("TYPE"));
                let kind = draw.pick(&["string", "STRING", "list", "zset", "nosuchtype", ""]);
                command.push(kind);
            }
            option => command.push(option),
        }
    }
    if draw.chance(5) {
        command.args_mut().pop();
    }
    steps.push(command.into());
}

fn copy(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = line::command(draw, "COPY any-key any-key");
    for _ in 0..draw.weighted(&[(4, 0), (4, 1), (3, 2), (1, 3)]) {
        match draw.weighted(&[(4, "DB"), (5, "REPLACE"), (1, "NX")]) {
            "DB" => line::append(draw, &mut command, "DB 95% database"),
            option => command.push(draw.case(option)),
        }
    }
    steps.push(command.into());
}

fn object(draw: &mut Draw, steps: &mut Vec<Step>) {
    let name = draw.weighted(&[
        (6, "ENCODING"),
        (2, "REFCOUNT"),
        (2, "IDLETIME"),
        (1, "FREQ"),
    ]);
    steps.push(
        Command::new(draw.case("OBJECT"))
            .arg(draw.case(name))
            .arg(draw.any_key())
            .into(),
    );
}
