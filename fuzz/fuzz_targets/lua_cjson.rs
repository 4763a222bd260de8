//! Passes any bytes to `cjson` of scripts.
//!
//! Nothing may panic. Any string, encoded and decoded, is the same string. A value that was decoded can be encoded, unless it has
//! a number that JSON does not have; decoded again, the text gives a value that encodes and decodes to itself.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use punctual_lua::{Call, Host, Interpreter, LogLevel, Options, Script};
use punctual_resp::{Args, OwnedArgs, Protocol};

const CODE: &[u8] = br"
local function same(a, b)
  if type(a) ~= 'table' or type(b) ~= 'table' then return a == b end
  for k, v in pairs(a) do
    if not same(v, b[k]) then return false end
  end
  for k in pairs(b) do
    if a[k] == nil then return false end
  end
  return true
end
assert(cjson.decode(cjson.encode(ARGV[1])) == ARGV[1], 'string')
local decoded, value = pcall(cjson.decode, ARGV[1])
if not decoded then return end
local encoded, text = pcall(cjson.encode, value)
if not encoded then
  assert(text == 'Cannot serialise number: must not be NaN or Inf', text)
  return
end
-- The text has 14 digits of each number.
local once = cjson.decode(text)
assert(same(once, cjson.decode(cjson.encode(once))), text)
";

/// A server that is never called.
struct Nothing;

impl Host for Nothing {
    fn call(&mut self, _: Args<'_>, _: Protocol, _: &mut Vec<u8>) {
        unreachable!("the script runs no command");
    }
    fn log(&mut self, _: LogLevel, _: &[u8]) {}
    fn interrupt(&mut self) -> Option<&'static str> {
        None
    }
}

fn interpreter() -> (Interpreter, Script) {
    let mut lua = Interpreter::new(Options::default());
    let script = lua.compile(CODE).expect("a script");
    (lua, script)
}

thread_local! {
    static LUA: RefCell<(Interpreter, Script)> = RefCell::new(interpreter());
}

fuzz_target!(|input: &[u8]| {
    LUA.with_borrow_mut(|(lua, script)| {
        let (keys, argv) = (OwnedArgs::default(), OwnedArgs::from_iter([input]));
        let call = Call {
            name: "f",
            keys: keys.as_args(),
            argv: argv.as_args(),
            protocol: Protocol::Resp2,
        };
        let mut reply = Vec::new();
        lua.run(script, &call, &mut Nothing, &mut reply)
            .expect("the properties hold");
    });
});
