//! The type bytes of records, and the versions of the format.

/// The version of a snapshot or payload whose kinds need no later version; redis-server 7.0 reads
/// it.
pub const VERSION: u16 = 10;
/// The version of a snapshot or payload in which a hash has fields with expiry times. redis-server
/// 7.4 reads it; older servers refuse the whole snapshot.
pub const VERSION_FIELD_EXPIRY: u16 = 12;
/// The latest version of Redis that can be read.
pub const VERSION_MAX: u16 = 12;
/// The version of Valkey 9.0 and 9.1. Valkey writes it in every snapshot and payload; we write it
/// only for Valkey, in a snapshot with fields that expire.
pub const VERSION_VALKEY: u16 = 80;

/// The servers that define the type bytes from 22 on. Redis and Valkey give them other meanings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Redis, and Valkey before 9.0.
    #[default]
    Redis,
    /// Valkey 9.0 and later.
    Valkey,
}

/// The first type byte that depends on the dialect.
const OF_DIALECT: u8 = 22;
/// Added to the type bytes of Valkey that have another meaning in Redis.
const VALKEY: u16 = 0x100;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $byte:literal,)*) => {
        /// The type under which a key's value is stored: the byte before the key. Versions in
        /// parentheses are the versions of Redis that write the type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u16)]
        pub enum Kind {
            $($(#[$doc])* $name = $byte,)*
        }

        impl Kind {
            /// Returns the kind of `byte`.
            pub fn of_byte(byte: u8, dialect: Dialect) -> Option<Self> {
                let offset = match dialect {
                    Dialect::Valkey if byte >= OF_DIALECT => VALKEY,
                    _ => 0,
                };
                Some(match u16::from(byte) + offset {
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
    /// A list, element by element (before 3.2, for long lists).
    List = 1,
    /// A set, member by member.
    Set = 2,
    /// A sorted set, member by member, with scores as text (before 4.0).
    ZsetText = 3,
    /// A hash, field by field.
    Hash = 4,
    /// A sorted set, member by member, with scores as binary doubles.
    Zset = 5,
    /// A module's value that only the module can read (release candidates of 4.0).
    ModulePreGa = 6,
    /// A module's value, or one of Punctual's own values: a timer, a queue of jobs, or a set or
    /// sorted set whose members have deadlines.
    Module = 7,
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
    /// A hash whose fields may expire, with absolute times (release candidates of 7.4).
    HashExpiryPreGa = 22,
    /// A hash as a listpack, whose fields may expire (release candidates of 7.4).
    HashExpiryListpackPreGa = 23,
    /// A hash whose fields may expire (7.4).
    HashExpiry = 24,
    /// A hash as a listpack of field, value and time, whose fields may expire (7.4).
    HashExpiryListpack = 25,
    /// A hash whose fields may expire, each with its value and then its absolute time (Valkey 9.0).
    HashExpiryValkey = 0x116,
}

impl Kind {
    /// Returns the byte.
    pub const fn byte(self) -> u8 {
        // The kinds of Valkey have the byte in the lower half.
        self as u16 as u8
    }

    /// Returns the name of the encoding for messages about damage, as in Redis.
    pub const fn title(self) -> &'static str {
        match self {
            Self::String => "String",
            Self::List => "List",
            Self::Set => "Set",
            Self::ZsetText | Self::Zset => "Zset",
            Self::Hash | Self::HashExpiryPreGa | Self::HashExpiry | Self::HashExpiryValkey => {
                "Hash"
            }
            Self::ModulePreGa | Self::Module => "Module",
            Self::ListZiplist => "List ziplist",
            Self::SetIntset => "Intset",
            Self::ZsetZiplist => "Zset ziplist",
            Self::HashZiplist => "Hash ziplist",
            Self::ListZiplists => "Quicklist ziplist",
            Self::Stream | Self::Stream2 | Self::Stream3 => "Stream listpack",
            Self::HashListpack => "Hash listpack",
            Self::ZsetListpack => "Zset listpack",
            Self::ListListpacks => "Quicklist listpack",
            Self::SetListpack => "Set listpack",
            Self::HashExpiryListpackPreGa | Self::HashExpiryListpack => "Hash listpack",
        }
    }

    /// Returns the earliest version of the format that has this kind, but at least [`VERSION`].
    pub const fn version(self) -> u16 {
        match self as u16 {
            0..20 => VERSION,
            20 | 21 => 11,
            VALKEY.. => VERSION_VALKEY,
            _ => VERSION_FIELD_EXPIRY,
        }
    }
}

/// Type bytes that are not a [`Kind`].
pub(crate) mod opcode {
    /// A hash as a zipmap, of redis-server before 2.6: a key whose value is skipped.
    pub(crate) const ZIPMAP: u8 = 9;
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

/// The container of a quicklist's node: one plain element, or a listpack.
pub(crate) mod container {
    pub(crate) const PLAIN: u64 = 1;
    pub(crate) const PACKED: u64 = 2;
}

/// The encodings of strings that are not raw.
pub(crate) mod string {
    pub(crate) const INT8: u8 = 0;
    pub(crate) const INT16: u8 = 1;
    pub(crate) const INT32: u8 = 2;
    pub(crate) const LZF: u8 = 3;
}

/// The maximum expiry time of a field in Unix milliseconds. Redis stores 48 bits, of which the
/// highest value means "no expiry".
pub(crate) const FIELD_EXPIRY_MAX: u64 = 0xFFFF_FFFF_FFFE;
