//! Authentication, maxclients, protected mode and sockets.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;

use crate::wire::{Open as _, Wire, configured, eventually, server_with, start};
use punctual_server::config::Config;
use punctual_server::{REDIS_VERSION, Server};

const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.|";
const FIRST: &str = "-NOAUTH Authentication required.|";
const HELLO_FIRST: &str = "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time|";

fn hello(proto: u8, id: i64) -> String {
    let head = if proto == 3 { "%7" } else { "*14" };
    format!(
        "{head}|$6|server|$5|redis|$7|version|${}|{REDIS_VERSION}|$5|proto|:{proto}|$2|id|:{id}|$4|mode|$10|standalone|$4|role|$6|master|$7|modules|*0|",
        REDIS_VERSION.len()
    )
}

#[test]
fn the_version_that_clients_see_is_configured() {
    let mut config = Config::new().unwrap();
    config.option("reported-version", "8.4").unwrap();
    let server = Server::builder().config(config).port(0).spawn().unwrap();
    let mut c = Wire::open(&server);
    assert!(c.text("INFO server").contains("redis_version:8.4.0\r\n"));
    c.expect(
        &["CONFIG GET reported-version"],
        "*2|$16|reported-version|$3|8.4|",
    );
    let version = [
        "EVAL",
        "return {redis.REDIS_VERSION, redis.REDIS_VERSION_NUM}",
        "0",
    ];
    assert_eq!(
        format!("{:?}", c.ask(&version)),
        format!("{:?}", c.ask(&["EVAL", "return {'8.4.0', 0x080400}", "0"])),
    );
    let hello = c.ask(&["HELLO"]);
    assert_eq!(hello.as_slice().unwrap()[3].as_bytes(), Some(&b"8.4.0"[..]));
}

#[test]
fn without_a_password() {
    let server = start();
    let mut c = Wire::open(&server);
    c.expect(
        &["AUTH"],
        "-ERR wrong number of arguments for 'auth' command|",
    );
    c.expect(&["AUTH a b c"], "-ERR syntax error|");
    c.expect(
        &["AUTH foo"],
        "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?|",
    );
    c.expect(
        &["AUTH default foo", "AUTH bar foo"],
        &format!("+OK|{WRONG}"),
    );
}

#[test]
fn hello_and_its_options() {
    let server = start();
    let mut c = Wire::open(&server);
    let id = c.int("CLIENT ID");
    c.expect(&["HELLO"], &hello(2, id));
    c.expect(&["HELLO 3"], &hello(3, id));
    c.expect(&["HELLO", "GET nothing"], &format!("{}_|", hello(3, id)));
    c.expect(
        &["HELLO 2", "GET nothing"],
        &format!("{}$-1|", hello(2, id)),
    );
    for wrong in ["1", "4", "-3", "9223372036854775807"] {
        c.expect(
            &[&format!("HELLO {wrong}")],
            "-NOPROTO unsupported protocol version|",
        );
    }
    c.expect(
        &["HELLO abc"],
        "-ERR Protocol version is not an integer or out of range|",
    );
    for option in ["FOO", "AUTH a", "SETNAME"] {
        let word = option.split(' ').next().unwrap();
        c.expect(
            &[&format!("HELLO 3 {option}")],
            &format!("-ERR Syntax error in HELLO option '{word}'|"),
        );
    }
    c.expect(
        &["HELLO 3 SETNAME \"a b\""],
        "-ERR Client names cannot contain spaces, newlines or special characters.|",
    );
    c.expect(&["HELLO 3 AUTH a b"], WRONG);
    c.expect(
        &[
            "GET nothing",
            "HELLO 3 AUTH default b SETNAME me",
            "CLIENT GETNAME",
        ],
        &format!("$-1|{}$2|me|", hello(3, id)),
    );
}

#[test]
fn commands_before_authentication_are_refused() {
    let server = server_with("requirepass sec");
    let mut c = Wire::open(&server);
    c.expect(&["PING", "SUBSCRIBE a", "CLIENT ID"], &FIRST.repeat(3));
    // The command name and the arity are checked first.
    c.expect(
        &["ECHO", "FOO"],
        "-ERR wrong number of arguments for 'echo' command|-ERR unknown command 'FOO', with args beginning with: |",
    );
    c.expect(&["HELLO", "HELLO 3"], &HELLO_FIRST.repeat(2));
    c.expect(
        &[
            "HELLO 3 AUTH default x",
            "AUTH x",
            "AUTH se",
            "AUTH secx",
            "AUTH other sec",
        ],
        &WRONG.repeat(5),
    );
    c.expect(
        &[
            "AUTH sec",
            "PING",
            "RESET",
            "PING",
            "AUTH default sec",
            "PING",
        ],
        &format!("+OK|+PONG|+RESET|{FIRST}+OK|+PONG|"),
    );
    c.expect(&["AUTH x", "PING"], &format!("{WRONG}+PONG|"));
    let id = c.int("CLIENT ID");
    c.expect(
        &["RESET", "HELLO 3 AUTH default sec", "PING"],
        &format!("+RESET|{}+PONG|", hello(3, id)),
    );
    let mut quitter = Wire::open(&server);
    quitter.expect(&["QUIT", "PING"], "+OK|");
    assert_eq!(quitter.ends(), 0);
}

#[test]
fn a_password_is_set_and_removed_at_runtime() {
    let server = start();
    let mut old = Wire::open(&server);
    old.expect(&["CONFIG SET requirepass sec", "PING"], "+OK|+PONG|");
    let mut new = Wire::open(&server);
    new.expect(&["PING"], FIRST);
    old.expect(&["CONFIG SET requirepass \"\""], "+OK|");
    new.expect(&["PING"], "+PONG|");
}

#[test]
fn unauthenticated_clients_have_lower_limits() {
    let server = server_with("requirepass sec");
    for (bytes, error) in [
        ("*11\r\n", "unauthenticated multibulk length"),
        (
            "*2\r\n$4\r\nECHO\r\n$16385\r\n",
            "unauthenticated bulk length",
        ),
        ("*1\r\nfoo\r\n", "expected '$', got 'f'"),
    ] {
        let mut c = Wire::open(&server);
        c.stream.write_all(bytes.as_bytes()).unwrap();
        c.receive(&format!("-ERR Protocol error: {error}|"));
        assert_eq!(c.ends(), 0);
    }
    let mut c = Wire::open(&server);
    c.expect(&["AUTH sec"], "+OK|");
    let big = "x".repeat(1 << 20);
    assert_eq!(c.ask(&["ECHO", &big]).as_bytes().unwrap().len(), 1 << 20);
}

#[test]
fn clients_beyond_maxclients_are_refused() {
    let server = server_with("maxclients 2");
    let mut one = Wire::open(&server);
    let mut two = Wire::open(&server);
    one.expect(&["PING"], "+PONG|");
    two.expect(&["PING"], "+PONG|");
    let mut three = Wire::open(&server);
    three.receive("-ERR max number of clients reached|");
    assert_eq!(three.ends(), 0);
    drop(two);
    eventually(|| {
        let mut again = Wire::open(&server);
        again.send(&["PING"]);
        again.value().as_bytes() == Some(b"PONG")
    });
    one.expect(&["PING"], "+PONG|");
}

/// Returns a non-loopback address of this machine, if there is one. Sends no packet.
fn own_address() -> Option<std::net::IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_loopback() && !ip.is_unspecified()).then_some(ip)
}

#[test]
fn protected_mode_accepts_only_loopback() {
    let Some(ip) = own_address() else {
        eprintln!("NOT RUN: this machine has only loopback addresses");
        return;
    };
    let server = server_with("bind 0.0.0.0");
    let ask = || {
        let mut stream = TcpStream::connect((ip, server.port())).unwrap();
        let mut text = [0; 7];
        // The server may reset a refused connection before the command is sent.
        let _ = stream.write_all(b"PING\r\n");
        stream
            .read_exact(&mut text)
            .map(|()| String::from_utf8_lossy(&text).into_owned())
    };
    assert_eq!(ask().unwrap(), "-DENIED");
    let mut local = Wire::open(&server);
    local.expect(&["PING", "CONFIG SET protected-mode no"], "+PONG|+OK|");
    eventually(|| ask().is_ok_and(|text| text == "+PONG\r\n"));
    local.expect(&["CONFIG SET protected-mode yes requirepass sec"], "+OK|");
    eventually(|| ask().is_ok_and(|text| text == "-NOAUTH"));
}

#[test]
fn a_unix_socket() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("punctual.sock");
    let server = configured("unixsocketperm 700")
        .option("unixsocket", path.to_str().unwrap())
        .spawn()
        .unwrap();
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"CLIENT INFO\r\nQUIT\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let name = format!("{}:0", path.display());
    assert!(
        text.contains(&format!(" addr={name} laddr={name} ")),
        "{text}"
    );
    assert!(text.contains(" flags=U "), "{text}");
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o700
    );
    drop(server);
    assert!(!path.exists());
}

/// Reads each socket's timer from the kernel: 2 is the keep-alive timer.
#[cfg(target_os = "linux")]
#[test]
fn tcp_keepalive_is_applied() {
    let timer = |seconds: &str| {
        let server = Server::builder()
            .port(0)
            .option("tcp-keepalive", seconds)
            .spawn()
            .unwrap();
        let mut c = Wire::open(&server);
        c.expect(&["PING"], "+PONG|");
        let ends = (
            format!(":{:04X}", server.port()),
            format!(":{:04X}", c.port()),
        );
        let kind = || {
            let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
            let row = table.lines().find(|l| {
                let columns: Vec<&str> = l.split_whitespace().collect();
                columns[1].ends_with(&ends.0) && columns[2].ends_with(&ends.1)
            });
            row.unwrap().split_whitespace().nth(5).unwrap()[..2].to_owned()
        };
        // After a write, the retransmission timer may run until the peer has acknowledged.
        eventually(|| kind() != "01");
        kind()
    };
    assert_eq!(timer("300"), "02");
    assert_eq!(timer("0"), "00");
}
