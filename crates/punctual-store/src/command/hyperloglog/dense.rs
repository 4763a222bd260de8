//! Registers one after the other, 6 bits each, from the low end of the bytes on: four registers in three bytes.

use super::REGISTERS;
use super::estimate::Histogram;

/// Bytes of all registers.
pub(super) const BYTES: usize = REGISTERS * 6 / 8;

/// The four registers of three bytes.
fn four(bytes: [u8; 3]) -> [u8; 4] {
    let [a, b, c] = bytes;
    [a & 63, a >> 6 | b << 2 & 63, b >> 4 | c << 4 & 63, c >> 2]
}

/// The three bytes of four registers.
fn three(registers: [u8; 4]) -> [u8; 3] {
    let [a, b, c, d] = registers;
    [a | b << 6, b >> 2 | c << 4, c >> 4 | d << 2]
}

/// Where a register is: of which three bytes, and which of the four.
fn triple(bytes: &mut [u8], index: usize) -> Option<&mut [u8; 3]> {
    let (triples, _) = bytes.as_chunks_mut::<3>();
    triples.get_mut(index / 4)
}

/// Makes register `index` at least `value` (up to 63); whether that changed it. O(1).
pub(super) fn raise(bytes: &mut [u8], index: usize, value: u8) -> bool {
    let Some(triple) = triple(bytes, index) else {
        return false;
    };
    let mut registers = four(*triple);
    let old = &mut registers[index % 4];
    let larger = value > *old;
    if larger {
        *old = value;
        *triple = three(registers);
    }
    larger
}

/// All registers, in order.
pub(super) fn iter(bytes: &[u8]) -> impl Iterator<Item = u8> {
    let (triples, _) = bytes.as_chunks::<3>();
    triples.iter().flat_map(|triple| four(*triple))
}

/// Makes each of `all` at least what the register here is.
pub(super) fn raise_all(bytes: &[u8], all: &mut [u8; REGISTERS]) {
    let (fours, _) = all.as_chunks_mut::<4>();
    let (triples, _) = bytes.as_chunks::<3>();
    for (there, triple) in fours.iter_mut().zip(triples) {
        for (there, here) in there.iter_mut().zip(four(*triple)) {
            *there = here.max(*there);
        }
    }
}

/// How often each value occurs.
pub(super) fn histogram(bytes: &[u8]) -> Histogram {
    // Neighbours often hold the same value: four tallies do not wait for one another.
    let mut tallies = [[0; 64]; 4];
    let (triples, _) = bytes.as_chunks::<3>();
    for triple in triples {
        for (tally, register) in tallies.iter_mut().zip(four(*triple)) {
            tally[usize::from(register)] += 1;
        }
    }
    std::array::from_fn(|value| tallies.iter().map(|tally| tally[value]).sum())
}
