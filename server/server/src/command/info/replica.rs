//! What INFO and ROLE show of a replica's link.

use std::fmt::Display;

use punctual_resp::Reply;

use crate::node::Shared;
use crate::replication::upstream::Phase;

/// Writes the fields of INFO's section `replication` that only a replica has, in Redis's order. Returns false for a primary.
pub(crate) fn info(shared: &Shared, mut line: impl FnMut(&str, &dyn Display)) -> bool {
    let Some(shown) = shared.replication.upstream.shown() else {
        return false;
    };
    let settings = shared.settings();
    let replica = &settings.replica;
    let or_never = |seconds: Option<u64>| seconds.map_or(-1, |s| s as i64);
    let (syncs, offset) = (shown.phase == Phase::Transfer, shared.replication.offset());
    line("master_host", &shown.primary.host);
    line("master_port", &shown.primary.port);
    let up = shown.phase == Phase::Connected;
    line("master_link_status", &if up { "up" } else { "down" });
    line(
        "master_last_io_seconds_ago",
        &or_never(shown.last_input_s.filter(|_| up)),
    );
    line("master_sync_in_progress", &u8::from(syncs));
    line("slave_read_repl_offset", &offset);
    line("slave_repl_offset", &offset);
    if syncs {
        let (total, read) = (shown.transfer.total, shown.transfer.read);
        let percent = read as f64 * 100.0 / total.max(1) as f64;
        line("master_sync_total_bytes", &total);
        line("master_sync_read_bytes", &read);
        line("master_sync_left_bytes", &(total as i64 - read as i64));
        line(
            "master_sync_perc",
            &format_args!("{:.2}", if total > 0 { percent } else { 0.0 }),
        );
        line(
            "master_sync_last_io_seconds_ago",
            &or_never(shown.last_input_s),
        );
    }
    if !up {
        line("master_link_down_since_seconds", &or_never(shown.down_s));
    }
    line("slave_priority", &replica.priority);
    line("slave_read_only", &u8::from(replica.read_only));
    line("replica_announced", &u8::from(replica.announced));
    true
}

/// Writes the reply of ROLE for a replica. Returns false, and writes nothing, for a primary.
pub(crate) fn role(shared: &Shared, reply: &mut Reply) -> bool {
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
