//! COMMAND DOCS: documentation of commands, for redis-cli's hints and for generators of client
//! libraries.
//!
//! The reply does not depend on `reported-version`: arguments and changes name the Redis
//! version that introduced them.

use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::spec::syntax::{self, Argument};

use crate::command::command_info::flag_set;
use crate::node::call::Call;
use crate::table::Entry;

pub(super) fn docs(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let names = args.skip(2);
    let found: Vec<&Entry> = if names.is_empty() {
        call.shared.commands.commands().collect()
    } else {
        names
            .iter()
            .filter_map(|name| call.shared.commands.get_full(name))
            .collect()
    };
    document(&found, reply);
    Ok(())
}

/// Writes the map of COMMAND DOCS from names to documentation, with the fields in Redis's order.
fn document(entries: &[&Entry], reply: &mut Reply) {
    reply.map(entries.len());
    for entry in entries {
        let row = &entry.row;
        // A test ensures that the syntax of every row can be parsed.
        let arguments = syntax::parse(row.syntax).unwrap_or_default();
        let fields = 4
            + 3 * usize::from(row.deprecated.is_some())
            + usize::from(row.internal)
            + usize::from(!row.history.is_empty())
            + usize::from(!arguments.is_empty())
            + usize::from(!entry.subcommands.is_empty());
        reply.bulk(entry.name.as_bytes());
        reply.map(fields);
        for (field, text) in [
            ("summary", row.summary),
            ("since", row.since),
            ("group", row.group.name()),
            ("complexity", row.complexity),
        ] {
            reply.bulk(field.as_bytes());
            reply.bulk(text.as_bytes());
        }
        if row.internal {
            reply.bulk(b"doc_flags");
            flag_set("syscmd", reply);
        }
        if let Some((since, instead)) = row.deprecated {
            reply.bulk(b"doc_flags");
            flag_set("deprecated", reply);
            reply.bulk(b"deprecated_since");
            reply.bulk(since.as_bytes());
            reply.bulk(b"replaced_by");
            reply.bulk(instead.as_bytes());
        }
        if !row.history.is_empty() {
            reply.bulk(b"history");
            reply.set(row.history.len());
            for (version, change) in row.history {
                reply.array(2);
                reply.bulk(version.as_bytes());
                reply.bulk(change.as_bytes());
            }
        }
        if !arguments.is_empty() {
            reply.bulk(b"arguments");
            document_arguments(&arguments, reply);
        }
        if !entry.subcommands.is_empty() {
            reply.bulk(b"subcommands");
            let subcommands: Vec<&Entry> = entry.subcommands.iter().collect();
            document(&subcommands, reply);
        }
    }
}

/// Writes the arguments of a command or group, in Redis's order of fields.
fn document_arguments(arguments: &[Argument<'_>], reply: &mut Reply) {
    reply.array(arguments.len());
    for argument in arguments {
        let display = argument.display.as_deref();
        let texts = [
            ("token", argument.token),
            ("since", argument.since),
            ("deprecated_since", argument.deprecated_since),
        ];
        let flags = [
            ("optional", argument.optional),
            ("multiple", argument.multiple),
            ("multiple_token", argument.multiple_token),
        ];
        let flag_count = flags.iter().filter(|(_, set)| *set).count();
        reply.map(
            2 + usize::from(display.is_some())
                + usize::from(argument.key_spec.is_some())
                + texts.iter().filter(|(_, text)| text.is_some()).count()
                + usize::from(flag_count > 0)
                + usize::from(!argument.arguments.is_empty()),
        );
        let mut field = |name: &str, text: &str| {
            reply.bulk(name.as_bytes());
            reply.bulk(text.as_bytes());
        };
        field("name", &argument.name);
        field("type", argument.kind.name());
        if let Some(text) = display {
            field("display_text", text);
        }
        if let Some(index) = argument.key_spec {
            reply.bulk(b"key_spec_index");
            reply.int(index.into());
        }
        for (name, text) in texts {
            if let Some(text) = text {
                reply.bulk(name.as_bytes());
                reply.bulk(text.as_bytes());
            }
        }
        if flag_count > 0 {
            reply.bulk(b"flags");
            reply.set(flag_count);
            for (name, _) in flags.iter().filter(|(_, set)| *set) {
                reply.simple(*name);
            }
        }
        if !argument.arguments.is_empty() {
            reply.bulk(b"arguments");
            document_arguments(&argument.arguments, reply);
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_store::spec::syntax::{Argument, Kind, parse};

    /// Returns the number of words of the shortest call with these arguments.
    fn words(arguments: &[Argument<'_>]) -> usize {
        let each = arguments.iter().map(|argument| {
            let value = match argument.kind {
                Kind::PureToken => 0,
                Kind::Block => words(&argument.arguments),
                Kind::OneOf => {
                    let one = |argument| words(std::slice::from_ref(argument));
                    argument.arguments.iter().map(one).min().unwrap_or(0)
                }
                _ => 1,
            };
            match argument.optional {
                true => 0,
                false => value + usize::from(argument.token.is_some()),
            }
        });
        each.sum()
    }

    fn all<'a>(arguments: &'a [Argument<'a>]) -> Vec<&'a Argument<'a>> {
        let nested =
            |argument: &'a Argument<'a>| std::iter::once(argument).chain(all(&argument.arguments));
        arguments.iter().flat_map(nested).collect()
    }

    #[test]
    fn the_syntax_of_every_row_fits_its_arity_and_keys() {
        for entry in crate::command::table().all() {
            let (name, row) = (&entry.name, entry.row);
            let arguments = parse(row.syntax).unwrap_or_else(|fault| panic!("{name}: {fault:?}"));
            let varies = all(&arguments)
                .iter()
                .any(|argument| argument.optional || argument.multiple);
            // As in Redis, DEBUG has no syntax, and the syntax of CLIENT KILL and CLUSTER MIGRATION
            // has fewer words than the commands require.
            if row.arity >= 0 {
                let least = words(&arguments) + name.split('|').count();
                assert_eq!((least, varies), (row.arity as usize, false), "{name}");
            } else if !row.container && !["command", "debug"].contains(&name.as_str()) {
                let least = words(&arguments) + name.split('|').count();
                let enough = least >= row.arity.unsigned_abs() as usize;
                let few = ["client|kill", "cluster|migration"].contains(&name.as_str());
                assert_ne!(enough, few, "{name}: {least} words");
            }
            for argument in all(&arguments) {
                let known = argument
                    .key_spec
                    .is_none_or(|index| usize::from(index) < row.access.len());
                assert!(known, "{name}: no access for {}", argument.name);
            }
        }
    }
}
