//! The value of a key. A value that is a single string or compact encoding is returned as a slice;
//! all other values are read item by item.
//!
//! Old encodings are converted: ziplists become listpacks. An *own value* is a value of a type that
//! only Punctual has, a timer or a queue of jobs ([`Own`]).

pub(crate) mod stream;

use punctual_resp::decimal;

use crate::corrupt::Corrupt;
use crate::error::{Failure, Reason};
use crate::input::{Fallible, Input, Span};
use crate::intset::Intset;
use crate::kind::{FIELD_EXPIRY_MAX, Kind, container};
use crate::listpack::{Element, Listpack};
use crate::opaque::{Form, Own, read_end, read_form, read_part, skip_module_parts};
use crate::source::Source;
use crate::ziplist::Ziplist;
use stream::{Parts, Progress};

/// The unread rest of a value.
pub(crate) enum Rest {
    /// The whole value.
    Whole(Kind),
    /// The form and the number of the unread items.
    Items(Item, u64),
    /// The rest of a stream.
    Stream(Box<Progress>),
}

/// The form of the items of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Item {
    /// An element of a list, or a member of a set.
    Single,
    /// A ziplist with elements of a list.
    Ziplist,
    /// A container code, then a listpack or a single element of a list.
    Node,
    /// A field and its value.
    Pair,
    /// A member and its score as a binary double.
    Scored,
    /// A member and its score as text.
    ScoredText,
    /// A stored time, a field and its value. A stored time of 0 means "no expiry". With `base`, a
    /// stored time t means `base + t - 1`; without, the stored time is in Unix milliseconds.
    Expiring { base: Option<u64> },
    /// A field, its value and its expiry time in Unix milliseconds; -1 means "no expiry".
    ExpiringLast,
    /// A part of an own value. The last item is the end of the value.
    Part,
}

impl Rest {
    pub(crate) const NOTHING: Rest = Rest::Items(Item::Single, 0);

    /// Returns the number of unread items; 1 for a whole value or a stream.
    fn count(&self) -> u64 {
        match self {
            Rest::Items(_, count) => *count,
            _ => 1,
        }
    }

    /// Reduces the number of unread items by one, and returns the form of the item to read next.
    /// Returns `None` if no item is left.
    #[inline]
    fn take(&mut self) -> Option<Item> {
        match self {
            Rest::Items(item, count) if *count > 0 => {
                *count -= 1;
                Some(*item)
            }
            _ => None,
        }
    }

    /// Skips the unread rest of the value in `input`.
    pub(crate) fn skip<S: Source>(&mut self, input: &mut Input<S>) -> Fallible<(), S> {
        if let Rest::Whole(kind) = *self {
            *self = Rest::NOTHING;
            match Layout::of(kind) {
                Layout::Items(item) => *self = open(input, kind, item)?,
                Layout::Blob => {
                    if kind == Kind::HashExpiryListpack {
                        input.skip(8)?;
                    }
                    input.skip_string()?;
                }
                Layout::Stream => *self = Rest::Stream(Box::new(Progress::open(input, kind)?)),
                Layout::Own => skip_module_parts(input)?,
                Layout::Opaque => return Err(opaque(input, kind)),
            }
        }
        if let Rest::Stream(progress) = self {
            while progress.next(input)?.is_some() {}
            *self = Rest::NOTHING;
        }
        while let Some(item) = self.take() {
            input.start_item();
            match item {
                Item::Single | Item::Ziplist => input.skip_string()?,
                Item::Node => {
                    input.number()?;
                    input.skip_string()?;
                }
                Item::Pair => {
                    input.skip_string()?;
                    input.skip_string()?;
                }
                Item::Scored => {
                    input.skip_string()?;
                    input.skip(8)?;
                }
                Item::ScoredText => {
                    input.skip_string()?;
                    input.score_text()?;
                }
                Item::Expiring { .. } => {
                    input.number()?;
                    input.skip_string()?;
                    input.skip_string()?;
                }
                Item::ExpiringLast => {
                    input.skip_string()?;
                    input.skip_string()?;
                    input.skip(8)?;
                }
                Item::Part => match self.count() {
                    0 => read_end(input)?,
                    _ => drop(read_part(input)?),
                },
            }
        }
        Ok(())
    }
}

/// The layout of a value.
enum Layout {
    /// Items of this form.
    Items(Item),
    /// One string: a text or a compact encoding.
    Blob,
    Stream,
    /// An own value after its id.
    Own,
    /// The value of a module, which cannot be read.
    Opaque,
}

impl Layout {
    fn of(kind: Kind) -> Self {
        Layout::Items(match kind {
            Kind::List | Kind::Set => Item::Single,
            Kind::ListZiplists => Item::Ziplist,
            Kind::ListListpacks => Item::Node,
            Kind::Hash => Item::Pair,
            Kind::Zset => Item::Scored,
            Kind::ZsetText => Item::ScoredText,
            Kind::HashExpiry | Kind::HashExpiryPreGa => Item::Expiring { base: None },
            Kind::HashExpiryValkey => Item::ExpiringLast,
            Kind::Stream | Kind::Stream2 | Kind::Stream3 => return Layout::Stream,
            Kind::Module => return Layout::Own,
            Kind::ModulePreGa => return Layout::Opaque,
            _ => return Layout::Blob,
        })
    }
}

fn opaque<S: Source>(input: &Input<S>, kind: Kind) -> Failure<S::Error> {
    input.error(input.offset(), Reason::Type(kind.byte()))
}

/// Reads the header before the items of a value.
fn open<S: Source>(input: &mut Input<S>, kind: Kind, item: Item) -> Fallible<Rest, S> {
    let (item, item_len_min) = match item {
        Item::Expiring { .. } if kind == Kind::HashExpiry => {
            let start = input.offset();
            let base = u64::try_from(input.millis()?)
                .ok()
                .filter(|&base| base <= FIELD_EXPIRY_MAX + 1)
                .ok_or_else(|| input.error(start, Reason::Expiry))?;
            (Item::Expiring { base: Some(base) }, 3)
        }
        Item::Expiring { .. } => (item, 3),
        Item::Single | Item::Ziplist | Item::Part => (item, 1),
        Item::Node | Item::Pair | Item::ScoredText => (item, 2),
        Item::Scored => (item, 9),
        Item::ExpiringLast => (item, 10),
    };
    let count = input.count(item_len_min)?;
    Ok(Rest::Items(item, count))
}

/// A value that can be read. The reader skips the unread rest when it reads the next event.
pub struct Value<'r, S> {
    pub(crate) input: &'r mut Input<S>,
    pub(crate) rest: &'r mut Rest,
    pub(crate) kind: Kind,
    /// The type of an own value; `None` for Redis's types.
    pub(crate) own: Option<Own>,
}

/// The contents of a value. Compact encodings are already checked; items are read on request.
///
/// Redis never writes an empty list, set, hash or sorted set, and skips such keys when it loads a
/// snapshot.
pub enum Contents<'r, S> {
    /// A string.
    String(Element<'r>),
    /// The nodes of a list.
    List(Nodes<'r, S>),
    /// A set's members.
    Set(Members<'r, S>),
    /// A set of integers.
    SetIntset(Intset<'r>),
    /// A set's members in a listpack.
    SetListpack(Listpack<'r>),
    /// A hash's fields with their values.
    Hash(Pairs<'r, S>),
    /// A hash's fields and values, alternating.
    HashListpack(Listpack<'r>),
    /// A hash's fields with their values and expiry times.
    HashExpiry(ExpiringPairs<'r, S>),
    /// For each field of a hash: field, value, expiry time in Unix milliseconds (0 for no expiry).
    HashExpiryListpack(Listpack<'r>),
    /// The members of a sorted set with their scores. Redis writes the highest score first.
    Zset(Scored<'r, S>),
    /// A sorted set's members and scores, alternating, in ascending order.
    ZsetListpack(Listpack<'r>),
    /// The parts of a stream. A stream may be empty.
    Stream(Parts<'r, S>),
    /// The text of a timer, a type that only Punctual has.
    OwnText(Own, Element<'r>),
    /// The parts of a queue of jobs, a type that only Punctual has.
    OwnParts(Own, OwnParts<'r, S>),
}

impl<'r, S: Source> Value<'r, S> {
    /// Returns the type under which the value is stored.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns which of Punctual's own types the value has, if it has one.
    pub fn own(&self) -> Option<Own> {
        self.own
    }

    /// Reads the value, or its header if it has items.
    ///
    /// # Errors
    ///
    /// [`Failure`]; the reader cannot be used after that.
    pub fn read(self) -> Fallible<Contents<'r, S>, S> {
        let Value {
            input,
            rest,
            kind,
            own,
        } = self;
        *rest = Rest::NOTHING;
        input.start_item();
        let item = match Layout::of(kind) {
            Layout::Items(item) => item,
            Layout::Blob if kind == Kind::ListZiplist => {
                *rest = Rest::Items(Item::Ziplist, 1);
                return Ok(Contents::List(Nodes { input, rest }));
            }
            Layout::Blob => return blob(input, kind),
            Layout::Stream => {
                *rest = Rest::Stream(Box::new(Progress::open(input, kind)?));
                return Ok(Contents::Stream(Parts { input, rest }));
            }
            Layout::Own => {
                let Some(own) = own else {
                    return Err(opaque(input, kind));
                };
                return Ok(match read_form(input)? {
                    Form::Text(span) => Contents::OwnText(own, input.element(span)),
                    Form::Parts(parts) => {
                        // The last item is the end of the value.
                        *rest = Rest::Items(Item::Part, parts.saturating_add(1));
                        Contents::OwnParts(own, OwnParts { input, rest })
                    }
                });
            }
            Layout::Opaque => return Err(opaque(input, kind)),
        };
        *rest = open(input, kind, item)?;
        Ok(match kind {
            Kind::Set => Contents::Set(Members { input, rest }),
            Kind::Hash => Contents::Hash(Pairs { input, rest }),
            Kind::Zset | Kind::ZsetText => Contents::Zset(Scored { input, rest }),
            Kind::HashExpiry | Kind::HashExpiryPreGa | Kind::HashExpiryValkey => {
                Contents::HashExpiry(ExpiringPairs { input, rest })
            }
            _ => Contents::List(Nodes { input, rest }),
        })
    }
}

/// Reads a value that is one string.
fn blob<S: Source>(input: &mut Input<S>, kind: Kind) -> Fallible<Contents<'_, S>, S> {
    if kind == Kind::HashExpiryListpack {
        // The earliest expiry time, which is not needed: the listpack has all times.
        input.millis()?;
    }
    let start = input.offset();
    let mut span = input.string()?;
    let converted = match kind {
        Kind::HashZiplist | Kind::ZsetZiplist => input.convert(span, ziplist_to_listpack),
        _ => Ok(span),
    };
    span = converted.map_err(|corrupt| input.error(start, Reason::Compact(corrupt)))?;
    let input = &*input;
    let wrong = |reason| input.error(start, reason);
    let listpack = |stride: usize| {
        let listpack =
            Listpack::new(input.blob(span)).map_err(|corrupt| wrong(Reason::Compact(corrupt)))?;
        if !listpack.count().is_multiple_of(stride) {
            return Err(wrong(Reason::Pairing));
        }
        if input.deep && listpack.has_duplicates(stride) {
            return Err(wrong(Reason::Duplicate));
        }
        Ok(listpack)
    };
    Ok(match kind {
        Kind::String => Contents::String(input.element(span)),
        Kind::SetIntset => Contents::SetIntset(
            Intset::new(input.blob(span)).map_err(|corrupt| wrong(Reason::Compact(corrupt)))?,
        ),
        Kind::SetListpack => Contents::SetListpack(listpack(1)?),
        Kind::ZsetListpack | Kind::ZsetZiplist => {
            let listpack = listpack(2)?;
            if input.deep && !listpack.iter().skip(1).step_by(2).all(is_score) {
                return Err(wrong(Reason::Score));
            }
            Contents::ZsetListpack(listpack)
        }
        Kind::HashExpiryListpack | Kind::HashExpiryListpackPreGa => {
            let listpack = listpack(3)?;
            if !listpack.iter().skip(2).step_by(3).all(is_field_time) {
                return Err(wrong(Reason::Expiry));
            }
            Contents::HashExpiryListpack(listpack)
        }
        _ => Contents::HashListpack(listpack(2)?),
    })
}

fn ziplist_to_listpack(blob: &[u8], out: &mut Vec<u8>) -> Result<(), Corrupt> {
    Ziplist::new(blob)?.write_listpack(out)
}

fn is_score(element: Element<'_>) -> bool {
    match element {
        Element::Int(_) => true,
        Element::Bytes(text) => decimal::parse_f64(text).is_some(),
    }
}

fn is_field_time(element: Element<'_>) -> bool {
    element
        .as_int()
        .and_then(|time| u64::try_from(time).ok())
        .is_some_and(|time| time <= FIELD_EXPIRY_MAX)
}

macro_rules! items {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        pub struct $name<'r, S> {
            input: &'r mut Input<S>,
            rest: &'r mut Rest,
        }

        impl<S: Source> $name<'_, S> {
            /// Returns the number of remaining items that the input announces; the end of
            /// [`OwnParts`] counts as one. If the source knows its length, the rest of the input is
            /// long enough for that many items. Otherwise the number may be damaged, so do not
            /// reserve memory for it.
            pub fn remaining(&self) -> u64 {
                self.rest.count()
            }

            /// Returns the number of bytes read from the input: the progress within a long value.
            pub fn offset(&self) -> u64 {
                self.input.offset()
            }

            /// Starts the next item and returns its form, or `None` at the end.
            #[inline]
            fn take(&mut self) -> Option<Item> {
                let item = self.rest.take()?;
                self.input.start_item();
                Some(item)
            }
        }
    )*};
}

items! {
    /// The nodes of a list, from its head.
    Nodes
    /// The members of a set.
    Members
    /// The fields of a hash with their values.
    Pairs
    /// The fields of a hash with their values and expiry times.
    ExpiringPairs
    /// The members of a sorted set with their scores.
    Scored
    /// The parts of a value of a type that only Punctual has.
    OwnParts
}

impl<S: Source> OwnParts<'_, S> {
    /// Returns the next part, or `None` at the end.
    ///
    /// # Errors
    ///
    /// [`Failure`]; the reader cannot be used after that.
    #[expect(clippy::should_implement_trait, reason = "items borrow from the input")]
    pub fn next(&mut self) -> Fallible<Option<Element<'_>>, S> {
        if self.take().is_none() {
            return Ok(None);
        }
        if self.rest.count() == 0 {
            read_end(self.input)?;
            return Ok(None);
        }
        let span = read_part(self.input)?;
        Ok(Some(self.input.element(span)))
    }
}

/// A node of a list.
#[derive(Clone, Copy, Debug)]
pub enum Node<'n> {
    /// Any number of elements, also zero.
    Packed(Listpack<'n>),
    /// One element.
    Plain(Element<'n>),
}

/// A field, its value, and its expiry time (Unix milliseconds).
pub type ExpiringPair<'n> = (Element<'n>, Element<'n>, Option<i64>);

impl<S: Source> Nodes<'_, S> {
    /// Returns the next node, or `None` at the end.
    ///
    /// # Errors
    ///
    /// [`Failure`]; the reader cannot be used after that.
    #[expect(clippy::should_implement_trait, reason = "items borrow from the input")]
    pub fn next(&mut self) -> Fallible<Option<Node<'_>>, S> {
        let Some(item) = self.take() else {
            return Ok(None);
        };
        let start = self.input.offset();
        let packed = match item {
            Item::Node => match self.input.number()? {
                container::PLAIN => false,
                container::PACKED => true,
                _ => return Err(self.input.error(start, Reason::Node)),
            },
            Item::Ziplist => true,
            _ => false,
        };
        let start = self.input.offset();
        let mut span = self.input.string()?;
        if !packed {
            let input = &*self.input;
            return match input.element(span) {
                // Redis accepts an empty element in a listpack, but not as a plain node.
                Element::Bytes(b"") if matches!(item, Item::Node) => {
                    Err(input.error(start, Reason::Node))
                }
                element => Ok(Some(Node::Plain(element))),
            };
        }
        if matches!(item, Item::Ziplist) {
            span = self
                .input
                .convert(span, ziplist_to_listpack)
                .map_err(|corrupt| self.input.error(start, Reason::Compact(corrupt)))?;
        }
        let input = &*self.input;
        match Listpack::new(input.blob(span)) {
            Ok(listpack) => Ok(Some(Node::Packed(listpack))),
            Err(corrupt) => Err(input.error(start, Reason::Compact(corrupt))),
        }
    }
}

impl<S: Source> Members<'_, S> {
    /// Returns the next member, or `None` at the end.
    ///
    /// # Errors
    ///
    /// [`Failure`]; the reader cannot be used after that.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "items borrow from the input")]
    pub fn next(&mut self) -> Fallible<Option<Element<'_>>, S> {
        if self.take().is_none() {
            return Ok(None);
        }
        let span = self.input.string()?;
        Ok(Some(self.input.element(span)))
    }
}

impl<S: Source> Pairs<'_, S> {
    /// Returns the next field and its value, or `None` at the end.
    ///
    /// # Errors
    ///
    /// [`Failure`]; the reader cannot be used after that.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "items borrow from the input")]
    pub fn next(&mut self) -> Fallible<Option<(Element<'_>, Element<'_>)>, S> {
        if self.take().is_none() {
            return Ok(None);
        }
        let field = self.input.string()?;
        let value = self.input.string()?;
        Ok(Some((self.input.element(field), self.input.element(value))))
    }
}

impl<S: Source> ExpiringPairs<'_, S> {
    /// Returns the next field, its value and its expiry time, or `None` at the end.
    ///
    /// # Errors
    ///
    /// [`Failure`]; the reader cannot be used after that.
    #[expect(clippy::should_implement_trait, reason = "items borrow from the input")]
    pub fn next(&mut self) -> Fallible<Option<ExpiringPair<'_>>, S> {
        let Some(item) = self.take() else {
            return Ok(None);
        };
        let mut start = self.input.offset();
        let mut expiry = match item {
            Item::ExpiringLast => None,
            Item::Expiring { base: Some(base) } => match self.input.number()? {
                0 => None,
                time => Some(base.saturating_add(time - 1)),
            },
            _ => Some(self.input.number()?).filter(|time| *time != 0),
        };
        let (field, value): (Span, Span) = (self.input.string()?, self.input.string()?);
        if let Item::ExpiringLast = item {
            start = self.input.offset();
            // Other negative times are out of range as well.
            expiry = Some(self.input.millis()?)
                .filter(|time| *time != -1)
                .map(|time| u64::try_from(time).unwrap_or(u64::MAX));
        }
        let input = &*self.input;
        if expiry.is_some_and(|time| time > FIELD_EXPIRY_MAX) {
            return Err(input.error(start, Reason::Expiry));
        }
        let expiry = expiry.map(|time| time as i64);
        Ok(Some((input.element(field), input.element(value), expiry)))
    }
}

impl<S: Source> Scored<'_, S> {
    /// Returns the next member and its score, which is not NaN, or `None` at the end.
    ///
    /// # Errors
    ///
    /// [`Failure`]; the reader cannot be used after that.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "items borrow from the input")]
    pub fn next(&mut self) -> Fallible<Option<(Element<'_>, f64)>, S> {
        let Some(item) = self.take() else {
            return Ok(None);
        };
        let member = self.input.string()?;
        let score = match item {
            Item::ScoredText => self.input.score_text()?,
            _ => self.input.score()?,
        };
        Ok(Some((self.input.element(member), score)))
    }
}
