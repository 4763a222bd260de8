//! Passes random bytes to the reader of snapshots, to the reader of DUMP payloads, to the compact
//! encodings and to LZF.
//!
//! Properties: no reader panics. A snapshot has the same contents if it is read as a whole or in
//! blocks, and readable values can be skipped. A valid listpack or stream block has the same
//! elements in both directions, and after it is written and read again. Packed data unpack to the
//! same data.
#![no_main]

use libfuzzer_sys::fuzz_target;
use punctual_rdb::{
    Blocks, Contents, Dialect, Element, Event, Failure, Intset, Listpack, Node, Parts, Reader,
    Source, StreamPart, dump, listpack, lzf,
    stream::{Block, StreamId},
    ziplist::Ziplist,
};

/// A number of items and a checksum of the contents, to compare two ways of reading.
#[derive(Debug, Default, PartialEq)]
struct Tally {
    items: u64,
    sum: u64,
}

impl Tally {
    fn text(&mut self, text: &[u8]) {
        self.items += 1;
        for byte in text {
            self.sum = self.sum.wrapping_mul(31).wrapping_add(u64::from(*byte));
        }
    }

    fn element(&mut self, element: Element<'_>) {
        let mut text = Vec::new();
        element.write_text(&mut text);
        self.text(&text);
    }

    fn number(&mut self, number: u64) {
        self.text(&number.to_le_bytes());
    }

    fn listpack(&mut self, listpack: Listpack<'_>) {
        check_listpack(listpack);
        listpack.iter().for_each(|element| self.element(element));
    }

    fn contents<S: Source>(&mut self, contents: Contents<'_, S>) -> Result<(), Failure<S::Error>> {
        match contents {
            Contents::String(element) => self.element(element),
            Contents::List(mut nodes) => {
                while let Some(node) = nodes.next()? {
                    match node {
                        Node::Packed(listpack) => self.listpack(listpack),
                        Node::Plain(element) => self.element(element),
                    }
                }
            }
            Contents::Set(mut members) => {
                while let Some(member) = members.next()? {
                    self.element(member);
                }
            }
            Contents::SetIntset(set) => set.iter().for_each(|member| self.number(member as u64)),
            Contents::Hash(mut pairs) => {
                while let Some((field, value)) = pairs.next()? {
                    self.element(field);
                    self.element(value);
                }
            }
            Contents::HashExpiry(mut pairs) => {
                while let Some((field, value, expiry)) = pairs.next()? {
                    self.element(field);
                    self.element(value);
                    self.number(expiry.unwrap_or(-1) as u64);
                }
            }
            Contents::Zset(mut scored) => {
                while let Some((member, score)) = scored.next()? {
                    assert!(!score.is_nan());
                    self.element(member);
                    self.number(score.to_bits());
                }
            }
            Contents::SetListpack(listpack)
            | Contents::HashListpack(listpack)
            | Contents::HashExpiryListpack(listpack)
            | Contents::ZsetListpack(listpack) => self.listpack(listpack),
            Contents::Stream(parts) => self.stream(parts)?,
            Contents::OwnText(_, text) => self.element(text),
            Contents::OwnParts(_, mut parts) => {
                while let Some(part) = parts.next()? {
                    self.element(part);
                }
            }
        }
        Ok(())
    }

    fn id(&mut self, id: StreamId) {
        self.text(&id.to_be_bytes());
    }

    fn stream<S: Source>(&mut self, mut parts: Parts<'_, S>) -> Result<(), Failure<S::Error>> {
        while let Some(part) = parts.next()? {
            match part {
                StreamPart::Block(block) => {
                    check_block(&block);
                    for entry in block.entries() {
                        self.id(entry.id);
                        for (field, value) in entry.pairs() {
                            self.element(field);
                            self.element(value);
                        }
                    }
                }
                StreamPart::Totals(totals) => {
                    self.number(totals.length);
                    self.id(totals.first_id);
                    self.number(totals.added_up_to(totals.last_id).unwrap_or(0));
                }
                StreamPart::Group { name, last_id, .. } => {
                    self.element(name);
                    self.id(last_id);
                }
                StreamPart::Pending { id, deliveries, .. } => {
                    self.id(id);
                    self.number(deliveries);
                }
                StreamPart::Consumer { name, .. } => self.element(name),
                StreamPart::Owned { id, .. } => self.id(id),
            }
        }
        Ok(())
    }
}

fn check_listpack(listpack: Listpack<'_>) {
    let elements: Vec<_> = listpack.iter().collect();
    assert_eq!(elements.len(), listpack.count());
    let backwards: Vec<_> = listpack.iter().rev().collect();
    assert!(backwards.iter().rev().eq(&elements));

    let mut entries = Vec::new();
    for element in &elements {
        listpack::append(&mut entries, element.canonical());
    }
    let again = listpack::wrap(&entries, elements.len());
    let again = Listpack::new(&again).expect("written by ourselves");
    assert!(again.iter().eq(elements.iter().map(|e| e.canonical())));
}

fn check_block(block: &Block<&[u8]>) {
    let entries = || {
        block
            .entries()
            .map(|entry| (entry.id, entry.at, entry.pairs().count()))
    };
    let forwards: Vec<_> = entries().collect();
    assert_eq!(forwards.len(), block.live() + block.deleted());
    assert!(entries().rev().eq(forwards.iter().rev().copied()));
    assert_eq!(forwards.last().map(|entry| entry.0), Some(block.last_id()));

    // After deletions and an append, the block can still be read.
    let mut block = block.to_owned();
    for (_, at, _) in forwards {
        block.delete(at);
    }
    if block.last_id() < StreamId::MAX {
        block.append(StreamId::MAX, [(&b"field"[..], &b"1"[..])].into_iter());
    }
    let mut bytes = Vec::new();
    block.write_listpack(&mut bytes);
    let again = Block::read(block.id(), &bytes).expect("written by ourselves");
    assert!(again.to_owned() == block);
}

fn tally<S: Source>(mut reader: Reader<S>) -> Result<Tally, Failure<S::Error>> {
    let mut tally = Tally::default();
    loop {
        match reader.next()? {
            Event::Aux { name, text } => {
                tally.text(name);
                tally.text(text);
            }
            Event::SelectDb(db) => tally.number(db),
            Event::Key(record) => {
                tally.text(record.key);
                tally.number(record.meta.expire_ms.unwrap_or(-1) as u64);
                tally.contents(record.value.read()?)?;
            }
            Event::Library { code, .. } => tally.text(code),
            Event::Skipped(skipped) => tally.text(skipped.name),
            Event::End { .. } => return Ok(tally),
            _ => {}
        }
    }
}

fn skip<S: Source>(mut reader: Reader<S>) -> Result<(), Failure<S::Error>> {
    while !matches!(reader.next()?, Event::End { .. }) {}
    Ok(())
}

fuzz_target!(|data: &[u8]| {
    let Some((&block, data)) = data.split_first() else {
        return;
    };
    for deep in [false, true] {
        let reader = |source| Reader::new(source).deep(deep).verify_checksum(false);
        let whole = tally(reader(data));
        let mut rest = data;
        let fetch = |place: &mut [u8]| std::io::Read::read(&mut rest, place);
        let blocks = Blocks::new(usize::from(block), None, fetch);
        let pieces = tally(Reader::new(blocks).deep(deep).verify_checksum(false));
        match (&whole, &pieces) {
            (Ok(whole), Ok(pieces)) => {
                assert_eq!(whole, pieces);
                skip(reader(data)).expect("readable data can be skipped");
            }
            (Err(_), Err(_)) => {}
            _ => panic!("whole {whole:?}, in pieces {pieces:?}"),
        }
    }

    let _ = dump::Restore::new(data);
    for dialect in [Dialect::Redis, Dialect::Valkey] {
        let mut restore = dump::Restore::from_body(data, dialect);
        if let Ok(value) = restore.value()
            && let Ok(contents) = value.read()
        {
            let _ = Tally::default().contents(contents);
        }
    }

    if let Ok(listpack) = Listpack::new(data) {
        check_listpack(listpack);
    }
    if let Ok(block) = Block::read(StreamId { ms: 1, seq: 1 }, data) {
        check_block(&block);
    }
    if let Ok(ziplist) = Ziplist::new(data) {
        let mut out = Vec::new();
        ziplist
            .write_listpack(&mut out)
            .expect("no longer than this");
        let listpack = Listpack::new(&out).expect("written by ourselves");
        assert!(listpack.iter().eq(ziplist.iter().map(Element::canonical)));
    }
    if let Ok(intset) = Intset::new(data) {
        assert_eq!(intset.iter().count(), intset.len());
    }

    let mut packed = Vec::new();
    assert!(lzf::Packer::new().pack(data, usize::MAX / 2, &mut packed));
    let mut unpacked = Vec::new();
    lzf::unpack(&packed, data.len(), &mut unpacked).expect("packed by ourselves");
    assert_eq!(unpacked, data);
    let mut any = Vec::new();
    let _ = lzf::unpack(data, usize::from(block) * 16, &mut any);
});
