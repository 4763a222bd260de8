//! A command on a page that runs until the end of the page.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use punctual_harness::Running;

use crate::process::PATIENCE;

use super::Example;

/// A running `redis-cli` and its output lines.
pub struct Listener {
    pub example: Example,
    pub came: Vec<String>,
    lines: Receiver<String>,
    /// Killed on drop.
    _process: Running,
}

impl Listener {
    pub fn start(example: Example, command: &str, folder: &Path) -> Self {
        let mut process = Command::new("sh")
            .args(["-c", &format!("exec {command}")])
            .current_dir(folder)
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh runs");
        let out = process.stdout.take().expect("it is piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                // redis-cli's own messages differ between versions.
                if !line.starts_with("Reading messages") && sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            example,
            came: Vec::new(),
            lines,
            _process: Running(process),
        }
    }

    /// Blocks until this number of lines has come, or for at most [`PATIENCE`].
    pub fn read_until(&mut self, count: usize) {
        let end = Instant::now() + PATIENCE;
        while self.came.len() < count {
            match self
                .lines
                .recv_timeout(end.saturating_duration_since(Instant::now()))
            {
                Ok(line) => self.came.push(line),
                Err(_) => return,
            }
        }
    }
}
