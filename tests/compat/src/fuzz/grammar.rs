//! Random commands from a server's own description: COMMAND names the commands, COMMAND DOCS their
//! arguments.
//!
//! A command without described arguments gets as many random words as its arity demands, and keys
//! at the positions of keys. `TEMPLATES` and `RARE_TEMPLATES` add commands that random words would
//! rarely make valid: scripts, NOTIFY rules, timers, jobs, settings.

use punctual_resp::Value;

use super::words;
use crate::command::Command;
use crate::draw::Draw;
use crate::link::{Link, LinkError};

/// Commands that are never sent, each with the reason.
pub const EXCLUDED: &str = "\
shutdown: stops the server
replicaof: replaces the data with those of a server that does not exist
slaveof: as replicaof
failover: holds back all writes
psync: makes the connection a replica, which has no replies
sync: as psync
replconf: as psync
debug: SLEEP and SEGFAULT; templates have harmless subcommands
client|pause: holds back all clients; a template pauses briefly
config|set: locks clients out; templates set harmless parameters
config|rewrite: changes the file that the server was started with
migrate: connects to other hosts; a template names a closed port
module|load: runs foreign code
module|loadex: as module|load
pfselftest: takes seconds
script|debug: makes the connection a debugger, which has no replies
";

/// Commands that are sent rarely: one in fifty commands without a template is one of these. They
/// undo the effects of other commands, close connections, or take long.
const RARE: &str = "acl|deluser acl|setuser auth bgrewriteaof bgsave client|kill flushall flushdb function|flush \
    function|restore hello monitor notify|del quit reset save script|flush swapdb";

/// Templates of commands. A word `$name` becomes a random word of [`words::marked`]; `$command` and
/// `$script` become several words.
const TEMPLATES: &str = "\
$script
$script
$script
$script
$script
FUNCTION LOAD REPLACE $library
FCALL f$n 1 $key $value
NOTIFY SET r$n STREAM $stream
NOTIFY SET r$n STREAM $stream EVENTS $events MAXAGE $ms
NOTIFY SET r$n STREAM $stream EVENTS $lshz VALUE dump MAXBYTES 2000 MAXAGE $ms
NOTIFY SET r$n STREAM events:$n MATCH $pattern VALUE string MAXBYTES 20
NOTIFY DEL r$n
NOTIFY STREAMS r$n
TIMER SET timer:$n IN $ms DO $command
TIMER SET timer:$n EVERY 20 LIMIT 5 DO $command
TIMER SET timer:$n EVERY $ms JITTER $ms CATCHUP all LIMIT 9 DO $script
TIMER RUN timer:$n
JOB ADD queue:$n $value DELAY $ms RETRY 2 LEASE $ms DEAD queue:0
JOB ADD queue:$n $value ID $n KEEP $ms PRIORITY $n
JOB TAKE queue:$n queue:$n COUNT 3 LEASE $ms BLOCK 20
JOB ACK queue:$n $n 1
JOB NACK queue:$n $n 1 DELAY $ms ERROR $value
JOB REVIVE queue:$n ALL
XADD $stream * f $value
XGROUP CREATE $stream g0 $ MKSTREAM
XREADGROUP GROUP g0 c$n COUNT 2 BLOCK 20 STREAMS $stream >
XREAD BLOCK 20 STREAMS $stream events:$n $ $
BLPOP $list $list 0.02
BLMOVE $list $list LEFT RIGHT 0.02
BZPOPMIN $zset 0.02
RPUSH $list $value $value
SET $key $value PX $ms
PUBLISH ch$n $value
CLIENT TRACKING ON BCAST PREFIX k NOLOOP
CLIENT TRACKING ON
SELECT 0
SELECT $n
CONFIG SET maxmemory-policy allkeys-lru
CONFIG SET maxmemory-policy volatile-ttl
CONFIG SET maxmemory-policy allkeys-random
CONFIG SET notify-keyspace-events KEA
CONFIG SET notify-keyspace-events KEASTIV
CONFIG SET tracking-table-max-keys $n
CONFIG SET list-max-listpack-size $n
CONFIG SET hash-max-listpack-entries $n";

/// Templates that are used rarely: for one command in fifty.
const RARE_TEMPLATES: &str = "\
HELLO 2
HELLO 3
HELLO 3 SETNAME $n
CLIENT PAUSE 3 WRITE
CLIENT PAUSE 3
CONFIG SET appendonly yes
CONFIG SET appendonly no
CONFIG SET appendfsync always
CONFIG SET appendfsync everysec
DEBUG RELOAD
DEBUG OBJECT $key
DEBUG SET-ACTIVE-EXPIRE 1
DEBUG JMAP
DEBUG POPULATE 100 populated 20
MIGRATE 127.0.0.1 1 $key 0 20";

#[derive(Debug)]
struct Described {
    /// The command's words: two for a subcommand.
    words: Vec<String>,
    group: String,
    arguments: Vec<Argument>,
    arity: i64,
    /// First key, last key and step, as in COMMAND's reply.
    keys: [i64; 3],
    blocks: bool,
}

#[derive(Debug)]
struct Argument {
    name: String,
    kind: String,
    token: Option<String>,
    optional: bool,
    multiple: bool,
    multiple_token: bool,
    arguments: Vec<Argument>,
}

/// The commands of a server.
#[derive(Debug)]
pub struct Grammar {
    commands: Vec<Described>,
    rare: Vec<Described>,
}

impl Grammar {
    /// Reads the commands from the server of `link`, and their arguments from `documented`, which
    /// may be another server.
    ///
    /// # Errors
    /// Any [`LinkError`].
    pub fn read(link: &mut Link, documented: &mut Link) -> Result<Self, LinkError> {
        let rows = link.ask(&Command::new("COMMAND"))?;
        let docs = documented.ask(&Command::of(&["COMMAND", "DOCS"]))?;
        let mut grammar = Self {
            commands: Vec::new(),
            rare: Vec::new(),
        };
        for row in rows.as_slice().unwrap_or_default() {
            grammar.add(row, &docs);
        }
        Ok(grammar)
    }

    /// Returns the number of commands, and the number of commands whose arguments are described or
    /// that have none.
    pub fn size(&self) -> (usize, usize) {
        let all = || self.commands.iter().chain(&self.rare);
        let described =
            all().filter(|c| !c.arguments.is_empty() || c.arity == c.words.len() as i64);
        (all().count(), described.count())
    }

    fn add(&mut self, row: &Value, docs: &Value) {
        let Some(row) = row.as_slice().filter(|row| row.len() >= 10) else {
            return;
        };
        let name = text(&row[0]);
        if EXCLUDED
            .lines()
            .any(|line| line.split(':').next() == Some(&name))
        {
            return;
        }
        let subcommands = row[9].as_slice().unwrap_or_default();
        let doc = field(docs, &name);
        if !subcommands.is_empty() {
            let docs = doc.and_then(|doc| field(doc, "subcommands"));
            for row in subcommands {
                self.add(row, docs.unwrap_or(&Value::Null));
            }
            return;
        }
        let number = |at: usize| row[at].as_int().unwrap_or(0);
        let flags = row[2].as_slice().unwrap_or_default();
        let described = Described {
            words: name.split('|').map(str::to_uppercase).collect(),
            group: doc
                .and_then(|doc| field(doc, "group"))
                .map(text)
                .unwrap_or_default(),
            arguments: arguments(doc),
            arity: number(1),
            keys: [number(3), number(4), number(5)],
            blocks: flags
                .iter()
                .any(|flag| flag.as_bytes() == Some(b"blocking")),
        };
        match RARE.split_whitespace().any(|rare| rare == name) {
            true => self.rare.push(described),
            false => self.commands.push(described),
        }
    }

    /// Returns a random command.
    pub fn command(&self, draw: &mut Draw) -> Command {
        let templates = match draw.between(0..=99) {
            0..=1 => RARE_TEMPLATES,
            2..=34 => TEMPLATES,
            _ => return self.described(draw),
        };
        let templates: Vec<&str> = templates.lines().collect();
        let template = draw.pick(&templates);
        self.fill(draw, template)
    }

    /// Returns a command with arguments as the server describes them, some of which may be wrong.
    fn described(&self, draw: &mut Draw) -> Command {
        let all = match draw.chance(2) && !self.rare.is_empty() {
            true => &self.rare,
            false => &self.commands,
        };
        let described = &all[draw.count(0..=all.len() - 1)];
        let mut command = Command::new(&described.words[0]);
        command.extend(&described.words[1..]);
        let bare = described.arguments.is_empty();
        if bare && described.arity.unsigned_abs() as usize != described.words.len() {
            if described.blocks {
                // With random words, the command could block forever.
                return Command::of(&["PING"]);
            }
            fill_arity(draw, described, &mut command);
        }
        append(draw, &described.group, &described.arguments, &mut command);
        if !described.blocks && draw.chance(4) {
            spoil(draw, &mut command);
        }
        command
    }

    /// Returns a command from a template, which may end with `$command` or `$script`.
    fn fill(&self, draw: &mut Draw, template: &str) -> Command {
        if template == "$script" {
            return self.script(draw);
        }
        let (before, last) = template.rsplit_once(' ').unwrap_or((template, ""));
        let rest = match last {
            "$command" => self.described(draw),
            "$script" => self.script(draw),
            _ => return words::fill(draw, template),
        };
        let mut command = words::fill(draw, before);
        command.extend(rest.args());
        command
    }

    /// Returns EVAL with a script that runs random commands, counts for some milliseconds, or
    /// fails.
    fn script(&self, draw: &mut Draw) -> Command {
        let steps = draw.weighted(&[(6, 100_i64), (2, 20_000), (1, 100_000)]);
        let text = match draw.between(0..=7) {
            0..=3 => "return redis.pcall(unpack(ARGV))".to_owned(),
            4 => format!(
                "for i = 1, {} do redis.call('INCRBY', 'n' .. i % 9, i) end return redis.pcall(unpack(ARGV))",
                steps / 100
            ),
            5 => format!(
                "local t = 0 for i = 1, {steps} do t = t + i end redis.pcall('SET', KEYS[1] or 'k', t) return t"
            ),
            6 => "redis.pcall(unpack(ARGV)) redis.pcall('XADD', 'events:1', '*', 'f', 'v') \
                  return redis.call(unpack(ARGV))"
                .to_owned(),
            _ => draw
                .pick(&["error('x')", "return", "return {1, {2, 'x'}}", "return )"])
                .to_owned(),
        };
        let keys = draw.any_keys(3);
        let keys = &keys[..draw.count(0..=keys.len())];
        let mut command = Command::new("EVAL").arg(text).arg(keys.len().to_string());
        command.extend(keys);
        command.extend(self.described(draw).args());
        command
    }
}

/// Appends words for the arity of a command whose arguments are not described.
fn fill_arity(draw: &mut Draw, described: &Described, command: &mut Command) {
    let least = described.arity.unsigned_abs() as usize;
    let count = least
        + if described.arity < 0 {
            draw.count(0..=3)
        } else {
            0
        };
    let [first, last, step] = described.keys;
    let last = if last < 0 { count as i64 + last } else { last };
    for at in described.words.len() as i64..count as i64 {
        let is_key = first > 0 && at >= first && at <= last && (at - first) % step.max(1) == 0;
        command.push(match is_key {
            true => words::key(draw, &described.group),
            false => words::any(draw),
        });
    }
}

/// Appends random words for these arguments.
fn append(draw: &mut Draw, group: &str, arguments: &[Argument], command: &mut Command) {
    // The number of values that the last argument has announced for the arguments after it.
    let mut announced = None;
    for argument in arguments {
        if argument.optional && announced.is_none() && draw.chance(60) {
            continue;
        }
        let count = match (argument.multiple, announced) {
            (true, Some(count)) => count,
            (true, None) => draw.weighted(&[(4, 1), (3, 2), (1, 3), (1, 9)]),
            (false, _) => 1,
        };
        for nth in 0..count {
            if let Some(token) = argument.token.as_deref()
                && (nth == 0 || argument.multiple_token || argument.kind == "pure-token")
                && !token.is_empty()
            {
                command.push(draw.case(token));
            }
            match &*argument.kind {
                "pure-token" => {}
                "oneof" if argument.arguments.is_empty() => {}
                "oneof" => {
                    let at = draw.count(0..=argument.arguments.len() - 1);
                    append(draw, group, &argument.arguments[at..=at], command);
                }
                "block" => append(draw, group, &argument.arguments, command),
                _ if argument.name.starts_with("num") && argument.name != "numreplicas" => {
                    let count = draw.weighted(&[(5, 1), (4, 2), (1, 3), (1, 0)]);
                    announced = Some(count);
                    command.push(match draw.chance(5) {
                        true => draw.integer(),
                        false => count.to_string().into(),
                    });
                }
                kind => {
                    let token = argument.token.as_deref().unwrap_or_default();
                    command.push(words::of(draw, group, &argument.name, kind, token));
                }
            }
        }
        if argument.multiple {
            announced = None;
        }
    }
}

/// Removes, adds, swaps or replaces an argument.
fn spoil(draw: &mut Draw, command: &mut Command) {
    let len = command.args().len();
    let at = draw.count(1..=len.max(2) - 1);
    let other = draw.count(1..=len.max(2) - 1);
    let args = command.args_mut();
    match draw.between(0..=3) {
        0 if len > 1 => drop(args.remove(at)),
        1 if len > 1 => args.swap(at, other),
        2 if len > 1 => args[at] = words::extreme(draw),
        _ => args.push(words::any(draw)),
    }
}

fn arguments(doc: Option<&Value>) -> Vec<Argument> {
    let list = doc.and_then(|doc| field(doc, "arguments"));
    let list = list.and_then(Value::as_slice).unwrap_or_default();
    list.iter()
        .map(|argument| {
            let flags = field(argument, "flags")
                .and_then(Value::as_slice)
                .unwrap_or_default();
            let has = |name: &str| flags.iter().any(|flag| text(flag) == name);
            let part = |name: &str| field(argument, name).map(text);
            Argument {
                name: part("name").unwrap_or_default(),
                kind: part("type").unwrap_or_default(),
                token: part("token"),
                optional: has("optional"),
                multiple: has("multiple"),
                multiple_token: has("multiple_token"),
                arguments: arguments(Some(argument)),
            }
        })
        .collect()
}

/// Returns a field of a map, which is an array of names and values in RESP2.
fn field<'v>(map: &'v Value, name: &str) -> Option<&'v Value> {
    let pairs = map.as_slice()?.chunks_exact(2);
    pairs
        .map(|pair| (&pair[0], &pair[1]))
        .find(|(key, _)| text(key) == name)
        .map(|pair| pair.1)
}

fn text(value: &Value) -> String {
    String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).to_lowercase()
}
