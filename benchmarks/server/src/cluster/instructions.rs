//! `bench cluster --tests instructions`: instructions of a GET with and without cluster mode.
//!
//! The server runs under Valgrind, which counts the instructions of the process, without the
//! kernel. The counts hardly depend on the load of the machine: what else the server does meanwhile
//! (clocks, the bus) is spread over thousands of GETs. Each round has another seed of the hashes.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use punctual_resp::encode_command;

use super::{SLOTS, columns_by_mode, start_node_under, wait_until_ok};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::keyload::set_keys;
use crate::launch::{Program, Server, installed, temporary_directory};
use crate::options::Common;
use crate::report::Report;
use crate::sheet::{Bar, Figures, Sheet};
use crate::workload::key_name;

/// Number of keys. The look-ahead works from 8,000 keys on, so it is measured too.
const KEYS: [u64; 2] = [1_000, 10_000];
const PIPELINES: [(u64, &str); 3] = [
    (1, "GET, P=1, instructions"),
    (16, "GET, P=16, instructions"),
    (64, "GET, P=64, instructions"),
];

/// Counts the instructions of GETs in our servers.
pub(super) fn run(common: &Common, programs: &[Program], report: &mut Report) -> Result<()> {
    if !installed(Path::new("valgrind")) {
        say!("valgrind is not installed, so instructions are not counted");
        return Ok(());
    }
    let ours: Vec<Program> = programs.iter().filter(|one| one.ours).cloned().collect();
    let gets = common.usual(4_096, 16_384);
    let bars = PIPELINES.map(|(_, name)| (name, Bar::RatioAtMost(1.03)));
    let mut sheet = Sheet::new("cluster", columns_by_mode(&ours));
    for keys in KEYS {
        let case = format!("GETs of {keys} keys");
        sheet.measure(report, &case, &bars, common.rounds(1, 5), |at, _| {
            count(&ours[at / 2], at % 2 == 1, keys, gets)
        })?;
    }
    sheet.show(report)
}

fn count(program: &Program, in_cluster: bool, keys: u64, gets: u64) -> Result<Figures> {
    let folder = temporary_directory()?;
    let dump = folder.path().join("count");
    let option = format!("--callgrind-out-file={}", dump.display());
    let tool = [
        "valgrind",
        "--tool=callgrind",
        "--instr-atstart=no",
        &option,
    ];
    // The thread that merges small pages to huge ones crashed under Valgrind 3.19.
    let program = program.clone().with_setting("huge-pages", "no");
    let server = match in_cluster {
        true => start_node_under(&tool, &program)?,
        false => program.start_under(&tool, &[])?,
    };
    let mut client = server.client()?;
    if in_cluster {
        let last = (SLOTS - 1).to_string();
        client.expect(&["CLUSTER", "ADDSLOTSRANGE", "0", &last])?;
        wait_until_ok(std::slice::from_ref(&server))?;
    }
    set_keys(&mut client, keys)?;
    control(&server, &["-i", "on"])?;
    let mut figures = Figures::default();
    for (number, (pipeline, name)) in PIPELINES.into_iter().enumerate() {
        // A dump also sets the counts to 0.
        get(&mut client, keys, gets / 16, pipeline)?;
        control(&server, &["-d"])?;
        get(&mut client, keys, gets, pipeline)?;
        control(&server, &["-d"])?;
        let instructions = total(&dump.with_extension(format!("{}", 2 * number + 2)))?;
        figures.put(name, instructions as f64 / gets as f64);
    }
    Ok(figures)
}

/// Sends GETs of all keys in turn.
fn get(client: &mut Client, keys: u64, gets: u64, pipeline: u64) -> Result<()> {
    let mut names = (0..keys).cycle().map(key_name);
    for _ in 0..gets / pipeline {
        let mut commands = Vec::new();
        for name in names.by_ref().take(pipeline as usize) {
            encode_command(&mut commands, &[&b"GET"[..], &name[..]]);
        }
        client.send(&commands)?;
        client.replies(pipeline as usize, "GET")?;
    }
    Ok(())
}

/// Gives an order to the running Valgrind.
fn control(server: &Server, order: &[&str]) -> Result<()> {
    let status = Command::new("callgrind_control")
        .args(order)
        .arg(server.id().to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(Error::system("running callgrind_control"))?;
    match status.success() {
        true => Ok(()),
        false => Err(Error::Invalid("callgrind_control failed".into())),
    }
}

/// Returns the number of instructions in a dump.
fn total(dump: &Path) -> Result<u64> {
    let text = fs::read_to_string(dump).map_err(Error::system("reading a dump of callgrind"))?;
    let found = text.lines().find_map(|line| line.strip_prefix("totals: "));
    let number = found.and_then(|number| number.trim().parse().ok());
    number.ok_or_else(|| Error::Invalid("a dump of callgrind has no total".into()))
}
