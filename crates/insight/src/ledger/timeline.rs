//! One I/O's waits while they are being determined.

use wansan_trace::Layer;

use super::{Source, Wait};
use crate::cause::Cause;
use crate::traffic::FlowDirection;

/// Contiguous waits, none of them empty. The memory is reused from one I/O to the next.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    waits: Vec<Wait>,
    /// The buffer that held the waits before they were last cut.
    spare: Vec<Wait>,
}

impl Timeline {
    /// Starts another I/O, with no information yet.
    pub(super) fn clear(&mut self) {
        self.waits.clear();
    }

    /// Appends the next wait.
    ///
    /// # Panics
    /// If it does not begin where the last one ends: a moment has one cause.
    pub(super) fn push(&mut self, wait: Wait) {
        if let Some(last) = self.waits.last() {
            assert_eq!(last.to_ns, wait.from_ns, "waits follow each other");
        }
        if wait.to_ns > wait.from_ns {
            self.waits.push(wait);
        }
    }

    /// From the start of the first wait to the end of the last.
    pub(super) fn span_ns(&self) -> (u64, u64) {
        match (self.waits.first(), self.waits.last()) {
            (Some(first), Some(last)) => (first.from_ns, last.to_ns),
            _ => (0, 0),
        }
    }

    /// The I/O's waits, final once all producers have run.
    pub(super) fn waits(&self) -> &[Wait] {
        &self.waits
    }

    /// Rebuilds the waits: `cut` gets each one, and the list to add its parts to.
    fn cut(&mut self, cut: impl Fn(Wait, &mut Vec<Wait>)) {
        let mut parts = std::mem::take(&mut self.spare);
        parts.clear();
        for wait in self.waits.drain(..) {
            cut(wait, &mut parts);
        }
        self.spare = std::mem::replace(&mut self.waits, parts);
    }

    /// Applies `tell` to the waits, or the parts of them, that lie in an interval.
    pub(super) fn change(&mut self, (from_ns, to_ns): (u64, u64), tell: impl Fn(&mut Wait)) {
        let touches = |wait: &Wait| wait.from_ns < to_ns && from_ns < wait.to_ns;
        // The times of damaged records may be in any order.
        if from_ns >= to_ns || !self.waits.iter().any(touches) {
            return;
        }
        self.cut(|wait, changed| {
            if !touches(&wait) {
                changed.push(wait);
                return;
            }
            let (inner_ns, outer_ns) = (wait.from_ns.max(from_ns), wait.to_ns.min(to_ns));
            let mut inner = Wait {
                from_ns: inner_ns,
                to_ns: outer_ns,
                ..wait
            };
            tell(&mut inner);
            let parts = [
                Wait {
                    to_ns: inner_ns,
                    ..wait
                },
                inner,
                Wait {
                    from_ns: outer_ns,
                    ..wait
                },
            ];
            let parts = parts.into_iter().filter(|part| part.from_ns < part.to_ns);
            // The uncertain part of a wait is no longer than the wait.
            changed.extend(parts.map(|part| Wait {
                uncertain_ns: part.uncertain_ns.min(part.length_ns()),
                ..part
            }));
        });
    }

    /// Attributes the last `length_ns` of the unknown waits in this direction to `cause`.
    pub(super) fn take_last(&mut self, way: FlowDirection, length_ns: u64, cause: Cause) {
        let mut left_ns = length_ns;
        for at in (0..self.waits.len()).rev() {
            let wait = self.waits[at];
            if left_ns == 0 {
                return;
            }
            if wait.cause != Cause::Unknown || wait.way != Some(way) {
                continue;
            }
            let taken_ns = wait.length_ns().min(left_ns);
            left_ns -= taken_ns;
            self.waits[at].cause = cause;
            if taken_ns < wait.length_ns() {
                let cut_ns = wait.to_ns - taken_ns;
                self.waits[at].from_ns = cut_ns;
                self.waits.insert(
                    at,
                    Wait {
                        to_ns: cut_ns,
                        ..wait
                    },
                );
                return;
            }
        }
    }

    /// Splits the unknown waits in this direction by `causes`, which returns the causes within an interval in order of
    /// time. Each may be off by `uncertain_ns` at its ends.
    pub(super) fn explain<I: Iterator<Item = (u64, u64, Cause)>>(
        &mut self,
        way: FlowDirection,
        causes: impl Fn(u64, u64) -> I,
        uncertain_ns: u64,
        source: Source,
    ) {
        self.cut(|wait, told| {
            let mut at_ns = wait.from_ns;
            // Stamps show that bytes on the path have left their sender.
            let has_left = wait.source == Source::Stamps && wait.layer == Layer::Wire;
            if wait.cause == Cause::Unknown && wait.way == Some(way) && !has_left {
                for (from_ns, to_ns, cause) in causes(wait.from_ns, wait.to_ns) {
                    told.extend((at_ns < from_ns).then_some(Wait {
                        from_ns: at_ns,
                        to_ns: from_ns,
                        ..wait
                    }));
                    told.push(Wait {
                        from_ns,
                        to_ns,
                        cause,
                        source,
                        uncertain_ns: uncertain_ns.min(to_ns - from_ns),
                        ..wait
                    });
                    at_ns = to_ns;
                }
            }
            told.extend((at_ns < wait.to_ns).then_some(Wait {
                from_ns: at_ns,
                ..wait
            }));
        });
    }

    /// Up to `uncertain_ns` of each wait in this direction with that cause may belong to the adjacent ones.
    pub(super) fn doubt(&mut self, way: FlowDirection, cause: Cause, uncertain_ns: u64) {
        let doubted = self.waits.iter_mut();
        for wait in doubted.filter(|it| it.cause == cause && it.way == Some(way)) {
            wait.uncertain_ns = uncertain_ns.max(wait.uncertain_ns).min(wait.length_ns());
        }
    }

    /// Applies `tell` to each wait as a whole.
    pub(super) fn each(&mut self, tell: impl Fn(&mut Wait)) {
        self.waits.iter_mut().for_each(tell);
    }

    /// How long bytes in this direction waited for unknown causes, or for TCP as packets show.
    pub(super) fn crossing_ns(&self, way: FlowDirection) -> u64 {
        let of_way = self.waits.iter().filter(|wait| wait.way == Some(way));
        let crossing =
            of_way.filter(|wait| wait.cause == Cause::Unknown || wait.source == Source::Packets);
        crossing.map(Wait::length_ns).sum()
    }

    /// Attributes a command's time above the socket that no TCP sample explains to its program.
    pub(super) fn settle_programs(&mut self) {
        for wait in &mut self.waits {
            if wait.cause == Cause::Unknown && wait.layer == Layer::Queue && wait.way.is_some() {
                wait.cause = Cause::Initiator;
                wait.source = Source::Crossings;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(from_ns: u64, to_ns: u64, way: Option<FlowDirection>) -> Wait {
        Wait {
            from_ns,
            to_ns,
            layer: Layer::Socket,
            way,
            cause: if way.is_some() {
                Cause::Unknown
            } else {
                Cause::Target
            },
            source: Source::Crossings,
            uncertain_ns: 0,
        }
    }

    fn timeline() -> Timeline {
        let mut timeline = Timeline::default();
        timeline.push(wait(0, 100, Some(FlowDirection::ToTarget)));
        timeline.push(wait(100, 120, None));
        timeline.push(wait(120, 120, None));
        timeline.push(wait(120, 200, Some(FlowDirection::ToInitiator)));
        timeline
    }

    fn told(timeline: &Timeline) -> Vec<(u64, u64, Cause)> {
        timeline
            .waits
            .iter()
            .map(|wait| (wait.from_ns, wait.to_ns, wait.cause))
            .collect()
    }

    #[test]
    fn a_stretch_changes_the_parts_that_lie_in_it() {
        let mut timeline = timeline();
        timeline.change((90, 130), |wait| {
            if wait.way.is_some() {
                wait.cause = Cause::Nagle;
            }
        });
        let expected = [
            (0, 90, Cause::Unknown),
            (90, 100, Cause::Nagle),
            (100, 120, Cause::Target),
            (120, 130, Cause::Nagle),
            (130, 200, Cause::Unknown),
        ];
        assert_eq!(told(&timeline), expected);
        assert_eq!(timeline.span_ns(), (0, 200));
    }

    #[test]
    fn what_lies_outside_changes_nothing() {
        let mut timeline = timeline();
        timeline.change((200, 900), |wait| wait.cause = Cause::Nagle);
        assert_eq!(timeline.waits(), self::timeline().waits());
    }

    #[test]
    fn the_last_that_is_unknown_is_taken_first() {
        let mut timeline = timeline();
        timeline.change((150, 160), |wait| wait.cause = Cause::Nagle);
        timeline.take_last(FlowDirection::ToInitiator, 50, Cause::Propagation);
        let expected = [
            (0, 100, Cause::Unknown),
            (100, 120, Cause::Target),
            (120, 140, Cause::Unknown),
            (140, 150, Cause::Propagation),
            (150, 160, Cause::Nagle),
            (160, 200, Cause::Propagation),
        ];
        assert_eq!(told(&timeline), expected);
        timeline.take_last(FlowDirection::ToTarget, 900, Cause::Propagation);
        assert_eq!(timeline.crossing_ns(FlowDirection::ToTarget), 0);
        assert_eq!(timeline.crossing_ns(FlowDirection::ToInitiator), 20);
    }

    #[test]
    fn bytes_that_a_stall_delays_cross_the_path_too() {
        let crossing_ns = |source| {
            let mut timeline = timeline();
            timeline.change((50, 80), |wait| {
                wait.cause = Cause::FastRetransmit;
                wait.source = source;
            });
            timeline.crossing_ns(FlowDirection::ToTarget)
        };
        assert_eq!(crossing_ns(Source::Packets), 100);
        assert_eq!(crossing_ns(Source::Pdus), 70);
    }

    #[test]
    #[should_panic(expected = "waits follow each other")]
    fn a_gap_is_refused() {
        timeline().push(wait(300, 400, None));
    }
}
