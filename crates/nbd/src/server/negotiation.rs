//! The handshake ("Fixed newstyle negotiation").

use std::sync::Arc;

use super::command::CONTEXT_ID;
use super::error::ServerError;
use super::option_replier::OptionReplier;
use crate::Export;
use crate::input::Input;
use crate::output::Output;
use crate::wire::{
    BASE, BASE_ALLOCATION, BlockSizes, CLIENT_FLAGS_BYTES, Choice, ClientFlags,
    EXPORT_NAME_PADDING_BYTES, ExportEntry, Greeting, HandshakeFlags, Info, InfoCode,
    MAX_STRING_BYTES, MetaContext, MetaQuery, OptionCode, OptionHeader, OptionReplyCode, Replies,
    SizeAndFlags, StringProblem, TransmissionFlags, check_string,
};

/// The longest data of an option that is looked at, bytes; longer data is dropped as it comes.
pub const MAX_OPTION_BYTES: u32 = 64 << 10;

/// How many bytes of replies a client may leave unread while it sends further options.
pub const MAX_UNREAD_BYTES: usize = 64 << 10;

/// Options of a client that has not opened an export yet.
#[derive(Debug)]
pub(super) struct Negotiation {
    exports: Arc<[Export]>,
    /// `None` until the client answered the greeting.
    client: Option<ClientFlags>,
    /// The option whose data comes next.
    awaited: Option<OptionHeader>,
    replies: Replies,
    /// The export that `base:allocation` is chosen for.
    status_of: Option<usize>,
}

/// What both ends agreed on.
#[derive(Debug)]
pub(super) struct Terms {
    /// The export's place.
    pub(super) export: usize,
    pub(super) replies: Replies,
    /// `base:allocation` is chosen for that export.
    pub(super) has_status: bool,
}

/// How the handshake ended.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The transmission phase begins.
    Opened(Terms),
    /// The client wants no more.
    Aborted,
}

impl Negotiation {
    pub(super) fn new(exports: Arc<[Export]>, output: &mut Output) -> Self {
        let flags = HandshakeFlags::FIXED_NEWSTYLE.with(HandshakeFlags::NO_ZEROES);
        output.push(&Greeting { flags }.emit());
        Negotiation {
            exports,
            client: None,
            awaited: None,
            replies: Replies::Simple,
            status_of: None,
        }
    }

    /// Takes what was received, until the handshake ends.
    pub(super) fn poll(
        &mut self,
        input: &mut Input,
        output: &mut Output,
    ) -> Result<Option<Outcome>, ServerError> {
        let Some(client) = self.client(input)? else {
            return Ok(None);
        };
        loop {
            let Some(header) = self.awaited else {
                let Some(bytes) = input.header() else {
                    return Ok(None);
                };
                let header = OptionHeader::parse(bytes)?;
                input.take(OptionHeader::BYTES);
                self.begin(&header, input, output)?;
                continue;
            };
            let replier = OptionReplier {
                output,
                option: header.option,
            };
            if header.data_bytes > MAX_OPTION_BYTES {
                if !input.skipped() {
                    return Ok(None);
                }
                self.awaited = None;
                if header.option == OptionCode::Abort {
                    replier.ack();
                    return Ok(Some(Outcome::Aborted));
                }
                self.skip(replier);
                continue;
            }
            let Some(data) = input.collected() else {
                return Ok(None);
            };
            self.awaited = None;
            let outcome = self.answer(client, &data, replier)?;
            if outcome.is_some() {
                return Ok(outcome);
            }
        }
    }

    /// The client's flags, once they are there.
    fn client(&mut self, input: &mut Input) -> Result<Option<ClientFlags>, ServerError> {
        if self.client.is_none()
            && let Some(bytes) = input.header::<CLIENT_FLAGS_BYTES>()
        {
            let flags = ClientFlags::from_wire(u32::from_be_bytes(*bytes));
            input.take(CLIENT_FLAGS_BYTES);
            let known = ClientFlags::FIXED_NEWSTYLE.with(ClientFlags::NO_ZEROES);
            if flags.without(known) != ClientFlags::NONE {
                return Err(ServerError::UnknownClientFlags(flags.to_wire()));
            }
            self.client = Some(flags);
        }
        Ok(self.client)
    }

    /// An option's header has come.
    fn begin(
        &mut self,
        header: &OptionHeader,
        input: &mut Input,
        output: &Output,
    ) -> Result<(), ServerError> {
        let pending_bytes = output.len();
        if pending_bytes > MAX_UNREAD_BYTES {
            return Err(ServerError::UnreadReplies { pending_bytes });
        }
        let bytes = header.data_bytes as usize;
        if header.option == OptionCode::ExportName && bytes > MAX_STRING_BYTES {
            let problem = StringProblem::TooLong { bytes };
            return Err(ServerError::InvalidExportName(problem));
        }
        if header.data_bytes > MAX_OPTION_BYTES {
            input.skip(u64::from(header.data_bytes));
        } else {
            input.collect(vec![0; bytes], 0, bytes);
        }
        self.awaited = Some(*header);
        Ok(())
    }

    /// An option's data was too long.
    fn skip(&mut self, replier: OptionReplier<'_>) {
        if replier.option == OptionCode::SetMetaContext {
            // It replaces what was chosen before, even when it fails.
            self.status_of = None;
        }
        replier.refuse(
            OptionReplyCode::ErrTooBig,
            "options have at most 65536 bytes of data here",
        );
    }

    /// An option is complete.
    fn answer(
        &mut self,
        client: ClientFlags,
        data: &[u8],
        mut replier: OptionReplier<'_>,
    ) -> Result<Option<Outcome>, ServerError> {
        match replier.option {
            OptionCode::ExportName => {
                return self.open_old(client, data, replier.output).map(Some);
            }
            OptionCode::Abort => {
                replier.ack();
                return Ok(Some(Outcome::Aborted));
            }
            OptionCode::Info | OptionCode::Go => return Ok(self.choose(data, replier)),
            OptionCode::List | OptionCode::StructuredReply | OptionCode::ExtendedHeaders
                if !data.is_empty() =>
            {
                replier.refuse(OptionReplyCode::ErrInvalid, "the option has no data");
            }
            OptionCode::List => {
                for export in self.exports.iter() {
                    let mut entry = Vec::new();
                    ExportEntry {
                        name: &export.name,
                        description: &export.description,
                    }
                    .emit(&mut entry);
                    replier.say(OptionReplyCode::Server, &entry);
                }
                replier.ack();
            }
            OptionCode::StructuredReply if self.replies == Replies::Extended => replier.refuse(
                OptionReplyCode::ErrExtHeaderReqd,
                "extended headers are in use already",
            ),
            OptionCode::StructuredReply => {
                self.replies = Replies::Structured;
                replier.ack();
            }
            OptionCode::ExtendedHeaders => {
                self.replies = Replies::Extended;
                replier.ack();
            }
            OptionCode::ListMetaContext | OptionCode::SetMetaContext => {
                self.contexts(data, replier);
            }
            OptionCode::StartTls => {
                replier.refuse(OptionReplyCode::ErrUnsup, "the server does not support TLS");
            }
            OptionCode::Other(_) => {
                replier.refuse(OptionReplyCode::ErrUnsup, "the option is unknown");
            }
        }
        Ok(None)
    }

    /// `NBD_OPT_EXPORT_NAME`, to which there is no reply that refuses.
    fn open_old(
        &mut self,
        client: ClientFlags,
        data: &[u8],
        output: &mut Output,
    ) -> Result<Outcome, ServerError> {
        if self.replies == Replies::Extended {
            return Err(ServerError::ExportNameWithExtendedHeaders);
        }
        let name = check_string(data).map_err(ServerError::InvalidExportName)?;
        let Some(export) = self.find(name) else {
            let name = name.to_owned();
            return Err(ServerError::UnknownExport { name });
        };
        output.push(&self.size_and_flags(export).emit());
        if !client.has(ClientFlags::NO_ZEROES) {
            output.push(&[0; EXPORT_NAME_PADDING_BYTES]);
        }
        Ok(Outcome::Opened(self.terms(export)))
    }

    /// `NBD_OPT_INFO` and `NBD_OPT_GO`.
    fn choose(&self, data: &[u8], mut replier: OptionReplier<'_>) -> Option<Outcome> {
        let choice = match Choice::parse(data) {
            Ok(choice) => choice,
            Err(error) => {
                replier.refuse(OptionReplyCode::ErrInvalid, &error.to_string());
                return None;
            }
        };
        let Some(place) = self.find(choice.name) else {
            replier.refuse(OptionReplyCode::ErrUnknown, "there is no such export");
            return None;
        };
        let export = &self.exports[place];
        let wants = |info| choice.infos.contains(&info);
        let infos = [
            Some(Info::Export(self.size_and_flags(place))),
            wants(InfoCode::Name).then_some(Info::Name(&export.name)),
            wants(InfoCode::Description).then_some(Info::Description(&export.description)),
            // Clients that do not ask may know them nevertheless.
            (wants(InfoCode::BlockSize) || export.block != BlockSizes::DEFAULT)
                .then_some(Info::BlockSize(export.block)),
        ];
        for info in infos.iter().flatten() {
            let mut data = Vec::new();
            info.emit(&mut data);
            replier.say(OptionReplyCode::Info, &data);
        }
        let is_opened = replier.option == OptionCode::Go;
        replier.ack();
        is_opened.then(|| Outcome::Opened(self.terms(place)))
    }

    /// `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`.
    fn contexts(&mut self, data: &[u8], mut replier: OptionReplier<'_>) {
        let sets = replier.option == OptionCode::SetMetaContext;
        if sets {
            // It replaces what was chosen before, even when it fails.
            self.status_of = None;
        }
        if self.replies == Replies::Simple {
            let text = "structured replies or extended headers have to be agreed on first";
            replier.refuse(OptionReplyCode::ErrInvalid, text);
            return;
        }
        let query = match MetaQuery::parse(data) {
            Ok(query) => query,
            Err(error) => {
                replier.refuse(OptionReplyCode::ErrInvalid, &error.to_string());
                return;
            }
        };
        let Some(export) = self.find(query.export) else {
            replier.refuse(OptionReplyCode::ErrUnknown, "there is no such export");
            return;
        };
        let queries = &query.queries;
        let lists_it = !sets && (queries.is_empty() || queries.contains(&BASE));
        if lists_it || queries.contains(&BASE_ALLOCATION) {
            if sets {
                self.status_of = Some(export);
            }
            let mut context = Vec::new();
            MetaContext {
                id: if sets { CONTEXT_ID } else { 0 },
                name: BASE_ALLOCATION,
            }
            .emit(&mut context);
            replier.say(OptionReplyCode::MetaContext, &context);
        }
        replier.ack();
    }

    /// The export of that name. An empty name means the only export, too.
    fn find(&self, name: &str) -> Option<usize> {
        let named = self.exports.iter().position(|export| export.name == name);
        let is_default = name.is_empty() && self.exports.len() == 1;
        named.or(is_default.then_some(0))
    }

    fn size_and_flags(&self, place: usize) -> SizeAndFlags {
        let export = &self.exports[place];
        let terms = self.terms(place);
        let has_chunks = terms.replies != Replies::Simple;
        let takes_queries = terms.replies == Replies::Extended && terms.has_status;
        let flags = export
            .abilities
            .to_flags()
            .with_if(has_chunks, TransmissionFlags::SEND_DF)
            .with_if(takes_queries, TransmissionFlags::BLOCK_STATUS_PAYLOAD);
        SizeAndFlags {
            size_bytes: export.size_bytes,
            flags,
        }
    }

    fn terms(&self, export: usize) -> Terms {
        Terms {
            export,
            replies: self.replies,
            has_status: self.status_of == Some(export),
        }
    }
}
