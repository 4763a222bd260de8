//! The keys that cost most, for HOTKEYS: CPU time and bytes of commands, charged to their keys while somebody tracks them.
//!
//! Sums of many keys are kept in bounded memory: a new key takes the place of the cheapest one and its sum with it (Metwally, Agrawal and
//! El Abbadi, "Efficient computation of frequent and top-k elements in data streams", 2005). What it has inherited is known and not
//! shown, so a sum is never too great. Without tracking, a command costs a branch.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use punctual_resp::Args;
use punctual_store::Now;

use crate::table::Entry;
use crate::world::process;

/// Number of keys whose sums are kept.
const KEYS: usize = 4096;

/// Sums of keys.
#[derive(Default)]
struct Sums {
    /// Sum of each key, and what of it was inherited.
    keys: HashMap<Arc<[u8]>, (u64, u64)>,
    order: BTreeSet<(u64, Arc<[u8]>)>,
}

impl Sums {
    fn add(&mut self, key: &[u8], cost: u64) {
        let (key, sum, inherited) = match self.keys.get_key_value(key) {
            Some((key, (sum, inherited))) => {
                self.order.remove(&(*sum, key.clone()));
                (key.clone(), *sum, *inherited)
            }
            None if self.keys.len() < KEYS => (key.into(), 0, 0),
            None => {
                let (sum, cheapest) = self.order.pop_first().expect("there are many");
                self.keys.remove(&cheapest);
                (key.into(), sum, sum)
            }
        };
        self.order.insert((sum + cost, key.clone()));
        self.keys.insert(key, (sum + cost, inherited));
    }

    /// Returns the keys with the greatest sums, greatest first.
    fn greatest(&self, count: usize) -> Vec<(Arc<[u8]>, u64)> {
        let known =
            |(key, (sum, inherited)): (&Arc<[u8]>, &(u64, u64))| (key.clone(), sum - inherited);
        let mut all: Vec<_> = self.keys.iter().map(known).collect();
        all.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        all.truncate(count);
        all
    }
}

/// What HOTKEYS START asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) cpu: bool,
    pub(crate) net: bool,
    /// Number of keys to show.
    pub(crate) count: usize,
    pub(crate) duration_s: Option<u64>,
    /// One command of this number is charged to its keys.
    pub(crate) sample: u32,
}

/// A period in which keys are tracked.
struct Tracking {
    asked: Asked,
    began_ms: u64,
    /// User and system.
    cpu_seconds: (f64, f64),
    /// End, and the CPU time at the end.
    ended: Option<(u64, (f64, f64))>,
    nanos: u64,
    bytes: u64,
    cpu: Sums,
    net: Sums,
}

/// Ends a tracking whose duration is over.
fn end_if_due(tracking: &mut Option<Tracking>, now: Now) {
    if let Some(tracking) = tracking
        && tracking.ended.is_none()
        && let Some(seconds) = tracking.asked.duration_s
    {
        let end_ms = tracking.began_ms + seconds * 1000;
        tracking.ended = (now.is_due(end_ms)).then(|| (end_ms, process::cpu_seconds()));
    }
}

/// What HOTKEYS GET shows.
pub(crate) struct Shown {
    pub(crate) active: bool,
    pub(crate) sample: u32,
    pub(crate) began_ms: u64,
    pub(crate) duration_ms: u64,
    /// User and system.
    pub(crate) cpu_ms: (u64, u64),
    pub(crate) micros: u64,
    pub(crate) bytes: u64,
    /// Keys and microseconds.
    pub(crate) by_cpu: Option<Vec<(Arc<[u8]>, u64)>>,
    /// Keys and bytes.
    pub(crate) by_net: Option<Vec<(Arc<[u8]>, u64)>>,
}

/// The tracked keys of all loops.
#[derive(Default)]
pub(crate) struct HotKeys {
    active: AtomicBool,
    inner: Mutex<Option<Tracking>>,
}

impl HotKeys {
    /// Returns whether commands are charged to their keys.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed)
    }

    /// Begins to track. Returns false if keys are tracked.
    pub(crate) fn start(&self, asked: Asked, now: Now) -> bool {
        let mut inner = self.inner.lock();
        end_if_due(&mut inner, now);
        if inner
            .as_ref()
            .is_some_and(|tracking| tracking.ended.is_none())
        {
            return false;
        }
        *inner = Some(Tracking {
            asked,
            began_ms: now.read_ms(),
            cpu_seconds: process::cpu_seconds(),
            ended: None,
            nanos: 0,
            bytes: 0,
            cpu: Sums::default(),
            net: Sums::default(),
        });
        self.active.store(true, Ordering::Relaxed);
        true
    }

    /// Ends the tracking and keeps its sums. Returns false if no keys are tracked.
    pub(crate) fn stop(&self, now: Now) -> bool {
        self.active.store(false, Ordering::Relaxed);
        let mut inner = self.inner.lock();
        end_if_due(&mut inner, now);
        let open = inner.as_mut().filter(|tracking| tracking.ended.is_none());
        open.map(|tracking| tracking.ended = Some((now.read_ms(), process::cpu_seconds())))
            .is_some()
    }

    /// Drops the sums. Returns false, and drops nothing, if keys are tracked.
    pub(crate) fn reset(&self, now: Now) -> bool {
        let mut inner = self.inner.lock();
        end_if_due(&mut inner, now);
        let tracks = inner
            .as_ref()
            .is_some_and(|tracking| tracking.ended.is_none());
        if !tracks {
            *inner = None;
        }
        !tracks
    }

    /// Charges a command that took `nanos` to its keys, in equal parts.
    #[cold]
    pub(crate) fn charge(
        &self,
        entry: &Entry,
        args: Args,
        reply_bytes: usize,
        nanos: u64,
        now: Now,
    ) {
        // EXEC's time is that of its commands.
        if entry.row.name == "exec" {
            return;
        }
        let mut inner = self.inner.lock();
        end_if_due(&mut inner, now);
        let Some(tracking) = inner.as_mut() else {
            return;
        };
        if tracking.ended.is_some() {
            self.active.store(false, Ordering::Relaxed);
            return;
        }
        let bytes = request_bytes(args) + reply_bytes as u64;
        tracking.nanos += nanos;
        tracking.bytes += bytes;
        let asked = tracking.asked;
        if asked.sample > 1 && rand::random_range(0..asked.sample) > 0 {
            return;
        }
        let mut keys = 0;
        entry.row.keys.each(args, &mut |_| keys += 1);
        entry.row.keys.each(args, &mut |at| {
            if asked.cpu {
                tracking.cpu.add(args.at(at), nanos / keys);
            }
            if asked.net {
                tracking.net.add(args.at(at), bytes / keys);
            }
        });
    }

    /// Returns what was tracked last, if anything.
    pub(crate) fn shown(&self, now: Now) -> Option<Shown> {
        let mut inner = self.inner.lock();
        end_if_due(&mut inner, now);
        let tracking = inner.as_ref()?;
        let (end_ms, cpu) =
            (tracking.ended).unwrap_or_else(|| (now.read_ms(), process::cpu_seconds()));
        let ms = |since: f64, until: f64| ((until - since) * 1000.0) as u64;
        let asked = tracking.asked;
        let micros = |(key, nanos): (Arc<[u8]>, u64)| (key, nanos / 1000);
        let by_cpu = || {
            tracking
                .cpu
                .greatest(asked.count)
                .into_iter()
                .map(micros)
                .collect()
        };
        Some(Shown {
            active: tracking.ended.is_none(),
            sample: asked.sample,
            began_ms: tracking.began_ms,
            duration_ms: end_ms.saturating_sub(tracking.began_ms),
            cpu_ms: (
                ms(tracking.cpu_seconds.0, cpu.0),
                ms(tracking.cpu_seconds.1, cpu.1),
            ),
            micros: tracking.nanos / 1000,
            bytes: tracking.bytes,
            by_cpu: asked.cpu.then(by_cpu),
            by_net: asked.net.then(|| tracking.net.greatest(asked.count)),
        })
    }
}

/// Returns the bytes of a command as clients send it.
fn request_bytes(args: Args) -> u64 {
    let digits = |number: usize| u64::from(number.checked_ilog10().unwrap_or(0)) + 1;
    let words = args
        .iter()
        .map(|word| word.len() as u64 + digits(word.len()) + 5);
    words.sum::<u64>() + digits(args.len()) + 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_costliest_keys_are_found_among_many() {
        let mut sums = Sums::default();
        for n in 0..100_000u32 {
            sums.add(format!("rare:{n}").as_bytes(), 1);
            if n % 10 == 0 {
                sums.add(
                    format!("hot:{}", n / 10 % 3).as_bytes(),
                    100 + u64::from(n / 10 % 3),
                );
            }
        }
        assert_eq!((sums.keys.len(), sums.order.len()), (KEYS, KEYS));
        let found = sums.greatest(3);
        let names: Vec<_> = found
            .iter()
            .map(|(key, _)| key.escape_ascii().to_string())
            .collect();
        assert_eq!(names, ["hot:2", "hot:1", "hot:0"]);
        assert!(
            found
                .iter()
                .all(|(_, sum)| (330_000..=340_000).contains(sum)),
            "{found:?}"
        );
    }
}
