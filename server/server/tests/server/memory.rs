//! Freed memory returns to the operating system without MEMORY PURGE, for every command and loop.

use std::fs;
use std::io::{Read, Write};

use punctual_server::Server;

use crate::process::{Process, Start as _};
use crate::wire::{Open as _, Wire, eventually};

/// Maximum ratio of resident memory to resident memory after MEMORY PURGE.
const TOLERANCE: f64 = 1.2;
/// Number of commands sent in one write.
const BATCH: usize = 1_000;

fn info(wire: &mut Wire, name: &str) -> u64 {
    wire.info("memory", name).parse().unwrap()
}

/// Sends `count` numbered commands in batches, on each connection in turn. Each reply must be one
/// line.
fn send(wires: &mut [Wire], count: usize, command: impl Fn(usize) -> String) {
    let mut replies = vec![0; 64 << 10];
    for first in (0..count).step_by(BATCH) {
        let wire = &mut wires[first / BATCH % wires.len()];
        let numbers = first..count.min(first + BATCH);
        let mut waiting = numbers.len();
        let lines: Vec<String> = numbers.map(&command).collect();
        wire.stream
            .write_all((lines.join("\r\n") + "\r\n").as_bytes())
            .unwrap();
        while waiting > 0 {
            let len = wire.stream.read(&mut replies).unwrap();
            assert!(len > 0 && !replies[..len].contains(&b'-'));
            waiting -= replies[..len].iter().filter(|byte| **byte == b'\n').count();
        }
    }
}

/// Blocks until the thread that frees large values is idle, purges, and returns the resident memory
/// of the empty server in MiB.
fn purged_mib(server: &Process, wire: &mut Wire) -> f64 {
    /// Far above an empty server, and far below a full server.
    const EMPTY_MIB: f64 = 40.0;
    eventually(|| info(wire, "lazyfree_pending_objects") == 0);
    // MEMORY PURGE replies before the other threads have returned their free pages.
    eventually(|| {
        wire.expect(&["MEMORY PURGE"], "+OK|");
        server.resident_mib() < EMPTY_MIB
    });
    server.resident_mib()
}

fn check_memory_after_flush(threads: &str) {
    let server = Process::start(&["--threads", threads]);
    let mut wires: Vec<Wire> = (0..8).map(|_| Wire::to(server.port)).collect();
    let value = "x".repeat(100);
    let fill = |wires: &mut [Wire]| send(wires, 500_000, |n| format!("SET key:{n} {value}"));
    fill(&mut wires);
    // Each loop frees some blocks in pages of every other loop.
    send(&mut wires, 100_000, |n| {
        format!("SET key:{} {value}", n * 5)
    });
    wires[0].expect(&["FLUSHALL"], "+OK|");
    let used_mib = purged_mib(&server, &mut wires[0]);

    fill(&mut wires);
    assert!(server.resident_mib() > used_mib + 60.0);
    wires[0].expect(&["FLUSHALL"], "+OK|");
    server.wait_for_resident_mib(used_mib * TOLERANCE);
    server.stop();
}

/// Returns the memory of the process in huge pages, in MiB.
fn huge_mib(server: &Process) -> u64 {
    let maps = fs::read_to_string(format!("/proc/{}/smaps_rollup", server.id())).unwrap();
    let line = maps.lines().find_map(|l| l.strip_prefix("AnonHugePages:"));
    let kib = line.and_then(|l| l.trim().strip_suffix(" kB"));
    kib.unwrap().parse::<u64>().unwrap() / 1024
}

/// Returns whether this kernel makes huge pages on request: Linux 6.1 or later.
fn can_merge() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let numbers: Vec<u32> = release.split('.').map_while(|n| n.parse().ok()).collect();
    let modes = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    numbers >= vec![6, 1] && modes.is_ok_and(|modes| !modes.contains("[never]"))
}

/// Returns the number of times since its boot that the kernel found no free huge page.
fn refusals() -> u64 {
    let counters = fs::read_to_string("/proc/vmstat").unwrap();
    let mut count = counters
        .lines()
        .filter_map(|l| l.strip_prefix("thp_collapse_alloc_failed "));
    count.next().map_or(0, |n| n.parse().unwrap())
}

/// With a virtual clock, memory becomes huge pages only when the clock moves after the growth.
#[test]
fn memory_in_full_use_lies_in_huge_pages() {
    for (option, merges) in [("yes", true), ("no", false)] {
        let server = Process::start(&["--clock", "virtual", "--huge-pages", option]);
        let mut wires = [Wire::to(server.port)];
        send(&mut wires, 300_000, |n| format!("SET key:{n} {n}"));
        let (before, resident) = (huge_mib(&server), server.resident_mib());
        let refused = refusals();
        wires[0].run("CLOCK ADVANCE 1000");
        if !merges {
            // A purge is a round of its own, which does not merge either.
            wires[0].expect(&["MEMORY PURGE"], "+OK|");
            assert_eq!(huge_mib(&server), before);
        } else if can_merge() {
            eventually(|| {
                let merged = huge_mib(&server) >= before + 8;
                if !merged {
                    // Tries again what the kernel may have refused for a lock.
                    wires[0].expect(&["MEMORY PURGE"], "+OK|");
                }
                // On a machine without free huge pages nothing else can be seen.
                merged || refusals() > refused
            });
            let grown = server.resident_mib() / resident;
            assert!(grown < 1.05, "{grown}");
        }
        wires[0].expect(&["GET key:7"], "$1|7|");
        server.stop();
    }
}

#[test]
fn a_flush_returns_memory() {
    check_memory_after_flush("1");
}

#[test]
fn a_flush_returns_the_memory_of_all_loops() {
    check_memory_after_flush("4");
}

/// Fills and shrinks the dataset. The memory stays resident until the clock moves, and is then
/// returned.
fn check_memory_after_shrink(name: &str, fill: impl Fn(&mut [Wire]), shrink: &str) {
    let server = Process::start(&["--clock", "virtual"]);
    let mut wires = [Wire::to(server.port)];
    fill(&mut wires);
    wires[0].run(shrink);
    let used_mib = purged_mib(&server, &mut wires[0]);

    wires[0].run("FLUSHALL");
    fill(&mut wires);
    wires[0].run(shrink);
    eventually(|| info(&mut wires[0], "lazyfree_pending_objects") == 0);
    let held_mib = server.resident_mib();
    assert!(
        held_mib > used_mib * TOLERANCE,
        "{name}: {held_mib} of {used_mib}"
    );
    eventually(|| {
        wires[0].run("CLOCK ADVANCE 1000");
        server.resident_mib() <= used_mib * TOLERANCE
    });
    server.stop();
}

fn elements(command: &'static str, batches: usize) -> impl Fn(&mut [Wire]) {
    move |wires| {
        send(wires, batches, |n| {
            let names: String = (0..BATCH)
                .map(|i| format!(" element:{}", n * BATCH + i))
                .collect();
            format!("{command}{names}")
        });
    }
}

#[test]
fn every_command_that_frees_returns_memory() {
    let value = "x".repeat(200);
    let strings = |options: &'static str| {
        let value = value.clone();
        move |wires: &mut [Wire]| send(wires, 50_000, |n| format!("SET key:{n} {value}{options}"))
    };
    check_memory_after_shrink("unlink", elements("SADD s", 200), "UNLINK s");
    check_memory_after_shrink("del", elements("SADD s", 200), "DEL s");
    check_memory_after_shrink("spop", elements("SADD s", 200), "SPOP s 199990");
    check_memory_after_shrink("ltrim", elements("RPUSH l", 500), "LTRIM l 0 9");
    check_memory_after_shrink("flushdb", strings(""), "FLUSHDB SYNC");
    check_memory_after_shrink("flushall", strings(""), "FLUSHALL ASYNC");
    // The keys expire when the clock moves; the next second returns their memory.
    check_memory_after_shrink("expiry", strings(" PX 100"), "CLOCK ADVANCE 100");
}

#[test]
fn objects_dropped_by_the_worker_are_counted() {
    let server = Server::builder().port(0).spawn().unwrap();
    let mut wires = [Wire::open(&server)];
    elements("SADD s", 200)(&mut wires);
    send(&mut wires, 20_000, |n| format!("SET key:{n} v"));
    let [wire] = &mut wires;
    assert_eq!(info(wire, "lazyfreed_objects"), 0);
    assert_eq!(wire.int("UNLINK s"), 1);
    eventually(|| info(wire, "lazyfreed_objects") == 1);
    wire.expect(&["FLUSHALL ASYNC"], "+OK|");
    eventually(|| info(wire, "lazyfreed_objects") == 20_001);
    assert_eq!(info(wire, "lazyfree_pending_objects"), 0);
    wire.expect(&["CONFIG RESETSTAT"], "+OK|");
    assert_eq!(info(wire, "lazyfreed_objects"), 0);
}
