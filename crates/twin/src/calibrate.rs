//! What programs take of processors, so that those of a twin take as much as the recorded ones.

use wansan_insight::CellSummary;
use wansan_sim::storage::ProgramCost;
use wansan_trace::event::Role;

use crate::replay::{ReplayError, replay};
use crate::seeds;
use crate::setup::Setup;

/// Programs that ran for less of the time limit nothing, nor would with several times as much to do.
const LEAST_SHARE: f64 = 0.1;
/// Initiators' programs, and the target's, as in [`Setup::costs`].
const ROLES: [Role; 2] = [Role::Initiator, Role::Target];

/// The setup with what its programs take, so that they run for as large a share of the time as `thread` records say: how
/// that goes with calls, PDUs and bytes is [`ProgramCost::default`]'s, of which there may be more or less.
///
/// # Errors
/// [`ReplayError`] when it does not run.
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

/// How many processors the programs of a role had on average.
fn ran_share(summary: &CellSummary, role: Role) -> f64 {
    let programs = summary.programs.iter();
    let own = programs.filter(|program| program.role == role);
    own.map(|program| program.ran_share).sum()
}
