//! wansan's own congestion controls for a run's connections, in the kernel for its duration.

use std::collections::BTreeSet;

use rustix::net::{AddressFamily, SocketType, socket};
use wansan_schema::ControlFacts;
use wansan_tcp::congestion::{self, CongestionError};
use wansan_tcp::control::{self, Algorithm, Control, ControlError, Options};

use crate::plan::{Cell, ControlTable, WorldKind, json};

/// A congestion control in the plan is unavailable.
#[derive(Debug, thiserror::Error)]
pub enum CongestionControlError {
    /// It is not loaded.
    #[error(
        "the plan wants congestion control '{name}', which is not loaded: {source}; once root has \
         loaded it (wansan cc load {name}), anybody's plans can use it"
    )]
    NotLoaded {
        /// Its name.
        name: &'static str,
        /// Why it cannot be loaded.
        source: ControlError,
    },
    /// It is loaded with other parameters than the plan's, or they cannot be read.
    #[error(
        "the plan sets what congestion control '{name}' is loaded with ([tcp.control]): {source}"
    )]
    Otherwise {
        /// Its name.
        name: &'static str,
        /// The obstacle.
        source: ControlError,
    },
}

/// The congestion controls of the cells: loaded for the run, or found loaded and pinned. They are released with this
/// value, or when the process ends.
#[derive(Default)]
pub(super) struct Controls {
    held: Vec<Held>,
}

struct Held {
    law: Algorithm,
    /// The plan's parameters for it.
    wanted: Option<Options>,
    /// `None` if a more privileged user has loaded it: usable for as long as it stays loaded.
    control: Option<Control>,
}

impl Controls {
    /// Acquires the controls of all `cells`, each with the parameters of the first cell that uses it.
    pub(super) fn hold(cells: &[Cell]) -> Result<Controls, CongestionControlError> {
        let mut controls = Controls { held: Vec::new() };
        for cell in cells {
            for (name, table) in wanted(cell) {
                let law = Algorithm::by_name(name);
                if let Some(law) = law.filter(|law| controls.of(*law).is_none()) {
                    controls.held.push(hold(law, &table)?);
                }
            }
        }
        Ok(controls)
    }

    /// Ensures that `cell` has its control with its parameters, and returns facts on it. The connections of earlier
    /// cells have ended.
    pub(super) fn of_cell(&mut self, cell: &Cell) -> Result<ControlFacts, CongestionControlError> {
        let name = cell.document.tcp.congestion_control.clone();
        match cell.document.world.kind {
            WorldKind::Netns => {}
            WorldKind::Sim => return Ok(simulated(cell, name)),
            WorldKind::Hosts => return Ok(of_hosts(name)),
        }
        for (name, table) in wanted(cell) {
            let Some(law) = Algorithm::by_name(name) else {
                continue;
            };
            let options = table.options();
            if self.of(law).is_none_or(|held| held.wanted != options) {
                // Names are kernel-wide: unload the previous one first.
                self.held.retain(|held| held.law != law);
                self.held.push(hold(law, &table)?);
            }
        }
        let Some(law) = Algorithm::by_name(&name) else {
            return Ok(ControlFacts {
                name,
                origin: "kernel".to_owned(),
                parameters: None,
            });
        };
        let control = self.of(law).and_then(|held| held.control.as_ref());
        let options = control.and_then(Control::options);
        Ok(ControlFacts {
            name,
            origin: match control {
                Some(control) if !control.was_there() => "lab",
                _ => "before",
            }
            .to_owned(),
            parameters: options.map(|options| json(&ControlTable::of(law, &options))),
        })
    }

    fn of(&self, law: Algorithm) -> Option<&Held> {
        self.held.iter().find(|held| held.law == law)
    }
}

/// The controls of a cell, each with its parameters.
fn wanted(cell: &Cell) -> impl Iterator<Item = (&str, ControlTable)> {
    let names = cell.congestion_controls().into_iter();
    names.map(move |name| (name, cell.document.tcp.control_of(name)))
}

/// Facts on a control of real hosts: none is loaded there for a run.
fn of_hosts(name: String) -> ControlFacts {
    let origin = match Algorithm::by_name(&name) {
        Some(_) => "before",
        None => "kernel",
    };
    ControlFacts {
        name,
        origin: origin.to_owned(),
        parameters: None,
    }
}

/// Facts on a control of a simulated cell.
fn simulated(cell: &Cell, name: String) -> ControlFacts {
    let options = cell.document.tcp.control_of(&name).options();
    let parameters = Algorithm::by_name(&name)
        .map(|law| json(&ControlTable::of(law, &options.unwrap_or_default())));
    ControlFacts {
        name,
        origin: "simulator".to_owned(),
        parameters,
    }
}

fn hold(law: Algorithm, table: &ControlTable) -> Result<Held, CongestionControlError> {
    let name = law.name();
    let wanted = table.options();
    let control = match control::hold(law, wanted.as_ref()) {
        Ok(control) => Some(control),
        Err(source @ ControlError::LoadedOtherwise { .. }) => {
            return Err(CongestionControlError::Otherwise { name, source });
        }
        Err(_) if is_there(law) && wanted.is_none() => None,
        Err(source) if is_there(law) => {
            return Err(CongestionControlError::Otherwise { name, source });
        }
        Err(source) => return Err(CongestionControlError::NotLoaded { name, source }),
    };
    Ok(Held {
        law,
        wanted,
        control,
    })
}

/// Fails with the first control that the kernel lacks, after [`Controls`] have loaded ours, and before anything is
/// built. Whether the hosts may use the controls is checked in their namespaces.
pub(super) fn check(cells: &[Cell]) -> Result<(), CongestionError> {
    let wanted = cells.iter().flat_map(Cell::congestion_controls);
    for name in wanted.collect::<BTreeSet<&str>>() {
        // If it cannot be tried here, the program that needs it reports the error.
        let Ok(socket) = socket(AddressFamily::INET, SocketType::STREAM, None) else {
            continue;
        };
        if let Err(unknown @ CongestionError::Unknown { .. }) = congestion::choose(&socket, name) {
            return Err(unknown);
        }
    }
    Ok(())
}

fn is_there(law: Algorithm) -> bool {
    let names = congestion::available().unwrap_or_default();
    names.split_whitespace().any(|name| name == law.name())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::plan::{Phase, Plan};

    const PLAN: &str = "title = \"t\"\n[world]\nkind = \"sim\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n\
        [[path]]\nname = \"wan\"\nbetween = [\"a\", \"b\"]\n[[stream]]\nfrom = \"a\"\nto = \"b\"\n\
        congestion_control = \"wansan_hstcp\"\n[workload]\ntime = \"1s\"\n\
        [tcp]\ncongestion_control = \"wansan_scal\"\ncontrol.max_ssthresh = 100\n";

    /// A plan's parameters apply to the control that `[tcp]` names; nothing is loaded for a simulated world.
    #[test]
    fn a_simulated_cell_has_its_controls_as_the_plan_says() {
        let plan = Plan::parse(Path::new("trial.toml"), PLAN).unwrap();
        let cell = &plan.cells(Phase::Planned, &[]).unwrap()[0];
        let facts = Controls::default().of_cell(cell).unwrap();
        assert_eq!(
            (&facts.name[..], &facts.origin[..]),
            ("wansan_scal", "simulator")
        );
        let parameters = facts.parameters.expect("all of them");
        assert_eq!(parameters["max_ssthresh"], 100);
        assert_eq!(parameters["count"], "packets");
        let tcp = &cell.document.tcp;
        assert_eq!(tcp.control_of("wansan_hstcp").options(), None);
    }
}
