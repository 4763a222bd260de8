//! Wrong changes that the simulation (`tests/sim`) plants in the server, to test its checks.
//!
//! Without `--cfg sim_bug` no bug is ever active: [`Bug::is_active`] is the constant false, and the
//! compiler removes what depends on it. With the cfg, a number of the process selects one bug.

punctual_cluster::planted_bugs! {
    /// A wrong change. The first ones re-create defects that the server once had.
    pub enum Bug {
        /// A sync that fails after a failed write is ignored.
        FailedSyncIgnored,
        /// A start does not sync the append-only file that it has loaded.
        StartWithoutSync,
        /// A full synchronization beside a rewrite gives the manifest an entry without a file.
        EntryWithoutFile,
        /// The reply of a write does not wait until the write is in the append-only file.
        WriteNotHeld,
        /// The reply of a read does not wait until the change that it shows is in the file.
        ReadNotHeld,
        /// On a writable replica, keys that clients have written do not expire.
        LocalKeyStays,
        /// A primary that was frozen fires timers before it counts its replicas.
        FrozenPrimaryFires,
        /// A client that closes its connection stays in the queues of its blocked command.
        GoneClientServed,
        /// A promoted replica does not expire keys by itself.
        PromotedNeverExpires,
        /// A turn does not lock the shard of the stream of a rule of NOTIFY.
        RuleStreamUnlocked,
        /// The effect of a timer that has fired for the last time is not logged.
        FiringNotLogged,
        /// A lease of a job counts from the time at which the job was due.
        LeaseFromDueTime,
        /// The file is not cut back after a failed sync, and the lost writes are written again.
        RewindKeepsLost,
        /// A snapshot's walk does not write a record before the record changes.
        WalkMissesChange,
        /// A server continues a former history beyond the end that it knows.
        EndlessHistory,
        /// WAIT counts replicas that have not acknowledged.
        WaitCountsAll,
        /// A change does not raise the flags of clients that watch the key.
        WatchMissesChange,
        /// The effects of a transaction are not surrounded by MULTI and EXEC.
        TornTransaction,
        /// XACK is not logged.
        AckNotLogged,
        /// The log has the relative time of PEXPIRE.
        RelativeDeadlineLogged,
        /// The expiry of a key is not logged.
        ExpiryNotLogged,
        /// JOB ACK accepts any token.
        StaleTokenAccepted,
        /// The wheel does not count the entry of a deadline that was removed.
        EntryNotForgotten,
        /// A removed collection stays in the number of elements with a deadline.
        ElementsStayCounted,
        /// A slot that arrives is served without ASKING.
        AskingIgnored,
        /// MIGRATE deletes a key that the target has not accepted.
        DeletedUnaccepted,
    }
}

#[cfg(sim_bug)]
impl Bug {
    /// Bugs that only clusters show, at the end of [`Bug::ALL`].
    pub const OF_CLUSTERS: usize = 2;
}
