//! Checksums by PCLMULQDQ, the multiplication without carries of x86-64 processors since 2010.
//!
//! The name is read in blocks of 16 bytes. A block is a number whose last byte is the lowest. Zeros
//! before the first byte do not change a checksum, so the first block may be shorter. The checksum
//! of a block is added to the first two bytes of the next one.
//!
//! The checksum of a block B is the remainder of B x^16 divided by the polynomial P (Barrett
//! reduction: Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
//! Instruction", 2009). The quotient is floor(B floor(x^144 / P) / x^128). B x^16 ends with 16
//! zeros, so the remainder is the lowest 16 bits of P times the quotient, for which the lowest 16
//! bits of the quotient suffice.
#![allow(
    unsafe_code,
    reason = "calls a function that needs an instruction of newer processors"
)]

use std::arch::x86_64::*;

use super::POLYNOMIAL;
use crate::slot::hash_tag;

/// Bytes of a block.
const BLOCK: usize = 16;

/// The quotient of x^144 and the polynomial, without its highest power x^128.
const QUOTIENT: u128 = {
    let polynomial = 1 << u16::BITS | POLYNOMIAL as u32;
    let (mut rest, mut quotient, mut power) = (1, 0, 144);
    // The highest power leaves the number.
    while power > 0 {
        rest <<= 1;
        quotient = quotient << 1 | (rest >> u16::BITS) as u128;
        rest ^= (rest >> u16::BITS) * polynomial;
        power -= 1;
    }
    quotient
};

/// Same as [`super::of_hash_tag`], or `None` if the processor has no such instruction.
#[inline]
pub(super) fn of_hash_tag(key: &[u8]) -> Option<u16> {
    // SAFETY: the processor has the only instruction that the function needs beyond x86-64's.
    is_x86_feature_detected!("pclmulqdq").then(|| unsafe { of_key(key) })
}

/// Returns the checksum of some bytes, and whether there is an opening brace among them.
#[cfg(test)]
pub(super) fn crc16(bytes: &[u8]) -> Option<(u16, bool)> {
    // SAFETY: as above.
    is_x86_feature_detected!("pclmulqdq").then(|| unsafe { by_blocks(bytes) })
}

#[target_feature(enable = "pclmulqdq")]
fn of_key(key: &[u8]) -> u16 {
    if key.len() <= BLOCK {
        let block = short_block(key);
        if !has_brace(block) {
            return crc_of_block(block);
        }
    }
    of_other_key(key)
}

/// Kept apart so that [`of_key`] needs no stack for short keys without a brace.
#[inline(never)]
#[target_feature(enable = "pclmulqdq")]
fn of_other_key(key: &[u8]) -> u16 {
    match by_blocks(key) {
        (crc, false) => crc,
        (_, true) => by_blocks(hash_tag(key)).0,
    }
}

#[inline]
#[target_feature(enable = "pclmulqdq")]
fn by_blocks(bytes: &[u8]) -> (u16, bool) {
    let first = match bytes.first_chunk() {
        Some(first) if bytes.len() > BLOCK => u128::from_be_bytes(*first),
        _ => {
            let block = short_block(bytes);
            return (crc_of_block(block), has_brace(block));
        }
    };
    let len = (bytes.len() - 1) % BLOCK + 1;
    let (blocks, _) = bytes[len..].as_chunks();
    let mut brace = has_brace(first);
    let mut crc = crc_of_block(first >> (8 * (BLOCK - len)));
    for block in blocks {
        let block = u128::from_be_bytes(*block);
        brace |= has_brace(block);
        crc = crc_of_block(block ^ u128::from(crc) << (u128::BITS - u16::BITS));
    }
    (crc, brace)
}

/// Returns at most 16 bytes as a number. Four bytes and more are read as two parts, which may
/// overlap.
#[inline]
fn short_block(bytes: &[u8]) -> u128 {
    let len = bytes.len();
    debug_assert!(len <= BLOCK, "{len} bytes");
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk())
        && len > 8
    {
        let high = u64::from_be_bytes(*first) >> (8 * (BLOCK - len));
        return u128::from(high) << u64::BITS | u128::from(u64::from_be_bytes(*last));
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let high = u64::from(u32::from_be_bytes(*first)) << (8 * (len - 4));
        return u128::from(high | u64::from(u32::from_be_bytes(*last)));
    }
    let number = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    u128::from(bytes.iter().fold(0, number))
}

#[inline]
#[target_feature(enable = "pclmulqdq")]
fn crc_of_block(block: u128) -> u16 {
    let factor = halves(QUOTIENT);
    let high = _mm_cvtsi64_si128((block >> 64) as i64);
    let low = _mm_cvtsi64_si128(block as i64);
    // Only bits 128 to 143 of the product matter.
    let from_64 = _mm_xor_si128(
        _mm_clmulepi64_si128::<0x00>(high, factor),
        _mm_clmulepi64_si128::<0x10>(low, factor),
    );
    let from_128 = _mm_clmulepi64_si128::<0x10>(high, factor);
    let product = _mm_xor_si128(_mm_unpackhi_epi64(from_64, from_64), from_128);
    // The highest power of the factor.
    let quotient = _mm_cvtsi128_si32(product) ^ block as i32;
    // The polynomial.
    (quotient ^ quotient << 5 ^ quotient << 12) as u16
}

#[inline]
#[target_feature(enable = "pclmulqdq")]
fn has_brace(block: u128) -> bool {
    let braces = _mm_cmpeq_epi8(halves(block), _mm_set1_epi8(b'{' as i8));
    _mm_movemask_epi8(braces) != 0
}

#[inline]
#[target_feature(enable = "pclmulqdq")]
fn halves(number: u128) -> __m128i {
    _mm_set_epi64x((number >> 64) as i64, number as i64)
}
