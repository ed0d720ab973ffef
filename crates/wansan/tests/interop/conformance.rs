//! Our target under `iscsi-test-cu`, libiscsi's test suite: its families for the commands that the
//! target has, each test on a target of its own.

use libtest_mimic::Trial;
use wansan_peers::cunit::{Outcome, run_test};

use crate::stage::{Stop, folder, own_target, require};
use crate::trial;

/// The tests that have to pass, by family.
const PASSING: [(&str, &[&str]); 22] = [
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
    ("iSCSI.iSCSIResiduals", &["Read10Invalid"]),
    ("iSCSI.iSCSIResiduals", &["Read10Residuals"]),
    (
        "iSCSI.iSCSIResiduals",
        &["Read12Residuals", "Read16Residuals"],
    ),
    ("iSCSI.iSCSIResiduals", &["Write10Residuals"]),
    ("iSCSI.iSCSIResiduals", &["Write12Residuals"]),
    ("iSCSI.iSCSIResiduals", &["Write16Residuals"]),
    (
        "iSCSI.iSCSITMF",
        &["AbortTaskSimpleAsync", "LUNResetSimpleAsync"],
    ),
];

/// The tests that skip themselves on our target, each with the reason that they print. One that
/// begins to run, or skips for another reason, fails here until this list is right again.
const SKIPPED: [(&str, &str); 1] = [(
    "SCSI.Inquiry.BlockLimits",
    "Logical unit is fully provisioned. Skipping test",
)];

pub(crate) fn trials() -> Vec<Trial> {
    let passing = PASSING.iter().flat_map(|(family, tests)| {
        tests.iter().map(move |test| {
            let name = format!("{family}.{test}");
            trial(format!("conformance::{name}"), move || passes(&name))
        })
    });
    let skipped = SKIPPED
        .iter()
        .map(|(name, reason)| trial(format!("conformance::{name}"), || skips(name, reason)));
    passing.chain(skipped).collect()
}

fn outcome_of(name: &str) -> Result<Outcome, Stop> {
    let folder = folder()?;
    let target = own_target(&["memory:64MiB"])?;
    Ok(run_test(name, &target.url(0), folder.path())?)
}

fn passes(name: &str) -> Result<(), Stop> {
    let outcome = outcome_of(name)?;
    require(outcome == Outcome::Passed, || format!("{outcome:#?}"))
}

fn skips(name: &str, reason: &str) -> Result<(), Stop> {
    match outcome_of(name)? {
        Outcome::Skipped(printed) if printed == reason => Err(Stop::NotRun(printed)),
        outcome => Err(Stop::Failed(format!(
            "expected to be skipped: '{reason}', not {outcome:#?}"
        ))),
    }
}
