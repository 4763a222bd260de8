//! Removal of passwords from the slow log and MONITOR.

use punctual_resp::Args;

use crate::dispatch::table::Entry;

/// Replacement for a secret.
const REDACTED: &[u8] = b"(redacted)";

/// Returns the arguments of a command with its secrets replaced.
pub(crate) fn redacted<'a>(entry: &Entry, args: Args<'a>) -> impl Iterator<Item = &'a [u8]> {
    let secrets = entry.row.secrets.map_or(Vec::new(), |find| find(args));
    args.iter()
        .enumerate()
        .map(move |(i, arg)| if secrets.contains(&i) { REDACTED } else { arg })
}

#[cfg(test)]
mod tests {
    use punctual_resp::OwnedArgs;

    use crate::command::table;

    #[test]
    fn secrets_are_not_shown() {
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
        ] {
            let args: OwnedArgs = line.split(' ').collect();
            let args = args.as_args();
            let name = args[0].to_ascii_lowercase();
            let entry = table().get(&name).expect(line);
            let entry = entry.subcommand(&args[1]).unwrap_or(entry);
            let words: Vec<_> = super::redacted(entry, args)
                .map(String::from_utf8_lossy)
                .collect();
            assert_eq!(words.join(" "), shown);
        }
    }
}
