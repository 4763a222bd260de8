//! INFO: tools can parse every line, and no field of Redis is missing without a reason.

use std::collections::{BTreeMap, BTreeSet};

use crate::waiters::with_threads;
use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire, configured, eventually, server_with, shown};
use punctual_server::Server;

/// Fields of Redis that we omit, by section, each group with its reason.
const LEFT_OUT: &[(&str, &[&str])] = &[
    // How Redis was compiled.
    (
        "Server",
        &["redis_build_id", "atomicvar_api", "gcc_version"],
    ),
    // Progress of forks: the server does not fork.
    (
        "Persistence",
        &["module_fork_in_progress", "module_fork_last_cow_size"],
    ),
    // Active defragmentation, the sanitization of dumps, I/O threads, and reply buffers that grow
    // and shrink do not exist here.
    (
        "Stats",
        &[
            "active_defrag_hits",
            "active_defrag_misses",
            "active_defrag_key_hits",
            "active_defrag_key_misses",
            "total_active_defrag_time",
            "current_active_defrag_time",
            "dump_payload_sanitizations",
            "io_threaded_reads_processed",
            "io_threaded_writes_processed",
            "reply_buffer_shrinks",
            "reply_buffer_expands",
        ],
    ),
    // Redis has one main thread; here every event loop would be one.
    (
        "CPU",
        &["used_cpu_sys_main_thread", "used_cpu_user_main_thread"],
    ),
];

/// Returns the sections by title and their fields by name. Panics on a malformed line.
fn parse(text: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut sections: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut title = String::new();
    let mut blank = true;
    for line in text.split("\r\n") {
        if line.is_empty() {
            blank = true;
        } else if let Some(new) = line.strip_prefix("# ") {
            assert!(blank, "no empty line before {line:?}");
            title = new.to_owned();
            assert!(
                sections.insert(title.clone(), BTreeMap::new()).is_none(),
                "{title} twice"
            );
            blank = false;
        } else {
            let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("{line:?}"));
            assert!(
                !name.contains(' ') && !line.contains(['\r', '\n']),
                "{line:?}"
            );
            let fields = sections.get_mut(&title).unwrap();
            assert!(
                fields.insert(name.to_owned(), value.to_owned()).is_none(),
                "{name} twice"
            );
            blank = false;
        }
    }
    assert!(text.ends_with("\r\n"));
    sections
}

fn info(c: &mut Wire, sections: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    parse(&c.text(&format!("INFO {sections}")))
}

fn number(c: &mut Wire, section: &str, name: &str) -> f64 {
    let all = info(c, section);
    let value = all.values().next().unwrap()[name].clone();
    value
        .trim_end_matches('%')
        .parse()
        .unwrap_or_else(|_| panic!("{name}:{value}"))
}

#[test]
fn no_field_of_redis_is_missing() {
    let redis = Redis::start(&[]);
    let server = Server::builder().port(0).spawn().unwrap();
    let (mut theirs, mut ours) = (Wire::to(redis.port), Wire::open(&server));
    for c in [&mut theirs, &mut ours] {
        c.expect(&["SET k v EX 1000", "GET k"], "+OK|$1|v|");
        c.text("NOSUCHCOMMAND");
    }
    let (theirs, ours) = (
        info(&mut theirs, "everything"),
        info(&mut ours, "everything"),
    );
    let mut missing = BTreeSet::new();
    for (title, fields) in &theirs {
        let Some(mine) = ours.get(title) else {
            missing.insert(format!("# {title}"));
            continue;
        };
        // The fields are the commands that have run.
        if title == "Commandstats" || title == "Latencystats" {
            continue;
        }
        for name in fields.keys().filter(|name| !mine.contains_key(*name)) {
            missing.insert(format!("{title}:{name}"));
        }
    }
    let left_out: BTreeSet<String> = LEFT_OUT
        .iter()
        .flat_map(|(title, names)| names.iter().map(move |name| format!("{title}:{name}")))
        .collect();
    let forgotten: Vec<_> = missing.difference(&left_out).collect();
    assert!(forgotten.is_empty(), "{forgotten:?}");
    let present: Vec<_> = left_out
        .difference(&missing)
        .filter(|f| ours[f.split_once(':').unwrap().0].contains_key(f.split_once(':').unwrap().1))
        .collect();
    assert!(present.is_empty(), "listed as left out: {present:?}");
    // A field of both servers is a number in both, or a word in both.
    for (title, fields) in &theirs {
        for (name, value) in fields {
            let Some(mine) = ours[title].get(name) else {
                continue;
            };
            let is_number = |text: &str| text.trim_end_matches('%').parse::<f64>().is_ok();
            if name != "config_file" && title != "Commandstats" {
                assert_eq!(
                    is_number(value),
                    is_number(mine),
                    "{name}: {value} or {mine}"
                );
            }
        }
    }
    assert_eq!(
        theirs["Keyspace"]["db0"].split(',').count(),
        ours["Keyspace"]["db0"].split(',').count()
    );
}

#[test]
fn the_clients_section_matches_redis() {
    let redis = Redis::start(&[]);
    let server = server_with("clock virtual");
    let (mut theirs, mut ours) = (Wire::to(redis.port), Wire::open(&server));
    // On each server, two clients wait, one of them with a timeout.
    let mut waiting: Vec<Wire> = [redis.port, redis.port, server.port(), server.port()]
        .map(Wire::to)
        .into();
    for (c, line) in waiting
        .iter_mut()
        .zip(["BLPOP a 0", "BLPOP b 100"].repeat(2))
    {
        c.send(&[line]);
    }
    let names = |text: &str| -> Vec<String> {
        let lines = text.lines().skip(1);
        lines
            .map(|l| l.split_once(':').unwrap().0.to_owned())
            .collect()
    };
    let mut expected = names(&theirs.text("INFO clients"));
    // Fields that are new in 7.2.
    expected.extend(["total_blocking_keys", "total_blocking_keys_on_nokey"].map(str::to_owned));
    assert_eq!(names(&ours.text("INFO clients")), expected);
    eventually(|| {
        [&mut theirs, &mut ours].map(|c| number(c, "clients", "blocked_clients")) == [2.0, 2.0]
    });
    for name in [
        "connected_clients",
        "blocked_clients",
        "tracking_clients",
        "clients_in_timeout_table",
    ] {
        let [theirs, ours] = [&mut theirs, &mut ours].map(|c| number(c, "clients", name));
        assert_eq!(ours, theirs, "{name}");
    }
    assert_eq!(number(&mut ours, "clients", "total_blocking_keys"), 2.0);
    // The peak of a large command is kept for some seconds.
    let value = vec![b'x'; 100_000];
    ours.ask(&[b"SET".as_slice(), b"k", &value]);
    let most = "client_recent_max_input_buffer";
    assert!(number(&mut ours, "clients", most) > 100_000.0);
    ours.int("CLOCK ADVANCE 5000");
    assert!(number(&mut ours, "clients", most) < 100.0);
}

#[test]
fn sections_are_selected_as_in_redis() {
    let redis = Redis::start(&[]);
    let server = Server::builder().port(0).spawn().unwrap();
    let (mut theirs, mut ours) = (Wire::to(redis.port), Wire::open(&server));
    let mut titles = |asked: &str| -> (Vec<String>, Vec<String>) {
        let order = |text: String| -> Vec<String> {
            text.lines()
                .filter_map(|l| l.strip_prefix("# ").map(str::to_owned))
                .collect()
        };
        let (theirs, ours) = (
            order(theirs.text(&format!("INFO {asked}"))),
            order(ours.text(&format!("INFO {asked}"))),
        );
        // The last sections are Valkey's and Punctual's own.
        let ours = ours.into_iter();
        let ours = ours
            .filter(|title| title != "TLS" && title != "Timers")
            .collect();
        (theirs, ours)
    };
    for asked in [
        "",
        "default",
        "all",
        "everything",
        "SERVER",
        "cpu keyspace",
        "keyspace cpu",
        "cpu nosuch",
        "nosuch",
        "default commandstats",
        "modules",
        "commandstats latencystats errorstats",
    ] {
        let (theirs, ours) = titles(asked);
        assert_eq!(theirs, ours, "INFO {asked}");
    }
    assert!(
        ours.text("INFO").contains("# Timers"),
        "the timers are shown by default"
    );
}

/// The field names and bins are Redis 8's.
#[test]
fn the_sizes_of_values_are_shown_on_request() {
    for threads in [1, 3] {
        let server = with_threads(threads);
        let mut c = Wire::open(&server);
        assert_eq!(c.text("INFO keysizes"), "# Keysizes\r\n");
        for line in [
            "SET one 1",
            "SET seven 1234567",
            "SETRANGE large 1500 x",
            "SETRANGE huge 2097151 x",
            "SELECT 2",
            "RPUSH l a b c",
            "SADD s a",
            "ZADD z 1 a 2 b",
            "HSET h a 1 b 2 c 3 d 4",
            "XADD x * a 1",
        ] {
            c.run(line);
        }
        let expected = "# Keysizes\r\n\
            db0_distrib_strings_sizes:1=1,4=1,1K=1,2M=1\r\n\
            db2_distrib_lists_items:2=1\r\n\
            db2_distrib_sets_items:1=1\r\n\
            db2_distrib_zsets_items:2=1\r\n\
            db2_distrib_hashes_items:4=1\r\n\
            db2_distrib_streams_items:1=1\r\n";
        assert_eq!(c.text("INFO keysizes"), expected);
        assert!(!c.text("INFO everything").contains("distrib"));
        c.expect(&["MULTI", "INFO keysizes"], "+OK|+QUEUED|");
        assert_eq!(shown(&c.run("EXEC")), format!("[{expected}]"));
    }
}

#[test]
fn timers_and_jobs_are_counted_in_all_databases() {
    for threads in [1, 3] {
        let server = configured("clock virtual").threads(threads).spawn();
        let server = server.unwrap();
        let mut c = Wire::open(&server);
        c.expect(&["CLOCK SET 2000000000000"], ":2000000000000|");
        for (db, times) in [
            (0, [59_999, 60_000, 3_599_999]),
            (5, [86_399_999, 86_400_000, 1]),
        ] {
            c.expect(&[&format!("SELECT {db}")], "+OK|");
            for at in times {
                c.expect(&[&format!("TIMER SET t{at} IN {at} DO SET a b")], "+OK|");
                c.send(&[&format!("JOB ADD q{} p DELAY {at}", at % 7)]);
                c.value();
            }
        }
        c.expect(&["TIMER PAUSE t1"], ":1|");
        c.send(&[
            "JOB ADD lost p RETRY 0 ID lost",
            "JOB ADD ready p",
            "JOB TAKE lost LEASE 5",
        ]);
        (0..3).for_each(|_| drop(c.value()));
        let figures = |c: &mut Wire| -> String {
            let fields = info(c, "timers").remove("Timers").unwrap();
            #[rustfmt::skip]
            let names = [
                "timers_keys", "timers_paused", "timers_due_minute", "timers_due_hour",
                "timers_due_day", "job_queues", "jobs_ready", "jobs_delayed", "jobs_leased",
                "jobs_dead", "jobs_due_minute", "jobs_due_hour", "jobs_due_day",
            ];
            names.map(|name| fields[name].as_str()).join(" ")
        };
        assert_eq!(figures(&mut c), "6 1 1 3 4 7 1 6 1 0 2 4 5", "{threads}");
        c.int("CLOCK ADVANCE 5");
        assert_eq!(figures(&mut c), "6 1 2 3 5 7 2 5 0 1 2 3 5", "{threads}");
        c.expect(&["FLUSHALL"], "+OK|");
        assert_eq!(figures(&mut c), "0 0 0 0 0 0 0 0 0 0 0 0 0");
    }
}

#[test]
fn fields_have_exact_values() {
    let server = server_with("clock virtual|maxmemory 100mb");
    let mut c = Wire::open(&server);
    for n in 0..300 {
        c.expect(&[&format!("SET {n} v PX {}", 100 + n)], "+OK|");
    }
    c.expect(
        &[
            "SET forever v",
            "GET forever",
            "GET nothing",
            "SELECT 3",
            "SET k v",
        ],
        "+OK|$1|v|$-1|+OK|+OK|",
    );
    let all = info(&mut c, "everything");
    assert_eq!(all["Keyspace"]["db0"], "keys=301,expires=300,avg_ttl=249");
    assert_eq!(all["Keyspace"]["db3"], "keys=1,expires=0,avg_ttl=0");
    assert_eq!(all["Stats"]["keyspace_hits"], "1");
    assert_eq!(all["Stats"]["keyspace_misses"], "1");
    assert_eq!(all["Stats"]["total_connections_received"], "1");
    assert_eq!(all["Stats"]["total_commands_processed"], "305");
    assert_eq!(all["Persistence"]["rdb_changes_since_last_save"], "302");
    assert_eq!(all["Clients"]["connected_clients"], "1");
    assert_eq!(all["Memory"]["maxmemory_human"], "100.00M");
    assert_eq!(all["Server"]["tcp_port"], server.port().to_string());
    assert_eq!(all["Server"]["process_id"], std::process::id().to_string());
    assert_eq!(all["Timers"]["timers_pending"], "300");
    c.int("CLOCK ADVANCE 250");
    let all = info(&mut c, "everything");
    assert_eq!(all["Stats"]["expired_keys"], "151");
    assert_eq!(all["Timers"]["timers_fired"], "151");
    assert_eq!(all["Timers"]["timers_pending"], "149");
    // The virtual clock stops at each key's own deadline.
    assert_eq!(all["Timers"]["timers_lateness_usec_max"], "1");
    assert_eq!(all["Timers"]["timers_lateness_usec_histogram"], "1=151");
    assert!(all["Commandstats"]["cmdstat_set"].starts_with("calls=302,usec="));
    assert!(
        all["Commandstats"]["cmdstat_clock|advance"].ends_with(",rejected_calls=0,failed_calls=0")
    );
    assert!(all["Latencystats"]["latency_percentiles_usec_set"].starts_with("p50="));
    for name in [
        "used_memory",
        "used_memory_peak",
        "used_memory_startup",
        "mem_clients_normal",
    ] {
        assert!(all["Memory"][name].parse::<u64>().unwrap() > 0, "{name}");
    }
    let bytes = |name: &str| all["Memory"][name].parse::<u64>().unwrap();
    assert_eq!(
        bytes("allocator_resident") + bytes("rss_overhead_bytes"),
        bytes("used_memory_rss")
    );
    assert!(bytes("rss_overhead_bytes") > 0, "the program itself");
    let share = number(&mut c, "memory", "used_memory_dataset_perc");
    assert!((0.0..=100.0).contains(&share));
}

#[test]
fn errors_are_counted_by_code_until_resetstat() {
    let server = server_with("enable-debug-command yes");
    let mut c = Wire::open(&server);
    for line in ["NOSUCH", "GET", "DEBUG ERROR MYCODE", "INCR"] {
        c.text(line);
    }
    c.ask(&["DEBUG", "ERROR", "MYCODE and more"]);
    c.ask(&[
        "DEBUG",
        "ERROR",
        "a_first_word_that_is_longer_than_a_code and more",
    ]);
    let all = info(&mut c, "everything");
    assert_eq!(
        all["Commandstats"]["cmdstat_get"],
        "calls=0,usec=0,usec_per_call=0.00,rejected_calls=1,failed_calls=0"
    );
    for n in 0..300 {
        c.ask(&["DEBUG", "ERROR", &format!("CODE{n} x")]);
    }
    let counts = info(&mut c, "errorstats");
    assert!(
        counts["Errorstats"].len() <= 129,
        "the number of distinct codes is bounded"
    );
    c.expect(&["CONFIG RESETSTAT"], "+OK|");
    let all = info(&mut c, "everything");
    assert!(all["Errorstats"].is_empty());
    assert_eq!(
        all["Commandstats"].keys().collect::<Vec<_>>(),
        ["cmdstat_config|resetstat"]
    );
    assert_eq!(all["Stats"]["total_error_replies"], "0");
}

#[test]
fn rates_follow_the_load() {
    let server = Server::builder().port(0).spawn().unwrap();
    let mut c = Wire::open(&server);
    c.text("INFO stats");
    eventually(|| {
        for _ in 0..500 {
            c.expect(&["PING"], "+PONG|");
        }
        number(&mut c, "stats", "instantaneous_ops_per_sec") > 100.0
    });
}
