//! The limits beyond which the parser refuses a command.

/// The limits of one command.
///
/// Each call of [`Parser::parse`](crate::Parser::parse) takes the limits, so a successful AUTH or a
/// change of `proto-max-bulk-len` applies from the next header on.
///
/// ```
/// use punctual_resp::Limits;
///
/// let limits = Limits::default();
/// assert_eq!(limits.bulk_max, 512 * 1024 * 1024);
/// assert_eq!(limits.args_max, 1_048_576);
/// assert_eq!(limits.inline_max, 64 * 1024);
/// assert!(limits.authenticated);
///
/// // The same limits for a client that has not authenticated:
/// let before_auth = Limits { authenticated: false, ..limits };
/// assert_eq!(before_auth, Limits::unauthenticated());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of bytes in one argument: Redis's `proto-max-bulk-len`.
    pub bulk_max: usize,
    /// Maximum number of arguments in one command.
    pub args_max: usize,
    /// Maximum number of bytes in one line: an inline command, or the header of a multibulk or
    /// bulk.
    pub inline_max: usize,
    /// If false, [`Limits::UNAUTHENTICATED_ARGS_MAX`] and [`Limits::UNAUTHENTICATED_BULK_MAX`]
    /// apply as well, with their own error texts.
    pub authenticated: bool,
}

impl Limits {
    /// Maximum number of arguments in one command of a client that has not authenticated.
    pub const UNAUTHENTICATED_ARGS_MAX: usize = 10;
    /// Maximum number of bytes in one argument of a client that has not authenticated.
    pub const UNAUTHENTICATED_BULK_MAX: usize = 16_384;

    /// Returns the default limits for a client that has not authenticated.
    pub fn unauthenticated() -> Self {
        Limits {
            authenticated: false,
            ..Limits::default()
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            bulk_max: 512 * 1024 * 1024,
            args_max: 1024 * 1024,
            inline_max: 64 * 1024,
            authenticated: true,
        }
    }
}
