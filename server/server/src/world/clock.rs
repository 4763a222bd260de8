//! The server's clock: the system clock, or a virtual clock that moves on request.
//!
//! An event loop reads the clock and passes the instant to its turns (a turn runs commands and
//! expiries at one instant); the store never reads a clock. Other threads read the clock for their
//! own schedules and for times that they report. A thread that moves a virtual clock holds every
//! shard lock. So moves are serialized, and no command at the new time sees a key that expired
//! before it.
//!
//! Time limits of links between servers use the machine's [stopwatch](World::stopwatch). So neither
//! a virtual clock nor a step of the system clock ends a live link or keeps a dead link open.

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
    /// The requested time is before the clock's time.
    #[error("the clock cannot go back")]
    Backwards,
    /// The time is out of range.
    #[error("value is out of range")]
    OutOfRange,
    /// Timers keep creating other timers that are due at the same instant.
    #[error(
        "timers create timers that are due at once; the clock stops at their instant until they are deleted"
    )]
    Endless,
    /// A handler of an own command has moved the clock of the server, which waits for the handler.
    #[error("the handler of a command cannot move the clock")]
    InHandler,
    /// The server has stopped.
    #[error("the server has stopped")]
    Stopped,
}

/// Maximum number of rounds at one instant, beyond the number of timers that are due when the
/// instant begins. Each round fires at least one timer.
const MORE_ROUNDS: usize = 10_000;

/// Counts the rounds in which timers fire at one instant of a virtual clock.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    instant: Option<Now>,
    left: usize,
}

impl Rounds {
    /// Begins a round at the turn's instant. A timer can create another timer that is due at once,
    /// for example by a script, so one instant can need several rounds.
    ///
    /// # Errors
    /// [`MoveError::Endless`] if the instant has used up its rounds.
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
    /// Forward by this many microseconds.
    By(u64),
    /// To this unix time in microseconds.
    To(u64),
}

/// The clock of a server.
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

    /// Returns true if the clock is virtual.
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
    /// Returns an error if the clock is real, or if the instant is before now or out of range.
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
