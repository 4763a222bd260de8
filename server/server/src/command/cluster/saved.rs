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
        let of_reply = Arc::clone(&shared);
        cluster.reply_when_saved(move || finish(&of_reply, loop_number, &waiter, &bytes));
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

    use parking_lot::Mutex;
    use punctual_harness::{Wire, eventually};

    use super::*;
    use crate::Server;
    use crate::world::disk::{Disk, Files, Output};

    /// Files that are written over while a gate is open.
    struct Gated(Disk, Arc<Mutex<()>>);

    impl Files for Gated {
        fn create(&self, path: &Path) -> io::Result<Box<dyn Output>> {
            self.0.create(path)
        }

        fn overwrite(&self, path: &Path, bytes: &[u8], sync: bool) -> io::Result<()> {
            let _open = self.1.lock();
            self.0.overwrite(path, bytes, sync)
        }

        fn append(&self, path: &Path) -> io::Result<Box<dyn Output>> {
            self.0.append(path)
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            self.0.rename(from, to)
        }

        fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
            self.0.link(from, to)
        }

        fn remove(&self, path: &Path) -> io::Result<()> {
            self.0.remove(path)
        }

        fn create_folder(&self, path: &Path) -> io::Result<()> {
            self.0.create_folder(path)
        }

        fn sync_folder(&self, path: &Path) -> io::Result<()> {
            self.0.sync_folder(path)
        }
    }

    #[test]
    fn a_slow_save_delays_only_what_reveals_the_change() {
        let folder = tempfile::tempdir().unwrap();
        let gate = Arc::new(Mutex::new(()));
        let files = Gated(Disk::default(), Arc::clone(&gate));
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
