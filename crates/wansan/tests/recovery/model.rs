//! A load that knows what every block has to contain.

use std::time::Duration;

use wansan_iscsi::initiator::{Command, Completion, Schedule, Transfer};
use wansan_iscsi::keys::Wanted;
use wansan_iscsi::scsi::cdb;
use wansan_iscsi::wire::{Lun, ScsiStatus, TaskAttribute};
use wansan_san::url::IscsiUrl;
use wansan_san::{Initiator, InitiatorConfig, Route};
use wansan_trace::{Recorder, clock};

/// What the model writes at once: a block of its own counting.
const BLOCK_BYTES: usize = 8192;
const SECTORS: u32 = (BLOCK_BYTES / 512) as u32;
/// Blocks of the disk that are used: few, so that each is written again and again.
const BLOCKS: usize = 512;
/// Writes that are kept in flight.
const DEPTH: usize = 64;

/// A stepping of SplitMix64.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// By `WANSAN_SEED`, or by the clock; prints which.
    pub(crate) fn seeded(test: &str) -> Random {
        let seed = std::env::var("WANSAN_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| clock::now().ns() % 1_000_000);
        println!("{test}: WANSAN_SEED={seed}");
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// What the model knows of a block.
#[derive(Debug, Clone, Copy, Default)]
struct Block {
    /// The version last written, acknowledged unless the block is in use.
    version: u64,
    /// A command for it is under way.
    is_used: bool,
}

#[derive(Debug, Clone, Copy)]
enum Asked {
    Write(usize),
    Read(usize),
    Flush,
}

/// A disk under load, over a session that must hide all that happens to its connections.
#[derive(Debug)]
pub(crate) struct Model {
    initiator: Initiator,
    blocks: Vec<Block>,
    asked: Vec<Option<Asked>>,
    random: Random,
    pub(crate) completed: u64,
}

pub(crate) fn config(url: &IscsiUrl, connections: usize, wanted: Wanted) -> InitiatorConfig {
    InitiatorConfig {
        name: "iqn.2026-01.net.example:recovery".to_owned(),
        isid: [0x80, 0, 0, 0, 0, 9],
        chap: None,
        wanted,
        tasks: DEPTH,
        routes: vec![Route::to(url); connections],
        schedule: Schedule::default(),
        congestion_control: None,
        patience: Duration::from_secs(20),
        replacement_timeout: Duration::from_secs(120),
        tcp_interval: Duration::from_secs(1),
    }
}

impl Model {
    pub(crate) fn new(url: &IscsiUrl, config: &InitiatorConfig, random: Random) -> Model {
        let mut model = Model {
            initiator: Initiator::connect(url, config, Recorder::off()).unwrap(),
            blocks: vec![Block::default(); BLOCKS],
            asked: vec![None; DEPTH],
            random,
            completed: 0,
        };
        // What the unit has to say of its past is said to the first commands.
        for _ in 0..8 {
            let command = command(cdb::test_unit_ready(), Transfer::None, 0);
            model.initiator.execute(command).unwrap();
        }
        model
    }

    pub(crate) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    pub(crate) fn initiator(&self) -> &Initiator {
        &self.initiator
    }

    /// Keeps the disk busy for `time`.
    pub(crate) fn run(&mut self, time: Duration) {
        let until = clock::now() + time;
        while clock::now() < until {
            self.fill();
            self.initiator.turn(until).unwrap();
            self.take_completions();
        }
    }

    /// Keeps the disk busy until `commands` more have completed.
    pub(crate) fn complete(&mut self, commands: u64) {
        let until = self.completed + commands;
        while self.completed < until {
            self.fill();
            self.initiator
                .turn(wansan_trace::Instant::FAR_FUTURE)
                .unwrap();
            self.take_completions();
        }
    }

    fn fill(&mut self) {
        while let Some(place) = self.asked.iter().position(Option::is_none) {
            let number = self.random.below(BLOCKS as u64) as usize;
            let kind = self.random.below(16);
            let block = &mut self.blocks[number];
            if kind > 0 && block.is_used {
                continue;
            }
            let lba = number as u64 * u64::from(SECTORS);
            let (asked, cdb, transfer) = match kind {
                0 => (
                    Asked::Flush,
                    cdb::synchronize_cache(0, 0, false),
                    Transfer::None,
                ),
                1..4 => {
                    let buffer = vec![0xee; BLOCK_BYTES];
                    let read = cdb::read(lba, SECTORS, false);
                    (Asked::Read(number), read, Transfer::Read(buffer))
                }
                _ => {
                    block.version += 1;
                    let data = content(number, block.version);
                    let write = cdb::write(lba, SECTORS, false);
                    (Asked::Write(number), write, Transfer::Write(data))
                }
            };
            block.is_used |= !matches!(asked, Asked::Flush);
            self.asked[place] = Some(asked);
            let command = command(cdb, transfer, place as u64);
            self.initiator.submit(command, clock::now()).unwrap();
        }
    }

    fn take_completions(&mut self) {
        while let Some(done) = self.initiator.poll_completion(clock::now()) {
            self.completed += 1;
            let asked = self.asked[done.user as usize].take().unwrap();
            let answer = done.outcome.as_ref();
            let is_good = answer.is_ok_and(|answer| answer.status == ScsiStatus::Good);
            assert!(is_good, "the caller of {asked:?} saw {:?}", done.outcome);
            match asked {
                Asked::Write(number) => self.blocks[number].is_used = false,
                Asked::Read(number) => self.check(number, done),
                Asked::Flush => {}
            }
        }
    }

    fn check(&mut self, number: usize, done: Completion) {
        let block = &mut self.blocks[number];
        block.is_used = false;
        let expected = match block.version {
            0 => vec![0; BLOCK_BYTES],
            version => content(number, version),
        };
        let got = done.transfer.into_buffer();
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes[8..16].try_into().unwrap());
        assert!(
            got == expected,
            "block {number} should be at version {} and begins with {}",
            block.version,
            word(&got)
        );
    }

    /// Waits for what is under way, reads everything and compares it.
    pub(crate) fn verify(mut self) {
        while self.asked.iter().any(Option::is_some) {
            self.initiator
                .turn(wansan_trace::Instant::FAR_FUTURE)
                .unwrap();
            self.take_completions();
        }
        for number in 0..BLOCKS {
            let read = cdb::read(number as u64 * u64::from(SECTORS), SECTORS, false);
            let buffer = Transfer::Read(vec![0xee; BLOCK_BYTES]);
            let done = self.initiator.execute(command(read, buffer, 0)).unwrap();
            self.check(number, done);
        }
        let _ = self.initiator.logout();
    }
}

fn command(cdb: [u8; 16], transfer: Transfer, user: u64) -> Command {
    Command {
        lun: Lun::single_level(0).unwrap(),
        cdb,
        attribute: TaskAttribute::Simple,
        transfer,
        user,
    }
}

/// Bytes that no other block and no other version has.
fn content(number: usize, version: u64) -> Vec<u8> {
    let mut data = vec![0; BLOCK_BYTES];
    for (words, place) in data.chunks_exact_mut(16).zip(0_u64..) {
        words[..8].copy_from_slice(&((number as u64) << 32 | place).to_le_bytes());
        words[8..].copy_from_slice(&version.to_le_bytes());
    }
    data
}
