//! Passes random bytes to `cmsgpack`, `struct` and `bit` in a script.
//!
//! Properties: no call panics. Values that `cmsgpack` has unpacked can be packed, and packing them
//! a second time yields the same size. Values that `struct` has unpacked with a format can be
//! packed with this format, and the result unpacks to the same values.
#![no_main]

mod lua;

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use lua::Property;

/// The script. `ARGV[1]` is the input without its first byte. `ARGV[2]` and `ARGV[3]` are the two
/// parts of `ARGV[1]`: a format for `struct`, and data.
const CODE: &[u8] = br"
local function pack(...) return select('#', ...) > 0 and cmsgpack.pack(...) or '' end
local function repack(packed)
  local done, text = pcall(function() return pack(cmsgpack.unpack(packed)) end)
  if done then return text end
  assert(text == 'table index is nil', text)
end
local function check(unpacked, ...)
  if not unpacked then return end
  local decoded, once = pcall(pack, ...)
  -- Packing needs room for each value twice, which the stack may lack.
  if not decoded then return end
  -- Only sizes are compared: the order of pairs depends on how a table was filled. The first packing may differ in size,
  -- because tables that are too deep become nil, which is no key and no element.
  local twice = repack(once)
  local thrice = twice and repack(twice)
  assert(not thrice or #thrice == #twice, 'cmsgpack')
end
check(pcall(cmsgpack.unpack, ARGV[1]))
local offset = 0
repeat
  local read, next = pcall(cmsgpack.unpack_one, ARGV[1], offset)
  assert(not read or next == -1 or next > offset, 'offset')
  offset = next
until not read or next == -1

local function same(a, b)
  return a == b or (a ~= a and b ~= b)
end
local fields = {pcall(struct.unpack, ARGV[2], ARGV[3])}
-- For `c0`, unpack does not return the size that precedes the string, so pack would lack an argument.
if fields[1] and not ARGV[2]:find('c0') and not ARGV[2]:find('c%d*0') then
  local packed, text = pcall(struct.pack, ARGV[2], unpack(fields, 2, #fields - 1))
  if packed then
    local again = {pcall(struct.unpack, ARGV[2], text)}
    assert(#again == #fields and again[1], 'fields')
    for i = 2, #fields - 1 do
      assert(same(fields[i], again[i]) or type(fields[i]) == 'number', 'field')
    end
    local sized, size = pcall(struct.size, ARGV[2])
    assert(not sized or ARGV[2]:find('%z') or size == #text, 'size')
  end
end
for _, n in ipairs({ARGV[2]:byte(1, 8)}) do
  local x = bit.lshift(n, n)
  assert(bit.bswap(bit.bswap(x)) == x and bit.rol(bit.ror(x, n), n) == x, 'bit')
  assert(#bit.tohex(x, -n) == math.min(n, 8), 'hex')
end
";

thread_local! {
    static PROPERTY: RefCell<Property> = RefCell::new(Property::new(CODE));
}

fuzz_target!(|input: &[u8]| {
    let Some((&cut, rest)) = input.split_first() else {
        return;
    };
    let (format, data) = rest.split_at(rest.len().min(usize::from(cut & 31)));
    PROPERTY.with_borrow_mut(|property| property.check([rest, format, data]));
});
