//! The port of the web page: permissions, data, and limits for slow peers.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use punctual_server::{Server, StartError};

use crate::visit::{self, Response, command, exactly, get, open};
use crate::wire::{Open as _, Wire, configured};

fn server(password: &str) -> Server {
    let server = configured("clock virtual").metrics_port(0);
    server.option("metrics-password", password).spawn().unwrap()
}

#[track_caller]
fn refused(response: &Response, status: u16, error: &str) {
    assert_eq!(response.status, status, "{}", response.body);
    assert!(
        response.body.starts_with(&format!("{{\"error\":\"{error}")),
        "{}",
        response.body
    );
}

#[track_caller]
fn replied(response: &Response, reply: &str) {
    let body = format!("{{\"reply\":{reply}}}");
    assert_eq!((response.status, &*response.body), (200, &*body));
}

#[test]
fn the_port_is_off_by_default() {
    let server = Server::builder().port(0).spawn().unwrap();
    assert_eq!(server.metrics_addr(), None);
    let mut c = Wire::open(&server);
    c.expect(
        &["CONFIG GET metrics-*", "CONFIG SET metrics-port 9121"],
        "*6|$12|metrics-port|$1|0|$12|metrics-bind|$14|127.0.0.1 -::1|$16|metrics-password|$0||\
         -ERR CONFIG SET failed (possibly related to argument 'metrics-port') - can't set immutable config|",
    );
}

#[test]
fn a_port_in_use_is_an_error_of_the_start() {
    let first = server("");
    let port = first.metrics_addr().unwrap().port();
    let second = Server::builder().port(0).metrics_port(port).spawn();
    assert!(matches!(second, Err(StartError::Listen(_))));
}

#[test]
fn anybody_may_load_the_page_and_no_page_may_frame_it() {
    let server = server("");
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/page.css", "text/css; charset=utf-8"),
        ("/page.js", "text/javascript; charset=utf-8"),
    ] {
        // Behind a proxy, the Host header has another name.
        let page = exactly(
            &server,
            &format!("GET {path}"),
            &["Host: metrics.example"],
            "",
        );
        assert_eq!((page.status, page.header("content-type")), (200, kind));
        assert_eq!(page.header("x-content-type-options"), "nosniff");
        assert_eq!(page.header("x-frame-options"), "DENY");
        let policy = page.header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self';"),
            "{policy}"
        );
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"));
        assert!(!page.body.is_empty() && page.header("access-control-allow-origin").is_empty());
        // The page works offline: it loads nothing from other sites and has no inline scripts.
        for word in "http:// https:// //cdn innerHTML onclick style=".split(' ') {
            assert!(!page.body.contains(word), "{path}: {word}");
        }
    }
    refused(
        &get(&server, "/page.txt", &[]),
        404,
        "There is nothing here.",
    );
    let post = exactly(&server, "POST /metrics", &["Host: 127.0.0.1"], "");
    assert_eq!((post.status, post.header("allow")), (405, "GET, HEAD"));
    let options = exactly(&server, "OPTIONS /api/command", &["Host: 127.0.0.1"], "");
    assert_eq!((options.status, options.header("allow")), (405, "POST"));
    let head = exactly(&server, "HEAD /metrics", &["Host: localhost"], "");
    assert_eq!((head.status, &*head.body), (200, ""));
}

/// In an attack by DNS rebinding, the requests of a foreign page have the name of its site as their
/// host.
#[test]
fn names_of_other_sites_get_no_data() {
    let server = server("secret");
    for host in [
        "Host: evil.example",
        "Host: localhost.evil.example:80",
        "X-No-Host: 1",
    ] {
        for path in [
            "/metrics",
            "/api/state",
            "/api/timers",
            "/api/queues",
            "/api/future",
        ] {
            let answer = exactly(&server, &format!("GET {path}"), &[host], "");
            refused(
                &answer,
                421,
                "The host of this request is a name that the server does not know.",
            );
        }
    }
    // A client that has the password is no foreign page.
    let lines = ["Host: metrics.example", "Authorization: Bearer secret"];
    assert_eq!(exactly(&server, "GET /api/state", &lines, "").status, 200);
    // A wrong password gets the answer that the server delays, on every path.
    let lines = ["Host: metrics.example", "Authorization: Bearer guess"];
    for path in ["/metrics", "/api/state"] {
        let answer = exactly(&server, &format!("GET {path}"), &lines, "");
        assert_eq!(answer.status, 401, "{path}");
    }
    for host in ["Host: localhost", "Host: [::1]:9121", "Host: 10.0.0.1"] {
        assert_eq!(
            exactly(&server, "GET /metrics", &[host], "").status,
            200,
            "{host}"
        );
    }
}

#[test]
fn nothing_changes_without_a_password() {
    let words = r#"["JOB","PAUSE","mails"]"#;
    let read_only = server("");
    refused(
        &command(&read_only, "", words),
        403,
        "The server was started without metrics-password",
    );
    let server = server("se cret%");
    let mut c = Wire::open(&server);
    c.expect(&["JOB ADD mails x ID 1"], "$1|1|");
    refused(&command(&server, "wrong", words), 401, "Wrong password.");
    refused(&command(&server, "", words), 401, "This needs the password");
    let addr = server.metrics_addr().unwrap();
    let host = format!("Host: {addr}");
    let json = "Content-Type: application/json";
    let bearer = "Authorization: Bearer se cret%";
    let post = |lines: &[&str]| exactly(&server, "POST /api/command", lines, words);
    let bare = post(&[&host, json]);
    refused(
        &bare,
        401,
        "This needs the password of the directive metrics-password.",
    );
    assert_eq!(bare.header("www-authenticate"), "Bearer");
    for origin in [
        "Origin: http://evil.example",
        "Origin: null",
        "Sec-Fetch-Site: cross-site",
    ] {
        let answer = post(&[&host, json, bearer, origin]);
        refused(
            &answer,
            403,
            "The request comes from a page of another site.",
        );
    }
    // A form on another site can send this content type without a preflight request.
    let answer = post(&[&host, "Content-Type: text/plain", bearer]);
    refused(&answer, 415, "The body must be application/json.");
    // The job queue was not paused by the requests so far.
    c.expect(&["JOB PAUSE mails", "JOB RESUME mails"], ":1|:1|");
    replied(&post(&[&host, json, bearer]), "1");
    replied(&command(&server, "se%20cret%25", words), "0");
    // A new password is valid at once.
    c.expect(&["CONFIG SET metrics-password other"], "+OK|");
    refused(&post(&[&host, json, bearer]), 401, "Wrong password.");
}

#[test]
fn only_the_commands_of_the_page_run() {
    let server = server("secret");
    let mut c = Wire::open(&server);
    c.expect(
        &[
            "SET a b",
            "TIMER SET t IN 1000 DO INCR runs",
            "TIMER SET \"\\xff\" IN 1000 DO DEL x",
            "SELECT 2",
            "JOB ADD mails x ID 1 RETRY 0",
        ],
        "+OK|+OK|+OK|+OK|$1|1|",
    );
    let run = |words: &str| command(&server, "secret", words);
    for words in [
        r#"["FLUSHALL"]"#,
        r#"["GET","a"]"#,
        r#"["DEL","a","t"]"#,
        r#"["JOB","ADD","mails","x"]"#,
        r#"["TIMER","SET","t","IN","1","DO","FLUSHALL"]"#,
        r#"["TIMER"]"#,
        "[]",
    ] {
        refused(&run(words), 400, "The page has no such command.");
    }
    for words in [
        "",
        "{}",
        r#""DEL""#,
        "[1]",
        r#"["DEL",null]"#,
        r#"["DEL",{"hex":"f"}]"#,
    ] {
        refused(&run(words), 400, "A JSON array of words is expected.");
    }
    refused(
        &run(&format!("[\"DEL\",\"{}\"]", "x".repeat(70_000))),
        413,
        "The body is too large.",
    );
    refused(
        &run(r#"["DEL","a"]"#),
        409,
        "There is no such timer any more.",
    );
    refused(
        &run(r#"["DEL","none"]"#),
        409,
        "There is no such timer any more.",
    );
    refused(&run(r#"["TIMER","RUN","a"]"#), 409, "WRONGTYPE ");
    replied(&run(r#"["TIMER","PAUSE","t"]"#), "1");
    replied(&run(r#"["timer","resume","t"]"#), "1");
    replied(&run(r#"["TIMER","RUN","t"]"#), "\"OK\"");
    replied(&run(r#"["DEL",{"hex":"ff"}]"#), "1");
    c.expect(
        &["SELECT 0", "GET runs", "TIMER LIST", "GET a"],
        "+OK|$1|1|*0|$1|b|",
    );
    // The command runs in another database.
    let addr = server.metrics_addr().unwrap().to_string();
    let other = |query: &str| {
        let lines = [
            &*format!("Host: {addr}"),
            "Authorization: Bearer secret",
            "Content-Type: application/json",
        ];
        exactly(
            &server,
            &format!("POST /api/command?{query}"),
            &lines,
            r#"["JOB","PAUSE","mails"]"#,
        )
    };
    replied(&other("db=2"), "1");
    refused(&other("db=99"), 409, "ERR DB index is out of range");
    refused(&other("db=x"), 400, "A number is expected.");
}

#[test]
fn a_server_with_a_password_shows_nothing_without_one() {
    let closed = server("");
    Wire::open(&closed).expect(&["CONFIG SET requirepass hidden"], "+OK|");
    refused(
        &get(&closed, "/api/timers", &[]),
        403,
        "Clients of this server need a password.",
    );
    assert_eq!(get(&closed, "/metrics", &[]).status, 200);
    let server = server("secret");
    Wire::open(&server).expect(&["CONFIG SET requirepass hidden"], "+OK|");
    refused(
        &get(&server, "/api/timers", &[]),
        401,
        "This needs the password",
    );
    // The password of Redis clients is a different one.
    let wrong = get(&server, "/api/timers", &["Authorization: Bearer hidden"]);
    refused(&wrong, 401, "Wrong password.");
    let right = get(&server, "/api/timers", &["Authorization: bearer secret"]);
    assert_eq!(right.body, r#"{"shown_at_most":50,"timers":[]}"#);
}

#[test]
fn the_data_of_the_page() {
    let server = server("");
    let mut c = Wire::open(&server);
    c.expect(&["CLOCK SET 2000000000000"], ":2000000000000|");
    c.expect(
        &[
            "TIMER SET soon IN 90000 DO SET x \"a b\"",
            "TIMER SET report CRON '0 9 * * *' DO PUBLISH r x",
            "TIMER SET held IN 5000 DO DEL x",
            "TIMER PAUSE held",
            "JOB ADD mails a ID 1 DELAY 61000",
            "JOB ADD mails b ID 2 DELAY 7200000",
            "JOB ADD mails c ID 3",
            "JOB ADD web d ID 4",
            "SET k v",
        ],
        "+OK|+OK|+OK|:1|$1|1|$1|2|$1|3|$1|4|+OK|",
    );
    let hour = get(&server, "/api/future?hours=1", &[]);
    let zeros = |n| vec!["0"; n].join(",");
    let one_in_second = format!("[0,1,{}]", zeros(58));
    assert_eq!(
        hour.body,
        format!(
            "{{\"from_ms\":2000000000000,\"jobs\":{one_in_second},\"step_ms\":60000,\"timers\":{one_in_second}}}"
        )
    );
    let day = get(&server, "/api/future?hours=24", &[]).body;
    assert!(
        day.contains(&format!("\"jobs\":[1,{},1,{}]", zeros(7), zeros(87))),
        "{day}"
    );
    assert!(day.contains("\"step_ms\":900000"));
    refused(
        &get(&server, "/api/future?hours=2", &[]),
        400,
        "hours is 1 or 24.",
    );
    let elsewhere = get(&server, "/api/future?hours=1&db=5", &[]).body;
    assert!(elsewhere.contains(&format!("\"timers\":[{}]", zeros(60))));

    let timers = get(&server, "/api/timers", &[]).body;
    let (soon, report, held) = (
        timers.find("\"soon\""),
        timers.find("\"report\""),
        timers.find("\"held\""),
    );
    assert!(soon.is_some() && soon < report && report < held, "{timers}");
    assert!(
        timers.contains(r#""command":["SET","x","a b"]"#),
        "{timers}"
    );
    let found = get(&server, "/api/timers?match=*epo*", &[]).body;
    assert!(found.contains("\"report\"") && !found.contains("\"soon\""));
    let queues = get(&server, "/api/queues?match=%6Dails", &[]).body;
    assert!(
        queues.contains("\"delayed\":2") && queues.contains("\"ready\":1"),
        "{queues}"
    );
    assert!(!queues.contains("web"));

    let state = get(&server, "/api/state", &[]).body;
    for part in [
        "\"now_ms\":2000000000000",
        "\"virtual\":true",
        "\"databases\":[{\"db\":0,\"keys\":6}]",
        "\"timers\":3",
        "\"timers_paused\":1",
        "\"queues\":2",
        "\"may_act\":false",
        "\"has_password\":false",
        "\"count\":0",
    ] {
        assert!(state.contains(part), "{part} in {state}");
    }
    // The server shortens a timer's command that is too long for a table row.
    let long = "x".repeat(500);
    c.expect(
        &[&format!(
            "TIMER SET long IN 1 DO DEL {} {long}",
            "k ".repeat(20)
        )],
        "+OK|",
    );
    let timers = get(&server, "/api/timers?match=long", &[]).body;
    assert!(
        !timers.contains(&long[..200]) && timers.contains("\u{2026}\"]"),
        "{timers}"
    );
    // Only this client remains: the internal connections of the page's requests are closed.
    let end = Instant::now() + visit::PATIENCE;
    while !c.text("INFO clients").contains("connected_clients:1\r") {
        assert!(Instant::now() < end);
    }
}

#[test]
fn the_figures_of_timers_and_jobs() {
    let server = server("");
    let mut c = Wire::open(&server);
    c.expect(
        &[
            "TIMER SET a IN 30000 DO DEL x",
            "TIMER SET b IN 90000 DO DEL x",
            "TIMER PAUSE b",
            "JOB ADD q x ID 1",
            "JOB ADD q y ID 2 DELAY 3700000",
        ],
        "+OK|+OK|:1|$1|1|$1|2|",
    );
    let page = get(&server, "/metrics", &[]).body;
    for line in [
        "punctual_timers 2",
        "punctual_timers_paused 1",
        "punctual_timers_due{within=\"minute\"} 1",
        "punctual_timers_due{within=\"day\"} 1",
        "punctual_job_queues 1",
        "punctual_jobs{state=\"ready\"} 1",
        "punctual_jobs{state=\"delayed\"} 1",
        "punctual_jobs{state=\"dead\"} 0",
        "punctual_jobs_due{within=\"hour\"} 0",
        "punctual_jobs_due{within=\"day\"} 1",
    ] {
        assert!(page.lines().any(|l| l == line), "{line} in\n{page}");
    }
}

/// The time limit of a request's head is 5 s.
#[test]
fn slow_request_heads_time_out() {
    let server = server("");
    let mut slow = open(&server);
    let begun = Instant::now();
    slow.write_all(b"GET /metrics HTTP/1.1\r\nHost: local")
        .unwrap();
    let mut idle = open(&server);
    idle.write_all(b"GET /page.css HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let (mut cut, mut whole) = (Vec::new(), Vec::new());
    slow.read_to_end(&mut cut).unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(4));
    let cut = String::from_utf8_lossy(&cut);
    assert!(cut.is_empty() || cut.starts_with("HTTP/1.1 408"), "{cut}");
    // A connection that waits for its next request also ends.
    idle.read_to_end(&mut whole).unwrap();
    assert!(whole.starts_with(b"HTTP/1.1 200 OK"));
}

#[test]
fn many_open_connections_do_not_block_other_clients() {
    let server = server("");
    let begun = Instant::now();
    let held: Vec<_> = (0..200)
        .map(|_| {
            let mut one = open(&server);
            one.write_all(b"GET / HTTP/1.1\r\n").unwrap();
            one
        })
        .collect();
    assert_eq!(get(&server, "/metrics", &[]).status, 200);
    Wire::open(&server).expect(&["PING"], "+PONG|");
    // The port has at most 32 connections; a new one closes the oldest. So `/metrics` does not wait
    // until the other connections reach their time limit.
    assert!(begun.elapsed() < Duration::from_secs(20));
    // An open connection does not delay the end of the server.
    server.shutdown();
    drop(held);
    assert!(begun.elapsed() < Duration::from_secs(25));
}

#[test]
fn input_other_than_http_is_answered_or_closed() {
    let server = server("");
    for bytes in [
        &b"PING\r\n"[..],
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\0 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /api/command HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        &[
            b"GET / HTTP/1.1\r\nX: ".to_vec(),
            vec![b'x'; 40_000],
            b"\r\n\r\n".to_vec(),
        ]
        .concat(),
    ] {
        let mut stream = open(&server);
        // The server may close the connection before all bytes are sent.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
            "{answer}"
        );
    }
    assert_eq!(get(&server, "/", &[]).status, 200);
}
