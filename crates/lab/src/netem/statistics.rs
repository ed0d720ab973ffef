//! netem's counters, from `tc -s -j qdisc show`.

use serde::Deserialize;

/// The counters of one netem.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Counted {
    kind: String,
    #[serde(default)]
    pub(super) options: Options,
    pub(super) bytes: u64,
    pub(super) packets: u64,
    pub(super) drops: u64,
    pub(super) backlog: u64,
    pub(super) qlen: u64,
}

/// The options chosen by the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Options {
    pub(super) seed: Option<u64>,
}

impl Counted {
    /// Finds netem's counters in tc's output.
    pub(super) fn read(printed: &str) -> Option<Counted> {
        // Other qdiscs may have other fields.
        let qdiscs: Vec<serde_json::Value> = serde_json::from_str(printed).ok()?;
        let mut netems = qdiscs
            .into_iter()
            .filter_map(|qdisc| serde_json::from_value::<Counted>(qdisc).ok())
            .filter(|qdisc| qdisc.kind == "netem");
        netems.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_among_other_qdiscs() {
        let printed = r#"[{"kind":"clsact","handle":"ffff:","parent":"ffff:fff1"},
            {"kind":"netem","handle":"8001:","root":true,"refcnt":2,
             "options":{"limit":110,"delay":{"delay":0.01,"jitter":0,"correlation":0},
                        "seed":18446744073709551615,"ecn":false,"gap":0},
             "bytes":4200,"packets":3,"drops":2,"overlimits":0,"requeues":0,"backlog":1400,"qlen":1}]"#;
        let counted = Counted::read(printed).unwrap();
        assert_eq!(
            (counted.packets, counted.bytes, counted.drops),
            (3, 4200, 2)
        );
        assert_eq!((counted.qlen, counted.backlog), (1, 1400));
        assert_eq!(counted.options.seed, Some(u64::MAX));
        assert_eq!(Counted::read("[]"), None);
        assert_eq!(Counted::read("Error: no such device"), None);
    }
}
