//! Commands of the operator that undo a configuration.

use punctual_cluster::NodeId;
use punctual_cluster::config::Config;
use punctual_cluster::packet::{PAUSED, Packet};
use punctual_cluster::slot::SlotSet;
use punctual_cluster::state::{Machine, OperatorError, Output, Replication, Settings, Takeover};

use crate::net::{Net, TIMEOUT_MS};

/// Creates a machine without slots and without other nodes.
fn alone() -> Machine {
    let mut number = 0;
    let random = move || {
        number += 1;
        number
    };
    let config = Config::of_new_node(NodeId::new([1; 20]), NodeId::new([2; 20]));
    Machine::new(Settings::default(), config, Box::new(random), 1_000)
}

#[test]
fn a_reset_leaves_a_new_node() {
    let mut net = Net::cluster(4, 3, 1);
    let now_ms = net.now_ms;
    // A replica that is reset softly keeps its ID and its epoch, and leaves its shard.
    let machine = &mut net.members[3].machine;
    let (id, shard) = (machine.nodes().own().id, machine.nodes().own().shard);
    let epoch = machine.current_epoch();
    machine.reset(false, now_ms);
    let own = machine.nodes().own();
    assert_eq!((own.id, machine.nodes().len()), (id, 1));
    assert!(own.is_primary() && own.slots.is_empty() && own.shard != shard);
    assert_eq!(machine.current_epoch(), epoch);
    assert!(machine.links().is_empty());
    let outputs: Vec<Output> = std::iter::from_fn(|| machine.poll()).collect();
    let closed = outputs
        .iter()
        .filter(|output| matches!(output, Output::Close(_)));
    assert_eq!(closed.count(), 10, "two connections to each other node");
    assert!(outputs.contains(&Output::Save { sync: true }));
    // A hard reset also takes another ID, and begins with epoch 0.
    let machine = &mut net.members[0].machine;
    let id = machine.nodes().own().id;
    machine.reset(true, now_ms);
    let own = machine.nodes().own();
    assert!(own.id != id && own.slots.is_empty() && own.config_epoch == 0);
    assert_eq!((machine.current_epoch(), machine.last_vote_epoch()), (0, 0));
    assert_eq!(machine.nodes().len(), 1);
    assert!(machine.is_connected(machine.nodes().own().id) && !machine.is_connected(id));
}

#[test]
fn slots_and_the_epoch_of_a_new_node_can_be_set_once() {
    let mut machine = alone();
    machine.set_config_epoch(7, 1_000).unwrap();
    assert_eq!(machine.current_epoch(), 7);
    let again = machine.set_config_epoch(8, 1_000);
    assert_eq!(again, Err(OperatorError::HasEpoch));
    let slots = SlotSet::from_iter([1, 2]);
    machine.add_slots(&slots, 1_000).unwrap();
    machine.flush_slots(1_000);
    assert!(machine.nodes().owned().is_empty());
    machine.meet("10.0.0.2", 1, 2, 1_000).unwrap();
    let met = machine.set_config_epoch(8, 1_000);
    assert_eq!(met, Err(OperatorError::NotAlone));
}

#[test]
fn a_slot_that_leaves_takes_its_primary_along() {
    let mut net = Net::cluster(5, 3, 0);
    let now_ms = net.now_ms;
    let (old, new) = (net.members[0].id, net.members[1].id);
    let slots: Vec<u16> = net.members[0].machine.nodes().own().slots.iter().collect();
    let (last, others) = slots.split_last().unwrap();
    for slot in others {
        net.members[1].machine.import_slot(*slot, old).unwrap();
        for at in [1, 0] {
            let machine = &mut net.members[at].machine;
            machine.set_slot(*slot, new, true, now_ms).unwrap();
        }
    }
    assert!(net.members[0].machine.nodes().own().is_primary());
    // With keys, the slot goes on leaving; without any, it has left.
    let machine = &mut net.members[0].machine;
    machine.migrate_slot(*last, new).unwrap();
    machine.set_slot(*last, old, false, now_ms).unwrap();
    assert_eq!(machine.moving_slots().0.len(), 1);
    machine.set_slot(*last, new, true, now_ms).unwrap();
    assert!(machine.moving_slots().0.is_empty());
    assert_eq!(machine.nodes().own().primary, Some(new));
    net.members[1].machine.import_slot(*last, old).unwrap();
    let machine = &mut net.members[1].machine;
    machine.set_slot(*last, new, true, now_ms).unwrap();
    net.carry_out(0);
    net.carry_out(1);
    net.run(10_000);
    net.assert_converged();
}

#[test]
fn links_and_packets_are_counted() {
    let net = Net::cluster(6, 3, 0);
    let machine = &net.members[0].machine;
    let links = machine.links();
    for other in &net.members[1..] {
        let of_node = links.iter().filter(|link| link.node == other.id);
        let mut directions: Vec<bool> = of_node.map(|link| link.dialed).collect();
        directions.sort_unstable();
        assert_eq!(directions, [false, true]);
    }
    let sent: Vec<&str> = machine.packets_sent().map(|(name, _)| name).collect();
    assert!(sent.starts_with(&["ping", "pong"]), "{sent:?}");
    let received: u64 = machine.packets_received().map(|(_, count)| count).sum();
    assert!(received > 10);
    assert_eq!(machine.failure_reports(net.members[1].id, net.now_ms), 0);
}

/// A primary takes a new epoch, and fails before its replica gets a packet with this epoch. The
/// voters send it to the replica.
#[test]
fn a_replica_with_an_old_epoch_is_told_the_new_one() {
    let mut net = Net::cluster(7, 3, 1);
    let now_ms = net.now_ms;
    net.groups[3] = 1;
    let (epoch, _) = net.members[0].machine.bump_epoch(now_ms + 1);
    net.carry_out(0);
    net.run(1_500);
    let primary = net.members[0].id;
    let knows = |net: &Net, at: usize| {
        net.members[at]
            .machine
            .nodes()
            .get(primary)
            .unwrap()
            .config_epoch
    };
    assert_eq!((knows(&net, 1), knows(&net, 3)), (epoch, 1));
    net.kill(0);
    net.groups[3] = 0;
    net.run(12 * TIMEOUT_MS);
    assert_eq!(net.members[3].promotions, 1, "{}", net.view(3));
    assert!(net.serves_all());
}

/// Otherwise the slot has no owner in this node's table, so this node serves nothing.
#[test]
fn a_slot_that_arrives_gets_the_elected_owner() {
    let mut net = Net::cluster(8, 3, 1);
    let (old, slot) = (net.members[0].id, 7);
    net.members[1].machine.import_slot(slot, old).unwrap();
    net.carry_out(1);
    net.kill(0);
    net.run(5 * TIMEOUT_MS);
    assert_eq!(net.members[3].promotions, 1);
    net.restart(0);
    net.run(TIMEOUT_MS + 3_000);
    let machine = &net.members[1].machine;
    let owner = machine.nodes().owner(slot).map(|node| node.id);
    assert_eq!(owner, Some(net.members[3].id), "{}", net.view(1));
    assert!(machine.is_ok() && machine.moving_slots().1.contains_key(&slot));
    net.assert_converged();
}

/// The owner with the greatest epoch takes no new one.
#[test]
fn the_end_of_an_import_is_saved_before_the_reply() {
    let mut net = Net::cluster(9, 3, 0);
    let now_ms = net.now_ms;
    let (old, new, slot) = (net.members[0].id, net.members[2].id, 7);
    let machine = &mut net.members[2].machine;
    machine.import_slot(slot, old).unwrap();
    while machine.poll().is_some() {}
    let epoch = machine.nodes().own().config_epoch;
    machine.set_slot(slot, new, true, now_ms).unwrap();
    assert_eq!(machine.nodes().own().config_epoch, epoch);
    assert_eq!(machine.poll(), Some(Output::Save { sync: true }));
}

/// A write that was admitted before the pause may still change the offset.
#[test]
fn the_offset_of_a_paused_primary_is_told_once_no_write_runs() {
    let mut net = Net::cluster(10, 3, 1);
    let now_ms = net.now_ms;
    let replica = &mut net.members[3].machine;
    replica.fail_over(Takeover::Agreed, now_ms).unwrap();
    let start: Vec<Output> = std::iter::from_fn(|| replica.poll()).collect();
    let Some(Output::Send { bytes, .. }) = start.first() else {
        panic!("{start:?}");
    };
    let primary = &mut net.members[0].machine;
    let link = primary.accepted("10.0.0.3", "", now_ms);
    primary.received(link, bytes, now_ms);
    let mut paused = Vec::new();
    let mut take = |machine: &mut Machine| {
        while let Some(output) = machine.poll() {
            if let Output::Send { bytes, .. } = output
                && let Some(header) = Packet::decode(&bytes).unwrap().header
                && header.message_flags & PAUSED != 0
            {
                paused.push(header.offset);
            }
        }
        paused.clone()
    };
    primary.tick(now_ms + 200);
    assert_eq!(take(primary), []);
    primary.set_replication(Replication {
        offset: 1 << 40,
        ..Replication::default()
    });
    primary.paused(now_ms + 300);
    assert_eq!(take(primary), [1 << 40]);
}
