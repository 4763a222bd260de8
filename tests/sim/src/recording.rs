//! Records the commands of clients as inputs of the fuzz target `store_turn`
//! (`server/store/tests/rows/text.rs` has the form), in files of some lines each.

use std::cell::RefCell;
use std::path::PathBuf;

use crate::kernel::MILLI;
use crate::world;

/// Number of lines of a file.
const LINES: usize = 40;
/// Maximum length of a line.
const LENGTH: usize = 200;

struct Recording {
    folder: PathBuf,
    seed: u64,
    files: usize,
    lines: Vec<String>,
    last_ms: u64,
}

thread_local! {
    /// The recording of the driver's thread.
    static RECORDING: RefCell<Option<Recording>> = const { RefCell::new(None) };
}

/// Begins to record in the folder that the environment names, if it names one.
pub fn begin(seed: u64) {
    let folder = std::env::var_os("SIM_COMMANDS").map(PathBuf::from);
    let recording = folder.map(|folder| Recording {
        folder,
        seed,
        files: 0,
        lines: Vec::new(),
        last_ms: 0,
    });
    RECORDING.set(recording);
}

/// Records a command. Leaves out words with spaces, such as scripts.
pub fn note(arguments: &[impl AsRef<[u8]>]) {
    RECORDING.with_borrow_mut(|recording| {
        let Some(recording) = recording else {
            return;
        };
        let words = arguments
            .iter()
            .map(|word| String::from_utf8_lossy(word.as_ref()));
        let words: Vec<_> = words.collect();
        let line = words.join(" ");
        let is_plain = |word: &str| !word.is_empty() && !word.contains([' ', '\n']);
        if line.len() > LENGTH || !words.iter().all(|word| is_plain(word)) {
            return;
        }
        let now = world::now() / MILLI;
        let passed = now - std::mem::replace(&mut recording.last_ms, now);
        if passed > 0 {
            recording.lines.push(format!("+{passed}"));
        }
        recording.lines.push(line);
        if recording.lines.len() >= LINES {
            recording.write();
        }
    });
}

impl Recording {
    fn write(&mut self) {
        let shards = ["#1", "#8"][self.files % 2];
        let text = format!("{shards}\n{}\n", self.lines.join("\n"));
        self.lines.clear();
        let path = self
            .folder
            .join(format!("sim-{}-{}", self.seed, self.files));
        self.files += 1;
        if let Err(error) = std::fs::write(&path, text) {
            eprintln!("{}: {error}", path.display());
        }
    }
}
