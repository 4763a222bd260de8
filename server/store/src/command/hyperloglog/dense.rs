//! Dense registers: 6 bits each, lowest bits first, four registers in three bytes.

use super::REGISTERS;
use super::estimate::Histogram;

/// Size of all registers in bytes.
pub(super) const BYTES: usize = REGISTERS * 6 / 8;

/// Unpacks four registers from three bytes.
fn unpack(bytes: [u8; 3]) -> [u8; 4] {
    let [a, b, c] = bytes;
    [a & 63, a >> 6 | b << 2 & 63, b >> 4 | c << 4 & 63, c >> 2]
}

/// Packs four registers into three bytes.
fn pack(registers: [u8; 4]) -> [u8; 3] {
    let [a, b, c, d] = registers;
    [a | b << 6, b >> 2 | c << 4, c >> 4 | d << 2]
}

/// Returns the three bytes that hold register `index`.
fn triple(bytes: &mut [u8], index: usize) -> Option<&mut [u8; 3]> {
    let (triples, _) = bytes.as_chunks_mut::<3>();
    triples.get_mut(index / 4)
}

/// Raises register `index` to at least `value` (up to 63). Returns true if it changed. O(1).
pub(super) fn raise(bytes: &mut [u8], index: usize, value: u8) -> bool {
    let Some(triple) = triple(bytes, index) else {
        return false;
    };
    let mut registers = unpack(*triple);
    let old = &mut registers[index % 4];
    let larger = value > *old;
    if larger {
        *old = value;
        *triple = pack(registers);
    }
    larger
}

/// Returns all registers in order.
pub(super) fn iter(bytes: &[u8]) -> impl Iterator<Item = u8> {
    let (triples, _) = bytes.as_chunks::<3>();
    triples.iter().flat_map(|triple| unpack(*triple))
}

/// Raises each register of `all` to at least the register in `bytes`.
pub(super) fn raise_all(bytes: &[u8], all: &mut [u8; REGISTERS]) {
    let (fours, _) = all.as_chunks_mut::<4>();
    let (triples, _) = bytes.as_chunks::<3>();
    for (targets, triple) in fours.iter_mut().zip(triples) {
        for (target, register) in targets.iter_mut().zip(unpack(*triple)) {
            *target = register.max(*target);
        }
    }
}

/// Counts the registers with each value.
pub(super) fn histogram(bytes: &[u8]) -> Histogram {
    // Adjacent registers often hold the same value; four tallies avoid dependent increments.
    let mut tallies = [[0; 64]; 4];
    let (triples, _) = bytes.as_chunks::<3>();
    for triple in triples {
        for (tally, register) in tallies.iter_mut().zip(unpack(*triple)) {
            tally[usize::from(register)] += 1;
        }
    }
    std::array::from_fn(|value| tallies.iter().map(|tally| tally[value]).sum())
}
