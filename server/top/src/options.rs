//! The command line of `punctual top`, with the letters of redis-cli.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Parser};

const EXAMPLES: &str = "\
Keys: 1 to 6 or Tab choose a view, the arrows scroll, q quits.

Examples:
  punctual top                                    the server on 127.0.0.1:6379
  punctual top -h db.example -p 6380 --tls --cacert ca.pem --user watcher
  punctual top -s /run/punctual.sock --interval 0.5
  punctual top --once                             one page of text, for scripts

The password is better in the environment variable REDISCLI_AUTH than in an option, which other users of the machine can see. A user
needs +info +slowlog|get and the read commands of TIMER and JOB, and the keys of the queues; a pane whose command is refused says so.";

/// What to show, and of which server.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "punctual top",
    about = "Shows what a Redis-compatible server does now, and what is due next",
    after_help = EXAMPLES,
    disable_help_flag = true,
    disable_version_flag = true
)]
pub struct Options {
    /// Host name or address
    #[arg(short = 'h', long, default_value = "127.0.0.1")]
    pub host: String,
    /// TCP port
    #[arg(short = 'p', long, default_value_t = 6379)]
    pub port: u16,
    /// Unix socket, in place of a host and a port
    #[arg(short = 's', long, value_name = "PATH", conflicts_with = "tls")]
    pub socket: Option<PathBuf>,
    /// User name
    #[arg(long, default_value = "default")]
    pub user: String,
    /// Password; by default that of the environment variable REDISCLI_AUTH
    #[arg(short = 'a', long = "pass", alias = "password")]
    pub password: Option<String>,
    /// Database whose timers and queues are shown
    #[arg(short = 'n', long = "db", default_value_t = 0)]
    pub database: u32,
    /// Use TLS
    #[arg(long)]
    pub tls: bool,
    /// File with certificates to trust, in place of the system's
    #[arg(long, value_name = "FILE", requires = "tls")]
    pub cacert: Option<PathBuf>,
    /// Certificate of this client
    #[arg(long, value_name = "FILE", requires_all = ["tls", "key"])]
    pub cert: Option<PathBuf>,
    /// Private key of this client's certificate
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Name that the server's certificate must have; by default the host
    #[arg(long, value_name = "NAME", requires = "tls")]
    pub sni: Option<String>,
    /// Accept any certificate of the server
    #[arg(long, requires = "tls")]
    pub insecure: bool,
    /// Seconds between two looks at the server, from 0.1 to 3600
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub interval: Duration,
    /// Print one page of text and exit
    #[arg(long)]
    pub once: bool,
    /// Print this help
    #[arg(long, action = ArgAction::Help)]
    pub help: Option<bool>,
}

impl Options {
    /// Reads an option list without a program's name.
    ///
    /// # Errors
    /// The text for the user; also for `--help`.
    pub fn read<I: Into<OsString>>(
        words: impl IntoIterator<Item = I>,
    ) -> Result<Self, clap::Error> {
        let words = words.into_iter().map(Into::into);
        Self::try_parse_from(std::iter::once(OsString::from("punctual top")).chain(words))
    }

    /// Returns the server as people write it.
    pub fn address(&self) -> String {
        match &self.socket {
            Some(path) => path.display().to_string(),
            None if self.host.contains(':') => format!("[{}]:{}", self.host, self.port),
            None => format!("{}:{}", self.host, self.port),
        }
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if !(0.1..=3600.0).contains(&seconds) {
        return Err("from 0.1 to 3600 seconds".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_of_redis_cli() {
        let parse = |line: &str| Options::read(line.split(' ').skip(1));
        let all = "top -h db -p 7 --user u -a x -n 3 --tls --cacert c --cert d --key e --sni f --insecure --interval 0.5";
        let options = parse(all).unwrap();
        assert_eq!(
            (options.address(), options.database),
            ("db:7".to_owned(), 3)
        );
        assert_eq!(options.interval, Duration::from_millis(500));
        assert_eq!(parse("top -h ::1").unwrap().address(), "[::1]:6379");
        assert_eq!(parse("top -s /a/b").unwrap().address(), "/a/b");
        for line in [
            "top --interval 0",
            "top --interval NaN",
            "top --interval 1e9",
            "top --cert a",
            "top -s a --tls",
            "top x",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
