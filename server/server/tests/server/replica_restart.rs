//! A replica that restarts loads its snapshot, and continues its primary's stream from the position
//! of the snapshot.

use std::path::Path;

use punctual_server::Builder;

use crate::replication::{caught_up, follow};
use crate::wire::{Open as _, Wire, configured, run};

fn builder(folder: &Path) -> Builder {
    configured("save 3600 1000000|repl-diskless-sync-delay 0|replica-read-only no")
        .option("dir", folder.to_str().unwrap())
        .virtual_clock()
}

/// Follows a primary that has `due` and `kept` with a deadline of 1 ms, lets `local` write on the
/// replica, and restarts the replica with a later clock after `primary` has run on the primary.
/// Then compares the replica's keys and the number of full synchronizations.
fn restart(local: &[&str], primary: &[&str], keys: i64, syncs: &str) {
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = builder(theirs.path()).spawn().unwrap();
    let mut p = Wire::open(&server);
    p.expect(&["SET due v PX 1", "SET kept v PX 1"], "+OK|+OK|");
    let replica = follow(server.port(), builder(ours.path()));
    let mut r = Wire::open(&replica);
    caught_up(&mut p, &mut r);
    run(&mut r, local);
    r.send(&["SHUTDOWN"]);
    r.ends();
    drop(replica);
    run(&mut p, primary);
    // The replica's clock stands still at the time of its start.
    let replica = follow(server.port(), builder(ours.path()));
    let mut r = Wire::open(&replica);
    caught_up(&mut p, &mut r);
    p.run("SET seen v");
    caught_up(&mut p, &mut r);
    assert_eq!(r.int("EXISTS due kept seen"), keys);
    assert_eq!(r.int("DBSIZE"), p.int("DBSIZE"));
    assert_eq!(p.info("stats", "sync_full"), syncs);
}

#[test]
fn a_key_that_is_due_at_the_load_may_have_got_a_later_deadline() {
    restart(&[], &["PERSIST kept", "DEL due"], 2, "1");
}

/// Nobody would delete a local key after a restart, because a snapshot does not say which keys are
/// local.
#[test]
fn a_replica_with_local_keys_synchronizes_fully_after_a_restart() {
    restart(&["SET mine v PX 100000"], &["PERSIST kept"], 2, "2");
    // Without a deadline it is like any other key, as in Redis.
    restart(&["SET kept mine"], &["PERSIST kept"], 2, "1");
}
