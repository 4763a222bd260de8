//! Compares globals, the table `redis`, errors and Lua's own functions with redis-server. Without a
//! redis-server, the test prints a message and passes.

mod both;

use both::Both;

#[test]
fn globals_and_errors() {
    if let Some(mut both) = Both::start() {
        both.same_lines(include_str!("lines/sandbox.txt"));
    }
}
