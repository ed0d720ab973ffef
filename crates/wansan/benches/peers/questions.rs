//! What is compared: each question starts what it needs, measures both sides in turns, and ends
//! what it started.

use std::path::Path;

use wansan_peers::compare::{Bound, Comparison, Side, in_turns};
use wansan_peers::perf;
use wansan_peers::process::PeerError;
use wansan_peers::qemu::Operation;
use wansan_peers::question::Question;
use wansan_peers::wansan;

use crate::files;
use crate::limit;
use crate::loads::{SMALL_RANDOM, TURNS, WANSAN, our_iops};
use crate::many;
use crate::observed;
use crate::targets;

/// Every question, in the order in which they are asked.
pub(crate) const QUESTIONS: [Question; 12] = [
    Question {
        name: "target",
        measure: targets::random_in_memory,
    },
    Question {
        name: "initiator",
        measure: initiator,
    },
    Question {
        name: "limit",
        measure: limit::limit,
    },
    Question {
        name: "sequential",
        measure: targets::sequential_in_memory,
    },
    Question {
        name: "file",
        measure: targets::on_a_file_system,
    },
    Question {
        name: "file-direct",
        measure: targets::without_page_cache,
    },
    Question {
        name: "file-peers",
        measure: files::beside_tgtd_and_qemu,
    },
    Question {
        name: "sessions",
        measure: many::sessions,
    },
    Question {
        name: "fairness",
        measure: many::fairness,
    },
    Question {
        name: "logins",
        measure: many::logins,
    },
    Question {
        name: "recording",
        measure: observed::recording,
    },
    Question {
        name: "watching",
        measure: observed::watching,
    },
];

/// Our load generator and iscsi-perf on the same target.
fn initiator() -> Result<Vec<Comparison>, PeerError> {
    // With a file, the target would be the limit of ours.
    let target = wansan::Target::start(Path::new(WANSAN), &["--lun", "memory:256MiB"])?;
    let url = target.url(0);
    let [ours, other] = in_turns(
        TURNS,
        [
            &mut || our_iops(&url, Operation::Read, SMALL_RANDOM, &[]),
            &mut || Ok(perf::read(&url, SMALL_RANDOM)?.iops),
        ],
    )?;
    Ok(vec![Comparison {
        question: "initiator: 4 KiB random reads from wansan target, 32 in flight, one connection"
            .to_owned(),
        unit: "I/O/s",
        ours: Side {
            name: "wansan bench",
            samples: ours,
        },
        others: vec![Side {
            name: "iscsi-perf",
            samples: other,
        }],
        bound: Bound::AtLeast(1.5),
    }])
}
