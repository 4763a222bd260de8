//! Replies to subcommands that change the table of nodes: they wait until the table is saved, so
//! that a killed server has lost nothing that it has acknowledged.

use std::sync::Arc;

use punctual_resp::Reply;
use punctual_store::Error;

use super::arguments::node;
use crate::node::call::Call;
use crate::node::order::Order;
use crate::node::waiting::finish;
use crate::session::Executing;

/// Replies with a simple string. The client waits for the save, and the loop serves other clients
/// meanwhile; in a transaction or a script the loop waits.
///
/// # Errors
/// The table cannot be saved, and the server stops.
pub(super) fn reply_when_saved(
    call: &mut Call,
    text: &str,
    reply: &mut Reply,
) -> Result<(), Error> {
    let cluster = node(call.shared)?;
    let may_wait = call.turn.may_wait();
    if !may_wait {
        cluster.saver.wait();
    }
    if cluster.saver.is_saved() {
        reply.simple(text);
        return Ok(());
    }
    if !may_wait {
        return Err(Error::fixed("ERR error saving the cluster node config"));
    }
    let (shared, loop_number) = (Arc::clone(call.shared), call.loop_number);
    let mut bytes = Vec::new();
    Reply::new(&mut bytes, call.session.protocol).simple(text);
    call.session.executing = Some(Executing::Wait(Box::new(move |waiter| {
        let Ok(cluster) = node(&shared) else {
            return;
        };
        // The cluster keeps this for ever if the save fails, so it must not own the server's state.
        let of_reply = Arc::downgrade(&shared);
        cluster.reply_when_saved(move || {
            if let Some(shared) = of_reply.upgrade() {
                finish(&shared, loop_number, &waiter, &bytes);
            }
        });
        // The table may have been saved meanwhile.
        shared.mailboxes[0].order(Order::Cluster);
    })));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};

    use parking_lot::Mutex;
    use punctual_harness::{Wire, eventually};

    use super::*;
    use crate::Server;
    use crate::world::disk::{Disk, Files};

    /// Files that are written over while a gate is open.
    struct Gated(Arc<Mutex<()>>);

    impl Files for Gated {
        fn overwrite(&self, path: &Path, bytes: &[u8], sync: bool) -> io::Result<()> {
            let _open = self.0.lock();
            Disk::default().overwrite(path, bytes, sync)
        }
    }

    /// Files that cannot be written over once this is true.
    struct Failing(Arc<AtomicBool>);

    impl Files for Failing {
        fn overwrite(&self, path: &Path, bytes: &[u8], sync: bool) -> io::Result<()> {
            match self.0.load(Ordering::SeqCst) {
                true => Err(io::Error::other("the disk fails")),
                false => Disk::default().overwrite(path, bytes, sync),
            }
        }
    }

    #[test]
    fn a_server_that_cannot_save_ends_and_frees_its_state() {
        let folder = tempfile::tempdir().unwrap();
        let fails = Arc::new(AtomicBool::new(false));
        let server = Server::builder()
            .port(0)
            .option("dir", folder.path().to_str().unwrap())
            .option("cluster-enabled", "yes")
            .disk(Disk::new(Arc::new(Failing(Arc::clone(&fails)))))
            .spawn()
            .unwrap();
        let shared = Arc::downgrade(server.shared());
        let mut operator = Wire::to(server.port());
        fails.store(true, Ordering::SeqCst);
        operator.send(&["CLUSTER ADDSLOTS 1"]);
        server.join();
        assert!(shared.upgrade().is_none(), "the reply waits for a save");
    }

    #[test]
    fn a_slow_save_delays_only_what_reveals_the_change() {
        let folder = tempfile::tempdir().unwrap();
        let gate = Arc::new(Mutex::new(()));
        let files = Gated(Arc::clone(&gate));
        let server = Server::builder()
            .port(0)
            .option("dir", folder.path().to_str().unwrap())
            .option("cluster-enabled", "yes")
            .option("threads", "2")
            .disk(Disk::new(Arc::new(files)))
            .spawn()
            .unwrap();
        let mut operators = [(); 3].map(|()| Wire::to(server.port()));
        let mut reader = Wire::to(server.port());
        let copies = ["save-0", "save-1", "save-2"].map(|ending| format!("nodes.conf.{ending}"));
        let is_saved = |slots: &str| {
            let read = |copy| fs::read_to_string(folder.path().join(copy)).unwrap();
            copies.iter().map(read).any(|copy| copy.contains(slots))
        };
        let closed = gate.lock();
        for (slot, operator) in operators.iter_mut().enumerate() {
            operator.send(&[format!("CLUSTER ADDSLOTS {slot}")]);
        }
        eventually(|| {
            let info = reader.text("CLUSTER INFO");
            info.contains("cluster_slots_assigned:3\r")
        });
        for operator in &mut operators {
            operator.expect_silence();
        }
        assert!(!is_saved(" 0-2\n"));
        drop(closed);
        for operator in &mut operators {
            operator.receive("+OK|");
        }
        assert!(is_saved(" 0-2\n"));
        // The loop waits for the save within a transaction.
        let lines = ["MULTI", "CLUSTER DELSLOTS 1", "CLUSTER BUMPEPOCH", "EXEC"];
        reader.expect(&lines, "+OK|+QUEUED|+QUEUED|*2|+OK|+BUMPED 1|");
        assert!(is_saved(" 0 2\n"));
        server.shutdown();
        let file = fs::read_to_string(folder.path().join("nodes.conf")).unwrap();
        assert!(file.contains(" 0 2\n"), "{file}");
    }
}
