//! Replies that several command families write.

use punctual_rdb::listpack::Element;
use punctual_resp::Reply;

use crate::error::Error;

/// Replies to `<container> HELP` as Redis does: a heading, `lines`, and the lines about HELP.
/// Never fails, so that it may end a handler.
pub fn help(reply: &mut Reply, container: &str, lines: &[&str]) -> Result<(), Error> {
    reply.array(lines.len() + 3);
    reply.simple(format!(
        "{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    ));
    for line in lines.iter().chain(&["HELP", "    Prints this help."]) {
        reply.simple(line);
    }
    Ok(())
}

/// Writes a text of a collection: an element, a name or a value.
#[inline]
pub(crate) fn reply_element(reply: &mut Reply, element: Element<'_>) {
    match element {
        Element::Bytes(text) => reply.bulk(text),
        Element::Int(int) => reply.bulk_int(int),
    }
}
