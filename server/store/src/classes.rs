//! Classes of keyspace events. The directive `notify-keyspace-events` selects from them, and so do
//! the rules of NOTIFY, a command that Redis lacks: it appends events to streams.

/// A set of classes of keyspace events, and of the kinds of channels: one bit for each letter of
/// `notify-keyspace-events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Classes(u32);

impl Classes {
    /// `K`: publish on `__keyspace@<db>__:<key>`.
    pub const KEYSPACE: Self = Self(1 << 0);
    /// `E`: publish on `__keyevent@<db>__:<event>`.
    pub const KEYEVENT: Self = Self(1 << 1);
    /// `g`: commands on keys of any type (DEL, EXPIRE, RENAME).
    pub const GENERIC: Self = Self(1 << 2);
    /// `$`: strings.
    pub const STRING: Self = Self(1 << 3);
    /// `l`: lists.
    pub const LIST: Self = Self(1 << 4);
    /// `s`: sets.
    pub const SET: Self = Self(1 << 5);
    /// `h`: hashes.
    pub const HASH: Self = Self(1 << 6);
    /// `z`: sorted sets.
    pub const ZSET: Self = Self(1 << 7);
    /// `x`: keys that expire.
    pub const EXPIRED: Self = Self(1 << 8);
    /// `e`: keys evicted for memory.
    pub const EVICTED: Self = Self(1 << 9);
    /// `t`: streams.
    pub const STREAM: Self = Self(1 << 10);
    /// `m`: reads of keys that do not exist (not part of `A`).
    pub const MISSED: Self = Self(1 << 11);
    /// `d`: module types.
    pub const MODULE: Self = Self(1 << 12);
    /// `n`: new keys (not part of `A`).
    pub const NEW: Self = Self(1 << 13);
    /// `S`: publish on `__subkeyspace@<db>__:<key>`.
    pub const SUBKEYSPACE: Self = Self(1 << 14);
    /// `T`: publish on `__subkeyevent@<db>__:<event>`.
    pub const SUBKEYEVENT: Self = Self(1 << 15);
    /// `I`: publish on `__subkeyspaceitem@<db>__:<key>`, a line feed and the subkey.
    pub const SUBKEYSPACEITEM: Self = Self(1 << 16);
    /// `V`: publish on `__subkeyspaceevent@<db>__:<event>|<key>`.
    pub const SUBKEYSPACEEVENT: Self = Self(1 << 17);
    /// `KE`: the channels of keys.
    pub const KEY_CHANNELS: Self = Self(Self::KEYSPACE.0 | Self::KEYEVENT.0);
    /// `STIV`: the channels of subkeys, which are fields or members of a key.
    pub const SUBKEY_CHANNELS: Self = Self(
        Self::SUBKEYSPACE.0
            | Self::SUBKEYEVENT.0
            | Self::SUBKEYSPACEITEM.0
            | Self::SUBKEYSPACEEVENT.0,
    );
    /// `A`: all of `g$lshzxetd`.
    pub const ALL: Self = Self(
        Self::GENERIC.0
            | Self::STRING.0
            | Self::LIST.0
            | Self::SET.0
            | Self::HASH.0
            | Self::ZSET.0
            | Self::EXPIRED.0
            | Self::EVICTED.0
            | Self::STREAM.0
            | Self::MODULE.0,
    );

    const LETTERS: [(u8, Self); 18] = [
        (b'g', Self::GENERIC),
        (b'$', Self::STRING),
        (b'l', Self::LIST),
        (b's', Self::SET),
        (b'h', Self::HASH),
        (b'z', Self::ZSET),
        (b'x', Self::EXPIRED),
        (b'e', Self::EVICTED),
        (b't', Self::STREAM),
        (b'd', Self::MODULE),
        (b'n', Self::NEW),
        (b'K', Self::KEYSPACE),
        (b'E', Self::KEYEVENT),
        (b'm', Self::MISSED),
        (b'S', Self::SUBKEYSPACE),
        (b'T', Self::SUBKEYEVENT),
        (b'I', Self::SUBKEYSPACEITEM),
        (b'V', Self::SUBKEYSPACEEVENT),
    ];

    /// Returns the empty set of classes.
    pub const fn none() -> Self {
        Self(0)
    }

    /// Returns the bits, for example to store them in an atomic.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Restores the classes from [`Classes::bits`].
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Parses the letters of `notify-keyspace-events`. Returns `None` if a letter is unknown.
    ///
    /// ```
    /// use punctual_store::events::Classes;
    /// let c = Classes::parse(b"KEA").unwrap();
    /// assert!(c.contains(Classes::EXPIRED) && !c.contains(Classes::MISSED));
    /// assert_eq!(c.letters(), "AKE");
    /// assert_eq!(Classes::parse(b"VITShm").unwrap().letters(), "hmSTIV");
    /// assert!(Classes::parse(b"KEq").is_none());
    /// ```
    pub fn parse(letters: &[u8]) -> Option<Self> {
        let mut bits = 0;
        for &letter in letters {
            bits |= if letter == b'A' {
                Self::ALL.0
            } else {
                Self::LETTERS.iter().find(|(l, _)| *l == letter)?.1.0
            };
        }
        Some(Self(bits))
    }

    /// Returns the letters in the order that Redis's CONFIG GET prints.
    pub fn letters(self) -> String {
        let mut out = String::new();
        let all = self.contains(Self::ALL);
        if all {
            out.push('A');
        }
        for (letter, class) in Self::LETTERS {
            if self.contains(class) && !(all && Self::ALL.contains(class)) {
                out.push(char::from(letter));
            }
        }
        out
    }

    /// Returns true if all classes of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns true if at least one class of `other` is set.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns true if messages about the subkeys of an event of `class` are published.
    pub const fn wants_subkeys(self, class: Self) -> bool {
        self.intersects(class) && self.intersects(Self::SUBKEY_CHANNELS)
    }
}

impl std::ops::BitOr for Classes {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
