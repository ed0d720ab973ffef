//! Finds PDUs in one direction of a captured connection, of whose bytes some may be missing.

use std::collections::BTreeMap;

use wansan_iscsi::wire::{BHS_BYTES, Bhs, Header, Opcode};

use super::login::{Digests, Login};

/// Bytes that come out of their order wait for those before them, so many and in so many pieces.
const MOST_WAITING_BYTES: usize = 1 << 18;
const MOST_WAITING: usize = 4096;
/// A header of which so much was captured tells what it is of, how long that is, and its tags (RFC 7143
/// §11.2).
const LEAST_HEADER_BYTES: usize = 24;
/// Where a header's lengths end, of its additional segments and of its data.
const LENGTHS_END: usize = 8;
/// Where the words of a header end that are MaxCmdSN, and before it the other sequence numbers.
const NUMBERS_END: usize = 36;
/// What goes on with a direction's sequence numbers is no further than this from the newest.
const NEAR: u32 = 1 << 12;
/// PDUs in a row tell where PDUs begin, in the bytes that follow a segment's beginning.
const PDUS_IN_A_ROW: usize = 3;
const MOST_PROBED_BYTES: usize = 1 << 18;
/// So many segments in which no PDU is found say that this is no iSCSI, if something else came the other way,
const MOST_SEARCHED: u64 = 256;
/// and so many if nothing did.
const MOST_SEARCHED_ALONE: u64 = 1 << 14;
/// A login's text is kept up to here (RFC 7143 §6.1 asks for as much).
const MOST_TEXT_BYTES: u64 = 8192;

/// A PDU's header, and where the PDU stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) bhs: Bhs,
    /// Where its first byte is in its direction's stream, from 0.
    pub(super) offset: u64,
    /// How long it is, with digests and padding.
    pub(super) length: u64,
    /// Whether its sequence numbers were captured; they are 0 otherwise.
    pub(super) has_numbers: bool,
}

/// What is known of the stream at its newest byte.
#[derive(Debug)]
enum State {
    /// It is not known where PDUs begin: what has been seen since a segment began, if one that
    /// begins as a PDU does.
    Searching { at: u64, seen: Vec<u8> },
    /// The next PDU's header comes.
    Header { at: u64, seen: Vec<u8> },
    /// The rest of a PDU comes; of a login's its text is kept.
    Rest { bytes: u64, text: Option<Text> },
}

/// The text of a Login PDU.
#[derive(Debug)]
struct Text {
    bhs: Bhs,
    bytes: Vec<u8>,
}

/// Finds PDUs in one direction.
#[derive(Debug)]
pub(super) struct Framing {
    /// Whether what it carries comes from the initiator, where that is known.
    requests: Option<bool>,
    /// Up to where the stream has come in order.
    next: u64,
    state: State,
    /// What came before its turn, by its place.
    waiting: BTreeMap<u64, (Vec<u8>, u64)>,
    waiting_bytes: usize,
    /// Segments in which no PDU could be found.
    searched: u64,
    /// The newest CmdSN and StatSN.
    numbers: Numbers,
    /// How often the next PDU began in bytes that are missing.
    hidden: u64,
    /// All PDUs are known from the first one up to the one that would begin here,
    whole_to: u64,
    /// and from here on; `u64::MAX` while it is not known where PDUs begin.
    whole_from: u64,
}

/// What PDUs of either direction say of CmdSN and of StatSN (RFC 7143 §4.2.2), as far as it was captured.
type Numbers = [Option<u32>; 2];

impl Framing {
    /// A stream that begins at place 0, where a PDU begins if the connection's beginning was seen.
    pub(super) fn new(is_beginning: bool) -> Framing {
        let state = match is_beginning {
            true => State::Header {
                at: 0,
                seen: Vec::new(),
            },
            false => State::Searching {
                at: 0,
                seen: Vec::new(),
            },
        };
        Framing {
            requests: None,
            next: 0,
            state,
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            searched: 0,
            numbers: [None, None],
            hidden: 0,
            whole_to: u64::MAX,
            whole_from: if is_beginning { 0 } else { u64::MAX },
        }
    }

    /// The same direction in the part of a capture that follows: PDUs are searched for again.
    pub(super) fn next_part(&self) -> Framing {
        Framing {
            requests: self.requests,
            numbers: self.numbers,
            ..Framing::new(false)
        }
    }

    /// How often a PDU began in bytes that are missing.
    pub(super) fn hidden(&self) -> u64 {
        self.hidden
    }

    /// Up to where, from its first PDU on, every PDU of the stream is known; `u64::MAX` where all are.
    pub(super) fn whole_to(&self) -> u64 {
        self.whole_to
    }

    /// From where on every PDU of the stream is known to its end; `u64::MAX` where that is not so.
    pub(super) fn whole_from(&self) -> u64 {
        self.whole_from
    }

    /// Segments in which PDUs were searched for and not found.
    pub(super) fn searched(&self) -> u64 {
        self.searched
    }

    /// Whether what came may be PDUs, of which too few are there to tell.
    fn may_be_pdus(&self) -> bool {
        matches!(&self.state, State::Searching { seen, .. } if !seen.is_empty())
    }

    /// A segment: `seen` of its `length` bytes are known.
    pub(super) fn feed(
        &mut self,
        login: &mut Login,
        place: u64,
        seen: &[u8],
        length: u64,
        found: &mut Vec<Found>,
    ) {
        if place > self.next {
            let is_new = !self.waiting.contains_key(&place);
            if is_new {
                self.waiting_bytes += seen.len();
                self.waiting.insert(place, (seen.to_vec(), length));
            }
            if self.waiting_bytes > MOST_WAITING_BYTES || self.waiting.len() > MOST_WAITING {
                self.miss(login, u64::MAX, found);
            }
            return;
        }
        self.take(login, place, seen, length, found);
        self.take_waiting(login, found);
    }

    /// The receiver has all up to `place`: what was not seen until now will not be.
    pub(super) fn acknowledged(&mut self, login: &mut Login, place: u64, found: &mut Vec<Found>) {
        while place > self.next {
            self.miss(login, place, found);
        }
    }

    /// The capture has ended.
    pub(super) fn finish(&mut self, login: &mut Login, found: &mut Vec<Found>) {
        while !self.waiting.is_empty() {
            self.miss(login, u64::MAX, found);
        }
    }

    /// Leaves out what is missing up to what waits, and no further than `end`.
    fn miss(&mut self, login: &mut Login, end: u64, found: &mut Vec<Found>) {
        let first = self.waiting.keys().next().copied();
        let to = first.map_or(end, |first| first.min(end));
        if to != u64::MAX {
            self.unknown(login, to - self.next, found);
        }
        self.take_waiting(login, found);
    }

    fn take_waiting(&mut self, login: &mut Login, found: &mut Vec<Found>) {
        while let Some(first) = self.waiting.first_entry() {
            if *first.key() > self.next {
                return;
            }
            let (place, (seen, length)) = first.remove_entry();
            self.waiting_bytes -= seen.len();
            self.take(login, place, &seen, length, found);
        }
    }

    /// The next bytes, or some that have come before.
    fn take(
        &mut self,
        login: &mut Login,
        place: u64,
        seen: &[u8],
        length: u64,
        found: &mut Vec<Found>,
    ) {
        let old = self.next - place;
        if old >= length {
            return;
        }
        let mut seen = seen.get(old as usize..).unwrap_or(&[]);
        let cut_off = length - old - seen.len() as u64;
        if let State::Searching { at, seen: probed } = &mut self.state
            && probed.is_empty()
        {
            *at = self.next;
            self.searched += 1;
            let before = match self.fills(login, seen, length - old) {
                true => Some(0),
                false => {
                    // Bytes before a header, and in it, may look like one with the words beside its numbers.
                    let headers = (0..seen.len())
                        .filter_map(|at| Some((self.apart(&seen[at..], at == 0)?, at)));
                    headers.min().map(|(_, at)| at)
                }
            };
            if let Some(before) = before {
                self.next += before as u64;
                self.searched = 0;
                seen = &seen[before..];
                self.await_header();
            }
        }
        self.known(login, seen, found);
        self.unknown(login, cut_off, found);
    }

    /// Bytes that nobody has seen.
    fn unknown(&mut self, login: &mut Login, bytes: u64, found: &mut Vec<Found>) {
        if bytes == 0 {
            return;
        }
        if let State::Header { at, seen } = &self.state
            && seen.len() >= LEAST_HEADER_BYTES
        {
            let (at, known) = (*at, seen.len());
            let mut bhs = [0; BHS_BYTES];
            bhs[..known].copy_from_slice(seen);
            self.header(login, at, bhs, known, found);
        } else if let State::Header { at, seen } = &self.state
            && seen.len() >= LENGTHS_END
        {
            // What it is remains unknown, but not where the next one begins.
            let (at, known) = (*at, seen.len() as u64);
            let mut bhs = [0; BHS_BYTES];
            bhs[..LENGTHS_END].copy_from_slice(&seen[..LENGTHS_END]);
            self.lose(at);
            let bytes = pdu_bytes(&bhs, login.digests()) - known;
            self.state = State::Rest { bytes, text: None };
        }
        let from = self.next;
        self.next += bytes;
        match &mut self.state {
            State::Rest { bytes: left, text } if *left >= bytes => {
                *left -= bytes;
                *text = None;
                if *left == 0 {
                    self.await_header();
                }
            }
            State::Searching { .. } => self.search(),
            State::Header { .. } | State::Rest { .. } => {
                self.lose(from);
                self.search();
            }
        }
    }

    /// A PDU that begins at `from`, or soon after, is not known.
    fn lose(&mut self, from: u64) {
        self.hidden += 1;
        self.whole_to = self.whole_to.min(from);
        self.whole_from = u64::MAX;
    }

    /// The next byte is a PDU's first.
    fn await_header(&mut self) {
        self.state = State::Header {
            at: self.next,
            seen: Vec::new(),
        };
    }

    fn search(&mut self) {
        self.state = State::Searching {
            at: self.next,
            seen: Vec::new(),
        };
    }

    fn known(&mut self, login: &mut Login, mut bytes: &[u8], found: &mut Vec<Found>) {
        while !bytes.is_empty() {
            let used = match &mut self.state {
                State::Searching { at, seen } => {
                    seen.extend_from_slice(bytes);
                    let (at, count) = (*at, bytes.len());
                    self.next += count as u64;
                    self.probe(login, at, found);
                    count
                }
                State::Header { at, seen }
                    if seen.is_empty()
                        && let Some(bhs) = bytes.first_chunk::<BHS_BYTES>() =>
                {
                    let at = *at;
                    self.next += BHS_BYTES as u64;
                    self.header(login, at, *bhs, BHS_BYTES, found);
                    BHS_BYTES
                }
                State::Header { at, seen } => {
                    let count = bytes.len().min(BHS_BYTES - seen.len());
                    seen.extend_from_slice(&bytes[..count]);
                    self.next += count as u64;
                    if let Some(bhs) = seen.first_chunk::<BHS_BYTES>().copied() {
                        let at = *at;
                        self.header(login, at, bhs, BHS_BYTES, found);
                    }
                    count
                }
                State::Rest { bytes: left, text } => {
                    let count = bytes
                        .len()
                        .min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= count as u64;
                    self.next += count as u64;
                    if let Some(text) = text {
                        text.bytes.extend_from_slice(&bytes[..count]);
                    }
                    if *left == 0 {
                        if let Some(text) = text {
                            login.read(&text.bhs, &text.bytes);
                        }
                        self.await_header();
                    }
                    count
                }
            };
            bytes = &bytes[used..];
        }
    }

    /// A header has come, of which `known` bytes were captured.
    fn header(
        &mut self,
        login: &mut Login,
        at: u64,
        bhs: Bhs,
        known: usize,
        found: &mut Vec<Found>,
    ) {
        if !self.is_header(&bhs, known) {
            self.lose(at);
            self.search();
            return;
        }
        if self.whole_from == u64::MAX {
            self.whole_from = at;
        }
        let opcode = Opcode::from_wire(bhs[0] & 0x3f);
        let is_login = matches!(opcode, Opcode::LoginRequest | Opcode::LoginResponse);
        // Digests begin with the full-feature phase (RFC 7143 §6.3).
        let digests = if is_login {
            Digests::default()
        } else {
            login.digests()
        };
        let length = pdu_bytes(&bhs, digests);
        self.requests = Some(is_request(&bhs));
        go_on(&mut self.numbers, numbers(&bhs, known));
        found.push(Found {
            bhs,
            offset: at,
            length,
            has_numbers: known >= NUMBERS_END,
        });
        let rest = length - known as u64;
        if rest == 0 {
            if is_login {
                login.read(&bhs, &[]);
            }
            self.await_header();
            return;
        }
        let is_kept = is_login && known == BHS_BYTES && rest <= MOST_TEXT_BYTES;
        let text = is_kept.then(|| Text {
            bhs,
            bytes: Vec::new(),
        });
        self.state = State::Rest { bytes: rest, text };
    }

    /// Looks whether PDUs follow each other in what was seen since place `at`.
    fn probe(&mut self, login: &mut Login, at: u64, found: &mut Vec<Found>) {
        let State::Searching { seen, .. } = &self.state else {
            return;
        };
        let is_open = login.choices().any(|of| self.row(seen, of) == Row::Short);
        if login.keep(|of| self.row(seen, of) == Row::Whole) {
            let seen = seen.clone();
            self.next = at;
            self.searched = 0;
            self.state = State::Header {
                at,
                seen: Vec::new(),
            };
            self.known(login, &seen, found);
        } else if !is_open {
            self.search();
        }
    }

    /// Whether PDUs with these digests follow each other from the first byte on, whose sequence numbers go on.
    fn row(&self, seen: &[u8], digests: Digests) -> Row {
        let mut at = 0;
        let mut newest = self.numbers;
        for _ in 0..PDUS_IN_A_ROW {
            // Data may look like the header of a long PDU.
            if at > MOST_PROBED_BYTES {
                return Row::None;
            }
            let Some(bhs) = seen.get(at..).and_then(<[u8]>::first_chunk::<BHS_BYTES>) else {
                return Row::Short;
            };
            let numbers = numbers(bhs, BHS_BYTES);
            if !self.is_header(bhs, BHS_BYTES) || !are_near(newest, numbers) {
                return Row::None;
            }
            go_on(&mut newest, numbers);
            at += pdu_bytes(bhs, digests) as usize;
        }
        Row::Whole
    }

    /// Whether PDUs are all that a segment of `length` bytes carries, of which `seen` were captured: the last one ends where it
    /// does. Hardly any data looks so.
    fn fills(&self, login: &mut Login, seen: &[u8], length: u64) -> bool {
        login.keep(|digests| {
            let mut at = 0;
            let mut newest = self.numbers;
            while at < length {
                let header = usize::try_from(at).ok().and_then(|at| seen.get(at..));
                let Some(bhs) = header.and_then(<[u8]>::first_chunk::<BHS_BYTES>) else {
                    return false;
                };
                let numbers = numbers(bhs, BHS_BYTES);
                if !self.is_header(bhs, BHS_BYTES) || !are_near(newest, numbers) {
                    return false;
                }
                go_on(&mut newest, numbers);
                at += pdu_bytes(bhs, digests);
            }
            at == length
        })
    }

    /// Whether this may be a header of this direction, of which `known` bytes were captured.
    fn is_header(&self, bhs: &Bhs, known: usize) -> bool {
        let is_of_way = self
            .requests
            .is_none_or(|requests| requests == is_request(bhs));
        let is_parsed = match known {
            BHS_BYTES => Header::parse(bhs).is_ok(),
            _ => !matches!(Opcode::from_wire(bhs[0] & 0x3f), Opcode::Other(_)),
        };
        is_of_way && is_whole(bhs) && is_parsed && bhs[0] & reserved(bhs) == 0
    }

    /// How far the sequence numbers of a header that begins these bytes are from this direction's newest, if one does and they
    /// are near: where frames are cut off, or some are missing, none shows three PDUs in a row. Amid a segment, where data may
    /// look like a header, it has to have both numbers, and none that reserved words have.
    fn apart(&self, bytes: &[u8], is_beginning: bool) -> Option<u64> {
        let known = bytes.len().min(BHS_BYTES);
        if known < LEAST_HEADER_BYTES || self.requests.is_none() {
            return None;
        }
        let mut bhs = [0; BHS_BYTES];
        bhs[..known].copy_from_slice(&bytes[..known]);
        let numbers = numbers(&bhs, known);
        let is_number = |number: Option<u32>| number.is_some_and(|n| n > 0 && n < u32::MAX);
        if !is_beginning && !numbers.into_iter().all(is_number) {
            return None;
        }
        let apart = distances(self.numbers, numbers);
        let is_near = apart.clone().next().is_some() && apart.clone().all(|of| of < NEAR);
        (is_near && self.is_header(&bhs, known)).then(|| apart.map(u64::from).sum())
    }

    /// The other direction's PDUs are requests, or are not: these are the others, and count alike.
    pub(super) fn learn_from(&mut self, other: &Framing) {
        let Some(requests) = other.requests else {
            return;
        };
        self.requests.get_or_insert(!requests);
        for (own, others) in self.numbers.iter_mut().zip(other.numbers) {
            *own = own.or(others);
        }
    }
}

/// Whether the directions of a connection, whose beginning was not seen and in which no PDU has been found, carry none. Amid
/// the data of writes or reads one direction shows no header until the other has shown its PDUs, which may take a
/// round trip or longer.
pub(super) fn are_foreign(directions: [&Framing; 2]) -> bool {
    let most = directions.map(Framing::searched);
    let is_heard = |of: &Framing| of.searched() > 0 && !of.may_be_pdus();
    let enough = match directions.into_iter().all(is_heard) {
        true => MOST_SEARCHED,
        false => MOST_SEARCHED_ALONE,
    };
    most.into_iter().any(|searched| searched >= enough)
}

/// How far numbers are from the newest, where both are known.
fn distances(newest: Numbers, numbers: Numbers) -> impl Iterator<Item = u32> + Clone {
    let pairs = newest.into_iter().zip(numbers);
    pairs.filter_map(|(newest, number)| {
        let apart = number?.wrapping_sub(newest?);
        Some(apart.cast_signed().unsigned_abs())
    })
}

/// Whether they are no further than [`NEAR`].
fn are_near(newest: Numbers, numbers: Numbers) -> bool {
    distances(newest, numbers).all(|apart| apart < NEAR)
}

/// Takes the numbers of the next PDU, as far as it has them.
fn go_on(newest: &mut Numbers, numbers: Numbers) {
    for (newest, number) in newest.iter_mut().zip(numbers) {
        *newest = number.or(*newest);
    }
}

/// The sequence numbers in the first `known` bytes of a header.
fn numbers(bhs: &Bhs, known: usize) -> Numbers {
    /// Where a StatSN is in Data-In that has a status (RFC 7143 §11.7.3).
    const STATUS: u8 = 0x01;
    let word = |at: usize| {
        let word = u32::from_be_bytes([bhs[at], bhs[at + 1], bhs[at + 2], bhs[at + 3]]);
        (known >= at + 4).then_some(word)
    };
    match Opcode::from_wire(bhs[0] & 0x3f) {
        Opcode::DataOut => [None, word(28)],
        Opcode::DataIn if bhs[1] & STATUS == 0 => [word(28), None],
        _ if is_request(bhs) => [word(24), word(28)],
        _ => [word(28), word(24)],
    }
}

/// Bits of the first byte that are not in use: a target's PDU is never for immediate delivery (RFC 7143 §11.2.1.1).
fn reserved(bhs: &Bhs) -> u8 {
    match is_request(bhs) {
        true => 0x80,
        false => 0xc0,
    }
}

/// Whether the F bit is set where RFC 7143 §11 has it always set: data of zeros is no NOP-Out.
fn is_whole(bhs: &Bhs) -> bool {
    const FINAL: u8 = 0x80;
    let may_go_on = matches!(
        Opcode::from_wire(bhs[0] & 0x3f),
        Opcode::ScsiCommand
            | Opcode::LoginRequest
            | Opcode::LoginResponse
            | Opcode::TextRequest
            | Opcode::TextResponse
            | Opcode::DataOut
            | Opcode::DataIn
    );
    may_go_on || bhs[1] & FINAL != 0
}

/// PDUs that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Row {
    /// They do not.
    None,
    /// They may; there are too few bytes yet.
    Short,
    /// They do.
    Whole,
}

/// Whether the initiator sends it (RFC 7143 §11.2.1.2).
pub(super) fn is_request(bhs: &Bhs) -> bool {
    bhs[0] & 0x20 == 0
}

/// Length of a PDU with this header (RFC 7143 §11.2.1.5, §11.2.1.6, §11.2.3).
fn pdu_bytes(bhs: &Bhs, digests: Digests) -> u64 {
    const DIGEST_BYTES: u64 = 4;
    let ahs = u64::from(bhs[4]) * 4;
    let data = u64::from(u32::from_be_bytes([0, bhs[5], bhs[6], bhs[7]]));
    let header_digest = if digests.header { DIGEST_BYTES } else { 0 };
    let data_digest = if digests.data && data > 0 {
        DIGEST_BYTES
    } else {
        0
    };
    BHS_BYTES as u64 + ahs + header_digest + data.next_multiple_of(4) + data_digest
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMAND: u8 = 0x01;
    const DATA_IN: u8 = 0x25;
    const DATA: usize = 4096;
    /// What a segment carries.
    const SEGMENT: usize = 1448;

    /// A PDU with its words at bytes 24 and 28, and data of zeros.
    fn pdu(opcode: u8, words: [u32; 2], data: usize) -> Vec<u8> {
        let mut pdu = vec![0; BHS_BYTES + data];
        pdu[0] = opcode;
        pdu[1] = 0x81;
        pdu[5..8].copy_from_slice(&(data as u32).to_be_bytes()[1..]);
        pdu[24..28].copy_from_slice(&words[0].to_be_bytes());
        pdu[28..32].copy_from_slice(&words[1].to_be_bytes());
        pdu
    }

    /// Feeds the parts of a stream that begin at these places.
    fn feed(framing: &mut Framing, stream: &[u8], parts: &[(usize, usize)]) -> Vec<Found> {
        let (mut login, mut found) = (Login::default(), Vec::new());
        for &(from, to) in parts {
            let (seen, length) = (&stream[from..to], (to - from) as u64);
            framing.feed(&mut login, from as u64, seen, length, &mut found);
        }
        framing.finish(&mut login, &mut found);
        found
    }

    fn offsets(found: &[Found]) -> Vec<u64> {
        found.iter().map(|found| found.offset).collect()
    }

    #[test]
    fn a_pdu_whose_data_is_missing_says_where_the_next_one_begins() {
        let one = pdu(DATA_IN, [7, 9], DATA);
        let stream = [&one[..], &one, &one].concat();
        let ends = [one.len(), 2 * one.len()];
        let mut framing = Framing::new(true);
        let parts = [
            (0, SEGMENT),
            (ends[0], ends[0] + SEGMENT),
            // The end of the second stands before the third.
            (ends[1] - 300, ends[1] + SEGMENT),
        ];
        let found = feed(&mut framing, &stream, &parts);
        assert_eq!(offsets(&found), [0, ends[0] as u64, ends[1] as u64]);
        assert_eq!(framing.hidden(), 0);
        assert_eq!((framing.whole_to(), framing.whole_from()), (u64::MAX, 0));
    }

    #[test]
    fn a_stream_without_its_beginning_goes_on_with_the_other_s_numbers() {
        let mut requests = Framing::new(false);
        let command = pdu(COMMAND, [9, 7], 0);
        let commands = [&command[..], &command, &command].concat();
        let found = feed(&mut requests, &commands, &[(0, commands.len())]);
        assert_eq!(offsets(&found), [0, 48, 96]);

        let one = pdu(DATA_IN, [7, 9], DATA);
        let stream = [&one[..], &one, &one].concat();
        let second = one.len();
        // Behind the rest of one, a header; no three in a row.
        let parts = [(second - 300, second + 500), (2 * second, 2 * second + 100)];
        let mut answers = Framing::new(false);
        assert!(feed(&mut answers, &stream, &parts).is_empty());
        let mut answers = Framing::new(false);
        answers.learn_from(&requests);
        let found = feed(&mut answers, &stream, &parts);
        assert_eq!(offsets(&found), [second as u64, 2 * second as u64]);
        assert_eq!(answers.whole_from(), second as u64);
    }

    #[test]
    fn data_that_looks_like_a_header_is_none() {
        const DATA_OUT: u8 = 0x05;
        let mut requests = Framing::new(false);
        requests.learn_from(&{
            let mut answers = Framing::new(false);
            let one = pdu(DATA_IN, [7, 9], 0);
            feed(&mut answers, &[&one[..], &one, &one].concat(), &[(0, 144)]);
            answers
        });
        let mut write = pdu(COMMAND, [9, 7], 4096);
        write[1000] = DATA_OUT;
        let next = write.len();
        let stream = [write, pdu(COMMAND, [10, 7], 4096)].concat();
        let found = feed(
            &mut requests,
            &stream,
            &[(900, 2000), (next - 300, next + 500)],
        );
        assert_eq!(offsets(&found), [next as u64]);
    }

    /// Data as programs have it, the same for the same seed.
    fn noise(seed: u64, bytes: usize) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        (0..bytes).map(|_| next()).collect()
    }

    #[test]
    fn a_pdu_alone_in_its_segment_is_found_at_once() {
        const RESPONSE: u8 = 0x21;
        let mut answers = Framing::new(false);
        let answer = pdu(RESPONSE, [7, 9], 0);
        let found = feed(&mut answers, &answer, &[(0, answer.len())]);
        assert_eq!(offsets(&found), [0]);
        // So the writes that follow are found, however long their data.
        let (mut writes, mut ends) = (Vec::new(), Vec::new());
        for number in 0..4 {
            ends.push(writes.len() as u64);
            writes.extend(pdu(COMMAND, [10 + number, 7], 0));
            writes[ends[number as usize] as usize + 5] = 1;
            writes.extend(noise(u64::from(number), 1 << 16));
        }
        let parts = |from: usize| {
            let begins = (from..writes.len()).step_by(SEGMENT);
            let each = begins.map(|at| (at, (at + SEGMENT).min(writes.len())));
            each.collect::<Vec<_>>()
        };
        let mut requests = Framing::new(false);
        requests.learn_from(&answers);
        let found = feed(&mut requests, &writes, &parts(5 * SEGMENT));
        assert_eq!(offsets(&found), ends[1..]);
    }

    #[test]
    fn data_that_looks_like_a_long_pdu_does_not_hide_those_behind_it() {
        const RESPONSE: u8 = 0x21;
        let mut write = pdu(COMMAND, [70_010, 70_007], 0);
        write[5] = 1;
        write.extend(noise(3, 1 << 16));
        // A header as far as that can be seen, of a PDU of 192 KiB.
        write[SEGMENT..SEGMENT + BHS_BYTES].fill(0);
        write[SEGMENT..SEGMENT + 2].copy_from_slice(&[0x05, 0x80]);
        write[SEGMENT + 5] = 3;
        let next = write.len() as u64;
        let stream = [write, pdu(COMMAND, [70_011, 70_007], 0)].concat();
        let mut answers = Framing::new(false);
        let answer = pdu(RESPONSE, [70_007, 70_009], 0);
        feed(&mut answers, &answer, &[(0, answer.len())]);
        let mut requests = Framing::new(false);
        let (mut login, mut found) = (Login::default(), Vec::new());
        for at in (SEGMENT..stream.len()).step_by(SEGMENT) {
            let seen = &stream[at..(at + SEGMENT).min(stream.len())];
            requests.feed(&mut login, at as u64, seen, seen.len() as u64, &mut found);
            // The other direction is heard meanwhile.
            if at > 8 * SEGMENT {
                requests.learn_from(&answers);
            }
        }
        requests.finish(&mut login, &mut found);
        assert_eq!(offsets(&found), [next]);
    }

    #[test]
    fn words_beside_a_header_s_numbers_do_not_make_a_header_of_what_is_before() {
        const ASYNCHRONOUS: u8 = 0x32;
        let mut requests = Framing::new(false);
        let command = pdu(COMMAND, [227, 221], 0);
        feed(&mut requests, &command, &[(0, command.len())]);
        for first in [0, 0x40, 0x80, 0xc0] {
            let mut data = noise(7, 600);
            // Four bytes before it, the tags of a Data-In stand where the numbers of another PDU do.
            data[596..].copy_from_slice(&[ASYNCHRONOUS | first, 0x80, 0, 0]);
            for tags in [[u32::MAX; 2], [300, 250]] {
                let mut read = pdu(DATA_IN, [222, 222], DATA);
                read[16..20].copy_from_slice(&tags[0].to_be_bytes());
                read[20..24].copy_from_slice(&tags[1].to_be_bytes());
                let stream = [&data[..], &read].concat();
                let mut answers = Framing::new(false);
                answers.learn_from(&requests);
                let found = feed(&mut answers, &stream, &[(0, SEGMENT)]);
                assert_eq!(offsets(&found), [600], "{first:#x} {tags:?}");
            }
        }
    }

    #[test]
    fn pdus_without_data_do_not_tell_whether_data_have_digests() {
        let command = pdu(COMMAND, [9, 7], 0);
        let stream = [&command[..], &command, &command].concat();
        let mut framing = Framing::new(false);
        let (mut login, mut found) = (Login::default(), Vec::new());
        framing.feed(&mut login, 0, &stream, stream.len() as u64, &mut found);
        assert_eq!(offsets(&found), [0, 48, 96]);
        assert_eq!(login.choices().count(), 2);
        let mut answers = Framing::new(false);
        answers.learn_from(&framing);
        // Data of 8 bytes, and a digest of theirs.
        let data = [pdu(DATA_IN, [7, 9], 8), vec![1; 4]].concat();
        let data = [&data[..], &data, &data].concat();
        answers.feed(&mut login, 0, &data, data.len() as u64, &mut found);
        assert_eq!(offsets(&found)[3..], [0, 60, 120]);
        assert_eq!(
            login.digests(),
            Digests {
                header: false,
                data: true
            }
        );
    }

    #[test]
    fn half_a_header_hides_its_pdu_alone() {
        let one = pdu(DATA_IN, [7, 9], DATA);
        let stream = [&one[..], &one, &one].concat();
        let (second, third) = (one.len(), 2 * one.len());
        let mut framing = Framing::new(true);
        let parts = [(0, second + 12), (third, third + SEGMENT)];
        let found = feed(&mut framing, &stream, &parts);
        assert_eq!(offsets(&found), [0, third as u64]);
        assert_eq!(framing.hidden(), 1);
        let whole = (framing.whole_to(), framing.whole_from());
        assert_eq!(whole, (second as u64, third as u64));
    }

    /// So many segments of zeros, which no PDU begins in.
    fn data_alone(segments: u64) -> Framing {
        let mut framing = Framing::new(false);
        let (mut login, mut found) = (Login::default(), Vec::new());
        let data = [0; SEGMENT];
        for number in 0..segments {
            let place = number * SEGMENT as u64;
            framing.feed(&mut login, place, &data, SEGMENT as u64, &mut found);
        }
        framing
    }

    #[test]
    fn a_burst_of_data_says_nothing_until_the_other_direction_is_heard() {
        const R2T: u8 = 0x31;
        let data = data_alone(MOST_SEARCHED);
        let mut other = Framing::new(false);
        assert!(!are_foreign([&data, &other]));
        let answer = pdu(R2T, [7, 9], 0);
        feed(&mut other, &answer, &[(0, answer.len())]);
        assert!(!are_foreign([&data, &other]));
        let mut text = Framing::new(false);
        let page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1000000\r\n\r\n";
        feed(&mut text, page, &[(0, page.len())]);
        assert!(are_foreign([&data, &text]));
        let data = data_alone(MOST_SEARCHED_ALONE);
        assert!(are_foreign([&data, &other]));
    }
}
