//! GET /metrics: a real parser reads its formats, and its figures are correct.

use std::path::Path;
use std::process::Command;

use punctual_server::Server;

use crate::redis_py::python_with;
use crate::visit::{Response, get};
use crate::wire::{Open as _, Wire, configured};

const OPEN_METRICS: &str =
    "Accept: application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3";

fn server() -> Server {
    let server = configured("clock virtual").metrics_port(0);
    server.spawn().unwrap()
}

/// Returns the value of a sample.
#[track_caller]
fn value(page: &Response, sample: &str) -> f64 {
    let line = page
        .body
        .lines()
        .find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    let text = line.unwrap_or_else(|| panic!("no {sample} in\n{}", page.body));
    text.parse().unwrap()
}

#[test]
fn a_real_parser_reads_both_formats() {
    let server = server();
    let mut c = Wire::open(&server);
    c.expect(
        &["SET a b PX 10", "HGET a f"],
        "+OK|-WRONGTYPE Operation against a key holding the wrong kind of value|",
    );
    c.expect(&["TIMER SET t IN 20 DO SET x y"], "+OK|");
    c.send(&["CLOCK ADVANCE 30"]);
    c.value();
    let folder = tempfile::tempdir().unwrap();
    for (name, accept, kind) in [
        (
            "open",
            OPEN_METRICS,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        ),
        (
            "plain",
            "Accept: */*",
            "text/plain; version=0.0.4; charset=utf-8",
        ),
    ] {
        let page = get(&server, "/metrics", &[accept]);
        assert_eq!((page.status, page.header("content-type")), (200, kind));
        std::fs::write(folder.path().join(name), &page.body).unwrap();
    }
    let Some(python) = python_with("prometheus_client") else {
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/metrics/parse.py");
    let output = Command::new(python)
        .arg(script)
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn the_figures_are_those_of_the_server() {
    let server = server();
    let mut c = Wire::open(&server);
    c.expect(
        &[
            "SET a 1",
            "SET b 1 PX 10000",
            "SET c 1 PX 20000",
            "SELECT 3",
            "SET d 1",
            "GET d",
            "GET none",
            "LPUSH d x",
            "SELECT 99",
        ],
        "+OK|+OK|+OK|+OK|+OK|$1|1|$-1|-WRONGTYPE Operation against a key holding the wrong kind of value|\
         -ERR DB index is out of range|",
    );
    c.expect(&["TIMER SET t IN 15000 DO GET nosuch"], "+OK|");
    c.expect(&["JOB ADD q x ID j DELAY 5000"], "$1|j|");
    c.expect(&["CLOCK ADVANCE 10000"], &format!(":{}|", now_ms(&server)));
    let page = get(&server, "/metrics", &[]);
    for (sample, expected) in [
        ("redis_up", 1.0),
        ("redis_exporter_last_scrape_error{err=\"\"}", 0.0),
        ("redis_db_keys{db=\"db0\"}", 2.0),
        ("redis_db_keys_expiring{db=\"db0\"}", 1.0),
        ("redis_db_avg_ttl_seconds{db=\"db0\"}", 10.0),
        ("redis_db_keys{db=\"db3\"}", 3.0),
        ("redis_db_keys{db=\"db15\"}", 0.0),
        ("redis_expired_keys_total", 1.0),
        ("redis_commands_total{cmd=\"set\"}", 4.0),
        ("redis_commands_failed_calls_total{cmd=\"lpush\"}", 1.0),
        ("redis_errors_total{err=\"WRONGTYPE\"}", 1.0),
        ("redis_keyspace_hits_total", 1.0),
        ("redis_keyspace_misses_total", 1.0),
        ("redis_rdb_last_bgsave_status", 1.0),
        ("redis_config_maxclients", 10_000.0),
        ("redis_max_clients", 10_000.0),
        ("redis_commands_latencies_usec_count{cmd=\"set\"}", 4.0),
        // A key and a job. The clock stops at each deadline, so the lateness is zero.
        ("punctual_lateness_seconds_bucket{le=\"0.00001\"}", 2.0),
        ("punctual_lateness_seconds_bucket{le=\"+Inf\"}", 2.0),
        ("punctual_lateness_seconds_count", 2.0),
        ("punctual_deadlines", 2.0),
        ("punctual_timer_commands_total", 0.0),
    ] {
        assert_eq!(value(&page, sample), expected, "{sample}");
    }
    assert!(
        page.body
            .contains("redis_instance_info{role=\"master\",redis_version=\"7.2.4\"")
    );
    assert!(value(&page, "redis_memory_used_bytes") >= 0.0);
    assert!(value(&page, "redis_commands_duration_seconds_total{cmd=\"set\"}") > 0.0);
    c.send(&["CLOCK ADVANCE 5000"]);
    c.value();
    let page = get(&server, "/metrics", &[]);
    // A scrape does not count as a client, and runs no command.
    assert_eq!(value(&page, "redis_connected_clients"), 1.0);
    assert!(!page.body.contains("{cmd=\"info\"}"));
    assert_eq!(value(&page, "punctual_timer_commands_total"), 1.0);
    assert_eq!(value(&page, "punctual_lateness_seconds_count"), 3.0);
    assert_eq!(value(&page, "redis_exporter_scrapes_total"), 2.0);
}

#[test]
fn sizes_of_values_are_histograms() {
    let server = server();
    let mut c = Wire::open(&server);
    assert!(
        !get(&server, "/metrics", &[])
            .body
            .contains("punctual_string_bytes")
    );
    for line in [
        "SET a 123",
        "SET b 1234",
        "SELECT 3",
        "RPUSH l 1 2",
        "RPUSH m 1 2 3 4 5",
    ] {
        c.run(line);
    }
    let page = get(&server, "/metrics", &[]);
    for (sample, expected) in [
        ("punctual_string_bytes_bucket{db=\"db0\",le=\"3\"}", 1.0),
        ("punctual_string_bytes_bucket{db=\"db0\",le=\"15\"}", 2.0),
        ("punctual_string_bytes_count{db=\"db0\"}", 2.0),
        ("punctual_string_bytes_sum{db=\"db0\"}", 7.0),
        (
            "punctual_collection_elements_bucket{db=\"db3\",type=\"list\",le=\"3\"}",
            1.0,
        ),
        (
            "punctual_collection_elements_bucket{db=\"db3\",type=\"list\",le=\"+Inf\"}",
            2.0,
        ),
        (
            "punctual_collection_elements_sum{db=\"db3\",type=\"list\"}",
            7.0,
        ),
    ] {
        assert_eq!(value(&page, sample), expected, "{sample}");
    }
    assert!(!page.body.contains("elements_count{db=\"db0\""));
}

fn now_ms(server: &Server) -> u128 {
    let since = server.now().duration_since(std::time::UNIX_EPOCH).unwrap();
    since.as_millis() + 10_000
}

/// The metrics that Grafana's dashboards 763 and 12776, made for redis_exporter, show.
#[test]
fn dashboards_find_their_metrics() {
    let server = server();
    Wire::open(&server).expect(&["SET a b"], "+OK|");
    let page = get(&server, "/metrics", &[]);
    #[rustfmt::skip]
    let metrics = [
        "redis_up", "redis_uptime_in_seconds", "redis_start_time_seconds", "redis_instance_info",
        "redis_connected_clients", "redis_blocked_clients", "redis_memory_used_bytes",
        "redis_memory_max_bytes", "redis_memory_used_rss_bytes", "redis_mem_fragmentation_ratio",
        "redis_commands_processed_total", "redis_commands_total",
        "redis_commands_duration_seconds_total", "redis_keyspace_hits_total",
        "redis_keyspace_misses_total", "redis_net_input_bytes_total",
        "redis_net_output_bytes_total", "redis_db_keys", "redis_db_keys_expiring",
        "redis_expired_keys_total", "redis_evicted_keys_total", "redis_connected_slaves",
        "redis_master_repl_offset", "redis_rdb_last_save_timestamp_seconds",
        "redis_rdb_changes_since_last_save", "redis_slowlog_length",
        "redis_rejected_connections_total", "redis_cpu_sys_seconds_total",
        "redis_cpu_user_seconds_total", "redis_pubsub_channels", "redis_pubsub_patterns",
    ];
    for name in metrics {
        let has = |line: &str| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with([' ', '{']))
        };
        assert!(page.body.lines().any(has), "{name}");
    }
}

#[test]
fn replicas_and_their_primary_show_each_other() {
    let primary = configured("repl-diskless-sync-delay 0")
        .metrics_port(0)
        .spawn()
        .unwrap();
    let port = primary.port();
    let replica = Server::builder()
        .port(0)
        .metrics_port(0)
        .option("replicaof", &format!("127.0.0.1 {port}"))
        .spawn()
        .unwrap();
    let up = format!("redis_master_link_up{{master_host=\"127.0.0.1\",master_port=\"{port}\"}}");
    let end = std::time::Instant::now() + crate::visit::PATIENCE;
    let page = loop {
        let page = get(&replica, "/metrics", &[]);
        if value(&page, &up) == 1.0 {
            break page;
        }
        assert!(std::time::Instant::now() < end, "{}", page.body);
    };
    assert!(page.body.contains("redis_instance_info{role=\"slave\""));
    assert!(
        page.body
            .contains("\nredis_slave_info{master_host=\"127.0.0.1\"")
    );
    loop {
        let page = get(&primary, "/metrics", &[]);
        if page.body.contains("slave_state=\"online\"") {
            assert!(
                page.body
                    .contains("\nredis_connected_slave_lag_seconds{slave_ip=\"127.0.0.1\"")
            );
            break;
        }
        assert!(std::time::Instant::now() < end, "{}", page.body);
    }
}

#[test]
fn a_server_that_cannot_answer_is_down() {
    // With one loop, the request for figures reaches the script's loop; with three, also other
    // loops.
    for threads in [1, 3] {
        is_down_while_a_script_is_busy(threads);
    }
}

fn is_down_while_a_script_is_busy(threads: usize) {
    let server = configured("busy-reply-threshold 1")
        .threads(threads)
        .metrics_port(0)
        .spawn()
        .unwrap();
    let mut busy = Wire::open(&server);
    busy.send(&["EVAL 'while true do end' 0"]);
    let end = std::time::Instant::now() + crate::visit::PATIENCE;
    let page = loop {
        // Before the script begins, and before it counts as busy, the server replies.
        let page = get(&server, "/metrics", &[]);
        if value(&page, "redis_up") == 0.0 {
            break page;
        }
        assert!(std::time::Instant::now() < end, "{}", page.body);
    };
    assert!(
        page.body
            .contains("redis_exporter_last_scrape_error{err=\"BUSY "),
        "{}",
        page.body
    );
    assert_eq!(value(&page, "punctual_lateness_seconds_count"), 0.0);
    for _ in 0..threads {
        assert_eq!(value(&get(&server, "/metrics", &[]), "redis_up"), 0.0);
    }
    let mut c = Wire::open(&server);
    c.expect(&["SCRIPT KILL"], "+OK|");
    assert!(busy.value().is_error());
    assert_eq!(value(&get(&server, "/metrics", &[]), "redis_up"), 1.0);
}
