//! INCRBYFLOAT's arithmetic against a redis-server on this machine; says so and passes where there is none.
//! Only on x86-64: elsewhere Redis counts in other formats.
#![cfg(target_arch = "x86_64")]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use punctual_resp::{Value, decode, encode_command};
use punctual_store::value::float::Float;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

const SUMS: usize = 4000;
/// Commands sent before their replies are read.
const BATCH: usize = 100;

/// A redis-server with a socket of its own; stopped when dropped.
struct Redis {
    process: Child,
    socket: PathBuf,
}

impl Redis {
    fn start() -> Option<Self> {
        let socket =
            std::env::temp_dir().join(format!("punctual-floats-{}.sock", std::process::id()));
        let process = Command::new("redis-server")
            .args([
                "--port",
                "0",
                "--save",
                "",
                "--appendonly",
                "no",
                "--unixsocket",
            ])
            .arg(&socket)
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        Some(Self { process, socket })
    }

    fn connect(&self) -> UnixStream {
        for _ in 0..500 {
            if let Ok(stream) = UnixStream::connect(&self.socket) {
                stream
                    .set_read_timeout(Some(Duration::from_secs(30)))
                    .unwrap();
                return stream;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("redis-server does not listen on {}", self.socket.display());
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// A text that is a number in most cases, near the corners of the format in many.
fn number(random: &mut impl Rng) -> String {
    let sign = ["", "-", "+"][random.random_range(0..3)];
    let exponents = [-40..40, -4960..-4900, 4900..4940, -20..20];
    let exponents = exponents[random.random_range(0..4)].clone();
    let exponent = random.random_range(exponents);
    match random.random_range(0..7) {
        0 => format!("{sign}{}", random.random::<i64>().unsigned_abs()),
        1 => format!(
            "{sign}{}.{}",
            random.random_range(0..1000),
            random.random_range(0..100_000_000)
        ),
        2 => format!("{sign}{}e{exponent}", random.random::<u64>()),
        3 => format!(
            "{sign}{}.{}e{exponent}",
            random.random::<u8>(),
            random.random::<u128>()
        ),
        4 => format!("{sign}0x{:x}p{}", random.random::<u128>(), exponent * 3),
        5 => format!(
            "{sign}0x1.{:x}p{}",
            random.random::<u64>(),
            random.random_range(-16_450..16_390)
        ),
        _ => {
            let letters = b"0123456789.eExXp+-infa ";
            (0..random.random_range(0..8))
                .map(|_| char::from(letters[random.random_range(0..letters.len())]))
                .collect()
        }
    }
}

fn ours(a: &str, b: &str) -> String {
    let (Some(a), Some(b)) = (Float::parse(a.as_bytes()), Float::parse(b.as_bytes())) else {
        return "ERR value is not a valid float".into();
    };
    let sum = a.plus(b);
    if !sum.is_finite() {
        return "ERR increment would produce NaN or Infinity".into();
    }
    String::from_utf8(sum.text()).unwrap()
}

/// Sends commands and reads as many replies.
fn ask(stream: &mut UnixStream, commands: &[Vec<&str>]) -> Vec<Value> {
    let mut out = Vec::new();
    for command in commands {
        encode_command(&mut out, command);
    }
    stream.write_all(&out).unwrap();
    let (mut replies, mut buf) = (Vec::new(), Vec::new());
    while replies.len() < commands.len() {
        if let Some((value, len)) = decode(&buf).unwrap() {
            replies.push(value);
            buf.drain(..len);
            continue;
        }
        let mut chunk = [0; 1 << 16];
        let len = stream.read(&mut chunk).unwrap();
        assert!(len > 0, "redis-server closed the connection");
        buf.extend_from_slice(&chunk[..len]);
    }
    replies
}

#[test]
fn sums_are_those_of_redis() {
    let Some(redis) = Redis::start() else {
        eprintln!("skipped: no redis-server here");
        return;
    };
    let mut stream = redis.connect();
    let seed: u64 = std::env::var("SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or_else(rand::random);
    println!("SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..SUMS / BATCH {
        let pairs: Vec<(String, String)> = (0..BATCH)
            .map(|_| (number(&mut random), number(&mut random)))
            .collect();
        let commands: Vec<Vec<&str>> = pairs
            .iter()
            .flat_map(|(a, b)| [vec!["SET", "k", a], vec!["INCRBYFLOAT", "k", b]])
            .collect();
        let replies = ask(&mut stream, &commands);
        for ((a, b), reply) in pairs.iter().zip(replies.iter().skip(1).step_by(2)) {
            let theirs = String::from_utf8_lossy(reply.as_bytes().expect("a text"));
            assert_eq!(ours(a, b), theirs, "{a:?} + {b:?}, SEED={seed}");
        }
    }
}
