//! Initiators that are far from the target at different distances.

use libtest_mimic::Failed;

use crate::{Lab, check, whole};

/// An initiator asks its LUN for its size before its load can begin, over a path of half a second
/// there and back; it is measured together with one that has no such way all the same.
pub(crate) fn far_and_near(lab: &Lab) -> Result<(), Failed> {
    const ROUND_TRIP_NS: u64 = 500_000_000;
    lab.write(
        "title = \"Far and near\"\n\
         [[host]]\nname = \"storage\"\n[[host]]\nname = \"near\"\n[[host]]\nname = \"far\"\n\
         [[path]]\nname = \"short\"\nbetween = [\"near\", \"storage\"]\ndelay = \"1ms\"\n\
         [[path]]\nname = \"long\"\nbetween = [\"far\", \"storage\"]\ndelay = \"250ms\"\n\
         [target]\nhost = \"storage\"\nluns = [\"memory:16MiB\"]\n\
         [[initiator]]\nhost = \"near\"\n[[initiator]]\nhost = \"far\"\n\
         [workload]\nop = \"read\"\nblock = \"4KiB\"\ntime = \"1500ms\"\nwarmup = \"0s\"\n",
    )?;
    let cell = lab.run()?;
    let began = |place: usize| whole(&cell["initiators"][place]["measured_from_ns"]);
    let apart_ns = began(0)?.abs_diff(began(1)?);
    check(apart_ns < ROUND_TRIP_NS / 2, || {
        format!("they begin {apart_ns} ns apart")
    })
}
