//! How to fix a congestion control that the kernel lacks.

use wansan_mistake::near;
use wansan_tcp::congestion::CongestionError;
use wansan_tcp::control::Algorithm;

/// Prefix of wansan's own congestion controls.
const OURS: &str = "wansan_";

/// Congestion controls of Linux in modules, called `tcp_` and their name.
const MODULES: [&str; 16] = [
    "bbr",
    "bic",
    "cdg",
    "cubic",
    "dctcp",
    "highspeed",
    "htcp",
    "hybla",
    "illinois",
    "lp",
    "nv",
    "scalable",
    "vegas",
    "veno",
    "westwood",
    "yeah",
];

/// How to fix the error: the intended name, and how to load it.
pub(crate) fn remedy(error: &CongestionError) -> String {
    let CongestionError::Unknown { name, available } = error else {
        return String::new();
    };
    match meant(name, available) {
        Some(meant) => match (meant == name, way_to_load(meant, available)) {
            (true, Some(way)) => format!("; {way}"),
            (true, None) => String::new(),
            (false, Some(way)) => format!("; did you mean `{meant}` ({way})?"),
            (false, None) => format!("; did you mean `{meant}`?"),
        },
        None => {
            let ours = Algorithm::ALL.map(Algorithm::name).join(", ");
            format!("; `wansan cc load` loads {ours}")
        }
    }
}

/// The known name that equals it, or is closest to it. Ours are recognized without their prefix too.
fn meant<'a>(name: &str, available: &'a str) -> Option<&'a str> {
    let known: Vec<&str> = available
        .split_whitespace()
        .chain(Algorithm::ALL.map(Algorithm::name))
        .chain(MODULES)
        .collect();
    let bare: Vec<&str> = known.iter().map(|name| without_prefix(name)).collect();
    let near = near(without_prefix(name), &bare)?;
    let is_ours = name.starts_with(OURS);
    let mut near = known.iter().filter(|name| without_prefix(name) == near);
    let first = *near.clone().next()?;
    let same = near.find(|name| name.starts_with(OURS) == is_ours);
    Some(same.copied().unwrap_or(first))
}

fn without_prefix(name: &str) -> &str {
    name.strip_prefix(OURS).unwrap_or(name)
}

/// How to load it, if the kernel lacks it.
fn way_to_load(name: &str, available: &str) -> Option<String> {
    if available.split_whitespace().any(|it| it == name) {
        None
    } else if Algorithm::by_name(name).is_some() {
        Some(format!("load it with `wansan cc load {name}`"))
    } else {
        Some(format!(
            "`modprobe tcp_{name}` loads it where the kernel has it as a module"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> String {
        remedy(&CongestionError::Unknown {
            name: name.to_owned(),
            available: "reno cubic wansan_scal".to_owned(),
        })
    }

    #[test]
    fn what_is_there_to_load_is_told_with_the_way() {
        for (name, way) in [
            (
                "wansan_hstcp",
                "; load it with `wansan cc load wansan_hstcp`",
            ),
            (
                "vegas",
                "; `modprobe tcp_vegas` loads it where the kernel has it as a module",
            ),
        ] {
            assert_eq!(of(name), way);
        }
    }

    #[test]
    fn what_is_misspelt_is_told_rightly_and_never_loaded_as_it_is() {
        for (name, meant, way) in [
            (
                "wansan_hstp",
                "wansan_hstcp",
                "`wansan cc load wansan_hstcp`",
            ),
            ("hstpc", "wansan_hstcp", "`wansan cc load wansan_hstcp`"),
            ("wansan_rno", "wansan_reno", "`wansan cc load wansan_reno`"),
            ("westwod", "westwood", "`modprobe tcp_westwood`"),
            ("cubc", "cubic", ""),
            ("wansan_cubic", "cubic", ""),
            ("wansan_scl", "wansan_scal", ""),
        ] {
            let said = of(name);
            assert!(said.contains(&format!("did you mean `{meant}`")), "{said}");
            assert!(
                said.contains(way) && !said.contains(&format!("{name}`")),
                "{said}"
            );
            let loads = said.contains("load") || said.contains("modprobe");
            assert_eq!(loads, !way.is_empty(), "{said}");
        }
    }

    #[test]
    fn what_is_near_to_nothing_is_told_what_there_is() {
        for name in ["nonsense", "wansan_none", ""] {
            let said = of(name);
            assert!(
                !said.contains("modprobe") && !said.contains("did you mean"),
                "{said}"
            );
            assert!(said.contains("loads wansan_reno, wansan_hstcp"), "{said}");
        }
    }
}
