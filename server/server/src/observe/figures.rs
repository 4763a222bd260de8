//! The figures of INFO: named values with a type. INFO renders them as text, and the HTTP port
//! renders them as samples of metrics.
//!
//! The code that reads a figure also declares its kind of metric. `http/metrics.rs` derives the
//! name of the metric from the name of the field, unless the declaration names the metric.

use std::borrow::Cow;
use std::fmt::{self, Display};

/// Value of a field of INFO.
#[derive(Debug)]
pub(crate) enum Figure {
    /// A number without decimals.
    Whole(i128),
    /// A number, its number of decimals, and its unit.
    Fixed(f64, usize, &'static str),
    /// One of two words: the first if the value is true.
    Either(bool, [&'static str; 2]),
    /// Text, such as a name, an address or a version.
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

    /// Returns `err` if the last attempt has failed, otherwise `ok`.
    pub(crate) const fn status(failed: bool) -> Self {
        Self::Either(!failed, ["ok", "err"])
    }

    /// Returns named parts.
    pub(crate) fn parts<const N: usize>(parts: [(&'static str, Self); N]) -> Self {
        Self::Parts(parts.map(|(name, part)| (name.into(), part)).into())
    }

    /// Returns the number, rounded to its decimals. The first of two words counts as 1, the second
    /// as 0. Returns `None` for text and parts.
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

    /// Returns the parts with their names; empty if the value has no parts.
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

/// Kind of metric that a field becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The field is shown by INFO only.
    Field,
    /// A number that rises and falls.
    Gauge,
    /// A gauge in bytes.
    Size,
    /// A number that only grows, until CONFIG RESETSTAT.
    Count,
}

/// A field of INFO.
#[derive(Debug)]
pub(crate) struct Field {
    /// Name of the field; the beginning of the name if several fields share it (`db` of `db0`).
    pub(crate) name: &'static str,
    /// Rest of the name: the database, command or error that the field describes. Usually
    /// empty.
    pub(crate) suffix: Figure,
    /// The value of the field.
    pub(crate) figure: Figure,
    /// Kind of metric that the field becomes.
    pub(crate) kind: Kind,
    /// Name of the metric without its prefix; `None` derives it from the field's name.
    pub(crate) metric: Option<&'static str>,
    /// For a metric that Redis does not have: the label whose value is `suffix` ("" without a
    /// label), and the metric's description.
    pub(crate) own: Option<(&'static str, &'static str)>,
}

impl Field {
    /// Sets the metric's name.
    pub(crate) fn named(&mut self, metric: &'static str) {
        self.metric = Some(metric);
    }

    /// Makes the field a gauge that Redis does not have. `label` is the label whose value is
    /// `suffix`, or "" without a label. `help` is the metric's description.
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

    /// Returns the suffix and the value of each field with this name.
    pub(crate) fn each(&self, name: &str) -> impl Iterator<Item = (&Figure, &Figure)> {
        let fields = self.fields().filter(move |field| field.name == name);
        fields.map(|field| (&field.suffix, &field.figure))
    }

    /// Returns the value of a field as a number.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.each(name).next()?.1.number()
    }

    /// Returns the value of a field as INFO shows it, or "" if the field is absent.
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
                name,
                suffix,
                figure,
                ..
            } in fields
            {
                write!(f, "{name}{suffix}:{figure}\r\n")?;
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
