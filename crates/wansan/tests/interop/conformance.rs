//! Our target under `iscsi-test-cu`, libiscsi's test suite: its families for the commands that the
//! target has, each on a target of its own.

use libtest_mimic::Trial;
use wansan_peers::cunit::{Outcome, run_test};

use crate::stage::{Stop, folder, own_target, require};
use crate::trial;

/// The tests that have to pass, by suite.
const PASSING: [(&str, &[&str]); 17] = [
    (
        "SCSI.Inquiry",
        &[
            "Standard",
            "AllocLength",
            "EVPD",
            "MandatoryVPDSBC",
            "SupportedVPD",
            "VersionDescriptors",
        ],
    ),
    ("SCSI.Mandatory", &["MandatorySBC"]),
    ("SCSI.TestUnitReady", &["Simple"]),
    ("SCSI.ReadCapacity10", &["Simple"]),
    (
        "SCSI.ReadCapacity16",
        &["Simple", "Alloclen", "PI", "Support"],
    ),
    (
        "SCSI.ModeSense6",
        &[
            "AllPages",
            "Control",
            "Control-D_SENSE",
            "Control-SWP",
            "Residuals",
        ],
    ),
    ("SCSI.Read6", &["Simple", "BeyondEol"]),
    (
        "SCSI.Read10",
        &["Simple", "BeyondEol", "ZeroBlocks", "ReadProtect", "Async"],
    ),
    (
        "SCSI.Read12",
        &["Simple", "BeyondEol", "ZeroBlocks", "ReadProtect"],
    ),
    (
        "SCSI.Read16",
        &["Simple", "BeyondEol", "ZeroBlocks", "ReadProtect"],
    ),
    (
        "SCSI.Write10",
        &["Simple", "BeyondEol", "ZeroBlocks", "WriteProtect", "Async"],
    ),
    (
        "SCSI.Write12",
        &["Simple", "BeyondEol", "ZeroBlocks", "WriteProtect"],
    ),
    (
        "SCSI.Write16",
        &["Simple", "BeyondEol", "ZeroBlocks", "WriteProtect"],
    ),
    (
        "iSCSI.iSCSIcmdsn",
        &["iSCSICmdSnTooHigh", "iSCSICmdSnTooLow"],
    ),
    ("iSCSI.iSCSIdatasn", &["iSCSIDataSnInvalid"]),
    (
        "iSCSI.iSCSIResiduals",
        &[
            "Read10Invalid",
            "Read10Residuals",
            "Read12Residuals",
            "Read16Residuals",
            "Write10Residuals",
            "Write12Residuals",
            "Write16Residuals",
        ],
    ),
    (
        "iSCSI.iSCSITMF",
        &["AbortTaskSimpleAsync", "LUNResetSimpleAsync"],
    ),
];

const FULLY_PROVISIONED: &str = "Logical unit is fully provisioned. Skipping test";
const NO_OPCODE_REPORT: &str = "REPORT_SUPPORTED_OPCODES is not implemented.";

/// The tests of these suites that skip themselves on our target, by the reason that they print:
/// its units have no holes, and it has neither REPORT SUPPORTED OPERATION CODES nor
/// WRITE AND VERIFY. A test that begins to run, or skips for another reason, fails here until this
/// list is right again.
const SKIPPED: [(&str, &str, &str); 10] = [
    ("SCSI.Inquiry", "BlockLimits", FULLY_PROVISIONED),
    ("SCSI.Read10", "DpoFua", NO_OPCODE_REPORT),
    ("SCSI.Read12", "DpoFua", NO_OPCODE_REPORT),
    ("SCSI.Read16", "DpoFua", NO_OPCODE_REPORT),
    ("SCSI.Write10", "DpoFua", NO_OPCODE_REPORT),
    ("SCSI.Write12", "DpoFua", NO_OPCODE_REPORT),
    ("SCSI.Write16", "DpoFua", NO_OPCODE_REPORT),
    (
        "iSCSI.iSCSIResiduals",
        "WriteVerify10Residuals",
        "WRITEVERIFY10 is not implemented.",
    ),
    (
        "iSCSI.iSCSIResiduals",
        "WriteVerify12Residuals",
        "WRITEVERIFY12 is not implemented.",
    ),
    (
        "iSCSI.iSCSIResiduals",
        "WriteVerify16Residuals",
        "WRITEVERIFY16 is not implemented.",
    ),
];

pub(crate) fn trials() -> Vec<Trial> {
    let passing = PASSING.iter().flat_map(|&(suite, tests)| {
        tests
            .iter()
            .map(move |&test| named(suite, test, move || passes(suite, test)))
    });
    let skipped = SKIPPED
        .iter()
        .map(|&(suite, test, reason)| named(suite, test, move || skips(suite, test, reason)));
    passing.chain(skipped).collect()
}

fn named(
    suite: &str,
    test: &str,
    body: impl FnOnce() -> Result<(), Stop> + Send + 'static,
) -> Trial {
    trial(format!("conformance::{suite}.{test}"), body)
}

fn outcome_of(suite: &str, test: &str) -> Result<Outcome, Stop> {
    let folder = folder()?;
    let target = own_target(&["memory:64MiB"])?;
    Ok(run_test(suite, test, &target.url(0), folder.path())?)
}

fn passes(suite: &str, test: &str) -> Result<(), Stop> {
    let outcome = outcome_of(suite, test)?;
    require(outcome == Outcome::Passed, || format!("{outcome:#?}"))
}

fn skips(suite: &str, test: &str, reason: &str) -> Result<(), Stop> {
    match outcome_of(suite, test)? {
        Outcome::Skipped(printed) if printed == reason => Err(Stop::NotRun(printed)),
        outcome => Err(Stop::Failed(format!(
            "expected to be skipped: '{reason}', not {outcome:#?}"
        ))),
    }
}
