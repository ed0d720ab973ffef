//! Keys after login, in a Text Request (RFC 7143 §6.4).

use super::negotiation::{KeyError, MAX_PAIRS, readable};
use super::table::{Key, KeyName};
use super::value::{Refusal, Value};
use crate::text::send_targets::Asked;
use crate::text::{pairs, push_pair};
use crate::wire::Stage;

/// The content of a Text Request to a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request<'a> {
    /// SendTargets, if requested; the response is appended to `answers`.
    pub asked: Option<Asked<'a>>,
    /// The initiator's new MaxRecvDataSegmentLength, in force from now on.
    pub max_send_data_bytes: Option<u32>,
    /// Answers to keys that cannot be used here.
    pub answers: Vec<u8>,
}

/// Parses the text of a complete Text Request.
///
/// # Errors
/// A [`KeyError`] for malformed text, and for an invalid value of SendTargets or MaxRecvDataSegmentLength: the target
/// answers with a Reject PDU.
pub fn read(text: &[u8]) -> Result<Request<'_>, KeyError> {
    let pairs = pairs(text)?;
    if pairs.len() > MAX_PAIRS {
        return Err(KeyError::TooManyPairs);
    }
    let mut request = Request {
        asked: None,
        max_send_data_bytes: None,
        answers: Vec::new(),
    };
    for pair in pairs {
        let Some(key) = Key::by_text(pair.name) else {
            if Refusal::parse(pair.value).is_none() {
                push_pair(
                    &mut request.answers,
                    pair.name,
                    Refusal::NotUnderstood.text(),
                );
            }
            continue;
        };
        let bad_value = || KeyError::BadDeclaration {
            key: key.text,
            value: readable(pair.value),
            section: key.section,
        };
        match key.name {
            KeyName::SendTargets => {
                request.asked = Some(Asked::parse(pair.value).ok_or_else(bad_value)?);
            }
            KeyName::MaxRecvDataSegmentLength => match key.rule.parse(pair.value) {
                Some(Value::Number(bytes)) => request.max_send_data_bytes = Some(bytes),
                _ => return Err(bad_value()),
            },
            // Descriptive names may change at any time; nothing here depends on them.
            _ if key.allowed_in(Stage::FullFeaturePhase) => {}
            _ => push_pair(&mut request.answers, key.text, Refusal::Reject.text()),
        }
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_come_after_login() {
        let request = read(
            b"SendTargets=All\0MaxRecvDataSegmentLength=65536\0InitiatorAlias=a\0\
              MaxBurstLength=512\0IFMarker=No\0X-com.example=1\0",
        )
        .unwrap();
        assert_eq!(
            request,
            Request {
                asked: Some(Asked::All),
                max_send_data_bytes: Some(65_536),
                answers: b"MaxBurstLength=Reject\0IFMarker=Reject\0X-com.example=NotUnderstood\0"
                    .to_vec(),
            }
        );
    }

    #[test]
    fn a_question_that_makes_no_sense_is_an_error() {
        for text in [
            "SendTargets=Alle\0",
            "MaxRecvDataSegmentLength=1\0",
            "SendTargets",
        ] {
            assert!(read(text.as_bytes()).is_err(), "{text}");
        }
    }
}
