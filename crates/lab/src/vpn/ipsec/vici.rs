//! vici, the configuration and control protocol of strongSwan's charon (strongSwan's
//! `src/libcharon/plugins/vici/README.md`): a stream of length-prefixed packets with a tree of sections, values and
//! lists.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;

/// Longest packet accepted; charon's own limit.
const MAX_PACKET_BYTES: u32 = 512 * 1024;
/// Deepest nesting accepted; charon's answers are shallow.
const MAX_DEPTH: usize = 16;

/// How often a waiting caller checks whether the run should stop.
const STOP_POLL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// Types of packets.
const COMMAND: u8 = 0;
const ANSWER: u8 = 1;
const UNKNOWN_COMMAND: u8 = 2;

/// Types of elements in a packet.
const SECTION_START: u8 = 1;
const SECTION_END: u8 = 2;
const KEY_VALUE: u8 = 3;
const LIST_START: u8 = 4;
const LIST_ITEM: u8 = 5;
const LIST_END: u8 = 6;

/// The value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    List(Vec<String>),
    Section(Section),
}

/// Keys and their values, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Section(Vec<(String, Value)>);

impl Section {
    /// Adds a value.
    pub(super) fn text(mut self, key: &str, value: impl Into<String>) -> Section {
        self.0.push((key.to_owned(), Value::Text(value.into())));
        self
    }

    /// Adds a list.
    pub(super) fn list(
        mut self,
        key: &str,
        items: impl IntoIterator<Item = impl Into<String>>,
    ) -> Section {
        let items = items.into_iter().map(Into::into).collect();
        self.0.push((key.to_owned(), Value::List(items)));
        self
    }

    /// Adds a section.
    pub(super) fn section(mut self, key: &str, section: Section) -> Section {
        self.0.push((key.to_owned(), Value::Section(section)));
        self
    }

    /// The text at `key`, if present.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find_map(|(name, value)| match value {
            Value::Text(text) if name == key => Some(text.as_str()),
            _ => None,
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        for (key, value) in &self.0 {
            match value {
                Value::Text(text) => {
                    out.push(KEY_VALUE);
                    write_name(key, out);
                    write_value(text, out);
                }
                Value::List(items) => {
                    out.push(LIST_START);
                    write_name(key, out);
                    for item in items {
                        out.push(LIST_ITEM);
                        write_value(item, out);
                    }
                    out.push(LIST_END);
                }
                Value::Section(section) => {
                    out.push(SECTION_START);
                    write_name(key, out);
                    section.write(out);
                    out.push(SECTION_END);
                }
            }
        }
    }
}

/// A connection to a charon.
pub(super) struct Client {
    stream: UnixStream,
}

impl Client {
    /// Uses a connected stream.
    pub(super) const fn new(stream: UnixStream) -> Client {
        Client { stream }
    }

    /// Sends a command and waits for its answer.
    ///
    /// # Errors
    /// charon's error, or a communication error.
    pub(super) fn ask(&mut self, command: &str, arguments: &Section) -> io::Result<Section> {
        self.give(command, arguments)?;
        self.answer()
    }

    /// See [`Client::ask`]; for slow commands: returns `None` as soon as `stop` is set, after which the client is
    /// unusable.
    ///
    /// # Errors
    /// See [`Client::ask`].
    pub(super) fn ask_unless(
        &mut self,
        stop: &AtomicBool,
        command: &str,
        arguments: &Section,
    ) -> io::Result<Option<Section>> {
        self.give(command, arguments)?;
        let limit = self.stream.read_timeout()?;
        let begun = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let mut stream = [PollFd::new(&self.stream, PollFlags::IN)];
            let come = retry_on_intr(|| poll(&mut stream, Some(&STOP_POLL)))?;
            // On a timeout, the read returns the error.
            if come > 0 || limit.is_some_and(|limit| begun.elapsed() > limit) {
                return self.answer().map(Some);
            }
        }
        Ok(None)
    }

    fn give(&mut self, command: &str, arguments: &Section) -> io::Result<()> {
        let mut packet = vec![COMMAND];
        write_name(command, &mut packet);
        arguments.write(&mut packet);
        self.stream
            .write_all(&(packet.len() as u32).to_be_bytes())?;
        self.stream.write_all(&packet)
    }

    fn answer(&mut self) -> io::Result<Section> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length);
        if length > MAX_PACKET_BYTES {
            return Err(garbled("a packet that is too long"));
        }
        let mut answer = vec![0; length as usize];
        self.stream.read_exact(&mut answer)?;
        match answer.split_first() {
            Some((&ANSWER, content)) => verdict(parse(content)?),
            Some((&UNKNOWN_COMMAND, _)) => Err(garbled("that it does not know the command")),
            _ => Err(garbled("a packet of an unexpected type")),
        }
    }
}

/// Converts an answer that reports failure to an error.
fn verdict(answer: Section) -> io::Result<Section> {
    if answer.get("success") == Some("no") {
        let reason = answer.get("errmsg").unwrap_or("without a reason");
        return Err(io::Error::other(reason.to_owned()));
    }
    Ok(answer)
}

fn garbled(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("it answered with {what}"),
    )
}

fn write_name(name: &str, out: &mut Vec<u8>) {
    let length = u8::try_from(name.len()).expect("names are ours and short");
    out.push(length);
    out.extend_from_slice(name.as_bytes());
}

fn write_value(value: &str, out: &mut Vec<u8>) {
    let length = u16::try_from(value.len()).expect("values are ours and short");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(value.as_bytes());
}

fn parse(bytes: &[u8]) -> io::Result<Section> {
    let mut rest = bytes;
    let section = parse_section(&mut rest, 0)?;
    if rest.is_empty() {
        Ok(section)
    } else {
        Err(garbled("more than a message"))
    }
}

/// Parses to the end of the section, or at top level to the end of the message.
fn parse_section(rest: &mut &[u8], depth: usize) -> io::Result<Section> {
    if depth > MAX_DEPTH {
        return Err(garbled("sections that are nested too deep"));
    }
    let mut section = Section::default();
    loop {
        let element = match rest.split_first() {
            None if depth == 0 => return Ok(section),
            None => return Err(cut_short()),
            Some((&element, after)) => {
                *rest = after;
                element
            }
        };
        match element {
            SECTION_START => {
                let key = take_name(rest)?;
                let inner = parse_section(rest, depth + 1)?;
                section.0.push((key, Value::Section(inner)));
            }
            SECTION_END if depth > 0 => return Ok(section),
            KEY_VALUE => {
                let key = take_name(rest)?;
                let value = take_value(rest)?;
                section.0.push((key, Value::Text(value)));
            }
            LIST_START => {
                let key = take_name(rest)?;
                let mut items = Vec::new();
                while take(rest, 1)? == [LIST_ITEM] {
                    items.push(take_value(rest)?);
                }
                section.0.push((key, Value::List(items)));
            }
            _ => return Err(garbled("an element that does not belong there")),
        }
    }
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> io::Result<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(length).ok_or_else(cut_short)?;
    *rest = after;
    Ok(taken)
}

fn take_name(rest: &mut &[u8]) -> io::Result<String> {
    let length = take(rest, 1)?[0];
    let name = take(rest, length.into())?;
    Ok(String::from_utf8_lossy(name).into_owned())
}

fn take_value(rest: &mut &[u8]) -> io::Result<String> {
    let length = take(rest, 2)?;
    let length = u16::from_be_bytes([length[0], length[1]]);
    let value = take(rest, length.into())?;
    Ok(String::from_utf8_lossy(value).into_owned())
}

fn cut_short() -> io::Error {
    garbled("half a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in vici's README.
    #[test]
    fn the_example_of_the_documentation() {
        let message = Section::default().text("key1", "value1").section(
            "section1",
            Section::default()
                .section("sub-section", Section::default().text("key2", "value2"))
                .list("list1", ["item1", "item2"]),
        );
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        let expected = b"\x03\x04key1\x00\x06value1\x01\x08section1\x01\x0bsub-section\
            \x03\x04key2\x00\x06value2\x02\x04\x05list1\x05\x00\x05item1\x05\x00\x05item2\x06\x02";
        assert_eq!(bytes, expected);
        assert_eq!(parse(&bytes).unwrap(), message);
        for length in 1..bytes.len() {
            // Any truncation gives an error or a shorter message, never a panic.
            let _ = parse(&bytes[..length]);
        }
        assert!(parse(&bytes[..bytes.len() - 1]).is_err());
        assert!(parse(&[SECTION_START, 0].repeat(1000)).is_err());
    }

    #[test]
    fn a_refusal_is_an_error_with_its_reason() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let mut answer = vec![ANSWER];
        Section::default()
            .text("success", "no")
            .text("errmsg", "no such thing")
            .write(&mut answer);
        there
            .write_all(&(answer.len() as u32).to_be_bytes())
            .unwrap();
        there.write_all(&answer).unwrap();
        let error = Client::new(here)
            .ask("initiate", &Section::default())
            .unwrap_err();
        assert_eq!(error.to_string(), "no such thing");
    }
}
