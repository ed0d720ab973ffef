//! Processor costs of a plan's programs on simulated hosts.

use wansan_sim::storage::{Owner, ProcessorsConfig, Program, ProgramCost};

use crate::plan::{Cell, ProcessorsTable, Span};

/// The processors of a cell's hosts; `None` if programs cost nothing.
pub(super) fn processors(cell: &Cell) -> Option<ProcessorsConfig> {
    let table = cell.document.processors.as_ref()?;
    let scenario = &cell.scenario;
    let program = |owner, host: &str, what: &str| Program {
        owner,
        name: format!("{host} {what}"),
        host: scenario.node(host),
        cost: cost(table),
    };
    let mut programs = Vec::new();
    if let Some(host) = &scenario.target_host {
        programs.push(program(Owner::Target, host, "target"));
    }
    for (it, place) in scenario.initiators.iter().zip(0..) {
        programs.push(program(Owner::Initiator(place), &it.host, "initiator"));
    }
    for (it, place) in scenario.streams.iter().zip(0..) {
        programs.push(program(Owner::Sender(place), &it.host, "stream send"));
    }
    for (it, place) in scenario.receivers.iter().zip(0..) {
        programs.push(program(Owner::Receiver(place), &it.host, "stream receive"));
    }
    for (it, place) in scenario.relays.iter().zip(0..) {
        programs.push(program(Owner::Relay(place), &it.host, "relay"));
    }
    Some(ProcessorsConfig {
        cores: table.cores as usize,
        programs,
    })
}

fn cost(table: &ProcessorsTable) -> ProgramCost {
    let ns = |span: Span| span.0.as_nanos() as u64;
    ProgramCost {
        call_ns: ns(table.call),
        pdu_ns: ns(table.pdu),
        byte_ps: ns(table.kib) * 1_000 / 1_024,
    }
}
