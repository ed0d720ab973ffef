//! Effects of a path on packets, in their written form.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use wansan_settings::settings;

use crate::plan::quantity::{QueueBound, Rate, Share, Size, Span};

/// A value that is text in its usual form, and a table in its extended form.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum TextOr<S, T> {
    /// As in `jitter = "1ms"`.
    Text(S),
    /// As in `jitter = { kind = "normal", deviation = "1ms" }`.
    Table(T),
}

impl<'de, S: Deserialize<'de>, T: Deserialize<'de>> Deserialize<'de> for TextOr<S, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrTable(PhantomData))
    }
}

struct TextOrTable<S, T>(PhantomData<(S, T)>);

impl<'de, S: Deserialize<'de>, T: Deserialize<'de>> Visitor<'de> for TextOrTable<S, T> {
    type Value = TextOr<S, T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value in quotes with its unit, or a table")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        S::deserialize(StrDeserializer::new(text)).map(TextOr::Text)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(TextOr::Table)
    }
}

/// Delay variation of packets: `"1ms"` is uniform.
pub type Jitter = TextOr<Span, JitterTable>;
/// Rate of a link: constant, or from a file.
pub type LinkRate = TextOr<Rate, RateTable>;
/// Queue of a link: `"64KiB"` or `"100packets"` is drop-tail.
pub type Queue = TextOr<QueueBound, QueueTable>;
/// Packet loss: `"0.1%"` is random loss of that share.
pub type Loss = TextOr<Share, LossTable>;

settings! {
    /// `[path.forward]` and `[path.back]`: overrides for one direction.
    #[derive(Debug, Clone, PartialEq)]
    pub struct EffectsTable {
        /// One-way delay, to 60 s
        pub delay: Option<Span>, "TIME";
        /// Delay variation
        pub jitter: Option<Jitter>, "TIME or table";
        /// Rate of the link
        pub rate: Option<LinkRate>, "RATE or table";
        /// The queue in front of the link
        pub queue: Option<Queue>, "BYTES, packets or table";
        /// Packet loss
        pub loss: Option<Loss>, "percentage or table";
        /// Reordering: packets that are held back so that others overtake them
        pub reorder: Option<ReorderTable>, of ReorderTable;
        /// Share of packets that are duplicated
        pub duplicate: Option<Share>, "percentage";
        /// Share of packets with a flipped bit
        pub corrupt: Option<Share>, "percentage";
        /// Share of ECN-capable packets that are marked CE
        pub mark: Option<Share>, "percentage";
        /// Layer 2 overhead per packet on the link and in the queue, in addition to the 14-byte Ethernet header; up
        /// to 1024
        pub overhead: Option<Size>, "BYTES";
    }
}

impl EffectsTable {
    /// The first key with an effect on packets; a queue or an overhead alone has none.
    #[must_use]
    pub fn first_effect(&self) -> Option<&'static str> {
        let loses = match &self.loss {
            None => false,
            Some(TextOr::Text(share)) => share.0 > 0.0,
            Some(TextOr::Table(_)) => true,
        };
        let happens = |share: Option<Share>| share.is_some_and(|share| share.0 > 0.0);
        let keys = [
            ("delay", self.delay.is_some()),
            ("jitter", self.jitter.is_some()),
            ("rate", self.rate.is_some()),
            ("reorder", self.reorder.is_some()),
            ("loss", loses),
            ("duplicate", happens(self.duplicate)),
            ("corrupt", happens(self.corrupt)),
            ("mark", happens(self.mark)),
        ];
        keys.into_iter()
            .find(|(_, is_set)| *is_set)
            .map(|(key, _)| key)
    }

    /// Both tables merged; `over` takes precedence.
    #[must_use]
    pub fn overridden(&self, over: &EffectsTable) -> EffectsTable {
        fn either<V: Clone>(over: &Option<V>, under: &Option<V>) -> Option<V> {
            over.as_ref().or(under.as_ref()).cloned()
        }
        EffectsTable {
            delay: either(&over.delay, &self.delay),
            jitter: either(&over.jitter, &self.jitter),
            rate: either(&over.rate, &self.rate),
            queue: either(&over.queue, &self.queue),
            loss: either(&over.loss, &self.loss),
            reorder: either(&over.reorder, &self.reorder),
            duplicate: either(&over.duplicate, &self.duplicate),
            corrupt: either(&over.corrupt, &self.corrupt),
            mark: either(&over.mark, &self.mark),
            overhead: either(&over.overhead, &self.overhead),
        }
    }
}

/// `jitter = { … }`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum JitterTable {
    /// Uniform from delay − `spread` to delay + `spread`.
    Uniform {
        /// At most the delay.
        spread: Span,
        /// Whether packets may be reordered.
        #[serde(default)]
        reorder: bool,
    },
    /// Normal around the delay, truncated at zero.
    Normal {
        /// The standard deviation.
        deviation: Span,
        /// Whether packets may be reordered.
        #[serde(default)]
        reorder: bool,
    },
    /// From a table of quantiles.
    File {
        /// The file, in the plan's folder.
        file: String,
        /// Whether packets may be reordered.
        #[serde(default)]
        reorder: bool,
    },
}

/// `rate = { file = … }`: a trace of rates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateTable {
    /// The file, in the plan's folder.
    pub file: String,
}

/// `queue = { … }`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum QueueTable {
    /// Drop-tail.
    DropTail {
        /// What it holds.
        #[serde(default = "limit")]
        limit: QueueBound,
    },
    /// Random early detection.
    Red {
        /// Capacity.
        #[serde(default = "limit")]
        limit: QueueBound,
        /// Average queue above which packets are dropped at random, in bytes or packets.
        min: QueueBound,
        /// Average queue at which `probability` is reached, in the same unit.
        max: QueueBound,
        /// Drop probability there.
        #[serde(default = "red_probability")]
        probability: Share,
        /// Weight of the current queue in the average, above 0 to 1.
        #[serde(default = "red_weight")]
        weight: f64,
        /// Packet size assumed for the average's decay while the link is idle.
        #[serde(default = "red_packet")]
        packet: Size,
        /// Whether the probability rises linearly to 1 at twice `max`, instead of jumping to 1 at `max`.
        #[serde(default = "yes")]
        gentle: bool,
        /// Whether ECN-capable packets are marked instead.
        #[serde(default)]
        ecn: bool,
    },
    /// Controlled delay.
    #[serde(rename = "codel")]
    CoDel {
        /// Capacity.
        #[serde(default = "limit")]
        limit: QueueBound,
        /// Permitted sojourn time of a standing queue.
        #[serde(default = "codel_target")]
        target: Span,
        /// How long it may be exceeded.
        #[serde(default = "codel_interval")]
        interval: Span,
        /// Whether ECN-capable packets are marked instead.
        #[serde(default)]
        ecn: bool,
    },
    /// Strict priority by route.
    Priority {
        /// Capacity.
        #[serde(default = "limit")]
        limit: QueueBound,
        /// `[[route]]`s by name, the highest priority first. Packets of no listed route have the
        /// lowest.
        routes: Vec<String>,
    },
}

/// `loss = { … }`: `packets`, or `kind = "gilbert-elliott"` with its probabilities.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LossTable {
    /// The packets of this direction to drop, by number from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<Vec<u64>>,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<LossKind>,
    /// Probability of the transition from the good to the bad state, per packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p: Option<Share>,
    /// Probability of the transition from the bad to the good state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r: Option<Share>,
    /// Loss rate in the good state (1 − k); 0 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub good: Option<Share>,
    /// Loss rate in the bad state (1 − h); 1 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bad: Option<Share>,
}

/// Loss models written as a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossKind {
    /// A two-state channel.
    GilbertElliott,
}

settings! {
    /// `reorder = { … }`.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct ReorderTable {
        /// Share of packets that are held back
        pub share: Share, "percentage";
        /// How long they are held back, to 60 s
        pub by: Span, "TIME";
    }
}

fn limit() -> QueueBound {
    QueueBound::Bytes(1 << 20)
}

fn red_probability() -> Share {
    Share(0.1)
}

fn red_weight() -> f64 {
    0.002
}

fn red_packet() -> Size {
    Size(1_000)
}

fn yes() -> bool {
    true
}

fn codel_target() -> Span {
    Span(Duration::from_millis(5))
}

fn codel_interval() -> Span {
    Span(Duration::from_millis(100))
}
