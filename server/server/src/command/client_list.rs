//! CLIENT LIST, INFO and KILL: filters and descriptions of clients.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use punctual_store::Error;

use super::table;
use super::tracking::redirection;
use crate::acl::registry::Users;
use crate::acl::user::Identity;
use crate::client::registry::{ClientInfo, ClientType, REPLY_BUFFER, RecentPeak};
use crate::dispatch::call::Call;
use crate::net::order::Order;

/// State of the calling client that only its own loop can read.
#[derive(Clone, Copy, Default)]
struct CallerState {
    argument_bytes: u64,
    output_bytes: u64,
    output_capacity: u64,
    closing: bool,
}

/// Writes a client's line of CLIENT LIST: Redis's fields in Redis's order.
///
/// All clients of a loop share an input buffer: `qbuf` counts the bytes of this client, and `qbuf-free` is 0 unless the
/// client has its own buffer. Instead of Redis's fixed buffer and list there is one output buffer: its first
/// [`REPLY_BUFFER`] bytes are shown as the fixed buffer, the rest as the list.
fn write_line(
    line: &mut Vec<u8>,
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
        .and_then(|id| table().name_of(id))
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
    let redirection = redirection(info);
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

/// Returns a client's line of CLIENT LIST, for ACL LOG.
pub(crate) fn line(info: &ClientInfo, now_ms: u64) -> Vec<u8> {
    let mut line = Vec::new();
    let caller = CallerState::default();
    write_line(&mut line, info, now_ms, RecentPeak::WINDOW_MS, caller);
    line.pop();
    line
}

/// Writes the lines of some clients. The calling client's line includes its [`CallerState`].
fn write_lines(call: &Call, args: Args, clients: &[Arc<ClientInfo>], reply: &mut Reply) {
    let now_ms = call.now().read_ms();
    let window_ms = &call.shared.switches.output_peak_window_ms;
    let window_ms = window_ms.load(Ordering::Relaxed);
    let mut lines = Vec::new();
    for info in clients {
        let mut caller = CallerState::default();
        if info.id == call.session.id {
            caller = CallerState {
                argument_bytes: args.iter().map(|arg| arg.len() as u64).sum(),
                output_bytes: reply.len() as u64,
                output_capacity: reply.out().capacity() as u64,
                closing: call.session.closing,
            };
        }
        write_line(&mut lines, info, now_ms, window_ms, caller);
    }
    reply.verbatim("txt", &lines);
}

pub(super) fn info(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    write_lines(call, args, &[Arc::clone(&call.session.info)], reply);
    Ok(())
}

fn client_type(name: &[u8]) -> Result<ClientType, Error> {
    ClientType::parse(name).ok_or_else(|| Error::repeating("ERR Unknown client type '", name, "'"))
}

pub(super) fn list(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let all = &call.shared.clients;
    let option = args.get(2).map(<[u8]>::to_ascii_lowercase);
    let clients = match option.as_deref() {
        None => all.list(),
        Some(b"type") if args.len() == 4 => {
            let wanted = client_type(&args[3])?;
            let mut clients = all.list();
            clients.retain(|c| c.client_type() == wanted);
            clients
        }
        Some(b"id") if args.len() > 3 => {
            let mut clients = Vec::new();
            for arg in args.skip(3) {
                let id = parse_i64(arg).ok_or(Error::fixed("ERR Invalid client ID"))?;
                clients.extend(u64::try_from(id).ok().and_then(|id| all.get(id)));
            }
            clients
        }
        Some(_) => return Err(Error::Syntax),
    };
    write_lines(call, args, &clients, reply);
    Ok(())
}

/// Filter of CLIENT KILL.
struct Filter<'a> {
    id: Option<u64>,
    addr: Option<&'a [u8]>,
    laddr: Option<&'a [u8]>,
    kind: Option<ClientType>,
    /// Number of the user.
    user: Option<u64>,
    /// Minimum age in seconds.
    min_age_s: Option<u64>,
    skip_me: bool,
}

impl<'a> Filter<'a> {
    /// Parses pairs of option and value.
    fn parse(options: Args<'a>, users: &Users) -> Result<Self, Error> {
        let mut filter = Self {
            user: None,
            min_age_s: None,
            id: None,
            addr: None,
            laddr: None,
            kind: None,
            skip_me: true,
        };
        let mut at = 0;
        while at < options.len() {
            let value = options.get(at + 1).ok_or(Error::Syntax)?;
            match options.at(at).to_ascii_lowercase().as_slice() {
                b"id" => {
                    let id = parse_i64(value).and_then(|id| u64::try_from(id).ok());
                    filter.id = Some(
                        id.filter(|id| *id > 0)
                            .ok_or(Error::fixed("ERR client-id should be greater than 0"))?,
                    );
                }
                b"type" => filter.kind = Some(client_type(value)?),
                b"addr" => filter.addr = Some(value),
                b"laddr" => filter.laddr = Some(value),
                b"user" => {
                    let user = users
                        .get(value)
                        .ok_or_else(|| Error::repeating("ERR No such user '", value, "'"))?;
                    filter.user = Some(user.identity.id);
                }
                b"maxage" => {
                    let age = parse_i64(value)
                        .ok_or(Error::fixed("ERR maxage is not an integer or out of range"))?;
                    let age = u64::try_from(age).ok().filter(|age| *age > 0);
                    filter.min_age_s =
                        Some(age.ok_or(Error::fixed("ERR maxage should be greater than 0"))?);
                }
                b"skipme" => {
                    filter.skip_me = match value.to_ascii_lowercase().as_slice() {
                        b"yes" => true,
                        b"no" => false,
                        _ => return Err(Error::Syntax),
                    }
                }
                _ => return Err(Error::Syntax),
            }
            at += 2;
        }
        Ok(filter)
    }

    fn matches(&self, client: &ClientInfo, me: u64, now_ms: u64) -> bool {
        let age_s = now_ms.saturating_sub(client.created_ms) / 1000;
        self.min_age_s.is_none_or(|min| age_s >= min)
            && self.id.is_none_or(|id| client.id == id)
            && self.addr.is_none_or(|addr| client.addr.as_bytes() == addr)
            && self
                .laddr
                .is_none_or(|laddr| client.laddr.as_bytes() == laddr)
            && self.user.is_none_or(|user| client.user.lock().id == user)
            && self.kind.is_none_or(|kind| client.client_type() == kind)
            && !(self.skip_me && client.id == me)
    }
}

pub(super) fn kill(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    // The old form: one address, which may be the caller's.
    let old = args.len() == 3;
    let filter = if old {
        Filter {
            addr: Some(args.at(2)),
            skip_me: false,
            ..Filter::parse(Args::EMPTY, &call.shared.users)?
        }
    } else {
        Filter::parse(args.skip(2), &call.shared.users)?
    };
    let me = call.session.id;
    let now_ms = call.now().read_ms();
    let mut killed = 0;
    for client in call.shared.clients.list() {
        if !filter.matches(&client, me, now_ms) {
            continue;
        }
        killed += 1;
        if client.id == me {
            // The caller still gets its reply.
            call.session.closing = true;
        } else {
            call.shared.clients.kill(&client);
            call.shared.mailboxes[client.loop_number].order(Order::Kill {
                client: client.id,
                slot: client.slot,
            });
        }
        if old {
            break;
        }
    }
    match (old, killed) {
        (true, 0) => return Err(Error::fixed("ERR No such client")),
        (true, _) => reply.ok(),
        (false, _) => reply.int(killed),
    }
    Ok(())
}
