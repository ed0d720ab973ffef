//! The cells of a sweep.

use wansan_lab::plan::Phase;

use super::{GOOD, parse};

#[test]
fn cells_are_the_product_in_the_order_of_the_plan() {
    let plan = parse(&GOOD.replace("apply_advice = true", "repeat = 2")).unwrap();
    assert_eq!(plan.name(), "reads");
    let cells = plan.cells(Phase::Planned, &[]).unwrap();
    assert_eq!(cells.len(), 12);
    let seen: Vec<(u32, u32, u128)> = cells
        .iter()
        .map(|cell| {
            let link = &cell.scenario.links[0];
            (
                cell.repeat,
                cell.document.workload.load.parallel,
                link.forward.effects.delay.as_millis(),
            )
        })
        .collect();
    assert_eq!(
        &seen[..7],
        &[
            (0, 16, 1),
            (0, 16, 16),
            (0, 16, 32),
            (0, 176, 1),
            (0, 176, 16),
            (0, 176, 32),
            (1, 16, 1)
        ]
    );
    let scenario = &cells[0].scenario;
    assert_eq!(scenario.target_host.as_deref(), Some("storage"));
    let hosts: Vec<&str> = scenario
        .initiators
        .iter()
        .map(|initiator| initiator.host.as_str())
        .collect();
    assert_eq!(hosts, ["client-1", "client-2"]);
    assert!(scenario.links[0].joins(0, 2));
    assert!(!scenario.links[0].joins(1, 2));
}

#[test]
fn an_io_rate_has_a_unit_or_none() {
    for rate in ["500", "500.0", "\"500\"", "\"500IOPS\""] {
        let text = GOOD.replace("time = \"1s\"", &format!("time = \"1s\"\nrate = {rate}"));
        let plan = parse(&text).unwrap();
        let load = &plan.document().workload.load;
        assert_eq!(load.rate.unwrap().to_string(), "500IOPS");
    }
}

#[test]
fn advice_is_set_over_the_whole_sweep() {
    let plan = parse(GOOD).unwrap();
    let window = wansan_lab::plan::Parameter::new("target.command_window");
    let value = plan.value_for(&window, "176");
    let cells = plan
        .cells(Phase::Advised, &[(window.clone(), value)])
        .unwrap();
    let windows = cells.iter().map(|cell| {
        let target = cell.document.target.as_ref();
        target.unwrap().window.command_window
    });
    let planned = plan.cells(Phase::Planned, &[]).unwrap();
    assert!(planned.len() > 1, "a sweep");
    assert_eq!(Vec::from_iter(windows), vec![176; planned.len()]);
    let buffer = wansan_lab::plan::Parameter::new("tcp.ecn");
    let value = plan.value_for(&buffer, "true");
    assert!(
        plan.cells(Phase::Advised, &[(buffer, value)]).unwrap()[0]
            .document
            .tcp
            .ecn
    );
    let wrong = plan.value_for(&window, "plenty");
    assert!(plan.cells(Phase::Advised, &[(window, wrong)]).is_err());
}

#[test]
fn a_resolved_plan_reads_back() {
    let plan = parse(GOOD).unwrap();
    let again = parse(&toml::to_string(plan.document()).unwrap()).unwrap();
    assert_eq!(plan.document(), again.document());
}

#[test]
fn a_sweep_without_end_is_refused() {
    let many: Vec<String> = (1..=200).map(|n| n.to_string()).collect();
    let text = GOOD.replace(
        "workload.parallel = [16, 176]",
        &format!(
            "workload.parallel = [{0}]\ntarget.window.command_window = [{0}]",
            many.join(", ")
        ),
    );
    assert!(
        parse(&text)
            .unwrap_err()
            .to_string()
            .contains("10000 cells")
    );
}
