//! Predicts the effect of a diagnosis's changes with a simulated twin.

use std::time::{Duration, Instant};

use rustix::process::nice;
use wansan_diagnose::Diagnosis;
use wansan_diagnose::change::{Change, Predicted, Setting};
use wansan_insight::capture::Capture;
use wansan_twin::fit::Compared;
use wansan_twin::knob::Setting as Knob;
use wansan_twin::{Prediction, Reading, Twin};

/// Time limit for everything.
const LIMIT: Duration = Duration::from_secs(5);
/// Length of the simulation that validates the twin: this many I/Os, within these times.
const IOS: f64 = 20_000.0;
const TIME: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(5)];
/// Most simulated time of all runs with and without a change.
const MOST_SIMULATED: Duration = Duration::from_secs(12);
/// Yields to this host's other work.
const NICENESS: i32 = 19;

/// Whether any of its changes can be simulated.
pub(super) fn is_of_use(diagnosis: &Diagnosis) -> bool {
    let changes = diagnosis.sessions.iter().flat_map(|it| &it.changes);
    { changes }.any(|change| !change.settings.is_empty())
}

/// Predicts the effect of each change, from the packets of the slice that the diagnosis describes, while `goes_on`
/// returns true.
pub(super) fn predict(
    diagnosis: &mut Diagnosis,
    capture: Option<Capture>,
    goes_on: &(dyn Fn() -> bool + Sync),
) {
    // It applies to the rest of the program. If it fails, predictions run at the default priority.
    let _ = nice(NICENESS);
    let end = Instant::now() + LIMIT;
    let goes_on = || Instant::now() < end && goes_on();
    let twin = twin(diagnosis, capture, &goes_on);
    let mut known: Vec<(Vec<Setting>, Predicted)> = Vec::new();
    let changes = diagnosis.sessions.iter_mut().flat_map(|it| &mut it.changes);
    for change in changes.filter(|change| !change.settings.is_empty()) {
        let same = known
            .iter()
            .find(|(settings, _)| *settings == change.settings);
        let predicted = match (same, &twin) {
            (Some((_, predicted)), _) => predicted.clone(),
            (None, Ok(twin)) => gain(twin, change, &goes_on).unwrap_or_else(Predicted::Unknown),
            (None, Err(why)) => Predicted::Unknown(why.clone()),
        };
        known.push((change.settings.clone(), predicted.clone()));
        change.predicted = Some(predicted);
    }
}

/// A twin that reproduces the observation, or why there is none.
fn twin(
    diagnosis: &Diagnosis,
    capture: Option<Capture>,
    goes_on: &(dyn Fn() -> bool + Sync),
) -> Result<Twin, String> {
    let [session] = &diagnosis.sessions[..] else {
        let sessions = diagnosis.sessions.len();
        return Err(format!(
            "{sessions} sessions were active, and a twin models one"
        ));
    };
    let capture = capture.ok_or("the packets of this slice of time were not kept")?;
    let [least, most] = TIME;
    let time = Duration::from_secs_f64(IOS / session.iops.max(1.0)).clamp(least, most);
    let reading = Reading::of_capture_within(capture, time);
    let reading = reading.map_err(|unfit| unfit.to_string())?;
    let twin = Twin::by_one_seed(reading, goes_on).map_err(|error| told(error, goes_on))?;
    let worst = twin.compared().iter().filter(|number| !number.fits());
    let worst = worst.max_by(|one, other| {
        let times = |number: &Compared| number.off.abs() / number.most_off;
        times(one).total_cmp(&times(other))
    });
    match worst {
        None => Ok(twin),
        Some(number) => Err(off(number)),
    }
}

/// A twin's deviation from the observation, as a clause.
fn off(number: &Compared) -> String {
    let percent = number.off.abs() * 100.0;
    match number.name.strip_prefix("waits.") {
        Some(wait) => format!("the twin is off by {percent:.0} % of the latency in {wait}"),
        None => {
            let name = number.name.trim_end_matches("_ns");
            format!("the twin is off by {percent:.0} % in {name}")
        }
    }
}

/// The effect of a change, or why it is unknown.
fn gain(
    twin: &Twin,
    change: &Change,
    goes_on: &(dyn Fn() -> bool + Sync),
) -> Result<Predicted, String> {
    let settings: Vec<Knob> = change.settings.iter().map(knob).collect();
    let predicted = twin.gain(&settings, MOST_SIMULATED, goes_on);
    let predicted = predicted.map_err(|error| told(error, goes_on))?;
    let Prediction {
        gain,
        seeds,
        binds_next,
        ..
    } = predicted.ok_or("it could not be simulated")?;
    Ok(Predicted::Gain {
        least: gain.least,
        median: gain.median,
        most: gain.most,
        seeds,
        binds_next,
    })
}

fn knob(setting: &Setting) -> Knob {
    Knob {
        parameter: setting.parameter.to_owned(),
        value: setting.value.clone(),
    }
}

/// Why a twin did not run.
fn told(error: impl std::error::Error, goes_on: &(dyn Fn() -> bool + Sync)) -> String {
    match goes_on() {
        true => error.to_string(),
        false => format!("it was not simulated within {} s", LIMIT.as_secs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_twin_is_off_by_is_a_clause() {
        let number = |name: &str, off, most_off| Compared {
            name: name.to_owned(),
            recorded: 100.0,
            twin: 112.0,
            off,
            most_off,
        };
        assert_eq!(
            off(&number("iops", 0.12, 0.05)),
            "the twin is off by 12 % in iops"
        );
        assert_eq!(
            off(&number("latency_p99_ns", -0.3, 0.05)),
            "the twin is off by 30 % in latency_p99"
        );
        assert_eq!(
            off(&number("waits.nagle", 0.07, 0.05)),
            "the twin is off by 7 % of the latency in nagle"
        );
    }
}
