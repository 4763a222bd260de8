//! The command line of `punctual top`. The options for the connection have redis-cli's names, and
//! some also have a longer name.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use lexopt::{Arg, Error, Parser};

/// Text of `--help`.
pub(crate) const HELP: &str = include_str!("help.txt");

/// The options of `punctual top`.
#[derive(Clone, Debug)]
pub struct Options {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Path of a Unix socket, which is used instead of a host and a port.
    pub socket: Option<PathBuf>,
    /// User name.
    pub user: String,
    /// Password, or `None` to read the environment variable `REDISCLI_AUTH`.
    pub password: Option<String>,
    /// Database whose timers and queues are shown.
    pub database: u32,
    /// Whether to use TLS.
    pub tls: bool,
    /// File with certificates to trust instead of the system's certificates.
    pub cacert: Option<PathBuf>,
    /// File with the certificate of this client.
    pub cert: Option<PathBuf>,
    /// File with the private key of this client's certificate.
    pub key: Option<PathBuf>,
    /// Name that the server's certificate must have; by default the host.
    pub sni: Option<String>,
    /// Whether to accept any certificate of the server.
    pub insecure: bool,
    /// Time between two refreshes.
    pub interval: Duration,
    /// Whether to print the page once as text and exit.
    pub once: bool,
    /// Whether to print the help and exit.
    pub help: bool,
}

impl Options {
    /// Reads arguments, without the program's name. If an option occurs twice, the last one counts.
    /// Arguments after `--help` are ignored.
    ///
    /// # Errors
    /// A text for the user, which names the option.
    pub fn read<I: Into<OsString>>(words: impl IntoIterator<Item = I>) -> Result<Self, Error> {
        let mut words = Parser::from_args(words.into_iter().map(Into::into));
        let mut options = Self {
            host: "127.0.0.1".to_owned(),
            port: 6379,
            socket: None,
            user: "default".to_owned(),
            password: None,
            database: 0,
            tls: false,
            cacert: None,
            cert: None,
            key: None,
            sni: None,
            insecure: false,
            interval: Duration::from_secs(1),
            once: false,
            help: false,
        };
        while let Some(word) = words.next()? {
            let name = match word {
                Arg::Short(letter) => format!("-{letter}"),
                Arg::Long(name) => format!("--{name}"),
                Arg::Value(_) => return Err(word.unexpected()),
            };
            let mut given = Given(&name, &mut words);
            match name.as_str() {
                "-h" | "--host" => options.host = given.text("UTF-8")?,
                "-p" | "--port" => options.port = given.text("a number from 0 to 65535")?,
                "-s" | "--socket" => options.socket = Some(given.path()?),
                "--user" => options.user = given.text("UTF-8")?,
                "-a" | "--pass" | "--password" => options.password = Some(given.text("UTF-8")?),
                "-n" | "--db" => options.database = given.text("the number of a database")?,
                "--tls" => options.tls = true,
                "--cacert" => options.cacert = Some(given.path()?),
                "--cert" => options.cert = Some(given.path()?),
                "--key" => options.key = Some(given.path()?),
                "--sni" => options.sni = Some(given.text("UTF-8")?),
                "--insecure" => options.insecure = true,
                "--interval" => {
                    let seconds = given.text("a number of seconds")?;
                    options.interval = Duration::try_from_secs_f64(seconds).unwrap_or_default();
                }
                "--once" => options.once = true,
                "--help" => {
                    options.help = true;
                    return Ok(options);
                }
                _ => return Err(Error::UnexpectedOption(name)),
            }
        }
        if !(Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&options.interval) {
            return Err("option '--interval' takes 0.1 to 3600 seconds".into());
        }
        options.check_combinations().map(|()| options)
    }

    /// Returns an error if an option lacks another option that it needs, or if both `--socket` and
    /// `--tls` are given.
    fn check_combinations(&self) -> Result<(), Error> {
        let (cert, key) = (self.cert.is_some(), self.key.is_some());
        for (name, given, needed, needed_given) in [
            ("--cacert", self.cacert.is_some(), "--tls", self.tls),
            ("--cert", cert, "--tls", self.tls),
            ("--cert", cert, "--key", key),
            ("--key", key, "--cert", cert),
            ("--sni", self.sni.is_some(), "--tls", self.tls),
            ("--insecure", self.insecure, "--tls", self.tls),
        ] {
            if given && !needed_given {
                return Err(format!("option '{name}' needs '{needed}'").into());
            }
        }
        match self.tls && self.socket.is_some() {
            true => Err("options '--socket' and '--tls' exclude each other".into()),
            false => Ok(()),
        }
    }

    /// Returns the server's address for messages: `HOST:PORT`, or the path of a Unix socket.
    pub fn address(&self) -> String {
        match &self.socket {
            Some(path) => path.display().to_string(),
            None if self.host.contains(':') => format!("[{}]:{}", self.host, self.port),
            None => format!("{}:{}", self.host, self.port),
        }
    }
}

/// An option's name, and the parser that reads its value.
struct Given<'a>(&'a str, &'a mut Parser);

impl Given<'_> {
    fn path(&mut self) -> Result<PathBuf, Error> {
        Ok(self.1.value()?.into())
    }

    /// Parses the option's value. The error says that the value is not `wanted`; it does not
    /// contain the value, which may be a password.
    fn text<T: FromStr>(&mut self, wanted: &str) -> Result<T, Error> {
        let word = self.1.value()?;
        let value = word.to_str().and_then(|text| text.parse().ok());
        value.ok_or_else(|| format!("the value of option '{}' is not {wanted}", self.0).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_the_names_of_redis_cli() {
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
        let same = "top --host=db -p7 --password=x --socket /a --db 4294967295 --once";
        let options = parse(same).unwrap();
        assert_eq!((options.host.as_str(), options.port), ("db", 7));
        assert_eq!(options.password.as_deref(), Some("x"));
        assert_eq!((options.database, options.once), (u32::MAX, true));
        assert!(parse("top --once --help --nonsense").unwrap().help);
        for word in HELP.split_whitespace().filter(|word| word.starts_with('-')) {
            let word = word.trim_matches([',', ';']);
            let error = parse(&format!("top {word}")).err().map(|e| e.to_string());
            assert!(
                !error.unwrap_or_default().contains("invalid option"),
                "{word}"
            );
        }
    }

    #[test]
    fn an_error_names_the_option() {
        for (line, error) in [
            (
                "--interval 0",
                "option '--interval' takes 0.1 to 3600 seconds",
            ),
            (
                "--interval NaN",
                "option '--interval' takes 0.1 to 3600 seconds",
            ),
            (
                "--interval=1e9",
                "option '--interval' takes 0.1 to 3600 seconds",
            ),
            (
                "--interval x",
                "the value of option '--interval' is not a number of seconds",
            ),
            (
                "-p 65536",
                "the value of option '-p' is not a number from 0 to 65535",
            ),
            (
                "--db -1",
                "the value of option '--db' is not the number of a database",
            ),
            ("--port", "missing argument for option '--port'"),
            ("-h", "missing argument for option '-h'"),
            ("--cacert a", "option '--cacert' needs '--tls'"),
            ("--cert a --key b", "option '--cert' needs '--tls'"),
            ("--sni a", "option '--sni' needs '--tls'"),
            ("--insecure", "option '--insecure' needs '--tls'"),
            ("--tls --cert a", "option '--cert' needs '--key'"),
            ("--tls --key a", "option '--key' needs '--cert'"),
            (
                "-s a --tls",
                "options '--socket' and '--tls' exclude each other",
            ),
            (
                "--tls=yes",
                "unexpected argument for option '--tls': \"yes\"",
            ),
            ("--colour", "invalid option '--colour'"),
            ("-x", "invalid option '-x'"),
            ("x", "unexpected argument \"x\""),
        ] {
            assert_eq!(
                Options::read(line.split(' ')).unwrap_err().to_string(),
                error
            );
        }
    }
}
