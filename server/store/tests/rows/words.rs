//! Chooses command lines from bytes: rows of all families, with arguments that mostly follow the
//! syntax of the row.

use std::sync::LazyLock;

use punctual_resp::OwnedArgs;
use punctual_store::spec::syntax::{self, Argument, Kind};
use punctual_store::{Command, Now, command};

/// A row with a handler, its container's name and its parsed arguments.
type Parsed = (
    Option<&'static str>,
    &'static Command,
    Vec<Argument<'static>>,
);

/// Rows of all families.
static ROWS: LazyLock<Vec<Parsed>> = LazyLock::new(|| {
    let families = command::FAMILIES.iter().flat_map(|family| family.iter());
    let rows = families.flat_map(|row| {
        let own = row.handler.is_some().then_some((None, row));
        own.into_iter()
            .chain(row.subcommands.iter().map(|sub| (Some(row.name), sub)))
    });
    rows.map(|(container, row)| {
        let arguments = syntax::parse(row.syntax).expect("the syntax of a row");
        (container, row, arguments)
    })
    .collect()
});

#[rustfmt::skip]
const STRINGS: [&str; 24] = [
    "", "a", "b", "c", "m1", "m2",
    "long member of a collection, longer than the limit of a packed one", "*", "+", "-", "$", ">",
    "0-1", "5-*", "7", "(1", "[a", "(b", "-inf", "+inf", "u8", "i64", "#1", "GET",
];
/// The list has no number between 2^16 and 2^32, because such an offset of SETBIT or SETRANGE would
/// create a value of up to 512 MiB.
#[rustfmt::skip]
const NUMBERS: [&str; 16] = [
    "0", "1", "-1", "2", "300", "-300", "9223372036854775807", "-9223372036854775808",
    "9223372036854775808", "18446744073709551615", "4294967296", "1.5", "-0.0", "1e308", "nan",
    "01",
];

/// A cursor over the bytes that decide the choices. After the last byte, every choice is the first
/// option.
pub struct Words<'a> {
    input: &'a [u8],
    /// Value of the last argument that counts other arguments, such as `numkeys`.
    counted: Option<usize>,
}

impl<'a> Words<'a> {
    pub fn new(input: &'a [u8]) -> Self {
        Self {
            input,
            counted: None,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.input.is_empty()
    }

    fn byte(&mut self) -> u8 {
        self.input.split_off_first().copied().unwrap_or(0)
    }

    /// Returns a number below `end`, which is at most 65,536.
    pub fn below(&mut self, end: usize) -> usize {
        let low = usize::from(self.byte());
        let high = if end > 256 {
            usize::from(self.byte())
        } else {
            0
        };
        (high << 8 | low) % end
    }

    /// Returns true with a probability of `1 / n`.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }

    pub fn key(&mut self) -> Vec<u8> {
        format!("k{}", self.below(8)).into_bytes()
    }

    /// Returns a command, perhaps with a wrong number of arguments.
    pub fn command(&mut self, now: Now) -> (&'static Command, OwnedArgs) {
        let (container, row, arguments) = &ROWS[self.below(ROWS.len())];
        let mut words: Vec<Vec<u8>> = Vec::new();
        words.extend(container.map(|name| name.as_bytes().to_vec()));
        words.push(row.name.as_bytes().to_vec());
        let fixed = words.len();
        // A large negative count of random members would make a reply of that length.
        let short = row.name.contains("rand");
        self.counted = None;
        for argument in arguments {
            self.argument(argument, now, short, &mut words);
        }
        if words.len() > fixed && self.one_in(8) {
            let at = fixed + self.below(words.len() - fixed);
            match self.below(3) {
                0 => drop(words.remove(at)),
                1 => words.insert(at, self.bytes()),
                _ => words.swap(fixed, at),
            }
        }
        (row, words.iter().collect())
    }

    fn argument(&mut self, argument: &Argument, now: Now, short: bool, words: &mut Vec<Vec<u8>>) {
        if argument.optional && self.one_in(2) {
            return;
        }
        let times = match (argument.multiple, self.counted) {
            (false, _) => 1,
            (true, Some(counted)) => counted,
            (true, None) => 1 + self.below(3),
        };
        for at in 0..times {
            let token = argument
                .token
                .filter(|_| at == 0 || argument.multiple_token);
            words.extend(token.map(|token| token.as_bytes().to_vec()));
            match argument.kind {
                Kind::PureToken => {}
                Kind::Block => {
                    for inner in &argument.arguments {
                        self.argument(inner, now, short, words);
                    }
                }
                Kind::OneOf => {
                    let inner = &argument.arguments[self.below(argument.arguments.len())];
                    self.argument(inner, now, short, words);
                }
                _ => {
                    let word = self.value(argument, now, short);
                    words.push(word);
                }
            }
        }
    }

    fn value(&mut self, argument: &Argument, now: Now, short: bool) -> Vec<u8> {
        let name = &argument.name[..];
        if self.one_in(16) {
            return self.bytes();
        }
        match argument.kind {
            Kind::Key => self.key(),
            Kind::Pattern => ["*", "k*", "k[0-3]", "?1"][self.below(4)].into(),
            Kind::Integer if name.starts_with("num") => {
                let count = 1 + self.below(3);
                self.counted = Some(count);
                count.to_string().into_bytes()
            }
            Kind::UnixTime => self.time(now.read_ms() as i64, name.ends_with("milliseconds")),
            Kind::Integer if name.contains("seconds") || name.contains("ttl") => {
                self.time(0, name.contains("milliseconds"))
            }
            Kind::Integer | Kind::Double if short => (self.below(16) as i64 - 8).to_string().into(),
            Kind::Integer | Kind::Double if self.one_in(3) => {
                NUMBERS[self.below(NUMBERS.len())].into()
            }
            Kind::Integer => (self.below(24) as i64 - 4).to_string().into(),
            Kind::Double => format!("{}", (self.below(200) as f64 - 100.0) / 4.0).into(),
            _ if self.one_in(4) => NUMBERS[self.below(NUMBERS.len())].into(),
            _ => STRINGS[self.below(STRINGS.len())].into(),
        }
    }

    /// Returns a time near `base_ms`, in milliseconds or seconds, or sometimes an entry of
    /// [`NUMBERS`].
    fn time(&mut self, base_ms: i64, milliseconds: bool) -> Vec<u8> {
        if self.one_in(8) {
            return NUMBERS[self.below(NUMBERS.len())].into();
        }
        let ms = base_ms + [-1000, 0, 1, 50, 1000, 5000, 100_000_000][self.below(7)];
        let time = if milliseconds { ms } else { ms / 1000 };
        time.to_string().into_bytes()
    }

    /// Returns up to three bytes, so that a decimal number in them is small.
    fn bytes(&mut self) -> Vec<u8> {
        let len = self.below(4).min(self.input.len());
        self.input.split_off(..len).unwrap_or_default().to_vec()
    }
}
