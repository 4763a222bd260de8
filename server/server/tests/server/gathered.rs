//! Commands of several clients that a loop reads before it runs the first of them.

use punctual_server::Server;

use crate::wire::{Open as _, Wire, configured};

/// With this number of keys, the server prefetches. It assumes that a much smaller number of keys
/// fits into the processor's caches.
const KEYS: usize = 9_000;

fn start(threads: &str) -> Server {
    configured("clock virtual|busy-reply-threshold 1|enable-debug-command yes")
        .option("threads", threads)
        .spawn()
        .unwrap()
}

/// Keeps the loops busy for a moment, so that commands that other clients send meanwhile are read
/// together. The result of a test does not depend on this.
fn delay(sleeper: &mut Wire) {
    sleeper.send(&["DEBUG SLEEP 0.05"]);
}

#[test]
fn each_client_gets_the_replies_to_its_own_commands() {
    for threads in ["1", "4"] {
        let server = start(threads);
        let mut filler = Wire::open(&server);
        let sets: Vec<String> = (0..KEYS)
            .map(|n| format!("SET key:{n} value:{n}"))
            .collect();
        for sets in sets.chunks(500) {
            let lines: Vec<&str> = sets.iter().map(String::as_str).collect();
            filler.expect(&lines, &"+OK|".repeat(lines.len()));
        }
        let mut clients: Vec<Wire> = (0..40).map(|_| Wire::open(&server)).collect();
        for (n, client) in clients.iter_mut().enumerate() {
            client.expect(&[&format!("SELECT {}", n % 2)], "+OK|");
        }
        for round in 0..5 {
            delay(&mut filler);
            let key = |n: usize| round * 97 + n * 211;
            for (n, client) in clients.iter_mut().enumerate() {
                let get = format!("GET key:{}", key(n));
                match n % 5 {
                    // The second half of the command arrives with the next command.
                    0 => client.send(&[&get, "*2", "$4", "ECHO", "$3"]),
                    1 => client.send(&[""]),
                    2 => client.send(&["PING", &get, "INCR n"]),
                    _ => client.send(&[&get]),
                }
            }
            filler.receive("+OK|");
            for (n, client) in clients.iter_mut().enumerate() {
                let value = format!("value:{}", key(n));
                let got = match n % 2 {
                    0 => format!("${}|{value}|", value.len()),
                    _ => "$-1|".to_owned(),
                };
                match n % 5 {
                    0 => {
                        client.receive(&got);
                        client.expect(&["abc"], "$3|abc|");
                    }
                    1 => client.expect(&["PING"], "+PONG|"),
                    2 => {
                        client.receive(&format!("+PONG|{got}"));
                        assert!(client.value().as_int().is_some_and(|n| n > 0));
                    }
                    _ => client.receive(&got),
                }
            }
        }
        // Eight clients, half of them in each database, have counted five times.
        assert_eq!(filler.text("GET n"), "20");
    }
}

#[test]
fn a_client_that_another_one_kills_runs_nothing_more() {
    let server = start("1");
    let (mut sleeper, mut killer) = (Wire::open(&server), Wire::open(&server));
    for round in 0..5 {
        let mut victim = Wire::open(&server);
        let id = victim.int("CLIENT ID");
        delay(&mut sleeper);
        killer.send(&[&format!("CLIENT KILL ID {id}")]);
        victim.send(&["INCR n"]);
        assert_eq!(victim.ends(), 0, "round {round}");
        killer.receive(":1|");
        sleeper.receive("+OK|");
        killer.expect(&["GET n"], "$-1|");
    }
}

#[test]
fn a_script_is_killed_by_a_command_that_was_read_with_it() {
    let server = start("1");
    let mut clients: Vec<Wire> = (0..4).map(|_| Wire::open(&server)).collect();
    let [sleeper, runner, killer, other] = &mut clients[..] else {
        unreachable!("four clients");
    };
    for _ in 0..5 {
        delay(sleeper);
        runner.send(&["EVAL 'while true do end' 0"]);
        killer.send(&["SCRIPT KILL"]);
        other.send(&["SET k 1"]);
        killer.receive("+OK|");
        let reply = runner.value();
        let text = String::from_utf8_lossy(reply.as_bytes().unwrap()).into_owned();
        assert!(text.contains("Script killed by user"), "{text}");
        // The command was either refused while the script was busy, or run after the script.
        let reply = other.value();
        let text = String::from_utf8_lossy(reply.as_bytes().unwrap()).into_owned();
        assert!(text == "OK" || text.starts_with("BUSY"), "{text}");
        sleeper.receive("+OK|");
    }
}
