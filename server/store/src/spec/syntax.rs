//! Notation for the arguments of commands: a row declares its arguments in one string. COMMAND DOCS
//! and tests derive from the string. Example:
//! `key [condition: NX | XX] [GET@6.2.0] [expiration: EX seconds | KEEPTTL]`
//!
//! - A lower-case word is a value. A colon sets its type if the name does not: `db:integer`. A
//!   digit is the index of its key specification: `newkey:key1`. Quotes keep a colon in the name:
//!   `"ip:port"`.
//! - Any other word is a token, which belongs to the value or to the `(...)` after it. `""` is the
//!   empty token.
//! - `(...)` groups, and `[...]` is optional. Several items are a block, and items between `|` are
//!   alternatives. A group with one item is that item.
//! - `name: ` at the start of a group names the group. A group without a name has its token's name.
//! - `...` says that the item before it may be repeated: a value without its token, a group
//!   together with its token.
//! - `@6.2.0` after an item is its first Redis version, `!2.8.12` the version that deprecated it.

use std::borrow::Cow;

/// Type of an argument, as in COMMAND DOCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any bytes.
    String,
    /// Digits, with or without a sign.
    Integer,
    /// A floating-point number.
    Double,
    /// Name of a key.
    Key,
    /// A glob-style pattern.
    Pattern,
    /// A time since 1970.
    UnixTime,
    /// A token without a value.
    PureToken,
    /// One of the nested arguments.
    OneOf,
    /// All nested arguments.
    Block,
}

impl Kind {
    /// Returns the name that COMMAND DOCS shows.
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Double => "double",
            Self::Key => "key",
            Self::Pattern => "pattern",
            Self::UnixTime => "unix-time",
            Self::PureToken => "pure-token",
            Self::OneOf => "oneof",
            Self::Block => "block",
        }
    }

    /// Returns the type of a value with this name.
    fn of_value(name: &str) -> Self {
        match name {
            "key" | "queue" => Self::Key,
            "pattern" => Self::Pattern,
            "unix-time-seconds" | "unix-time-milliseconds" => Self::UnixTime,
            "height" | "latitude" | "longitude" | "radius" | "score" | "timeout" | "width" => {
                Self::Double
            }
            "client-id" | "count" | "cursor" | "end-slot" | "index" | "limit" | "milliseconds"
            | "numfields" | "numids" | "numkeys" | "nummembers" | "offset" | "port" | "seconds"
            | "slot" | "start-slot" | "ttl" => Self::Integer,
            _ => Self::String,
        }
    }

    /// Returns the type of a value that a syntax names.
    fn named(name: &str) -> Option<Self> {
        [
            Self::String,
            Self::Integer,
            Self::Double,
            Self::Key,
            Self::Pattern,
            Self::UnixTime,
        ]
        .into_iter()
        .find(|kind| kind.name() == name)
    }
}

/// An argument of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument<'a> {
    /// Name, unique among its siblings in most commands.
    pub name: Cow<'a, str>,
    /// Type.
    pub kind: Kind,
    /// Word for the value in the syntax that COMMAND DOCS displays; `None` for groups.
    pub display: Option<Cow<'a, str>>,
    /// Index of its key specification.
    pub key_spec: Option<u8>,
    /// Word that precedes the argument or, for a pure token, is the argument.
    pub token: Option<&'a str>,
    /// First Redis version with the argument, if it is later than the first version with the
    /// command.
    pub since: Option<&'a str>,
    /// Redis version that deprecated it.
    pub deprecated_since: Option<&'a str>,
    /// Whether the argument may be left out.
    pub optional: bool,
    /// Whether the argument may be repeated.
    pub multiple: bool,
    /// Whether the token is repeated with the argument.
    pub multiple_token: bool,
    /// Nested arguments of a group.
    pub arguments: Vec<Self>,
}

/// An error in the text of a syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A group without items, an alternative without exactly one item, or a token before an item
    /// that already has a token.
    Items,
    /// A group that has neither a name nor a token, or alternatives outside of a group.
    Name,
    /// A type that does not exist.
    Type,
    /// A bracket or quote without its counterpart.
    Unbalanced,
    /// A name, mark or repetition in the wrong place.
    Unexpected,
}

/// Parses a syntax, in O(N) for N bytes.
///
/// # Errors
/// A [`Fault`] if the text does not follow the notation. The syntax of every row does.
pub fn parse(text: &str) -> Result<Vec<Argument<'_>>, Fault> {
    let mut parser = Parser { rest: text };
    let mut alternatives = parser.alternatives()?;
    match (alternatives.pop(), parser.next()?) {
        (Some(items), None) if alternatives.is_empty() => Ok(items),
        (_, None) => Err(Fault::Name),
        (_, Some(_)) => Err(Fault::Unbalanced),
    }
}

impl<'a> Argument<'a> {
    const fn new(name: Cow<'a, str>, kind: Kind) -> Self {
        Self {
            name,
            kind,
            display: None,
            key_spec: None,
            token: None,
            since: None,
            deprecated_since: None,
            optional: false,
            multiple: false,
            multiple_token: false,
            arguments: Vec::new(),
        }
    }

    fn value(word: &'a str) -> Result<Self, Fault> {
        let (name, kind, digit) = match word.split_once(':') {
            Some((name, of)) => {
                let kind = of.trim_end_matches(|c: char| c.is_ascii_digit());
                let digit = of.as_bytes().get(kind.len()).map(|digit| digit - b'0');
                (name, Kind::named(kind).ok_or(Fault::Type)?, digit)
            }
            None => (word, Kind::of_value(word), None),
        };
        let mut argument = Self::named(name, kind);
        argument.key_spec = digit.or((kind == Kind::Key).then_some(0));
        Ok(argument)
    }

    fn named(name: &'a str, kind: Kind) -> Self {
        Self {
            display: Some(name.into()),
            ..Self::new(name.into(), kind)
        }
    }

    fn pure_token(token: &'a str) -> Self {
        let name = token.to_ascii_lowercase();
        Self {
            display: Some(name.clone().into()),
            token: Some(token),
            ..Self::new(name.into(), Kind::PureToken)
        }
    }
}

#[derive(Clone, Copy)]
enum Lexeme<'a> {
    Open { optional: bool },
    Close { optional: bool },
    Bar,
    Dots,
    Since(&'a str),
    Deprecated(&'a str),
    Name(&'a str),
    Value(&'a str),
    Quoted(&'a str),
    Token(&'a str),
}

#[derive(Clone, Copy)]
struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn next(&mut self) -> Result<Option<Lexeme<'a>>, Fault> {
        let text = self.rest.trim_start();
        let Some(first) = text.bytes().next() else {
            self.rest = text;
            return Ok(None);
        };
        let (lexeme, length) = match first {
            b'(' | b'[' => (
                Lexeme::Open {
                    optional: first == b'[',
                },
                1,
            ),
            b')' | b']' => (
                Lexeme::Close {
                    optional: first == b']',
                },
                1,
            ),
            b'|' => (Lexeme::Bar, 1),
            b'"' => {
                let (quoted, _) = text[1..].split_once('"').ok_or(Fault::Unbalanced)?;
                (Lexeme::Quoted(quoted), quoted.len() + 2)
            }
            b'@' | b'!' => {
                let version = word(&text[1..]);
                let lexeme = match first {
                    b'@' => Lexeme::Since(version),
                    _ => Lexeme::Deprecated(version),
                };
                (lexeme, 1 + version.len())
            }
            _ => {
                let word = word(text);
                let lexeme = match word.strip_suffix(':') {
                    Some(name) => Lexeme::Name(name),
                    None if word == "..." => Lexeme::Dots,
                    None if first.is_ascii_lowercase() => Lexeme::Value(word),
                    None => Lexeme::Token(word),
                };
                (lexeme, word.len())
            }
        };
        self.rest = &text[length..];
        Ok(Some(lexeme))
    }

    fn peek(mut self) -> Result<Option<Lexeme<'a>>, Fault> {
        self.next()
    }

    /// Parses items up to the end of the group, at least one alternative.
    fn alternatives(&mut self) -> Result<Vec<Vec<Argument<'a>>>, Fault> {
        let (mut alternatives, mut items) = (Vec::new(), Vec::new());
        loop {
            match self.peek()? {
                None | Some(Lexeme::Close { .. }) => {
                    alternatives.push(items);
                    return Ok(alternatives);
                }
                Some(Lexeme::Bar) => {
                    self.next()?;
                    alternatives.push(std::mem::take(&mut items));
                }
                Some(_) => items.push(self.item()?),
            }
        }
    }

    fn item(&mut self) -> Result<Argument<'a>, Fault> {
        let first = self.next()?;
        let mut argument = match first {
            Some(Lexeme::Open { optional }) => self.group(optional, None)?,
            Some(Lexeme::Value(word)) => Argument::value(word)?,
            Some(Lexeme::Token(token)) => self.with_token(token)?,
            Some(Lexeme::Quoted("")) => Argument::pure_token(""),
            Some(Lexeme::Quoted(name)) => Argument::named(name, Kind::String),
            _ => return Err(Fault::Unexpected),
        };
        loop {
            match self.peek()? {
                Some(Lexeme::Since(version)) => argument.since = Some(version),
                Some(Lexeme::Deprecated(version)) => argument.deprecated_since = Some(version),
                Some(Lexeme::Dots) => {
                    argument.multiple = true;
                    argument.multiple_token =
                        argument.token.is_some() && matches!(first, Some(Lexeme::Open { .. }));
                }
                _ => return Ok(argument),
            }
            self.next()?;
        }
    }

    /// Parses the value or the group of a token, if it has one.
    fn with_token(&mut self, token: &'a str) -> Result<Argument<'a>, Fault> {
        let mut argument = match self.peek()? {
            Some(Lexeme::Value(word)) => {
                self.next()?;
                Argument::value(word)?
            }
            Some(Lexeme::Quoted(name)) => {
                self.next()?;
                Argument::named(name, Kind::String)
            }
            Some(Lexeme::Open { optional: false }) => {
                self.next()?;
                self.group(false, Some(token))?
            }
            _ => return Ok(Argument::pure_token(token)),
        };
        if argument.token.replace(token).is_some() {
            return Err(Fault::Items);
        }
        Ok(argument)
    }

    /// Parses a group after its opening bracket.
    fn group(&mut self, optional: bool, token: Option<&'a str>) -> Result<Argument<'a>, Fault> {
        let mut name = token.map(|token| Cow::from(token.to_ascii_lowercase()));
        let mut own_name = None;
        if let Some(Lexeme::Name(label)) = self.peek()? {
            self.next()?;
            (name, own_name) = (Some(label.into()), Some(label));
        }
        let mut alternatives = self.alternatives()?;
        match self.next()? {
            Some(Lexeme::Close { optional: closes }) if closes == optional => {}
            _ => return Err(Fault::Unbalanced),
        }
        let is_block = alternatives.len() == 1;
        let mut items = if is_block {
            alternatives.pop().unwrap_or_default()
        } else {
            let alone = |mut items: Vec<Argument<'a>>| match items.len() {
                1 => items.pop(),
                _ => None,
            };
            let all: Option<Vec<_>> = alternatives.into_iter().map(alone).collect();
            all.ok_or(Fault::Items)?
        };
        let mut argument = if is_block && items.len() == 1 {
            let mut item = items.pop().ok_or(Fault::Items)?;
            if let Some(label) = own_name {
                item.name = label.into();
                if item.kind == Kind::PureToken {
                    item.display = Some(label.into());
                }
            }
            item
        } else if items.is_empty() {
            return Err(Fault::Items);
        } else {
            let kind = if is_block { Kind::Block } else { Kind::OneOf };
            let mut group = Argument::new(name.ok_or(Fault::Name)?, kind);
            group.arguments = items;
            group
        };
        argument.optional |= optional;
        Ok(argument)
    }
}

/// Returns the word at the start of a text.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| c.is_whitespace() || "()[]|@!".contains(c));
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Argument<'_> {
        let mut all = parse(text).unwrap();
        assert_eq!(all.len(), 1, "{text}");
        all.pop().unwrap()
    }

    fn names<'a>(arguments: &'a [Argument<'_>]) -> Vec<&'a str> {
        arguments.iter().map(|argument| &*argument.name).collect()
    }

    #[test]
    fn words_are_values_or_tokens() {
        let all = parse("key db:integer newkey:key1 NX EX seconds \"ip:port\"").unwrap();
        let kinds: Vec<_> = all.iter().map(|a| (&*a.name, a.kind, a.key_spec)).collect();
        assert_eq!(
            kinds,
            [
                ("key", Kind::Key, Some(0)),
                ("db", Kind::Integer, None),
                ("newkey", Kind::Key, Some(1)),
                ("nx", Kind::PureToken, None),
                ("seconds", Kind::Integer, None),
                ("ip:port", Kind::String, None),
            ]
        );
        let tokens: Vec<_> = all.iter().map(|a| a.token).collect();
        assert_eq!(tokens, [None, None, None, Some("NX"), Some("EX"), None]);
        assert_eq!(parse(""), Ok(Vec::new()));
    }

    #[test]
    fn brackets_group_and_make_optional() {
        let limit = one("[LIMIT (offset count)]");
        assert_eq!(
            (&*limit.name, limit.kind, limit.optional),
            ("limit", Kind::Block, true)
        );
        assert_eq!(names(&limit.arguments), ["offset", "count"]);
        let end = one("(whereto: LEFT | RIGHT)");
        assert_eq!(
            (&*end.name, end.kind, end.optional),
            ("whereto", Kind::OneOf, false)
        );
        assert_eq!(names(&end.arguments), ["left", "right"]);
        let count = one("[COUNT count]");
        assert_eq!((count.kind, count.optional), (Kind::Integer, true));
    }

    #[test]
    fn a_group_of_one_item_renames_it() {
        let change = one("[change: CH]");
        assert_eq!((&*change.name, change.token), ("change", Some("CH")));
        assert_eq!(change.display.as_deref(), Some("change"));
        let auth = one("(auth: AUTH password)");
        assert_eq!(
            (&*auth.name, auth.display.as_deref()),
            ("auth", Some("password"))
        );
        let empty = one("(empty-string: \"\")");
        assert_eq!((&*empty.name, empty.token), ("empty-string", Some("")));
        assert_eq!(one("(TO (target: host port))").name, "target");
    }

    #[test]
    fn dots_after_a_group_repeat_the_token() {
        let flags = |text| {
            let argument = one(text);
            (
                argument.optional,
                argument.multiple,
                argument.multiple_token,
            )
        };
        assert_eq!(flags("key ..."), (false, true, false));
        assert_eq!(flags("[key ...]"), (true, true, false));
        assert_eq!(flags("[WEIGHTS weight ...]"), (true, true, false));
        assert_eq!(flags("[PREFIX prefix] ..."), (true, true, true));
        assert_eq!(flags("(data: field value) ..."), (false, true, false));
        assert_eq!(flags("FIELDS (field value) ..."), (false, true, false));
        assert_eq!(flags("[GET (encoding offset)] ..."), (true, true, true));
    }

    #[test]
    fn marks_give_versions() {
        let arguments = parse("[GET@6.2.0] [mode: A | B@7.0.0]@6.0.0 (c!2.8.12 ...)").unwrap();
        let [get, mode, c] = &arguments[..] else {
            panic!("{arguments:?}");
        };
        assert_eq!((get.since, get.optional), (Some("6.2.0"), true));
        assert_eq!(mode.since, Some("6.0.0"));
        assert_eq!(mode.arguments[1].since, Some("7.0.0"));
        assert_eq!((c.deprecated_since, c.multiple), (Some("2.8.12"), true));
    }

    #[test]
    fn faults_are_found() {
        for (text, fault) in [
            ("()", Fault::Items),
            ("[a: x | y z]", Fault::Items),
            ("A (B c)", Fault::Items),
            ("(x y)", Fault::Name),
            ("x | y", Fault::Name),
            ("x:float", Fault::Type),
            ("(a: x", Fault::Unbalanced),
            ("(a: x]", Fault::Unbalanced),
            ("x)", Fault::Unbalanced),
            ("\"x", Fault::Unbalanced),
            ("x a: y", Fault::Unexpected),
            ("... x", Fault::Unexpected),
            ("@1.0.0", Fault::Unexpected),
        ] {
            assert_eq!(parse(text), Err(fault), "{text}");
        }
    }
}
