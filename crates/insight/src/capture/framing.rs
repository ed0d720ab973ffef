//! Finds PDUs in one direction of a captured connection, of whose bytes some may be missing.

mod likely;

use std::collections::BTreeMap;
use std::iter;

use wansan_iscsi::wire::{BHS_BYTES, Bhs, Header, Opcode};

use super::login::{Digests, Login};
use likely::Likely;

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
/// The newest numbers are forgotten after so many segments without a PDU in each direction.
const MOST_KEPT: u64 = 64;
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
    /// The next PDU's header comes, `spare` bytes later at most: so many digests the PDU before it may have or not.
    Header {
        at: u64,
        seen: Vec<u8>,
        spare: usize,
    },
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
    /// The header of the PDU before, if that goes on up to where the stream is, and how long it was taken to be at least.
    before: Option<(Bhs, u64)>,
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
                spare: 0,
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
            before: None,
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
                false => self.amid(seen),
            };
            if let Some(before) = before {
                self.next += before as u64;
                self.searched = 0;
                seen = &seen[before..];
                self.before = None;
                self.await_header(login);
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
        if let State::Header { at, seen, .. } = &mut self.state
            && seen.len() >= BHS_BYTES
        {
            let (at, seen) = (*at, std::mem::take(seen));
            self.begin(login, at, &seen, found);
        } else if let State::Header { at, seen, .. } = &self.state
            && let Some((bhs, known)) = beginning(seen)
        {
            let at = *at;
            self.header(login, at, bhs, known, found);
        } else if let State::Header { at, seen, .. } = &self.state
            && seen.len() >= LENGTHS_END
        {
            // What it is remains unknown, but not where the next one begins.
            let (at, known) = (*at, seen.len() as u64);
            let mut bhs = [0; BHS_BYTES];
            bhs[..LENGTHS_END].copy_from_slice(&seen[..LENGTHS_END]);
            self.lose(at);
            self.before = None;
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
                    self.await_header(login);
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

    /// The next byte is a PDU's first, or a digest of the one before.
    fn await_header(&mut self, login: &Login) {
        self.state = State::Header {
            at: self.next,
            seen: Vec::new(),
            spare: self.before.map_or(0, |(before, least)| {
                let lengths = login.choices().map(|digests| pdu_bytes(&before, digests));
                lengths.max().unwrap_or(0).saturating_sub(least) as usize
            }),
        };
    }

    fn search(&mut self) {
        self.before = None;
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
                State::Header { at, seen, spare: 0 }
                    if seen.is_empty()
                        && let Some(bhs) = bytes.first_chunk::<BHS_BYTES>() =>
                {
                    let at = *at;
                    self.next += BHS_BYTES as u64;
                    self.header(login, at, *bhs, BHS_BYTES, found);
                    BHS_BYTES
                }
                State::Header { at, seen, spare } => {
                    let wanted = BHS_BYTES + *spare;
                    let count = bytes.len().min(wanted - seen.len());
                    seen.extend_from_slice(&bytes[..count]);
                    self.next += count as u64;
                    if seen.len() == wanted {
                        let (at, seen) = (*at, std::mem::take(seen));
                        self.begin(login, at, &seen, found);
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
                        self.await_header(login);
                    }
                    count
                }
            };
            bytes = &bytes[used..];
        }
    }

    /// A header has come, and what of digests before it may be there. Where it stands tells which digests are in force.
    fn begin(&mut self, login: &mut Login, at: u64, seen: &[u8], found: &mut Vec<Found>) {
        let begins = |shift: usize| {
            let bhs = seen.get(shift..).and_then(<[u8]>::first_chunk::<BHS_BYTES>);
            bhs.is_some_and(|bhs| {
                self.is_header(bhs, BHS_BYTES) && are_near(self.numbers, numbers(bhs, BHS_BYTES))
            })
        };
        let mut from = 0;
        if let Some((before, least)) = self.before
            && seen.len() > BHS_BYTES
        {
            let shift = |digests| pdu_bytes(&before, digests).saturating_sub(least) as usize;
            if !login.keep(|digests| begins(shift(digests))) {
                self.lose(at);
                self.search();
                return;
            }
            from = shift(login.digests());
        }
        let (bhs, rest) = seen[from..].split_first_chunk().expect("a header is there");
        self.next = at + (from + BHS_BYTES) as u64;
        self.header(login, at + from as u64, *bhs, BHS_BYTES, found);
        self.known(login, rest, found);
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
        if !self.is_header(&bhs, known) || !are_near(self.numbers, numbers(&bhs, known)) {
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
        let length = match is_login {
            true => pdu_bytes(&bhs, Digests::default()),
            false => {
                let lengths = login.choices().map(|digests| pdu_bytes(&bhs, digests));
                lengths.min().unwrap_or(BHS_BYTES as u64)
            }
        };
        self.before = (!is_login).then_some((bhs, length));
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
            self.await_header(login);
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
            self.before = None;
            self.await_header(login);
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
    /// does. Hardly any data looks so. A header that was cut off has to be a usual one.
    fn fills(&self, login: &mut Login, seen: &[u8], length: u64) -> bool {
        login.keep(|digests| {
            let mut at = 0;
            let mut newest = self.numbers;
            while at < length {
                let header = usize::try_from(at).ok().and_then(|at| seen.get(at..));
                let Some((bhs, known)) = header.and_then(beginning) else {
                    return false;
                };
                let numbers = numbers(&bhs, known);
                let is_told = known == BHS_BYTES || is_usual(&bhs);
                if !is_told || !self.is_header(&bhs, known) || !are_near(newest, numbers) {
                    return false;
                }
                go_on(&mut newest, numbers);
                at += pdu_bytes(&bhs, digests);
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

    /// Where among these bytes a header begins whose sequence numbers are nearest to the newest: bytes before it, and in it, may
    /// look like one with the words beside its numbers.
    fn amid(&self, seen: &[u8]) -> Option<usize> {
        let is_any_known = self.numbers.iter().any(Option::is_some);
        let requests = self.requests.filter(|_| is_any_known)?;
        let places = Likely::of(requests, self.numbers).places(seen);
        let headers = iter::once(0)
            .chain(places)
            .filter_map(|at| Some((self.apart(&seen[at..], at == 0)?, at)));
        headers.min().map(|(_, at)| at)
    }

    /// How far the sequence numbers of a header that begins these bytes are from this direction's newest, if one does and they
    /// are near: where frames are cut off, or some are missing, none shows three PDUs in a row. Amid a segment, where data may
    /// look like a header, it has to have both numbers, and none that reserved words have.
    fn apart(&self, bytes: &[u8], is_beginning: bool) -> Option<u64> {
        let (bhs, known) = beginning(bytes)?;
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
        if self.searched >= MOST_KEPT && other.searched >= MOST_KEPT {
            // More may have passed unseen than what is near.
            self.numbers = [None, None];
            return;
        }
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

/// What was captured of the header that begins these bytes, with zeros behind it, and how much that is; `None` of less than
/// [`LEAST_HEADER_BYTES`].
fn beginning(bytes: &[u8]) -> Option<(Bhs, usize)> {
    let known = bytes.len().min(BHS_BYTES);
    let mut bhs = [0; BHS_BYTES];
    bhs[..known].copy_from_slice(&bytes[..known]);
    (known >= LEAST_HEADER_BYTES).then_some((bhs, known))
}

/// Whether a header is such as nearly all are: that of no failure, and of a LUN of one level (SAM-5 §4.7).
fn is_usual(bhs: &Bhs) -> bool {
    bhs[2] == 0 && bhs[10..16] == [0; 6]
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

/// Whether the F bit is set where RFC 7143 §11 has it always set: data of zeros is no NOP-Out. Only a command that writes may
/// go on (§11.3.1), and only data do.
fn is_whole(bhs: &Bhs) -> bool {
    const FINAL: u8 = 0x80;
    const WRITE: u8 = 0x20;
    let may_go_on = match Opcode::from_wire(bhs[0] & 0x3f) {
        Opcode::ScsiCommand => bhs[1] & WRITE != 0,
        Opcode::DataOut | Opcode::DataIn => bhs[5..8] != [0; 3],
        opcode => matches!(
            opcode,
            Opcode::LoginRequest
                | Opcode::LoginResponse
                | Opcode::TextRequest
                | Opcode::TextResponse
        ),
    };
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
mod tests;
