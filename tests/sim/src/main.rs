//! Whole servers under one seed. README.md describes the design.

mod apart;
mod baton;
#[cfg(sim_bug)]
mod bugs;
mod calls;
mod chores;
mod clients;
mod cluster;
mod context;
mod entries;
mod faults;
mod heal;
mod inspection;
mod kernel;
mod limits;
mod linear;
mod link;
mod model;
mod noise;
mod options;
mod party;
mod plan;
mod pool;
mod pops;
mod promises;
mod recording;
mod registers;
mod run;
mod shrink;
mod usage;
mod verdict;
mod workers;
mod world;

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use apart::Child;
use kernel::Lie;
use options::{Options, Part};

/// Returns the word after an option.
fn word(name: &str) -> Option<String> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1)
}

/// Returns the number after an option.
fn option(name: &str) -> Option<u64> {
    word(name)?.parse().ok()
}

fn has_option(name: &str) -> bool {
    std::env::args().any(|argument| argument == name)
}

/// Returns the options of each run.
fn options() -> Options {
    let parts = word("--without").unwrap_or_default();
    let parts = parts.split(',').filter(|name| !name.is_empty());
    let part = |name| Part::named(name).unwrap_or_else(|| panic!("no part of a plan: {name}"));
    Options {
        bug: option("--bug").map(|bug| bug as usize),
        without: parts.map(part).collect(),
        cluster: has_option("--cluster"),
        ..Options::default()
    }
}

fn random_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_micros() as u64 % 1_000_000_007
}

/// Figures of many runs.
#[derive(Default)]
struct Sums {
    seeds: u64,
    failed: u64,
    simulated_ms: u64,
    commands: u64,
    kills: u64,
}

impl Sums {
    fn add(&mut self, line: &str) {
        self.seeds += 1;
        self.failed += u64::from(!line.starts_with("passed"));
        let mut words = line.split(' ');
        while let Some(word) = words.next() {
            let sum = match word {
                "simulated_ms" => &mut self.simulated_ms,
                "commands" => &mut self.commands,
                "kills" => &mut self.kills,
                _ => continue,
            };
            *sum += words
                .next()
                .and_then(|figure| figure.parse().ok())
                .unwrap_or(0);
        }
    }

    fn print(&self, time: Duration) {
        let seconds = apart::processor_time().as_secs_f64();
        let simulated = self.simulated_ms as f64 / 1_000.0;
        println!(
            "{} seeds, {} failed; {:.0} s, {seconds:.1} s of a processor; simulated {simulated:.0} s, \
             {:.0} times the processor's time; {} commands, {:.0} a second of it; {} kills",
            self.seeds,
            self.failed,
            time.as_secs_f64(),
            simulated / seconds,
            self.commands,
            self.commands as f64 / seconds,
            self.kills,
        );
    }
}

/// Maximum number of seeds in which a lie must be found.
const SEEDS_PER_LIE: u64 = 300;

/// Tests the checks: each lie of the simulated system must make a seed fail. Returns whether all
/// lies are found.
fn find_lies() -> bool {
    let mut all = true;
    for lie in Lie::ALL {
        let options = Options {
            lie: Some(lie),
            ..Options::default()
        };
        let results =
            (1..=SEEDS_PER_LIE).map(|seed| (seed, Child::start(seed, 0, &options).result()));
        let found = results
            .into_iter()
            .find(|(_, line)| !line.starts_with("passed"));
        match found {
            Some((seed, ref line)) => println!("{lie:?}: found by seed {seed}: {line:.150}"),
            None => println!("{lie:?}: NOT FOUND in {SEEDS_PER_LIE} seeds"),
        }
        all &= found.is_some();
    }
    all
}

fn main() {
    apart::fix_addresses();
    calls::prepare();
    usage::begin();
    run::warm_up();
    if has_option("--lies") {
        std::process::exit(i32::from(!find_lies()));
    }
    #[cfg(sim_bug)]
    if has_option("--bugs") {
        bugs::find_all();
        return;
    }
    let options = options();
    let one = option("--one");
    let first = one.or(option("--from")).unwrap_or_else(random_seed);
    let limit = option("--seconds").map(Duration::from_secs);
    let seeds = match (one, limit) {
        (Some(_), _) => 1,
        (None, Some(_)) => u64::MAX / 2,
        (None, None) => option("--seeds").unwrap_or(200),
    };
    let jobs = option("--jobs").unwrap_or(1);
    let twice = one.is_some() || has_option("--twice");
    let began = Instant::now();
    let mut sums = Sums::default();
    let mut running: VecDeque<Child> = VecDeque::new();
    let mut seeds = first..first.saturating_add(seeds);
    loop {
        let late = limit.is_some_and(|limit| began.elapsed() > limit);
        while (running.len() as u64) < jobs
            && !late
            && let Some(seed) = seeds.next()
        {
            // Runs end in the order of their seeds, so each processor gets the next one.
            running.push_back(Child::start(seed, (seed % jobs) as usize, &options));
        }
        let Some(child) = running.pop_front() else {
            break;
        };
        let seed = child.seed;
        let mut line = child.result();
        if twice {
            let again = Child::start(seed, 0, &options).result();
            if again != line {
                line = format!("failed: two runs differ: {line} / {again}");
            }
        }
        if !line.starts_with("passed") {
            let kind = if options.cluster { " CLUSTER=1" } else { "" };
            println!("seed {seed}: {line}\n  make sim ONE={seed}{kind}");
            if has_option("--shrink") {
                shrink::shrink(seed, &line, &options);
            }
        } else if one.is_some() {
            println!("seed {seed}: {line}");
        }
        sums.add(&line);
        if sums.seeds.is_multiple_of(1_000) {
            eprintln!("{} seeds, {} failed", sums.seeds, sums.failed);
        }
    }
    sums.print(began.elapsed());
    std::process::exit(i32::from(sums.failed > 0));
}
