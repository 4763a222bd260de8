//! Globals, `redis`, errors and Lua's own functions beside redis-server.

mod both;

use both::Both;

#[test]
fn globals_and_errors() {
    if let Some(mut both) = Both::start() {
        both.same_lines(include_str!("lines/sandbox.txt"));
    }
}
