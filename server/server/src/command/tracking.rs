//! CLIENT TRACKING, CACHING, GETREDIR and TRACKINGINFO: client-side caching.

use std::sync::atomic::Ordering;

use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use punctual_store::Error;

use crate::client::registry::ClientInfo;
use crate::node::call::Call;
use crate::session::tracking::{Mode, PrefixList};

/// Parses the options of CLIENT TRACKING.
fn parse(call: &Call, options: Args) -> Result<(Mode, PrefixList), Error> {
    let (mut mode, mut prefixes) = (Mode::default(), Vec::new());
    let mut at = 0;
    while let Some(option) = options.get(at) {
        let value = options.get(at + 1);
        match (option.to_ascii_lowercase().as_slice(), value) {
            (b"redirect", Some(value)) => {
                if mode.redirect != 0 {
                    return Err(Error::fixed(
                        "ERR A client can only redirect to a single other client",
                    ));
                }
                let id = parse_i64(value).ok_or(Error::NotInteger)?;
                let to = u64::try_from(id).ok();
                let to = to.and_then(|id| call.shared.clients.registry.get(id));
                mode.redirect = to.map(|to| to.id).ok_or(Error::fixed(
                    "ERR The client ID you want redirect to does not exist",
                ))?;
                at += 1;
            }
            (b"prefix", Some(value)) => {
                prefixes.push(value.into());
                at += 1;
            }
            (b"bcast", _) => mode.bcast = true,
            (b"optin", _) => mode.optin = true,
            (b"optout", _) => mode.optout = true,
            (b"noloop", _) => mode.noloop = true,
            _ => return Err(Error::Syntax),
        }
        at += 1;
    }
    Ok((mode, prefixes))
}

/// Returns the error for options that contradict each other or the client's mode, in Redis's order.
fn check(call: &Call, mode: &Mode, prefixes: &[Box<[u8]>]) -> Result<(), Error> {
    let refuse = |text| Err(Error::fixed(text));
    let tracking = call.session.tracking.as_deref().filter(|t| t.on);
    if !mode.bcast && !prefixes.is_empty() {
        return refuse("ERR PREFIX option requires BCAST mode to be enabled");
    }
    if tracking.is_some_and(|t| t.mode.bcast != mode.bcast) {
        return refuse(
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.",
        );
    }
    if mode.bcast && (mode.optin || mode.optout) {
        return refuse("ERR OPTIN and OPTOUT are not compatible with BCAST");
    }
    if mode.optin && mode.optout {
        return refuse("ERR You can't specify both OPTIN mode and OPTOUT mode");
    }
    let switches = |old: &Mode| (mode.optin && old.optout) || (mode.optout && old.optin);
    if tracking.is_some_and(|t| switches(&t.mode)) {
        return refuse(
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.",
        );
    }
    let overlap = |a: &[u8], b: &[u8]| a.starts_with(b) || b.starts_with(a);
    for (at, prefix) in prefixes.iter().enumerate() {
        let mut existing = tracking.into_iter().flat_map(|t| &t.prefixes);
        let mut provided = prefixes[at + 1..].iter();
        let (what, other) = if let Some(other) = existing.find(|old| overlap(old, prefix)) {
            ("an existing prefix", other)
        } else if let Some(other) = provided.find(|other| overlap(other, prefix)) {
            ("another provided prefix", other)
        } else {
            continue;
        };
        let parts: [&[u8]; 7] = [
            b"ERR Prefix '",
            prefix,
            b"' overlaps with ",
            what.as_bytes(),
            b" '",
            other,
            b"'. Prefixes for a single client must not overlap.",
        ];
        return Err(Error::Bytes(parts.concat().into()));
    }
    Ok(())
}

pub(super) fn tracking(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (mode, mut prefixes) = parse(call, args.skip(3))?;
    let shared = call.shared;
    match args[2].to_ascii_lowercase().as_slice() {
        b"on" => {
            check(call, &mode, &prefixes)?;
            if mode.bcast && prefixes.is_empty() {
                prefixes.push(Box::default());
            }
            shared
                .clients
                .trackers
                .begin(call.turn, call.session, mode, prefixes);
        }
        b"off" => shared.clients.trackers.end(&shared.store, call.session),
        _ => return Err(Error::Syntax),
    }
    reply.ok();
    Ok(())
}

pub(super) fn caching(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let tracking = call.session.tracking.as_deref().filter(|t| t.on);
    let Some(tracking) = tracking else {
        return Err(Error::fixed(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
        ));
    };
    match args[2].to_ascii_lowercase().as_slice() {
        b"yes" if tracking.mode.optin => {}
        b"no" if tracking.mode.optout => {}
        b"yes" => {
            return Err(Error::fixed(
                "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
            ));
        }
        b"no" => {
            return Err(Error::fixed(
                "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
            ));
        }
        _ => return Err(Error::Syntax),
    }
    call.session.set_caching(true);
    reply.ok();
    Ok(())
}

pub(super) fn get_redir(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    reply.int(call.session.info.redirection());
    Ok(())
}

pub(super) fn tracking_info(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let info = &call.session.info;
    let tracking = call.session.tracking.as_deref().filter(|t| t.on);
    let mut flags = vec!["off"];
    if let Some(tracking) = tracking {
        let mode = &tracking.mode;
        let broken = info.tracking.load(Ordering::Relaxed) & ClientInfo::BROKEN_REDIRECT != 0;
        flags = vec!["on"];
        let all = [
            ("bcast", mode.bcast),
            ("optin", mode.optin),
            ("caching-yes", mode.optin && tracking.caching),
            ("optout", mode.optout),
            ("caching-no", mode.optout && tracking.caching),
            ("noloop", mode.noloop),
            ("broken_redirect", broken),
        ];
        flags.extend(all.iter().filter(|(_, set)| *set).map(|(name, _)| name));
    }
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"redirect");
    reply.int(info.redirection());
    reply.bulk(b"prefixes");
    reply.array(tracking.map_or(0, |t| t.prefixes.len()));
    for prefix in tracking.into_iter().flat_map(|t| &t.prefixes) {
        reply.bulk(prefix);
    }
    Ok(())
}
