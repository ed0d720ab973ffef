//! One Text negotiation from its first Request to its last Response (RFC 7143 §11.10, §11.11).
//!
//! Text that does not fit in one PDU continues in further PDUs: the receiver answers each except the last with an empty
//! PDU, and the Target Transfer Tag chosen by the target identifies the exchange. A connection has at most one such
//! exchange at a time, so each end keeps one state machine per connection. It determines the content of a PDU; the
//! caller adds tags, CmdSN and StatSN.

use thiserror::Error;

use super::TextError;
use super::continuation::{Joiner, Splitter};
use crate::fault::Fault;
use crate::wire::RESERVED_TAG;

/// Maximum number of Responses of one exchange at the initiator. A 64 KiB response in segments of 512 bytes, the
/// minimum, takes 128.
pub const MAX_RESPONSES: u32 = 256;

/// The content of a Text Request or a Text Response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The data segment.
    pub data: Vec<u8>,
    /// The F bit: the sender has nothing more to send.
    pub is_final: bool,
    /// The C bit: the text continues in the sender's next PDU.
    pub continued: bool,
    /// The Target Transfer Tag.
    pub target_transfer_tag: u32,
}

/// Why an exchange fails. The target answers with Reject "protocol error" (§11.17.1).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExchangeError {
    /// The text is too long or malformed.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A Target Transfer Tag that belongs to no current exchange.
    #[error(
        "text PDU with Target Transfer Tag {target_transfer_tag:#x} belongs to no exchange; the peer must begin with 0xffffffff (RFC 7143 §11.10.4)"
    )]
    UnknownTag {
        /// The tag.
        target_transfer_tag: u32,
    },
    /// F and C in one PDU.
    #[error(
        "text PDU has both its F and its C bit set; the peer must clear one (RFC 7143 §11.10.2)"
    )]
    FinalAndContinued,
    /// Text, or its end, before the other side's text is complete.
    #[error(
        "text PDU interrupts an incomplete text; the peer must answer with an empty PDU (RFC 7143 §6.2)"
    )]
    OutOfTurn,
    /// More than [`MAX_RESPONSES`].
    #[error("text exchange exceeds {MAX_RESPONSES} responses; the peer must complete it")]
    Endless,
}

impl ExchangeError {
    /// Which side is at fault.
    #[must_use]
    pub fn fault(&self) -> Fault {
        Fault::PeerMisbehaved
    }
}

/// The target's next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// The request is complete. Call [`Responder::answer`] with its answer.
    Question(Vec<u8>),
    /// Send this Response.
    Respond(Message),
}

/// The target's side of exchanges on one connection.
///
/// [`receive`](Self::receive) takes each Text Request; when it returns [`Turn::Question`], the caller passes the answer
/// to [`answer`](Self::answer). Both return the Response to send.
#[derive(Debug, Default)]
pub struct Responder {
    /// The tag of the present exchange.
    tag: Option<u32>,
    last_tag: u32,
    question: Joiner,
    answer: Splitter,
    initiator_is_done: bool,
}

impl Responder {
    /// Takes a Text Request. `max_data_bytes` is the initiator's MaxRecvDataSegmentLength.
    ///
    /// # Errors
    /// An [`ExchangeError`] for a Request to reject; the exchange is then dropped.
    pub fn receive(
        &mut self,
        request: &Message,
        max_data_bytes: usize,
    ) -> Result<Turn, ExchangeError> {
        let turn = self.receive_or_refuse(request, max_data_bytes);
        if turn.is_err() {
            self.forget();
        }
        turn
    }

    fn receive_or_refuse(
        &mut self,
        request: &Message,
        max_data_bytes: usize,
    ) -> Result<Turn, ExchangeError> {
        if request.target_transfer_tag == RESERVED_TAG {
            // A new exchange; the initiator has abandoned any earlier one.
            self.forget();
        } else if self.tag != Some(request.target_transfer_tag) {
            return Err(ExchangeError::UnknownTag {
                target_transfer_tag: request.target_transfer_tag,
            });
        }
        if request.is_final && request.continued {
            return Err(ExchangeError::FinalAndContinued);
        }
        self.initiator_is_done = request.is_final;
        if self.answer.has_more() {
            if !request.data.is_empty() {
                return Err(ExchangeError::OutOfTurn);
            }
            return Ok(Turn::Respond(self.next_response(max_data_bytes)));
        }
        match self.question.join(&request.data, request.continued)? {
            Some(question) => Ok(Turn::Question(question)),
            None => Ok(Turn::Respond(self.answer(Vec::new(), max_data_bytes))),
        }
    }

    /// Starts the response `text` to the request that [`receive`](Self::receive) returned.
    pub fn answer(&mut self, text: Vec<u8>, max_data_bytes: usize) -> Message {
        self.answer = Splitter::new(text);
        self.next_response(max_data_bytes)
    }

    fn next_response(&mut self, max_data_bytes: usize) -> Message {
        let piece = self.answer.next_piece(max_data_bytes);
        let is_final = self.initiator_is_done && !piece.continued;
        let target_transfer_tag = if is_final {
            self.tag = None;
            RESERVED_TAG
        } else {
            *self.tag.get_or_insert_with(|| {
                // Any value but RESERVED_TAG will do.
                self.last_tag = (self.last_tag + 1) % RESERVED_TAG;
                self.last_tag
            })
        };
        Message {
            data: piece.data,
            is_final,
            continued: piece.continued,
            target_transfer_tag,
        }
    }

    fn forget(&mut self) {
        self.tag = None;
        self.question = Joiner::default();
        self.answer = Splitter::default();
    }
}

/// The initiator's next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Send this Request, with the Initiator Task Tag of the first.
    Send(Message),
    /// The exchange is complete: the complete response.
    Done(Vec<u8>),
}

/// The initiator's side of one exchange: [`begin`](Self::begin) returns the first Request, [`receive`](Self::receive)
/// takes each Response until it returns [`Next::Done`].
#[derive(Debug)]
pub struct Requester {
    question: Splitter,
    answer: Joiner,
    max_data_bytes: usize,
    responses: u32,
}

impl Requester {
    /// Starts a request with `text`. `max_data_bytes` is the target's MaxRecvDataSegmentLength.
    #[must_use]
    pub fn begin(text: Vec<u8>, max_data_bytes: usize) -> (Self, Message) {
        let mut requester = Requester {
            question: Splitter::new(text),
            answer: Joiner::default(),
            max_data_bytes,
            responses: 0,
        };
        let first = requester.next_request(RESERVED_TAG);
        (requester, first)
    }

    /// Takes a Text Response.
    ///
    /// # Errors
    /// An [`ExchangeError`] if the target violated the protocol; the exchange has then failed.
    pub fn receive(&mut self, response: &Message) -> Result<Next, ExchangeError> {
        self.responses += 1;
        if self.responses > MAX_RESPONSES {
            return Err(ExchangeError::Endless);
        }
        if response.is_final && response.continued {
            return Err(ExchangeError::FinalAndContinued);
        }
        if self.question.has_more() {
            if response.is_final || !response.data.is_empty() {
                return Err(ExchangeError::OutOfTurn);
            }
            return Ok(Next::Send(self.next_request(response.target_transfer_tag)));
        }
        // A Response without F means that the target has more to send, with or without C.
        Ok(
            match self.answer.join(&response.data, !response.is_final)? {
                Some(answer) => Next::Done(answer),
                None => Next::Send(Message {
                    data: Vec::new(),
                    is_final: true,
                    continued: false,
                    target_transfer_tag: response.target_transfer_tag,
                }),
            },
        )
    }

    fn next_request(&mut self, target_transfer_tag: u32) -> Message {
        let piece = self.question.next_piece(self.max_data_bytes);
        Message {
            data: piece.data,
            is_final: !piece.continued,
            continued: piece.continued,
            target_transfer_tag,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(data: &[u8], is_final: bool, continued: bool, target_transfer_tag: u32) -> Message {
        Message {
            data: data.to_vec(),
            is_final,
            continued,
            target_transfer_tag,
        }
    }

    /// Runs an exchange; returns what each side received and the number of Requests.
    fn exchange(
        question: &[u8],
        answer: &[u8],
        to_target_bytes: usize,
        to_initiator_bytes: usize,
    ) -> (Vec<u8>, Vec<u8>, usize) {
        let mut responder = Responder::default();
        let (mut requester, mut request) = Requester::begin(question.to_vec(), to_target_bytes);
        let (mut heard, mut requests) = (Vec::new(), 0);
        loop {
            requests += 1;
            assert!(request.data.len() <= to_target_bytes);
            let response = match responder.receive(&request, to_initiator_bytes).unwrap() {
                Turn::Question(text) => {
                    heard = text;
                    responder.answer(answer.to_vec(), to_initiator_bytes)
                }
                Turn::Respond(response) => response,
            };
            assert!(response.data.len() <= to_initiator_bytes);
            assert_eq!(
                response.is_final,
                response.target_transfer_tag == RESERVED_TAG
            );
            match requester.receive(&response).unwrap() {
                Next::Send(next) => request = next,
                Next::Done(answer) => return (heard, answer, requests),
            }
        }
    }

    #[test]
    fn a_short_question_takes_one_request() {
        let (heard, answer, requests) = exchange(b"SendTargets=All\0", b"TargetName=x\0", 512, 512);
        assert_eq!(
            (heard.as_slice(), answer.as_slice()),
            (&b"SendTargets=All\0"[..], &b"TargetName=x\0"[..])
        );
        assert_eq!(requests, 1);
    }

    proptest! {
        #[test]
        fn long_texts_arrive_whole_both_ways(
            question in proptest::collection::vec(1_u8..255, 0..2000),
            answer in proptest::collection::vec(1_u8..255, 0..2000),
            to_target_bytes in 16_usize..600,
            to_initiator_bytes in 16_usize..600,
        ) {
            let (heard, got, _) = exchange(&question, &answer, to_target_bytes, to_initiator_bytes);
            prop_assert_eq!(heard, question);
            prop_assert_eq!(got, answer);
        }

        #[test]
        fn hostile_requests_are_answered_or_refused(
            requests in proptest::collection::vec(
                (proptest::collection::vec(any::<u8>(), 0..40), any::<bool>(), any::<bool>(),
                 prop_oneof![Just(RESERVED_TAG), 0_u32..4]),
                0..50),
        ) {
            let mut responder = Responder::default();
            for (data, is_final, continued, tag) in requests {
                if let Ok(Turn::Question(text)) =
                    responder.receive(&message(&data, is_final, continued, tag), 16)
                {
                    let _ = responder.answer(text.repeat(2), 16);
                }
            }
        }
    }

    #[test]
    fn requests_out_of_order_are_refused() {
        let mut responder = Responder::default();
        assert_eq!(
            responder.receive(&message(b"", true, false, 7), 512),
            Err(ExchangeError::UnknownTag {
                target_transfer_tag: 7
            })
        );
        assert_eq!(
            responder.receive(&message(b"a=", true, true, RESERVED_TAG), 512),
            Err(ExchangeError::FinalAndContinued)
        );
        assert_eq!(
            responder.receive(&message(b"a=1\0", true, false, RESERVED_TAG), 512),
            Ok(Turn::Question(b"a=1\0".to_vec()))
        );
        let first = responder.answer(b"long answer".to_vec(), 4);
        assert!(first.continued && !first.is_final);
        assert_eq!(
            responder.receive(
                &message(b"b=2\0", true, false, first.target_transfer_tag),
                4
            ),
            Err(ExchangeError::OutOfTurn)
        );
    }

    #[test]
    fn a_target_that_never_ends_is_given_up() {
        let (mut requester, _) = Requester::begin(b"SendTargets=All\0".to_vec(), 512);
        let empty = message(b"", false, false, 1);
        for _ in 0..MAX_RESPONSES {
            assert!(matches!(requester.receive(&empty), Ok(Next::Send(_))));
        }
        assert_eq!(requester.receive(&empty), Err(ExchangeError::Endless));
    }
}
