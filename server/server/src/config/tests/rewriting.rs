//! CONFIG REWRITE preserves random configurations in random old files, and a real redis-server
//! reads the rewritten files.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use super::*;
use crate::config::directive::Directive;
use crate::config::rewrite::SIGNATURE;
use crate::config::tests::beside_redis::Redis;
use crate::config::value::{Kind, SHUTDOWN_OPTIONS, TextRule};

/// A line of a file, or a change by CONFIG SET: a directive, the spelling of its name, and its
/// words.
#[derive(Debug, Clone)]
struct Setting {
    directive: &'static Directive,
    alias: bool,
    upper: bool,
    words: Vec<String>,
    quotes: Quotes,
}

#[derive(Debug, Clone, Copy)]
enum Quotes {
    /// Only words that need quotes are quoted.
    Plain,
    Single,
    Double,
}

#[derive(Debug, Clone)]
enum FileLine {
    Setting(Setting),
    Comment(String),
    Empty,
    Rename(&'static str),
}

fn word(kind: Kind) -> BoxedStrategy<String> {
    match kind {
        Kind::YesNo => select(vec!["yes", "no", "YES"])
            .prop_map(str::to_owned)
            .boxed(),
        Kind::Integer { min, max } => {
            let low = min.max(0);
            let number = prop_oneof![
                Just(min),
                low..=max.min(low + 100),
                Just(max.min(low + 1000))
            ];
            number.prop_map(|number| number.to_string()).boxed()
        }
        Kind::Hertz => (1..500).prop_map(|number: i32| number.to_string()).boxed(),
        Kind::Memory { min, max } => (min..=max.min(1 << 33))
            .prop_flat_map(move |bytes| {
                let rounded = (bytes >> 20 << 20).max(min);
                select(vec![
                    format!("{bytes}"),
                    format!("{}kb", rounded >> 10),
                    format!("{}", rounded),
                ])
            })
            .prop_filter("in bounds", move |word| {
                Kind::Memory { min, max }
                    .parse(&[word.as_bytes()], None)
                    .is_ok()
            })
            .boxed(),
        Kind::MemoryOrPercent => select(vec!["0", "5%", "100%", "3mb"])
            .prop_map(str::to_owned)
            .boxed(),
        Kind::Octal => select(vec!["0", "700", "777"])
            .prop_map(str::to_owned)
            .boxed(),
        Kind::Choice(choices) => select(choices).prop_map(str::to_owned).boxed(),
        Kind::Text(TextRule::FileName(_) | TextRule::NonEmptyFileName { .. }) => "[a-z .\"']{1,12}"
            .prop_map(|name| format!("{name}x"))
            .boxed(),
        Kind::Text(TextRule::HostName) => "[a-z.-]{0,8}".boxed(),
        Kind::Text(_) => prop_oneof!["[ -~]{0,12}", "[a-z]{0,8}", "\\PC{0,4}"].boxed(),
        Kind::EventClasses => "[KExg$lshzetdmnA]{0,5}".boxed(),
        Kind::Directory => select(vec!["/", "/dev"]).prop_map(str::to_owned).boxed(),
        // The other kinds take several words; see [`words`].
        _ => Just(String::new()).boxed(),
    }
}

fn words(kind: Kind) -> BoxedStrategy<Vec<String>> {
    let numbers = |text: String| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    match kind {
        Kind::Save => prop_oneof![
            Just(vec![String::new()]),
            Just("3600 1 300 100 60 10000".to_owned()).prop_map(numbers),
            proptest::collection::vec((1..5000u32, 0..500u32), 1..4).prop_map(|points| {
                let numbers = points
                    .iter()
                    .flat_map(|(seconds, changes)| [seconds, changes]);
                numbers.map(u32::to_string).collect()
            }),
        ]
        .boxed(),
        Kind::Addresses => select(vec!["127.0.0.1", "* -::*", "-10.0.0.1 127.0.0.1", ""])
            .prop_map(str::to_owned)
            .prop_map(numbers)
            .boxed(),
        Kind::OutputLimits => {
            let group = (
                select(vec!["normal", "slave", "replica", "pubsub"]),
                64..256u32,
                1..9u32,
            );
            proptest::collection::vec(group, 1..4)
                .prop_map(|groups| {
                    let groups = groups.iter();
                    let words = groups.flat_map(|(class, mib, seconds)| {
                        [
                            (*class).to_owned(),
                            format!("{mib}mb"),
                            "16m".to_owned(),
                            seconds.to_string(),
                        ]
                    });
                    words.collect()
                })
                .boxed()
        }
        Kind::Percentiles => select(vec!["", "50 99 99.9", "0 12.5 100", "1e1"])
            .prop_map(str::to_owned)
            .prop_map(numbers)
            .boxed(),
        Kind::TtlRules => select(vec![
            "",
            "s:* default 1 max 2",
            "a max 0 b default 3",
            "\"x' max 1",
        ])
        .prop_map(str::to_owned)
        .prop_map(numbers)
        .boxed(),
        Kind::OomScores => select(vec!["0 200 800", "0 100 200"])
            .prop_map(str::to_owned)
            .prop_map(numbers)
            .boxed(),
        Kind::ReplicaOf => Just(vec!["no".to_owned(), "one".to_owned()]).boxed(),
        Kind::Shutdown => prop_oneof![
            Just(vec!["default".to_owned()]),
            select(SHUTDOWN_OPTIONS.as_slice()).prop_map(|word| vec![word.to_owned()]),
            Just(vec!["nosave".to_owned(), "force".to_owned()]),
        ]
        .boxed(),
        one => word(one).prop_map(|word| vec![word]).boxed(),
    }
}

/// Generates a setting of a directive for which `accepts` returns true.
fn setting(accepts: fn(&Directive) -> bool) -> impl Strategy<Value = Setting> {
    let rows: Vec<&'static Directive> = DIRECTIVES.iter().filter(|d| accepts(d)).collect();
    // Directives whose value has several words are generated more often than other directives.
    let special: Vec<&'static Directive> = rows
        .iter()
        .copied()
        .filter(|d| d.kind.takes_words())
        .collect();
    let directive = prop_oneof![select(rows), select(special)];
    let quotes = select(vec![Quotes::Plain, Quotes::Single, Quotes::Double]);
    (directive, any::<(bool, bool)>(), quotes).prop_flat_map(
        |(directive, (alias, upper), quotes)| {
            words(directive.kind).prop_map(move |words| Setting {
                directive,
                alias,
                upper,
                words,
                quotes,
            })
        },
    )
}

impl Setting {
    fn line(&self) -> String {
        let mut line = self
            .directive
            .alias
            .filter(|_| self.alias)
            .unwrap_or(self.directive.name)
            .to_owned();
        if self.upper {
            line.make_ascii_uppercase();
        }
        for word in &self.words {
            line.push(' ');
            let plain = !word.is_empty()
                && word
                    .bytes()
                    .all(|b| b.is_ascii_graphic() && !b"\"'\\#".contains(&b));
            match self.quotes {
                Quotes::Plain if plain => line.push_str(word),
                // In single quotes a backslash before the quote would be lost.
                Quotes::Single if word.is_ascii() && !word.contains('\\') => {
                    line.push_str(&format!("'{}'", word.replace('\'', "\\'")));
                }
                _ => line.push_str(&quoting::quote(word.as_bytes())),
            }
        }
        line
    }
}

fn file(accepts: fn(&Directive) -> bool) -> impl Strategy<Value = Vec<FileLine>> {
    let renames = vec![
        "KEYS \"\"",
        "rename-command flushall 'wipe all'",
        "Rename-Command FLUSHDB x",
    ];
    let line = prop_oneof![
        6 => setting(accepts).prop_map(FileLine::Setting),
        1 => "#[ -~]{0,20}".prop_map(FileLine::Comment),
        1 => Just(FileLine::Empty),
    ];
    let lines = proptest::collection::vec(line, 0..24);
    (
        lines,
        proptest::sample::subsequence(renames, 0..=3),
        any::<Index>(),
    )
        .prop_map(|(mut lines, renames, at)| {
            for rename in renames {
                let place = at.index(lines.len() + 1);
                lines.insert(place, FileLine::Rename(rename));
            }
            lines
        })
}

fn text(lines: &[FileLine]) -> String {
    let lines = lines.iter().map(|line| match line {
        FileLine::Setting(setting) => format!("  {}\n", setting.line()),
        FileLine::Comment(comment) => format!("{comment}\n"),
        FileLine::Empty => "\n".to_owned(),
        FileLine::Rename(rename) if rename.starts_with("KEYS") => {
            format!("rename-command {rename}\n")
        }
        FileLine::Rename(rename) => format!("{rename}\n"),
    });
    lines.collect()
}

/// Returns the configuration of this file after these changes by CONFIG SET.
fn configured(text: &str, changes: &[Setting]) -> Config {
    let mut config = Config::new().unwrap();
    config.load(text.as_bytes(), "before").unwrap();
    for change in changes {
        let value = change.words.join(" ");
        let pair: [(&[u8], &[u8]); 1] = [(change.directive.name.as_bytes(), value.as_bytes())];
        // CONFIG SET refuses directives that only a file may set.
        let _ = config.set(&pair, true, false);
    }
    config
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_rewritten_file_means_the_same(
        lines in file(|_| true),
        changes in proptest::collection::vec(setting(|_| true), 0..8),
    ) {
        let before = text(&lines);
        let config = configured(&before, &changes);
        let after = config.rewritten(before.as_bytes());
        let mut again = Config::new().unwrap();
        again.load(&after, "after").unwrap();
        let shown = String::from_utf8_lossy(&after);
        for (directive, (new, old)) in DIRECTIVES.iter().zip(again.values.iter().zip(&config.values)) {
            prop_assert_eq!(new, old, "{} of\n{}\nrewritten to\n{}", directive.name, before, shown);
        }
        let renames = |config: &Config| -> Vec<(Vec<u8>, Vec<u8>)> {
            let renames = config.renames().iter();
            renames.map(|r| (r.from.clone(), r.to.clone())).collect()
        };
        prop_assert_eq!(renames(&again), renames(&config));
        // Lines without a directive stay in order.
        let kept = |text: &str| -> Vec<String> {
            let lines = text.lines().map(str::trim);
            let kept = lines.filter(|line| {
                let line = line.to_ascii_lowercase();
                line.starts_with("rename-command") || (line.starts_with('#') && line != SIGNATURE.to_ascii_lowercase())
            });
            kept.map(str::to_owned).collect()
        };
        prop_assert_eq!(kept(&shown), kept(&before));
        // As in Redis, lines of one directive may change their order, but not their joint meaning.
        let twice = again.rewritten(&after);
        let mut third = Config::new().unwrap();
        third.load(&twice, "twice").unwrap();
        prop_assert_eq!(&third.values, &config.values);
    }
}

#[test]
fn all_default_save_points_are_written() {
    const ALL: &str = "save 3600 1\nsave 300 100\nsave 60 10000\n";
    for (file, changes) in [
        ("save 3600 1 300 100 60 10000\nport 1\n", &[][..]),
        ("port 1\n", &[]),
        ("save 900 1\n", &[("save", "3600 1 300 100 60 10000")]),
        ("save \"\"\n", &[("save", "3600 1 300 100 60 10000")]),
    ] {
        let mut config = loaded(file);
        if !changes.is_empty() {
            let _ = set(&mut config, changes).unwrap();
        }
        let rewritten = String::from_utf8(config.rewritten(file.as_bytes())).unwrap();
        let lines = rewritten.lines().filter(|line| line.starts_with("save"));
        let lines: String = lines.map(|line| format!("{line}\n")).collect();
        assert_eq!(lines, ALL, "{file}");
    }
}

/// Returns false for directives with effects on the machine, on redis-server or on this test, and
/// for directives newer than Debian's Redis 7.0.
fn fit_for_redis(directive: &Directive) -> bool {
    #[rustfmt::skip]
    const UNFIT: &[&str] = &[
        "default-ttl", "max-ttl", "ttl-rule", "log-format", "maxmemory-policy",
        "stream-idmp-duration", "stream-idmp-maxsize", "metrics-port", "metrics-bind",
        "metrics-password", "threads", "shards", "clock", "seed", "notify-expired-values",
        "import-skip-unknown", "reported-version", "huge-pages",
        // Redis does not start with these directives without a certificate.
        "tls-port", "tls-replication", "tls-cluster", "locale-collate", "set-max-listpack-entries",
        "set-max-listpack-value", "cluster-announce-human-nodename",
        "cluster-bus-port-protected-mode", "backupdirname", "backup-sealed-ttl",
        "cluster-slot-stats-enabled",
        // A node of a cluster refuses other directives, and needs a second port.
        "cluster-enabled", "port", "bind", "unixsocket", "unixsocketperm", "dir", "daemonize",
        "supervised", "logfile", "pidfile", "requirepass", "aclfile", "maxclients",
        "maxmemory-clients", "timeout", "oom-score-adj", "watchdog-period", "io-threads",
        "syslog-enabled", "proc-title-template", "activedefrag", "bind-source-addr",
    ];
    !UNFIT.contains(&directive.name)
        && !directive.name.ends_with("cpulist")
        // Redis 7.0 refuses an empty list.
        && !matches!(directive.kind, Kind::Percentiles)
}

#[test]
fn redis_server_reads_a_rewritten_file() {
    let mut runner = TestRunner::deterministic();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redis.conf");
    for _ in 0..12 {
        let lines = file(fit_for_redis).new_tree(&mut runner).unwrap().current();
        let before = text(&lines);
        let config = configured(&before, &[]);
        let rewritten = config.rewritten(before.as_bytes());
        fs::write(&path, &rewritten).unwrap();
        let Some(mut redis) = Redis::start(Some(&path), &[]) else {
            return;
        };
        for directive in DIRECTIVES
            .iter()
            .filter(|directive| fit_for_redis(directive))
        {
            let theirs = redis.ask(&["CONFIG", "GET", directive.name]);
            assert_eq!(
                theirs.get(1).map(String::as_str),
                Some(&*get(&config, directive.name)),
                "{} of\n{}",
                directive.name,
                String::from_utf8_lossy(&rewritten)
            );
        }
    }
}
