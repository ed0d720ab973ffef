//! Captures of which a display filter has left the frames alone in which an iSCSI PDU begins, as
//! `tshark -Y iscsi -w` does: without acknowledgements, and without the rest of longer PDUs. What they still show
//! is what the whole capture of the same packets shows; the rest is said to be unknown.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use libtest_mimic::Failed;
use serde_json::Value;

use crate::captured::{explained, of_cause, packets};
use crate::{BLANK, Case, Lab, check};

/// I/Os side by side in each case.
const PARALLEL: f64 = 4.0;
/// Frames that a capture begins behind that has no login.
const LOGIN_FRAMES: usize = 40;

const CAPTURED: Case = Case {
    path: "capture = true",
    ..BLANK
};

/// What the filter leaves of a case, and what is still known of its stalls.
const CASES: [(Case, &str); 5] = [
    (
        Case {
            name: "short reads",
            workload: "op = \"read\"\nblock = \"4KiB\"\nparallel = 4\ntime = \"500ms\"",
            ..CAPTURED
        },
        "unknown",
    ),
    // The status comes in a Data-In of which the first segment alone is left.
    (
        Case {
            name: "reads with the status in the data",
            tables: "[session]\nerror_recovery_level = 0",
            workload: "op = \"read\"\nblock = \"64KiB\"\nparallel = 4\ntime = \"500ms\"",
            ..CAPTURED
        },
        "unknown",
    ),
    (
        Case {
            name: "long reads",
            workload: "op = \"read\"\nblock = \"1MiB\"\nparallel = 4\ntime = \"300ms\"",
            ..CAPTURED
        },
        "unknown",
    ),
    (
        Case {
            name: "writes with their data",
            workload: "op = \"write\"\nblock = \"64KiB\"\nparallel = 4\ntime = \"500ms\"",
            ..CAPTURED
        },
        "unknown",
    ),
    // What PDUs show needs no acknowledgements.
    (
        Case {
            name: "writes that are asked for their data",
            tables: "[session]\ninitial_r2t = true\nimmediate_data = false",
            workload: "op = \"write\"\nblock = \"64KiB\"\nparallel = 4\ntime = \"500ms\"",
            ..CAPTURED
        },
        "r2t_wait",
    ),
];

/// Whether what is left of captures is explained by what it has.
pub(crate) fn say_what_they_cannot_know(lab: &Lab) -> Result<(), Failed> {
    for (case, cause) in &CASES {
        let lab = Lab::new(lab.arm)?;
        lab.run(case)?;
        is_explained(&lab, cause)
            .map_err(|wrong| format!("{}: {}", case.name, wrong.message().unwrap_or_default()))?;
    }
    Ok(())
}

fn is_explained(lab: &Lab, cause: &str) -> Result<(), Failed> {
    let whole = lab.cell()?.join("upper.pcapng");
    let left = lab.scratch.path().join("left.pcapng");
    filter(&whole, &left, 0)?;
    let (own, told) = (explained(lab, &whole)?, explained(lab, &left)?);
    is_alike(&told, &own, cause).map_err(|wrong| format!("{wrong}\n{told:#}\nof\n{own:#}"))?;
    let output = lab.wansan(&["explain", "left.pcapng"]).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for words in [
        "the capture seems filtered",
        "(`tcpdump -w FILE port 3260`), without a display filter",
        "(upper bounds)",
        "Round trips per I/O: at least",
    ] {
        check(text.contains(words), || format!("no '{words}' in {text}"))?;
    }
    check(!text.contains("Nothing stalls"), || text.clone())?;
    // Without the login, what PDUs there are has to be derived from sequence numbers.
    filter(&whole, &left, LOGIN_FRAMES)?;
    let told = explained(lab, &left)?;
    let [later, all] = [&told, &own].map(|of| number(of, "/summary/total/ios"));
    let in_flight = number(&told, "/summary/total/layers/0/in_flight_mean");
    let is_most = later >= 0.5 * all && in_flight <= PARALLEL * 1.1;
    check(is_most, || {
        format!("{later} of {all} I/Os without the login: {told:#}")
    })
}

/// Whether a filtered capture tells of I/Os what the whole one does, and of stalls no more than it can.
fn is_alike(told: &Value, own: &Value, cause: &str) -> Result<(), String> {
    let hold = |holds: bool, what: String| if holds { Ok(()) } else { Err(what) };
    let is_filtered = [told, own].map(|of| of["connections"][0]["filtered"] == true);
    hold(is_filtered == [true, false], format!("{is_filtered:?}"))?;
    // A header that is in two segments may have lost its second half.
    let ios = [told, own].map(|of| number(of, "/summary/total/ios"));
    let (unpaired, hidden) = (
        number(told, "/unpaired"),
        number(told, "/connections/0/hidden"),
    );
    hold(
        ios[1] > 0.0 && ios[0] + unpaired >= ios[1] && unpaired <= hidden,
        format!("{ios:?} I/Os, {unpaired} unpaired, {hidden} times hidden"),
    )?;
    // The last bytes of an answer may have come later.
    let later_ns =
        number(told, "/missing_ends/ios") * number(told, "/missing_ends/later_ns") / ios[0];
    let means_ns = [told, own].map(|of| number(of, "/summary/total/latency/mean_ns"));
    let apart_ns = 0.1 * means_ns[1] + later_ns;
    hold(
        (means_ns[0] - means_ns[1]).abs() <= apart_ns,
        format!("{means_ns:?} ns, which may be {apart_ns} apart"),
    )?;
    let in_flight =
        [told, own].map(|of| number(of, "/summary/total/layers/0/in_flight_mean") / PARALLEL);
    hold(
        (in_flight[0] - in_flight[1]).abs() <= apart_ns / means_ns[1],
        format!("{in_flight:?} of those side by side in flight"),
    )?;
    let stalls = [told, own].map(|of| &of["summary"]["stalls"]);
    hold(
        stalls[0]["cause"] == cause,
        format!("{}", stalls[0]["cause"]),
    )?;
    for found in stalls[0]["causes"].as_array().into_iter().flatten() {
        let name = found["cause"].as_str().unwrap_or_default();
        let costs_ns = stalls.map(|of| of_cause(of, name, "cost_ns"));
        hold(
            costs_ns[1] > 0.0 && costs_ns[0] <= 1.2 * costs_ns[1] && costs_ns[0] < means_ns[0],
            format!("{costs_ns:?} ns of {name}"),
        )?;
    }
    Ok(())
}

fn number(of: &Value, at: &str) -> f64 {
    of.pointer(at).and_then(Value::as_f64).unwrap_or(-1.0)
}

/// Writes what the filter leaves of the packets behind the first ones.
fn filter(whole: &Path, left: &Path, behind: usize) -> Result<(), Failed> {
    let mut beginnings: HashMap<u16, Beginnings> = HashMap::new();
    let kept = packets(&fs::read(whole)?, |number, frame| {
        begins_a_pdu(&mut beginnings, frame).unwrap_or(false) && number > behind
    })?;
    Ok(fs::write(left, kept)?)
}

/// Where the PDUs of one direction begin, counted from its SYN.
#[derive(Default)]
struct Beginnings {
    base: u32,
    known: BTreeSet<u64>,
    /// Where the next one begins, and what has been seen of its header.
    next: u64,
    header: Vec<u8>,
}

/// Whether a PDU begins in this frame of the only connection; `None` where it has no bytes.
fn begins_a_pdu(directions: &mut HashMap<u16, Beginnings>, frame: &[u8]) -> Option<bool> {
    /// Behind the headers of Ethernet and IPv4, which has no options here.
    const IP: usize = 14;
    const TCP: usize = IP + 20;
    const SYN: u8 = 0x02;
    let ip_bytes = u16::from_be_bytes(*frame.get(IP + 2..)?.first_chunk()?);
    let tcp = frame.get(TCP..IP + usize::from(ip_bytes))?;
    let source = u16::from_be_bytes(*tcp.first_chunk()?);
    let number = u32::from_be_bytes(*tcp.get(4..)?.first_chunk()?);
    let direction = directions.entry(source).or_default();
    if tcp[13] & SYN != 0 {
        direction.base = number.wrapping_add(1);
        return None;
    }
    let payload = tcp.get(usize::from(tcp[12] >> 4) * 4..)?;
    let place = u64::from(number.wrapping_sub(direction.base));
    (!payload.is_empty()).then(|| direction.see(place, payload))
}

impl Beginnings {
    fn see(&mut self, place: u64, payload: &[u8]) -> bool {
        /// What tells the length of a PDU (RFC 7143 §11.2.1).
        const LENGTHS_END: usize = 8;
        let end = place + payload.len() as u64;
        loop {
            let wanted = self.next + self.header.len() as u64;
            if !(place..end).contains(&wanted) {
                break;
            }
            self.known.insert(self.next);
            let missing = LENGTHS_END - self.header.len();
            let rest = &payload[(wanted - place) as usize..];
            self.header.extend(rest.iter().take(missing));
            let Some(header) = self.header.first_chunk::<LENGTHS_END>() else {
                break;
            };
            let data = u32::from_be_bytes([0, header[5], header[6], header[7]]);
            self.next += 48 + u64::from(header[4]) * 4 + u64::from(data.next_multiple_of(4));
            self.header.clear();
        }
        self.known.range(place..end).next().is_some()
    }
}
