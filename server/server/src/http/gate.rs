//! Rules about the access to the HTTP port.
//!
//! - The page itself holds no data, so anybody may load it.
//! - The metrics have no names of keys, so all clients that reach the port may read them. Only a
//!   browser on this machine must not read them for a web page of another site.
//! - The data of the page has names of keys. A request for it needs the password if it comes from
//!   another machine, or if Redis clients of this server need a password.
//! - An action needs the password. A browser may send it only from a page of this server.
//!
//! A foreign site may let its own name point to this server's address (DNS rebinding). For a
//! browser, the site's page and this server then have the same origin. Requests of that page have
//! the site's name in the header Host and no password, so they are refused.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hyper::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN};
use tokio::sync::Mutex;

use crate::config::Settings;
use crate::net::listener::is_loopback;
use crate::node::Shared;

/// Minimum time between the answers to two wrong passwords.
const WRONG_PASSWORD_DELAY: Duration = Duration::from_millis(250);

/// Properties of a request that decide about its access.
pub(super) struct Visitor {
    /// Whether the header Host has a name that no other site can have.
    host_is_safe: bool,
    /// Whether the request comes from this machine.
    local: bool,
    /// Whether the request has the right password; `None` if the request has no password.
    pub(super) password: Option<bool>,
    /// Whether a page of this server has sent the request, or a program that is no browser.
    same_origin: bool,
}

/// Reason why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error(
        "The host of this request is a name that the server does not know. Use its address, localhost, or the password."
    )]
    Host,
    #[error("Wrong password.")]
    WrongPassword,
    #[error("This needs the password of the directive metrics-password.")]
    NoPassword,
    #[error("The server was started without metrics-password, so the page cannot change anything.")]
    ReadOnly,
    #[error(
        "Clients of this server need a password. Set metrics-password to see its timers and queues here."
    )]
    Closed,
    #[error("Other machines need a password for this data. Set metrics-password to see it here.")]
    Remote,
    #[error("The request comes from a page of another site.")]
    Origin,
}

impl Visitor {
    pub(super) fn of(headers: &HeaderMap, peer: SocketAddr, settings: &Settings) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let host = text(HOST).unwrap_or_default();
        let given = text(AUTHORIZATION).and_then(|value| {
            let (scheme, password) = value.split_once(' ')?;
            scheme
                .eq_ignore_ascii_case("bearer")
                .then(|| password.trim())
        });
        let right = settings.metrics.password.as_deref();
        let names = settings.metrics.bind.iter().map(|bind| bind.host.as_str());
        Self {
            host_is_safe: host_is_safe(host, names),
            local: is_loopback(peer.ip()),
            password: given.map(|given| {
                right.is_some_and(|right| {
                    // `|`, not `||`: both comparisons always run, so the time does not depend on
                    // the result of the first.
                    same_bytes(given.as_bytes(), right) | same_bytes(&decoded(given), right)
                })
            }),
            same_origin: is_same_origin(headers, host),
        }
    }

    /// Checks whether the visitor may read the metrics. A scraper on another machine may know the
    /// server by any name.
    pub(super) fn may_scrape(&self) -> Result<(), Refusal> {
        match self.password {
            _ if self.host_is_safe || !self.local => Ok(()),
            Some(true) => Ok(()),
            Some(false) => Err(Refusal::WrongPassword),
            None => Err(Refusal::Host),
        }
    }

    /// Checks whether the visitor may see the data of the page.
    pub(super) fn may_look(&self, shared: &Shared) -> Result<(), Refusal> {
        match self.password {
            Some(true) => return Ok(()),
            Some(false) => return Err(Refusal::WrongPassword),
            None => {}
        }
        if !self.host_is_safe {
            return Err(Refusal::Host);
        }
        if self.local && shared.clients.users.default_user().is_open() {
            return Ok(());
        }
        match shared.settings().metrics.password {
            Some(_) => Err(Refusal::NoPassword),
            None if self.local => Err(Refusal::Closed),
            None => Err(Refusal::Remote),
        }
    }

    /// Checks whether the visitor may change something.
    pub(super) fn may_act(&self, shared: &Shared) -> Result<(), Refusal> {
        if !self.same_origin {
            return Err(Refusal::Origin);
        }
        match (self.password, &shared.settings().metrics.password) {
            (_, None) => Err(Refusal::ReadOnly),
            (Some(true), _) => Ok(()),
            (Some(false), _) => Err(Refusal::WrongPassword),
            (None, _) => Err(Refusal::NoPassword),
        }
    }
}

/// Delays the answers to wrong passwords, one after the other, so that all connections together get
/// only a few guesses a second.
#[derive(Default)]
pub(super) struct Brake(Mutex<()>);

impl Brake {
    pub(super) async fn wait(&self) {
        let _turn = self.0.lock().await;
        tokio::time::sleep(WRONG_PASSWORD_DELAY).await;
    }
}

/// Returns true if no other site can have this host name: an IP address, `localhost`, or a name in
/// `metrics-bind`.
fn host_is_safe<'a>(host: &str, mut names: impl Iterator<Item = &'a str>) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) if is_port(port) => address,
            _ => return false,
        },
        None => match host.split_once(':') {
            Some((name, _)) if is_port(&host[name.len()..]) => name,
            Some(_) => return false,
            None => host,
        },
    };
    name.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || !name.is_empty() && names.any(|known| name.eq_ignore_ascii_case(known))
}

/// Returns whether the text is empty or a colon and a port.
fn is_port(text: &str) -> bool {
    text.is_empty()
        || text
            .strip_prefix(':')
            .is_some_and(|port| port.parse::<u16>().is_ok())
}

/// Returns true if a page of this server has sent the request, or a program that is no browser.
/// Browsers send the origin with every POST, and other programs send no origin.
fn is_same_origin(headers: &HeaderMap, host: &str) -> bool {
    let text = |value: &hyper::header::HeaderValue| value.to_str().map(str::to_owned);
    let origin = headers.get(ORIGIN).map(text);
    let site = headers.get("sec-fetch-site").map(text);
    let same_host = |origin: &str| {
        let rest = origin
            .strip_prefix("http://")
            .or(origin.strip_prefix("https://"));
        rest.is_some_and(|rest| !host.is_empty() && rest.eq_ignore_ascii_case(host))
    };
    let origin_fits = match origin {
        None => true,
        Some(origin) => origin.is_ok_and(|origin| same_host(&origin)),
    };
    let site_fits = match site {
        None => true,
        Some(site) => site.is_ok_and(|site| site == "same-origin" || site == "none"),
    };
    origin_fits && site_fits
}

/// Decodes percent-encoding, which headers and queries use because they have only visible ASCII.
pub(super) fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digits = after
            .get(..2)
            .filter(|digits| *first == b'%' && digits.iter().all(u8::is_ascii_hexdigit));
        let byte = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = &after[if byte.is_some() { 2 } else { 0 }..];
    }
    bytes
}

/// Compares texts in a time that does not depend on the place of the first difference.
fn same_bytes(a: &[u8], b: &[u8]) -> bool {
    let difference = a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b));
    std::hint::black_box(difference) == 0 && a.len() == b.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_no_other_site_can_have() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:9121",
            "[::1]:9121",
            "[::1]",
            "10.1.2.3:80",
            "localhost",
            "LocalHost:9121",
            "metrics.internal:9121",
        ] {
            assert!(
                host_is_safe(host, ["metrics.internal"].into_iter()),
                "{host}"
            );
        }
        for host in [
            "",
            "evil.example",
            "evil.example:9121",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1:9121:1",
            "127.0.0.1:",
            "127.0.0.1:port",
            "[::1",
            "[::1]x",
            "::1",
            ":9121",
            "localhost@evil.example",
        ] {
            assert!(
                !host_is_safe(host, ["metrics.internal"].into_iter()),
                "{host}"
            );
        }
    }

    #[test]
    fn origins() {
        let same = |pairs: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, value.parse().unwrap());
            }
            is_same_origin(&headers, "127.0.0.1:9121")
        };
        assert!(same(&[]));
        assert!(same(&[("origin", "http://127.0.0.1:9121")]));
        assert!(same(&[
            ("origin", "https://127.0.0.1:9121"),
            ("sec-fetch-site", "same-origin")
        ]));
        assert!(!same(&[("origin", "http://127.0.0.1:9122")]));
        assert!(!same(&[("origin", "null")]));
        assert!(!same(&[("origin", "http://evil.example")]));
        assert!(!same(&[("sec-fetch-site", "cross-site")]));
        assert!(!same(&[
            ("origin", "http://127.0.0.1:9121"),
            ("sec-fetch-site", "same-site")
        ]));
    }

    #[test]
    fn passwords_of_any_bytes() {
        assert_eq!(decoded("abc"), b"abc");
        assert_eq!(decoded("%C3%A4%20%25"), "ä %".as_bytes());
        assert_eq!(decoded("100%"), b"100%");
        assert_eq!(decoded("%zz%+f%4"), b"%zz%+f%4");
        assert!(same_bytes(b"", b"") && same_bytes(b"secret", b"secret"));
        assert!(!same_bytes(b"secret", b"secre") && !same_bytes(b"secret", b"secreT"));
        assert!(!same_bytes(b"", b"x"));
    }
}
