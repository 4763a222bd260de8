//! Publishing and subscribing.
//!
//! Messages and replies of a subscriber share one stream. Messages that were published before the
//! end of a subscription precede the reply to UNSUBSCRIBE, and no message follows it.

use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::command::help;
use punctual_store::spec::{Flags, Group};

use crate::node::call::{Call, ServerCommand, ServerHandler};
use crate::pubsub::Kind;

const LISTEN: Flags = Flags::PUBSUB
    .or(Flags::NOSCRIPT)
    .or(Flags::LOADING)
    .or(Flags::STALE)
    .or(Flags::SUBSCRIBER);
const SEND: Flags = Flags::PUBSUB
    .or(Flags::LOADING)
    .or(Flags::STALE)
    .or(Flags::FAST)
    .or(Flags::MAY_REPLICATE);
const LOOK: Flags = Flags::PUBSUB.or(Flags::LOADING).or(Flags::STALE);

punctual_store::family!(ServerHandler, Group::Pubsub, Flags::KEYLESS);

/// Rows of the commands in this file.
pub(crate) static COMMANDS: &[ServerCommand] = &[
    row("subscribe", -2, LISTEN, |c, a, r| subscribe(Kind::Channel, c, a, r))
        .since("2.0.0")
        .complexity("O(N) where N is the number of channels to subscribe to.")
        .summary("Listens for messages published to channels.")
        .syntax("channel ..."),
    row("psubscribe", -2, LISTEN, |c, a, r| subscribe(Kind::Pattern, c, a, r))
        .since("2.0.0")
        .complexity("O(N) where N is the number of patterns to subscribe to.")
        .summary("Listens for messages published to channels that match one or more patterns.")
        .syntax("pattern ..."),
    row("ssubscribe", -2, LISTEN, |c, a, r| subscribe(Kind::Shard, c, a, r))
        .keys(1, -1, 1)
        .access(&["not_key"])
        .since("7.0.0")
        .complexity("O(N) where N is the number of shard channels to subscribe to.")
        .summary("Listens for messages published to shard channels.")
        .syntax("shardchannel ..."),
    row("unsubscribe", -1, LISTEN, |c, a, r| unsubscribe(Kind::Channel, c, a, r))
        .since("2.0.0")
        .complexity("O(N) where N is the number of channels to unsubscribe.")
        .summary("Stops listening to messages posted to channels.")
        .syntax("[channel ...]"),
    row("punsubscribe", -1, LISTEN, |c, a, r| unsubscribe(Kind::Pattern, c, a, r))
        .since("2.0.0")
        .complexity("O(N) where N is the number of patterns to unsubscribe.")
        .summary(
            "Stops listening to messages published to channels that match one or more patterns.",
        )
        .syntax("[pattern ...]"),
    row("sunsubscribe", -1, LISTEN, |c, a, r| unsubscribe(Kind::Shard, c, a, r))
        .keys(1, -1, 1)
        .access(&["not_key"])
        .since("7.0.0")
        .complexity("O(N) where N is the number of shard channels to unsubscribe.")
        .summary("Stops listening to messages posted to shard channels.")
        .syntax("[shardchannel ...]"),
    row("publish", 3, SEND, publish)
        .since("2.0.0")
        .complexity(
            "O(N+M) where N is the number of clients subscribed to the receiving channel and M is the total number of subscribed patterns (by any client).",
        )
        .summary("Posts a message to a channel.")
        .syntax("channel message"),
    row("spublish", 3, SEND, spublish)
        .keys(1, 1, 1)
        .access(&["not_key"])
        .since("7.0.0")
        .complexity(
            "O(N) where N is the number of clients subscribed to the receiving shard channel.",
        )
        .summary("Posts a message to a shard channel.")
        .syntax("shardchannel message"),
    ServerCommand::container(
        "pubsub",
        Group::Pubsub,
        &[
            row("channels", -2, LOOK, |c, a, r| channels(Kind::Channel, c, a, r))
                .since("2.8.0")
                .complexity(
                    "O(N) where N is the number of active channels, and assuming constant time pattern matching (relatively short channels and patterns)",
                )
                .summary("Returns the active channels.")
                .syntax("[pattern]"),
            ServerCommand::help(Group::Pubsub, "6.2.0", |_, _, reply| help(reply, "PUBSUB", HELP)),
            row("numpat", 2, LOOK, num_pat)
                .since("2.8.0")
                .summary("Returns the number of distinct subscribed patterns."),
            row("numsub", -2, LOOK, |c, a, r| num_sub(Kind::Channel, c, a, r))
                .since("2.8.0")
                .complexity(
                    "O(N) for the NUMSUB subcommand, where N is the number of requested channels",
                )
                .summary("Returns the number of subscribers to channels.")
                .syntax("[channel ...]"),
            row("shardchannels", -2, LOOK, |c, a, r| channels(Kind::Shard, c, a, r))
                .since("7.0.0")
                .complexity(
                    "O(N) where N is the number of active shard channels, and assuming constant time pattern matching (relatively short shard channels).",
                )
                .summary("Returns the active shard channels.")
                .syntax("[pattern]"),
            row("shardnumsub", -2, LOOK, |c, a, r| num_sub(Kind::Shard, c, a, r))
                .since("7.0.0")
                .complexity(
                    "O(N) for the SHARDNUMSUB subcommand, where N is the number of requested shard channels",
                )
                .summary("Returns the number of subscribers to shard channels.")
                .syntax("[shardchannel ...]"),
        ],
    )
    .doc("2.8.0", "Depends on subcommand.", "A container for Pub/Sub commands."),
];

fn subscribe(kind: Kind, call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    if !call.session.separated {
        // While this client's commands run, the mailbox keeps its messages apart, so that
        // `confirm` can write them before its reply.
        call.session.separated = true;
        call.mailbox().separate(call.session.id, reply.out());
    }
    for topic in args.skip(1) {
        call.session
            .subscribe(&call.shared.clients.pubsub, kind, topic);
        reply.push(3);
        reply.bulk(kind.subscribed());
        reply.bulk(topic);
        reply.int(call.session.reported_subscriptions(kind) as i64);
    }
    call.session.ignore_reply_mode = true;
    Ok(())
}

fn unsubscribe(kind: Kind, call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    if args.len() > 1 {
        for topic in args.skip(1) {
            end(kind, topic, call, reply);
        }
    } else if call.session.topics(kind).is_empty() {
        confirm(kind, None, call, reply);
    } else {
        for topic in call.session.topics(kind).clone() {
            end(kind, &topic, call, reply);
        }
    }
    call.session.ignore_reply_mode = true;
    Ok(())
}

fn end(kind: Kind, topic: &[u8], call: &mut Call, reply: &mut Reply) {
    call.session
        .unsubscribe(&call.shared.clients.pubsub, kind, topic);
    confirm(kind, Some(topic), call, reply);
}

/// Confirms the end of a subscription, after all messages that were published before it.
fn confirm(kind: Kind, topic: Option<&[u8]>, call: &Call, reply: &mut Reply) {
    call.mailbox().take_separated(reply.out());
    call.session.confirm_end(kind, topic, reply);
}

/// Sends a message to the replicas, or in cluster mode to the other nodes.
fn propagate(call: &mut Call, args: Args, sharded: bool) {
    if let Some(cluster) = &call.shared.cluster {
        call.shared.in_cluster(cluster, |machine, _| {
            machine.publish(&args[1], &args[2], sharded);
        });
    } else {
        call.turn.effect_for_replicas(call.session.db, args.iter());
        call.session.has_written = true;
    }
}

fn publish(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    propagate(call, args, false);
    reply.int(call.shared.publish(&args[1], &args[2]) as i64);
    Ok(())
}

fn spublish(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    propagate(call, args, true);
    reply.int(call.shared.publish_shard(&args[1], &args[2]) as i64);
    Ok(())
}

fn channels(kind: Kind, call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    if args.len() > 3 {
        return Err(crate::command::replies::wrong_form("PUBSUB", args));
    }
    let topics = call.shared.clients.pubsub.topics(kind, args.get(2));
    reply.array(topics.len());
    for topic in &topics {
        reply.bulk(topic);
    }
    Ok(())
}

fn num_sub(kind: Kind, call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let topics = args.skip(2);
    reply.array(2 * topics.len());
    for topic in topics {
        reply.bulk(topic);
        reply.int(call.shared.clients.pubsub.listeners(kind, topic) as i64);
    }
    Ok(())
}

fn num_pat(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    reply.int(call.shared.clients.pubsub.topic_count(Kind::Pattern) as i64);
    Ok(())
}

const HELP: &[&str] = &[
    "CHANNELS [<pattern>]",
    "    Return the currently active channels matching a <pattern> (default: '*').",
    "NUMPAT",
    "    Return number of subscriptions to patterns.",
    "NUMSUB [<channel> ...]",
    "    Return the number of subscribers for the specified channels, excluding",
    "    pattern subscriptions(default: no channels).",
    "SHARDCHANNELS [<pattern>]",
    "    Return the currently active shard level channels matching a <pattern> (default: '*').",
    "SHARDNUMSUB [<shardchannel> ...]",
    "    Return the number of subscribers for the specified shard level channel(s)",
];
