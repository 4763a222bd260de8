//! Arguments of native functions, with the errors of Lua's own functions.

use super::function::Raise;
use super::{Kind, Stack};

impl Stack<'_> {
    /// Returns the text of a string or a number, as Lua's `tostring` writes it.
    pub(crate) fn coerced(&self, at: i32) -> Option<Vec<u8>> {
        match self.kind(at) {
            Kind::String => self.bytes(at).map(<[u8]>::to_vec),
            Kind::Number => Some(self.number_text(at)),
            _ => None,
        }
    }

    /// Returns an integer argument.
    ///
    /// # Errors
    /// Lua's message if the argument is no number.
    pub(crate) fn check_integer(&self, at: i32) -> Result<i64, Raise> {
        self.check_number(at).map(|value| value as i64)
    }

    /// Returns a number argument.
    ///
    /// # Errors
    /// Lua's message if the argument is no number.
    pub(crate) fn check_number(&self, at: i32) -> Result<f64, Raise> {
        if self.is_numeric(at) {
            Ok(self.to_number(at))
        } else {
            Err(self.type_error(at, "number"))
        }
    }

    /// Returns a string argument; numbers are converted.
    ///
    /// # Errors
    /// Lua's message if the argument is neither.
    pub(crate) fn check_bytes(&self, at: i32) -> Result<Vec<u8>, Raise> {
        self.coerced(at)
            .ok_or_else(|| self.type_error(at, "string"))
    }

    /// Returns the error of an argument with the wrong type.
    pub(crate) fn type_error(&self, at: i32, expected: &str) -> Raise {
        let got = match self.kind(at) {
            Kind::None => "no value",
            Kind::Nil => "nil",
            Kind::Boolean => "boolean",
            Kind::LightUserdata | Kind::Userdata => "userdata",
            Kind::Number => "number",
            Kind::String => "string",
            Kind::Table => "table",
            Kind::Function => "function",
            Kind::Thread => "thread",
        };
        self.argument_error(at, &format!("{expected} expected, got {got}"))
    }

    /// Returns the error of an argument with a wrong value.
    pub(crate) fn argument_error(&self, at: i32, problem: &str) -> Raise {
        let name = self.running_name();
        Raise::message(format!("bad argument #{at} to '{name}' ({problem})"))
    }
}
