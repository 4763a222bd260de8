//! Messages about the subkeys of keyspace events, the fields or members that an event is about, on
//! the four kinds of channels of Redis 8.8.
//!
//! A list of subkeys is `length:subkey,length:subkey`, so subkeys may contain any bytes. An event
//! with `|` has no message on the channels where `|` follows the event, and a key with a line feed
//! none on the channels where a line feed follows the key.

use punctual_store::events::Classes;

/// Channels whose messages contain the list of subkeys.
const LISTS: Classes =
    Classes::from_bits(Classes::SUBKEY_CHANNELS.bits() & !Classes::SUBKEYSPACEITEM.bits());

/// An event with at least one subkey.
#[derive(Clone, Copy)]
pub(super) struct Event<'a> {
    pub(super) db: usize,
    pub(super) name: &'a str,
    pub(super) key: &'a [u8],
    pub(super) subkeys: &'a [&'a [u8]],
}

/// Calls `send` with the channel and the payload of each message of an event, in Redis's order.
/// O(bytes of the messages).
pub(super) fn each_message(classes: Classes, event: Event<'_>, mut send: impl FnMut(&[u8], &[u8])) {
    let (name, key) = (event.name.as_bytes(), event.key);
    let followed = !event.name.contains('|');
    let (mut channel, mut payload) = (Vec::new(), Vec::new());
    let list = match classes.intersects(LISTS) {
        true => list(event.subkeys),
        false => Vec::new(),
    };
    if classes.contains(Classes::SUBKEYSPACE) && followed {
        write_channel(&mut channel, "__subkeyspace@", event.db, &[key]);
        send(&channel, &[name, b"|", &list].concat());
    }
    if classes.contains(Classes::SUBKEYEVENT) {
        write_channel(&mut channel, "__subkeyevent@", event.db, &[name]);
        write_counted(&mut payload, key);
        send(&channel, &[&payload, &b"|"[..], &list].concat());
    }
    if classes.contains(Classes::SUBKEYSPACEITEM) && !key.contains(&b'\n') {
        for subkey in event.subkeys {
            let rest = [key, b"\n", subkey];
            write_channel(&mut channel, "__subkeyspaceitem@", event.db, &rest);
            send(&channel, name);
        }
    }
    if classes.contains(Classes::SUBKEYSPACEEVENT) && followed {
        let rest = [name, b"|", key];
        write_channel(&mut channel, "__subkeyspaceevent@", event.db, &rest);
        send(&channel, &list);
    }
}

/// Returns `length:subkey,length:subkey`.
fn list(subkeys: &[&[u8]]) -> Vec<u8> {
    let bytes: usize = subkeys.iter().map(|subkey| subkey.len() + 8).sum();
    let mut list = Vec::with_capacity(bytes);
    for (n, subkey) in subkeys.iter().enumerate() {
        if n > 0 {
            list.push(b',');
        }
        write_counted(&mut list, subkey);
    }
    list
}

/// Writes the channel `<prefix><db>__:<rest>`.
pub(super) fn write_channel(channel: &mut Vec<u8>, prefix: &str, db: usize, rest: &[&[u8]]) {
    channel.clear();
    channel.reserve(64);
    channel.extend_from_slice(prefix.as_bytes());
    channel.extend_from_slice(itoa::Buffer::new().format(db).as_bytes());
    channel.extend_from_slice(b"__:");
    rest.iter().for_each(|part| channel.extend_from_slice(part));
}

/// Appends `length:text`.
fn write_counted(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(itoa::Buffer::new().format(text.len()).as_bytes());
    out.push(b':');
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the messages of an event in database 7, as `channel -> payload`.
    fn messages(letters: &str, name: &str, key: &[u8], subkeys: &[&[u8]]) -> Vec<String> {
        let classes = Classes::parse(letters.as_bytes()).unwrap();
        let mut all = Vec::new();
        let event = Event {
            db: 7,
            name,
            key,
            subkeys,
        };
        each_message(classes, event, |channel, payload| {
            let (channel, payload) = (channel.escape_ascii(), payload.escape_ascii());
            all.push(format!("{channel} -> {payload}"));
        });
        all
    }

    #[test]
    fn each_kind_of_channel_has_its_form() {
        let (key, subkeys): (_, [&[u8]; 4]) = (b"a|b,1:c", [b"f", b"", b"a|\n,2:\xff", b"f"]);
        let all = messages("hSTIVKE", "hset", key, &subkeys);
        assert_eq!(
            all,
            [
                r"__subkeyspace@7__:a|b,1:c -> hset|1:f,0:,7:a|\n,2:\xff,1:f",
                r"__subkeyevent@7__:hset -> 7:a|b,1:c|1:f,0:,7:a|\n,2:\xff,1:f",
                r"__subkeyspaceitem@7__:a|b,1:c\nf -> hset",
                r"__subkeyspaceitem@7__:a|b,1:c\n -> hset",
                r"__subkeyspaceitem@7__:a|b,1:c\na|\n,2:\xff -> hset",
                r"__subkeyspaceitem@7__:a|b,1:c\nf -> hset",
                r"__subkeyspaceevent@7__:hset|a|b,1:c -> 1:f,0:,7:a|\n,2:\xff,1:f",
            ]
        );
        let item = messages("I", "hset", b"k", &[b"f"]);
        assert_eq!(item, [r"__subkeyspaceitem@7__:k\nf -> hset"]);
        assert!(messages("hKE", "hset", key, &subkeys).is_empty());
    }

    #[test]
    fn ambiguous_channels_get_no_message() {
        let kinds = |name: &str, key: &[u8]| {
            let all = messages("STIV", name, key, &[b"f"]);
            let kind = |message: &String| message.split('@').next().unwrap()[2..].to_owned();
            all.iter().map(kind).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(kinds("a|b", b"k"), "subkeyevent subkeyspaceitem");
        assert_eq!(
            kinds("hset", b"k\n"),
            "subkeyspace subkeyevent subkeyspaceevent"
        );
    }
}
