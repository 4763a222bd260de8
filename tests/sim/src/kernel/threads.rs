//! Threads, and the addresses at which they wait.

use super::events::{Due, Event};
use super::{Kernel, Nanos, NodeId};
use crate::context::Context;

/// Number of a thread.
pub type Tid = usize;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs, or can run.
    Active,
    /// It waits, and is woken by a call of another thread, an event or its timeout.
    Waiting,
    /// Its function and the destructors of its variables have ended.
    Ended,
    /// Its node was killed.
    Killed,
}

/// Why a wait has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    Woken,
    TimedOut,
}

/// The state of a thread, and the reason for its last wake-up.
#[derive(Debug)]
pub struct Thread {
    pub node: NodeId,
    pub state: State,
    pub context: &'static Context,
    pub wake: Wake,
    /// Time at which the wait is over.
    until: Option<Due>,
    /// Place of the thread's event that comes first. Most waits are over before their time, so the
    /// event of an earlier wait also stands for a later time.
    filed: Option<Due>,
    /// Address at which the thread waits.
    address: Option<usize>,
    /// Threads that wait for the end of this thread.
    joining: Vec<Tid>,
    /// The C library's number of the thread.
    pub handle: u64,
}

impl Kernel {
    /// Adds a thread, which can run.
    pub fn add_thread(&mut self, node: NodeId, context: &'static Context) -> Tid {
        let tid = self.threads.len();
        self.threads.push(Thread {
            node,
            state: State::Waiting,
            context,
            wake: Wake::Woken,
            until: None,
            filed: None,
            address: None,
            joining: Vec::new(),
            handle: 0,
        });
        self.make_runnable(tid);
        tid
    }

    fn make_runnable(&mut self, tid: Tid) {
        let thread = &mut self.threads[tid];
        if thread.state != State::Waiting {
            return;
        }
        thread.state = State::Active;
        match &mut self.nodes[thread.node].frozen {
            Some(stopped) => stopped.push(tid),
            None => self.runnable.push(tid),
        }
    }

    /// Puts a thread into the state of waiting, at most until `until`.
    pub fn begin_wait(&mut self, tid: Tid, until: Option<Nanos>) {
        let thread = &mut self.threads[tid];
        thread.state = State::Waiting;
        thread.wake = Wake::Woken;
        thread.until = until.map(|at| self.events.reserve(at));
        if let Some(until) = thread.until
            && thread.filed.is_none_or(|filed| filed > until)
        {
            thread.filed = Some(until);
            self.events.file(until, Event::Timeout(tid));
        }
    }

    /// Lets a thread run later: it gives up the processor.
    pub fn give_up(&mut self, tid: Tid) {
        self.threads[tid].state = State::Waiting;
        self.make_runnable(tid);
    }

    /// Ends the wait of a thread.
    pub fn wake(&mut self, tid: Tid) {
        self.make_runnable(tid);
    }

    /// Ends a wait whose time is over.
    pub fn time_out(&mut self, tid: Tid, due: Due) {
        let thread = &mut self.threads[tid];
        if thread.filed != Some(due) {
            return;
        }
        thread.filed = None;
        let Some(until) = thread.until.filter(|_| thread.state == State::Waiting) else {
            return;
        };
        if until > due {
            thread.filed = Some(until);
            self.events.file(until, Event::Timeout(tid));
            return;
        }
        thread.wake = Wake::TimedOut;
        if let Some(address) = thread.address.take()
            && let Some(waiting) = self.futexes.get_mut(&address)
        {
            waiting.retain(|waiter| *waiter != tid);
        }
        self.make_runnable(tid);
    }

    /// Begins to wait at an address.
    pub fn wait_at(&mut self, tid: Tid, address: usize, until: Option<Nanos>) {
        self.threads[tid].address = Some(address);
        self.futexes.entry(address).or_default().push_back(tid);
        self.begin_wait(tid, until);
    }

    /// Wakes threads that wait at an address; the seed draws which. Returns their number.
    pub fn wake_at(&mut self, address: usize, max: usize) -> usize {
        let Some(mut waiting) = self.futexes.remove(&address) else {
            return 0;
        };
        let mut woken = 0;
        while woken < max && !waiting.is_empty() {
            let at = self.draws.index(waiting.len());
            let tid = waiting.remove(at).expect("the index is in range");
            self.threads[tid].address = None;
            self.make_runnable(tid);
            woken += 1;
        }
        if !waiting.is_empty() {
            self.futexes.insert(address, waiting);
        }
        woken
    }

    /// Ends a thread.
    pub fn end_thread(&mut self, tid: Tid) {
        let thread = &mut self.threads[tid];
        thread.state = State::Ended;
        for waiting in std::mem::take(&mut thread.joining) {
            self.make_runnable(waiting);
        }
    }

    /// Returns the thread with this number of the C library.
    pub fn find_thread(&self, handle: u64) -> Option<Tid> {
        // The C library reuses the numbers of ended threads.
        self.threads
            .iter()
            .rposition(|thread| thread.handle == handle)
    }

    pub fn has_ended(&self, tid: Tid) -> bool {
        self.threads[tid].state == State::Ended
    }

    /// Begins to wait for the end of a thread.
    pub fn begin_join(&mut self, tid: Tid, of: Tid) {
        self.threads[of].joining.push(tid);
        self.begin_wait(tid, None);
    }
}
