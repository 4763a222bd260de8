//! Cost of cluster mode, by the number of slots that have keys: CPU time of a GET one by one and
//! with 16 commands prepared together, bytes a key of the hash table, and microseconds of a list of
//! 10 keys and of all keys of a slot. The first two rows of each group have no cluster mode, and
//! show how much the times vary.
//!
//! ```sh
//! cargo run --release -p punctual-store --example slot_cost
//! ```

use std::hint::black_box;
use std::time::Instant;

use punctual_cluster::slot::{SLOTS, of_key};
use punctual_harness::Random;
use punctual_resp::{OwnedArgs, Protocol, Reply};
use punctual_store::events::{Classes, Silent};
use punctual_store::{Now, Store, StoreOptions, Turn, command};

/// Number of rounds of a measurement; the shortest time is shown, because other processes use the
/// same caches.
const ROUNDS: usize = 11;
/// Number of GETs, and of lists, in one round.
const GETS: usize = 200_000;
const LISTS: usize = 300;

/// The slots that have keys.
#[derive(Clone, Copy)]
enum Slots {
    All,
    Third,
    Ten,
    One,
}

struct Case {
    name: &'static str,
    cluster: bool,
    store: Store,
    keys: Vec<String>,
    gets: Vec<f64>,
    prepared: Vec<f64>,
    lists: [Vec<f64>; 2],
}

/// Returns `count` names of 15 bytes whose hash tags have these slots.
fn keys(slots: Slots, count: usize) -> Vec<String> {
    let has = |tag: &usize| match slots {
        Slots::Third => of_key(format!("{tag:06}").as_bytes()) < SLOTS / 3,
        _ => true,
    };
    let most = match slots {
        Slots::All | Slots::Third => count.min(900_000),
        Slots::Ten => 10,
        Slots::One => 1,
    };
    let tags: Vec<usize> = (0..1_000_000).filter(has).take(most).collect();
    let name = |n: usize| format!("{{{:06}}}{n:07}", tags[n % tags.len()]);
    (0..count).map(name).collect()
}

fn args(words: &[&str]) -> OwnedArgs {
    words.iter().copied().collect()
}

impl Case {
    fn new(name: &'static str, cluster: bool, slots: Slots, count: usize) -> Self {
        let store = Store::new(StoreOptions {
            shards: 1,
            databases: 1,
            cluster,
            seed: 1,
            nap: std::thread::sleep,
        });
        let case = Self {
            name,
            cluster,
            store,
            keys: keys(slots, count),
            gets: Vec::new(),
            prepared: Vec::new(),
            lists: [Vec::new(), Vec::new()],
        };
        case.turn(|turn| {
            let (set, mut out) = (command::find(b"set").expect("a command"), Vec::new());
            for key in &case.keys {
                out.clear();
                let words = args(&["SET", key, "value"]);
                let mut reply = Reply::new(&mut out, Protocol::Resp2);
                turn.run(set, 0, true, words.as_args(), &mut reply)
                    .expect("a reply");
            }
        });
        case
    }

    fn turn<T>(&self, act: impl FnOnce(&mut Turn) -> T) -> T {
        let mut sink = Silent;
        let now = Now::from_ms(1_000);
        act(&mut Turn::new(&self.store, now, &mut sink, Classes::none()))
    }

    /// Returns the nanoseconds of a GET, with `together` commands prepared at once.
    fn get(&self, random: &mut Random, together: usize) -> f64 {
        let get = command::find(b"get").expect("a command");
        let any = |_| {
            args(&[
                "GET",
                &self.keys[random.below(self.keys.len() as u64) as usize],
            ])
        };
        let commands: Vec<OwnedArgs> = (0..GETS).map(any).collect();
        self.turn(|turn| {
            let (mut out, start) = (Vec::with_capacity(1 << 12), cpu_ns());
            for some in commands.chunks(together) {
                out.clear();
                if together > 1 {
                    turn.look_ahead(0, 1, some.iter().map(|words| words.as_args()));
                }
                for (at, words) in some.iter().enumerate() {
                    turn.begin_ahead(at);
                    let mut reply = Reply::new(&mut out, Protocol::Resp2);
                    turn.run(get, 0, true, words.as_args(), &mut reply)
                        .expect("a reply");
                }
                turn.end_ahead();
                black_box(&out);
            }
            (cpu_ns() - start) / GETS as f64
        })
    }

    /// Returns the microseconds of a list of up to `max` keys of a slot that has keys.
    fn list(&self, random: &mut Random, max: usize) -> f64 {
        self.turn(|turn| {
            let mut sum = 0;
            // The CPU time is not exact enough for times this short.
            let start = Instant::now();
            for _ in 0..LISTS {
                let key = &self.keys[random.below(self.keys.len() as u64) as usize];
                turn.keys_in_slot(of_key(key.as_bytes()), max, |key| sum += key.len());
            }
            black_box(sum);
            start.elapsed().as_nanos() as f64 / LISTS as f64 / 1e3
        })
    }

    fn bytes_a_key(&self) -> f64 {
        self.turn(|turn| {
            turn.lock_all();
            let bytes: usize = turn.held_dbs(0).map(|(_, db)| db.memory().index).sum();
            bytes as f64 / self.keys.len() as f64
        })
    }
}

/// Returns the CPU time of this thread in nanoseconds, which depends less on other processes than
/// the time that has passed.
fn cpu_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat");
    let first = text
        .ok()
        .and_then(|text| text.split(' ').next()?.parse().ok());
    first.expect("a Linux kernel with statistics of its scheduler")
}

fn least(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

fn main() {
    let random = &mut Random::new(1);
    println!(
        "| keys | slots with keys | GET, ns | 16 GETs, ns each | bytes a key | 10 keys, us | all keys, us |"
    );
    println!("|---|---|---|---|---|---|---|");
    for count in [16_384, 1_000_000] {
        let mut cases = [
            Case::new("no cluster mode", false, Slots::All, count),
            Case::new("no cluster mode, one tag", false, Slots::One, count),
            Case::new("all", true, Slots::All, count),
            Case::new("a third", true, Slots::Third, count),
            Case::new("10", true, Slots::Ten, count),
            Case::new("1", true, Slots::One, count),
        ];
        for _ in 0..ROUNDS {
            for case in &mut cases {
                case.gets.push(case.get(random, 1));
                case.prepared.push(case.get(random, 16));
                if case.cluster {
                    case.lists[0].push(case.list(random, 10));
                    let all = if case.keys.len() > 16_384 {
                        1_000
                    } else {
                        usize::MAX
                    };
                    case.lists[1].push(case.list(random, all));
                }
            }
        }
        for case in &cases {
            print!(
                "| {count} | {} | {:.0} | {:.0} | {:.2} ",
                case.name,
                least(&case.gets),
                least(&case.prepared),
                case.bytes_a_key(),
            );
            match case.cluster {
                true => {
                    let [ten, all] = &case.lists;
                    println!("| {:.1} | {:.1} |", least(ten), least(all));
                }
                false => println!("| | |"),
            }
        }
    }
}
