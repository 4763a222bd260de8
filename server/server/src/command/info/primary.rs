//! The replication section of INFO, and ROLE, as a primary shows them.

use std::sync::atomic::Ordering;

use punctual_resp::Reply;

use crate::config::Settings;
use crate::node::Shared;

/// Calls `line` with the fields of INFO that follow the role, in Redis's order.
pub(crate) fn fields(shared: &Shared, settings: &Settings, mut line: impl FnMut(&str, String)) {
    let replicas = shared.replication.replicas.all();
    line("connected_slaves", replicas.len().to_string());
    if settings.min_replicas_to_write > 0 && settings.min_replicas_max_lag_s > 0 {
        let good = shared.replication.replicas.good.load(Ordering::Acquire);
        line("min_slaves_good_slaves", good.to_string());
    }
    for (number, replica) in replicas.iter().enumerate() {
        let lag_s = match replica.is_online() {
            true => replica.lag_s(),
            false => 0,
        };
        line(
            &format!("slave{number}"),
            format!(
                "ip={},port={},state={},offset={},lag={lag_s}",
                replica.ip(),
                replica.peer.port,
                replica.state_name(),
                replica.acked(),
            ),
        );
    }
    let ids = shared.replication.ids();
    line(
        "master_failover_state",
        shared.replication.failover.state().to_owned(),
    );
    line("master_replid", ids.current.to_string());
    line("master_replid2", ids.second.to_string());
    line(
        "master_repl_offset",
        shared.replication.offset().to_string(),
    );
    line("second_repl_offset", ids.second_end.to_string());
    let stream = shared.replication.replicas.stream();
    let (first, len) = match &stream.backlog {
        Some(backlog) => (backlog.first(), backlog.len()),
        None => (0, 0),
    };
    line(
        "repl_backlog_active",
        u8::from(stream.backlog.is_some()).to_string(),
    );
    line("repl_backlog_size", settings.repl_backlog_size.to_string());
    line("repl_backlog_first_byte_offset", first.to_string());
    line("repl_backlog_histlen", len.to_string());
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
