//! Machines in a network in memory: partitions, freezes, kills, restarts with an old file.
//!
//! At each step: no slot has two owners in one epoch, and no node votes twice in one epoch. After
//! the network has healed: each slot is served again, and all views are equal.

mod net;
mod operator;

use net::{Net, TIMEOUT_MS};
use punctual_cluster::nodes::Flags;
use punctual_cluster::state::Takeover;
use punctual_harness::seed;

/// Maximum time from the healing of one partition until each slot is served.
const HEALED_MS: u64 = TIMEOUT_MS + 3_000;

#[test]
fn a_replica_replaces_a_killed_primary() {
    let mut net = Net::cluster(1, 3, 1);
    net.kill(0);
    let killed_ms = net.now_ms;
    while net.members[3].promotions == 0 {
        assert!(
            net.now_ms - killed_ms < 2 * TIMEOUT_MS + 2_000,
            "{}",
            net.view(3)
        );
        net.run(10);
    }
    net.run(1_000);
    assert!(net.serves_all());
    net.restart(0);
    net.run(HEALED_MS);
    net.assert_converged();
    let own = net.members[0].machine.nodes().own();
    assert_eq!(own.primary, Some(net.members[3].id));
}

#[test]
fn a_replica_migrates_to_a_primary_without_replicas() {
    let mut net = Net::cluster(3, 3, 2);
    // Primary 0 loses both of its replicas, which never return.
    net.kill(3);
    net.kill(6);
    net.run(3 * TIMEOUT_MS + 8_000);
    let replicas = |net: &Net, at: usize| {
        let id = net.members[at].id;
        let nodes = net.members[0].machine.nodes();
        nodes.working_replicas(id).count()
    };
    let counts: Vec<usize> = (0..3).map(|at| replicas(&net, at)).collect();
    assert_eq!(counts.iter().sum::<usize>(), 4, "{counts:?}");
    assert_eq!(counts[0], 1, "{counts:?}");
    net.run(20_000);
    assert_eq!(replicas(&net, 0), 1, "no further replica moves");
}

/// No replica migrates to a node that was a primary without replicas and is a replica now.
#[test]
fn no_replica_migrates_to_another_replica() {
    for seed in 0..4 {
        let mut net = Net::cluster(seed, 3, 2);
        let (old, new) = (net.members[0].id, net.members[3].id);
        let take_over = |net: &mut Net, at: usize| {
            let now_ms = net.now_ms;
            let machine = &mut net.members[at].machine;
            machine.fail_over(Takeover::Takeover, now_ms).unwrap();
            net.carry_out(at);
        };
        net.kill(6);
        net.groups[0] = 1;
        take_over(&mut net, 3);
        net.run(2_000);
        net.groups[0] = 0;
        while net.members[0].machine.nodes().own().primary != Some(new) {
            net.run(1);
        }
        take_over(&mut net, 0);
        net.run(8_000);
        for member in net.members.iter().filter(|member| member.alive) {
            let primary = member.machine.nodes().own().primary;
            assert_ne!(primary, Some(new), "seed {seed}:\n{}", net.view(0));
        }
        assert_eq!(net.members[3].machine.nodes().own().primary, Some(old));
    }
}

#[test]
fn the_replica_with_more_data_is_elected() {
    for seed in 0..8 {
        let mut net = Net::cluster(seed, 3, 2);
        // Replica 3 of primary 0 loses its stream before replica 6 does.
        net.groups[3] = 1;
        net.run(1_500);
        net.groups[3] = 0;
        net.kill(0);
        let limit_ms = net.now_ms + 3 * TIMEOUT_MS + 4_000;
        while net.members[3].promotions + net.members[6].promotions == 0 {
            assert!(net.now_ms < limit_ms);
            net.run(10);
        }
        assert_eq!(net.members[6].promotions, 1, "seed {seed}");
    }
}

/// Two replicas ask for votes in the same epoch. A voter has one vote in an epoch, so at most one
/// replica wins, and the slots of the other one keep their owner.
#[test]
fn two_elections_in_one_epoch_have_one_winner() {
    for seed in 0..6 {
        let mut net = Net::cluster(seed, 5, 1);
        let now_ms = net.now_ms;
        for at in [5, 6] {
            let machine = &mut net.members[at].machine;
            machine.fail_over(Takeover::Force, now_ms).unwrap();
        }
        net.carry_out(5);
        net.carry_out(6);
        net.run(4 * TIMEOUT_MS);
        assert!(net.members[5].promotions + net.members[6].promotions <= 1);
        net.assert_converged();
    }
}

#[test]
fn a_minority_serves_nothing_and_elects_nobody() {
    let mut net = Net::cluster(2, 3, 1);
    // One primary with its replica, alone.
    (net.groups[0], net.groups[3]) = (1, 1);
    net.run(6 * TIMEOUT_MS);
    assert!(!net.members[0].machine.is_ok());
    assert!(net.members.iter().all(|member| member.promotions == 0));
    net.heal();
    net.run(HEALED_MS);
    assert!(net.serves_all(), "{}", net.view(1));
    net.run(2 * TIMEOUT_MS);
    net.assert_converged();
}

#[test]
fn manual_failovers_swap_roles_without_a_failure() {
    for how in [Takeover::Agreed, Takeover::Force, Takeover::Takeover] {
        let mut net = Net::cluster(3, 3, 1);
        let now_ms = net.now_ms;
        net.members[3].machine.fail_over(how, now_ms).unwrap();
        net.carry_out(3);
        net.run(1_500);
        assert_eq!(net.members[3].promotions, 1, "{how:?}");
        assert!(net.serves_all());
        net.run(TIMEOUT_MS);
        net.assert_converged();
        let own = net.members[0].machine.nodes().own();
        assert_eq!(own.primary, Some(net.members[3].id), "{how:?}");
    }
}

/// The old primary has no slots, so no claim of the new one takes any from it.
#[test]
fn no_replica_follows_a_replica() {
    let mut net = Net::cluster(5, 3, 1);
    let (now_ms, id) = (net.now_ms, net.members[1].id);
    let machine = &mut net.members[0].machine;
    machine.flush_slots(now_ms);
    machine.replicate(id, now_ms).unwrap();
    net.carry_out(0);
    net.run(TIMEOUT_MS);
    let own = net.members[3].machine.nodes().own();
    assert_eq!(own.primary, Some(id));
}

/// A replica has no slots, and nodes have no link to a dead one.
#[test]
fn a_killed_replica_is_soon_failed_for_all() {
    for seed in 0..6 {
        let mut net = Net::cluster(seed, 3, 1);
        let id = net.members[4].id;
        net.kill(4);
        net.run(4 * TIMEOUT_MS);
        for member in net.members.iter().filter(|member| member.alive) {
            let node = member.machine.nodes().get(id).unwrap();
            assert!(node.flags.has(Flags::FAIL), "seed {seed}");
        }
    }
}

/// The voters would refuse a second vote for two node timeouts.
#[test]
fn a_second_failover_does_not_cancel_the_votes_of_the_first() {
    let mut net = Net::cluster(4, 3, 1);
    for how in [Takeover::Force, Takeover::Force, Takeover::Agreed] {
        let now_ms = net.now_ms;
        net.members[3].machine.fail_over(how, now_ms).unwrap();
        net.carry_out(3);
        net.run(1);
    }
    assert_eq!(net.members[3].promotions, 0);
    net.run(TIMEOUT_MS / 2);
    assert_eq!(net.members[3].promotions, 1);
}

/// A node that imports a slot does not follow claims to it. Its table has an owner that it must not
/// tell others.
#[test]
fn no_node_tells_the_old_owner_of_a_slot_that_arrives() {
    let mut net = Net::cluster(6, 3, 0);
    let now_ms = net.now_ms;
    let [a, b] = [0, 1].map(|at| net.members[at].id);
    net.members[2].machine.import_slot(0, b).unwrap();
    net.members[1].machine.import_slot(0, a).unwrap();
    for at in [1, 0] {
        let machine = &mut net.members[at].machine;
        machine.set_slot(0, b, true, now_ms).unwrap();
        net.carry_out(at);
    }
    net.run(TIMEOUT_MS);
    assert!(
        net.members[2]
            .machine
            .nodes()
            .get(a)
            .unwrap()
            .slots
            .contains(0)
    );
    // The new owner learns the new epoch of the old one from the third node.
    net.groups = vec![0, 1, 0];
    net.members[0].machine.bump_epoch(now_ms);
    net.carry_out(0);
    net.run(TIMEOUT_MS / 2);
    net.groups = vec![1, 0, 0];
    net.run(TIMEOUT_MS / 2);
    net.heal();
    net.run(TIMEOUT_MS);
    assert!(net.members[1].machine.nodes().own().slots.contains(0));
}

#[test]
fn one_partition_heals_within_the_bound() {
    let start = seed(&["PUNCTUAL_CLUSTER_SEED", "PUNCTUAL_SEED"]);
    for seed in start..start.wrapping_add(30) {
        let mut net = Net::cluster(seed, 3, 1 + (seed % 2) as usize);
        for at in 0..net.groups.len() {
            net.groups[at] = net.random.below(2) as usize;
        }
        let time_ms = net.random.below(6 * TIMEOUT_MS);
        net.run(time_ms);
        let groups = net.groups.clone();
        net.heal();
        net.run(HEALED_MS);
        assert!(
            net.serves_all(),
            "seed {seed}, {groups:?} {time_ms}:\n{}",
            net.view(0)
        );
        net.run(4 * TIMEOUT_MS);
        net.assert_converged();
    }
}

#[test]
fn views_converge_after_storms() {
    let start = seed(&["PUNCTUAL_CLUSTER_SEED", "PUNCTUAL_SEED"]);
    for seed in start..start.wrapping_add(20) {
        println!("seed {seed}");
        let mut net = Net::cluster(seed, 3, 2);
        for _ in 0..12 {
            let at = net.random.below(net.groups.len() as u64) as usize;
            let time_ms = net.random.below(3 * TIMEOUT_MS);
            match net.random.below(5) {
                0 => net.groups[at] = net.random.below(3) as usize,
                1 => net.members[at].frozen_until_ms = net.now_ms + time_ms,
                2 if net.members[at].alive => net.kill(at),
                3 if !net.members[at].alive => net.restart(at),
                _ => net.heal(),
            }
            net.run(time_ms);
        }
        net.heal();
        net.run(10 * TIMEOUT_MS + 5_000);
        net.assert_converged();
    }
}

#[test]
fn an_idle_node_wakes_only_for_its_packets() {
    let mut net = Net::cluster(5, 3, 1);
    let before: u64 = net.members.iter().map(|member| member.ticks).sum();
    net.run(60_000);
    let after: u64 = net.members.iter().map(|member| member.ticks).sum();
    let a_second = (after - before) as f64 / 60.0 / net.members.len() as f64;
    // One ping a second to a random node, and one to each of 5 nodes in half a timeout at most.
    assert!(a_second < 8.0, "{a_second} wake-ups a second");
}
