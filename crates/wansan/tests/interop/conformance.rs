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
        &[
            "Simple",
            "BeyondEol",
            "ZeroBlocks",
            "ReadProtect",
            "DpoFua",
            "Async",
        ],
    ),
    (
        "SCSI.Read12",
        &["Simple", "BeyondEol", "ZeroBlocks", "ReadProtect", "DpoFua"],
    ),
    (
        "SCSI.Read16",
        &["Simple", "BeyondEol", "ZeroBlocks", "ReadProtect", "DpoFua"],
    ),
    (
        "SCSI.Write10",
        &[
            "Simple",
            "BeyondEol",
            "ZeroBlocks",
            "WriteProtect",
            "DpoFua",
            "Async",
        ],
    ),
    (
        "SCSI.Write12",
        &[
            "Simple",
            "BeyondEol",
            "ZeroBlocks",
            "WriteProtect",
            "DpoFua",
        ],
    ),
    (
        "SCSI.Write16",
        &[
            "Simple",
            "BeyondEol",
            "ZeroBlocks",
            "WriteProtect",
            "DpoFua",
        ],
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
            "WriteVerify10Residuals",
            "WriteVerify12Residuals",
            "WriteVerify16Residuals",
        ],
    ),
    (
        "iSCSI.iSCSITMF",
        &["AbortTaskSimpleAsync", "LUNResetSimpleAsync"],
    ),
];

const FULLY_PROVISIONED: &str = "Logical unit is fully provisioned. Skipping test";
/// The test of these suites that skips itself on our target, by the reason that it prints: the
/// target's unit is not thin here. A test that begins to run, or skips for another reason, fails
/// here until this list is right again.
const SKIPPED: [(&str, &str, &str); 1] = [("SCSI.Inquiry", "BlockLimits", FULLY_PROVISIONED)];

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
