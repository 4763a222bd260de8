//! Compares COMMAND DOCS with the replies of real servers, and with the syntax on our pages.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::commands::text;
use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire};
use punctual_harness::Peer;
use punctual_resp::Value;
use punctual_server::Server;

/// Returns COMMAND DOCS as maps, including subcommands.
fn documents(c: &mut Wire) -> BTreeMap<String, BTreeMap<String, Value>> {
    fn gather(docs: &Value, all: &mut BTreeMap<String, BTreeMap<String, Value>>) {
        for pair in docs.as_slice().unwrap().chunks(2) {
            let fields: BTreeMap<String, Value> = pair[1]
                .as_slice()
                .unwrap()
                .chunks(2)
                .map(|f| (text(&f[0]), f[1].clone()))
                .collect();
            if let Some(subcommands) = fields.get("subcommands") {
                gather(subcommands, all);
            }
            all.insert(text(&pair[0]), fields);
        }
    }
    let mut all = BTreeMap::new();
    gather(&c.ask(&["COMMAND", "DOCS"]), &mut all);
    all
}

#[test]
fn every_command_is_documented() {
    /// Fields that differ from Redis 7.0, or that we omit: command, field, reason.
    const OTHERWISE: &[(&str, &str, &str)] = &[
        (
            "wait",
            "group",
            "generic in Redis, but in the ACL category of connections",
        ),
        ("debug", "doc_flags", "`syscmd`, which we have no use for"),
        (
            "client|pause",
            "since",
            "7.2 names the release, not the development version",
        ),
        ("quit", "deprecated_since", "new in 7.2"),
        ("quit", "replaced_by", "new in 7.2"),
        ("quit", "doc_flags", "new in 7.2"),
        ("setnx", "deprecated_since", "new in 7.2"),
        ("setnx", "replaced_by", "new in 7.2"),
        ("setnx", "doc_flags", "new in 7.2"),
        ("setex", "deprecated_since", "new in 7.2"),
        ("setex", "replaced_by", "new in 7.2"),
        ("setex", "doc_flags", "new in 7.2"),
        ("psetex", "deprecated_since", "new in 7.2"),
        ("psetex", "replaced_by", "new in 7.2"),
        ("psetex", "doc_flags", "new in 7.2"),
    ];
    let redis = Redis::start(&[]);
    let server = Server::builder().port(0).spawn().unwrap();
    let (ours, theirs) = (
        documents(&mut Wire::open(&server)),
        documents(&mut Wire::to(redis.port)),
    );
    let mut differences = Vec::new();
    for (name, fields) in &ours {
        let known = theirs.get(name);
        for field in ["summary", "complexity", "since", "group"] {
            // Redis gives no complexity for PSYNC and SYNC.
            let wanted = field != "complexity" || known.is_none_or(|k| k.contains_key(field));
            let present = !text(&fields[field]).is_empty();
            assert!(present || !wanted, "{name}: no {field}");
        }
        let Some(known) = known else {
            continue;
        };
        for field in [
            "since",
            "group",
            "deprecated_since",
            "replaced_by",
            "doc_flags",
        ] {
            let otherwise = OTHERWISE.iter().any(|(n, f, _)| n == name && *f == field);
            if otherwise == (fields.get(field) == known.get(field)) {
                differences.push(format!(
                    "{name}, {field}: {:?} and {:?}",
                    fields.get(field),
                    known.get(field)
                ));
            }
        }
        // Only the versions of the history are compared, not its texts.
        let versions = |fields: &BTreeMap<String, Value>| -> Vec<String> {
            let history = fields
                .get("history")
                .and_then(Value::as_slice)
                .unwrap_or_default();
            history
                .iter()
                .map(|h| text(&h.as_slice().unwrap()[0]))
                .filter(|v| {
                    !["7.2", "7.4", "8."]
                        .iter()
                        .any(|newer| v.starts_with(newer))
                })
                .collect()
        };
        if versions(fields) != versions(known) {
            differences.push(format!(
                "{name}, history: {:?} and {:?}",
                versions(fields),
                versions(known)
            ));
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
    let server_side = &ours["config"]["subcommands"];
    assert_eq!(
        server_side.as_slice().unwrap().len(),
        10,
        "five documented subcommands"
    );
}

/// Commands whose arguments differ from Redis 7.0 because they follow Redis 8.2: the reason, and
/// the commands.
#[rustfmt::skip]
const NOT_AS_IN_7_0: &[(&str, &[&str])] = &[
    (
        "7.2 names arguments otherwise, so that all arguments of a command have different names",
        &[
            "acl|cat", "bitcount", "bitfield", "bitfield_ro", "bitpos", "client|reply",
            "client|unblock", "cluster|addslotsrange", "cluster|delslotsrange", "cluster|meet",
            "cluster|reset", "cluster|setslot", "config|set", "flushall", "flushdb",
            "function|flush", "geoadd", "geosearch", "geosearchstore", "hello", "hmset", "hset",
            "lcs", "mset", "msetnx", "script|flush", "shutdown", "sort", "sort_ro", "xclaim",
            "xgroup|create", "xgroup|createconsumer", "xgroup|delconsumer", "xgroup|destroy",
            "xgroup|setid", "xinfo|consumers", "xsetid", "zadd", "zrange", "zrangebylex",
            "zrangebyscore", "zrangestore", "zrevrangebylex", "zrevrangebyscore",
        ],
    ),
    (
        "7.2 nests the same words otherwise",
        &[
            "client|list", "config|get", "georadius", "georadius_ro", "georadiusbymember",
            "georadiusbymember_ro", "migrate", "module|loadex", "psubscribe", "xinfo|stream",
        ],
    ),
    ("optional since 7.2", &["geohash", "geopos", "pfmerge"]),
    (
        "without arguments in 7.0",
        &["command|getkeys", "command|getkeysandflags"],
    ),
    ("WITHSCORE of 7.2", &["zrank", "zrevrank"]),
    ("NOVALUES and MAXAGE of 7.4", &["client|kill", "hscan"]),
    (
        "KEEPREF, DELREF, ACKED, DIFF, DIFF1, ANDOR and ONE of 8.2",
        &["bitop", "xadd", "xtrim"],
    ),
    AFTER_8_2[0],
    AFTER_8_2[1],
    AFTER_8_2[2],
];

/// Commands with arguments that are newer than Redis 8.2.
const AFTER_8_2: &[(&str, &[&str])] = &[
    (
        "IFEQ, IFNE, IFDEQ, IFDNE and CLAIM of 8.4",
        &["set", "xreadgroup"],
    ),
    (
        "COUNT of 8.8",
        &["zinter", "zinterstore", "zunion", "zunionstore"],
    ),
    ("MAXCOUNT and MAXSIZE of 8.10", &["xread"]),
    ("IDMP and IDMPAUTO of 8.6", &["xadd"]),
];

/// Commands whose arguments differ from Valkey 9.1.
#[rustfmt::skip]
const NOT_AS_IN_VALKEY: &[(&str, &[&str])] = &[
    (
        "Valkey's own options",
        &[
            "bgsave", "client|kill", "client|list", "cluster|replicate", "cluster|setslot",
            "geosearch", "geosearchstore", "hsetex", "script|debug", "shutdown", "zscan",
        ],
    ),
    (
        "Valkey gives the number of fields the index of a key specification",
        &[
            "hexpireat", "hexpiretime", "hgetdel", "hgetex", "hpersist", "hpexpire", "hpexpireat",
            "hpexpiretime", "hpttl", "httl",
        ],
    ),
    ("nested otherwise", &["bitcount"]),
    (
        "what came after Redis 7.2",
        &["bitop", "set", "xadd", "xread", "xreadgroup", "xtrim"],
    ),
    AFTER_8_2[1],
];

/// Returns the arguments of a command, one line each, with their fields in order.
fn lines(fields: &BTreeMap<String, Value>, without: &[&str]) -> Vec<String> {
    fn add(arguments: &Value, parent: &str, without: &[&str], all: &mut Vec<String>) {
        for argument in arguments.as_slice().unwrap() {
            let pairs = || argument.as_slice().unwrap().chunks(2);
            let mut line = parent.to_owned();
            for pair in pairs() {
                match text(&pair[0]).as_str() {
                    "arguments" => {}
                    name if without.contains(&name) => {}
                    name @ "flags" => {
                        let flags = pair[1].as_slice().unwrap().iter().map(text);
                        line += &format!(" {name}={}", flags.collect::<Vec<_>>().join("+"));
                    }
                    name => line += &format!(" {name}={}", text(&pair[1])),
                }
            }
            let under = format!("{line} /");
            all.push(line);
            for pair in pairs().filter(|pair| text(&pair[0]) == "arguments") {
                add(&pair[1], &under, without, all);
            }
        }
    }
    let mut all = Vec::new();
    if let Some(arguments) = fields.get("arguments") {
        add(arguments, "", without, &mut all);
    }
    all
}

/// Compares the arguments of all commands that both servers have.
fn compare_arguments(theirs: &Redis, without: &[&str], differ: &[(&str, &[&str])]) {
    let server = Server::builder().port(0).spawn().unwrap();
    let ours = documents(&mut Wire::open(&server));
    let theirs = documents(&mut Wire::to(theirs.port));
    let differ: BTreeSet<&str> = differ
        .iter()
        .flat_map(|(_, names)| *names)
        .copied()
        .collect();
    let mut wrong = Vec::new();
    let mut compared = 0;
    for (name, fields) in &ours {
        let Some(known) = theirs.get(name) else {
            continue;
        };
        let (ours, theirs) = (lines(fields, without), lines(known, without));
        if differ.contains(name.as_str()) == (ours == theirs) {
            wrong.push(format!("{name}: {ours:#?} and {theirs:#?}"));
        }
        compared += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 350, "{compared} commands and subcommands");
}

#[test]
fn arguments_are_those_of_redis() {
    // 7.0 has no display texts.
    compare_arguments(&Redis::start(&[]), &["display_text"], NOT_AS_IN_7_0);
}

/// No option of Redis 7.0 is missing.
#[test]
fn arguments_have_all_tokens_of_redis() {
    fn tokens(fields: &BTreeMap<String, Value>) -> BTreeSet<String> {
        let words = lines(fields, &[]).join(" ");
        words
            .split(' ')
            .filter(|word| word.starts_with("token="))
            .map(str::to_owned)
            .collect()
    }
    let redis = Redis::start(&[]);
    let server = Server::builder().port(0).spawn().unwrap();
    let ours = documents(&mut Wire::open(&server));
    for (name, fields) in documents(&mut Wire::to(redis.port)) {
        if let Some(known) = ours.get(&name) {
            let (theirs, ours) = (tokens(&fields), tokens(known));
            assert!(theirs.is_subset(&ours), "{name}: {theirs:?} and {ours:?}");
        }
    }
}

#[test]
fn arguments_are_those_of_redis_8_2() {
    if let Some(redis) = Redis::start_peer(Peer::Redis8) {
        compare_arguments(&redis, &[], AFTER_8_2);
    }
}

#[test]
fn arguments_are_those_of_valkey() {
    if let Some(valkey) = Redis::start_peer(Peer::Valkey9) {
        compare_arguments(&valkey, &["summary"], NOT_AS_IN_VALKEY);
    }
}

/// An argument in the form in which a client reads it.
struct Argument {
    kind: String,
    display: String,
    token: Option<String>,
    flags: Vec<String>,
    arguments: Vec<Self>,
}

impl Argument {
    fn read(argument: &Value) -> Self {
        let pairs = argument.as_slice().unwrap().chunks(2);
        let fields: BTreeMap<String, &Value> =
            pairs.map(|pair| (text(&pair[0]), &pair[1])).collect();
        let list = |name: &str| {
            fields
                .get(name)
                .and_then(|list| list.as_slice())
                .unwrap_or_default()
        };
        Self {
            kind: text(fields["type"]),
            display: fields
                .get("display_text")
                .map(|display| text(display))
                .unwrap_or_default(),
            token: fields.get("token").map(|token| text(token)),
            flags: list("flags").iter().map(text).collect(),
            arguments: list("arguments").iter().map(Self::read).collect(),
        }
    }

    fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|known| known == flag)
    }

    /// Returns the argument in the notation of our pages.
    fn shown(&self) -> String {
        let parts: Vec<String> = self.arguments.iter().map(Self::shown).collect();
        let alone = self.is("optional") && !self.is("multiple") && self.token.is_none();
        let value = match self.kind.as_str() {
            "oneof" if alone => parts.join(" | "),
            "oneof" => format!("<{}>", parts.join(" | ")),
            "block" => parts.join(" "),
            "pure-token" => String::new(),
            _ => self.display.clone(),
        };
        let first = match &self.token {
            Some(token) => format!("{token} {value}").trim_end().to_owned(),
            None => value.clone(),
        };
        let shown = if self.is("multiple_token") {
            format!("{first} [{first} ...]")
        } else if self.is("multiple") {
            format!("{first} [{value} ...]")
        } else {
            first
        };
        match self.is("optional") {
            true => format!("[{shown}]"),
            false => shown,
        }
    }
}

/// Returns the syntax of a command in the notation of our pages.
fn syntax(name: &str, fields: &BTreeMap<String, Value>) -> String {
    let arguments = fields
        .get("arguments")
        .and_then(Value::as_slice)
        .unwrap_or_default();
    let name = name.to_uppercase().replace('|', " ");
    let shown = arguments
        .iter()
        .map(|argument| Argument::read(argument).shown());
    std::iter::once(name)
        .chain(shown)
        .collect::<Vec<_>>()
        .join(" ")
}

/// The commands for the deadlines of members, which have the letters `s` and `z`.
#[rustfmt::skip]
const DEADLINES_OF_MEMBERS: &[&str] = &[
    "addex", "expire", "expireat", "expiretime", "persist", "pexpire", "pexpireat", "pexpiretime",
    "pttl", "ttl",
];

fn of_members(command: &str) -> bool {
    let end = command.strip_prefix(['s', 'z']);
    end.is_some_and(|end| DEADLINES_OF_MEMBERS.contains(&end))
}

/// Returns the code spans of a page that show syntax: spans in the first cells of tables, and spans
/// that are alone on a line. The flag is true for an option of a command.
fn syntax_on_page(page: &str) -> Vec<(String, bool)> {
    let mut all = Vec::new();
    let mut options = false;
    for line in page.lines() {
        let line = line.replace("\\|", "\u{1}");
        let code = match line.strip_prefix('|') {
            Some(cells) => cells.split('|').next().unwrap_or_default().trim(),
            None => &line,
        };
        if code.starts_with('`') && code.ends_with('`') {
            let spans = code.trim_matches('`').split("`, `");
            all.extend(spans.map(|span| (span.replace('\u{1}', "|"), options)));
        }
        options = ["option", "when"].contains(&code) || options && line.starts_with('|');
    }
    all
}

#[test]
fn pages_show_the_syntax_of_our_own_commands() {
    let server = Server::builder().port(0).spawn().unwrap();
    let documents = documents(&mut Wire::open(&server));
    let ours = |name: &str| match name.split_once('|') {
        Some((container, subcommand)) => {
            ["clock", "job", "notify", "timer"].contains(&container) && subcommand != "help"
                || name == "xgroup|setlease"
        }
        None => name == "xretain" || of_members(name),
    };
    let wanted: BTreeSet<String> = documents
        .iter()
        .filter(|(name, fields)| ours(name) && !fields.contains_key("doc_flags"))
        .map(|(name, fields)| syntax(name, fields))
        .collect();
    assert!(wanted.len() > 30);
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let pages = std::fs::read_dir(docs)
        .unwrap()
        .map(|page| page.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let shown: BTreeSet<(String, bool)> = pages
        .flat_map(|path| syntax_on_page(&std::fs::read_to_string(path).unwrap()))
        .collect();
    for syntax in &wanted {
        let is_shown = shown.contains(&(syntax.clone(), false));
        assert!(is_shown, "docs/*.md do not show: {syntax}");
    }
    for (span, is_option) in &shown {
        let has_values = span.contains(char::is_lowercase);
        let is_command = [
            "CLOCK ",
            "JOB ",
            "NOTIFY ",
            "TIMER ",
            "XRETAIN ",
            "XGROUP SETLEASE",
        ]
        .iter()
        .any(|start| span.starts_with(start))
            || span.contains(" MEMBERS ");
        let is_right = match is_option {
            true => wanted.iter().any(|syntax| syntax.contains(span)),
            false => wanted.contains(span) || !is_command || !has_values,
        };
        assert!(
            is_right,
            "docs/*.md show what is no command's syntax: {span}"
        );
    }
}
