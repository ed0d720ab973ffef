//! Sense data (SPC-4 4.5).

use core::fmt;

use super::{Malformed, be16, be32, be64};

/// The sense key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are SPC-4's own")]
pub enum SenseKey {
    NoSense,
    RecoveredError,
    NotReady,
    MediumError,
    HardwareError,
    IllegalRequest,
    UnitAttention,
    DataProtect,
    BlankCheck,
    VendorSpecific,
    CopyAborted,
    AbortedCommand,
    Reserved,
    VolumeOverflow,
    Miscompare,
    Completed,
}

impl SenseKey {
    const ALL: [SenseKey; 16] = [
        SenseKey::NoSense,
        SenseKey::RecoveredError,
        SenseKey::NotReady,
        SenseKey::MediumError,
        SenseKey::HardwareError,
        SenseKey::IllegalRequest,
        SenseKey::UnitAttention,
        SenseKey::DataProtect,
        SenseKey::BlankCheck,
        SenseKey::VendorSpecific,
        SenseKey::CopyAborted,
        SenseKey::AbortedCommand,
        SenseKey::Reserved,
        SenseKey::VolumeOverflow,
        SenseKey::Miscompare,
        SenseKey::Completed,
    ];

    /// The key in the low four bits of `byte`.
    #[must_use]
    pub const fn from_low_bits(byte: u8) -> SenseKey {
        SenseKey::ALL[(byte & 0x0f) as usize]
    }
}

impl fmt::Display for SenseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            SenseKey::NoSense => "NO SENSE",
            SenseKey::RecoveredError => "RECOVERED ERROR",
            SenseKey::NotReady => "NOT READY",
            SenseKey::MediumError => "MEDIUM ERROR",
            SenseKey::HardwareError => "HARDWARE ERROR",
            SenseKey::IllegalRequest => "ILLEGAL REQUEST",
            SenseKey::UnitAttention => "UNIT ATTENTION",
            SenseKey::DataProtect => "DATA PROTECT",
            SenseKey::BlankCheck => "BLANK CHECK",
            SenseKey::VendorSpecific => "VENDOR SPECIFIC",
            SenseKey::CopyAborted => "COPY ABORTED",
            SenseKey::AbortedCommand => "ABORTED COMMAND",
            SenseKey::Reserved => "RESERVED",
            SenseKey::VolumeOverflow => "VOLUME OVERFLOW",
            SenseKey::Miscompare => "MISCOMPARE",
            SenseKey::Completed => "COMPLETED",
        })
    }
}

/// The additional sense code and its qualifier (SPC-4 4.5.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AdditionalSense {
    /// ADDITIONAL SENSE CODE.
    pub code: u8,
    /// ADDITIONAL SENSE CODE QUALIFIER.
    pub qualifier: u8,
}

/// The table of the codes that wansan sends: constants and their names in one place.
macro_rules! additional_sense {
    ($($name:ident = $code:literal / $qualifier:literal, $text:literal;)*) => {
        impl AdditionalSense {
            $(
                #[doc = $text]
                pub const $name: AdditionalSense =
                    AdditionalSense { code: $code, qualifier: $qualifier };
            )*

            /// Its name in SPC-4 annex E.2, for the codes that wansan sends.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match (self.code, self.qualifier) {
                    $(($code, $qualifier) => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

additional_sense! {
    NONE = 0x00 / 0x00, "NO ADDITIONAL SENSE INFORMATION";
    COMMAND_REQUIRED = 0x04 / 0x02, "LOGICAL UNIT NOT READY, INITIALIZING COMMAND REQUIRED";
    WRITE_ERROR = 0x0c / 0x00, "WRITE ERROR";
    UNEXPECTED_UNSOLICITED_DATA = 0x0c / 0x0c, "WRITE ERROR - UNEXPECTED UNSOLICITED DATA";
    NOT_ENOUGH_UNSOLICITED_DATA = 0x0c / 0x0d, "WRITE ERROR - NOT ENOUGH UNSOLICITED DATA";
    INVALID_FIELD_IN_INFORMATION_UNIT = 0x0e / 0x03, "INVALID FIELD IN COMMAND INFORMATION UNIT";
    UNRECOVERED_READ_ERROR = 0x11 / 0x00, "UNRECOVERED READ ERROR";
    COPY_TARGET_NOT_REACHABLE = 0x0d / 0x02, "COPY TARGET DEVICE NOT REACHABLE";
    PARAMETER_LIST_LENGTH = 0x1a / 0x00, "PARAMETER LIST LENGTH ERROR";
    MISCOMPARE = 0x1d / 0x00, "MISCOMPARE DURING VERIFY OPERATION";
    INVALID_OPERATION_CODE = 0x20 / 0x00, "INVALID COMMAND OPERATION CODE";
    LBA_OUT_OF_RANGE = 0x21 / 0x00, "LOGICAL BLOCK ADDRESS OUT OF RANGE";
    INVALID_FIELD_IN_CDB = 0x24 / 0x00, "INVALID FIELD IN CDB";
    UNIT_NOT_SUPPORTED = 0x25 / 0x00, "LOGICAL UNIT NOT SUPPORTED";
    INVALID_FIELD_IN_PARAMETER_LIST = 0x26 / 0x00, "INVALID FIELD IN PARAMETER LIST";
    INVALID_RELEASE = 0x26 / 0x04, "INVALID RELEASE OF PERSISTENT RESERVATION";
    TOO_MANY_TARGET_DESCRIPTORS = 0x26 / 0x06, "TOO MANY TARGET DESCRIPTORS";
    UNSUPPORTED_TARGET_DESCRIPTOR = 0x26 / 0x07, "UNSUPPORTED TARGET DESCRIPTOR TYPE CODE";
    TOO_MANY_SEGMENT_DESCRIPTORS = 0x26 / 0x08, "TOO MANY SEGMENT DESCRIPTORS";
    INEXACT_SEGMENT = 0x26 / 0x0a, "UNEXPECTED INEXACT SEGMENT";
    UNSUPPORTED_SEGMENT_DESCRIPTOR = 0x26 / 0x09, "UNSUPPORTED SEGMENT DESCRIPTOR TYPE CODE";
    WRITE_PROTECTED = 0x27 / 0x00, "WRITE PROTECTED";
    SOFTWARE_WRITE_PROTECTED = 0x27 / 0x02, "LOGICAL UNIT SOFTWARE WRITE PROTECTED";
    SPACE_ALLOCATION_FAILED = 0x27 / 0x07, "SPACE ALLOCATION FAILED WRITE PROTECT";
    RESET = 0x29 / 0x00, "POWER ON, RESET, OR BUS DEVICE RESET OCCURRED";
    POWER_ON = 0x29 / 0x01, "POWER ON OCCURRED";
    BUS_DEVICE_RESET = 0x29 / 0x03, "BUS DEVICE RESET FUNCTION OCCURRED";
    NEXUS_LOSS = 0x29 / 0x07, "I_T NEXUS LOSS OCCURRED";
    MODE_PARAMETERS_CHANGED = 0x2a / 0x01, "MODE PARAMETERS CHANGED";
    RESERVATIONS_PREEMPTED = 0x2a / 0x03, "RESERVATIONS PREEMPTED";
    RESERVATIONS_RELEASED = 0x2a / 0x04, "RESERVATIONS RELEASED";
    REGISTRATIONS_PREEMPTED = 0x2a / 0x05, "REGISTRATIONS PREEMPTED";
    COMMANDS_CLEARED = 0x2f / 0x00, "COMMANDS CLEARED BY ANOTHER INITIATOR";
    SAVING_NOT_SUPPORTED = 0x39 / 0x00, "SAVING PARAMETERS NOT SUPPORTED";
    INTERNAL_TARGET_FAILURE = 0x44 / 0x00, "INTERNAL TARGET FAILURE";
    DATA_PHASE_ERROR = 0x4b / 0x00, "DATA PHASE ERROR";
    PROTOCOL_CRC_ERROR = 0x47 / 0x05, "PROTOCOL SERVICE CRC ERROR";
    NO_REGISTRATION_RESOURCES = 0x55 / 0x04, "INSUFFICIENT REGISTRATION RESOURCES";
}

impl fmt::Display for AdditionalSense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AdditionalSense { code, qualifier } = self;
        match self.name() {
            Some(name) => write!(f, "{name} ({code:02x}/{qualifier:02x})"),
            None => write!(f, "ASC {code:02x}h ASCQ {qualifier:02x}h"),
        }
    }
}

/// The invalid field of the CDB (SPC-4 4.5.2.4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FieldPointer {
    /// The field's first byte in the CDB.
    pub byte: u16,
    /// The field's most significant bit in that byte, 0 to 7; `None` for the whole byte.
    pub bit: Option<u8>,
}

/// Sense data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sense {
    /// The sense key.
    pub key: SenseKey,
    /// The additional sense code and its qualifier.
    pub additional: AdditionalSense,
    /// The invalid field of the CDB, with ILLEGAL REQUEST only.
    pub field: Option<FieldPointer>,
    /// INFORMATION; for a medium error its LBA. The fixed format has room for 32 bits and omits a larger number.
    pub information: Option<u64>,
    /// A deferred error, of an earlier command (SPC-4 4.5.5).
    pub deferred: bool,
}

impl Sense {
    /// Length of [`fixed`](Sense::fixed) sense data.
    pub const FIXED_BYTES: usize = 18;

    /// Sense data with only a sense key and code.
    #[must_use]
    pub const fn new(key: SenseKey, additional: AdditionalSense) -> Sense {
        Sense {
            key,
            additional,
            field: None,
            information: None,
            deferred: false,
        }
    }

    /// Nothing to report.
    pub const NONE: Sense = Sense::new(SenseKey::NoSense, AdditionalSense::NONE);

    /// ILLEGAL REQUEST with that code.
    #[must_use]
    pub const fn illegal(additional: AdditionalSense) -> Sense {
        Sense::new(SenseKey::IllegalRequest, additional)
    }

    /// INVALID FIELD IN CDB: the field that begins at `byte`, with `bit` its most significant bit when it does not fill
    /// its bytes.
    #[must_use]
    pub const fn invalid_field(byte: u16, bit: Option<u8>) -> Sense {
        let mut sense = Sense::illegal(AdditionalSense::INVALID_FIELD_IN_CDB);
        sense.field = Some(FieldPointer { byte, bit });
        sense
    }

    /// The same with INFORMATION.
    #[must_use]
    pub const fn with_information(mut self, information: u64) -> Sense {
        self.information = Some(information);
        self
    }

    /// SENSE KEY SPECIFIC (SPC-4 4.5.2.4): zeros when there is no field pointer.
    fn key_specific(&self) -> [u8; 3] {
        let Some(FieldPointer { byte, bit }) = self.field else {
            return [0; 3];
        };
        let [high, low] = byte.to_be_bytes();
        // SKSV, C/D (the pointer is into the CDB), and BPV with the bit pointer.
        let flags = 0xc0 | bit.map_or(0, |bit| 0x08 | bit & 0x07);
        [flags, high, low]
    }

    /// In fixed format (SPC-4 4.5.3), as used for autosense.
    #[must_use]
    pub fn fixed(&self) -> [u8; Sense::FIXED_BYTES] {
        let mut bytes = [0; Sense::FIXED_BYTES];
        bytes[0] = 0x70 | u8::from(self.deferred);
        bytes[2] = self.key as u8;
        if let Some(information) = self.information.and_then(|i| u32::try_from(i).ok()) {
            bytes[0] |= 0x80;
            bytes[3..7].copy_from_slice(&information.to_be_bytes());
        }
        bytes[7] = (Sense::FIXED_BYTES - 8) as u8;
        bytes[12] = self.additional.code;
        bytes[13] = self.additional.qualifier;
        bytes[15..18].copy_from_slice(&self.key_specific());
        bytes
    }

    /// In descriptor format (SPC-4 4.5.2).
    #[must_use]
    pub fn descriptor(&self) -> Vec<u8> {
        let mut bytes = vec![
            0x72 | u8::from(self.deferred),
            self.key as u8,
            self.additional.code,
            self.additional.qualifier,
            0,
            0,
            0,
            0,
        ];
        if let Some(information) = self.information {
            // Information descriptor, VALID (SPC-4 4.5.2.2).
            bytes.extend([0x00, 0x0a, 0x80, 0x00]);
            bytes.extend(information.to_be_bytes());
        }
        if self.field.is_some() {
            let [flags, high, low] = self.key_specific();
            bytes.extend([0x02, 0x06, 0x00, 0x00, flags, high, low, 0x00]);
        }
        bytes[7] = (bytes.len() - 8) as u8;
        bytes
    }

    /// Parses either format. Fields missing from truncated sense data read as absent; other descriptors are skipped.
    ///
    /// # Errors
    /// When the first byte is no response code (70h to 73h), or sense key and code are truncated.
    pub fn parse(bytes: &[u8]) -> Result<Sense, Malformed> {
        let response = bytes.first().map_or(0, |byte| byte & 0x7f);
        match response {
            0x70 | 0x71 => parse_fixed(bytes, response == 0x71),
            0x72 | 0x73 => parse_descriptor(bytes, response == 0x73),
            _ => Err(Malformed::value("sense data", "response code", response)),
        }
    }
}

fn parse_fixed(bytes: &[u8], deferred: bool) -> Result<Sense, Malformed> {
    // The additional sense length bounds the sense data (SPC-4 4.5.3).
    Malformed::check_bytes("sense data", bytes, 8)?;
    let bytes = &bytes[..bytes.len().min(8 + usize::from(bytes[7]))];
    // Old devices omit the code.
    let at = |index: usize| bytes.get(index).copied().unwrap_or(0);
    let key = SenseKey::from_low_bits(bytes[2]);
    Ok(Sense {
        key,
        additional: AdditionalSense {
            code: at(12),
            qualifier: at(13),
        },
        field: parse_field(key, [at(15), at(16), at(17)]),
        information: (bytes[0] & 0x80 != 0).then(|| u64::from(be32(bytes, 3))),
        deferred,
    })
}

fn parse_descriptor(bytes: &[u8], deferred: bool) -> Result<Sense, Malformed> {
    Malformed::check_bytes("sense data", bytes, 8)?;
    let key = SenseKey::from_low_bits(bytes[1]);
    let mut sense = Sense::new(
        key,
        AdditionalSense {
            code: bytes[2],
            qualifier: bytes[3],
        },
    );
    sense.deferred = deferred;
    let mut rest = &bytes[8..bytes.len().min(8 + usize::from(bytes[7]))];
    while let [kind, length, ..] = *rest {
        let Some((descriptor, after)) = rest.split_at_checked(2 + usize::from(length)) else {
            break;
        };
        match (kind, descriptor.len()) {
            (0x00, 12..) if descriptor[2] & 0x80 != 0 => {
                sense.information = Some(be64(descriptor, 4));
            }
            (0x02, 8..) => {
                sense.field = parse_field(key, [descriptor[4], descriptor[5], descriptor[6]]);
            }
            _ => {}
        }
        rest = after;
    }
    Ok(sense)
}

fn parse_field(key: SenseKey, specific: [u8; 3]) -> Option<FieldPointer> {
    let in_cdb = key == SenseKey::IllegalRequest && specific[0] & 0xc0 == 0xc0;
    in_cdb.then(|| FieldPointer {
        byte: be16(&specific, 1),
        bit: (specific[0] & 0x08 != 0).then_some(specific[0] & 0x07),
    })
}

impl fmt::Display for Sense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.key, self.additional)?;
        if let Some(FieldPointer { byte, bit }) = self.field {
            write!(f, ", CDB byte {byte}")?;
            if let Some(bit) = bit {
                write!(f, " bit {bit}")?;
            }
        }
        if let Some(information) = self.information {
            write!(f, ", information {information}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fixed_format_is_as_spc_draws_it() {
        let sense = Sense::invalid_field(2, Some(5)).with_information(0x0102_0304);
        assert_eq!(
            sense.fixed(),
            [
                0xf0, 0, 0x05, 1, 2, 3, 4, 10, 0, 0, 0, 0, 0x24, 0, 0, 0xcd, 0, 2
            ]
        );
        assert_eq!(
            Sense::illegal(AdditionalSense::INVALID_OPERATION_CODE).fixed(),
            [
                0x70, 0, 0x05, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0
            ]
        );
    }

    #[test]
    fn descriptor_format_is_as_spc_draws_it() {
        assert_eq!(Sense::NONE.descriptor(), [0x72, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(
            Sense::invalid_field(4, None)
                .with_information(7)
                .descriptor(),
            [
                0x72, 5, 0x24, 0, 0, 0, 0, 20, // header
                0, 10, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 7, // information
                2, 6, 0, 0, 0xc0, 0, 4, 0 // sense key specific
            ]
        );
    }

    #[test]
    fn what_does_not_fit_the_fixed_format_is_left_out() {
        let sense = Sense::new(
            SenseKey::MediumError,
            AdditionalSense::UNRECOVERED_READ_ERROR,
        );
        let far = sense.with_information(1 << 32);
        assert_eq!(Sense::parse(&far.fixed()), Ok(sense));
        assert_eq!(Sense::parse(&far.descriptor()), Ok(far));
    }

    #[test]
    fn a_truncated_answer_gives_what_it_has() {
        let bytes = Sense::invalid_field(2, Some(5)).fixed();
        let cut = Sense::parse(&bytes[..14]).expect("key and code are there");
        assert_eq!(cut, Sense::illegal(AdditionalSense::INVALID_FIELD_IN_CDB));
        assert!(Sense::parse(&bytes[..7]).is_err());
        assert!(Sense::parse(&[]).is_err());
        assert!(Sense::parse(&[0x7f; 18]).is_err());
    }

    #[test]
    fn descriptors_that_are_too_short_are_passed_over() {
        let mut bytes = vec![0x72, 5, 0x24, 0, 0, 0, 0, 26];
        bytes.extend([0, 8, 0x80, 0, 0, 0, 0, 0, 0, 7]); // information of 6 bytes
        bytes.extend([2, 4, 0, 0, 0xc0, 0]); // a field pointer cut in two
        bytes.extend([0x80, 0]); // a vendor's, of no bytes
        bytes.extend([2, 6, 0, 0, 0xc0, 0, 4, 0]);
        let sense = Sense::parse(&bytes);
        assert_eq!(sense, Ok(Sense::invalid_field(4, None)));
        bytes.truncate(30); // in the middle of the last one
        let sense = Sense::parse(&bytes);
        let bare = Sense::illegal(AdditionalSense::INVALID_FIELD_IN_CDB);
        assert_eq!(sense, Ok(bare));
    }

    #[test]
    fn it_reads_well() {
        assert_eq!(
            Sense::invalid_field(2, Some(5)).to_string(),
            "ILLEGAL REQUEST, INVALID FIELD IN CDB (24/00), CDB byte 2 bit 5"
        );
        let foreign = AdditionalSense {
            code: 0x04,
            qualifier: 0x0a,
        };
        assert_eq!(foreign.to_string(), "ASC 04h ASCQ 0ah");
    }

    fn any_sense() -> impl Strategy<Value = Sense> {
        let field = proptest::option::of((any::<u16>(), proptest::option::of(0..8u8)));
        (
            any::<[u8; 3]>(),
            field,
            proptest::option::of(any::<u32>()),
            any::<bool>(),
        )
            .prop_map(|([key, code, qualifier], field, information, deferred)| {
                let key = SenseKey::from_low_bits(key);
                let field = field.filter(|_| key == SenseKey::IllegalRequest);
                Sense {
                    key,
                    additional: AdditionalSense { code, qualifier },
                    field: field.map(|(byte, bit)| FieldPointer { byte, bit }),
                    information: information.map(u64::from),
                    deferred,
                }
            })
    }

    proptest! {
        #[test]
        fn both_formats_round_trip(sense in any_sense()) {
            prop_assert_eq!(Sense::parse(&sense.fixed()), Ok(sense));
            prop_assert_eq!(Sense::parse(&sense.descriptor()), Ok(sense));
        }

        #[test]
        fn no_bytes_panic(
            response in 0x70..0x74u8,
            mut bytes in proptest::collection::vec(any::<u8>(), 1..64),
        ) {
            bytes[0] = response;
            let _ = Sense::parse(&bytes);
        }
    }
}
