//! The server's clock: the system clock, or a virtual clock that moves on request.
//!
//! Only the event loops read the clock and pass the instant on. A thread that moves the clock holds
//! every shard lock, so that moves are serialized and no command at the new time sees keys that
//! expired before it.
//!
//! Links between servers live on the machine's [stopwatch](World::stopwatch): neither a virtual
//! clock nor a step of the system clock ends them or keeps a dead one.

use std::sync::atomic::{AtomicU64, Ordering};

use punctual_store::{Now, Turn};

use crate::config::ClockKind;
use crate::world::World;

/// Latest instant, in unix milliseconds; its microseconds fit into an `i64`.
pub(crate) const LAST_MS: u64 = i64::MAX as u64 / 1000;

/// Error of a clock move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MoveError {
    /// The clock is the system clock.
    #[error("the clock is real and cannot be moved; start the server with --clock virtual")]
    Real,
    /// The time is before the clock's.
    #[error("the clock cannot go back")]
    Backwards,
    /// The time is out of range.
    #[error("value is out of range")]
    OutOfRange,
    /// The timers of an instant make others that are due at the same instant, without an end.
    #[error(
        "timers make timers that are due at once; the clock stops at their instant until they are deleted"
    )]
    Endless,
    /// The server has stopped.
    #[error("the server has stopped")]
    Stopped,
}

/// Rounds of timers that one instant gets beyond those of the timers that are due when it begins.
/// Each round fires one or more.
const MORE_ROUNDS: usize = 10_000;

/// Counts the rounds in which timers fire at one instant of a virtual clock.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    instant: Option<Now>,
    left: usize,
}

impl Rounds {
    /// Begins a round at the turn's instant. Timers may make others that are due at once, as
    /// scripts can.
    ///
    /// # Errors
    /// [`MoveError::Endless`] if the instant has had its rounds.
    pub(crate) fn begin(&mut self, turn: &mut Turn) -> Result<(), MoveError> {
        if self.instant != Some(turn.now) {
            self.instant = Some(turn.now);
            self.left = turn.count_due_timers() + MORE_ROUNDS;
        }
        self.left = self.left.checked_sub(1).ok_or(MoveError::Endless)?;
        Ok(())
    }
}

/// Target of a clock move.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Move {
    /// Forward by microseconds.
    By(u64),
    /// To a unix time in microseconds.
    To(u64),
}

/// Source of the server's instants.
#[derive(Debug)]
pub struct ServerClock {
    pub(crate) world: World,
    kind: ClockKind,
    /// Unix time of a virtual clock, in microseconds.
    micros: AtomicU64,
}

impl ServerClock {
    /// Creates a clock. A virtual clock starts at the system time, rounded down to a millisecond.
    pub(crate) fn new(world: World, kind: ClockKind) -> Self {
        Self {
            world,
            kind,
            micros: AtomicU64::new(world.wall_micros() / 1000 * 1000),
        }
    }

    /// Returns whether the clock is virtual.
    pub fn is_virtual(&self) -> bool {
        self.kind == ClockKind::Virtual
    }

    /// Returns the current instant.
    #[inline]
    pub fn now(&self) -> Now {
        Now::from_micros(match self.kind {
            ClockKind::Real => self.world.wall_micros(),
            ClockKind::Virtual => self.micros.load(Ordering::Acquire),
        })
    }

    /// Sets a virtual clock. The caller holds every shard lock.
    pub(crate) fn set(&self, to: Now) {
        self.micros.store(to.micros(), Ordering::Release);
    }

    /// Returns the target instant of a move.
    ///
    /// # Errors
    /// The clock is real, or the instant is before now or out of range.
    pub(crate) fn destination(&self, to: Move) -> Result<Now, MoveError> {
        if !self.is_virtual() {
            return Err(MoveError::Real);
        }
        let now = self.now().micros();
        let micros = match to {
            Move::By(micros) => now.checked_add(micros).ok_or(MoveError::OutOfRange)?,
            Move::To(micros) if micros < now => return Err(MoveError::Backwards),
            Move::To(micros) => micros,
        };
        if micros > LAST_MS * 1000 {
            return Err(MoveError::OutOfRange);
        }
        Ok(Now::from_micros(micros))
    }
}
