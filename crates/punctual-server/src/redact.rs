//! What the slow log and MONITOR must not show: passwords.

use punctual_resp::Args;

use crate::config::Config;
use crate::table::Entry;

/// What stands for a secret.
const REDACTED: &[u8] = b"(redacted)";

/// The arguments of a command with its secrets blotted out.
pub(crate) fn redacted<'a>(entry: &Entry, args: Args<'a>) -> impl Iterator<Item = &'a [u8]> {
    let secrets = secrets(entry, args);
    args.iter()
        .enumerate()
        .map(move |(i, arg)| if secrets.contains(&i) { REDACTED } else { arg })
}

/// Positions of secret arguments.
fn secrets(entry: &Entry, args: Args<'_>) -> Vec<usize> {
    match entry.name.as_str() {
        "auth" => (1..args.len()).collect(),
        "hello" => {
            let auth = args
                .iter()
                .skip(2)
                .position(|a| a.eq_ignore_ascii_case(b"auth"));
            auth.map_or(Vec::new(), |at| vec![at + 3, at + 4])
        }
        "config|set" => (3..args.len())
            .step_by(2)
            .filter(|i| Config::is_sensitive(args.at(i - 1)))
            .collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use punctual_resp::OwnedArgs;

    use crate::table::TABLE;

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
            let entry = TABLE.get(&name).expect(line);
            let entry = entry.subcommand(&args[1]).unwrap_or(entry);
            let words: Vec<_> = super::redacted(entry, args)
                .map(String::from_utf8_lossy)
                .collect();
            assert_eq!(words.join(" "), shown);
        }
    }
}
