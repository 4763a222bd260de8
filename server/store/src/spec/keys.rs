//! Positions of a command's keys among its arguments. Locks, ACL checks and COMMAND GETKEYS use
//! them.

use std::ops::Range;

use punctual_resp::Args;
use punctual_resp::decimal::parse_i64;

/// Positions of a command's keys among its arguments.
#[derive(Clone, Copy, Debug)]
pub enum Keys {
    /// No keys.
    None,
    /// Positions `first` to `last` (negative: from the end) in steps of `step`, as in COMMAND INFO.
    Range {
        /// Position of the first key; the command's name is at 0.
        first: usize,
        /// Position of the last key, -1 for the last argument.
        last: i32,
        /// Distance between two keys.
        step: usize,
    },
    /// Keys follow their number, which is the argument at `count`.
    Counted {
        /// Position of the number of keys.
        count: usize,
        /// Distance between two keys: 2 if a value follows each key.
        step: usize,
        /// The first argument is a key too: the destination.
        destination: bool,
    },
    /// One argument may be a key; further keys are arguments of options.
    Options(&'static OptionKeys),
    /// Keys are the arguments from position `first` up to the first of these words.
    Until {
        /// Position of the first key.
        first: usize,
        /// Words that end the keys.
        words: &'static [&'static str],
    },
    /// Keys are the first half of the arguments after the word STREAMS.
    Streams {
        /// First position at which the word may be, for COMMAND INFO.
        from: usize,
    },
    /// One key or, if that argument is empty, the arguments after an option.
    KeyOrOption(&'static KeyOrOption),
}

impl Keys {
    /// Calls `visit` with the position of each key in `args`.
    pub fn each(&self, args: Args, visit: &mut dyn FnMut(usize)) {
        match *self {
            Self::None => {}
            Self::Range { first, last, step } => {
                let end = if last >= 0 {
                    last as usize
                } else {
                    args.len().saturating_sub(last.unsigned_abs() as usize)
                };
                let mut at = first;
                while at <= end && at < args.len() {
                    visit(at);
                    at += step.max(1);
                }
            }
            Self::Counted {
                count,
                step,
                destination,
            } => {
                let keys = counted(args, count, step);
                if destination && !keys.is_empty() {
                    visit(1);
                }
                keys.step_by(step).for_each(visit);
            }
            Self::Options(options) => {
                options
                    .first
                    .filter(|first| args.len() > *first)
                    .into_iter()
                    .for_each(&mut *visit);
                options.each_key(args, visit);
            }
            Self::Until { first, words } => until(args, first, words).for_each(visit),
            Self::Streams { .. } => streams(args).for_each(visit),
            Self::KeyOrOption(keys) => keys.each(args, visit),
        }
    }

    /// Returns the first key in `args`.
    pub fn first<'a>(&self, args: Args<'a>) -> Option<&'a [u8]> {
        let mut first = None;
        self.each(args, &mut |at| {
            first.get_or_insert(at);
        });
        first.map(|at| args.at(at))
    }

    /// Returns the position of the key if there is exactly one, whatever the arguments are.
    #[inline]
    pub const fn only(&self) -> Option<usize> {
        match *self {
            Self::Range { first, last, .. } if last == first as i32 => Some(first),
            _ => None,
        }
    }

    /// Returns whether the keys extend to the last arguments, as the keys of MSET and DEL do.
    #[inline]
    pub const fn is_open(&self) -> bool {
        matches!(*self, Self::Range { last, .. } if last < 0)
    }

    /// For a command that reads each key that a glob matches, returns the position of the glob, or
    /// the number of arguments if it reads every key. Returns `None` if the command reads only keys
    /// that it names.
    pub fn glob(&self, args: Args) -> Option<usize> {
        let Self::Options(options) = self else {
            return None;
        };
        let option = options.globbed?;
        Some(options.last(args, option).unwrap_or(args.len()))
    }

    /// Returns true if a command with these arguments may reach keys that the arguments do not
    /// name.
    pub fn reaches_unnamed(&self, args: Args) -> bool {
        matches!(self, Self::Options(options) if options.reaches_unnamed(args))
    }
}

/// Keys that are arguments of options.
#[derive(Clone, Copy, Debug)]
pub struct OptionKeys {
    /// Position of the key that is not an argument of an option, if there is such a key.
    pub first: Option<usize>,
    /// Position of the first option.
    pub from: usize,
    /// Options with a key as argument. If an option is repeated, its last key counts.
    pub keyed: &'static [&'static str],
    /// Options with a pattern as argument, such as SORT's BY: replacing the pattern's asterisk with
    /// an element gives the name of a key.
    pub patterned: &'static [&'static str],
    /// Option with a glob as argument. The command reads each key that the glob matches, or every
    /// key if the option is not given.
    pub globbed: Option<&'static str>,
    /// Other options with arguments, and the number of arguments.
    pub skipped: &'static [(&'static str, usize)],
}

impl OptionKeys {
    /// No keys.
    pub const NONE: Self = Self {
        first: None,
        from: 0,
        keyed: &[],
        patterned: &[],
        globbed: None,
        skipped: &[],
    };

    /// Visits the positions of keys that are arguments of options.
    fn each_key(&self, args: Args, visit: &mut dyn FnMut(usize)) {
        for word in self.keyed {
            self.last(args, word).into_iter().for_each(&mut *visit);
        }
    }

    /// Returns the position of the argument of the option `word`; of the last one if it is
    /// repeated.
    fn last(&self, args: Args, word: &str) -> Option<usize> {
        let mut last = None;
        self.each(args, &[word], &mut |at| last = Some(at));
        last
    }

    /// Returns true if an option's pattern builds key names.
    fn reaches_unnamed(&self, args: Args) -> bool {
        let mut found = false;
        self.each(args, self.patterned, &mut |at| {
            found |= args[at].contains(&b'*');
        });
        found
    }

    /// Visits the position of the argument of each option in `words`.
    fn each(&self, args: Args, words: &[&str], visit: &mut dyn FnMut(usize)) {
        let mut at = self.from;
        while let Some(arg) = args.get(at) {
            let is = |word: &&&str| arg.eq_ignore_ascii_case(word.as_bytes());
            if words.iter().any(|word| is(&word)) && at + 1 < args.len() {
                visit(at + 1);
            }
            let one = self
                .keyed
                .iter()
                .chain(self.patterned)
                .chain(self.globbed.as_slice())
                .any(|word| is(&word));
            let several = self.skipped.iter().find(|(word, _)| is(&word));
            at += 1 + several.map_or(usize::from(one), |(_, count)| *count);
        }
    }
}

/// A key, or an option whose arguments are keys (MIGRATE).
#[derive(Clone, Copy, Debug)]
pub struct KeyOrOption {
    /// Position of the key.
    pub first: usize,
    /// Position of the first option.
    pub from: usize,
    /// Option whose arguments are keys, to the end.
    pub option: &'static str,
    /// Other options with arguments, and the number of arguments.
    pub skipped: &'static [(&'static str, usize)],
}

impl KeyOrOption {
    fn each(&self, args: Args, visit: &mut dyn FnMut(usize)) {
        if args.get(self.first).is_some_and(|key| !key.is_empty()) {
            return visit(self.first);
        }
        let mut at = self.from;
        while let Some(arg) = args.get(at) {
            let is = |word: &str| arg.eq_ignore_ascii_case(word.as_bytes());
            if is(self.option) {
                return (at + 1..args.len()).for_each(visit);
            }
            let skipped = self.skipped.iter().find(|(word, _)| is(word));
            at += 1 + skipped.map_or(0, |(_, count)| *count);
        }
    }
}

/// Returns the positions from `first` up to the first of the words. The argument at `first` is
/// always a key, even if it is one of the words.
pub(crate) fn until(args: Args, first: usize, words: &[&str]) -> Range<usize> {
    let is_word = |arg: &[u8]| {
        words
            .iter()
            .any(|word| arg.eq_ignore_ascii_case(word.as_bytes()))
    };
    let behind = first + 1..args.len();
    let end = behind.into_iter().find(|at| is_word(&args[*at]));
    first..end.unwrap_or(args.len())
}

/// Returns the positions of the keys after the option STREAMS of XREAD and XREADGROUP; empty if the
/// arguments are wrong.
fn streams(args: Args) -> Range<usize> {
    let mut at = 1;
    while let Some(arg) = args.get(at) {
        let is = |word: &str| arg.eq_ignore_ascii_case(word.as_bytes());
        at += match () {
            () if is("BLOCK") || is("COUNT") || is("CLAIM") => 2,
            () if is("MAXCOUNT") || is("MAXSIZE") => 2,
            () if is("GROUP") => 3,
            () if is("NOACK") => 1,
            () if is("STREAMS") => {
                let rest = args.len() - at - 1;
                return at + 1..at + 1 + rest / 2;
            }
            () => break,
        };
    }
    0..0
}

/// Returns the positions of the keys, and of the values between them, after the argument at
/// `count`. Empty if that argument is not a number or exceeds the number of arguments.
fn counted(args: Args, count: usize, step: usize) -> Range<usize> {
    let number = args.get(count).and_then(parse_i64);
    let available = args.len().saturating_sub(count + 1) / step;
    let keys = number.and_then(|keys| usize::try_from(keys).ok());
    let keys = keys.filter(|keys| *keys <= available).unwrap_or_default();
    count + 1..count + 1 + keys * step
}
