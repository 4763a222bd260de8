//! HOTKEYS, by the documentation and the tests of Redis 8.6: redis-server 7.0 does not know it.

use std::collections::BTreeMap;

use punctual_resp::Value;
use punctual_server::Server;

use crate::wire::{Open as _, Wire};

/// Returns the fields of HOTKEYS GET, which has one map in an array.
fn tracked(c: &mut Wire) -> BTreeMap<String, Value> {
    let reply = c.ask(&["HOTKEYS", "GET"]);
    let [Value::Array(fields)] = reply.as_slice().unwrap() else {
        panic!("{reply:?}");
    };
    let name = |value: &Value| String::from_utf8(value.as_bytes().unwrap().to_vec()).unwrap();
    let pairs = fields.chunks(2);
    pairs
        .map(|pair| (name(&pair[0]), pair[1].clone()))
        .collect()
}

/// Returns keys and their costs.
fn keys(list: &Value) -> Vec<(String, i64)> {
    let pairs = list.as_slice().unwrap().chunks(2);
    pairs
        .map(|pair| {
            let Value::Int(cost) = pair[1] else {
                panic!("{pair:?}")
            };
            (
                String::from_utf8(pair[0].as_bytes().unwrap().to_vec()).unwrap(),
                cost,
            )
        })
        .collect()
}

#[test]
fn commands_are_charged_to_their_keys() {
    for threads in ["1", "3"] {
        let server = Server::builder()
            .port(0)
            .option("threads", threads)
            .spawn()
            .unwrap();
        let mut wires: Vec<Wire> = (0..3).map(|_| Wire::open(&server)).collect();
        wires[0].expect(&["SET config:global 1", "SET product:1 1"], "+OK|+OK|");
        wires[0].expect(&["HOTKEYS START METRICS 2 CPU NET COUNT 3"], "+OK|");
        for n in 0..550 {
            let key = if n % 11 == 0 {
                "product:1"
            } else {
                "config:global"
            };
            wires[n % 3].ask(&["GET", key]);
        }
        let c = &mut wires[0];
        let script = "return redis.call('SET', KEYS[1], ARGV[1])";
        let value = "v".repeat(9_000);
        c.ask(&["EVAL", script, "1", "of-script", &value]);
        c.expect(&["MULTI", "MGET a b", "EXEC"], "+OK|+QUEUED|*1|*2|$-1|$-1|");
        let found = tracked(c);
        assert_eq!(found["tracking-active"], Value::Int(1));
        assert_eq!(found["sample-ratio"], Value::Int(1));
        let slots = Value::Array(vec![Value::Array(vec![Value::Int(0), Value::Int(16_383)])]);
        assert_eq!(found["selected-slots"], slots);
        let net = keys(&found["by-net-bytes"]);
        // As sent and received: `*2 $3 GET $13 config:global`, `$1 1`.
        assert_eq!(net[0], ("config:global".to_owned(), 500 * 40));
        assert_eq!((&*net[1].0, net[1].1 > 9_000), ("of-script", true));
        assert_eq!(net[2..], [("product:1".to_owned(), 50 * 35)]);
        let cpu = keys(&found["by-cpu-time-us"]);
        let Value::Int(all) = found["all-commands-all-slots-us"] else {
            panic!()
        };
        assert_eq!(cpu.len(), 3);
        assert!(cpu.is_sorted_by(|a, b| a.1 >= b.1), "{cpu:?}");
        assert!(
            cpu.iter().map(|(_, us)| us).sum::<i64>() <= all,
            "{cpu:?} of {all}"
        );
        for name in [
            "total-cpu-time-user-ms",
            "total-cpu-time-sys-ms",
            "total-net-bytes",
        ] {
            assert!(found.contains_key(name), "{name}");
        }
        c.expect(&["HOTKEYS STOP", "GET config:global"], "+OK|$1|1|");
        let after = tracked(c);
        assert_eq!(after["by-net-bytes"], found["by-net-bytes"]);
        assert_eq!(after["tracking-active"], Value::Int(0));
        // Keys share the cost of their command: `*3 $4 MGET $1 a $1 b`, `*2 $-1 $-1`.
        c.expect(
            &["HOTKEYS START METRICS 1 NET", "MGET a b", "HOTKEYS STOP"],
            "+OK|*2|$-1|$-1|+OK|",
        );
        let found = tracked(c);
        assert_eq!(
            keys(&found["by-net-bytes"]),
            [("a".to_owned(), 21), ("b".to_owned(), 21)]
        );
        assert_eq!(found["net-bytes-all-commands-all-slots"], Value::Int(42));
        assert!(!found.contains_key("by-cpu-time-us"));
        assert!(!found.contains_key("total-cpu-time-user-ms"));
        c.expect(&["HOTKEYS RESET", "HOTKEYS GET"], "+OK|*-1|");
    }
}

#[test]
fn a_duration_ends_the_tracking() {
    let server = Server::builder().port(0).virtual_clock().spawn().unwrap();
    let mut c = Wire::open(&server);
    c.expect(&["HOTKEYS START METRICS 1 NET DURATION 5"], "+OK|");
    c.ask(&["CLOCK", "ADVANCE", "4999"]);
    c.expect(&["SET a 1"], "+OK|");
    assert_eq!(tracked(&mut c)["tracking-active"], Value::Int(1));
    c.ask(&["CLOCK", "ADVANCE", "2"]);
    c.expect(&["SET b 1"], "+OK|");
    let found = tracked(&mut c);
    assert_eq!(found["tracking-active"], Value::Int(0));
    assert_eq!(found["collection-duration-ms"], Value::Int(5000));
    assert_eq!(keys(&found["by-net-bytes"]).len(), 1);
    // Another one may begin.
    c.expect(
        &["HOTKEYS START METRICS 1 CPU SAMPLE 1000", "HOTKEYS STOP"],
        "+OK|+OK|",
    );
    let found = tracked(&mut c);
    assert_eq!(found["sample-ratio"], Value::Int(1000));
    assert!(!found.contains_key("by-net-bytes") && !found.contains_key("total-net-bytes"));
}

#[test]
fn errors_are_those_of_redis() {
    let server = Server::builder().port(0).spawn().unwrap();
    let mut c = Wire::open(&server);
    c.expect(&["HOTKEYS GET", "HOTKEYS RESET"], "*-1|+OK|");
    for (words, error) in [
        ("", "METRICS parameter is required"),
        ("COUNT 5", "METRICS parameter is required"),
        ("METRICS 1 CPU NET", "syntax error"),
        (
            "METRICS 2 CPU",
            "METRICS count does not match number of metric types provided",
        ),
        (
            "METRICS 3 CPU NET",
            "METRICS count does not match number of metric types provided",
        ),
        ("METRICS 1 CPU COUNT 0", "COUNT must be between 1 and 64"),
        ("METRICS 1 CPU COUNT 100", "COUNT must be between 1 and 64"),
        ("METRICS 1 CPU SAMPLE 0", "SAMPLE ratio must be positive"),
        (
            "METRICS 1 CPU SLOTS 2 0 5",
            "SLOTS parameter cannot be used in non-cluster mode",
        ),
    ] {
        c.expect_error(format!("HOTKEYS START {words}").trim(), error);
    }
    for (words, error) in [
        ("METRICS 0", "ERR METRICS count"),
        ("METRICS -1", "ERR METRICS count"),
        ("METRICS 1 GPU", "ERR METRICS no valid metrics"),
        ("METRICS 2 GPU NYET", "ERR METRICS no valid metrics"),
        ("METRICS 2 CPU CPU", "ERR METRICS CPU"),
        ("METRICS 2 NET NET", "ERR METRICS NET"),
        ("METRICS 1 CPU DURATION 0", "ERR DURATION"),
    ] {
        let line = format!("HOTKEYS START {words}");
        let reply = c.ask(&line.split(' ').collect::<Vec<_>>());
        let Value::Error(text) = &reply else {
            panic!("{line}: {reply:?}")
        };
        assert!(
            text.starts_with(error.as_bytes()),
            "{line}: {}",
            text.escape_ascii()
        );
    }
    // Unknown metrics are passed over.
    c.expect(&["HOTKEYS START METRICS 2 GPU CPU"], "+OK|");
    c.expect_error(
        "HOTKEYS START METRICS 1 NET",
        "hotkey tracking session already in progress",
    );
    c.expect_error(
        "HOTKEYS RESET",
        "hotkey tracking session in progress, stop tracking first",
    );
    c.expect(
        &["HOTKEYS STOP", "HOTKEYS RESET", "HOTKEYS GET"],
        "+OK|+OK|*-1|",
    );
    assert!(c.ask(&["HOTKEYS", "STOP"]).is_error());
}
