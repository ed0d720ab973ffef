use std::path::Path;

use wansan_iscsi::scsi::{Answer, Decoded, Executed, InitiatorPort};
use wansan_iscsi::wire::Lun;

use super::*;
use crate::store::MediumJob;

const A: &str = "iqn.2026-01.net.example:a";
const B: &str = "iqn.2026-01.net.example:b";
const NOBODY: &dyn Fn(&str) -> bool = &|_| false;
const EVERYBODY: &dyn Fn(&str) -> bool = &|_| true;

fn target(name: &str, luns: &[(u16, &str)]) -> TargetSpec {
    let luns = luns.iter().map(|(at, spec)| (*at, spec.parse().unwrap()));
    TargetSpec {
        name: name.to_owned(),
        luns: luns.collect(),
        command_window: 8,
        wanted: Wanted::default(),
        chap: None,
        access: Access::default(),
        sending: Sending::default(),
    }
}

/// The directory of `targets`, whose new files stay.
fn directory(targets: &[TargetSpec], before: &Before<'_>) -> Result<Directory, TargetError> {
    let offer = Offer {
        targets: targets.to_vec(),
        discovery: Discovery::default(),
        open: LunSpec::open,
    };
    let (directory, unsettled) = Directory::new(&offer, before, &Memory::new(1 << 20))?;
    unsettled.inherit(before.is_in_use)?;
    for opened in unsettled.opened {
        opened.keep();
    }
    Ok(directory)
}

fn start(targets: &[TargetSpec]) -> Directory {
    directory(targets, &Before::nothing()).unwrap()
}

fn why(result: Result<Directory, TargetError>) -> String {
    result.unwrap_err().to_string()
}

fn write(directory: &Directory, name: &str, place: usize, byte: u8) {
    let stores = &directory.target(name).unwrap().stores;
    stores[place].write_at(0, &[byte; 512], false).unwrap();
}

fn first_byte(directory: &Directory, name: &str, place: usize) -> u8 {
    let mut bytes = [0; 512];
    let stores = &directory.target(name).unwrap().stores;
    stores[place].read_at(0, &mut bytes).unwrap();
    bytes[0]
}

fn in_folder(folder: &Path, name: &str) -> String {
    format!("file:{},size=1MiB", folder.join(name).display())
}

#[test]
fn units_that_stay_as_they_are_keep_what_is_in_them_when_others_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let file = in_folder(folder.path(), "f");
    let more = in_folder(folder.path(), "more");
    let first = start(&[target(
        A,
        &[(1, "memory:1MiB"), (2, &file), (3, "memory:1MiB")],
    )]);
    for (place, byte) in [(0, 1), (1, 2), (2, 3)] {
        write(&first, A, place, byte);
    }
    let changed = target(
        A,
        &[
            (0, &more),
            (1, "memory:1MiB"),
            (2, &file),
            (3, "memory:2MiB"),
        ],
    );
    let second = directory(&[changed], &first.before(NOBODY)).unwrap();
    drop(first);
    let bytes = [0, 1, 2, 3].map(|place| first_byte(&second, A, place));
    // A memory LUN of another size is another one.
    assert_eq!(bytes, [0, 1, 2, 0]);
    // The file moves to the other target, with its content.
    let moved = [target(A, &[(1, "memory:1MiB")]), target(B, &[(0, &file)])];
    let third = directory(&moved, &second.before(NOBODY)).unwrap();
    drop(second);
    assert_eq!((first_byte(&third, A, 0), first_byte(&third, B, 0)), (1, 2));
    // Stores no longer served are closed: another process may open them.
    let other = more.parse::<LunSpec>().unwrap().open();
    assert!(other.is_ok(), "{:?}", other.err());
}

#[test]
fn a_target_comes_back_with_its_units_while_a_session_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = in_folder(folder.path(), "f");
    let units = [(0, "memory:1MiB"), (1, file.as_str())];
    let first = start(&[target(A, &units), target(B, &[(0, "memory:1MiB")])]);
    let of_session = Arc::clone(first.target(A).unwrap());
    write(&first, A, 0, 7);
    // Removed, and another change meanwhile.
    let second = directory(
        &[target(B, &[(0, "memory:1MiB")])],
        &first.before(EVERYBODY),
    )
    .unwrap();
    drop(first);
    let third = directory(
        &[target(B, &[(0, "memory:1MiB")])],
        &second.before(EVERYBODY),
    )
    .unwrap();
    drop(second);
    // Nothing else may replace it, or use its file.
    let other = [target(A, &[(0, "memory:2MiB")])];
    let refused = why(directory(&other, &third.before(EVERYBODY)));
    assert!(refused.contains("logged in"), "{refused}");
    let thief = [target("iqn.2026-01.net.example:c", &[(0, &file)])];
    let only_a = |name: &str| name == A;
    let refused = why(directory(&thief, &third.before(&only_a)));
    assert!(
        refused.contains(A) && refused.contains("logged in"),
        "{refused}"
    );

    let mut back = target(A, &units);
    back.command_window = 4;
    let fourth = directory(&[back], &third.before(EVERYBODY)).unwrap();
    assert_eq!(first_byte(&fourth, A, 0), 7);
    let device = &fourth.target(A).unwrap().session.device;
    assert!(Arc::ptr_eq(device, &of_session.session.device));
    // After its last session it is another one.
    drop((fourth, of_session));
    let fifth = directory(&[target(A, &units)], &third.before(NOBODY)).unwrap();
    assert_eq!(first_byte(&fifth, A, 0), 0);
}

#[test]
fn settings_that_are_refused_leave_everything_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (file, new) = (
        in_folder(folder.path(), "f"),
        in_folder(folder.path(), "new"),
    );
    let first = start(&[target(A, &[(0, &file)])]);
    write(&first, A, 0, 9);
    let nowhere = format!("file:{}", folder.path().join("none").display());
    let (thin, twice) = (format!("{file},thin"), file.clone());
    for (luns, said) in [
        (vec![(0, file.as_str()), (1, &new), (2, &nowhere)], "none"),
        (vec![(0, &thin), (1, &new)], "open as"),
        (
            vec![(0, &file), (1, &twice)],
            "another LUN has the same file",
        ),
    ] {
        let refused = why(directory(&[target(A, &luns)], &first.before(NOBODY)));
        assert!(refused.contains(said), "{refused}");
        assert!(!folder.path().join("new").exists());
    }
    assert_eq!(first_byte(&first, A, 0), 9);
    let again = directory(&[target(A, &[(0, &file)])], &first.before(NOBODY)).unwrap();
    assert_eq!(first_byte(&again, A, 0), 9);
}

fn nexus(device: &TargetDevice) -> wansan_iscsi::scsi::Nexus {
    device.nexus(InitiatorPort {
        name: "iqn.2026-01.net.example:initiator".to_owned(),
        isid: [0x80, 0, 0, 0, 0, 1],
    })
}

/// An initiator logs in, registers `key` at LUN 0, persistently if possible, and logs out.
fn register(target: &ServedTarget, key: u64) {
    let (device, store) = (&target.session.device, &target.stores[0]);
    let mut nexus = nexus(device);
    let mut cdb = [0; 16];
    // PERSISTENT RESERVE OUT, REGISTER AND IGNORE EXISTING KEY
    (cdb[0], cdb[1], cdb[8]) = (0x5f, 6, 24);
    let mut list = [[0; 8], key.to_be_bytes(), [0; 8]].concat();
    list[20] = u8::from(store.reservations().is_some()); // APTPL
    let Decoded::Store { unit, .. } = device.decode(Lun::default(), &cdb, &mut nexus) else {
        panic!("refused");
    };
    match device.execute(unit, &cdb, (list, 24), &mut nexus) {
        Executed::Answer(answer) => assert_eq!(answer, Answer::good(Vec::new())),
        Executed::Medium(operation) => {
            let stores = Arc::clone(&target.stores);
            MediumJob::new(operation, &stores, 0, false).run().unwrap();
        }
    }
}

/// The first key registered at LUN 0.
fn key(device: &TargetDevice) -> Option<u64> {
    let mut cdb = [0; 16];
    (cdb[0], cdb[8]) = (0x5e, 255); // PERSISTENT RESERVE IN, READ KEYS
    match device.decode(Lun::default(), &cdb, &mut nexus(device)) {
        Decoded::Answer(Answer { data, .. }) => {
            let key = data.get(8..16)?;
            Some(u64::from_be_bytes(key.try_into().unwrap()))
        }
        Decoded::Store { .. } => None,
    }
}

#[test]
fn what_an_initiator_changes_while_stores_are_opened_is_inherited() {
    let first = start(&[target(A, &[(0, "memory:1MiB")])]);
    let old = first.target(A).unwrap();
    register(old, 1);
    let offer = Offer {
        targets: vec![target(A, &[(0, "memory:1MiB"), (1, "memory:1MiB")])],
        discovery: Discovery::default(),
        open: LunSpec::open,
    };
    let before = first.before(NOBODY);
    let (second, unsettled) = Directory::new(&offer, &before, &Memory::new(1 << 20)).unwrap();
    // Until the new settings apply, initiators reach the old target.
    register(old, 2);
    let refused = unsettled.inherit(EVERYBODY).unwrap_err().to_string();
    assert!(refused.contains("logged in"), "{refused}");
    unsettled.inherit(NOBODY).unwrap();
    assert_eq!(key(&second.target(A).unwrap().session.device), Some(2));
}

#[test]
fn a_file_that_moves_takes_along_what_was_reserved_while_stores_were_opened() {
    let folder = tempfile::tempdir().unwrap();
    let file = in_folder(folder.path(), "f");
    let first = start(&[target(A, &[(0, &file)])]);
    let offer = Offer {
        targets: vec![target(B, &[(0, &file)])],
        discovery: Discovery::default(),
        open: LunSpec::open,
    };
    let before = first.before(NOBODY);
    let (second, unsettled) = Directory::new(&offer, &before, &Memory::new(1 << 20)).unwrap();
    register(first.target(A).unwrap(), 3);
    // Nor does it move when the old target got a session meanwhile.
    let refused = unsettled.inherit(&|name| name == A).unwrap_err();
    assert!(matches!(refused, TargetError::Held { .. }), "{refused}");
    unsettled.inherit(NOBODY).unwrap();
    assert_eq!(key(&second.target(B).unwrap().session.device), Some(3));
}
