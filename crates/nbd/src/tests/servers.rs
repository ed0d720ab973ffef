//! Handshakes of the client with servers of all kinds.

use super::machine::{feed, take};
use crate::BlockSizes;
use crate::client::{Client, ClientError, Event, ExportInfo, Wants};
use crate::wire::{
    ExportEntry, Greeting, HandshakeFlags, Info, MetaContext, OptionCode, OptionHeader,
    OptionReplyCode, OptionReplyHeader, ParseError, Replies, SizeAndFlags, TransmissionFlags,
};

/// A server that answers as its test says.
struct Script {
    client: Client,
    /// What the client has sent and nobody has looked at.
    sent: Vec<u8>,
}

impl Script {
    fn new(mut client: Client, flags: u16) -> Self {
        let flags = HandshakeFlags::from_wire(flags);
        assert_eq!(feed(&mut client, &Greeting { flags }.emit()), Ok(vec![]));
        let mut sent = take(&mut client);
        let answered = sent.drain(..4).collect::<Vec<u8>>();
        assert_eq!(answered, u32::from(flags.to_wire()).to_be_bytes());
        Script { client, sent }
    }

    /// A client of fixed newstyle that opens "disk".
    fn opening(wants: Wants) -> Self {
        Script::new(Client::new("disk", wants).unwrap(), 3)
    }

    /// The next option that the client has sent.
    fn option(&mut self) -> (OptionCode, Vec<u8>) {
        self.sent.extend(take(&mut self.client));
        let header = OptionHeader::parse(self.sent.first_chunk().unwrap()).unwrap();
        let data = self.sent.split_off(OptionHeader::BYTES);
        assert_eq!(data.len(), header.data_bytes as usize);
        self.sent.clear();
        (header.option, data)
    }

    fn reply(
        &mut self,
        option: OptionCode,
        reply: OptionReplyCode,
        data: &[u8],
    ) -> Result<Vec<Event>, ClientError> {
        let header = OptionReplyHeader {
            option,
            reply,
            data_bytes: data.len() as u32,
        };
        feed(&mut self.client, &[&header.emit(), data].concat())
    }

    /// Expects an option, and gives its only reply.
    fn answer(&mut self, option: OptionCode, reply: OptionReplyCode) -> Vec<Event> {
        assert_eq!(self.option().0, option);
        self.reply(option, reply, &[]).unwrap()
    }

    fn say(&mut self, info: Info<'_>) -> Result<Vec<Event>, ClientError> {
        let mut data = Vec::new();
        info.emit(&mut data);
        self.reply(OptionCode::Go, OptionReplyCode::Info, &data)
    }

    fn context(&mut self, id: u32, name: &str) -> Result<Vec<Event>, ClientError> {
        let mut data = Vec::new();
        MetaContext { id, name }.emit(&mut data);
        let option = OptionCode::SetMetaContext;
        self.reply(option, OptionReplyCode::MetaContext, &data)
    }
}

const NOTHING: Wants = Wants {
    extended_headers: false,
    structured_replies: false,
    block_status: false,
};

const SIZE: SizeAndFlags = SizeAndFlags {
    size_bytes: 12345,
    flags: TransmissionFlags::HAS_FLAGS,
};

fn ready(events: &[Event]) -> &ExportInfo {
    match events {
        [Event::Ready(info)] => info,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_server_that_knows_everything() {
    let mut script = Script::opening(Wants::default());
    script.answer(OptionCode::ExtendedHeaders, OptionReplyCode::Ack);
    assert_eq!(script.option().0, OptionCode::SetMetaContext);
    script.context(77, "base:allocation").unwrap();
    script
        .reply(OptionCode::SetMetaContext, OptionReplyCode::Ack, &[])
        .unwrap();
    assert_eq!(script.option().0, OptionCode::Go);
    script.say(Info::Other(9)).unwrap();
    script.say(Info::Name("the disk")).unwrap();
    script.say(Info::Description("round")).unwrap();
    let block = BlockSizes {
        minimum_bytes: 512,
        preferred_bytes: 65536,
        maximum_bytes: u32::MAX,
    };
    script.say(Info::BlockSize(block)).unwrap();
    script.say(Info::Export(SIZE)).unwrap();
    let events = script.reply(OptionCode::Go, OptionReplyCode::Ack, &[]);
    let events = events.unwrap();
    let info = ready(&events);
    assert_eq!((info.replies, info.block_status), (Replies::Extended, true));
    assert_eq!(info.export.name, "the disk");
    assert_eq!(info.export.description, "round");
    assert_eq!(info.export.size_bytes, 12345);
    assert_eq!(info.export.block, block);
}

#[test]
fn a_server_that_knows_nothing() {
    let unsup = OptionReplyCode::ErrUnsup;
    let mut script = Script::opening(Wants::default());
    script.answer(OptionCode::ExtendedHeaders, unsup);
    script.answer(OptionCode::StructuredReply, unsup);
    // Without structured replies there are no contexts.
    script.answer(OptionCode::Go, unsup);
    assert_eq!(script.option(), (OptionCode::ExportName, b"disk".to_vec()));
    let events = feed(&mut script.client, &SIZE.emit()).unwrap();
    let info = ready(&events);
    assert_eq!((info.replies, info.block_status), (Replies::Simple, false));
    assert_eq!(info.export.name, "disk");
    assert_eq!(info.export.block, BlockSizes::DEFAULT);
}

#[test]
fn servers_before_fixed_newstyle() {
    for (flags, padding) in [(0, 124), (2, 0)] {
        let client = Client::new("disk", Wants::default()).unwrap();
        let mut script = Script::new(client, flags);
        assert_eq!(script.option(), (OptionCode::ExportName, b"disk".to_vec()));
        let mut answer = SIZE.emit().to_vec();
        answer.resize(answer.len() + padding, 0);
        let (early, end) = answer.split_at(answer.len() - 1);
        assert_eq!(feed(&mut script.client, early), Ok(vec![]));
        ready(&feed(&mut script.client, end).unwrap());
    }
    let mut client = Client::list();
    let flags = HandshakeFlags::NONE;
    let error = feed(&mut client, &Greeting { flags }.emit()).unwrap_err();
    assert_eq!(error, ClientError::NotFixedNewstyle);
    let mut client = Client::list();
    let error = feed(&mut client, b"SSH-2.0-OpenSSH_9.9").unwrap_err();
    assert!(matches!(
        error,
        ClientError::Message(ParseError::Magic { .. })
    ));
}

#[test]
fn contexts_that_are_refused_do_not_count() {
    let mut script = Script::opening(Wants {
        extended_headers: false,
        ..Wants::default()
    });
    script.answer(OptionCode::StructuredReply, OptionReplyCode::Ack);
    assert_eq!(script.option().0, OptionCode::SetMetaContext);
    script.context(1, "base:allocation").unwrap();
    script
        .reply(
            OptionCode::SetMetaContext,
            OptionReplyCode::ErrPolicy,
            b"no",
        )
        .unwrap();
    assert_eq!(script.option().0, OptionCode::Go);
    script.say(Info::Export(SIZE)).unwrap();
    let events = script.reply(OptionCode::Go, OptionReplyCode::Ack, &[]);
    let events = events.unwrap();
    assert!(!ready(&events).block_status);
}

#[test]
fn refusals_say_why_and_the_client_leaves() {
    for (option, reply) in [
        (OptionCode::ExtendedHeaders, OptionReplyCode::ErrTlsReqd),
        (OptionCode::ExtendedHeaders, OptionReplyCode::ErrShutdown),
        (OptionCode::Go, OptionReplyCode::ErrUnknown),
        (OptionCode::Go, OptionReplyCode::ErrPolicy),
        (OptionCode::List, OptionReplyCode::ErrPolicy),
    ] {
        let mut script = match option {
            OptionCode::List => Script::new(Client::list(), 3),
            OptionCode::Go => Script::opening(NOTHING),
            _ => Script::opening(Wants::default()),
        };
        assert_eq!(script.option().0, option);
        let events = script.reply(option, reply, b"be\ngone").unwrap();
        let [Event::Refused(refusal)] = &events[..] else {
            panic!("{events:?}");
        };
        assert_eq!((refusal.option, refusal.reply), (option, reply));
        assert!(refusal.to_string().ends_with(": be\\ngone"));
        assert!(!script.client.is_finished());
        assert_eq!(script.option().0, OptionCode::Abort);
        assert!(script.client.is_finished());
        let ack = script.reply(OptionCode::Abort, OptionReplyCode::Ack, &[]);
        assert_eq!(ack, Ok(vec![]));
    }
}

#[test]
fn extended_headers_go_with_no_old_option() {
    let mut script = Script::opening(Wants::default());
    script.answer(OptionCode::ExtendedHeaders, OptionReplyCode::Ack);
    script.answer(OptionCode::SetMetaContext, OptionReplyCode::Ack);
    let events = script.answer(OptionCode::Go, OptionReplyCode::ErrUnsup);
    assert!(matches!(events[..], [Event::Refused(_)]));
}

#[test]
fn a_goodbye_waits_for_the_reply() {
    let mut client = Client::new("disk", Wants::default()).unwrap();
    client.disconnect();
    let mut script = Script::new(client, 3);
    assert_eq!(script.option().0, OptionCode::Abort);
    assert!(script.client.is_finished());

    let mut script = Script::opening(NOTHING);
    assert_eq!(script.option().0, OptionCode::Go);
    script.say(Info::Export(SIZE)).unwrap();
    script.client.disconnect();
    assert!(script.client.pending().is_empty());
    let events = script.reply(OptionCode::Go, OptionReplyCode::Ack, &[]);
    ready(&events.unwrap());
    // NBD_CMD_DISC.
    assert_eq!(take(&mut script.client).len(), 28);
    assert!(script.client.is_finished());
}

#[test]
fn servers_that_break_the_handshake() {
    let go = |info| {
        let mut script = Script::opening(NOTHING);
        script.say(info)?;
        script.reply(OptionCode::Go, OptionReplyCode::Ack, &[])
    };
    let no_flags = SizeAndFlags {
        flags: TransmissionFlags::READ_ONLY,
        ..SIZE
    };
    assert_eq!(go(Info::Export(no_flags)), Err(ClientError::NoFlags(2)));
    assert_eq!(go(Info::Name("disk")), Err(ClientError::NoExportInfo));
    let block = BlockSizes {
        minimum_bytes: 3,
        ..BlockSizes::DEFAULT
    };
    let error = go(Info::BlockSize(block)).unwrap_err();
    assert!(matches!(error, ClientError::BlockSizes(_)), "{error}");

    let mut script = Script::opening(NOTHING);
    let error = script.reply(OptionCode::List, OptionReplyCode::Ack, &[]);
    assert!(matches!(error, Err(ClientError::WrongOption { .. })));
    let mut script = Script::opening(NOTHING);
    let error = script.reply(OptionCode::Go, OptionReplyCode::Server, &[]);
    assert!(matches!(error, Err(ClientError::WrongOptionReply { .. })));
    let mut script = Script::opening(NOTHING);
    let error = script.reply(OptionCode::Go, OptionReplyCode::Info, &[0; 65537]);
    assert!(matches!(error, Err(ClientError::LongOptionReply { .. })));
    assert!(script.client.memory_bytes() < 100 << 10);

    for names in [&["base:other"][..], &["base:allocation", "base:allocation"]] {
        let mut script = Script::opening(Wants::default());
        script.answer(OptionCode::ExtendedHeaders, OptionReplyCode::Ack);
        let results = names.iter().map(|name| script.context(1, name));
        let error = results.collect::<Result<Vec<_>, _>>().unwrap_err();
        assert!(matches!(error, ClientError::WrongContext { .. }), "{error}");
    }
}

#[test]
fn lists_are_bounded() {
    let mut script = Script::new(Client::list(), 3);
    let mut entry = Vec::new();
    ExportEntry {
        name: "disk",
        description: "",
    }
    .emit(&mut entry);
    let (option, server) = (OptionCode::List, OptionReplyCode::Server);
    for _ in 0..crate::client::MAX_LISTED {
        assert_eq!(script.reply(option, server, &entry), Ok(vec![]));
    }
    let error = script.reply(option, server, &entry);
    assert_eq!(error, Err(ClientError::LongList));
}
