//! A row of the table of directives, and the functions that build it.

use crate::config::value::{Kind, TextRule};

/// Effect of a directive on this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Works as Redis's documentation says.
    Implemented,
    /// Accepted, shown and rewritten as in Redis, but without effect yet.
    Accepted,
}

/// When a directive may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// At start and by CONFIG SET.
    AnyTime,
    /// At start; by CONFIG SET only if `enable-protected-configs` allows it.
    Protected,
    /// At start only.
    AtStart,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Directive {
    pub(crate) name: &'static str,
    /// Second name of the directive, such as its name in older versions of Redis.
    pub(crate) alias: Option<&'static str>,
    pub(crate) kind: Kind,
    /// Default value as in a line of redis.conf.
    pub(crate) default: &'static str,
    pub(crate) change: Change,
    pub(crate) effect: Effect,
    /// CONFIG SET refuses the directive while the server loads its data at startup.
    pub(crate) not_while_loading: bool,
    /// CONFIG GET shows the directive for its exact name, and not for a pattern.
    pub(crate) hidden: bool,
    /// The directive names a file, which CONFIG SET reads again even if the name does not change.
    pub(crate) reread: bool,
    /// A secret: its value must not reach the slow log or MONITOR.
    pub(crate) sensitive: bool,
}

const fn row(name: &'static str, kind: Kind, default: &'static str) -> Directive {
    Directive {
        name,
        alias: None,
        kind,
        default,
        change: Change::AnyTime,
        effect: Effect::Accepted,
        not_while_loading: false,
        hidden: false,
        reread: false,
        sensitive: false,
    }
}

pub(crate) const fn yes_no(name: &'static str, default: &'static str) -> Directive {
    row(name, Kind::YesNo, default)
}

pub(crate) const fn integer(
    name: &'static str,
    min: i64,
    max: i64,
    default: &'static str,
) -> Directive {
    row(name, Kind::Integer { min, max }, default)
}

pub(crate) const fn memory(
    name: &'static str,
    min: u64,
    max: u64,
    default: &'static str,
) -> Directive {
    row(name, Kind::Memory { min, max }, default)
}

pub(crate) const fn choice(
    name: &'static str,
    choices: &'static [&'static str],
    default: &'static str,
) -> Directive {
    row(name, Kind::Choice(choices), default)
}

/// A text that may be empty.
pub(crate) const fn text(name: &'static str, default: &'static str) -> Directive {
    row(name, Kind::Text(TextRule::Any), default)
}

/// A text whose empty value means "not set".
pub(crate) const fn optional(name: &'static str) -> Directive {
    row(name, Kind::Text(TextRule::Optional), "")
}

pub(crate) const fn file_name(
    name: &'static str,
    default: &'static str,
    refusal: &'static str,
) -> Directive {
    row(name, Kind::Text(TextRule::FileName(refusal)), default)
}

pub(crate) const fn host_name(name: &'static str) -> Directive {
    row(name, Kind::Text(TextRule::HostName), "")
}

pub(crate) const fn special(name: &'static str, kind: Kind, default: &'static str) -> Directive {
    row(name, kind, default)
}

impl Directive {
    pub(crate) const fn alias(mut self, alias: &'static str) -> Self {
        self.alias = Some(alias);
        self
    }

    pub(crate) const fn at_start(mut self) -> Self {
        self.change = Change::AtStart;
        self
    }

    pub(crate) const fn protected(mut self) -> Self {
        self.change = Change::Protected;
        self
    }

    pub(crate) const fn not_while_loading(mut self) -> Self {
        self.not_while_loading = true;
        self
    }

    pub(crate) const fn implemented(mut self) -> Self {
        self.effect = Effect::Implemented;
        self
    }

    pub(crate) const fn hidden(mut self) -> Self {
        self.hidden = true;
        self
    }

    pub(crate) const fn reread(mut self) -> Self {
        self.reread = true;
        self
    }

    pub(crate) const fn sensitive(mut self) -> Self {
        self.sensitive = true;
        self
    }

    /// Returns the name and, if the directive has one, the alias.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        [Some(self.name), self.alias].into_iter().flatten()
    }
}
