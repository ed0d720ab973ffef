//! The response of HighSpeed TCP's program to each window, alone, compared with the table that it was loaded with.

use libbpf_rs::{Object, ProgramInput, ProgramType};
use libtest_mimic::Trial;
use wansan_congestion::{HighSpeed, Row, Table};
use wansan_peers::trial::{Stop, require, trial};
use wansan_tcp::control::data;
use wansan_tcp::ebpf;

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hstcp.bpf.o"));

/// Windows of RFC 3649, Appendix B, where a(w) increases by one.
const APPENDIX_B_WINDOWS: [u32; 73] = [
    38, 118, 221, 347, 495, 663, 851, 1058, 1284, 1529, 1793, 2076, 2378, 2699, 3039, 3399, 3778,
    4177, 4596, 5036, 5497, 5979, 6483, 7009, 7558, 8130, 8726, 9346, 9991, 10661, 11358, 12082,
    12834, 13614, 14424, 15265, 16137, 17042, 17981, 18955, 19965, 21013, 22101, 23230, 24402,
    25618, 26881, 28193, 29557, 30975, 32450, 33986, 35586, 37253, 38992, 40808, 42707, 44694,
    46776, 48961, 51258, 53677, 56230, 58932, 61799, 64851, 68113, 71617, 75401, 79517, 84035,
    89053, 94717,
];

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a(w) and b(w) at every row of RFC 3649's appendix", || {
            follows(&HighSpeed::default(), APPENDIX_B_WINDOWS)
        }),
        trial("a(w) and b(w) at every window up to 5000", || {
            follows(&HighSpeed::default(), 2..5000)
        }),
        trial("a(w) and b(w) with other parameters", || {
            let steep = HighSpeed {
                low_window: 8.0,
                high_window: 400.0,
                low_loss: 0.02,
                high_loss: 1e-4,
                high_decrease: 0.2,
            };
            follows(
                &steep,
                (0..40).chain([
                    100,
                    399,
                    400,
                    401,
                    1000,
                    1 << 20,
                    1 << 21,
                    1 << 22,
                    u32::MAX,
                ]),
            )
        }),
    ]
}

/// The program's numbers are those of the table, which is tested against the formulas elsewhere.
fn follows(law: &HighSpeed, windows: impl IntoIterator<Item = u32>) -> Result<(), Stop> {
    let object = loaded(law)?;
    let table = Table::of(law);
    for window in windows {
        let (program, expected) = (law_at(&object, window), table.at(window));
        require(program == expected, || {
            format!("at {window} the program has {program:?}, the table {expected:?}")
        })?;
    }
    Ok(())
}

fn loaded(law: &HighSpeed) -> Result<Object, Stop> {
    ebpf::available().map_err(|reason| Stop::NotRun(reason.to_string()))?;
    let loaded = ebpf::load("hstcp", OBJECT, |open| {
        for mut map in open.maps_mut() {
            if map.name() == ".rodata.law" {
                map.set_initial_value(&data::of_highspeed(law))?;
            }
        }
        Ok(())
    });
    loaded
        .map(|loaded| loaded.object)
        .map_err(|error| Stop::Failed(error.to_string()))
}

/// Asks the program for a(w) and b(w).
fn law_at(object: &Object, window: u32) -> Row {
    let program = object
        .progs_mut()
        .find(|program| program.prog_type() == ProgramType::Syscall)
        .expect("the program for tests");
    let mut question = [0; 12];
    question[..4].copy_from_slice(&window.to_ne_bytes());
    let input = ProgramInput {
        context_in: Some(&mut question),
        ..ProgramInput::default()
    };
    program.test_run(input).expect("the kernel runs it");
    let word = |at: usize| u32::from_ne_bytes(question[at..at + 4].try_into().unwrap());
    Row {
        increase: word(4),
        decrease: word(8),
    }
}
