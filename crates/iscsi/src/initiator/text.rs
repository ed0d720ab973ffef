//! SendTargets at the initiator (RFC 7143 §11.10, §11.11 and Appendix C).

use wansan_trace::{Instant, Recorder, TaskTag};

use super::connection::Link;
use super::error::SessionError;
use super::session::{Core, Event, Session};
use crate::text::exchange::{Message, Next, Requester};
use crate::text::{push_pair, send_targets};
use crate::wire::{BHS_BYTES, Lun, Pdu, TextRequest, TextResponse};

impl Session {
    /// Requests all targets of the portal in a discovery session, or the session's own target.
    /// [`Event::Targets`] is the answer. `None` if an earlier request is outstanding.
    pub fn send_targets(&mut self, now: Instant, trace: &mut Recorder) -> Option<TaskTag> {
        if self.core.asking.is_some() {
            return None;
        }
        let connection = self.connections.first_mut()?;
        let mut question = Vec::new();
        push_pair(&mut question, "SendTargets", "All");
        let max_bytes = connection.link.parameters.max_send_data_bytes as usize;
        let (asking, first) = Requester::begin(question, max_bytes);
        let tag = self.core.tasks.spare_tag();
        self.core.asking = Some((tag, asking));
        let link = &mut connection.link;
        self.core.send_text(link, tag, &first, now, trace);
        Some(tag)
    }
}

impl Core {
    fn send_text(
        &mut self,
        link: &mut Link,
        tag: TaskTag,
        message: &Message,
        now: Instant,
        trace: &mut Recorder,
    ) {
        let mut bhs = [0; BHS_BYTES];
        TextRequest {
            immediate: true,
            final_: message.is_final,
            continue_: message.continued,
            lun: Lun::default(),
            task_tag: tag,
            transfer_tag: message.target_transfer_tag,
            cmd_sn: self.window.cmd_sn(),
            exp_stat_sn: link.exp_stat_sn,
        }
        .emit(&mut bhs);
        link.push(&bhs, &message.data, now, trace);
    }

    /// Takes a piece of the response; requests the next one or passes on the whole.
    pub(super) fn text_response(
        &mut self,
        link: &mut Link,
        pdu: &Pdu<'_>,
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), SessionError> {
        let response = TextResponse::parse(pdu.bhs)?;
        if !link.take_status(response.stat_sn)? {
            return Ok(());
        }
        let tag = response.task_tag;
        let Some((_, asking)) = self.asking.as_mut().filter(|(asked, _)| *asked == tag) else {
            return Err(SessionError::UnexpectedOpcode(pdu.opcode().to_wire()));
        };
        let message = Message {
            data: pdu.data.to_vec(),
            is_final: response.final_,
            continued: response.continue_,
            target_transfer_tag: response.transfer_tag,
        };
        match asking.receive(&message)? {
            Next::Send(next) => self.send_text(link, tag, &next, now, trace),
            Next::Done(answer) => {
                self.asking = None;
                let targets = send_targets::records(&answer)?;
                self.events.push_back(Event::Targets(targets));
            }
        }
        Ok(())
    }
}
