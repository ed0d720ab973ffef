//! Tests of libiscsi that fail because of a defect in the test or in libiscsi, not in the target.

use wansan_peers::cunit::{Outcome, Test};

struct Defect {
    /// `SUITE.TEST`.
    test: &'static str,
    /// Every line of the failure contains one of these. Any other line is the target's failure.
    printed: &'static [&'static str],
    /// What is wrong, and where.
    why: &'static str,
}

const DEFECTS: [Defect; 4] = [
    Defect {
        test: "CompareAndWrite.InvalidDataOutSize",
        // MISCOMPARE DURING VERIFY OPERATION.
        printed: &["(0x0e)/(0x1d00)", "CU_ASSERT_EQUAL(_r,0)"],
        why: "The test means to change NUMBER OF LOGICAL BLOCKS, but changes every PDU except the \
              SCSI Command (libiscsi's commit b4d59cd). A correct COMPARE AND WRITE of two blocks \
              arrives, the blocks differ, and the answer is MISCOMPARE (SBC-3 5.3).",
    },
    Defect {
        test: "iSCSITMF.AbortTaskSimpleAsync",
        printed: &["iscsi_out_queue_length"],
        why: QUEUE_IS_EMPTY,
    },
    Defect {
        test: "iSCSITMF.LUNResetSimpleAsync",
        printed: &["iscsi_out_queue_length"],
        why: QUEUE_IS_EMPTY,
    },
    Defect {
        test: "iSCSISendTargets.Invalid",
        printed: &["did not end"],
        why: "The test sends the unknown key SendTargetsPlease. The answer MUST be NotUnderstood, and \
              the sender MUST be able to handle it (RFC 7143 §6.2). libiscsi drops the connection, \
              loses the test's next request while it logs in again, and waits for the answer. The \
              test expects a Reject, which LIO sends.",
    },
];

const QUEUE_IS_EMPTY: &str = "The test asserts that the WRITE is still in libiscsi's queue. Since its \
    commit a8c3920 libiscsi writes to an idle socket at once, before the target has any part in it. \
    No other assertion fails.";

/// The defect that made `test` fail, when nothing else did.
pub(crate) fn defect_behind(test: &Test) -> Option<&'static str> {
    let Outcome::Failed(printed) = &test.outcome else {
        return None;
    };
    let defect = DEFECTS.iter().find(|defect| defect.test == test.name)?;
    let known = |line: &str| defect.printed.iter().any(|part| line.contains(part));
    printed.lines().all(known).then_some(defect.why)
}
