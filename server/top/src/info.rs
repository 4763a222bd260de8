//! The reply of INFO as fields with names.

use std::collections::BTreeMap;

use crate::connection::printable;

/// The fields of INFO by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Info(BTreeMap<String, String>);

impl Info {
    pub(crate) fn parse(text: &str) -> Self {
        let lines = text.lines();
        let fields = lines.filter_map(|line| line.trim_end().split_once(':'));
        let shown = |text: &str| printable(text.as_bytes());
        let fields = fields.map(|(name, value)| (shown(name), shown(value)));
        Self(fields.collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns a field, or a dash if there is no such field.
    pub(crate) fn shown(&self, name: &str) -> &str {
        self.get(name).unwrap_or("-")
    }

    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.get(name)?.parse().ok()
    }

    pub(crate) fn is_punctual(&self) -> bool {
        self.get("punctual_version").is_some()
    }

    /// Returns the fields whose names start with `prefix`: the rest of the name, and the value.
    pub(crate) fn named<'i>(&'i self, prefix: &'i str) -> impl Iterator<Item = (&'i str, &'i str)> {
        let from = self.0.range(prefix.to_owned()..);
        from.map_while(move |(name, value)| Some((name.strip_prefix(prefix)?, value.as_str())))
    }
}

/// Returns the number `name` in a value such as `calls=5,usec=20`.
pub(crate) fn part(value: &str, name: &str) -> Option<f64> {
    let mut parts = value.split(',').filter_map(|part| part.split_once('='));
    parts.find(|part| part.0 == name)?.1.parse().ok()
}
