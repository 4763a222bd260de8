//! Tests of the configuration: files, options, GET, SET and REWRITE; and comparisons with a real
//! redis-server.

use std::fs;

use proptest::prelude::*;

use super::*;

fn config() -> Config {
    Config::new().unwrap()
}

fn loaded(text: &str) -> Config {
    let mut config = config();
    config.load(text.as_bytes(), "test.conf").unwrap();
    config
}

fn refused(text: &str) -> String {
    let error = config().load(text.as_bytes(), "test.conf").unwrap_err();
    error.to_string()
}

fn get(config: &Config, name: &str) -> String {
    let found = config.get([name.as_bytes()]);
    assert_eq!(found.len(), 1, "{name}");
    String::from_utf8(found[0].1.clone()).unwrap()
}

fn set(config: &mut Config, pairs: &[(&str, &str)]) -> Result<Changes, String> {
    let pairs: Vec<(&[u8], &[u8])> = pairs
        .iter()
        .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
        .collect();
    config
        .set(&pairs, true, false)
        .map_err(|error| error.to_string())
}

#[test]
fn settings_follow_the_file() {
    let settings = loaded(
        "# comment\n\r\nPort 7000\nbind 127.0.0.1 -::1 *\ntimeout 5\nrequirepass \"a b\"\nsave 900 1\n\
         save 60 2 30 3\nclient-output-buffer-limit pubsub 1mb 2kb 3\nnotify-keyspace-events Exg\n\
         slave-lazy-flush yes\nunixsocket x.sock\nunixsocketperm 770\nloglevel debug\nclock virtual\n\
         slowlog-log-slower-than -1\nhz 10000\nlist-max-ziplist-value 64\nthreads 4\n",
    )
    .settings();
    assert_eq!(settings.port, 7000);
    let hosts: Vec<_> = settings
        .bind
        .iter()
        .map(|address| (address.host.as_str(), address.optional))
        .collect();
    assert_eq!(
        hosts,
        [("127.0.0.1", false), ("::1", true), ("0.0.0.0", false)]
    );
    assert_eq!(settings.timeout_s, 5);
    assert_eq!(settings.requirepass.as_deref(), Some(&b"a b"[..]));
    let points: Vec<_> = settings
        .save
        .iter()
        .map(|p| (p.seconds, p.changes))
        .collect();
    assert_eq!(points, [(900, 1), (60, 2), (30, 3)]);
    let pubsub = settings.output_limits[Settings::OUTPUT_PUBSUB];
    assert_eq!(
        (pubsub.hard_bytes, pubsub.soft_bytes, pubsub.soft_seconds),
        (1 << 20, 2048, 3)
    );
    assert_eq!(
        settings.output_limits[Settings::OUTPUT_REPLICA].hard_bytes,
        256 << 20
    );
    assert_eq!(settings.notify.letters(), "gxE");
    assert_eq!(settings.unixsocket, Some(settings.dir.join("x.sock")));
    assert_eq!(settings.unixsocket_mode, 0o770);
    assert_eq!(settings.log_level, crate::log::Level::Debug);
    assert_eq!(settings.clock, ClockKind::Virtual);
    assert_eq!(settings.slowlog_slower_than_us, None);
    assert_eq!((settings.hz, settings.threads), (500, 4));
}

#[test]
fn defaults_reach_the_settings() {
    let settings = config().settings();
    assert_eq!((settings.port, settings.databases), (6379, 16));
    assert_eq!((settings.max_clients, settings.tcp_backlog), (10_000, 511));
    assert_eq!(settings.query_buffer_limit, 1 << 30);
    assert_eq!(settings.max_bulk_len, 512 << 20);
    assert_eq!(settings.slowlog_slower_than_us, Some(10_000));
    assert_eq!(settings.latency_percentiles, [50.0, 99.0, 99.9]);
    assert_eq!(settings.debug_command, Permission::No);
    assert!(settings.protected_mode && settings.dir.is_absolute());
    assert_eq!(
        (&settings.unixsocket, &settings.requirepass),
        (&None, &None)
    );
}

#[test]
fn errors_name_line_and_reason() {
    for (text, line, reason) in [
        (
            "\n# x\nfoo bar\n",
            "3 of test.conf\n>>> 'foo bar'",
            "Bad directive or wrong number of arguments",
        ),
        (
            "port 1 2",
            "1 of test.conf\n>>> 'port 1 2'",
            "wrong number of arguments",
        ),
        (
            "port",
            "1 of test.conf\n>>> 'port'",
            "wrong number of arguments",
        ),
        (
            "save \"",
            "1 of test.conf\n>>> 'save \"'",
            "Unbalanced quotes in configuration line",
        ),
        (
            "port abc",
            ">>> 'port abc'",
            "argument couldn't be parsed into an integer",
        ),
        ("maxcleints 3", ">>> ", "(did you mean 'maxclients'?)"),
        ("replicaof host 65536", ">>> ", "Invalid master port"),
        ("loadmodule x.so", ">>> ", "modules are not supported"),
        ("dir /nonexistent/x", ">>> ", "No such file or directory"),
        (
            "rename-command KEYS",
            ">>> ",
            "Bad directive or wrong number of arguments",
        ),
    ] {
        let error = refused(text);
        assert!(
            error.starts_with("\n*** FATAL CONFIG FILE ERROR (Punctual "),
            "{error}"
        );
        assert!(
            error.contains("Reading the configuration file, at line "),
            "{error}"
        );
        assert!(error.contains(line) && error.ends_with(reason), "{error}");
    }
    loaded(
        "appendonly no\nreplicaof no one\nuser default on nopass sanitize-payload ~* &* +@all\n",
    );
}

#[test]
fn options_win_over_the_file_and_are_named_in_errors() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.conf");
    fs::write(&file, "port 1\ntimeout 7\nsave 900 1\n").unwrap();
    let file = file.to_str().unwrap();
    let parse = |args: &[&str]| {
        let invocation = Invocation::parse(args).unwrap();
        Config::from_invocation(&invocation, &mut &b"port 2\n"[..]).map_err(|e| e.to_string())
    };
    let config = parse(&[file, "--port", "3", "--save", ""]).unwrap();
    assert_eq!(get(&config, "port"), "3");
    assert_eq!(
        (get(&config, "timeout"), get(&config, "save")),
        ("7".into(), "".into())
    );
    assert_eq!(config.file(), Some(Path::new(file)));
    assert_eq!(get(&parse(&[file, "-"]).unwrap(), "port"), "2");
    assert_eq!(get(&parse(&["-"]).unwrap(), "port"), "2");
    assert_eq!(
        get(&parse(&[file, "--save", "60 1"]).unwrap(), "save"),
        "900 1 60 1"
    );
    let error = parse(&["--port", "abc"]).unwrap_err();
    assert!(
        error.contains("the command line, at --port\n>>> 'port \"abc\"'\n"),
        "{error}"
    );
    let error = parse(&["/nonexistent.conf"]).unwrap_err();
    assert_eq!(
        error,
        "Fatal error, can't open config file '/nonexistent.conf': No such file or directory"
    );
}

#[test]
fn includes() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("conf.d")).unwrap();
    fs::write(at("conf.d/1.conf"), "timeout 1\nport 1\n").unwrap();
    fs::write(at("conf.d/2.conf"), "timeout 2\n").unwrap();
    fs::write(at("conf.d/.hidden.conf"), "timeout 3\n").unwrap();
    fs::write(at("bad.conf"), "\nnonsense\n").unwrap();
    fs::write(
        at("self.conf"),
        format!("include {}\n", at("self.conf").display()),
    )
    .unwrap();
    let text = format!(
        "port 9\ninclude {0}/conf.d/*.conf\ninclude {0}/no*where/*.conf\ndir {0}\ninclude conf.d/1.conf\n",
        folder.path().display()
    );
    let config = loaded(&text);
    // The last include is relative to `dir`, which the line before it sets.
    assert_eq!(
        (get(&config, "port"), get(&config, "timeout")),
        ("1".into(), "1".into())
    );
    let error = refused(&format!("include {}", at("bad.conf").display()));
    assert!(
        error.contains("at line 2 of ") && error.contains("bad.conf"),
        "{error}"
    );
    let error = refused(&format!("include {}", at("self.conf").display()));
    assert!(error.contains("nest more than 16 deep"), "{error}");
    let error = refused("include /nonexistent.conf");
    assert!(
        error.starts_with("Fatal error, can't open config file"),
        "{error}"
    );
}

#[test]
fn get_answers_as_redis() {
    let config = config();
    let names = |patterns: &[&str]| -> Vec<String> {
        let found = config.get(patterns.iter().map(|pattern| pattern.as_bytes()));
        let names = found
            .into_iter()
            .map(|(name, _)| String::from_utf8(name).unwrap());
        names.collect()
    };
    assert_eq!(names(&["PORT", "por?", "port"]), ["PORT"]);
    assert_eq!(names(&["LUA*"]), ["lua-time-limit"]);
    assert_eq!(names(&["nothing", "noth*"]), [] as [&str; 0]);
    assert_eq!(names(&["watchdog-period"]).len(), 1);
    assert!(!names(&["*"]).contains(&"watchdog-period".to_owned()));
    assert_eq!(get(&config, "maxmemory"), "0");
    assert_eq!(
        get(&config, "client-output-buffer-limit"),
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"
    );
}

#[test]
fn set_is_all_or_nothing_and_can_be_undone() {
    let mut config = config();
    let before = config.get([&b"*"[..]]);
    for (pairs, error) in [
        (
            &[("timeout", "5"), ("maxclients", "0")][..],
            "CONFIG SET failed (possibly related to argument 'maxclients') - argument must be between 1 and 4294967295 inclusive",
        ),
        (
            &[("timeout", "bad"), ("nosuch", "1")],
            "Unknown option or number of arguments for CONFIG SET - 'nosuch'",
        ),
        (
            &[("port", "1"), ("PORT", "1")],
            "CONFIG SET failed (possibly related to argument 'PORT') - duplicate parameter",
        ),
        (
            &[("lua-time-limit", "1"), ("busy-reply-threshold", "1")],
            "CONFIG SET failed (possibly related to argument 'busy-reply-threshold') - duplicate parameter",
        ),
        (
            &[("databases", "1")],
            "CONFIG SET failed (possibly related to argument 'databases') - can't set immutable config",
        ),
        (
            &[("dir", "/")],
            "CONFIG SET failed (possibly related to argument 'dir') - can't set protected config",
        ),
    ] {
        assert_eq!(set(&mut config, pairs).unwrap_err(), error);
        assert_eq!(config.get([&b"*"[..]]), before);
    }
    let pairs: [(&[u8], &[u8]); 2] = [(b"timeout", b"5"), (b"dir", b"/")];
    let mut open = loaded("enable-protected-configs yes\n");
    assert_eq!(open.set(&pairs, true, true).unwrap_err(), SetError::Loading);
    assert!(open.set(&pairs, true, false).is_ok());
    let changes = set(
        &mut config,
        &[
            ("Timeout", "5"),
            ("maxclients", "10000"),
            ("slave-lazy-flush", "yes"),
        ],
    )
    .unwrap();
    assert_eq!(changes.names, ["timeout", "replica-lazy-flush"]);
    assert!(changes.contains("timeout"));
    assert_eq!(config.settings().timeout_s, 5);
    assert_eq!(config.without_effect(), ["replica-lazy-flush"]);
    config.undo(changes);
    assert_eq!(config.get([&b"*"[..]]), before);
    assert_eq!(config.settings().timeout_s, 0);
    assert!(Config::is_sensitive(b"RequirePass") && !Config::is_sensitive(b"port"));
}

#[test]
fn protected_directives_need_permission() {
    let mut config = loaded("enable-protected-configs local\n");
    let pair: [(&[u8], &[u8]); 1] = [(b"dbfilename", b"x.rdb")];
    assert!(config.set(&pair, false, false).is_err());
    assert!(config.set(&pair, true, false).is_ok());
    assert_eq!(config.settings().dbfilename, "x.rdb");
    let pair: [(&[u8], &[u8]); 1] = [(b"dbfilename", b"a/b")];
    assert!(config.set(&pair, true, false).is_err());
}

#[test]
fn rewrite_keeps_what_the_user_wrote() {
    let old = "# my conf\n\n\n\nport 7395\nsave 900 1\nsave 300 10\nlua-time-limit 99\n\tmaxmemory 100mb\n\
               slave-read-only yes\ninclude /dev/null\nwhat is this\nlogfile \"\"\n# end\n";
    let understood = old.replace("what is this\n", "");
    let mut config = loaded(&understood);
    let _ = set(
        &mut config,
        &[
            ("save", "60 1"),
            ("maxmemory", "3145728"),
            ("client-output-buffer-limit", "normal 1mb 0 0"),
            ("latency-tracking-info-percentiles", ""),
            ("bind", "127.0.0.1"),
            ("requirepass", "a \"b\""),
        ],
    )
    .unwrap();
    let dir = get(&config, "dir");
    let new = String::from_utf8(config.rewritten(old.as_bytes())).unwrap();
    let (kept, added) = new.split_once("# Generated by CONFIG REWRITE\n").unwrap();
    assert_eq!(
        kept,
        "# my conf\n\nport 7395\nsave 60 1\n\nbusy-reply-threshold 99\nmaxmemory 3mb\n\
         replica-read-only yes\ninclude /dev/null\n# ??? what is this\nlogfile \"\"\n# end\n"
    );
    let mut added: Vec<&str> = added.lines().collect();
    added.sort_unstable();
    let dir = format!("dir \"{dir}\"");
    let mut expected = vec![
        "bind 127.0.0.1",
        "client-output-buffer-limit normal 1mb 0 0",
        &dir,
        "latency-tracking-info-percentiles \"\"",
        "requirepass \"a \\\"b\\\"\"",
    ];
    expected.sort_unstable();
    assert_eq!(added, expected);

    // After a change back to the defaults, lines disappear or show the default, and the signature
    // appears once.
    let _ = set(
        &mut config,
        &[("save", ""), ("bind", "* -::*"), ("requirepass", "")],
    )
    .unwrap();
    let newer = String::from_utf8(config.rewritten(new.as_bytes())).unwrap();
    assert!(
        newer.contains("\nsave \"\"\n")
            && !newer.contains("bind")
            && !newer.contains("requirepass")
    );
    assert_eq!(newer.matches("# Generated").count(), 1);
    assert_eq!(
        String::from_utf8(config.rewritten(newer.as_bytes())).unwrap(),
        newer
    );
}

#[test]
fn rewrite_replaces_the_file_in_one_step() {
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(
        config().rewrite().unwrap_err().to_string(),
        "The server is running without a config file"
    );
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (
        folder.path().join("real.conf"),
        folder.path().join("link.conf"),
    );
    fs::write(&file, "timeout 1").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let mut config = Config::from_args([&link]).unwrap();
    let _ = set(&mut config, &[("timeout", "2")]).unwrap();
    config.rewrite().unwrap();
    assert!(
        fs::read_to_string(&file)
            .unwrap()
            .starts_with("timeout 2\n")
    );
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    drop(folder);
    let error = config.rewrite().unwrap_err().to_string();
    assert_eq!(error, "Rewriting config file: No such file or directory");
}

/// Values that some directives accept and others refuse.
#[rustfmt::skip]
const VALUES: [&str; 21] = [
    "", "0", "1", "-1", "7", "42", "100", "501", "9999999999", "01", "1kb", "3GB", "5%", "101%",
    "yes", "NO", "local", "x", "1 2", "verbose", "default",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// CONFIG REWRITE writes a file that restores all values, both for an empty file and for its
    /// own output.
    #[test]
    fn rewritten_files_load_to_the_same_values(
        picks in proptest::collection::vec((0..DIRECTIVES.len(), 0..VALUES.len()), 1..40),
        text: Vec<u8>,
    ) {
        let mut config = loaded("enable-protected-configs yes\n");
        for (row, value) in picks {
            let pair: [(&[u8], &[u8]); 1] = [(DIRECTIVES[row].name.as_bytes(), VALUES[value].as_bytes())];
            let _ = config.set(&pair, true, false);
        }
        let pair: [(&[u8], &[u8]); 1] = [(b"masterauth", &text)];
        prop_assert!(config.set(&pair, true, false).is_ok());
        let first = config.rewritten(b"");
        let mut again = crate::config::Config::new().unwrap();
        again.load(&first, "rewritten").unwrap();
        prop_assert_eq!(&again.values, &config.values);
        prop_assert_eq!(again.rewritten(&first), first);
    }

    #[test]
    fn any_text_loads_or_is_refused(text in "([a-z\\-]{0,12} [ -~]{0,12}\n){0,6}", bytes: Vec<u8>) {
        // `include` would read files of this machine.
        if !text.contains("include") && !bytes.windows(7).any(|window| window.eq_ignore_ascii_case(b"include")) {
            let _ = config().load(text.as_bytes(), "fuzz");
            let _ = config().load(&bytes, "fuzz");
            let _ = config().rewritten(&bytes);
        }
    }
}

mod beside_redis;
mod rewriting;
