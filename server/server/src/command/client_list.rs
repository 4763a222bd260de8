//! CLIENT LIST, INFO and KILL: filters and descriptions of clients.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use punctual_store::Error;

use crate::acl::registry::Users;
use crate::client::line::{CallerState, write_line};
use crate::client::registry::{ClientInfo, ClientType};
use crate::node::call::Call;
use crate::node::order::Order;

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
        write_line(
            &mut lines,
            call.shared.commands.table(),
            info,
            now_ms,
            window_ms,
            caller,
        );
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
        None => all.registry.list(),
        Some(b"type") if args.len() == 4 => {
            let wanted = client_type(&args[3])?;
            let mut clients = all.registry.list();
            clients.retain(|c| c.client_type() == wanted);
            clients
        }
        Some(b"id") if args.len() > 3 => {
            let mut clients = Vec::new();
            for arg in args.skip(3) {
                let id = parse_i64(arg).ok_or(Error::fixed("ERR Invalid client ID"))?;
                clients.extend(u64::try_from(id).ok().and_then(|id| all.registry.get(id)));
            }
            clients
        }
        Some(_) => return Err(Error::Syntax),
    };
    write_lines(call, args, &clients, reply);
    Ok(())
}

/// Options of CLIENT KILL. A client is killed if it matches all of them.
struct Filter<'a> {
    id: Option<u64>,
    addr: Option<&'a [u8]>,
    laddr: Option<&'a [u8]>,
    kind: Option<ClientType>,
    /// Id of the user. A new user with the name of a deleted user has another id.
    user: Option<u64>,
    /// Minimum age in seconds.
    min_age_s: Option<u64>,
    skip_me: bool,
}

impl<'a> Filter<'a> {
    /// Parses pairs of an option and its value.
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
    // The old form has one address, which may be the caller's.
    let old = args.len() == 3;
    let filter = if old {
        Filter {
            addr: Some(args.at(2)),
            skip_me: false,
            ..Filter::parse(Args::EMPTY, &call.shared.clients.users)?
        }
    } else {
        Filter::parse(args.skip(2), &call.shared.clients.users)?
    };
    let me = call.session.id;
    let now_ms = call.now().read_ms();
    let mut killed = 0;
    for client in call.shared.clients.registry.list() {
        if !filter.matches(&client, me, now_ms) {
            continue;
        }
        killed += 1;
        if client.id == me {
            // The caller still gets its reply.
            call.session.closing = true;
        } else {
            call.shared.clients.registry.kill(&client);
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
