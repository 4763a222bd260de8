//! The measured figures, each with its unit.

/// A figure: one block of the output and one plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Figure {
    Arm,
    CancelAll,
    ArmCancel,
    RearmLater,
    RearmEarlier,
    Fire,
    FireAtOnce,
    NextUniform,
    Wakeup,
    NextOneFar,
    NextFarSlot,
    NextChurn,
    Quic,
    PushN,
    PushNPopN,
    PushPop,
    Memory,
    HandleMemory,
    MemoryPeak,
}

impl Figure {
    /// Returns the figure's name in tables and plots.
    pub fn title(self) -> &'static str {
        match self {
            Figure::Arm => "arm N, from empty",
            Figure::CancelAll => "cancel all N in random order",
            Figure::ArmCancel => "cancel a random one of N and arm another",
            Figure::RearmLater => "re-arm a random one of N to 1..64 ms later",
            Figure::RearmEarlier => "re-arm a random one of N to 1..64 ms earlier",
            Figure::Fire => "fire N as the clock passes, a millisecond at a time",
            Figure::FireAtOnce => "fire N that are all due",
            Figure::NextUniform => "ask for the next deadline of N again and again",
            Figure::Wakeup => "ask when to wake up for N again and again",
            Figure::NextOneFar => "ask for the next deadline: one timer, an hour ahead",
            Figure::NextFarSlot => "ask for the next deadline: N timers in one far millisecond",
            Figure::NextChurn => {
                "cancel the earliest and arm an earliest above N, asking after each"
            }
            Figure::Quic => {
                "QUIC turn: re-arm one of N, advance 1 us, fire and re-arm what is due, ask"
            }
            Figure::PushN => "priority queue: push N",
            Figure::PushNPopN => "priority queue: push N, pop N (a push or a pop)",
            Figure::PushPop => "priority queue: pop the first of N and push one behind it",
            Figure::Memory => "memory of N timers",
            Figure::HandleMemory => "handles that the caller keeps for N timers",
            Figure::MemoryPeak => "most memory under churn, against the memory of N armed timers",
        }
    }

    /// Returns the figure's name in files.
    pub fn name(self) -> &'static str {
        match self {
            Figure::Arm => "arm",
            Figure::CancelAll => "cancel-all",
            Figure::ArmCancel => "arm-cancel",
            Figure::RearmLater => "rearm-later",
            Figure::RearmEarlier => "rearm-earlier",
            Figure::Fire => "fire",
            Figure::FireAtOnce => "fire-at-once",
            Figure::NextUniform => "next-uniform",
            Figure::Wakeup => "next-wakeup",
            Figure::NextOneFar => "next-one-far",
            Figure::NextFarSlot => "next-far-slot",
            Figure::NextChurn => "next-churn",
            Figure::Quic => "quic",
            Figure::PushN => "push-n",
            Figure::PushNPopN => "push-n-pop-n",
            Figure::PushPop => "push-pop",
            Figure::Memory => "memory",
            Figure::HandleMemory => "memory-handles",
            Figure::MemoryPeak => "memory-peak",
        }
    }

    /// Returns the figure's unit.
    pub fn unit(self) -> &'static str {
        match self {
            Figure::Memory | Figure::HandleMemory => "bytes a timer",
            Figure::MemoryPeak => "times",
            Figure::Arm | Figure::CancelAll | Figure::Fire | Figure::FireAtOnce => "ns a timer",
            Figure::NextUniform | Figure::Wakeup | Figure::NextOneFar | Figure::NextFarSlot => {
                "ns a question"
            }
            Figure::ArmCancel | Figure::RearmLater | Figure::RearmEarlier => "ns an operation",
            Figure::NextChurn | Figure::Quic => "ns a turn",
            Figure::PushN | Figure::PushNPopN | Figure::PushPop => "ns an operation",
        }
    }

    /// Returns whether the figure is a duration, which a busy machine changes.
    pub fn is_duration(self) -> bool {
        !matches!(
            self,
            Figure::Memory | Figure::HandleMemory | Figure::MemoryPeak
        )
    }

    /// Returns whether only queues with an exact next deadline take part in the comparison.
    pub fn asks_exactly(self) -> bool {
        matches!(
            self,
            Figure::NextUniform
                | Figure::NextOneFar
                | Figure::NextFarSlot
                | Figure::NextChurn
                | Figure::Quic
        )
    }
}

/// One measurement of a figure.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub figure: Figure,
    /// Value in the figure's unit.
    pub value: f64,
    /// Number of operations.
    pub operations: usize,
    /// Whether the batch was cut short because it took too long.
    pub cut: bool,
    /// Wrong answers in the round: timers out of order or lost, or a wrong next deadline.
    pub faults: usize,
}

impl Sample {
    /// Returns a timing without faults.
    pub fn timing(figure: Figure, took: crate::clock::Took) -> Self {
        Sample {
            figure,
            value: took.nanos,
            operations: took.operations,
            cut: took.cut,
            faults: 0,
        }
    }

    /// Returns the same sample with this many faults.
    pub fn with_faults(self, faults: usize) -> Self {
        Sample { faults, ..self }
    }
}

/// A round that was cancelled because preparing it took too long.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("gave up after {seconds} s of {doing}")]
pub struct GaveUp {
    pub doing: &'static str,
    pub seconds: u64,
}
