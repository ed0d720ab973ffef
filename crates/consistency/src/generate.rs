//! Generates histories from a seed.

use wansan_iscsi::target::UNSOLICITED_BYTES;

use crate::block::BLOCK_BYTES;
use crate::history::{
    BIT_BLOCKS, Disaster, Function, History, Incident, Keys, ReserveOut, Script, Scsi, Setup, Step,
    UnitSetup,
};
use crate::page_cache::FailureRates;
use crate::random::Random;

/// The main subject of a history. Each has its own mix of steps, to make rare interleavings likely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Theme {
    /// Reads and writes, with lost connections.
    Data,
    /// Flushes and power losses.
    Flushes,
    /// Task management.
    Management,
    /// Reservations and other rights.
    Rights,
    /// Full command windows of unsolicited data, with stalling connections.
    Bursts,
    /// Everything.
    Mixed,
}

impl History {
    /// The history of a seed.
    #[must_use]
    pub fn of_seed(seed: u64) -> History {
        let mut random = Random::new(seed);
        let random = &mut random;
        let theme = match random.one_in(40) {
            true => Theme::Bursts,
            false => random.pick(&[
                Theme::Data,
                Theme::Flushes,
                Theme::Management,
                Theme::Rights,
                Theme::Mixed,
            ]),
        };
        let setup = setup(random, theme);
        let hosts = hosts(random);
        let steps = match hosts.len() {
            0..=4 => random.pick(&[20, 60, 150]),
            5..=8 => random.pick(&[20, 60]),
            _ => 20,
        };
        let mut sessions: Vec<Script> = hosts
            .iter()
            .map(|host| script(random, &setup, *host, theme))
            .collect();
        let maker = Maker {
            setup: &setup,
            theme,
            sessions: hosts.len() as u8,
            reserves: theme != Theme::Rights || !random.one_in(3),
        };
        for (number, script) in sessions.iter_mut().enumerate() {
            let steps = random.between(steps / 4, steps);
            script.steps = maker.steps(random, number as u8, steps);
        }
        let all: usize = sessions.iter().map(|script| script.steps.len()).sum();
        let disasters = match theme {
            Theme::Flushes => random.between(1, 3),
            _ if random.one_in(3) => 1,
            _ => 0,
        };
        let mut incidents: Vec<Incident> = (0..disasters)
            .map(|_| Incident {
                after: random.below(all.max(1)) as u32,
                what: match random.one_in(3) {
                    true => Disaster::Kill,
                    false => Disaster::PowerLoss,
                },
            })
            .collect();
        incidents.sort_by_key(|incident| incident.after);
        History {
            setup,
            sessions,
            incidents,
            schedule: random.bits(),
        }
    }
}

/// The host of each session: 1 to 4 hosts with 1 to 4 sessions each, mostly few.
fn hosts(random: &mut Random) -> Vec<u8> {
    if !random.one_in(6) {
        let hosts = random.between(1, 3);
        let sessions = random.between(hosts, 4);
        return (0..sessions).map(|number| (number % hosts) as u8).collect();
    }
    let hosts = 0..random.between(1, 4) as u8;
    hosts
        .flat_map(|host| std::iter::repeat_n(host, random.between(1, 4)))
        .collect()
}

fn setup(random: &mut Random, theme: Theme) -> Setup {
    let units = (0..random.between(2, 3))
        .map(|_| UnitSetup {
            blocks: random.pick(&[12, 24, 64]),
            write_cache: !random.one_in(4),
            thin: random.one_in(2),
            keeps_reservations: random.one_in(2),
        })
        .collect();
    let fails = match theme {
        Theme::Flushes | Theme::Rights => random.one_in(2),
        _ => random.one_in(6),
    };
    // Reservations need higher ENOSPC rates: they are written often, but few of these writes come when they affect
    // others.
    let no_space = match theme {
        Theme::Rights => [50, 200, 400],
        _ => [0, 20, 100],
    };
    let failures = match fails {
        true => FailureRates {
            read: random.pick(&[0, 10]),
            no_space: random.pick(&no_space),
            flush: random.pick(&[0, 50, 200]),
        },
        false => FailureRates::default(),
    };
    if theme == Theme::Bursts {
        return bursts(random);
    }
    Setup {
        units,
        command_window: random.pick(&[1, 2, 4, 16, 64, 128]),
        unsolicited_bytes: UNSOLICITED_BYTES,
        workers: random.pick(&[1, 2, 4, 8]),
        threads: random.between(1, 3) as u8,
        slow: random.pick(&[0, 50, 200, 500]),
        failures,
        keys: keys(random),
    }
}

/// A setup whose bound on unsolicited data limits the command window, and whose FirstBurstLength takes several short
/// PDUs.
fn bursts(random: &mut Random) -> Setup {
    let unit = UnitSetup {
        blocks: 64,
        write_cache: true,
        thin: false,
        keeps_reservations: false,
    };
    let keys = Keys {
        connections: 2,
        initial_r2t: false,
        first_burst: random.pick(&[1024, 2048]),
        max_burst: 4096,
        segment: 512,
        ..keys(random)
    };
    let command_window = random.pick(&[12, 16, 24]);
    Setup {
        units: vec![unit; 2],
        command_window,
        unsolicited_bytes: command_window * keys.first_burst,
        workers: random.pick(&[1, 4]),
        threads: 1,
        slow: 0,
        failures: FailureRates::default(),
        keys,
    }
}

fn keys(random: &mut Random) -> Keys {
    let first_burst = random.pick(&[512, 1024, 4096, 65_536]);
    Keys {
        recovery: random.pick(&[0, 0, 1, 2, 2]),
        connections: random.between(1, 4) as u16,
        immediate: !random.one_in(3),
        initial_r2t: random.one_in(3),
        first_burst,
        max_burst: random.pick(&[1, 2, 8]) * first_burst,
        segment: random.pick(&[512, 1024, 8192, 65_536]),
        r2ts: random.pick(&[1, 2, 16]),
        digests: random.one_in(6),
    }
}

fn script(random: &mut Random, setup: &Setup, host: u8, theme: Theme) -> Script {
    let mut keys = match random.one_in(2) {
        _ if theme == Theme::Bursts => setup.keys,
        true => keys(random),
        // Negotiation then mostly yields the target's values.
        false => Keys {
            connections: random.between(1, 4) as u16,
            ..setup.keys
        },
    };
    if theme == Theme::Rights && random.one_in(2) {
        keys.connections = 1;
    }
    Script {
        host,
        keys,
        least_bytes: theme == Theme::Bursts || random.one_in(4),
        depth: match theme {
            Theme::Bursts => 32,
            _ => random.pick(&[1, 2, 4, 16, 32]),
        },
        replays: random.one_in(3),
        steps: Vec::new(),
    }
}

struct Maker<'a> {
    setup: &'a Setup,
    theme: Theme,
    sessions: u8,
    /// Whether sessions reserve units. Otherwise only the loss of its registration keeps a preempted nexus from
    /// writing.
    reserves: bool,
}

impl Maker<'_> {
    fn steps(&self, random: &mut Random, number: u8, count: usize) -> Vec<Step> {
        let mut steps = Vec::with_capacity(count);
        if self.theme == Theme::Rights && !random.one_in(4) {
            // Without a registration, most of what follows would conflict.
            let units = 0..self.setup.units.len() as u8;
            steps.extend(units.map(|unit| Step::Do(unit, register(number + 1, random.one_in(2)))));
        }
        while steps.len() < count {
            if self.theme == Theme::Bursts && random.one_in(8) {
                self.burst(random, &mut steps);
            }
            steps.push(self.step(random, number));
        }
        steps
    }

    /// A full window of writes while a connection stalls. The first write usually has more data than all others
    /// together.
    fn burst(&self, random: &mut Random, steps: &mut Vec<Step>) {
        let write = |lba, blocks| {
            let scsi = Scsi::Write {
                lba,
                blocks,
                fua: false,
                form: 10,
            };
            Step::Do(0, scsi)
        };
        let most = self.setup.units[0].blocks - BIT_BLOCKS;
        let blocks = (self.setup.keys.first_burst / BLOCK_BYTES as u32) as u16;
        steps.push(Step::Await);
        let turns = random.between(20, 200) as u8;
        steps.push(Step::Stall(random.below(2) as u16, turns));
        steps.push(write(0, most));
        for _ in 1..self.setup.command_window {
            let lba = random.below(usize::from(most - blocks)) as u16;
            steps.push(write(lba, blocks));
        }
    }

    fn step(&self, random: &mut Random, number: u8) -> Step {
        let unit = random.below(self.setup.units.len()) as u8;
        let (managed, lost) = match self.theme {
            Theme::Data | Theme::Bursts => (1, 25),
            Theme::Flushes => (1, 4),
            Theme::Management => (70, 5),
            Theme::Rights => (8, 5),
            Theme::Mixed => (15, 15),
        };
        if random.per_mille(managed) {
            let function = random.pick(&[
                Function::AbortTask,
                Function::AbortTask,
                Function::AbortTaskSet,
                Function::ClearTaskSet,
                Function::ClearTaskSet,
                Function::UnitReset,
                Function::TargetReset,
            ]);
            return Step::Manage(unit, function);
        }
        if random.per_mille(lost) {
            return match random.below(13) {
                12 => Step::Stall(random.below(4) as u16, random.between(1, 200) as u8),
                0..6 => Step::Cut(random.below(4) as u16),
                6..8 => Step::Reinstate,
                8..10 => Step::Renew,
                10 => Step::Logout,
                _ => Step::Sleep(random.pick(&[1, 3, 30, 130])),
            };
        }
        if random.one_in(25) {
            return Step::Await;
        }
        Step::Do(unit, self.command(random, unit, number))
    }

    fn command(&self, random: &mut Random, unit: u8, number: u8) -> Scsi {
        let (rights, flushes, rare) = match self.theme {
            Theme::Data | Theme::Bursts => (0, 30, 60),
            Theme::Flushes => (5, 150, 40),
            Theme::Management => (20, 30, 60),
            Theme::Rights => (250, 20, 80),
            Theme::Mixed => (60, 40, 150),
        };
        if random.per_mille(rights) {
            return self.rights(random, number);
        }
        let blocks = self.setup.units[usize::from(unit)].blocks - BIT_BLOCKS;
        let lba = random.below(usize::from(blocks)) as u16;
        let most = usize::from(blocks - lba).min(random.pick(&[1, 1, 4, 16]));
        let length = random.between(1, most) as u16;
        if random.per_mille(flushes) {
            return match random.one_in(4) {
                true => Scsi::Synchronize {
                    lba,
                    blocks: length,
                    immediate: random.one_in(3),
                },
                false => Scsi::Synchronize {
                    lba: 0,
                    blocks: 0,
                    immediate: random.one_in(8),
                },
            };
        }
        if random.per_mille(rare) {
            return self.rare(random, unit, (lba, length));
        }
        let fua = random.one_in(8);
        let form = random.pick(&[6, 10, 10, 12, 16]);
        match random.one_in(2) {
            true => Scsi::Read {
                lba,
                blocks: length,
                fua,
                form,
            },
            false => Scsi::Write {
                lba,
                blocks: length,
                fua,
                form,
            },
        }
    }

    fn rare(&self, random: &mut Random, unit: u8, (lba, blocks): (u16, u16)) -> Scsi {
        let compare = random.one_in(2);
        match random.below(24) {
            0 => Scsi::TestUnitReady,
            1 => Scsi::Inquiry,
            2 => Scsi::ReportLuns,
            3 => Scsi::RequestSense,
            4 => Scsi::ReadCapacity,
            5 => Scsi::ModeSense,
            6 => Scsi::TargetPortGroups,
            7 => Scsi::SupportedOpcodes,
            8 => Scsi::SupportedFunctions,
            9 => Scsi::DefectData,
            10 => Scsi::CopyStatus,
            11 | 12 => Scsi::WriteAndVerify {
                lba,
                blocks,
                compare,
            },
            13 => Scsi::Verify {
                lba,
                blocks,
                compare,
            },
            14 => Scsi::PreFetch { lba, blocks },
            15 => Scsi::WriteSame {
                lba,
                blocks,
                zeros: compare,
            },
            16 if self.setup.units[usize::from(unit)].thin => Scsi::Unmap { lba, blocks },
            16..19 => Scsi::CompareAndWrite {
                lba,
                blocks: blocks.min(4) as u8,
                fua: random.one_in(4),
            },
            19 | 20 => Scsi::OrWrite {
                block: random.below(usize::from(BIT_BLOCKS)) as u8,
                fua: random.one_in(4),
            },
            21 => Scsi::LbaStatus { lba },
            _ => {
                let to_unit = random.below(self.setup.units.len()) as u8;
                let there = self.setup.units[usize::from(to_unit)].blocks - BIT_BLOCKS;
                let to = random.below(usize::from(there)) as u16;
                Scsi::Copy {
                    from: lba,
                    to_unit,
                    to,
                    blocks: blocks.min(there - to),
                }
            }
        }
    }

    fn rights(&self, random: &mut Random, number: u8) -> Scsi {
        let own = number + 1;
        // Mostly another session's key, if there is another session.
        let others = usize::from(self.sessions - 1).max(1);
        let other = match random.one_in(8) {
            true => own,
            false => (usize::from(number) + 1 + random.below(others)) as u8 % self.sessions + 1,
        };
        let kind = random.pick(&[1, 3, 5, 6, 7, 8]);
        let persist = random.one_in(2);
        match random.below(30) {
            0..7 => register(own, persist),
            7 => out(6, 0, 0, 0, persist),
            8 => out(0, 0, 0, own, persist),
            9 => out(0, 0, own, own, persist),
            10 => out(0, 0, own, 0, persist),
            11..15 if self.reserves => out(1, kind, own, 0, false),
            11..15 => out(5, kind, own, other, false),
            15 | 16 => out(2, kind, own, 0, false),
            17 => out(3, 0, own, 0, false),
            18 => out(4, kind, own, other, false),
            19..22 => out(5, kind, own, other, false),
            22 => out(5, kind, own, 0, false),
            23 => out(7, kind, own, other, persist),
            24 => Scsi::Reserve6,
            25 => Scsi::Release6,
            26 => Scsi::ModeSelect {
                write_cache: random.one_in(2),
                protected: random.one_in(2),
            },
            27 => Scsi::StartStop {
                start: random.one_in(2),
            },
            28 => Scsi::PreventAllow {
                prevent: random.one_in(2),
            },
            _ => Scsi::ReserveIn {
                action: random.below(4) as u8,
            },
        }
    }
}

/// PERSISTENT RESERVE OUT.
fn out(action: u8, kind: u8, key: u8, action_key: u8, persist: bool) -> Scsi {
    Scsi::ReserveOut(ReserveOut {
        action,
        kind,
        key,
        action_key,
        persist,
        unregister: key & 1 == 1,
    })
}

/// REGISTER AND IGNORE EXISTING KEY.
fn register(key: u8, persist: bool) -> Scsi {
    out(6, 0, 0, key, persist)
}
