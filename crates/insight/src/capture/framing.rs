//! Finds PDUs in one direction of a captured connection, even if bytes are missing.

mod likely;

use std::collections::BTreeMap;
use std::iter;

use wansan_iscsi::wire::{BHS_BYTES, Bhs, Header, Opcode};

use super::login::{Digests, Login};
use likely::Likely;

/// Limits for bytes and segments that arrive out of order and wait for those before them.
const MOST_WAITING_BYTES: usize = 1 << 18;
const MOST_WAITING: usize = 4096;
/// Minimum captured bytes of a usable header: they hold its type, its lengths and its tags (RFC 7143 §11.2).
const LEAST_HEADER_BYTES: usize = 24;
/// End of a header's length fields, `TotalAHSLength` and `DataSegmentLength`.
const LENGTHS_END: usize = 8;
/// End of a header's sequence numbers, of which MaxCmdSN is the last.
const NUMBERS_END: usize = 36;
/// Sequence numbers within this distance of the newest continue them.
const NEAR: u32 = 1 << 12;
/// The newest numbers are forgotten after this many segments without a PDU in each direction.
const MOST_KEPT: u64 = 64;
/// This many consecutive PDUs from a segment's beginning show where PDUs begin, and no PDU but the last may end
/// beyond this many bytes.
const PDUS_IN_A_ROW: usize = 3;
const MOST_PROBED_BYTES: usize = 1 << 18;
/// After this many segments without a PDU, it is not iSCSI if data other than PDUs passed in both directions.
const MOST_SEARCHED: u64 = 256;
/// After this many, it is not iSCSI in any case.
const MOST_SEARCHED_ALONE: u64 = 1 << 14;
/// Maximum login text kept (RFC 7143 §6.1 requires as much).
const MOST_TEXT_BYTES: u64 = 8192;

/// A PDU's header, and its place in the stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) bhs: Bhs,
    /// Offset of its first byte in its direction's stream, from 0.
    pub(super) offset: u64,
    /// Its length, with digests and padding.
    length: u32,
    /// Whether its sequence numbers were captured; otherwise, those missing are 0.
    pub(super) has_numbers: bool,
}

impl Found {
    /// Offset of its last byte, with digests and padding.
    pub(super) fn last_offset(&self) -> u64 {
        self.offset + u64::from(self.length) - 1
    }
}

/// Parser state at the end of the in-order stream.
#[derive(Debug)]
enum State {
    /// It is unknown where PDUs begin. `seen` holds the bytes since the beginning of a segment that starts like a
    /// PDU, if any.
    Searching { at: u64, seen: Vec<u8> },
    /// The next PDU's header is expected, up to `spare` bytes later: the digests that the PDU before it may or may
    /// not have.
    Header {
        at: u64,
        seen: Vec<u8>,
        spare: usize,
    },
    /// The rest of a PDU is expected; a login's text is kept.
    Rest { bytes: u64, text: Option<Text> },
}

/// The text of a Login PDU.
#[derive(Debug)]
struct Text {
    bhs: Bhs,
    bytes: Vec<u8>,
}

/// Finds PDUs in one direction of a connection.
#[derive(Debug)]
pub(super) struct Framing {
    /// Whether it carries the initiator's PDUs, if known.
    requests: Option<bool>,
    /// Position up to which the stream has been taken in order.
    next: u64,
    state: State,
    /// Out-of-order segments by position: captured bytes and full length.
    waiting: BTreeMap<u64, (Vec<u8>, u64)>,
    waiting_bytes: usize,
    /// Number of segments in which no PDU was found.
    searched: u64,
    /// The newest CmdSN and StatSN.
    numbers: Numbers,
    /// The header of the previous PDU, if it is directly followed by the next, and its minimum length.
    before: Option<(Bhs, u64)>,
    /// How often the next PDU began in missing bytes.
    hidden: u64,
    /// All PDUs are known from the first one up to this position.
    whole_to: u64,
    /// All PDUs are known from this position on; `u64::MAX` while it is unknown where PDUs begin.
    whole_from: u64,
}

/// CmdSN and StatSN by the PDUs of either direction (RFC 7143 §4.2.2), as far as captured.
type Numbers = [Option<u32>; 2];

impl Framing {
    /// A stream from position 0, where a PDU begins if the connection's beginning was seen.
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

    /// The same direction in the next part of the capture, in which PDUs are searched for again.
    pub(super) fn next_part(&self) -> Framing {
        Framing {
            requests: self.requests,
            numbers: self.numbers,
            ..Framing::new(false)
        }
    }

    /// How often a PDU began in missing bytes.
    pub(super) fn hidden(&self) -> u64 {
        self.hidden
    }

    /// Position up to which every PDU of the stream is known, from the first; `u64::MAX` if all are.
    pub(super) fn whole_to(&self) -> u64 {
        self.whole_to
    }

    /// Position from which every PDU is known to the end of the stream; `u64::MAX` if there is none.
    pub(super) fn whole_from(&self) -> u64 {
        self.whole_from
    }

    /// Number of segments in which PDUs were searched for and not found.
    pub(super) fn searched(&self) -> u64 {
        self.searched
    }

    /// Whether the bytes may be PDUs, but are too few to be certain.
    fn may_be_pdus(&self) -> bool {
        matches!(&self.state, State::Searching { seen, .. } if !seen.is_empty())
    }

    /// Takes a segment of `length` bytes, of which `seen` were captured.
    pub(super) fn feed(
        &mut self,
        login: &mut Login,
        place: u64,
        seen: &[u8],
        length: u64,
        found: &mut impl Extend<Found>,
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

    /// Takes an acknowledgement: the receiver has all bytes up to `place`, so those not yet seen are missing for
    /// good.
    pub(super) fn acknowledged(
        &mut self,
        login: &mut Login,
        place: u64,
        found: &mut impl Extend<Found>,
    ) {
        while place > self.next {
            self.miss(login, place, found);
        }
    }

    /// Ends the capture of this stream.
    pub(super) fn finish(&mut self, login: &mut Login, found: &mut impl Extend<Found>) {
        while !self.waiting.is_empty() {
            self.miss(login, u64::MAX, found);
        }
    }

    /// Skips the missing bytes up to the first waiting segment, but not beyond `end`.
    fn miss(&mut self, login: &mut Login, end: u64, found: &mut impl Extend<Found>) {
        let first = self.waiting.keys().next().copied();
        let to = first.map_or(end, |first| first.min(end));
        if to != u64::MAX {
            self.unknown(login, to - self.next, found);
        }
        self.take_waiting(login, found);
    }

    fn take_waiting(&mut self, login: &mut Login, found: &mut impl Extend<Found>) {
        while let Some(first) = self.waiting.first_entry() {
            if *first.key() > self.next {
                return;
            }
            let (place, (seen, length)) = first.remove_entry();
            self.waiting_bytes -= seen.len();
            self.take(login, place, &seen, length, found);
        }
    }

    /// Takes the next bytes, of which some may be old.
    fn take(
        &mut self,
        login: &mut Login,
        place: u64,
        seen: &[u8],
        length: u64,
        found: &mut impl Extend<Found>,
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

    /// Skips bytes that were not captured.
    fn unknown(&mut self, login: &mut Login, bytes: u64, found: &mut impl Extend<Found>) {
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
            // The PDU remains unknown, but its length says where the next one begins.
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

    /// Notes that a PDU at or shortly after `from` is unknown.
    fn lose(&mut self, from: u64) {
        self.hidden += 1;
        self.whole_to = self.whole_to.min(from);
        self.whole_from = u64::MAX;
    }

    /// Expects a header: the next byte is the first of a PDU, or a digest of the one before.
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

    fn known(&mut self, login: &mut Login, mut bytes: &[u8], found: &mut impl Extend<Found>) {
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

    /// Handles a header with the possible digests before it. The header's position shows which digests are in use.
    fn begin(&mut self, login: &mut Login, at: u64, seen: &[u8], found: &mut impl Extend<Found>) {
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

    /// Handles a header, of which `known` bytes were captured.
    fn header(
        &mut self,
        login: &mut Login,
        at: u64,
        bhs: Bhs,
        known: usize,
        found: &mut impl Extend<Found>,
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
        // Digests are used only in the full-feature phase (RFC 7143 §6.3).
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
        found.extend([Found {
            bhs,
            offset: at,
            // Less than 2^25: its data has fewer than 2^24 bytes.
            length: length as u32,
            has_numbers: known >= NUMBERS_END,
        }]);
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

    /// Checks whether the bytes since position `at` are consecutive PDUs.
    fn probe(&mut self, login: &mut Login, at: u64, found: &mut impl Extend<Found>) {
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

    /// Whether the bytes begin with consecutive PDUs with these digests and consistent sequence numbers.
    fn row(&self, seen: &[u8], digests: Digests) -> Row {
        let mut at = 0;
        let mut newest = self.numbers;
        for _ in 0..PDUS_IN_A_ROW {
            // Data may resemble the header of a long PDU.
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

    /// Whether a segment of `length` bytes, of which `seen` were captured, consists of whole PDUs, the last of which
    /// ends at its end. Data hardly ever looks like that. A truncated header has to be a usual one.
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

    /// Offset of the likely header whose sequence numbers are nearest to the newest: bytes before the header, or
    /// within it, may resemble one that has other words of the header as its numbers.
    fn amid(&self, seen: &[u8]) -> Option<usize> {
        let is_any_known = self.numbers.iter().any(Option::is_some);
        let requests = self.requests.filter(|_| is_any_known)?;
        let places = Likely::of(requests, self.numbers).places(seen);
        let headers = iter::once(0)
            .chain(places)
            .filter_map(|at| Some((self.apart(&seen[at..], at == 0)?, at)));
        headers.min().map(|(_, at)| at)
    }

    /// Distance of the sequence numbers in the header at the beginning of `bytes` from the newest, if there is one
    /// and it is near. Needed if frames are truncated or missing, so that three PDUs in a row are never visible.
    /// Inside a segment, where data may resemble a header, it must have both numbers, and neither may be 0 or all
    /// ones, as in reserved words.
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

    /// Takes over from the other direction: if that carries requests, this one carries responses, and the reverse.
    /// CmdSN and StatSN are common to both.
    pub(super) fn learn_from(&mut self, other: &Framing) {
        if self.searched >= MOST_KEPT && other.searched >= MOST_KEPT {
            // More PDUs may have passed unseen than [`NEAR`] allows for.
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

/// Whether a connection whose beginning was not seen, and in which no PDU has been found, carries none. In the data
/// of writes or reads, a direction shows no header until the other one has shown its PDUs, which may take a round
/// trip or longer.
pub(super) fn are_foreign(directions: [&Framing; 2]) -> bool {
    let most = directions.map(Framing::searched);
    let is_heard = |of: &Framing| of.searched() > 0 && !of.may_be_pdus();
    let enough = match directions.into_iter().all(is_heard) {
        true => MOST_SEARCHED,
        false => MOST_SEARCHED_ALONE,
    };
    most.into_iter().any(|searched| searched >= enough)
}

/// Distances of numbers from the newest, if both are known.
fn distances(newest: Numbers, numbers: Numbers) -> impl Iterator<Item = u32> + Clone {
    let pairs = newest.into_iter().zip(numbers);
    pairs.filter_map(|(newest, number)| {
        let apart = number?.wrapping_sub(newest?);
        Some(apart.cast_signed().unsigned_abs())
    })
}

/// Whether all distances are below [`NEAR`].
fn are_near(newest: Numbers, numbers: Numbers) -> bool {
    distances(newest, numbers).all(|apart| apart < NEAR)
}

/// The header at the beginning of `bytes`, padded with zeros, and its captured length; `None` if that is less than
/// [`LEAST_HEADER_BYTES`].
fn beginning(bytes: &[u8]) -> Option<(Bhs, usize)> {
    let known = bytes.len().min(BHS_BYTES);
    let mut bhs = [0; BHS_BYTES];
    bhs[..known].copy_from_slice(&bytes[..known]);
    (known >= LEAST_HEADER_BYTES).then_some((bhs, known))
}

/// Whether a header is like nearly all: without a failure, and with a single-level LUN (SAM-5 §4.7).
fn is_usual(bhs: &Bhs) -> bool {
    bhs[2] == 0 && bhs[10..16] == [0; 6]
}

/// Updates the newest numbers by those of the next PDU, as far as it has them.
fn go_on(newest: &mut Numbers, numbers: Numbers) {
    for (newest, number) in newest.iter_mut().zip(numbers) {
        *newest = number.or(*newest);
    }
}

/// The sequence numbers in the first `known` bytes of a header.
fn numbers(bhs: &Bhs, known: usize) -> Numbers {
    /// The S bit: Data-In has a StatSN only if it carries status (RFC 7143 §11.7.3).
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

/// Reserved bits of the first byte: a target's PDU is never marked for immediate delivery (RFC 7143 §11.2.1.1).
fn reserved(bhs: &Bhs) -> u8 {
    match is_request(bhs) {
        true => 0x80,
        false => 0xc0,
    }
}

/// Whether the F bit is set if RFC 7143 §11 requires it, so that all-zero data is not taken for a NOP-Out. Of
/// commands, only a write may have it clear (§11.3.1), and Data-Out and Data-In only if they carry data.
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

/// Whether bytes are consecutive PDUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Row {
    /// They are not.
    None,
    /// They may be, but there are too few bytes yet.
    Short,
    /// They are.
    Whole,
}

/// Whether the initiator sends this PDU (RFC 7143 §11.2.1.2).
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
