//! Converts JSON text to Lua values.

use super::config::Decode;
use super::{Buffers, number, out_of_memory};
use crate::raw::Stack;
use crate::raw::function::Raise;

/// A table that is being filled. It is on the stack; the key of an object's next value is above it.
pub(crate) enum Open {
    /// The index of the next element.
    Array(i32),
    Object,
}

/// The kind of a token. The token's data is in fields of the [`Lexer`], so that a `Token` fits in a
/// register.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    /// A string without escapes, which is the text from [`Lexer::from`] to [`Lexer::to`].
    Plain,
    /// A string with escapes. [`Lexer::unescaped`] has the string with its escapes replaced.
    Unescaped,
    /// A number, which is in [`Lexer::value`].
    Number,
    True,
    False,
    Null,
    Colon,
    Comma,
    End,
    /// An error, which [`Lexer::problem`] describes.
    Error,
}

/// `cjson.decode(text)`.
pub(super) fn decode(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    if stack.top() != 1 {
        return Err(stack.argument_error(1, "expected 1 argument"));
    }
    let settings = Decode::of(stack);
    Buffers::with(stack, |stack, buffers| {
        let Buffers {
            text,
            unescaped,
            decoding,
            ..
        } = buffers;
        match stack.bytes(1) {
            Some(bytes) => text.extend_from_slice(bytes),
            None => *text = stack.check_bytes(1)?,
        }
        if text.len() >= 2 && text[..2].contains(&0) {
            return Err(Raise::message(
                "JSON parser does not support UTF-16 or UTF-32",
            ));
        }
        // As in C, the text ends at its first NUL.
        let len = memchr::memchr(0, text).unwrap_or(text.len());
        let lexer = Lexer {
            text: &text[..len],
            at: 0,
            next: 0,
            from: 0,
            to: 0,
            value: 0.0,
            problem: "",
            invalid: settings.invalid,
            unescaped,
        };
        let mut decoder = Decoder {
            lexer,
            open: decoding,
            max_depth: settings.max_depth,
        };
        decoder.run(stack).map(|()| 1)
    })
}

struct Decoder<'t> {
    lexer: Lexer<'t>,
    open: &'t mut Vec<Open>,
    max_depth: i32,
}

impl Decoder<'_> {
    /// Pushes the value of the whole text.
    fn run(&mut self, stack: &mut Stack<'_>) -> Result<(), Raise> {
        let mut token = self.lexer.token();
        loop {
            if let Some(first) = self.push(stack, token)? {
                token = first;
                continue;
            }
            // The value at the top is complete. Adds it to the innermost table, and completes the
            // tables that end here.
            token = loop {
                let token = match self.open.last_mut() {
                    None => {
                        return match self.lexer.token() {
                            Token::End => Ok(()),
                            other => Err(self.lexer.unexpected("the end", other)),
                        };
                    }
                    Some(Open::Array(index)) => {
                        stack.append(*index);
                        *index += 1;
                        if *index % 1024 == 0 && stack.context().is_out_of_memory(0) {
                            return Err(out_of_memory(stack));
                        }
                        match self.lexer.token() {
                            Token::ArrayEnd => None,
                            Token::Comma => Some(self.lexer.token()),
                            other => {
                                return Err(self.lexer.unexpected("comma or array end", other));
                            }
                        }
                    }
                    Some(Open::Object) => {
                        stack.set_element();
                        match self.lexer.token() {
                            Token::ObjectEnd => None,
                            Token::Comma => {
                                let key = self.lexer.token();
                                Some(self.push_key(stack, key)?)
                            }
                            other => {
                                return Err(self.lexer.unexpected("comma or object end", other));
                            }
                        }
                    }
                };
                match token {
                    Some(token) => break token,
                    None => self.open.pop(),
                };
            };
        }
    }

    /// Pushes a value that begins with `token`. If the value is an array with elements, pushes only
    /// an empty table, and for an object also the first key. Returns the first token of the first
    /// element in these cases.
    fn push(&mut self, stack: &mut Stack<'_>, token: Token) -> Result<Option<Token>, Raise> {
        match token {
            Token::Plain | Token::Unescaped => stack.push_bytes(self.lexer.text_of(token)),
            Token::Number => stack.push_number(self.lexer.value),
            Token::True => stack.push_boolean(true),
            Token::False => stack.push_boolean(false),
            Token::Null => stack.push_light_userdata(0),
            Token::ArrayBegin => {
                self.descend(stack, 2)?;
                stack.push_table(0, 0);
                let token = self.lexer.token();
                if !matches!(token, Token::ArrayEnd) {
                    self.open.push(Open::Array(1));
                    return Ok(Some(token));
                }
            }
            Token::ObjectBegin => {
                self.descend(stack, 3)?;
                stack.push_table(0, 0);
                let token = self.lexer.token();
                if !matches!(token, Token::ObjectEnd) {
                    self.open.push(Open::Object);
                    return self.push_key(stack, token).map(Some);
                }
            }
            other => return Err(self.lexer.unexpected("value", other)),
        }
        Ok(None)
    }

    /// Pushes a key, and returns the first token of its value.
    fn push_key(&mut self, stack: &Stack<'_>, token: Token) -> Result<Token, Raise> {
        match token {
            Token::Plain | Token::Unescaped => stack.push_bytes(self.lexer.text_of(token)),
            other => return Err(self.lexer.unexpected("object key string", other)),
        }
        match self.lexer.token() {
            Token::Colon => Ok(self.lexer.token()),
            other => Err(self.lexer.unexpected("colon", other)),
        }
    }

    /// Makes room for a table that needs `slots` values on the stack, and checks the depth and the
    /// memory.
    fn descend(&self, stack: &Stack<'_>, slots: i32) -> Result<(), Raise> {
        let depth = self.open.len() as i32 + 1;
        if depth > self.max_depth || !stack.has_room(slots) {
            return Err(Raise::message(format!(
                "Found too many nested data structures ({depth}) at character {}",
                self.lexer.next
            )));
        }
        if stack.context().is_out_of_memory(0) {
            return Err(out_of_memory(stack));
        }
        Ok(())
    }
}

/// Divides the text into tokens, and holds the data of the last token.
struct Lexer<'t> {
    text: &'t [u8],
    /// Position of the last token, or of the error in that token.
    at: usize,
    /// Position after the last token.
    next: usize,
    /// Start of the last string without escapes.
    from: usize,
    /// End of the last string without escapes.
    to: usize,
    /// The last number.
    value: f64,
    /// The description of an error.
    problem: &'static str,
    /// Whether numbers that JSON does not have are accepted.
    invalid: bool,
    /// The last string that had escapes.
    unescaped: &'t mut Vec<u8>,
}

impl Lexer<'_> {
    fn token(&mut self) -> Token {
        let mut byte = self.text.get(self.next);
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = byte {
            self.next += 1;
            byte = self.text.get(self.next);
        }
        self.at = self.next;
        let token = match byte {
            None => return Token::End,
            Some(b'"') => return self.string(),
            Some(b'-' | b'0'..=b'9') => return self.number(),
            Some(b't' | b'f' | b'n' | b'N' | b'i' | b'I' | b'+') => return self.word(),
            Some(b'{') => Token::ObjectBegin,
            Some(b'}') => Token::ObjectEnd,
            Some(b'[') => Token::ArrayBegin,
            Some(b']') => Token::ArrayEnd,
            Some(b':') => Token::Colon,
            Some(b',') => Token::Comma,
            Some(_) => return self.error(self.at, "invalid token"),
        };
        self.next += 1;
        token
    }

    /// Reads a string; `next` is the position of its opening quote.
    fn string(&mut self) -> Token {
        let start = self.next + 1;
        let mut plain = start;
        loop {
            let Some(len) = memchr::memchr2(b'"', b'\\', &self.text[plain..]) else {
                return self.error(self.text.len(), "unexpected end of string");
            };
            let end = plain + len;
            if self.text[end] == b'"' {
                self.next = end + 1;
                if plain == start {
                    (self.from, self.to) = (start, end);
                    return Token::Plain;
                }
                self.unescaped.extend_from_slice(&self.text[plain..end]);
                return Token::Unescaped;
            }
            if plain == start {
                self.unescaped.clear();
            }
            self.unescaped.extend_from_slice(&self.text[plain..end]);
            match self.escape(&self.text[end + 1..]) {
                Ok(len) => plain = end + 1 + len,
                Err(problem) => return self.error(end, problem),
            }
        }
    }

    /// Appends the character of an escape to `unescaped`. `text` starts after the backslash.
    /// Returns the length of the escape without the backslash.
    fn escape(&mut self, text: &[u8]) -> Result<usize, &'static str> {
        let character = match text.first() {
            Some(b @ (b'"' | b'\\' | b'/')) => *b,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                let (character, len) = code_point(text).ok_or("invalid unicode escape code")?;
                let mut utf8 = [0; 4];
                let utf8 = character.encode_utf8(&mut utf8);
                self.unescaped.extend_from_slice(utf8.as_bytes());
                return Ok(len);
            }
            _ => return Err("invalid escape code"),
        };
        self.unescaped.push(character);
        Ok(1)
    }

    /// Reads a number.
    fn number(&mut self) -> Token {
        let text = &self.text[self.next..];
        if !self.invalid && is_invalid(text) {
            return self.error(self.at, "invalid number");
        }
        match number::scan(text) {
            Some((value, len)) => {
                self.value = value;
                self.next += len;
                Token::Number
            }
            None => self.error(self.at, "invalid number"),
        }
    }

    /// Reads `true`, `false` or `null`, or a number that JSON does not have.
    fn word(&mut self) -> Token {
        let text = &self.text[self.next..];
        for (word, token) in [
            (b"true".as_slice(), Token::True),
            (b"false", Token::False),
            (b"null", Token::Null),
        ] {
            if text.starts_with(word) {
                self.next += word.len();
                return token;
            }
        }
        if self.invalid && is_invalid(text) {
            return self.number();
        }
        self.error(self.at, "invalid token")
    }

    fn error(&mut self, at: usize, problem: &'static str) -> Token {
        self.at = at;
        self.problem = problem;
        Token::Error
    }

    /// Returns the bytes of the last token, which is a string.
    fn text_of(&self, token: Token) -> &[u8] {
        if token == Token::Plain {
            &self.text[self.from..self.to]
        } else {
            self.unescaped
        }
    }

    #[cold]
    fn unexpected(&self, expected: &str, found: Token) -> Raise {
        let found = match found {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::Plain | Token::Unescaped => "T_STRING",
            Token::Number => "T_NUMBER",
            Token::True | Token::False => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Error => self.problem,
        };
        Raise::message(format!(
            "Expected {expected} but found {found} at character {}",
            self.at + 1
        ))
    }
}

/// Returns whether `text` begins with a number that `strtod` accepts and JSON does not have: one
/// with a plus sign, in hexadecimal, with a leading zero, an infinity or NaN.
fn is_invalid(text: &[u8]) -> bool {
    let (text, plus) = match text {
        [b'+', ..] => (text, true),
        [b'-', rest @ ..] => (rest, false),
        _ => (text, false),
    };
    let begins = |word: &[u8]| {
        text.get(..word.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    plus || matches!(text, [b'0', b'x' | b'X' | b'0'..=b'9', ..])
        || begins(b"inf")
        || begins(b"nan")
}

/// Returns the character of `uXXXX` or of a surrogate pair `uXXXX\uXXXX`, and the length of that
/// text.
fn code_point(text: &[u8]) -> Option<(char, usize)> {
    const LEN: usize = 5;
    let first = code_unit(text)?;
    if let Some(character) = char::from_u32(first) {
        return Some((character, LEN));
    }
    let (b'\\', second) = text.get(LEN..)?.split_first()? else {
        return None;
    };
    let second = code_unit(second)?;
    let pair = [first as u16, second as u16];
    let character = char::decode_utf16(pair).next()?.ok()?;
    Some((character, 2 * LEN + 1))
}

/// Returns the number in `uXXXX`.
fn code_unit(text: &[u8]) -> Option<u32> {
    let [b'u', digits @ ..] = text else {
        return None;
    };
    digits.get(..4)?.iter().try_fold(0, |unit, &digit| {
        Some(unit << 4 | char::from(digit).to_digit(16)?)
    })
}
