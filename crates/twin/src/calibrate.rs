//! Calibrates the CPU cost of a twin's programs to the recording.

use wansan_insight::CellSummary;
use wansan_sim::storage::ProgramCost;
use wansan_trace::event::Role;

use crate::replay::{ReplayError, replay};
use crate::seeds;
use crate::setup::Setup;

/// Programs that ran for a smaller share of the time are no limit, and would not be with several times the work.
const LEAST_SHARE: f64 = 0.1;
/// Programs of initiators and of the target, as in [`Setup::costs`].
const ROLES: [Role; 2] = [Role::Initiator, Role::Target];

/// Sets the CPU costs so that programs run for as large a share of the time as `thread` records show. Their split
/// among calls, PDUs and bytes is that of [`ProgramCost::default`], scaled up or down.
///
/// # Errors
/// [`ReplayError`] when the simulation fails.
pub(crate) fn calibrated(
    setup: Setup,
    recorded: &CellSummary,
    goes_on: &dyn Fn() -> bool,
) -> Result<Setup, ReplayError> {
    let ran = ROLES.map(|role| ran_share(recorded, role));
    let is_told = ran.map(|share| share >= LEAST_SHARE);
    if is_told == [false; 2] {
        return Ok(setup);
    }
    let usual = is_told.map(|is_told| is_told.then(ProgramCost::default));
    let setup = Setup {
        costs: usual,
        ..setup
    };
    let summary = replay(&setup, seeds::FIRST, goes_on)?.summary;
    let costs = [0, 1].map(|place| {
        let simulated = ran_share(&summary, ROLES[place]);
        let factor = ran[place] / simulated.max(f64::MIN_POSITIVE);
        usual[place].map(|cost| cost.times(factor))
    });
    Ok(Setup { costs, ..setup })
}

/// Average number of processors used by the programs of a role.
fn ran_share(summary: &CellSummary, role: Role) -> f64 {
    let programs = summary.programs.iter();
    let own = programs.filter(|program| program.role == role);
    own.map(|program| program.ran_share).sum()
}
