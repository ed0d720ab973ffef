//! The table of keys (RFC 7143 §12.1 and §13).

use crate::wire::Stage;

/// The scope of a key (RFC 7143 §13: "Scope").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// SW: the whole session.
    Session,
    /// CO: one connection.
    Connection,
}

/// When a key may be sent (RFC 7143 §13: "Use").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// IO: in the login of any connection.
    Initialization,
    /// LO: in the login of a session's leading connection.
    LeadingOnly,
    /// FFPO: in the full feature phase.
    FullFeature,
    /// ALL: in login and in the full feature phase.
    Always,
}

/// In which stages of login a key may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginStages {
    /// The security stage.
    Security,
    /// The operational stage.
    Operational,
    /// "Any-Stage" keys.
    Any,
}

/// Who may send a key (RFC 7143 §13: "Senders").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Senders {
    /// The initiator.
    Initiator,
    /// The target.
    Target,
    /// Either.
    Both,
}

/// The numbers that a key allows, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Lowest.
    pub min: u32,
    /// Highest.
    pub max: u32,
}

impl Range {
    /// Whether `number` is in the range.
    #[must_use]
    pub const fn contains(self, number: u32) -> bool {
        self.min <= number && number <= self.max
    }
}

/// The type of a value, and how two proposals yield one result (RFC 7143 §6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Boolean; Yes when either end says Yes.
    Or {
        /// The default without negotiation.
        default: bool,
    },
    /// Boolean; Yes when both ends say Yes.
    And {
        /// The default without negotiation.
        default: bool,
    },
    /// Number; the smaller proposal.
    Minimum {
        /// The range.
        range: Range,
        /// The default without negotiation.
        default: u32,
    },
    /// Number; the larger proposal.
    Maximum {
        /// The range.
        range: Range,
        /// The default without negotiation.
        default: u32,
    },
    /// List, in order of preference; the first of the offer that the other end supports (§6.2.1).
    List {
        /// The values of the standard that this crate supports.
        values: &'static [&'static str],
        /// The default without negotiation.
        default: &'static str,
    },
    /// Number that its sender declares; no answer.
    DeclaredNumber {
        /// The range.
        range: Range,
        /// The default without a declaration, if there is one.
        default: Option<u32>,
    },
    /// One of a set of words, which its sender declares; no answer.
    DeclaredWord {
        /// Allowed words.
        values: &'static [&'static str],
        /// The default without a declaration.
        default: &'static str,
    },
    /// An iSCSI name that its sender declares; no answer.
    DeclaredName,
    /// Free text that its sender declares; no answer.
    DeclaredText,
    /// A step of an authentication method's own exchange (§12.1), which the negotiation passes on.
    Exchange {
        /// A description of its value.
        form: &'static str,
    },
    /// A request in the full feature phase, answered by other keys.
    Question,
    /// Obsolete in the standard: answered with Reject (§13.25).
    Obsolete,
}

/// The keys, in the order of [`TABLE`].
///
/// A text is processed in this order, whatever the order of its pairs: SessionType first, since it determines which
/// keys are irrelevant, and MaxBurstLength before FirstBurstLength, which it bounds.
#[allow(
    missing_docs,
    reason = "each is named as in RFC 7143 and described in its row of TABLE"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyName {
    SessionType,
    InitiatorName,
    InitiatorAlias,
    TargetName,
    TargetAlias,
    TargetAddress,
    TargetPortalGroupTag,
    AuthMethod,
    ChapA,
    ChapI,
    ChapC,
    ChapN,
    ChapR,
    HeaderDigest,
    DataDigest,
    MaxConnections,
    SendTargets,
    InitialR2T,
    ImmediateData,
    MaxRecvDataSegmentLength,
    MaxBurstLength,
    FirstBurstLength,
    DefaultTime2Wait,
    DefaultTime2Retain,
    MaxOutstandingR2T,
    DataPduInOrder,
    DataSequenceInOrder,
    ErrorRecoveryLevel,
    TaskReporting,
    ProtocolLevel,
    NodeArchitecture,
    IfMarker,
    OfMarker,
    IfMarkInt,
    OfMarkInt,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The key.
    pub name: KeyName,
    /// Its name on the wire.
    pub text: &'static str,
    /// Its section in RFC 7143.
    pub section: &'static str,
    /// Its scope.
    pub scope: Scope,
    /// When it may be sent.
    pub used: Use,
    /// Login stages in which it may be sent.
    pub stages: LoginStages,
    /// Who may send it.
    pub senders: Senders,
    /// Its value and rule.
    pub rule: Rule,
    /// Irrelevant when SessionType=Discovery.
    pub irrelevant_in_discovery: bool,
    /// Its meaning, for docs/reference/keys.md.
    pub meaning: &'static str,
}

impl Key {
    /// The key with this name on the wire. Names are case-sensitive (§6.1).
    #[must_use]
    pub fn by_text(text: &str) -> Option<&'static Key> {
        TABLE.iter().find(|key| key.text == text)
    }

    /// Whether a PDU of `stage` may carry the key.
    #[must_use]
    pub fn allowed_in(&self, stage: Stage) -> bool {
        let in_login = self.used != Use::FullFeature;
        match stage {
            Stage::SecurityNegotiation => in_login && self.stages != LoginStages::Operational,
            Stage::OperationalNegotiation => in_login && self.stages != LoginStages::Security,
            Stage::FullFeaturePhase => matches!(self.used, Use::FullFeature | Use::Always),
        }
    }

    /// Whether it is negotiated, so that an offer is answered.
    #[must_use]
    pub fn is_negotiated(&self) -> bool {
        matches!(
            self.rule,
            Rule::Or { .. }
                | Rule::And { .. }
                | Rule::Minimum { .. }
                | Rule::Maximum { .. }
                | Rule::List { .. }
        )
    }
}

impl KeyName {
    /// Its row.
    #[must_use]
    pub fn key(self) -> &'static Key {
        &TABLE[self as usize]
    }
}

/// Number of keys.
pub const KEYS: usize = 35;

const BYTES: Range = Range {
    min: 512,
    max: 16_777_215,
};
const SECONDS: Range = Range { min: 0, max: 3600 };
const COUNT: Range = Range {
    min: 1,
    max: 65_535,
};

/// Use LO, both senders, scope session: most keys.
const fn leading(
    name: KeyName,
    text: &'static str,
    section: &'static str,
    rule: Rule,
    irrelevant_in_discovery: bool,
    meaning: &'static str,
) -> Key {
    Key {
        name,
        text,
        section,
        scope: Scope::Session,
        used: Use::LeadingOnly,
        stages: LoginStages::Operational,
        senders: Senders::Both,
        rule,
        irrelevant_in_discovery,
        meaning,
    }
}

/// Use IO, both senders, scope connection.
const fn per_connection(
    name: KeyName,
    text: &'static str,
    section: &'static str,
    stages: LoginStages,
    rule: Rule,
    meaning: &'static str,
) -> Key {
    Key {
        scope: Scope::Connection,
        used: Use::Initialization,
        stages,
        ..leading(name, text, section, rule, false, meaning)
    }
}

/// Declarative, Any-Stage, scope session.
const fn declared(
    name: KeyName,
    text: &'static str,
    section: &'static str,
    used: Use,
    senders: Senders,
    rule: Rule,
    meaning: &'static str,
) -> Key {
    Key {
        used,
        stages: LoginStages::Any,
        senders,
        ..leading(name, text, section, rule, false, meaning)
    }
}

/// A step of CHAP's exchange.
const fn chap(name: KeyName, text: &'static str, form: &'static str, meaning: &'static str) -> Key {
    per_connection(
        name,
        text,
        "12.1.3",
        LoginStages::Security,
        Rule::Exchange { form },
        meaning,
    )
}

/// RFC 3720's markers, which RFC 7143 removed.
const fn obsolete(name: KeyName, text: &'static str) -> Key {
    per_connection(
        name,
        text,
        "13.25",
        LoginStages::Operational,
        Rule::Obsolete,
        "Markers of RFC 3720, no longer in the standard; the response is always Reject.",
    )
}

/// Every key of RFC 7143, in the order of [`KeyName`].
pub static TABLE: [Key; KEYS] = [
    declared(
        KeyName::SessionType,
        "SessionType",
        "13.21",
        Use::LeadingOnly,
        Senders::Initiator,
        Rule::DeclaredWord {
            values: &["Normal", "Discovery"],
            default: "Normal",
        },
        "Whether the session is for I/O or for discovery.",
    ),
    declared(
        KeyName::InitiatorName,
        "InitiatorName",
        "13.5",
        Use::Initialization,
        Senders::Initiator,
        Rule::DeclaredName,
        "The initiator's name; required in the first request of every connection.",
    ),
    declared(
        KeyName::InitiatorAlias,
        "InitiatorAlias",
        "13.7",
        Use::Always,
        Senders::Initiator,
        Rule::DeclaredText,
        "A human-readable name.",
    ),
    declared(
        KeyName::TargetName,
        "TargetName",
        "13.4",
        Use::Initialization,
        Senders::Both,
        Rule::DeclaredName,
        "The requested target; required in the first request, except in a discovery session. A \
         target sends it only in response to SendTargets.",
    ),
    declared(
        KeyName::TargetAlias,
        "TargetAlias",
        "13.6",
        Use::Always,
        Senders::Target,
        Rule::DeclaredText,
        "A human-readable name.",
    ),
    declared(
        KeyName::TargetAddress,
        "TargetAddress",
        "13.8",
        Use::Always,
        Senders::Target,
        Rule::DeclaredText,
        "The target's address, in a redirection or in response to SendTargets. The only key \
         that may be repeated.",
    ),
    declared(
        KeyName::TargetPortalGroupTag,
        "TargetPortalGroupTag",
        "13.9",
        Use::Initialization,
        Senders::Target,
        Rule::DeclaredNumber {
            range: Range {
                min: 0,
                max: 65_535,
            },
            default: None,
        },
        "The portal group that serves the login; sent in the first response.",
    ),
    per_connection(
        KeyName::AuthMethod,
        "AuthMethod",
        "12.1",
        LoginStages::Security,
        Rule::List {
            values: &["CHAP", "None"],
            default: "None",
        },
        "The authentication method. None, unless an end has CHAP secrets: then an initiator \
         offers CHAP and None (CHAP only, if the target must authenticate itself), and a target \
         accepts CHAP only.",
    ),
    chap(
        KeyName::ChapA,
        "CHAP_A",
        "numbers",
        "The hash functions that the initiator offers, and the one that the target chooses: 5 is \
         MD5, 6 SHA-1, 7 SHA-256, 8 SHA3-256.",
    ),
    chap(
        KeyName::ChapI,
        "CHAP_I",
        "0 to 255",
        "The identifier of a challenge, part of the hash input.",
    ),
    chap(
        KeyName::ChapC,
        "CHAP_C",
        "1 to 1024 bytes",
        "A challenge. An initiator sends one to require the target's authentication.",
    ),
    chap(
        KeyName::ChapN,
        "CHAP_N",
        "a name",
        "The name whose secret the response uses.",
    ),
    chap(
        KeyName::ChapR,
        "CHAP_R",
        "1 to 1024 bytes",
        "The hash of identifier, secret and challenge.",
    ),
    per_connection(
        KeyName::HeaderDigest,
        "HeaderDigest",
        "13.1",
        LoginStages::Operational,
        Rule::List {
            values: &["None", "CRC32C"],
            default: "None",
        },
        "The checksum of each header.",
    ),
    per_connection(
        KeyName::DataDigest,
        "DataDigest",
        "13.1",
        LoginStages::Operational,
        Rule::List {
            values: &["None", "CRC32C"],
            default: "None",
        },
        "The checksum of each data segment.",
    ),
    leading(
        KeyName::MaxConnections,
        "MaxConnections",
        "13.2",
        Rule::Minimum {
            range: COUNT,
            default: 1,
        },
        true,
        "Maximum number of connections in the session.",
    ),
    Key {
        used: Use::FullFeature,
        senders: Senders::Initiator,
        ..leading(
            KeyName::SendTargets,
            "SendTargets",
            "13.3",
            Rule::Question,
            false,
            "Lists targets: All, empty for the session's own, or a name.",
        )
    },
    leading(
        KeyName::InitialR2T,
        "InitialR2T",
        "13.10",
        Rule::Or { default: true },
        true,
        "Yes: unsolicited Data-Out PDUs are forbidden.",
    ),
    leading(
        KeyName::ImmediateData,
        "ImmediateData",
        "13.11",
        Rule::And { default: true },
        true,
        "Yes: a SCSI Command PDU may carry data.",
    ),
    Key {
        scope: Scope::Connection,
        used: Use::Always,
        ..leading(
            KeyName::MaxRecvDataSegmentLength,
            "MaxRecvDataSegmentLength",
            "13.12",
            Rule::DeclaredNumber {
                range: BYTES,
                default: Some(8192),
            },
            false,
            "The longest data segment, in bytes, that the sender of the key accepts. Each end \
             declares its own.",
        )
    },
    leading(
        KeyName::MaxBurstLength,
        "MaxBurstLength",
        "13.13",
        Rule::Minimum {
            range: BYTES,
            default: 262_144,
        },
        true,
        "Maximum bytes in a Data-In sequence or in the data for one R2T.",
    ),
    leading(
        KeyName::FirstBurstLength,
        "FirstBurstLength",
        "13.14",
        Rule::Minimum {
            range: BYTES,
            default: 65_536,
        },
        true,
        "Maximum unsolicited bytes of a command, including immediate data; never above \
         MaxBurstLength. Irrelevant also when InitialR2T=Yes and ImmediateData=No.",
    ),
    leading(
        KeyName::DefaultTime2Wait,
        "DefaultTime2Wait",
        "13.15",
        Rule::Maximum {
            range: SECONDS,
            default: 2,
        },
        false,
        "Minimum seconds between the loss of a connection and an attempt to recover.",
    ),
    leading(
        KeyName::DefaultTime2Retain,
        "DefaultTime2Retain",
        "13.16",
        Rule::Minimum {
            range: SECONDS,
            default: 20,
        },
        false,
        "Maximum seconds after that wait in which recovery is possible.",
    ),
    leading(
        KeyName::MaxOutstandingR2T,
        "MaxOutstandingR2T",
        "13.17",
        Rule::Minimum {
            range: COUNT,
            default: 1,
        },
        true,
        "Maximum outstanding R2Ts of one task. Always 1 if \
         DataSequenceInOrder=Yes and ErrorRecoveryLevel is not 0 (§13.19).",
    ),
    leading(
        KeyName::DataPduInOrder,
        "DataPDUInOrder",
        "13.18",
        Rule::Or { default: true },
        true,
        "Yes: the PDUs of a sequence have ascending offsets.",
    ),
    leading(
        KeyName::DataSequenceInOrder,
        "DataSequenceInOrder",
        "13.19",
        Rule::Or { default: true },
        true,
        "Yes: the sequences of a task have ascending offsets.",
    ),
    leading(
        KeyName::ErrorRecoveryLevel,
        "ErrorRecoveryLevel",
        "13.20",
        Rule::Minimum {
            range: Range { min: 0, max: 2 },
            default: 0,
        },
        false,
        "0: session recovery; 1: also digest failures; 2: also connection failures.",
    ),
    leading(
        KeyName::TaskReporting,
        "TaskReporting",
        "13.23",
        Rule::List {
            values: &["RFC3720"],
            default: "RFC3720",
        },
        true,
        "How the target reports tasks that a task management function aborted. \
         ResponseFence and FastAbort are not supported.",
    ),
    leading(
        KeyName::ProtocolLevel,
        "iSCSIProtocolLevel",
        "13.24",
        Rule::Minimum {
            range: Range { min: 0, max: 31 },
            default: 1,
        },
        true,
        "1: RFC 7143; 2: RFC 7144 as well.",
    ),
    declared(
        KeyName::NodeArchitecture,
        "X#NodeArchitecture",
        "13.26",
        Use::LeadingOnly,
        Senders::Both,
        Rule::DeclaredText,
        "Software and hardware of the sender, for diagnosis.",
    ),
    obsolete(KeyName::IfMarker, "IFMarker"),
    obsolete(KeyName::OfMarker, "OFMarker"),
    obsolete(KeyName::IfMarkInt, "IFMarkInt"),
    obsolete(KeyName::OfMarkInt, "OFMarkInt"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::MAX_NAME_BYTES;

    #[test]
    fn rows_stand_in_the_order_of_their_names() {
        for (at, key) in TABLE.iter().enumerate() {
            assert_eq!(key.name as usize, at, "{}", key.text);
            assert!(key.text.len() <= MAX_NAME_BYTES);
            assert_eq!(
                Key::by_text(key.text).map(|found| found.name),
                Some(key.name)
            );
        }
    }

    #[test]
    fn defaults_lie_in_their_ranges() {
        for key in &TABLE {
            match key.rule {
                Rule::Minimum { range, default } | Rule::Maximum { range, default } => {
                    assert!(range.contains(default), "{}", key.text);
                }
                Rule::DeclaredNumber {
                    range,
                    default: Some(default),
                } => {
                    assert!(range.contains(default), "{}", key.text);
                }
                Rule::List { values, default } | Rule::DeclaredWord { values, default } => {
                    assert!(values.contains(&default), "{}", key.text);
                }
                _ => {}
            }
        }
    }
}
