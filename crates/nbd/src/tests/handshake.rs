//! Handshakes with clients of all kinds.

use super::machine::{export, feed, option, take};
use crate::server::{Event, MAX_UNREAD_BYTES, Server, ServerError};
use crate::wire::{
    Choice, ClientFlags, CommandCode, CommandFlags, ExportEntry, Greeting, Info, InfoCode,
    MetaContext, MetaQuery, OptionCode, OptionReplyCode, OptionReplyHeader, ParseError,
    RequestHeader, SizeAndFlags, StringProblem, TransmissionFlags,
};
use crate::{BlockSizes, Export};

/// A server of two exports whose client set these flags.
fn greeted(flags: u32) -> Server {
    let mut server = Server::new([export("disk"), export("other")].into());
    let greeting = take(&mut server);
    let greeting = Greeting::parse(greeting.first_chunk().unwrap()).unwrap();
    assert_eq!(greeting.flags.to_wire(), 3);
    assert_eq!(feed(&mut server, &flags.to_be_bytes()), Ok(vec![]));
    server
}

fn fixed() -> Server {
    greeted(ClientFlags::FIXED_NEWSTYLE.to_wire())
}

/// The replies to options, in order.
fn parsed(mut bytes: &[u8]) -> Vec<(OptionReplyHeader, Vec<u8>)> {
    let mut replies = Vec::new();
    while let Some((header, rest)) = bytes.split_first_chunk() {
        let header = OptionReplyHeader::parse(header).unwrap();
        let (data, rest) = rest.split_at(header.data_bytes as usize);
        replies.push((header, data.to_vec()));
        bytes = rest;
    }
    assert!(bytes.is_empty());
    replies
}

/// Asks for an option that opens nothing.
fn ask(server: &mut Server, code: OptionCode, data: &[u8]) -> Vec<(OptionReplyCode, Vec<u8>)> {
    assert_eq!(feed(server, &option(code, data)), Ok(vec![]));
    parsed(&take(server))
        .into_iter()
        .map(|(header, data)| {
            assert_eq!(header.option, code);
            (header.reply, data)
        })
        .collect()
}

/// The final reply to an option that opens nothing.
fn last(server: &mut Server, code: OptionCode, data: &[u8]) -> OptionReplyCode {
    ask(server, code, data).last().unwrap().0
}

fn choice(name: &str, infos: &[InfoCode]) -> Vec<u8> {
    let infos = infos.to_vec();
    let mut data = Vec::new();
    Choice { name, infos }.emit(&mut data);
    data
}

fn contexts(export: &str, queries: &[&str]) -> Vec<u8> {
    let queries = queries.to_vec();
    let mut data = Vec::new();
    MetaQuery { export, queries }.emit(&mut data);
    data
}

/// The server's infos about an export.
fn infos(server: &mut Server, name: &str, infos: &[InfoCode]) -> Vec<Vec<u8>> {
    let mut replies = ask(server, OptionCode::Info, &choice(name, infos));
    assert_eq!(replies.pop(), Some((OptionReplyCode::Ack, vec![])));
    replies
        .into_iter()
        .map(|(reply, data)| {
            assert_eq!(reply, OptionReplyCode::Info);
            data
        })
        .collect()
}

fn flags_of(server: &mut Server, name: &str) -> TransmissionFlags {
    let infos = infos(server, name, &[]);
    let Ok(Info::Export(export)) = Info::parse(&infos[0]) else {
        panic!("{infos:?}");
    };
    export.flags
}

#[test]
fn old_clients_open_exports_by_name() {
    for (flags, bytes) in [(0, 134), (1, 134), (2, 10), (3, 10)] {
        let mut server = greeted(flags);
        let events = feed(&mut server, &option(OptionCode::ExportName, b"other"));
        assert_eq!(events, Ok(vec![Event::Opened { export: 1 }]));
        let answer = take(&mut server);
        assert_eq!(answer.len(), bytes);
        let export = SizeAndFlags::parse(answer.first_chunk().unwrap());
        assert_eq!(export.size_bytes, 1 << 20);
        assert!(export.flags.has(TransmissionFlags::HAS_FLAGS));
        assert!(!export.flags.has(TransmissionFlags::SEND_DF));
        assert!(answer[10..].iter().all(|byte| *byte == 0));
        let read = RequestHeader {
            flags: CommandFlags::NONE,
            command: CommandCode::Read,
            cookie: 1,
            offset_bytes: 0,
            length_bytes: 512,
        };
        let events = feed(&mut server, &read.emit()).unwrap();
        assert!(matches!(events[..], [Event::Request(_)]), "{events:?}");
    }
}

#[test]
fn names_that_old_clients_cannot_have_end_the_connection() {
    let error =
        |data: &[u8]| feed(&mut fixed(), &option(OptionCode::ExportName, data)).unwrap_err();
    let name = "nothing".to_owned();
    assert_eq!(error(b"nothing"), ServerError::UnknownExport { name });
    let not_utf8 = ServerError::InvalidExportName(StringProblem::NotUtf8);
    assert_eq!(error(&[0xff]), not_utf8);
    let too_long = StringProblem::TooLong { bytes: 4097 };
    assert_eq!(
        error(&[b'n'; 4097]),
        ServerError::InvalidExportName(too_long)
    );
    let mut server = fixed();
    assert_eq!(
        last(&mut server, OptionCode::ExtendedHeaders, &[]),
        OptionReplyCode::Ack
    );
    let error = ServerError::ExportNameWithExtendedHeaders;
    let option = option(OptionCode::ExportName, b"disk");
    assert_eq!(feed(&mut server, &option), Err(error.clone()));
    // And so it stays.
    assert_eq!(feed(&mut server, &option), Err(error));
    assert!(!server.is_finished());
}

#[test]
fn clients_that_speak_otherwise_end_the_connection() {
    let mut server = Server::new([export("disk")].into());
    let error = feed(&mut server, &7u32.to_be_bytes()).unwrap_err();
    assert_eq!(error, ServerError::UnknownClientFlags(7));
    let error = feed(&mut fixed(), b"GET / HTTP/1.1\r\n").unwrap_err();
    let ServerError::Header(ParseError::Magic { .. }) = error else {
        panic!("{error}");
    };
}

#[test]
fn exports_are_listed() {
    let mut server = fixed();
    let replies = ask(&mut server, OptionCode::List, &[]);
    let names: Vec<_> = replies[..2]
        .iter()
        .map(|(_, data)| ExportEntry::parse(data).unwrap())
        .map(|entry| (entry.name, entry.description))
        .collect();
    assert_eq!(
        names,
        [("disk", "this is disk"), ("other", "this is other")]
    );
    assert_eq!(replies[2], (OptionReplyCode::Ack, vec![]));
    assert_eq!(
        last(&mut server, OptionCode::List, b"data"),
        OptionReplyCode::ErrInvalid
    );
}

#[test]
fn after_an_unknown_export_the_handshake_goes_on() {
    let mut server = fixed();
    for code in [OptionCode::Info, OptionCode::Go] {
        let unknown = last(&mut server, code, &choice("nothing", &[]));
        assert_eq!(unknown, OptionReplyCode::ErrUnknown);
        // Neither does the empty name mean one of two.
        let default = last(&mut server, code, &choice("", &[]));
        assert_eq!(default, OptionReplyCode::ErrUnknown);
        let invalid = last(&mut server, code, &[0, 0, 0, 9, b'd']);
        assert_eq!(invalid, OptionReplyCode::ErrInvalid);
    }
    let events = feed(&mut server, &option(OptionCode::Go, &choice("disk", &[])));
    assert_eq!(events, Ok(vec![Event::Opened { export: 0 }]));
    let replies = parsed(&take(&mut server));
    assert_eq!(replies.last().unwrap().0.reply, OptionReplyCode::Ack);
}

#[test]
fn the_only_export_is_the_default() {
    let mut server = Server::new([export("disk")].into());
    let hello = [
        &3u32.to_be_bytes()[..],
        &option(OptionCode::ExportName, b""),
    ]
    .concat();
    let events = feed(&mut server, &hello);
    assert_eq!(events, Ok(vec![Event::Opened { export: 0 }]));
}

#[test]
fn infos_are_those_that_are_asked_for() {
    let usual = Export {
        block: BlockSizes::DEFAULT,
        ..export("usual")
    };
    let mut server = Server::new([export("disk"), usual].into());
    feed(&mut server, &1u32.to_be_bytes()).unwrap();
    take(&mut server);
    // Sizes that are not the usual ones are said in any case.
    assert_eq!(infos(&mut server, "disk", &[]).len(), 2);
    assert_eq!(infos(&mut server, "usual", &[]).len(), 1);
    let all = [
        InfoCode::BlockSize,
        InfoCode::Description,
        InfoCode::Other(9),
        InfoCode::Name,
    ];
    let infos = infos(&mut server, "usual", &all);
    let infos: Vec<_> = infos
        .iter()
        .map(|info| Info::parse(info).unwrap())
        .collect();
    assert_eq!(
        infos[1..],
        [
            Info::Name("usual"),
            Info::Description("this is usual"),
            Info::BlockSize(BlockSizes::DEFAULT)
        ]
    );
}

#[test]
fn options_that_are_too_long_are_dropped() {
    let mut server = fixed();
    let long = vec![0; 1_000_000];
    for code in [OptionCode::Go, OptionCode::List, OptionCode::Other(77)] {
        assert_eq!(last(&mut server, code, &long), OptionReplyCode::ErrTooBig);
        assert!(server.memory_bytes() < 130 << 10);
    }
    assert_eq!(
        last(&mut server, OptionCode::StructuredReply, &[]),
        OptionReplyCode::Ack
    );
    // Whoever leaves may say what they like.
    let events = feed(&mut server, &option(OptionCode::Abort, &long));
    assert_eq!(events, Ok(vec![Event::Disconnect]));
    assert!(!server.is_finished());
    assert_eq!(parsed(&take(&mut server))[0].0.reply, OptionReplyCode::Ack);
    assert!(server.is_finished());
    assert_eq!(feed(&mut server, &long), Ok(vec![]));
}

#[test]
fn what_is_not_supported_is_refused() {
    let mut server = fixed();
    for code in [
        OptionCode::StartTls,
        OptionCode::Other(4),
        OptionCode::Other(99),
    ] {
        assert_eq!(last(&mut server, code, &[]), OptionReplyCode::ErrUnsup);
    }
    let code = OptionCode::StructuredReply;
    assert_eq!(last(&mut server, code, b"x"), OptionReplyCode::ErrInvalid);
    let extended = OptionCode::ExtendedHeaders;
    assert_eq!(
        last(&mut server, extended, b"x"),
        OptionReplyCode::ErrInvalid
    );
    assert_eq!(last(&mut server, code, &[]), OptionReplyCode::Ack);
    assert_eq!(last(&mut server, extended, &[]), OptionReplyCode::Ack);
    assert_eq!(
        last(&mut server, code, &[]),
        OptionReplyCode::ErrExtHeaderReqd
    );
    assert!(flags_of(&mut server, "disk").has(TransmissionFlags::SEND_DF));
}

#[test]
fn replies_have_to_be_read() {
    let mut server = Server::new((0..100).map(|n| export(&n.to_string())).collect());
    feed(&mut server, &1u32.to_be_bytes()).unwrap();
    take(&mut server);
    let list = option(OptionCode::List, &[]);
    let error = feed(&mut server, &list.repeat(1000)).unwrap_err();
    let ServerError::UnreadReplies { pending_bytes } = error else {
        panic!("{error}");
    };
    assert_eq!(server.pending().len(), pending_bytes);
    assert!(pending_bytes < MAX_UNREAD_BYTES + 100 * 64);
}

/// The contexts in replies.
fn chosen(replies: &[(OptionReplyCode, Vec<u8>)]) -> Vec<(u32, String)> {
    assert_eq!(replies.last().unwrap().0, OptionReplyCode::Ack);
    replies[..replies.len() - 1]
        .iter()
        .map(|(reply, data)| {
            assert_eq!(*reply, OptionReplyCode::MetaContext);
            let context = MetaContext::parse(data).unwrap();
            (context.id, context.name.to_owned())
        })
        .collect()
}

#[test]
fn contexts_are_listed() {
    let mut server = fixed();
    let code = OptionCode::ListMetaContext;
    let too_early = last(&mut server, code, &contexts("disk", &[]));
    assert_eq!(too_early, OptionReplyCode::ErrInvalid);
    last(&mut server, OptionCode::StructuredReply, &[]);
    let mut listed = |queries: &[&str]| {
        let replies = ask(&mut server, code, &contexts("disk", queries));
        chosen(&replies)
    };
    let all = vec![(0, "base:allocation".to_owned())];
    assert_eq!(listed(&[]), all);
    assert_eq!(listed(&["base:"]), all);
    assert_eq!(listed(&["x:y", "base:allocation", "base:"]), all);
    assert_eq!(listed(&["qemu:", "base:other", "nonsense"]), vec![]);
}

/// Whether NBD_CMD_BLOCK_STATUS is served once the export is open.
fn serves_status(server: &mut Server, name: &str) -> bool {
    feed(server, &option(OptionCode::Go, &choice(name, &[]))).unwrap();
    let status = RequestHeader {
        flags: CommandFlags::NONE,
        command: CommandCode::BlockStatus,
        cookie: 1,
        offset_bytes: 0,
        length_bytes: 512,
    };
    let events = feed(server, &status.emit()).unwrap();
    !events.is_empty()
}

#[test]
fn the_last_choice_of_contexts_counts() {
    let code = OptionCode::SetMetaContext;
    let disk = contexts("disk", &["base:allocation"]);
    let other = contexts("other", &["base:allocation"]);
    let none = contexts("disk", &[]);
    let wildcard = contexts("disk", &["base:"]);
    let unknown = contexts("nothing", &["base:allocation"]);
    let broken = &disk[..disk.len() - 1];
    let long = [&disk[..], &[0; 70_000]].concat();
    for (choices, is_served) in [
        (vec![&disk[..]], true),
        (vec![&disk, &disk], true),
        (vec![&other, &disk], true),
        (vec![&disk, &other], false),
        (vec![&disk, &none], false),
        (vec![&disk, &wildcard], false),
        (vec![&disk, &unknown], false),
        (vec![&disk, broken], false),
        (vec![&disk, &long], false),
        (vec![], false),
    ] {
        let mut server = fixed();
        last(&mut server, OptionCode::StructuredReply, &[]);
        for data in choices {
            ask(&mut server, code, data);
        }
        assert_eq!(serves_status(&mut server, "disk"), is_served);
    }
    // Not before structured replies.
    let mut server = fixed();
    assert_eq!(last(&mut server, code, &disk), OptionReplyCode::ErrInvalid);
    last(&mut server, OptionCode::StructuredReply, &[]);
    assert_eq!(
        last(&mut server, code, &unknown),
        OptionReplyCode::ErrUnknown
    );
    assert_eq!(last(&mut server, code, broken), OptionReplyCode::ErrInvalid);
    let replies = ask(&mut server, code, &disk);
    assert_eq!(chosen(&replies), [(1, "base:allocation".to_owned())]);
}

#[test]
fn queries_about_contexts_are_offered_with_extended_headers() {
    let flag = TransmissionFlags::BLOCK_STATUS_PAYLOAD;
    let disk = contexts("disk", &["base:allocation"]);
    let mut server = fixed();
    last(&mut server, OptionCode::StructuredReply, &[]);
    last(&mut server, OptionCode::SetMetaContext, &disk);
    assert!(!flags_of(&mut server, "disk").has(flag));
    last(&mut server, OptionCode::ExtendedHeaders, &[]);
    assert!(flags_of(&mut server, "disk").has(flag));
    assert!(!flags_of(&mut server, "other").has(flag));
}

#[test]
#[should_panic(expected = "cannot be offered")]
fn exports_are_checked() {
    let mut odd = export("odd");
    odd.block.minimum_bytes = 3;
    let _ = Server::new([odd].into());
}
