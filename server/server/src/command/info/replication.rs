//! The fields of INFO's replication section, and ROLE.

use std::sync::atomic::Ordering;

use punctual_resp::Reply;

use crate::command::info::Page;
use crate::node::Shared;
use crate::observe::figures::Figure;
use crate::replication::upstream::Phase;

/// Adds the fields that only a replica has, in Redis's order.
pub(super) fn of_replica(page: &mut Page<'_, '_>) {
    let shared = page.shared;
    let Some(shown) = shared.replication.upstream.shown() else {
        return;
    };
    let settings = shared.settings();
    let replica = &settings.replica;
    let or_never = |seconds: Option<u64>| seconds.map_or(-1, |s| s as i64);
    let (syncs, offset) = (shown.phase == Phase::Transfer, shared.replication.offset());
    page.line("master_host", shown.primary.host);
    page.line("master_port", shown.primary.port);
    let up = shown.phase == Phase::Connected;
    page.line("master_link_status", Figure::Either(up, ["up", "down"]));
    page.line(
        "master_last_io_seconds_ago",
        or_never(shown.last_input_s.filter(|_| up)),
    );
    page.line("master_sync_in_progress", syncs);
    page.line("slave_read_repl_offset", offset);
    page.line("slave_repl_offset", offset);
    if syncs {
        let (total, read) = (shown.transfer.total, shown.transfer.read);
        let percent = read as f64 * 100.0 / total.max(1) as f64;
        page.line("master_sync_total_bytes", total);
        page.line("master_sync_read_bytes", read);
        page.line("master_sync_left_bytes", total as i64 - read as i64);
        page.line(
            "master_sync_perc",
            Figure::fixed(if total > 0 { percent } else { 0.0 }, 2),
        );
        page.line(
            "master_sync_last_io_seconds_ago",
            or_never(shown.last_input_s),
        );
    }
    if !up {
        page.line("master_link_down_since_seconds", or_never(shown.down_s));
    }
    page.gauge("slave_priority", replica.priority);
    page.line("slave_read_only", replica.read_only);
    page.line("replica_announced", replica.announced);
}

/// Writes the reply of ROLE for a replica. Returns false, and writes nothing, for a primary.
pub(crate) fn role_of_replica(shared: &Shared, reply: &mut Reply) -> bool {
    let Some(shown) = shared.replication.upstream.shown() else {
        return false;
    };
    reply.array(5);
    reply.bulk(b"slave");
    reply.bulk(shown.primary.host.as_bytes());
    reply.int(shown.primary.port.into());
    reply.bulk(shown.phase.name().as_bytes());
    let connected = shown.phase == Phase::Connected;
    let offset = shared.replication.offset() as i64;
    reply.int(if connected { offset } else { -1 });
    true
}

/// Adds the fields that every server has, in Redis's order.
pub(super) fn of_primary(page: &mut Page<'_, '_>) {
    let shared = page.shared;
    let settings = shared.settings();
    let replicas = shared.replication.replicas.all();
    page.gauge("connected_slaves", replicas.len());
    if settings.min_replicas_to_write > 0 && settings.min_replicas_max_lag_s > 0 {
        let good = shared.replication.replicas.good.load(Ordering::Acquire);
        page.line("min_slaves_good_slaves", good);
    }
    for (number, replica) in replicas.iter().enumerate() {
        let lag_s = match replica.is_online() {
            true => replica.lag_s(),
            false => 0,
        };
        let figures = Figure::parts([
            ("ip", replica.ip().to_owned().into()),
            ("port", replica.peer.port.into()),
            ("state", replica.state_name().into()),
            ("offset", replica.acked().into()),
            ("lag", lag_s.into()),
        ]);
        page.each("slave", number, figures);
    }
    let ids = shared.replication.ids();
    page.line("master_failover_state", shared.replication.failover.state());
    page.line("master_replid", ids.current.to_string());
    page.line("master_replid2", ids.second.to_string());
    page.gauge("master_repl_offset", shared.replication.offset());
    page.gauge("second_repl_offset", ids.second_end);
    let stream = shared.replication.replicas.stream();
    let (first, len) = match &stream.backlog {
        Some(backlog) => (backlog.first(), backlog.len()),
        None => (0, 0),
    };
    page.gauge("repl_backlog_active", stream.backlog.is_some())
        .named("repl_backlog_is_active");
    page.gauge("repl_backlog_size", settings.repl_backlog_size)
        .named("replication_backlog_bytes");
    page.gauge("repl_backlog_first_byte_offset", first);
    page.gauge("repl_backlog_histlen", len)
        .named("repl_backlog_history_bytes");
}

/// Writes the reply of ROLE on a primary.
pub(crate) fn role_of_primary(shared: &Shared, reply: &mut Reply) {
    let mut replicas = shared.replication.replicas.all();
    replicas.retain(|replica| replica.is_online());
    reply.array(3);
    reply.bulk(b"master");
    reply.int(shared.replication.offset() as i64);
    reply.array(replicas.len());
    for replica in replicas {
        reply.array(3);
        reply.bulk(replica.ip().as_bytes());
        reply.bulk(replica.peer.port.to_string().as_bytes());
        reply.bulk(replica.acked().to_string().as_bytes());
    }
}
