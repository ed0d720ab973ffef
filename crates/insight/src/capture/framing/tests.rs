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

#[test]
fn digests_are_known_by_where_the_next_header_is() {
    let command = pdu(COMMAND, [900, 700], 0);
    for digests in Digests::ALL {
        let header = if digests.header {
            &noise(1, 4)[..]
        } else {
            &[]
        };
        let data = if digests.data { &noise(2, 4)[..] } else { &[] };
        let request = [&command[..], header].concat();
        let (mut login, mut found) = (Login::default(), Vec::new());
        let mut requests = Framing::new(false);
        for number in 0..2 {
            let (place, length) = (number * request.len() as u64, request.len() as u64);
            requests.feed(&mut login, place, &request, length, &mut found);
        }
        found.clear();
        let mut answers = Framing::new(false);
        answers.learn_from(&requests);
        // Some are the last of their read, and have a StatSN; all have data of noise over several segments.
        let (mut stream, mut begins) = (Vec::new(), Vec::new());
        for number in 0..12 {
            begins.push(stream.len() as u64);
            let mut one = pdu(DATA_IN, [701 + number / 3, 901], DATA);
            one[1] = if number % 3 == 2 { 0x81 } else { 0 };
            let (bhs, zeros) = one.split_at(BHS_BYTES);
            let noise = noise(u64::from(number), zeros.len());
            stream.extend([bhs, header, &noise, data].concat());
        }
        for at in (0..stream.len()).step_by(SEGMENT) {
            let seen = &stream[at..(at + SEGMENT).min(stream.len())];
            answers.feed(&mut login, at as u64, seen, seen.len() as u64, &mut found);
        }
        assert_eq!(offsets(&found), begins, "{digests:?}");
        assert_eq!(login.digests(), digests);
        assert_eq!(answers.hidden(), 0);
    }
}

#[test]
fn numbers_that_went_on_unseen_are_forgotten_once_neither_direction_shows_pdus() {
    const RESPONSE: u8 = 0x21;
    let (mut login, mut found) = (Login::default(), Vec::new());
    let mut directions = [(COMMAND, [10, 7]), (RESPONSE, [7, 10])].map(|(opcode, numbers)| {
        let mut framing = Framing::new(false);
        let early = pdu(opcode, numbers, 0);
        feed(&mut framing, &early, &[(0, early.len())]);
        let late = pdu(opcode, numbers.map(|number| number + 1_000_000), 0);
        (framing, late)
    });
    let mut one_after_the_other = |sent: &[usize]| {
        found.clear();
        for number in 0..2 * MOST_KEPT {
            for &own in sent {
                let (framing, late) = &mut directions[own];
                let (place, length) = ((1 << 20) * (number + 1), late.len() as u64);
                let place = place.max(framing.next + 1);
                framing.feed(&mut login, place, late, length, &mut found);
                framing.acknowledged(&mut login, place + length, &mut found);
                let (left, right) = directions.split_at_mut(1);
                let (own, other) = match own {
                    0 => (&left[0].0, &mut right[0].0),
                    _ => (&right[0].0, &mut left[0].0),
                };
                other.learn_from(own);
            }
        }
        found.len() as u64
    };
    // As long as the other may still be heard, data of one are no PDUs.
    assert_eq!(one_after_the_other(&[0]), 0);
    assert!(one_after_the_other(&[0, 1]) >= MOST_KEPT);
}

/// Feeds segments one behind the other, of which `known` bytes were captured.
fn feed_cut(framing: &mut Framing, segments: &[Vec<u8>], known: usize) -> Vec<Found> {
    let (mut login, mut found) = (Login::default(), Vec::new());
    let mut place = framing.next;
    for segment in segments {
        let (seen, length) = (&segment[..known.min(segment.len())], segment.len() as u64);
        framing.feed(&mut login, place, seen, length, &mut found);
        place += length;
    }
    found
}

#[test]
fn headers_that_were_cut_off_are_found_without_a_login() {
    for known in [24, 28, 32, 36, 47] {
        let request = |number: u32| {
            let mut read = pdu(COMMAND, [9 + number, 7 + number], 0);
            // Of LUN 3, and with a CDB.
            (read[1], read[9]) = (0xc1, 3);
            read[32..48].fill(0x28);
            read
        };
        let requests: Vec<Vec<u8>> = (0..4).map(request).collect();
        let mut initiator = Framing::new(false);
        let found = feed_cut(&mut initiator, &requests, known);
        assert_eq!(offsets(&found), [0, 48, 96, 144], "{known}");
        assert!(found.iter().all(|of| of.has_numbers == (known >= 36)));
        // Each answer takes several segments: once two words of numbers are there, the requests tell of them.
        let mut target = Framing::new(false);
        target.learn_from(&initiator);
        let mut answers = Vec::new();
        for number in 0..4 {
            let answer = pdu(DATA_IN, [7 + number, 10 + number], DATA);
            answers.extend(answer.chunks(SEGMENT).map(<[u8]>::to_vec));
        }
        let expected = [0, 1, 2, 3].map(|number| number * (BHS_BYTES + DATA) as u64);
        let expected = if known < 32 { &[][..] } else { &expected };
        let found = feed_cut(&mut target, &answers, known);
        assert_eq!(offsets(&found), expected, "{known}");
    }
}

#[test]
fn messages_of_a_header_s_length_are_none() {
    // A kind and a count, in the order of bytes of most processors.
    let messages = |kind: u8, flags: u8| {
        let message = |count: u64| {
            let mut message = vec![0; BHS_BYTES];
            (message[0], message[1]) = (kind, flags);
            message[8..16].copy_from_slice(&count.to_le_bytes());
            message[16..24].copy_from_slice(&(7 * count).to_le_bytes());
            message
        };
        (0..200).map(message).collect::<Vec<_>>()
    };
    for known in [24, 32, 48] {
        for (kind, flags) in [(0, 0), (COMMAND, 0), (0x02, 0), (0x21, 0), (DATA_IN, 0)] {
            let found = feed_cut(&mut Framing::new(false), &messages(kind, flags), known);
            assert!(found.is_empty(), "{kind:#x} {known}: {}", found.len());
        }
    }
}

#[test]
fn noise_that_was_cut_off_is_no_header() {
    for known in [24, 28, 32, 36] {
        for length in [48, 52, 560, SEGMENT] {
            let segments: Vec<Vec<u8>> = (0..20_000)
                .map(|seed| {
                    let mut segment = noise(seed * 977 + length as u64, known);
                    segment.resize(length, 0);
                    segment
                })
                .collect();
            let found = feed_cut(&mut Framing::new(false), &segments, known);
            assert!(found.is_empty(), "{known} {length}: {}", found.len());
        }
    }
}

#[test]
fn few_places_amid_data_are_looked_at_closely() {
    const BYTES: usize = 1 << 16;
    let text = b"GET /index.html HTTP/1.1\r\nHost: example.com\r\n".repeat(BYTES / 47);
    for requests in [true, false] {
        for numbers in [[Some(9), Some(0x1234_5678)], [Some(9), Some(3)]] {
            for data in [
                noise(5, BYTES),
                vec![0; BYTES],
                vec![1; BYTES],
                text.clone(),
            ] {
                let places = Likely::of(requests, numbers).places(&data).count();
                assert!(places < BYTES / 1000, "{requests} {numbers:?}: {places}");
            }
        }
    }
}

#[test]
fn a_header_amid_data_is_found_wherever_it_begins() {
    for (opcode, newest) in [
        (COMMAND, [Some(9), Some(0x1200_0000)]),
        (0x21, [Some(u32::MAX - 5), Some(0x80ff_fff0)]),
        (DATA_IN, [None, Some(3)]),
        (0x20, [Some(0x7fff_ffff), None]),
    ] {
        let mut framing = Framing::new(false);
        framing.requests = Some(opcode == COMMAND);
        framing.numbers = newest;
        let [cmd_sn, stat_sn] = newest.map(|newest| newest.unwrap_or(77).wrapping_add(9));
        let words = match opcode {
            COMMAND => [cmd_sn, stat_sn],
            _ => [stat_sn, cmd_sn],
        };
        for place in 1..300 {
            // Data of zeros, of noise and of what headers consist of.
            let mut kinds = [vec![0; 400], noise(place, 400), noise(place, 400)];
            for byte in &mut kinds[2] {
                let usual = [0, 1, 0x21, 0x25, 0x80, 0x12, 0x7f, 0xff];
                *byte = usual[usize::from(*byte) % usual.len()];
            }
            for mut data in kinds {
                let at = place as usize;
                data[at..at + BHS_BYTES].copy_from_slice(&pdu(opcode, words, 0));
                for end in [data.len(), at + BHS_BYTES, at + 32] {
                    let data = &data[..end];
                    let all = 0..data.len();
                    let apart = |at| Some((framing.apart(&data[at..], at == 0)?, at));
                    let nearest = all.filter_map(apart).min().map(|(_, at)| at);
                    assert!(nearest.is_some(), "{opcode:#x} {at} {end}");
                    assert_eq!(framing.amid(data), nearest, "{opcode:#x} {at} {end}");
                }
            }
        }
    }
}
