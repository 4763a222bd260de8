//! `redis-cli --cluster fix`: slots that move on one side only, slots without an owner, slots with
//! keys in two nodes.

use punctual_cluster::slot;
use punctual_harness::Peer;

use super::Program;
use super::managed::{Managed, compare};

/// Slots of the first node.
const MOVES: u16 = 11;
const ARRIVES: u16 = 12;
const IS_OPEN: u16 = 13;
const HAS_TWO: u16 = 14;
const LONELY: u16 = 15;
const EMPTY: u16 = 16;

/// Sets keys of a slot at a node that does not own it, which must have been told to import it.
fn set_asking(managed: &mut Managed, at: usize, slot: u16, keys: std::ops::Range<u32>) {
    let tag = slot::tag(slot);
    for n in keys {
        managed.run(at, "ASKING");
        managed.run(at, &format!("SET {{{tag}}}:{n} {n}"));
    }
}

fn set(managed: &mut Managed, at: usize, slot: u16, keys: std::ops::Range<u32>) {
    let tag = slot::tag(slot);
    for n in keys {
        managed.run(at, &format!("SET {{{tag}}}:{n} {n}"));
    }
}

fn count(managed: &mut Managed, slot: u16) {
    for at in 0..managed.nodes.len() {
        let node = &mut managed.nodes[at];
        let keys = node.wire.int(&format!("CLUSTER COUNTKEYSINSLOT {slot}"));
        managed.note(&format!("slot {slot}, node {at}: {keys} keys"));
    }
}

/// Slots whose move has begun: on the source only, on the target only, and on both sides.
fn open_slots(programs: &[Program]) -> Option<String> {
    let mut managed = Managed::start(&programs[..3], &[(0, 5460), (5461, 10922), (10923, 16383)])?;
    // With keys at the source, which alone knows of the move.
    set(&mut managed, 0, MOVES, 0..3);
    managed.run(0, &format!("CLUSTER SETSLOT {MOVES} MIGRATING <b>"));
    managed.manage("fix <b:at>");
    managed.note_state();
    count(&mut managed, MOVES);

    // Keys have arrived at the target, and the source does not know of the move. The manager makes
    // the node with most keys the owner. If that were the target, the source would delete its keys
    // as soon as it sees the new owner; Valkey is often faster than the manager.
    set(&mut managed, 0, ARRIVES, 0..4);
    managed.run(1, &format!("CLUSTER SETSLOT {ARRIVES} IMPORTING <a>"));
    set_asking(&mut managed, 1, ARRIVES, 4..6);
    managed.manage("fix <a:at>");
    managed.note_state();
    count(&mut managed, ARRIVES);

    // The manager stopped in the middle of a move: the fix ends it.
    set(&mut managed, 0, IS_OPEN, 0..30);
    managed.run(1, &format!("CLUSTER SETSLOT {IS_OPEN} IMPORTING <a>"));
    managed.run(0, &format!("CLUSTER SETSLOT {IS_OPEN} MIGRATING <b>"));
    set_asking(&mut managed, 1, IS_OPEN, 30..32);
    managed.manage("fix <c:at>");
    managed.note_state();
    count(&mut managed, IS_OPEN);
    managed.manage("check <c:at>");
    Some(managed.transcript())
}

/// Slots that no node owns: with keys in two nodes, with keys in one node, without keys.
fn slots_without_owner(programs: &[Program]) -> Option<String> {
    let mut managed = Managed::start(&programs[..3], &[(0, 5460), (5461, 10922), (10923, 16383)])?;
    set(&mut managed, 0, HAS_TWO, 0..5);
    managed.run(1, &format!("CLUSTER SETSLOT {HAS_TWO} IMPORTING <a>"));
    // One key is in both nodes, with the same value.
    set_asking(&mut managed, 1, HAS_TWO, 4..6);
    managed.run(1, &format!("CLUSTER SETSLOT {HAS_TWO} STABLE"));
    set(&mut managed, 0, LONELY, 0..4);
    for at in 0..3 {
        // Otherwise the cluster is down for a while when it has all slots again, and refuses the
        // manager's MIGRATE.
        managed.run(at, "CONFIG SET cluster-require-full-coverage no");
    }
    for at in 0..3 {
        managed.run(at, &format!("CLUSTER DELSLOTS {HAS_TWO} {LONELY} {EMPTY}"));
    }
    managed.agree();
    managed.manage("fix <c:at>");
    // The node of the empty slot is chosen at random.
    managed.hide_choice(&format!("Covering slot {EMPTY} with"));
    for slot in [HAS_TWO, LONELY] {
        count(&mut managed, slot);
    }
    let tag = slot::tag(HAS_TWO);
    let value = managed.nodes[0].wire.text(&format!("GET {{{tag}}}:4"));
    managed.note(&value);
    for node in &mut managed.nodes {
        node.wait_for("cluster_slots_assigned:16384");
        node.wait_for("cluster_state:ok");
    }
    Some(managed.transcript())
}

/// The slots of a failed primary go to the others, if the operator insists.
fn failed_primary(programs: &[Program]) {
    let managed = Managed::start(programs, &[(0, 8000), (8001, 16380), (16381, 16383)]);
    let mut managed = managed.expect("redis-server is installed");
    drop(managed.nodes.remove(2));
    for node in &mut managed.nodes {
        node.wait_for("cluster_slots_fail:3");
    }
    managed.manage("fix <a:at> --cluster-fix-with-unreachable-masters");
    for node in &mut managed.nodes {
        node.wait_for("cluster_slots_ok:16384");
        node.wait_for("cluster_state:ok");
    }
}

#[test]
fn open_slots_are_closed_as_by_redis_7() {
    compare(Peer::Redis7, open_slots);
}

#[test]
fn open_slots_are_closed_as_by_redis_8() {
    compare(Peer::Redis8, open_slots);
}

#[test]
fn open_slots_are_closed_as_by_valkey_9() {
    compare(Peer::Valkey9, open_slots);
}

#[test]
fn slots_without_owner_get_one_as_by_redis_7() {
    compare(Peer::Redis7, slots_without_owner);
}

#[test]
fn slots_without_owner_get_one_as_by_redis_8() {
    compare(Peer::Redis8, slots_without_owner);
}

#[test]
fn slots_without_owner_get_one_as_by_valkey_9() {
    compare(Peer::Valkey9, slots_without_owner);
}

#[test]
fn slots_of_a_failed_primary_go_to_the_others() {
    let (ours, real) = (Program::Ours, Program::Real(Peer::Redis7));
    failed_primary(&[ours; 3]);
    failed_primary(&[ours, real, ours]);
    failed_primary(&[real, ours, real]);
}
