//! Tables in cluster mode.

use super::*;

/// How the slots of keys are distributed.
#[derive(Clone, Copy, Debug)]
enum Spread {
    All,
    /// Ten slots.
    Few,
    One,
    /// Half of the keys in one slot, the others in all slots.
    Hot,
}

impl Spread {
    fn slot(self, n: u32) -> u16 {
        let any = (mix(n ^ 0x5555) % 16_384) as u16;
        match self {
            Self::All => any,
            Self::Few => any % 10 * 1_638,
            Self::Hot if n % 2 == 1 => any,
            Self::One | Self::Hot => 7_000,
        }
    }
}

/// A table of keys that are numbers.
struct Slotted {
    spread: Spread,
    bits: SlotBits,
    table: HashTable,
}

impl Slotted {
    fn new(spread: Spread, shards: usize) -> Self {
        let bits = SlotBits::for_shards(shards);
        let table = HashTable::new(bits);
        Self {
            spread,
            bits,
            table,
        }
    }

    fn hash(&self, n: u32) -> Hash {
        self.bits.hash(mix(n), self.spread.slot(n))
    }

    fn place(&self) -> impl Fn(u32) -> u32 + use<> {
        let (bits, spread) = (self.bits, self.spread);
        move |n| bits.hash(mix(n), spread.slot(n)).place
    }

    fn insert(&mut self, n: u32) {
        let (hash, place) = (self.hash(n), self.place());
        self.table.insert(hash, n, place);
    }

    fn remove(&mut self, n: u32) -> bool {
        let place = self.place();
        self.table.remove(place(n), n, &place)
    }

    fn has(&self, n: u32) -> bool {
        self.table.find(self.hash(n), |i| i == n).is_some()
    }

    fn in_slot(&self, slot: u16, max: usize) -> HashSet<u32> {
        let number = self.bits.number(self.bits.hash(0, slot).place);
        let mut found = HashSet::new();
        self.table.scan_slot(number, self.place(), |n| {
            assert!(found.insert(n), "once");
            found.len() < max
        });
        found
    }
}

fn spreads() -> impl Strategy<Value = Spread> {
    prop_oneof![
        Just(Spread::All),
        Just(Spread::Few),
        Just(Spread::One),
        Just(Spread::Hot)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Only slots of one shard are in a table, but the other slots do no harm.
    #[test]
    fn behaves_as_a_map_of_slots(
        spread in spreads(),
        shards in prop_oneof![Just(1usize), Just(16), Just(16_384)],
        steps in proptest::collection::vec((0..4u8, 0..20_000u32, 1..4000u32), 1..40),
    ) {
        let mut slotted = Slotted::new(spread, shards);
        let mut model: HashSet<u32> = HashSet::new();
        for (what, start, count) in steps {
            for n in start..start + count {
                if what > 0 {
                    if model.insert(n) {
                        slotted.insert(n);
                    }
                } else {
                    prop_assert_eq!(slotted.remove(n), model.remove(&n));
                }
            }
            prop_assert_eq!(slotted.table.len(), model.len());
        }
        for n in 0..24_000 {
            prop_assert_eq!(slotted.has(n), model.contains(&n));
        }
        if shards == 1 {
            for slot in [7_000, 1_638, 5] {
                let keys = model.iter().copied().filter(|n| spread.slot(*n) == slot);
                let keys: HashSet<u32> = keys.collect();
                prop_assert_eq!(slotted.in_slot(slot, usize::MAX), keys.clone());
                prop_assert_eq!(slotted.in_slot(slot, 7).len(), keys.len().min(7));
            }
        }
    }

    /// A scan visits every key that stays, while the table grows, divides and shrinks, or is
    /// replaced by a table that has grown differently.
    #[test]
    fn a_scan_of_slots_misses_no_key(
        spread in spreads(),
        seed in any::<u32>(),
        churn in proptest::collection::vec((0..3u8, 0..50_000u32, 1..9000u32), 1..30),
    ) {
        let mut slotted = Slotted::new(spread, 1);
        let stay: Vec<u32> = (1_000_000..1_003_000).collect();
        let mut others: HashSet<u32> = HashSet::new();
        stay.iter().for_each(|n| slotted.insert(*n));
        let mut seen: HashMap<u32, u32> = HashMap::new();
        let (mut from, mut turn, mut replacements) = (Some(0), seed, 0);
        while let Some(mut at) = from {
            turn = turn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if turn >> 29 == 0 {
                let order = slotted.table.order_at(at);
                let (what, start, count) = churn[turn as usize / 8 % churn.len()];
                for n in start..start + count {
                    if what == 0 && others.insert(n) {
                        slotted.insert(n);
                    } else if what == 1 && others.remove(&n) {
                        slotted.remove(n);
                    }
                }
                // A scan begins again where the new table is coarser, so it would not end if the
                // table were replaced again and again.
                if what == 2 && replacements < 3 {
                    replacements += 1;
                    slotted = Slotted::new(spread, 1);
                    others = others.into_iter().take(4_000).collect();
                    others.iter().for_each(|n| slotted.insert(*n));
                    stay.iter().for_each(|n| slotted.insert(*n));
                }
                at = slotted.table.resume(at, order);
            }
            let place = slotted.place();
            from = slotted.table.scan(at, place, |i| *seen.entry(i).or_default() += 1);
        }
        for n in stay {
            prop_assert!(seen.contains_key(&n));
        }
    }
}

/// Without changes, a scan visits each key once.
#[test]
fn a_scan_of_slots_visits_each_key_once() {
    for spread in [Spread::All, Spread::Few, Spread::One, Spread::Hot] {
        let mut slotted = Slotted::new(spread, 1);
        (0..100_000).for_each(|n| slotted.insert(n));
        let (mut seen, mut from) = (HashSet::new(), Some(0));
        while let Some(at) = from {
            from = slotted
                .table
                .scan(at, slotted.place(), |n| assert!(seen.insert(n)));
        }
        assert_eq!(seen.len(), 100_000, "{spread:?}");
    }
}

/// Few chunks overflow, parts stay small, and the table takes little memory.
#[test]
fn keys_of_few_slots_do_not_crowd() {
    for spread in [Spread::All, Spread::Few, Spread::One, Spread::Hot] {
        for keys in [3_000, 100_000, 400_000] {
            let mut slotted = Slotted::new(spread, 1);
            (0..keys).for_each(|n| slotted.insert(n));
            let table = &slotted.table;
            let chunks = table
                .parts
                .iter()
                .flat_map(|p| &p.blocks)
                .flat_map(|b| b.iter());
            let passed: u64 = chunks.map(|chunk| u64::from(chunk.passed)).sum();
            let share = passed as f64 / f64::from(keys);
            assert!(
                share < 0.3,
                "{spread:?}, {keys} keys: {share:.2} chunks too far"
            );
            let largest = table.parts.iter().map(|part| part.len).max();
            assert!(
                largest < Some(8 * PART_MAX),
                "{spread:?}, {keys} keys: {largest:?}"
            );
            let bytes = table.memory() as f64 / f64::from(keys);
            assert!(
                bytes < 10.0,
                "{spread:?}, {keys} keys: {bytes:.1} bytes a key"
            );
        }
    }
}
