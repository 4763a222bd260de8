//! Random operations for Miri. Each operation is made from one random number, because under Miri
//! proptest's strategies take half a second per operation.
//!
//! The weights are close to the weights in [`random`](super::random). A failing case does not
//! shrink.

use super::{Op, Span, When};
use proptest::prelude::*;

/// A number from which `take` takes bits, the lowest bits first.
struct Bits(u64);

impl Bits {
    fn take(&mut self, count: u32) -> u8 {
        let taken = self.0 & ((1 << count) - 1);
        self.0 >>= count;
        taken as u8
    }

    fn span(&mut self) -> Span {
        let wide = [4, 4, 4, 16, 16, 16, 40, 64];
        let exponent = self.take(6);
        Span {
            exponent: exponent % wide[usize::from(self.take(3))],
            mantissa: self.take(8),
        }
    }

    fn when(&mut self) -> When {
        match self.take(4) {
            0..9 => When::In(self.span()),
            9 => When::Ago(self.span()),
            10 => When::At([0, u64::MAX, 1_000, 1 << 40][usize::from(self.take(2))]),
            _ => When::With(self.take(8), self.take(8) as i8),
        }
    }

    fn op(&mut self) -> Op {
        match self.take(6) {
            0..12 => Op::Insert(self.when()),
            12..14 => Op::Burst(self.take(3), self.when()),
            14..20 => Op::Remove(self.take(8)),
            20 => Op::RemoveLast,
            21..32 => Op::Reset(self.take(8), self.when()),
            32 => Op::Change(self.take(8)),
            33 => Op::Stale(self.take(8)),
            34..41 => Op::Advance(self.span()),
            41 => Op::StepBack(self.span()),
            42..45 => Op::PopOne,
            45..47 => Op::PopAll,
            47..50 => Op::Poll(self.take(5)),
            50..54 => Op::PollOnce(self.take(5)),
            54..59 => Op::NextDeadline,
            59..62 => Op::JumpToNext,
            62 => Op::Iterate,
            _ => Op::Shrink,
        }
    }
}

/// Returns any distance.
pub fn span() -> impl Strategy<Value = Span> {
    any::<u64>().prop_map(|bits| Bits(bits).span())
}

/// Returns any deadline.
pub fn when() -> impl Strategy<Value = When> {
    any::<u64>().prop_map(|bits| Bits(bits).when())
}

/// Returns any operation, except [`Op::Clear`] and [`Op::Drain`].
pub fn op() -> impl Strategy<Value = Op> {
    any::<u64>().prop_map(|bits| Bits(bits).op())
}
