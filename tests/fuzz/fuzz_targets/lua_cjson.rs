//! Passes random bytes to `cjson` in a script.
//!
//! Properties: no call panics. Encoding and decoding a string yields the same string. A decoded
//! value can be encoded, except for numbers that JSON lacks. If the encoded text is decoded,
//! encoded and decoded again, the value does not change.
#![no_main]

mod lua;

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use lua::Property;

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

thread_local! {
    static PROPERTY: RefCell<Property> = RefCell::new(Property::new(CODE));
}

fuzz_target!(|input: &[u8]| {
    PROPERTY.with_borrow_mut(|property| property.check([input]));
});
