//! TLS configurations that are allowed and refused, and changes while clients are connected.

use std::sync::Arc;

use punctual_harness::free_port;
use punctual_server::Server;
use rustls::HandshakeKind;
use rustls::version::{TLS12, TLS13};

use crate::tls::{Authority, Encrypt as _, TlsWire, is_first};
use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire};

const NOT_UPDATED: &str = "Unable to update TLS configuration. Check server logs.";

fn refusal(name: &str, reason: &str) -> String {
    format!("CONFIG SET failed (possibly related to argument '{name}') - {reason}")
}

#[test]
fn a_chain_with_an_intermediate_is_sent_and_verified() {
    let authority = Authority::new();
    authority.issue_by_intermediate("deep");
    let server = authority
        .builder()
        .option("tls-cert-file", &authority.path("deep.crt"))
        .option("tls-key-file", &authority.path("deep.key"))
        .option("tls-auth-clients", "yes")
        .spawn()
        .unwrap();
    let config = Arc::new(authority.client(Some("deep")));
    let mut c = TlsWire::connect(server.tls_port(), &config);
    c.text("PING");
    assert_eq!(c.stream.conn.peer_certificates().unwrap().len(), 2);
}

#[test]
fn a_directory_of_authorities_has_hashed_names() {
    let authority = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let config = Arc::new(authority.client(Some("client")));
    for (name, trusted) in [("ca.crt", false), ("0123abcd.0", true)] {
        std::fs::copy(authority.file("ca.crt"), folder.path().join(name)).unwrap();
        let server = authority
            .builder()
            .option("tls-ca-cert-file", "")
            .option("tls-ca-cert-dir", folder.path().to_str().unwrap())
            .option("tls-auth-clients", "yes")
            .spawn();
        let result = server.map(|s| TlsWire::connect(s.tls_port(), &config).try_ping());
        assert_eq!(matches!(result, Ok(Ok(()))), trusted, "{name}");
    }
}

#[test]
fn clients_are_asked_for_certificates() {
    let (authority, other) = (Authority::new(), Authority::new());
    // The client's certificate is signed by an authority that the server does not know.
    for end in ["crt", "key"] {
        let name = format!("client.{end}");
        std::fs::copy(
            other.file(&name),
            authority.file(&format!("stranger.{end}")),
        )
        .unwrap();
    }
    for (mode, with, without, stranger) in [
        ("yes", true, false, false),
        ("optional", true, true, false),
        ("no", true, true, true),
    ] {
        let server = authority
            .builder()
            .option("tls-auth-clients", mode)
            .spawn()
            .unwrap();
        for (certificate, expected) in [
            (Some("client"), with),
            (None, without),
            (Some("stranger"), stranger),
        ] {
            for versions in [&[&TLS12], &[&TLS13]] {
                let config = Arc::new(authority.client_of(certificate, versions));
                let result = TlsWire::connect(server.tls_port(), &config).try_ping();
                assert_eq!(
                    result.is_ok(),
                    expected,
                    "{mode} {certificate:?}: {result:?}"
                );
            }
        }
    }
}

#[test]
fn protocols_and_ciphers_are_limited() {
    let authority = Authority::new();
    let server = authority
        .builder()
        .option("tls-protocols", "TLSv1.3")
        .spawn()
        .unwrap();
    let mut plain = Wire::open(&server);
    let result = |version: &'static rustls::SupportedProtocolVersion| {
        let config = Arc::new(authority.client_of(None, &[version]));
        let mut c = TlsWire::connect(server.tls_port(), &config);
        let result = c.try_ping();
        result.map(|()| c.stream.conn.negotiated_cipher_suite().unwrap().suite())
    };
    assert!(result(&TLS12).is_err());
    assert!(result(&TLS13).is_ok());
    plain.expect(&["CONFIG SET tls-protocols TLSv1.2"], "+OK|");
    assert!(result(&TLS13).is_err());
    let chosen = |list: &str| {
        let mut plain = Wire::open(&server);
        plain.ask(&["CONFIG", "SET", "tls-ciphers", list]);
        format!("{:?}", result(&TLS12))
    };
    assert!(chosen("ECDHE-ECDSA-CHACHA20-POLY1305").contains("CHACHA20"));
    assert!(chosen("ECDHE+AES128").contains("ECDSA_WITH_AES_128_GCM"));
    assert!(chosen("aRSA").starts_with("Err"));
    plain.ask(&["CONFIG", "SET", "tls-protocols", ""]);
    plain.expect(
        &["CONFIG SET tls-ciphersuites TLS_CHACHA20_POLY1305_SHA256"],
        "+OK|",
    );
    assert!(format!("{:?}", result(&TLS13)).contains("CHACHA20"));
}

#[test]
fn refusals_are_those_of_redis() {
    let authority = Authority::new();
    let redis_options = authority.options();
    let mut options: Vec<&str> = redis_options.iter().map(String::as_str).collect();
    options.extend(["--tls-replication", "yes"]);
    let redis = Redis::start(&options);
    let server = authority
        .builder()
        .option("tls-auth-clients", "yes")
        .option("tls-replication", "yes")
        .spawn()
        .unwrap();
    let (mut ours, mut theirs) = (Wire::open(&server), Wire::to(redis.port));
    let (key, certificate) = (authority.path("client.key"), authority.path("client.crt"));
    for words in [
        &["tls-cert-file", "/nonexistent"][..],
        &["tls-cert-file", &key],
        &["tls-key-file", "/nonexistent"],
        &["tls-key-file", &key],
        &["tls-key-file", &key, "tls-cert-file", &certificate],
        &["tls-ca-cert-file", "/nonexistent"],
        &["tls-ca-cert-file", ""],
        &["tls-protocols", "TLSv9"],
        &["tls-protocols", "TLSv1.2 TLSv1.3"],
        &["tls-ciphers", "NONSENSE"],
        &["tls-ciphers", "HIGH:!aNULL"],
        &["tls-ciphersuites", "NONSENSE"],
        &[
            "tls-ciphersuites",
            "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384",
        ],
        &["tls-auth-clients", "maybe"],
        &["tls-session-cache-size", "-1"],
        &["tls-session-cache-size", "100"],
        &["tls-replication", "perhaps"],
    ] {
        let command = [&["CONFIG", "SET"], words].concat();
        assert_eq!(ours.ask(&command), theirs.ask(&command), "{words:?}");
    }
    let mut names: Vec<_> = [&mut ours, &mut theirs]
        .into_iter()
        .map(|c| {
            let all = c.ask(&["CONFIG", "GET", "tls-*"]);
            let mut pairs: Vec<_> = all
                .as_slice()
                .unwrap()
                .chunks(2)
                .filter(|pair| pair[0].as_bytes() != Some(b"tls-port"))
                .map(|pair| format!("{pair:?}"))
                .collect();
            pairs.sort();
            pairs
        })
        .collect();
    assert_eq!(names.pop(), names.pop());
}

#[test]
fn a_server_with_missing_tls_settings_does_not_start() {
    let authority = Authority::new();
    let refused = |builder: punctual_server::Builder| match builder.spawn() {
        Ok(_) => panic!("the server has started"),
        Err(error) => error.to_string(),
    };
    let error = refused(Server::builder().port(0).tls_port(0));
    assert!(error.contains("No tls-cert-file configured!"), "{error}");
    let error = refused(
        authority
            .builder()
            .option("tls-ca-cert-file", "")
            .option("tls-auth-clients", "yes"),
    );
    assert!(
        error.contains("Either tls-ca-cert-file or tls-ca-cert-dir must be"),
        "{error}"
    );
    std::fs::write(
        authority.file("locked.key"),
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n",
    )
    .unwrap();
    let error = refused(
        authority
            .builder()
            .option("tls-key-file", &authority.path("locked.key"))
            .option("tls-key-file-pass", "secret"),
    );
    assert!(
        error.contains("encrypted keys are not supported"),
        "{error}"
    );
}

#[test]
fn certificates_change_while_clients_are_connected() {
    let authority = Authority::new();
    let server = authority.builder().threads(2).spawn().unwrap();
    let config = Arc::new(authority.client(None));
    let connect = || {
        let mut c = TlsWire::connect(server.tls_port(), &config);
        c.text("PING");
        c
    };
    let (mut old, mut plain) = (connect(), Wire::open(&server));
    // The certificate is renewed under the same name. Only CONFIG SET reads the files again.
    authority.issue("next");
    for end in ["crt", "key"] {
        let (from, to) = (format!("next.{end}"), format!("server.{end}"));
        std::fs::copy(authority.file(&to), authority.file(&format!("first.{end}"))).unwrap();
        std::fs::copy(authority.file(&from), authority.file(&to)).unwrap();
    }
    let shown = |c: &TlsWire, name: &str| {
        is_first(&authority.file(name), c.stream.conn.peer_certificates())
    };
    assert!(shown(&connect(), "first.crt"));
    let file = authority.path("server.crt");
    plain.expect(&[&format!("CONFIG SET tls-cert-file {file}")], "+OK|");
    assert!(shown(&connect(), "next.crt"));
    // An invalid file changes nothing.
    let first = authority.path("first.crt");
    plain.expect_error(
        &format!("CONFIG SET tls-cert-file {first}"),
        &refusal("tls-cert-file", NOT_UPDATED),
    );
    assert_eq!(
        plain
            .ask(&["CONFIG", "GET", "tls-cert-file"])
            .as_slice()
            .unwrap()[1]
            .as_bytes(),
        Some(file.as_bytes())
    );
    assert!(shown(&connect(), "next.crt"));
    old.text("PING");
    assert!(shown(&old, "first.crt"));
}

#[test]
fn ports_open_and_close() {
    let authority = Authority::new();
    let server = authority
        .builder()
        .port(free_port())
        .tls_port(free_port())
        .spawn()
        .unwrap();
    let config = Arc::new(authority.client(None));
    let (port, mut plain) = (server.tls_port(), Wire::open(&server));
    plain.text("PING");
    let mut c = TlsWire::connect(port, &config);
    c.text("PING");
    let own = server.port();
    plain.expect_error(
        &format!("CONFIG SET tls-port {own}"),
        &refusal(
            "tls-port",
            "Unable to listen on this port. Check server logs.",
        ),
    );
    // As with redis-server, clients of a closed port stay connected.
    plain.expect(&["CONFIG SET port 0"], "+OK|");
    crate::wire::eventually(|| std::net::TcpStream::connect(("127.0.0.1", own)).is_err());
    let tcp_port = |c: &mut TlsWire| {
        let info = c.text("INFO server");
        info.lines()
            .find_map(|line| line.strip_prefix("tcp_port:").map(str::to_owned))
            .unwrap()
    };
    assert_eq!(tcp_port(&mut c), port.to_string());
    TlsWire::connect(port, &config).text("PING");
    c.text("CONFIG SET tls-port 0");
    crate::wire::eventually(|| std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
    c.text("PING");
    plain.text("PING");
}

#[test]
fn sessions_resume() {
    let authority = Authority::new();
    let server = authority.builder().threads(2).spawn().unwrap();
    let mut plain = Wire::open(&server);
    for versions in [&[&TLS12], &[&TLS13]] {
        for caching in ["yes", "no"] {
            plain.ask(&["CONFIG", "SET", "tls-session-caching", caching]);
            // Each configuration has its own cache of sessions.
            let config = Arc::new(authority.client_of(None, versions));
            let kind = || {
                let mut c = TlsWire::connect(server.tls_port(), &config);
                c.text("PING");
                c.stream.conn.handshake_kind()
            };
            assert_eq!(kind(), Some(HandshakeKind::Full));
            let next = match caching {
                "yes" => HandshakeKind::Resumed,
                _ => HandshakeKind::Full,
            };
            assert_eq!(kind(), Some(next), "{versions:?} {caching}");
            assert_eq!(kind(), Some(next), "{versions:?} {caching}");
        }
    }
}

#[test]
fn directives_are_rewritten() {
    let authority = Authority::new();
    let file = authority.file("redis.conf");
    std::fs::write(
        &file,
        format!("tls-cert-file {}\n", authority.path("server.crt")),
    )
    .unwrap();
    let mut config =
        punctual_server::config::Config::from_args([file.to_str().unwrap(), "--tls-port", "7000"])
            .unwrap();
    config.option("tls-auth-clients", "optional").unwrap();
    config.rewrite().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("tls-cert-file"), "{text}");
    assert!(
        text.contains("\ntls-port 7000\n") && text.contains("\ntls-auth-clients optional\n"),
        "{text}"
    );
}

#[test]
fn info_shows_when_certificates_expire() {
    let authority = Authority::new();
    let server = authority.builder().spawn().unwrap();
    let mut c = Wire::open(&server);
    let days = |c: &mut Wire, name: &str| {
        let left = c.info("tls", &format!("tls_{name}_cert_expires_in_seconds"));
        left.parse::<i64>().unwrap() / 86_400
    };
    // Certificates of the test end in the year 4096.
    assert!(days(&mut c, "server") > 365 * 1000 && days(&mut c, "ca") > 365 * 1000);
    assert_eq!(c.info("tls", "tls_ca_cert_count"), "1");
    assert_eq!(c.info("tls", "tls_client_cert_serial"), "none");
    assert_eq!(days(&mut c, "client"), 0);
    let before = c.info("tls", "tls_server_cert_serial");
    assert!(
        before.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{before}"
    );
    // CONFIG SET reads the file again.
    authority.issue("server");
    c.run(&format!(
        "CONFIG SET tls-cert-file {} tls-key-file {}",
        authority.path("server.crt"),
        authority.path("server.key")
    ));
    assert_ne!(c.info("tls", "tls_server_cert_serial"), before);
    let plain = Server::builder().port(0).spawn().unwrap();
    assert_eq!(
        Wire::open(&plain).info("tls", "tls_server_cert_serial"),
        "none"
    );
}
