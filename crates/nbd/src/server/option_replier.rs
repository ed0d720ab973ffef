//! Replies to an option.

use crate::output::Output;
use crate::wire::{OptionCode, OptionReplyCode, OptionReplyHeader};

/// Sends the replies to one option.
#[derive(Debug)]
pub(super) struct OptionReplier<'a> {
    pub(super) output: &'a mut Output,
    pub(super) option: OptionCode,
}

impl OptionReplier<'_> {
    /// Says something, before the final reply.
    pub(super) fn say(&mut self, reply: OptionReplyCode, data: &[u8]) {
        let header = OptionReplyHeader {
            option: self.option,
            reply,
            data_bytes: data.len() as u32,
        };
        self.output.push(&header.emit());
        self.output.push(data);
    }

    /// It is done.
    pub(super) fn ack(mut self) {
        self.say(OptionReplyCode::Ack, &[]);
    }

    /// It is refused, which `text` explains to a human being.
    pub(super) fn refuse(mut self, error: OptionReplyCode, text: &str) {
        self.say(error, text.as_bytes());
    }
}
