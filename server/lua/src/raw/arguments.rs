//! Arguments of native functions: conversions, and the error messages of Lua's own functions.

use super::function::Raise;
use super::{Kind, Stack};

impl Kind {
    /// Returns Lua's name of the type.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "no value",
            Self::Nil => "nil",
            Self::Boolean => "boolean",
            Self::LightUserdata | Self::Userdata => "userdata",
            Self::Number => "number",
            Self::String => "string",
            Self::Table => "table",
            Self::Function => "function",
            Self::Thread => "thread",
        }
    }
}

impl Stack<'_> {
    /// Returns the text of a string or a number, as Lua's `tostring` writes it; `None` for other
    /// types.
    pub(crate) fn coerced(&self, at: i32) -> Option<Vec<u8>> {
        match self.kind(at) {
            Kind::String => self.bytes(at).map(<[u8]>::to_vec),
            Kind::Number => Some(self.number_text(at)),
            _ => None,
        }
    }

    /// Returns the text of any value as Lua's `tostring` writes it, without metamethods.
    pub(crate) fn shown(&self, at: i32) -> Vec<u8> {
        self.coerced(at).unwrap_or_else(|| match self.kind(at) {
            Kind::None | Kind::Nil => b"nil".to_vec(),
            Kind::Boolean => self.boolean(at).to_string().into_bytes(),
            kind if self.address(at).is_null() => format!("{}: (nil)", kind.name()).into_bytes(),
            kind => format!("{}: {:p}", kind.name(), self.address(at)).into_bytes(),
        })
    }

    /// Returns an integer argument.
    ///
    /// # Errors
    /// Lua's message if the argument is not a number.
    pub(crate) fn check_integer(&self, at: i32) -> Result<i64, Raise> {
        self.check_number(at).map(truncate)
    }

    /// Returns an integer argument, or `default` if the argument is nil or missing.
    ///
    /// # Errors
    /// Lua's message if the argument is of another type.
    pub(crate) fn optional_integer(&self, at: i32, default: i64) -> Result<i64, Raise> {
        match self.kind(at) {
            Kind::None | Kind::Nil => Ok(default),
            _ => self.check_integer(at),
        }
    }

    /// Returns a number argument.
    ///
    /// # Errors
    /// Lua's message if the argument is not a number.
    pub(crate) fn check_number(&self, at: i32) -> Result<f64, Raise> {
        if self.is_numeric(at) {
            Ok(self.to_number(at))
        } else {
            Err(self.type_error(at, "number"))
        }
    }

    /// Returns a string argument; a number is converted to its text.
    ///
    /// # Errors
    /// Lua's message if the argument is neither a string nor a number.
    pub(crate) fn check_bytes(&self, at: i32) -> Result<Vec<u8>, Raise> {
        self.coerced(at)
            .ok_or_else(|| self.type_error(at, "string"))
    }

    /// Returns the error of an argument with the wrong type.
    pub(crate) fn type_error(&self, at: i32, expected: &str) -> Raise {
        let got = self.kind(at).name();
        self.argument_error(at, format!("{expected} expected, got {got}"))
    }

    /// Returns the index of the option that an argument names.
    ///
    /// # Errors
    /// Lua's message if the argument is not a string, or not one of the options.
    pub(crate) fn check_option(&self, at: i32, options: &[&str]) -> Result<usize, Raise> {
        let name = self.check_bytes(at)?;
        // As in C, the string ends at its first NUL.
        let name = name.split(|&b| b == 0).next().unwrap_or_default();
        options
            .iter()
            .position(|option| option.as_bytes() == name)
            .ok_or_else(|| self.argument_error(at, [b"invalid option '", name, b"'"].concat()))
    }

    /// Returns the error of an argument with a wrong value.
    pub(crate) fn argument_error(&self, at: i32, problem: impl AsRef<[u8]>) -> Raise {
        let (name, method) = self.running_name();
        let start = match at - i32::from(method) {
            0 if method => format!("calling '{name}' on bad self ("),
            at => format!("bad argument #{at} to '{name}' ("),
        };
        Raise::Message([start.as_bytes(), problem.as_ref(), b")"].concat())
    }
}

/// Converts to an integer as C code on x86-64 does: NaN and values that do not fit become the
/// smallest integer.
pub(crate) fn truncate(value: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&value) {
        value as i64
    } else {
        i64::MIN
    }
}

/// Returns the text up to its first NUL, where a C string ends.
pub(crate) fn c_string(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == 0).next().unwrap_or_default()
}
