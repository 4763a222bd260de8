//! The line for a client in CLIENT LIST.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use crate::acl::user::Identity;
use crate::client::registry::{ClientInfo, ClientType, REPLY_BUFFER, RecentPeak};
use crate::table::CommandTable;

/// Figures of the calling client that only its own loop can read.
#[derive(Clone, Copy, Default)]
pub(crate) struct CallerState {
    pub(crate) argument_bytes: u64,
    pub(crate) output_bytes: u64,
    pub(crate) output_capacity: u64,
    pub(crate) closing: bool,
}

/// Writes a client's line of CLIENT LIST, with Redis's fields in Redis's order.
///
/// All clients of a loop share an input buffer; a client has its own only while a command is
/// incomplete. So `qbuf` counts the bytes of this client, and `qbuf-free` is 0 without an own
/// buffer. Redis has a fixed reply buffer and a list
/// of further buffers; this server has one output buffer, whose first [`REPLY_BUFFER`] bytes are
/// shown as the fixed buffer, and the rest as the list.
pub(crate) fn write_line(
    line: &mut Vec<u8>,
    table: &CommandTable,
    info: &ClientInfo,
    now_ms: u64,
    peak_window_ms: u64,
    caller: CallerState,
) {
    let get = |n: &std::sync::atomic::AtomicU64| n.load(Ordering::Relaxed);
    let seconds = |since_ms: u64| now_ms.saturating_sub(since_ms) / 1000;
    let mut flags = String::new();
    let on = |flag: &std::sync::atomic::AtomicBool| flag.load(Ordering::Relaxed);
    let multi = info.multi.load(Ordering::Relaxed);
    let multi_bytes = get(&info.multi_bytes);
    let tracking = info.tracking.load(Ordering::Relaxed);
    for (letter, set) in [
        ('S', on(&info.replica)),
        ('O', on(&info.monitor)),
        ('M', on(&info.primary)),
        ('P', info.client_type() == ClientType::PubSub),
        ('x', multi >= 0),
        ('b', on(&info.waiting)),
        ('t', tracking & ClientInfo::TRACKING != 0),
        ('R', tracking & ClientInfo::BROKEN_REDIRECT != 0),
        ('B', tracking & ClientInfo::BCAST != 0),
        ('d', info.watch.get().is_some_and(|flag| flag.is_raised())),
        ('c', caller.closing),
        ('A', on(&info.killed)),
        ('U', info.unix),
        ('e', on(&info.no_evict)),
        ('T', on(&info.no_touch)),
    ] {
        if set {
            flags.push(letter);
        }
    }
    if flags.is_empty() {
        flags.push('N');
    }
    let output = get(&info.output_bytes).max(caller.output_bytes);
    let capacity = get(&info.output_capacity);
    let held =
        info.memory() + caller.argument_bytes + caller.output_capacity.saturating_sub(capacity);
    let capacity = capacity.max(caller.output_capacity);
    let peak = info
        .output_peak
        .get_within(now_ms, peak_window_ms)
        .max(output);
    let command = (info.last_command.load(Ordering::Relaxed) as usize)
        .checked_sub(1)
        .and_then(|id| table.name_of(id))
        .unwrap_or("NULL");
    let names = info.names.lock();
    let identity = info.user.lock().clone();
    let mut text = format!(
        "id={} addr={} laddr={} fd={} name=",
        info.id, info.addr, info.laddr, info.fd
    );
    line.extend_from_slice(text.as_bytes());
    line.extend_from_slice(&names.name);
    text.clear();
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        " age={} idle={} flags={flags} db={} sub={} psub={} ssub={} multi={multi} qbuf={} qbuf-free={} argv-mem={} \
         multi-mem={multi_bytes} rbs={} rbp={} obl={} oll={} omem={} tot-mem={held} events={} cmd={command} user=",
        seconds(info.created_ms),
        seconds(get(&info.seen_ms)),
        info.db.load(Ordering::Relaxed),
        info.channels.load(Ordering::Relaxed),
        info.patterns.load(Ordering::Relaxed),
        info.shard_channels.load(Ordering::Relaxed),
        get(&info.query_bytes),
        get(&info.query_free),
        caller.argument_bytes + info.argument_bytes(),
        capacity.min(REPLY_BUFFER),
        peak.min(REPLY_BUFFER),
        output.min(REPLY_BUFFER),
        u8::from(output > REPLY_BUFFER),
        output.saturating_sub(REPLY_BUFFER),
        if get(&info.output_bytes) > 0 {
            "rw"
        } else {
            "r"
        },
    );
    line.extend_from_slice(text.as_bytes());
    line.extend_from_slice(user_name(&identity));
    text.clear();
    let resp = info.resp.load(Ordering::Relaxed);
    let redirection = info.redirection();
    let _ = write!(text, " redir={redirection} resp={resp} lib-name=");
    line.extend_from_slice(text.as_bytes());
    line.extend_from_slice(&names.lib_name);
    line.extend_from_slice(b" lib-ver=");
    line.extend_from_slice(&names.lib_ver);
    line.push(b'\n');
}

/// Returns the name that CLIENT LIST shows.
fn user_name(user: &Identity) -> &[u8] {
    match user.id {
        0 => b"(superuser)",
        _ => &user.name,
    }
}

/// Returns a client's line of CLIENT LIST without the line end, for ACL LOG and the server's log.
pub(crate) fn line(table: &CommandTable, info: &ClientInfo, now_ms: u64) -> Vec<u8> {
    let mut line = Vec::new();
    let caller = CallerState::default();
    write_line(
        &mut line,
        table,
        info,
        now_ms,
        RecentPeak::WINDOW_MS,
        caller,
    );
    line.pop();
    line
}
