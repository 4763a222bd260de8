//! The figures of INFO: typed values with their names. INFO renders them as text, the HTTP port as
//! samples.
//!
//! A figure is declared where it is taken, with the metric that it is. `http/metrics.rs` derives
//! the name of the metric from the name of the field, unless the declaration has another one.

use std::borrow::Cow;
use std::fmt::{self, Display};

/// A value of INFO.
#[derive(Debug)]
pub(crate) enum Figure {
    /// An integer.
    Whole(i128),
    /// A value, its number of decimals, and its unit.
    Fixed(f64, usize, &'static str),
    /// One of two words: the first if the value is true.
    Either(bool, [&'static str; 2]),
    /// A name, an address, a version.
    Text(Cow<'static, str>),
    /// Named parts, as in `keys=1,expires=0`.
    Parts(Vec<(Cow<'static, str>, Figure)>),
}

impl Figure {
    /// Returns a number with `digits` decimals.
    pub(crate) const fn fixed(value: f64, digits: usize) -> Self {
        Self::Fixed(value, digits, "")
    }

    /// Returns a percentage.
    pub(crate) const fn percent(value: f64) -> Self {
        Self::Fixed(value, 2, "%")
    }

    /// Returns the status of the last attempt.
    pub(crate) const fn status(failed: bool) -> Self {
        Self::Either(!failed, ["ok", "err"])
    }

    /// Returns named parts.
    pub(crate) fn parts<const N: usize>(parts: [(&'static str, Self); N]) -> Self {
        Self::Parts(parts.map(|(name, part)| (name.into(), part)).into())
    }

    /// Returns the number, rounded to its digits. The first of two words is 1, the second 0.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Self::Whole(number) => Some(*number as f64),
            Self::Fixed(value, digits, _) => {
                let factor = 10_f64.powi(*digits as i32);
                Some((value * factor).round() / factor)
            }
            Self::Either(first, _) => Some(f64::from(u8::from(*first))),
            Self::Text(_) | Self::Parts(_) => None,
        }
    }

    /// Returns all parts with their names.
    pub(crate) fn all_parts(&self) -> &[(Cow<'static, str>, Self)] {
        match self {
            Self::Parts(parts) => parts,
            _ => &[],
        }
    }

    /// Returns a part by its name.
    pub(crate) fn part(&self, name: &str) -> Option<&Self> {
        let mut parts = self.all_parts().iter();
        parts.find(|(part, _)| part == name).map(|(_, part)| part)
    }
}

impl Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => number.fmt(f),
            Self::Fixed(value, digits, unit) => write!(f, "{value:.digits$}{unit}"),
            Self::Either(first, words) => f.write_str(words[usize::from(!first)]),
            Self::Text(text) => f.write_str(text),
            Self::Parts(parts) => parts.iter().enumerate().try_for_each(|(i, (name, part))| {
                let comma = if i > 0 { "," } else { "" };
                write!(f, "{comma}{name}={part}")
            }),
        }
    }
}

macro_rules! whole {
    ($($number:ty)*) => {
        $(impl From<$number> for Figure {
            fn from(number: $number) -> Self {
                Self::Whole(number as i128)
            }
        })*
    };
}

whole! { bool u8 u16 u32 u64 usize i32 i64 }

impl From<&'static str> for Figure {
    fn from(text: &'static str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Figure {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

/// What a field is to metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No metric.
    Field,
    /// A number that rises and falls.
    Gauge,
    /// A gauge in bytes.
    Size,
    /// A number that only grows, except by CONFIG RESETSTAT.
    Count,
}

/// A field of INFO.
#[derive(Debug)]
pub(crate) struct Field {
    /// The name, or its beginning if there are several such fields.
    pub(crate) name: &'static str,
    /// The rest of the name: the database, command or error that the field is about.
    pub(crate) of: Figure,
    /// The value of the field.
    pub(crate) figure: Figure,
    /// What the field is to metrics.
    pub(crate) kind: Kind,
    /// The name of the metric without its prefix, if the name does not follow from the field's.
    pub(crate) metric: Option<&'static str>,
    /// For a metric that Redis does not have: the label whose value is `of`, or "", and the
    /// description.
    pub(crate) own: Option<(&'static str, &'static str)>,
}

impl Field {
    /// Names the metric.
    pub(crate) fn named(&mut self, metric: &'static str) {
        self.metric = Some(metric);
    }

    /// Makes the field a gauge that Redis does not have. `label` is the label whose value is `of`,
    /// or "".
    pub(crate) fn own(&mut self, metric: &'static str, label: &'static str, help: &'static str) {
        self.kind = Kind::Gauge;
        self.metric = Some(metric);
        self.own = Some((label, help));
    }
}

/// The fields of INFO by section, in Redis's order.
#[derive(Debug, Default)]
pub(crate) struct Figures(pub(crate) Vec<(&'static str, Vec<Field>)>);

impl Figures {
    /// Returns all fields.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &Field> {
        self.0.iter().flat_map(|(_, fields)| fields)
    }

    /// Returns the fields whose names begin with the fixed name `name`.
    pub(crate) fn each(&self, name: &str) -> impl Iterator<Item = (&Figure, &Figure)> {
        let fields = self.fields().filter(move |field| field.name == name);
        fields.map(|field| (&field.of, &field.figure))
    }

    /// Returns the number of a field.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.each(name).next()?.1.number()
    }

    /// Returns a field as INFO shows it, or "" if the field is absent.
    pub(crate) fn text(&self, name: &str) -> String {
        let field = self.each(name).next();
        field
            .map(|(_, figure)| figure.to_string())
            .unwrap_or_default()
    }
}

impl Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (section, fields)) in self.0.iter().enumerate() {
            let blank = if i > 0 { "\r\n" } else { "" };
            match *section {
                "cpu" => write!(f, "{blank}# CPU\r\n")?,
                name => write!(f, "{blank}# {}{}\r\n", name[..1].to_uppercase(), &name[1..])?,
            }
            for Field {
                name, of, figure, ..
            } in fields
            {
                write!(f, "{name}{of}:{figure}\r\n")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_a_text_and_a_number() {
        for (figure, text, number) in [
            (
                Figure::from(u64::MAX),
                "18446744073709551615",
                Some(1.8446744073709552e19),
            ),
            ((-1).into(), "-1", Some(-1.0)),
            (true.into(), "1", Some(1.0)),
            (Figure::fixed(27.687, 2), "27.69", Some(27.69)),
            (Figure::fixed(0.0, 6), "0.000000", Some(0.0)),
            (Figure::percent(12.345_6), "12.35%", Some(12.35)),
            (Figure::status(false), "ok", Some(1.0)),
            (Figure::status(true), "err", Some(0.0)),
            ("7.2.4".into(), "7.2.4", None),
            (Figure::parts([]), "", None),
        ] {
            assert_eq!((&*figure.to_string(), figure.number()), (text, number));
        }
        let parts = Figure::parts([("keys", 2.into()), ("avg_ttl", Figure::fixed(1.0, 1))]);
        assert_eq!(parts.to_string(), "keys=2,avg_ttl=1.0");
        assert_eq!(parts.part("keys").and_then(Figure::number), Some(2.0));
        assert!(parts.part("key").is_none());
    }
}
