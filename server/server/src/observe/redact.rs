//! Removes passwords from the slow log and MONITOR. This includes the passwords of a command that
//! is an argument of another command, such as TIMER SET.

use punctual_resp::Args;

use crate::table::Entry;
use crate::table::names::CommandNames;

/// Replacement for a secret.
const REDACTED: &[u8] = b"(redacted)";

/// Returns the arguments of a command. Secrets are replaced by [`REDACTED`].
pub(crate) fn redacted<'a>(
    names: &CommandNames,
    entry: &Entry,
    args: Args<'a>,
) -> impl Iterator<Item = &'a [u8]> {
    let secrets = secrets(names, entry, args);
    args.iter().enumerate().map(move |(i, arg)| {
        if secrets.binary_search(&i).is_ok() {
            REDACTED
        } else {
            arg
        }
    })
}

/// Returns the positions of the secrets of a command in ascending order. If an argument begins an
/// inner command, returns only the secrets of the innermost command. O(arguments).
fn secrets(names: &CommandNames, entry: &Entry, args: Args) -> Vec<usize> {
    let (mut entry, mut begin) = (entry, 0);
    while let Some((inner, at)) = inner_command(names, entry, args.skip(begin)) {
        begin += at;
        entry = inner;
    }
    let found = entry.row.secrets.map(|find| find(args.skip(begin)));
    let found = found.unwrap_or_default().into_iter();
    found.map(|at| begin + at).collect()
}

/// Returns the inner command that begins at one of the arguments, and the position of that
/// argument.
fn inner_command<'n>(
    names: &'n CommandNames,
    entry: &Entry,
    args: Args,
) -> Option<(&'n Entry, usize)> {
    let known = |at: usize| {
        let inner = args.get(at).map(|_| names.find(args.skip(at)))?;
        let entry = inner.map_or_else(|(entry, _)| entry, Some)?;
        Some((entry, at))
    };
    match &*entry.name {
        // The value of an earlier option may also be the word DO, as in `USER do`.
        "timer|set" => (4..args.len())
            .filter(|at| args[at - 1].eq_ignore_ascii_case(b"do"))
            .find_map(known),
        "acl|dryrun" => known(3),
        "command|getkeys" | "command|getkeysandflags" => known(2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use punctual_resp::OwnedArgs;

    use crate::command::table;
    use crate::config::Config;
    use crate::table::names::CommandNames;

    #[test]
    fn secrets_are_not_shown() {
        let names = CommandNames::new(table(), &Config::new().unwrap()).unwrap();
        for (line, shown) in [
            ("AUTH x", "AUTH (redacted)"),
            ("AUTH u x", "AUTH (redacted) (redacted)"),
            (
                "HELLO 3 AUTH u x SETNAME n",
                "HELLO 3 AUTH (redacted) (redacted) SETNAME n",
            ),
            ("HELLO 3 SETNAME auth", "HELLO 3 SETNAME auth"),
            (
                "CONFIG SET requirepass x port 1",
                "CONFIG SET requirepass (redacted) port 1",
            ),
            (
                "CONFIG SET port 1 MASTERAUTH x",
                "CONFIG SET port 1 MASTERAUTH (redacted)",
            ),
            ("CONFIG SET requirepass", "CONFIG SET requirepass"),
            ("GET auth", "GET auth"),
            (
                "TIMER SET t IN 5 DO AUTH u x",
                "TIMER SET t IN 5 DO AUTH (redacted) (redacted)",
            ),
            (
                "TIMER SET t USER do DO HELLO 3 AUTH u x",
                "TIMER SET t USER do DO HELLO 3 AUTH (redacted) (redacted)",
            ),
            (
                "TIMER SET t IN 5 DO timer set u IN 5 do acl setuser x >y",
                "TIMER SET t IN 5 DO timer set u IN 5 do acl setuser (redacted) (redacted)",
            ),
            (
                "TIMER SET t IN 5 DO CONFIG SET port 1 masterauth x",
                "TIMER SET t IN 5 DO CONFIG SET port 1 masterauth (redacted)",
            ),
            (
                "TIMER SET t IN 5 DO MIGRATE h 1 k 0 9 AUTH2 u x",
                "TIMER SET t IN 5 DO MIGRATE h 1 k 0 9 AUTH2 (redacted) (redacted)",
            ),
            (
                "TIMER SET t IN 5 DO GET auth",
                "TIMER SET t IN 5 DO GET auth",
            ),
            ("TIMER SET t IN 5 DO", "TIMER SET t IN 5 DO"),
            ("ACL DRYRUN u AUTH x", "ACL DRYRUN u AUTH (redacted)"),
            ("ACL DRYRUN u", "ACL DRYRUN u"),
            (
                "COMMAND GETKEYS MIGRATE h 1 k 0 9 AUTH x",
                "COMMAND GETKEYS MIGRATE h 1 k 0 9 AUTH (redacted)",
            ),
        ] {
            let args: OwnedArgs = line.split(' ').collect();
            let args = args.as_args();
            let name = args[0].to_ascii_lowercase();
            let entry = table().get(&name).expect(line);
            let entry = entry.subcommand(&args[1]).unwrap_or(entry);
            let words: Vec<_> = super::redacted(&names, entry, args)
                .map(String::from_utf8_lossy)
                .collect();
            assert_eq!(words.join(" "), shown);
        }
    }
}
