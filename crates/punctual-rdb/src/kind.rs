//! The bytes that open records, and the versions of the format.

/// The version that [`Writer`](crate::Writer) and [`seal`](crate::dump::seal) write: redis-server 7.0 reads it.
pub const VERSION: u16 = 10;
/// The version they write where hashes have fields with their own expiry, which redis-server 7.4 brought;
/// older ones refuse it as a whole.
pub const VERSION_FIELD_EXPIRY: u16 = 12;
/// The last version that is read.
pub const VERSION_MAX: u16 = 12;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $byte:literal,)*) => {
        /// The type of a key's value, as it is stored: the byte before the key.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum Kind {
            $($(#[$doc])* $name = $byte,)*
        }

        impl Kind {
            /// The kind that `byte` stands for.
            pub fn of_byte(byte: u8) -> Option<Self> {
                Some(match byte {
                    $($byte => Kind::$name,)*
                    _ => return None,
                })
            }
        }
    };
}

kinds! {
    /// A string.
    String = 0,
    /// A list, element by element (before 3.2, long lists).
    List = 1,
    /// A set, member by member.
    Set = 2,
    /// A sorted set, scores as text (before 4.0).
    ZsetText = 3,
    /// A hash, field by field.
    Hash = 4,
    /// A sorted set, scores as binary doubles.
    Zset = 5,
    /// A module's value that only the module can read (release candidates of 4.0).
    ModulePreGa = 6,
    /// A module's value.
    Module = 7,
    /// A hash as a zipmap (before 2.6).
    HashZipmap = 9,
    /// A list as one ziplist (before 3.2).
    ListZiplist = 10,
    /// A set as an intset.
    SetIntset = 11,
    /// A sorted set as a ziplist (before 7.0).
    ZsetZiplist = 12,
    /// A hash as a ziplist (before 7.0).
    HashZiplist = 13,
    /// A list as ziplists (before 7.0).
    ListZiplists = 14,
    /// A stream (5.0).
    Stream = 15,
    /// A hash as a listpack.
    HashListpack = 16,
    /// A sorted set as a listpack.
    ZsetListpack = 17,
    /// A list as listpacks and single large elements.
    ListListpacks = 18,
    /// A stream (7.0).
    Stream2 = 19,
    /// A set as a listpack (7.2).
    SetListpack = 20,
    /// A stream (7.2).
    Stream3 = 21,
    /// A hash whose fields may expire, absolute times (release candidates of 7.4).
    HashExpiryPreGa = 22,
    /// A hash whose fields may expire as a listpack (release candidates of 7.4).
    HashExpiryListpackPreGa = 23,
    /// A hash whose fields may expire (7.4).
    HashExpiry = 24,
    /// A hash whose fields may expire as a listpack of field, value, time (7.4).
    HashExpiryListpack = 25,
}

impl Kind {
    /// The byte.
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// The least version of the format that has it, of those that are written.
    pub const fn version(self) -> u16 {
        match self.byte() {
            0..20 => VERSION,
            20 | 21 => 11,
            _ => VERSION_FIELD_EXPIRY,
        }
    }
}

/// Bytes in the place of a kind that open something other than a key.
pub(crate) mod opcode {
    pub(crate) const SLOT_INFO: u8 = 244;
    pub(crate) const FUNCTION: u8 = 245;
    pub(crate) const FUNCTION_PRE_GA: u8 = 246;
    pub(crate) const MODULE_AUX: u8 = 247;
    pub(crate) const IDLE: u8 = 248;
    pub(crate) const FREQ: u8 = 249;
    pub(crate) const AUX: u8 = 250;
    pub(crate) const RESIZE_DB: u8 = 251;
    pub(crate) const EXPIRE_MS: u8 = 252;
    pub(crate) const EXPIRE_S: u8 = 253;
    pub(crate) const SELECT_DB: u8 = 254;
    pub(crate) const END: u8 = 255;
}

/// A quicklist's node: one element as it is, or a listpack.
pub(crate) mod container {
    pub(crate) const PLAIN: u64 = 1;
    pub(crate) const PACKED: u64 = 2;
}

/// The encodings of a string that is neither raw.
pub(crate) mod string {
    pub(crate) const INT8: u8 = 0;
    pub(crate) const INT16: u8 = 1;
    pub(crate) const INT32: u8 = 2;
    pub(crate) const LZF: u8 = 3;
}

/// Times of fields have 48 bits, of which the last value is taken for "none".
pub(crate) const FIELD_EXPIRY_MAX: u64 = 0xFFFF_FFFF_FFFE;
