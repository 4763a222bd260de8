//! An HTTP client that sends exact requests and reads complete responses.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use punctual_server::Server;

/// Timeout for a response, generous for a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A response of the HTTP port.
pub struct Response {
    pub status: u16,
    head: String,
    pub body: String,
}

impl Response {
    /// Returns a header. `name` is in lower case.
    pub fn header(&self, name: &str) -> &str {
        let found = self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key == name).then(|| value.trim())
        });
        found.unwrap_or_default()
    }
}

/// Connects to the metrics port of the server.
pub fn open(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.metrics_addr().unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends a request with these header lines, and returns the response. The request has a Host header
/// only if `lines` contain one.
#[track_caller]
pub fn exactly(server: &Server, request: &str, lines: &[&str], body: &str) -> Response {
    let mut stream = open(server);
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    let length = body.len();
    let text = format!(
        "{request} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n{lines}\r\n{body}"
    );
    // A server that refuses a large body may close the connection before all bytes are sent.
    let _ = stream.write_all(text.as_bytes());
    let mut bytes = Vec::new();
    let read = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("{request}: {read:?}, {text:?}"));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Response {
        status: status.unwrap_or_else(|| panic!("{head}")),
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

/// Sends a GET request as a program on this machine would.
#[track_caller]
pub fn get(server: &Server, path: &str, lines: &[&str]) -> Response {
    let host = format!("Host: {}", server.metrics_addr().unwrap());
    let lines = [&[&*host], lines].concat();
    exactly(server, &format!("GET {path}"), &lines, "")
}

/// Sends a command as the page does, with this password.
#[track_caller]
pub fn command(server: &Server, password: &str, words: &str) -> Response {
    let addr = server.metrics_addr().unwrap();
    let lines = [
        format!("Host: {addr}"),
        format!("Origin: http://{addr}"),
        "Sec-Fetch-Site: same-origin".to_owned(),
        format!("Authorization: Bearer {password}"),
        "Content-Type: application/json".to_owned(),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    exactly(server, "POST /api/command", &lines, words)
}
