//! The fields of INFO's replication section that every server has, and ROLE on a primary.

use std::sync::atomic::Ordering;

use punctual_resp::Reply;

use crate::command::info::Page;
use crate::node::Shared;
use crate::observe::figures::Figure;

/// Adds these fields in Redis's order.
pub(super) fn info(page: &mut Page<'_, '_>) {
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
pub(crate) fn role(shared: &Shared, reply: &mut Reply) {
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
