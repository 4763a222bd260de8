//! DEBUG LISTPACK, QUICKLIST and HTSTATS-KEY, which show the data structure of a value. The
//! container DEBUG is a command of the server.

use std::fmt::Write as _;

use punctual_rdb::listpack::{self, Element};
use punctual_resp::{Args, Reply};

use crate::error::Error;
use crate::hash_table::HashTable;
use crate::spec::{Flags, Group};
use crate::turn::{Command, Cx, Handler};
use crate::value::Value;
use crate::value::list::Piece;
use crate::value::set;
use crate::value::zset;

const fn row(name: &'static str, arity: i32, handler: Handler) -> Command {
    let flags = Flags::ADMIN.or(Flags::NOSCRIPT);
    Command::new(name, arity, flags, Group::Server, handler).keys(2, 2, 1)
}

/// DEBUG LISTPACK: the entries of a listpack.
pub const DEBUG_LISTPACK: Command = row("listpack", 3, debug_listpack);
/// DEBUG QUICKLIST: the nodes of a list.
pub const DEBUG_QUICKLIST: Command = row("quicklist", -3, debug_quicklist);
/// DEBUG HTSTATS-KEY: the hash table of a set, a hash or a sorted set.
pub const DEBUG_HTSTATS_KEY: Command = row("htstats-key", 3, debug_table);

fn value<'c>(cx: &'c mut Cx, key: &[u8]) -> Result<&'c Value, Error> {
    let id = cx.find(key).ok_or(Error::NoSuchKey)?;
    Ok(&cx.db_of(key).get(id).value)
}

fn debug_listpack(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let value = value(cx, &args[2])?;
    let packed = match value {
        Value::Set(set) => match set.view() {
            set::View::Packed(packed) => Some(packed.entries()),
            _ => None,
        },
        Value::Hash(hash) => hash.packed().map(|packed| packed.entries()),
        Value::Zset(zset) => zset.packed().map(|packed| packed.entries()),
        Value::List(list) if value.content().encoding() == "listpack" => {
            list.pieces().next().map(entries)
        }
        _ => None,
    };
    let entries = packed.ok_or(Error::fixed("ERR Not a listpack encoded object."))?;
    let mut text = String::new();
    write_entries(&mut text, entries);
    reply.verbatim("txt", text.as_bytes());
    Ok(())
}

fn debug_quicklist(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let full = args.get(3).is_some_and(|word| word != b"0");
    let Value::List(list) = value(cx, &args[2])? else {
        return Err(Error::fixed("ERR Not a quicklist encoded object."));
    };
    let mut text = format!(
        "{{count: {}}} {{nodes: {}}}\n",
        list.len(),
        list.pieces().count()
    );
    for (number, piece) in list.pieces().enumerate() {
        let (container, count) = match piece {
            Piece::Entries(_, count) => ("PACKED", count),
            Piece::Plain(_) => ("PLAIN", 1),
        };
        let bytes = entries(piece).len();
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "quicklist node({number}) {{container: {container}}} {{encoding: RAW}} {{size: {bytes}}} {{count: {count}}}"
        );
        match piece {
            Piece::Entries(entries, _) if full => write_entries(&mut text, entries),
            Piece::Plain(bytes) if full => {
                let _ = writeln!(text, "{}", bytes.escape_ascii());
            }
            _ => {}
        }
    }
    reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// Returns the bytes of a piece of a list (a node of Redis's quicklist).
fn entries(piece: Piece<'_>) -> &[u8] {
    match piece {
        Piece::Entries(bytes, _) | Piece::Plain(bytes) => bytes,
    }
}

fn write_entries(text: &mut String, entries: &[u8]) {
    let (mut at, mut count, mut lines) = (0, 0, String::new());
    while let Some((element, end)) = listpack::next(entries, at) {
        let _ = write!(
            lines,
            "{{index: {count}}} {{offset: {at}}} {{entry size: {}}} ",
            end - at
        );
        let _ = match element {
            Element::Int(int) => writeln!(lines, "[int]{int}"),
            Element::Bytes(bytes) => writeln!(lines, "[str]{}", bytes.escape_ascii()),
        };
        (at, count) = (end, count + 1);
    }
    let _ = writeln!(
        text,
        "{{total bytes: {}}} {{num entries: {count}}}",
        entries.len()
    );
    text.push_str(&lines);
}

fn debug_table(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let table = match value(cx, &args[2])? {
        Value::Set(set) => match set.view() {
            set::View::Table(table) => Some(table.members().index()),
            _ => None,
        },
        Value::Hash(hash) => hash.table().map(|table| table.keyed().index()),
        Value::Zset(zset) => match zset.view() {
            zset::View::Table(entries) => Some(entries.index()),
            zset::View::Packed(_) => None,
        },
        _ => None,
    };
    let (index, len) = table.ok_or(Error::fixed(
        "ERR The value stored at the specified key is not represented using an hash table",
    ))?;
    let text = match index {
        Some(index) => statistics(index, len),
        None => "No stats available for tables of a few elements, which have no index\n".to_owned(),
    };
    reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// Returns the statistics of a table. The table has no chains, so Redis's lines about chains are
/// missing.
fn statistics(index: &HashTable, len: usize) -> String {
    let slots = index.slots();
    format!(
        "Hash table 0 stats (main hash table):\n table size: {slots}\n number of elements: {len}\n filled: {:.2}\n bytes: {}\n",
        len as f64 / slots.max(1) as f64,
        index.memory(),
    )
}
