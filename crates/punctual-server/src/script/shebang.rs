//! The first line of a script: `#!lua flags=no-writes,allow-stale`.

use punctual_store::Error;

/// What a script may do, and where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScriptFlags {
    /// The script changes nothing.
    pub(crate) no_writes: bool,
    /// The script has no shebang, so Redis's older rules apply.
    pub(crate) compatible: bool,
}

/// Flags by name. Those without an effect here concern memory limits, replicas and clusters.
const NAMES: &[&str] = &[
    "no-writes",
    "allow-oom",
    "allow-stale",
    "no-cluster",
    "allow-cross-slot-keys",
];

/// Parses a script's shebang. Returns the flags and the length of the line, which is not Lua.
///
/// # Errors
/// Redis's message, if the line is not a shebang that it knows.
pub(crate) fn parse(code: &[u8]) -> Result<(ScriptFlags, usize), Error> {
    let mut flags = ScriptFlags::default();
    if !code.starts_with(b"#!") {
        flags.compatible = true;
        return Ok((flags, 0));
    }
    let Some(end) = code.iter().position(|&b| b == b'\n') else {
        return Err(Error::fixed("ERR Invalid script shebang"));
    };
    let line = String::from_utf8_lossy(&code[2..end]).into_owned();
    let mut parts = line.split_whitespace();
    let engine = parts.next().unwrap_or_default();
    if engine != "lua" {
        let text = format!("ERR Unexpected engine in script shebang: {engine}");
        return Err(Error::Text(text.into()));
    }
    for part in parts {
        let Some(list) = part.strip_prefix("flags=") else {
            let text = format!("ERR Unknown lua shebang option: {part}");
            return Err(Error::Text(text.into()));
        };
        for name in list.split(',').filter(|name| !name.is_empty()) {
            if !NAMES.contains(&name) {
                let text = format!("ERR Unexpected flag in script shebang: {name}");
                return Err(Error::Text(text.into()));
            }
            flags.no_writes |= name == "no-writes";
        }
    }
    Ok((flags, end))
}
