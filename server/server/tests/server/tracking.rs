//! Client-side caching: the keys that are tracked, the receivers of invalidations, and the order of
//! messages.

use punctual_resp::Value;
use punctual_server::Server;

use crate::wire::{Open as _, Wire, configured, eventually};

fn start(threads: usize) -> Server {
    configured("enable-debug-command yes")
        .threads(threads)
        .spawn()
        .unwrap()
}

/// Opens a client with RESP3 in tracking mode with these options.
fn tracking(server: &Server, options: &str) -> Wire {
    let mut client = Wire::open(server);
    client.ask(&["HELLO", "3"]);
    client.expect(&[&format!("CLIENT TRACKING on {options}")], "+OK|");
    client
}

/// Returns the message that invalidates these keys, with `|` for line ends.
fn invalid(keys: &[&str]) -> String {
    let names: String = keys.iter().map(|k| format!("${}|{k}|", k.len())).collect();
    format!(">2|$10|invalidate|*{}|{names}", keys.len())
}

const ALL: &str = ">2|$10|invalidate|_|";

/// Returns a field of INFO.
fn info(client: &mut Wire, name: &str) -> u64 {
    client.info("", name).parse().unwrap()
}

#[test]
fn a_change_invalidates_what_was_read_once() {
    for threads in [1, 4] {
        let server = start(threads);
        let (mut c, mut w) = (tracking(&server, ""), Wire::open(&server));
        c.expect(&["GET a", "MGET b c", "GET a"], "_|*2|_|_|_|");
        assert_eq!(info(&mut w, "tracking_total_keys"), 3);
        assert_eq!(info(&mut w, "tracking_total_items"), 3);
        assert_eq!(info(&mut w, "tracking_clients"), 1);
        w.expect(&["SET a 1", "SET a 2", "SET other 1"], "+OK|+OK|+OK|");
        c.receive(&invalid(&["a"]));
        // Writes in another database also invalidate, because the names are global, as in Redis.
        w.expect(&["SELECT 3", "LPUSH c 1", "SELECT 0"], "+OK|:1|+OK|");
        c.receive(&invalid(&["c"]));
        w.expect(&["DEL a", "RENAME other b"], ":1|+OK|");
        c.receive(&invalid(&["b"]));
        assert_eq!(info(&mut w, "tracking_total_items"), 0);
        c.expect_silence();
        // The server does not remember keys that a client writes, nor keys that a write reads.
        c.expect(
            &["SET x 1", "GETSET x 2", "INCR n", "SORT l STORE d"],
            "+OK|$1|1|:1|:0|",
        );
        assert_eq!(info(&mut w, "tracking_total_keys"), 0);
        c.expect(&["GET a", "CLIENT TRACKING off"], "_|+OK|");
        w.expect(&["SET a 1"], "+OK|");
        c.expect(&["PING"], "+PONG|");
        assert_eq!(info(&mut w, "tracking_clients"), 0);
    }
}

#[test]
fn own_changes_follow_their_reply() {
    for threads in [1, 4] {
        let server = start(threads);
        let mut c = tracking(&server, "");
        let message = invalid(&["k"]);
        c.expect(
            &["GET k", "SET k 1", "GET k", "INCR k", "PING"],
            &format!("_|+OK|{message}$1|1|:2|{message}+PONG|"),
        );
        c.expect(
            &[
                "GET k", "MULTI", "SET k 1", "GET k", "SET k 2", "EXEC", "PING",
            ],
            &format!("$1|2|+OK|+QUEUED|+QUEUED|+QUEUED|*3|+OK|$1|1|+OK|{message}{message}+PONG|"),
        );
        c.expect(
            &[
                "GET k",
                r#"EVAL "redis.call('set',KEYS[1],7) return redis.call('get',KEYS[1])" 1 k"#,
                "PING",
            ],
            &format!("$1|2|$1|7|{message}+PONG|"),
        );
        c.expect(
            &["CLIENT TRACKING on NOLOOP", "SET k 9", "GET k", "SET k 10"],
            "+OK|+OK|$1|9|+OK|",
        );
        Wire::open(&server).expect(&["SET k 11"], "+OK|");
        c.expect(&["GET k"], "$2|11|");
        Wire::open(&server).expect(&["SET k 12"], "+OK|");
        c.receive(&message);
    }
}

/// Like the test "Unblocked BLMOVE gets notification after response" in the suite of Redis 7.0.
#[test]
fn changes_by_a_command_that_has_waited_follow_its_reply() {
    for (threads, others) in [(1, 1), (4, 8)] {
        let server = start(threads);
        // The clients are on all loops.
        for _ in 0..others {
            let (mut c, mut pusher) = (tracking(&server, ""), Wire::open(&server));
            let wait = "BLMOVE from to LEFT LEFT 0";
            let blocked = "INFO clients";
            pusher.expect(&["DEL from to", "RPUSH to a"], ":0|:1|");
            c.expect(&["LRANGE to 0 -1"], "*1|$1|a|");
            c.send(&[wait]);
            eventually(|| pusher.text(blocked).contains("blocked_clients:1"));
            pusher.expect(&["RPUSH from foo"], ":1|");
            c.receive(&format!("$3|foo|{}", invalid(&["to"])));
            // The invalidation by the push itself precedes the reply.
            c.expect(&["LRANGE from 0 -1"], "*0|");
            c.send(&[wait]);
            eventually(|| pusher.text(blocked).contains("blocked_clients:1"));
            pusher.expect(&["RPUSH from foo"], ":1|");
            c.receive(&format!("{}$3|foo|", invalid(&["from"])));
            // The change belongs to the waiting client, not to the client that pushes.
            c.expect(&["CLIENT TRACKING on NOLOOP", "LLEN to"], "+OK|:3|");
            pusher.ask(&["HELLO", "3"]);
            pusher.expect(&["CLIENT TRACKING on NOLOOP", "LLEN to"], "+OK|:3|");
            c.send(&[wait]);
            let mut other = Wire::open(&server);
            eventually(|| other.text(blocked).contains("blocked_clients:1"));
            pusher.expect(
                &["RPUSH from foo", "PING"],
                &format!(":1|{}+PONG|", invalid(&["to"])),
            );
            c.expect(&["PING"], "$3|foo|+PONG|");
            pusher.expect(&["DEL from to"], ":1|");
        }
    }
}

#[test]
fn flushes_invalidate_everything_once() {
    for threads in [1, 4] {
        let server = start(threads);
        let mut c = tracking(&server, "NOLOOP");
        let (mut b, mut w) = (tracking(&server, "BCAST PREFIX x"), Wire::open(&server));
        c.expect(&["GET a"], "_|");
        w.expect(&["FLUSHALL"], "+OK|");
        c.receive(ALL);
        b.receive(ALL);
        assert_eq!(info(&mut w, "tracking_total_items"), 0);
        c.expect(&["FLUSHDB", "PING"], &format!("+OK|{ALL}+PONG|"));
        c.expect(
            &["MULTI", "FLUSHALL", "FLUSHDB", "EXEC"],
            &format!("+OK|+QUEUED|+QUEUED|*2|+OK|+OK|{ALL}{ALL}"),
        );
    }
}

#[test]
fn expired_keys_and_fields_invalidate_at_their_deadline() {
    for threads in [1, 4] {
        let server = configured("clock virtual")
            .threads(threads)
            .spawn()
            .unwrap();
        let (mut c, mut w) = (tracking(&server, "NOLOOP"), Wire::open(&server));
        let mut b = tracking(&server, "BCAST NOLOOP PREFIX h PREFIX k");
        w.expect(
            &[
                "SET k 1 PX 100",
                "HSET h f 1 g 2",
                "HPEXPIRE h 50 FIELDS 1 f",
            ],
            "+OK|:2|*1|:1|",
        );
        b.receive(&invalid(&["h"]));
        b.receive(&invalid(&["k"]));
        c.expect(&["GET k", "HGET h f"], "$1|1|$1|1|");
        w.send(&["CLOCK ADVANCE 49"]);
        w.value();
        c.expect_silence();
        w.send(&["CLOCK ADVANCE 1"]);
        w.value();
        c.receive(&invalid(&["h"]));
        b.receive(&invalid(&["h"]));
        w.send(&["CLOCK ADVANCE 49"]);
        w.value();
        c.expect_silence();
        w.send(&["CLOCK ADVANCE 1"]);
        w.value();
        c.receive(&invalid(&["k"]));
        b.receive(&invalid(&["k"]));
        assert_eq!(info(&mut w, "tracking_total_items"), 0);
    }
}

#[test]
fn a_client_that_reads_an_expired_key_gets_an_invalidation() {
    let server = start(1);
    let (mut c, mut w) = (tracking(&server, "NOLOOP"), Wire::open(&server));
    w.expect(&["DEBUG SET-ACTIVE-EXPIRE 0", "SET k 1 PX 1"], "+OK|+OK|");
    // The read may come before or after the deadline. In the end, the key is gone, and the client
    // gets an invalidation if it has read the key.
    c.send(&["GET k"]);
    let existed = !matches!(c.value(), Value::Null);
    if existed {
        eventually(|| w.int("EXISTS k") == 0);
        c.receive(&invalid(&["k"]));
    }
}

#[test]
fn broadcasts_come_in_batches_by_prefix() {
    for threads in [1, 4] {
        let server = start(threads);
        let mut all = tracking(&server, "BCAST");
        let mut some = tracking(&server, "BCAST PREFIX a PREFIX b");
        let (mut quiet, mut w) = (
            tracking(&server, "BCAST NOLOOP PREFIX a"),
            Wire::open(&server),
        );
        w.expect(&["MSET a2 1 b1 1 c 1 a1 1"], "+OK|");
        all.receive(&invalid(&["a1", "a2", "b1", "c"]));
        some.receive(&invalid(&["a1", "a2"]));
        some.receive(&invalid(&["b1"]));
        quiet.receive(&invalid(&["a1", "a2"]));
        assert_eq!(info(&mut w, "tracking_total_prefixes"), 3);
        assert_eq!(info(&mut w, "tracking_total_keys"), 0);
        // The client gets no message about its own change. If several clients change a key in a
        // batch, only the last of them gets none.
        quiet.expect(&["SET a9 1"], "+OK|");
        some.receive(&invalid(&["a9"]));
        all.receive(&invalid(&["a9"]));
        // As in Redis, changes of a script are also sent to its own client.
        quiet.expect(&[r#"EVAL "redis.call('set',KEYS[1],1)" 1 a7"#], "_|");
        quiet.receive(&invalid(&["a7"]));
        // When a connection ends, its prefixes are removed.
        drop((all, some));
        eventually(|| info(&mut w, "tracking_total_prefixes") == 1);
        quiet.expect(&["RESET"], "+RESET|");
        assert_eq!(info(&mut w, "tracking_total_prefixes"), 0);
        assert_eq!(info(&mut w, "tracking_clients"), 0);
    }
}

#[test]
fn broadcasts_begin_in_the_middle_of_a_transaction() {
    for threads in [1, 4] {
        let server = start(threads);
        let mut c = Wire::open(&server);
        c.ask(&["HELLO", "3"]);
        let message = invalid(&["k"]);
        c.expect(
            &["MULTI", "CLIENT TRACKING on BCAST", "SET k 1", "EXEC"],
            &format!("+OK|+QUEUED|+QUEUED|*2|+OK|+OK|{message}"),
        );
    }
}

#[test]
fn optin_and_optout() {
    let server = start(1);
    let (mut c, mut w) = (tracking(&server, "OPTIN"), Wire::open(&server));
    let mut remembered = |c: &mut Wire, lines: &[&str], keys: &[&str]| {
        c.send(lines);
        for _ in lines {
            c.value();
        }
        w.expect(&["MSET o1 1 o2 1 o3 1"], "+OK|");
        for key in keys {
            c.receive(&invalid(&[key]));
        }
        c.expect(&["PING"], "+PONG|");
    };
    let cases: [(&[&str], &[&str]); 8] = [
        (&["GET o1"], &[]),
        (&["CLIENT CACHING yes", "GET o1", "GET o2"], &["o1"]),
        (&["CLIENT CACHING yes", "PING", "GET o2"], &[]),
        (&["CLIENT CACHING yes", "FOO", "GET o2"], &[]),
        (&["CLIENT CACHING yes", "CLIENT ID", "GET o2"], &["o2"]),
        (
            &[
                "CLIENT CACHING yes",
                "MULTI",
                "GET o1",
                "GET o2",
                "EXEC",
                "GET o3",
            ],
            &["o1", "o2"],
        ),
        (
            &[
                "MULTI",
                "GET o1",
                "CLIENT CACHING yes",
                "GET o2",
                "GET o3",
                "EXEC",
                "GET o1",
            ],
            &["o2", "o3"],
        ),
        (
            &["CLIENT CACHING yes", "MULTI", "GET o1", "DISCARD", "GET o3"],
            &[],
        ),
    ];
    for (lines, keys) in cases {
        remembered(&mut c, lines, keys);
    }
    c.expect(
        &["CLIENT TRACKING off", "CLIENT TRACKING on OPTOUT"],
        "+OK|+OK|",
    );
    remembered(&mut c, &["CLIENT CACHING no", "GET o1", "GET o2"], &["o2"]);
}

#[test]
fn redirected_messages_and_a_target_that_disconnects() {
    for threads in [1, 4] {
        let server = start(threads);
        let (mut w, mut target) = (Wire::open(&server), Wire::open(&server));
        let id = target.int("CLIENT ID");
        let mut c = tracking(&server, &format!("REDIRECT {id}"));
        c.expect(&["CLIENT GETREDIR", "GET k"], &format!(":{id}|_|"));
        // Without a subscription, a RESP2 client gets no messages.
        w.expect(&["SET k 1"], "+OK|");
        target.expect(&["PING"], "+PONG|");
        target.expect(
            &["SUBSCRIBE __redis__:invalidate"],
            "*3|$9|subscribe|$20|__redis__:invalidate|:1|",
        );
        c.expect(&["GET k"], "$1|1|");
        w.expect(&["SET k 2"], "+OK|");
        target.receive("*3|$7|message|$20|__redis__:invalidate|*1|$1|k|");
        w.expect(&["FLUSHALL"], "+OK|");
        target.receive("*3|$7|message|$20|__redis__:invalidate|_|");
        drop(target);
        eventually(|| info(&mut w, "connected_clients") == 2);
        c.expect(&["GET k"], "_|");
        w.expect(&["SET k 3"], "+OK|");
        c.receive(&format!(">2|$21|tracking-redir-broken|:{id}|"));
        let line = w.text("CLIENT LIST");
        assert!(
            line.contains(" flags=tR ") && line.contains(&format!(" redir={id} ")),
            "{line}"
        );
        let text = format!("~2|$2|on|$15|broken_redirect|$8|redirect|:{id}|$8|prefixes|*0|");
        c.expect(&["CLIENT TRACKINGINFO"], &format!("%3|$5|flags|{text}"));
    }
}

#[test]
fn the_table_has_a_limit() {
    for threads in [1, 4] {
        let server = start(threads);
        let (mut c, mut w) = (tracking(&server, ""), Wire::open(&server));
        w.expect(&["CONFIG SET tracking-table-max-keys 100"], "+OK|");
        let mut count = 0;
        for n in 0..1000 {
            c.send(&[&format!("GET k{n}")]);
            while !matches!(c.value(), Value::Null) {
                count += 1;
            }
        }
        let kept = info(&mut w, "tracking_total_keys");
        assert!(kept <= 100, "{kept}");
        assert_eq!(info(&mut w, "tracking_total_items"), kept);
        w.expect(&["CONFIG SET tracking-table-max-keys 5"], "+OK|");
        eventually(|| info(&mut w, "tracking_total_keys") <= 5);
        let left = info(&mut w, "tracking_total_keys");
        for _ in count..1000 - left {
            assert!(matches!(c.value(), Value::Push(_)));
        }
        c.expect_silence();
    }
}

#[test]
fn entries_of_disconnected_clients_cause_no_messages() {
    let server = start(1);
    let mut w = Wire::open(&server);
    for _ in 0..100 {
        let mut c = tracking(&server, "");
        c.expect(&["GET k"], "_|");
    }
    eventually(|| info(&mut w, "tracking_clients") == 0);
    assert_eq!(info(&mut w, "tracking_total_items"), 100);
    let mut c = tracking(&server, "");
    w.expect(&["SET k 1"], "+OK|");
    assert_eq!(info(&mut w, "tracking_total_items"), 0);
    c.expect(&["PING"], "+PONG|");
}
