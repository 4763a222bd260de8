//! What the driver does to the simulated system: it starts and kills nodes, and is their clients.

use std::cell::Cell;

use punctual_server::log::{Level, Logger};

use crate::kernel::network::Address;
use crate::kernel::streams::EndId;
use crate::kernel::threads::State;
use crate::kernel::{DRIVER, Kernel, Nanos, NodeId};
use crate::{baton, usage, verdict};

thread_local! {
    /// Node of the next thread that this thread starts.
    static NEXT_NODE: Cell<Option<NodeId>> = const { Cell::new(None) };
}

/// Takes the node of the next thread, if it differs from the starting thread's node.
pub fn node_to_start() -> Option<NodeId> {
    NEXT_NODE.take()
}

/// Starts the first thread of a node.
pub fn start(node: NodeId, work: impl FnOnce() + Send + 'static) {
    NEXT_NODE.set(Some(node));
    with(|kernel| {
        kernel.nodes[node].life = usage::new_life();
        kernel.nodes[node].has_failed = false;
    });
    let thread = std::thread::Builder::new().name(format!("node-{node}"));
    drop(
        thread
            .spawn(work)
            .expect("the system has room for a thread"),
    );
}

/// Tells the driver that this node's server could not start, or has ended by itself. Only a failed
/// write or sync is a reason, and the server must have ended its threads and closed its sockets.
pub fn server_ended(node: NodeId) {
    let (has_failed, threads, open) = baton::enter(|kernel, me| {
        let threads = kernel.threads.iter().enumerate();
        let mut own = threads.filter(|(tid, thread)| thread.node == node && *tid != me);
        let runs = own.any(|(_, thread)| matches!(thread.state, State::Active | State::Waiting));
        let open = kernel.descriptors.shown_of(node);
        kernel.disks.forgive(node);
        kernel.ended_servers.push(node);
        kernel.wake_driver();
        (kernel.nodes[node].has_failed, runs, open)
    });
    if !has_failed || threads || !open.is_empty() {
        verdict::stop(&format!(
            "the server of node {node} has ended: failed files {has_failed}, threads left \
             {threads}, descriptors left {open}"
        ));
    }
}

/// Uses the simulated system.
pub fn with<R>(work: impl FnOnce(&mut Kernel) -> R) -> R {
    baton::enter(|kernel, _| work(kernel))
}

/// Returns the true time.
pub fn now() -> Nanos {
    with(|kernel| kernel.now)
}

/// Begins to connect a client to a node.
pub fn connect(node: NodeId, port: u16) -> EndId {
    with(|kernel| kernel.connect(DRIVER, Address { node, port }))
}

/// What a client finds at its end of a connection.
pub struct Found {
    pub bytes: Vec<u8>,
    pub connected: bool,
    /// The connection has ended.
    pub ended: bool,
}

/// Reads all bytes that have arrived at a client.
pub fn read(end: EndId) -> Found {
    with(|kernel| {
        let mut found = Found {
            bytes: Vec::new(),
            connected: kernel.end_ref(end).connected,
            ended: false,
        };
        loop {
            match kernel.receive(end, usize::MAX) {
                Ok(bytes) if bytes.is_empty() => found.ended = true,
                Ok(bytes) => {
                    found.bytes.extend(bytes);
                    continue;
                }
                Err(libc::EAGAIN) => {}
                Err(_) => found.ended = true,
            }
            return found;
        }
    })
}

/// Sends bytes of a client. Returns the number of bytes that were taken.
pub fn send(end: EndId, bytes: &[u8]) -> usize {
    with(|kernel| {
        kernel.count_call();
        kernel.send(end, bytes).unwrap_or(0)
    })
}

/// Returns a logger whose lines are printed with the trace.
pub fn logger(node: NodeId) -> Logger {
    if !with(|kernel| kernel.trace.prints) {
        return Logger::silent();
    }
    Logger::lines(Level::Notice, move |_, line| {
        with(|kernel| {
            let now = kernel.now;
            kernel.trace.tell(|| format!("log {node} {now} {line}"));
        });
    })
}

/// Closes a client's end.
pub fn close(end: EndId) {
    with(|kernel| kernel.close_end(end));
}

/// Returns the time since which the server no longer has its end of a client's connection, so that
/// it runs no more commands of the client. Returns `None` if the server has it.
pub fn gone_since(end: EndId) -> Option<Nanos> {
    with(|kernel| {
        let peer = kernel.end_ref(end.peer());
        match peer.connected {
            true => peer.closed.then_some(peer.closed_at),
            false => Some(kernel.now),
        }
    })
}

/// Blocks until an end of a client changes, at most until `until`. Returns the changed ends.
pub fn next(until: Nanos) -> Vec<EndId> {
    let changed = |kernel: &mut Kernel| std::mem::take(&mut kernel.network.changed);
    let found = with(changed);
    if !found.is_empty() {
        return found.into_iter().collect();
    }
    baton::wait(|kernel, me| {
        kernel.network.driver = Some(me);
        kernel.begin_wait(me, Some(until.max(kernel.now)));
    });
    with(changed).into_iter().collect()
}

impl Kernel {
    /// Wakes the driver, which waits for its clients.
    pub fn wake_driver(&mut self) {
        if let Some(tid) = self.network.driver.take() {
            self.wake(tid);
        }
    }
}
