//! The handshake ("Fixed newstyle negotiation").

use super::error::ClientError;
use super::event::{ExportInfo, Listing, Refusal, Wants};
use super::facts::{Facts, list};
use crate::input::Input;
use crate::output::Output;
use crate::wire::{
    BASE_ALLOCATION, Choice, ClientFlags, EXPORT_NAME_PADDING_BYTES, Greeting, HandshakeFlags,
    InfoCode, MetaQuery, OptionCode, OptionHeader, OptionReplyCode, OptionReplyHeader, Replies,
    SizeAndFlags,
};

/// The longest data of a reply to an option, bytes: more than any that the standard has.
pub const MAX_OPTION_REPLY_BYTES: u32 = 64 << 10;

/// Options until an export is open, or listed.
#[derive(Debug)]
pub(super) struct Negotiation {
    /// Options to ask for, the next one last. Some become needless by the replies to others.
    to_ask: Vec<OptionCode>,
    step: Step,
    server: HandshakeFlags,
    replies: Replies,
    facts: Facts,
    listed: Vec<Listing>,
    /// The caller wants no more.
    is_leaving: bool,
}

/// What comes next from the server.
#[derive(Debug, Clone, Copy)]
enum Step {
    Greeting,
    /// A reply to that option.
    Reply(OptionCode),
    /// The data of a reply.
    Data(OptionReplyHeader),
    /// The answer to `NBD_OPT_EXPORT_NAME`.
    OldAnswer,
    /// The zeros behind it.
    Padding,
}

/// How the handshake ended.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The transmission phase begins.
    Opened {
        info: ExportInfo,
        context_id: Option<u32>,
        /// The caller has said goodbye meanwhile.
        is_leaving: bool,
    },
    Refused(Refusal),
    Listed(Vec<Listing>),
    /// The caller wanted no more.
    Left,
}

impl Negotiation {
    pub(super) fn open(name: &str, wants: Wants) -> Self {
        let mut to_ask = vec![OptionCode::Go];
        if wants.block_status {
            to_ask.push(OptionCode::SetMetaContext);
        }
        if wants.structured_replies {
            to_ask.push(OptionCode::StructuredReply);
        }
        if wants.extended_headers {
            to_ask.push(OptionCode::ExtendedHeaders);
        }
        Self::asking(name, to_ask)
    }

    pub(super) fn list() -> Self {
        Self::asking("", vec![OptionCode::List])
    }

    fn asking(name: &str, to_ask: Vec<OptionCode>) -> Self {
        Negotiation {
            to_ask,
            step: Step::Greeting,
            server: HandshakeFlags::NONE,
            replies: Replies::Simple,
            facts: Facts::new(name),
            listed: Vec::new(),
            is_leaving: false,
        }
    }

    /// The caller wants no more: the next option is `NBD_OPT_ABORT`.
    pub(super) fn leave(&mut self) {
        self.is_leaving = true;
    }

    /// Takes what was received, until the handshake ends.
    pub(super) fn poll(
        &mut self,
        input: &mut Input,
        output: &mut Output,
    ) -> Result<Option<Outcome>, ClientError> {
        loop {
            let outcome = match self.step {
                Step::Greeting => {
                    let Some(bytes) = input.header() else {
                        return Ok(None);
                    };
                    let greeting = Greeting::parse(bytes)?;
                    input.take(Greeting::BYTES);
                    self.greet(greeting, output)?
                }
                Step::Reply(option) => {
                    let Some(bytes) = input.header() else {
                        return Ok(None);
                    };
                    let header = OptionReplyHeader::parse(bytes)?;
                    input.take(OptionReplyHeader::BYTES);
                    check(option, &header)?;
                    let bytes = header.data_bytes as usize;
                    input.collect(vec![0; bytes], 0, bytes);
                    self.step = Step::Data(header);
                    None
                }
                Step::Data(header) => {
                    let Some(data) = input.collected() else {
                        return Ok(None);
                    };
                    self.step = Step::Reply(header.option);
                    self.take_reply(&header, &data, output)?
                }
                Step::OldAnswer => {
                    let Some(bytes) = input.header() else {
                        return Ok(None);
                    };
                    self.facts.learn_old(SizeAndFlags::parse(bytes));
                    input.take(SizeAndFlags::BYTES);
                    if !self.server.has(HandshakeFlags::NO_ZEROES) {
                        input.skip(EXPORT_NAME_PADDING_BYTES as u64);
                    }
                    self.step = Step::Padding;
                    None
                }
                Step::Padding => {
                    if !input.skipped() {
                        return Ok(None);
                    }
                    Some(self.opened()?)
                }
            };
            if outcome.is_some() {
                return Ok(outcome);
            }
        }
    }

    /// The greeting has come.
    fn greet(
        &mut self,
        greeting: Greeting,
        output: &mut Output,
    ) -> Result<Option<Outcome>, ClientError> {
        self.server = greeting.flags;
        let is_fixed = greeting.flags.has(HandshakeFlags::FIXED_NEWSTYLE);
        let flags = ClientFlags::NONE
            .with_if(is_fixed, ClientFlags::FIXED_NEWSTYLE)
            .with_if(
                greeting.flags.has(HandshakeFlags::NO_ZEROES),
                ClientFlags::NO_ZEROES,
            );
        if !is_fixed {
            if self.to_ask == [OptionCode::List] {
                return Err(ClientError::NotFixedNewstyle);
            }
            self.to_ask = vec![OptionCode::ExportName];
        }
        output.push(&flags.to_wire().to_be_bytes());
        Ok(self.ask(output))
    }

    /// Asks for the next option.
    fn ask(&mut self, output: &mut Output) -> Option<Outcome> {
        if self.is_leaving {
            self.abort(output);
            return Some(Outcome::Left);
        }
        while let Some(option) = self.to_ask.pop() {
            let is_needed = match option {
                OptionCode::StructuredReply => self.replies == Replies::Simple,
                OptionCode::SetMetaContext => self.replies != Replies::Simple,
                _ => true,
            };
            if is_needed {
                push(option, &self.data(option), output);
                self.step = match option {
                    OptionCode::ExportName => Step::OldAnswer,
                    _ => Step::Reply(option),
                };
                break;
            }
        }
        None
    }

    /// The data of an option.
    fn data(&self, option: OptionCode) -> Vec<u8> {
        let name = self.facts.name();
        let mut data = Vec::new();
        match option {
            OptionCode::ExportName => data.extend_from_slice(name.as_bytes()),
            OptionCode::Go => Choice {
                name,
                infos: vec![InfoCode::Name, InfoCode::Description, InfoCode::BlockSize],
            }
            .emit(&mut data),
            OptionCode::SetMetaContext => MetaQuery {
                export: name,
                queries: vec![BASE_ALLOCATION],
            }
            .emit(&mut data),
            _ => {}
        }
        data
    }

    /// A reply is complete.
    fn take_reply(
        &mut self,
        header: &OptionReplyHeader,
        data: &[u8],
        output: &mut Output,
    ) -> Result<Option<Outcome>, ClientError> {
        let option = header.option;
        match (option, header.reply) {
            (OptionCode::Go, OptionReplyCode::Ack) => self.opened().map(Some),
            (OptionCode::List, OptionReplyCode::Ack) => {
                self.abort(output);
                let listed = std::mem::take(&mut self.listed);
                Ok(Some(Outcome::Listed(listed)))
            }
            (_, OptionReplyCode::Ack) => {
                match option {
                    OptionCode::ExtendedHeaders => self.replies = Replies::Extended,
                    OptionCode::StructuredReply => self.replies = Replies::Structured,
                    _ => {}
                }
                Ok(self.ask(output))
            }
            (_, error) if error.is_error() => Ok(self.refused(header, data, output)),
            (OptionCode::Go, OptionReplyCode::Info) => self.facts.learn(data).map(|()| None),
            (OptionCode::List, OptionReplyCode::Server) => {
                list(&mut self.listed, data).map(|()| None)
            }
            (OptionCode::SetMetaContext, OptionReplyCode::MetaContext) => {
                self.facts.choose(data).map(|()| None)
            }
            (option, reply) => Err(ClientError::WrongOptionReply { option, reply }),
        }
    }

    /// The server refuses an option. Most are not needed.
    fn refused(
        &mut self,
        header: &OptionReplyHeader,
        data: &[u8],
        output: &mut Output,
    ) -> Option<Outcome> {
        let OptionReplyHeader { option, reply, .. } = *header;
        if option == OptionCode::SetMetaContext {
            // What was chosen before the error does not count.
            self.facts.context_id = None;
        }
        let is_old = option == OptionCode::Go
            && reply == OptionReplyCode::ErrUnsup
            && self.replies != Replies::Extended;
        if is_old {
            self.to_ask = vec![OptionCode::ExportName];
        }
        let is_needed = matches!(option, OptionCode::Go | OptionCode::List) && !is_old;
        let is_final = matches!(
            reply,
            OptionReplyCode::ErrTlsReqd | OptionReplyCode::ErrShutdown
        );
        if !is_needed && !is_final {
            return self.ask(output);
        }
        self.abort(output);
        Some(Outcome::Refused(Refusal {
            option,
            reply,
            message: String::from_utf8_lossy(data).into_owned(),
        }))
    }

    /// Says goodbye, if the server knows how to.
    fn abort(&self, output: &mut Output) {
        if self.server.has(HandshakeFlags::FIXED_NEWSTYLE) {
            push(OptionCode::Abort, &[], output);
        }
    }

    fn opened(&self) -> Result<Outcome, ClientError> {
        Ok(Outcome::Opened {
            info: self.facts.info(self.replies)?,
            context_id: self.facts.context_id,
            is_leaving: self.is_leaving,
        })
    }
}

/// Whether a reply is one to that option, and not too long.
fn check(option: OptionCode, header: &OptionReplyHeader) -> Result<(), ClientError> {
    if header.option != option {
        return Err(ClientError::WrongOption {
            expected: option,
            found: header.option,
        });
    }
    if header.data_bytes > MAX_OPTION_REPLY_BYTES {
        return Err(ClientError::LongOptionReply {
            option,
            data_bytes: header.data_bytes,
        });
    }
    Ok(())
}

fn push(option: OptionCode, data: &[u8], output: &mut Output) {
    let header = OptionHeader {
        option,
        data_bytes: data.len() as u32,
    };
    output.push(&header.emit());
    output.push(data);
}
