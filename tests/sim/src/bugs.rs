//! Prints how many seeds find each bug that is planted in the server.

use std::time::{Duration, Instant};

use punctual_cluster::planted::Bug as ClusterBug;
use punctual_store::planted::Bug;

use crate::apart::Child;
use crate::option;
use crate::options::Options;

/// Number of all planted bugs.
pub const COUNT: usize = Bug::ALL.len() + ClusterBug::ALL.len();

/// Returns a bug of the cluster's state machine.
fn of_machine(number: usize) -> Option<ClusterBug> {
    let number = number.checked_sub(Bug::ALL.len())?;
    Some(ClusterBug::ALL[number])
}

/// Plants the bug with this number.
pub fn plant(number: usize) {
    match of_machine(number) {
        None => Bug::ALL[number].plant(),
        Some(bug) => bug.plant(),
    }
}

fn name(number: usize) -> String {
    match of_machine(number) {
        None => format!("{:?}", Bug::ALL[number]),
        Some(bug) => format!("{bug:?}"),
    }
}

/// Prints a row for each planted bug.
pub fn find_all() {
    let seeds = option("--seeds").unwrap_or(2_000);
    let from = option("--from").unwrap_or(1);
    let limit = Duration::from_secs(option("--seconds").unwrap_or(600));
    let only = option("--bug").map(|bug| bug as usize);
    let mut found = 0;
    let mut tried = 0;
    println!("| bug | found after | failure |\n|---|---|---|");
    for number in 0..COUNT {
        let bug = name(number);
        if only.is_some_and(|only| only != number) {
            continue;
        }
        let options = Options {
            bug: Some(number),
            cluster: number >= Bug::ALL.len() - Bug::OF_CLUSTERS,
            ..Options::default()
        };
        let began = Instant::now();
        let mut ran = 0;
        tried += 1;
        let line = (from..from + seeds).find_map(|seed| {
            if began.elapsed() > limit {
                return None;
            }
            ran += 1;
            let line = Child::start(seed, 0, &options).result();
            (!line.starts_with("passed")).then_some((seed, line))
        });
        let time = began.elapsed().as_secs();
        match line {
            Some((seed, line)) => {
                found += 1;
                println!("| {bug} | {ran} seeds, {time} s (seed {seed}) | {line:.110} |");
            }
            None => println!("| {bug} | not found in {ran} seeds, {time} s | |"),
        }
    }
    println!("{found} of {tried} found");
}
