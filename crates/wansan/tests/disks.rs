//! What the disks promise, through the binary: read-only and thin LUNs, reservations that outlive a
//! restart, and COMPARE AND WRITE by several initiators at once.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use wansan_iscsi::initiator::{Answer, Command, Schedule, Transfer};
use wansan_iscsi::keys::Wanted;
use wansan_iscsi::scsi::{AdditionalSense, Cdb, Sense, SenseKey, cdb};
use wansan_iscsi::wire::{Lun, ScsiStatus, TaskAttribute};
use wansan_peers::wansan::{Target, command};
use wansan_san::url::IscsiUrl;
use wansan_san::{DelayedAck, Initiator, InitiatorConfig, Route};
use wansan_trace::Recorder;

const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");
const LIMIT: Duration = Duration::from_secs(60);
const BLOCK_BYTES: usize = 512;

/// A session with LUN 0 of a target.
struct Session(Initiator);

impl Session {
    /// From an initiator called `name`.
    fn new(target: &Target, name: &str) -> Session {
        let url: IscsiUrl = target.url(0).parse().unwrap();
        let config = InitiatorConfig {
            name: format!("iqn.2026-01.net.example:{name}"),
            isid: [0x80, 0, 0, 0, 0, 1],
            chap: None,
            wanted: Wanted::default(),
            tasks: 4,
            routes: vec![Route::to(&url)],
            multipath: false,
            reservation: None,
            schedule: Schedule::default(),
            congestion_control: None,
            delayed_ack: DelayedAck::On,
            patience: LIMIT,
            replacement_timeout: Duration::ZERO,
            tcp_interval: Duration::from_secs(1),
        };
        let mut session = Session(Initiator::connect(&url, &config, Recorder::off()).unwrap());
        // What the unit has to say of its past is said to the first commands.
        for _ in 0..8 {
            session.run(&cdb::test_unit_ready(), Transfer::None);
        }
        session
    }

    fn run(&mut self, cdb: &[u8], transfer: Transfer) -> (Answer, Vec<u8>) {
        let mut padded = Cdb::default();
        padded[..cdb.len()].copy_from_slice(cdb);
        let command = Command {
            lun: Lun::default(),
            cdb: padded,
            attribute: TaskAttribute::Simple,
            transfer,
            user: 0,
        };
        let done = self.0.execute(command).unwrap();
        (done.outcome.unwrap(), done.transfer.into_buffer())
    }

    /// Gives `data` to a command.
    fn put(&mut self, cdb: &[u8], data: Vec<u8>) -> Answer {
        self.run(cdb, Transfer::Write(data)).0
    }

    /// What a command gives, which must be GOOD.
    fn get(&mut self, cdb: &[u8], bytes: usize) -> Vec<u8> {
        let (answer, data) = self.run(cdb, Transfer::Read(vec![0; bytes]));
        good(&answer);
        data
    }

    fn leave(self) {
        let _ = self.0.logout();
    }
}

fn good(answer: &Answer) {
    assert_eq!(answer.status, ScsiStatus::Good, "{answer:?}");
}

fn sense(answer: &Answer) -> (SenseKey, AdditionalSense) {
    assert_eq!(answer.status, ScsiStatus::CheckCondition);
    let sense = Sense::parse(&answer.sense).unwrap();
    (sense.key, sense.additional)
}

fn start(lun: &str) -> Target {
    Target::start(Path::new(WANSAN), &["--lun", lun]).unwrap()
}

#[test]
fn a_read_only_lun_is_read_and_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk.img");
    File::create(&disk).unwrap().set_len(16 << 20).unwrap();
    let target = start(&format!("file:{},read-only", disk.display()));
    let mut session = Session::new(&target, "one");
    session.get(&cdb::read(0, 1, false), BLOCK_BYTES);
    let refused = session.put(&cdb::write(0, 1, false), vec![1; BLOCK_BYTES]);
    let expected = (SenseKey::DataProtect, AdditionalSense::WRITE_PROTECTED);
    assert_eq!(sense(&refused), expected);
    session.leave();

    let url = target.url(0);
    let arguments = ["bench", &url, "--op", "write", "--count", "10"];
    let finished = command(Path::new(WANSAN), &arguments, LIMIT).unwrap();
    assert!(!finished.status.success());
    let said = finished
        .stderr
        .lines()
        .find(|line| line.contains("WRITE PROTECTED"));
    assert!(said.is_some(), "{}", finished.output());
    let written = std::fs::read(&disk).unwrap();
    assert!(written.iter().all(|byte| *byte == 0));
}

#[test]
fn what_is_given_back_of_a_thin_lun_frees_its_file() {
    const BLOCKS: u32 = 8192;
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk.img");
    let target = start(&format!("file:{},size=16MiB,thin", disk.display()));
    let mut session = Session::new(&target, "one");
    let used_bytes = || 512 * disk.metadata().unwrap().blocks();
    let data = vec![7; BLOCKS as usize * BLOCK_BYTES];
    good(&session.put(&cdb::write(0, BLOCKS, true), data));
    assert!(used_bytes() >= 4 << 20);
    // Provisioning status of the first run of blocks from `lba` on (SBC-3 5.5): 1 is deallocated.
    let provisioned = |session: &mut Session, lba: u16| {
        let [high, low] = lba.to_be_bytes();
        let status = [0x9e, 0x12, 0, 0, 0, 0, 0, 0, high, low, 0, 0, 0, 24, 0, 0];
        let data = session.get(&status, 24);
        (
            u32::from_be_bytes([data[16], data[17], data[18], data[19]]),
            data[20] & 0x0f,
        )
    };
    assert_eq!(provisioned(&mut session, 0), (BLOCKS, 0));

    // UNMAP of the first MiB; WRITE SAME (16) with UNMAP of the second.
    let mut list = vec![0, 22, 0, 16, 0, 0, 0, 0];
    list.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x08, 0, 0, 0, 0, 0]);
    good(&session.put(&[0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0], list));
    assert!(used_bytes() <= 3 << 20, "{} bytes", used_bytes());
    let same = [0x93, 0x08, 0, 0, 0, 0, 0, 0, 0x08, 0, 0, 0, 0x08, 0, 0, 0];
    good(&session.put(&same, vec![0; BLOCK_BYTES]));
    assert!(used_bytes() <= 2 << 20, "{} bytes", used_bytes());
    assert_eq!(provisioned(&mut session, 0), (4096, 1));
    assert_eq!(provisioned(&mut session, 4096), (4096, 0));

    let read = session.get(&cdb::read(0, BLOCKS, false), BLOCKS as usize * BLOCK_BYTES);
    let (given_back, kept) = read.split_at(2 << 20);
    assert!(given_back.iter().all(|byte| *byte == 0));
    assert!(kept.iter().all(|byte| *byte == 7));
    session.leave();
}

/// SBC-3 5.6.2.3: the first LBA status descriptor begins at STARTING LOGICAL BLOCK ADDRESS, also inside
/// a physical block. Physical blocks are given back one at a time, alternately.
#[test]
fn lba_status_begins_where_it_is_asked_for() {
    const PHYSICAL: u16 = 8;
    const BLOCKS: u16 = 8 * PHYSICAL;
    let folder = tempfile::tempdir().unwrap();
    let file = format!(
        "file:{},size=16MiB,thin",
        folder.path().join("disk.img").display()
    );
    for lun in ["memory:16MiB,thin", &file] {
        let target = start(lun);
        let mut session = Session::new(&target, "one");
        let data = vec![7; usize::from(BLOCKS) * BLOCK_BYTES];
        good(&session.put(&cdb::write(0, BLOCKS.into(), false), data));
        for lba in (0..BLOCKS).step_by(usize::from(2 * PHYSICAL)) {
            let mut list = vec![0, 22, 0, 16, 0, 0, 0, 0];
            list.extend(u64::from(lba).to_be_bytes());
            list.extend(u32::from(PHYSICAL).to_be_bytes());
            list.extend([0; 4]);
            good(&session.put(&[0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0], list));
        }
        for lba in 0..BLOCKS - PHYSICAL {
            let mut status = Cdb::default();
            (status[0], status[1], status[13]) = (0x9e, 0x12, 24);
            status[2..10].copy_from_slice(&u64::from(lba).to_be_bytes());
            let data = session.get(&status, 24);
            let mut expected = u64::from(lba).to_be_bytes().to_vec();
            expected.extend(u32::from(PHYSICAL - lba % PHYSICAL).to_be_bytes());
            expected.push(u8::from((lba / PHYSICAL).is_multiple_of(2)));
            assert_eq!(data[8..21], expected, "{lun}: LBA {lba}");
        }
        session.leave();
    }
}

/// PERSISTENT RESERVE OUT with the basic parameter list.
fn reserve_out(session: &mut Session, action: u8, keys: (u64, u64), aptpl: bool) -> Answer {
    const EXCLUSIVE_ACCESS: u8 = 3;
    let mut list = [keys.0.to_be_bytes(), keys.1.to_be_bytes()].concat();
    list.extend([0, 0, 0, 0, u8::from(aptpl), 0, 0, 0]);
    let cdb = [0x5f, action, EXCLUSIVE_ACCESS, 0, 0, 0, 0, 0, 24, 0];
    session.put(&cdb, list)
}

#[test]
fn a_reservation_outlives_a_restart() {
    const REGISTER: u8 = 0;
    const RESERVE: u8 = 1;
    const CLEAR: u8 = 3;
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk.img");
    let lun = format!("file:{},size=16MiB", disk.display());
    let target = start(&lun);
    let mut holder = Session::new(&target, "holder");
    good(&reserve_out(&mut holder, REGISTER, (0, 5), true));
    good(&reserve_out(&mut holder, RESERVE, (5, 0), false));
    holder.leave();
    assert!(target.stop().unwrap().success());

    let target = start(&lun);
    let mut other = Session::new(&target, "other");
    let write = cdb::write(0, 1, false);
    let refused = other.put(&write, vec![1; BLOCK_BYTES]);
    assert_eq!(refused.status, ScsiStatus::ReservationConflict);
    let mut holder = Session::new(&target, "holder");
    good(&holder.put(&write, vec![2; BLOCK_BYTES]));
    good(&reserve_out(&mut holder, CLEAR, (5, 0), false));
    good(&other.put(&write, vec![3; BLOCK_BYTES]));
    holder.leave();
    other.leave();
    assert!(target.stop().unwrap().success());
    // Nothing is left to be restored.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_reservation_that_cannot_be_kept_is_not_made() {
    const REGISTER: u8 = 0;
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk.img");
    let target = start(&format!("file:{},size=16MiB", disk.display()));
    let in_its_place = folder.path().join("disk.img.reservations");
    std::fs::create_dir(&in_its_place).unwrap();
    let mut session = Session::new(&target, "one");
    let refused = reserve_out(&mut session, REGISTER, (0, 5), true);
    assert_eq!(sense(&refused).0, SenseKey::HardwareError);
    // READ KEYS: PRGENERATION 0, and no key.
    let read_keys = [0x5e, 0, 0, 0, 0, 0, 0, 0, 16, 0];
    assert_eq!(session.get(&read_keys, 16)[..8], [0; 8]);
    std::fs::remove_dir(&in_its_place).unwrap();
    good(&reserve_out(&mut session, REGISTER, (0, 5), true));
    assert_eq!(session.get(&read_keys, 16)[..8], [0, 0, 0, 1, 0, 0, 0, 8]);
    session.leave();
}

/// Initiators on several of the target's threads count one number up. No count is lost.
#[test]
fn compare_and_write_is_one_step_for_all_sessions() {
    const SESSIONS: u64 = 4;
    const ROUNDS: u64 = 100;
    let folder = tempfile::tempdir().unwrap();
    let file = format!(
        "file:{},size=16MiB",
        folder.path().join("disk.img").display()
    );
    for lun in ["memory:16MiB", &file] {
        let target = Target::start(Path::new(WANSAN), &["--lun", lun, "--threads", "2"]).unwrap();
        let read = cdb::read(0, 1, false);
        std::thread::scope(|scope| {
            for number in 0..SESSIONS {
                let target = &target;
                scope.spawn(move || {
                    let mut session = Session::new(target, &format!("counter-{number}"));
                    let mut done = 0;
                    while done < ROUNDS {
                        let before = session.get(&read, BLOCK_BYTES);
                        let count = u64::from_be_bytes(*before.first_chunk().unwrap());
                        let mut after = before.clone();
                        after[..8].copy_from_slice(&(count + 1).to_be_bytes());
                        let mut swap = Cdb::default();
                        (swap[0], swap[13]) = (0x89, 1);
                        let answer = session.put(&swap, [before, after].concat());
                        if answer.status == ScsiStatus::Good {
                            done += 1;
                        } else {
                            let expected = (SenseKey::Miscompare, AdditionalSense::MISCOMPARE);
                            assert_eq!(sense(&answer), expected);
                        }
                    }
                    session.leave();
                });
            }
        });
        let mut session = Session::new(&target, "reader");
        let count = session.get(&read, BLOCK_BYTES);
        assert_eq!(count[..8], (SESSIONS * ROUNDS).to_be_bytes(), "{lun}");
        session.leave();
    }
}

/// SBC-3 5.3: a Data-Out of other than twice NUMBER OF LOGICAL BLOCKS ends with ILLEGAL REQUEST before
/// anything is compared or written, whether the data comes as immediate data, unsolicited or after
/// R2Ts. The blocks to compare hold what the medium holds, so that a target that looked no further
/// would write.
#[test]
fn compare_and_write_refuses_data_that_does_not_fit_its_number() {
    const BLOCK: usize = 4096;
    let target = start("memory:16MiB,block=4096");
    let mut session = Session::new(&target, "one");
    for announced in [
        1, 2, 3, 4, 6, 8, 16, 17, 62, 64, 66, 255, 256, 508, 510, 512,
    ] {
        for number in [0, 1, 2, 3, 4, 31, 32, 33, 127, 128, 254, 255] {
            let mut cdb = Cdb::default();
            (cdb[0], cdb[13]) = (0x89, number);
            let compared = usize::from(number).min(announced) * BLOCK;
            let mut data = vec![0; announced * BLOCK];
            data[compared..].fill(0xa6);
            let answer = session.put(&cdb, data);
            let what = format!("{number} blocks, {announced} announced");
            let reached = announced.max(number.into());
            let read = cdb::read(0, reached as u32, false);
            let medium = session.get(&read, reached * BLOCK);
            if announced == 2 * usize::from(number) {
                good(&answer);
                assert!(
                    medium[..compared].iter().all(|byte| *byte == 0xa6),
                    "{what}"
                );
                good(&session.put(&cdb::write(0, number.into(), false), vec![0; compared]));
            } else {
                let expected = (
                    SenseKey::IllegalRequest,
                    AdditionalSense::INVALID_FIELD_IN_CDB,
                );
                assert_eq!(sense(&answer), expected, "{what}");
                assert!(medium.iter().all(|byte| *byte == 0), "{what}");
            }
        }
    }
    session.leave();
}
