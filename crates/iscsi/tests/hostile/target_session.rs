//! A target's session with an initiator that sends arbitrary PDUs over several connections, and a slow store.

use wansan_iscsi::initiator::LoginSettings;
use wansan_iscsi::keys::{ConnectionParameters, SessionParameters, Wanted};
use wansan_iscsi::login::{Admitted, AnnouncedWindow, Candidate, Found, Refusal, Sessions};
use wansan_iscsi::target::{Connection, Handshake, Memory};
use wansan_iscsi::wire::{Header, Receiver, Transmitter};

use super::pair::{Pair, TARGET, copy};
use super::pdus::{Context, plausible, word};
use super::source::Source;

/// Opcodes from initiators, most likely first.
const OPCODES: [u8; 12] = [
    0x01, 0x05, 0x01, 0x05, 0x02, 0x00, 0x04, 0x10, 0x06, 0x03, 0x25, 0x3e,
];

/// One connection, from the initiator's view.
struct Line {
    place: usize,
    transmitter: Transmitter,
    receiver: Receiver,
    exp_stat_sn: u32,
}

impl Line {
    fn new(place: usize) -> Self {
        let mut receiver = Receiver::new();
        receiver.set_max_data_bytes((1 << 24) - 1);
        Self {
            place,
            transmitter: Transmitter::new(),
            receiver,
            exp_stat_sn: 0,
        }
    }
}

/// Panics when the session panics, or sends an invalid PDU.
pub(crate) fn check(input: &[u8]) {
    let mut source = Source::new(input);
    let wanted = wanted(&mut source);
    let memory = Memory::new(source.one_of(&[1 << 30, 64 << 10]));
    let window = u32::from(source.byte() % 32) + 1;
    let mut pair = Pair::sharing(&memory, wanted.clone(), wanted.clone(), window, 1);
    pair.hold_store = source.chance();
    let mut lines = vec![Line::new(0)];
    for cid in 1..=u16::from(source.byte() % 3) {
        let connection = connect(&pair, cid, &wanted);
        lines.push(Line::new(pair.target.join(connection)));
    }
    let mut context = Context::default();
    while !source.is_empty() && !pair.target.is_over() {
        let line = usize::from(source.byte()) % lines.len();
        match source.byte() {
            0..=15 => {
                if let Some(work) = pair.held.pop() {
                    pair.answer(work);
                }
            }
            16..=19 => pair.target.rest(),
            20..=23 => {
                let now = pair.now();
                let place = lines[line].place;
                pair.target.ping(place, now, &mut pair.trace);
            }
            24..=25 => leave(&mut pair, lines[line].place),
            _ => {
                let exp_cmd_sn = pair.target.window().exp_cmd_sn.0;
                context.numbers = [exp_cmd_sn, lines[line].exp_stat_sn, 0];
                let (bhs, data) = plausible(&mut source, &OPCODES, &context, 512);
                send(&mut pair, &mut lines[line], &bhs, data);
                context.note_tags(&bhs);
            }
        }
        settle(&mut pair, &mut lines, &mut context);
    }
}

/// Small bursts, so that a few blocks are several bursts.
fn wanted(source: &mut Source<'_>) -> Wanted {
    let flags = source.byte();
    Wanted {
        initial_r2t: flags & 1 != 0,
        immediate_data: flags & 2 != 0,
        first_burst_bytes: if flags & 4 != 0 { 1024 } else { 64 << 10 },
        max_burst_bytes: if flags & 4 != 0 { 2048 } else { 64 << 10 },
        max_recv_data_bytes: if flags & 8 != 0 { 512 } else { 64 << 10 },
        max_outstanding_r2t: 1 + u16::from(flags >> 6),
        ..Wanted::default()
    }
}

/// Sends a PDU, as far as the session still accepts bytes on this connection.
fn send(pair: &mut Pair, line: &mut Line, bhs: &[u8; 48], data: &[u8]) {
    line.transmitter.push(bhs, data);
    while !line.transmitter.pending().is_empty() {
        let now = pair.now();
        let Some(connection) = pair.target.connection(line.place) else {
            return;
        };
        if !connection.wants_input() {
            return;
        }
        let bytes = copy(line.transmitter.pending(), connection.space());
        connection.filled(bytes);
        line.transmitter.sent(bytes);
        pair.target.receive(line.place, now, &mut pair.trace);
    }
}

/// Runs the session until it has nothing more to do or to send.
fn settle(pair: &mut Pair, lines: &mut [Line], context: &mut Context) {
    let mut moved = true;
    while std::mem::take(&mut moved) {
        while let Some((place, _)) = pair.target.poll_end() {
            leave(pair, place);
        }
        for line in &mut *lines {
            let now = pair.now();
            while let Some(work) = pair.target.poll_work(line.place, now, &mut pair.trace) {
                if pair.hold_store {
                    pair.held.push(work);
                } else {
                    pair.answer(work);
                }
                moved = true;
            }
            moved |= hear(pair, line, context);
        }
    }
}

/// Takes the session's output on one connection, which must be valid PDUs.
fn hear(pair: &mut Pair, line: &mut Line, context: &mut Context) -> bool {
    let mut heard = false;
    while let Some(connection) = pair.target.connection(line.place) {
        let bytes = copy(connection.pending(), line.receiver.space());
        if bytes == 0 {
            return heard;
        }
        connection.sent(bytes);
        line.receiver.filled(bytes);
        heard = true;
        while let Some(pdu) = line.receiver.next().expect("whole PDUs") {
            Header::parse(pdu.bhs).expect("PDUs that can be read");
            context.note_tags(pdu.bhs);
            line.exp_stat_sn = word(pdu.bhs, 24).wrapping_add(1);
        }
    }
    heard
}

fn leave(pair: &mut Pair, place: usize) {
    let now = pair.now();
    pair.target.leave(place, now, &mut pair.trace);
}

/// Admits every connection to the single session.
struct Desk {
    session: SessionParameters,
    window: AnnouncedWindow,
    tsih: u16,
}

impl Sessions for Desk {
    fn find(&mut self, _: &Candidate<'_>) -> Result<Found, Refusal> {
        Ok(Found {
            portal_group_tag: 1,
            target_alias: None,
            wanted: None,
            session: Some((self.session, self.window)),
            chap: None,
        })
    }

    fn admit(
        &mut self,
        _: &Candidate<'_>,
        _: &SessionParameters,
        _: &ConnectionParameters,
    ) -> Result<Admitted, Refusal> {
        Ok(Admitted {
            tsih: self.tsih,
            window: self.window,
        })
    }
}

/// A logged-in connection that joins the session.
fn connect(pair: &Pair, cid: u16, wanted: &Wanted) -> Connection {
    let [a, b, c, d, e, f, tsih @ ..] = pair.target.id().0.to_be_bytes();
    let login = LoginSettings {
        initiator: "iqn.2026-01.net.example:initiator".to_owned(),
        isid: [a, b, c, d, e, f],
        target: Some(TARGET.to_owned()),
        chap: None,
        wanted: wanted.clone(),
    };
    let mut desk = Desk {
        session: *pair.target.parameters(),
        window: pair.target.window(),
        tsih: u16::from_be_bytes(tsih),
    };
    let mut near = pair.initiator.join(&login, cid).expect("sound settings");
    let mut far = Handshake::new(wanted.clone());
    loop {
        let bytes = copy(near.pending(), far.space());
        near.sent(bytes);
        far.filled(bytes);
        let accepted = far.receive(&mut desk).expect("a sound login");
        let bytes = copy(far.pending(), near.space());
        far.sent(bytes);
        near.filled(bytes);
        near.receive().expect("a sound answer");
        if let Some(accepted) = accepted {
            return far.into_connection(&accepted);
        }
    }
}
