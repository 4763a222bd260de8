//! The fields of INFO's replication section that only a replica has, and ROLE on a replica.

use punctual_resp::Reply;

use crate::command::info::Page;
use crate::node::Shared;
use crate::observe::figures::Figure;
use crate::replication::upstream::Phase;

/// Adds these fields in Redis's order, if the server is a replica.
pub(super) fn info(page: &mut Page<'_, '_>) {
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
