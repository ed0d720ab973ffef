//! Target: its units, its addresses, and target.toml.

use std::net::TcpListener;
use std::path::Path;

use tempfile::TempDir;
use wansan_peers::wansan::{TARGET_NAME, Target};

use super::{WANSAN, refused, refused_beside, target_refused};

#[test]
fn a_target_without_name_and_units() {
    let missing = "arguments were not provided: --name <IQN>; --lun <STORE>";
    refused(&["target"], &[missing]);
}

#[test]
fn a_unit_of_an_unknown_kind() {
    target_refused(
        &[],
        &["--lun", "floppy:1MiB"],
        &["floppy", "memory", "file"],
    );
}

#[test]
fn a_memory_unit_of_no_size() {
    target_refused(&[], &["--lun", "memory:12Q"], &["12Q", "MiB"]);
    target_refused(&[], &["--lun", "memory:"], &["memory"]);
}

#[test]
fn a_file_that_is_not_there() {
    target_refused(&[], &["--lun", "file:disk.img"], &["disk.img"]);
}

#[test]
fn a_file_that_another_target_serves() {
    let folder = TempDir::with_prefix("wansan-bad-input-").unwrap();
    let disk = folder.path().join("disk.img");
    let unit = format!("file:{},size=1MiB", disk.display());
    let _first = Target::start(Path::new(WANSAN), &["--lun", &unit]).unwrap();
    target_refused(&[], &["--lun", &unit], &["disk.img", "in use", "process"]);
    assert!(disk.exists());
}

#[test]
fn a_later_unit_that_fails_leaves_no_file_of_an_earlier_one() {
    let new = ["--lun", "file:new.img,size=1MiB"];
    target_refused(
        &[],
        &[&new[..], &["--lun", "file:missing.img"]].concat(),
        &["missing.img"],
    );
    // What was there before stays.
    target_refused(
        &[("new.img", &[0; 1 << 20])],
        &[&new[..], &["--lun", "file:missing.img"]].concat(),
        &["missing.img"],
    );
}

#[test]
fn a_file_that_is_a_folder() {
    target_refused(&[], &["--lun", "file:/"], &["/"]);
}

#[test]
fn a_file_that_is_no_whole_number_of_blocks() {
    target_refused(
        &[("disk.img", &[0; 1000])],
        &["--lun", "file:disk.img"],
        &["disk.img", "512"],
    );
}

#[test]
fn a_file_without_a_block() {
    target_refused(
        &[("disk.img", &[])],
        &["--lun", "file:disk.img"],
        &["disk.img"],
    );
}

#[test]
fn an_option_of_a_unit_that_there_is_not() {
    target_refused(
        &[],
        &["--lun", "memory:1MiB,service-tim=2ms"],
        &["service-tim", "service-time"],
    );
}

#[test]
fn an_address_that_is_none() {
    let arguments = [
        "target",
        "--name",
        "iqn.2026-11.net.example:x",
        "--lun",
        "memory:1MiB",
    ];
    refused(
        &[&arguments[..], &["--listen", "nowhere"]].concat(),
        &["nowhere:3260"],
    );
    refused(
        &[&arguments[..], &["--listen", "127.0.0.1"]].concat(),
        &["ADDRESS:PORT", "127.0.0.1:3260"],
    );
}

#[test]
fn an_address_that_is_taken() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let arguments = [
        "target",
        "--name",
        "iqn.2026-11.net.example:x",
        "--lun",
        "memory:1MiB",
    ];
    refused(
        &[&arguments[..], &["--listen", &address]].concat(),
        &[&address],
    );
}

#[test]
fn a_target_name_that_is_none() {
    let arguments = ["target", "--listen", "127.0.0.1:0", "--lun", "memory:1MiB"];
    refused(
        &[&arguments[..], &["--name", "my disk"]].concat(),
        &["my disk", "iqn.2026-01.net.example:my-disk", "RFC 3721"],
    );
}

#[test]
fn a_command_window_that_lets_nothing_in() {
    target_refused(
        &[],
        &["--lun", "memory:1MiB", "--command-window", "0"],
        &["0"],
    );
}

#[test]
fn a_congestion_control_that_the_kernel_does_not_have() {
    let arguments = ["--lun", "memory:1MiB", "--congestion-control", "hasty"];
    target_refused(&[], &arguments, &["hasty"]);
}

#[test]
fn a_target_file_is_an_ordinary_file_whose_settings_are_in_their_ranges() {
    refused(
        &["target", "--config", "/dev/null"],
        &["/dev/null", "not an ordinary file"],
    );
    let long = "#".repeat((1 << 20) + 1);
    let with = |negotiation: &str| {
        format!(
            "listen = [\"127.0.0.1:0\"]\n[[target]]\nname = \"{TARGET_NAME}\"\n\
             [[target.lun]]\nstore = \"memory:1MiB\"\n[target.negotiation]\n{negotiation}\n"
        )
    };
    for (text, words) in [
        (long, &["longer than 1048576 bytes"][..]),
        (
            with("max_outstanding_r2t = 0"),
            &[
                "target.toml:7: ",
                "`target.negotiation.max_outstanding_r2t`: must be 1 to 65535, not 0",
            ],
        ),
        (
            with("first_burst = \"2MiB\""),
            &[
                "target.toml:6: `target.negotiation`: ",
                TARGET_NAME,
                "FirstBurstLength 2097152 exceeds MaxBurstLength 1048576",
            ],
        ),
    ] {
        let files = [("target.toml", text.as_bytes())];
        let words = [&["target.toml"][..], words].concat();
        refused_beside(&files, &["target", "--config", "target.toml"], &words);
    }
}

#[test]
fn what_a_target_file_cannot_have_served_is_told_with_its_line() {
    let unit =
        |number: u16| format!("[[target.lun]]\nnumber = {number}\nstore = \"memory:1MiB\"\n");
    let target = |name: &str, luns: &str| format!("[[target]]\nname = \"{name}\"\n{luns}");
    let listen = "listen = [\"127.0.0.1:0\"]\n";
    let two = format!("{listen}{}", target(TARGET_NAME, &unit(0)));
    for (text, words) in [
        (
            format!("{two}{}", unit(0)),
            &["target.toml:8: `target.lun.number`: ", "renumber one"][..],
        ),
        (
            format!("{two}{}", target(TARGET_NAME, &unit(0))),
            &["target.toml:8: `target.name`: ", "rename one"],
        ),
        (
            format!("{two}{}", target("disk", &unit(0))),
            &["target.toml:8: `target.name`: ", "iqn.YEAR-MONTH"],
        ),
        (
            format!("{two}[[target.lun]]\nstore = \"file:/nowhere/disk\"\n"),
            &["target.toml:7: `target.lun`: ", "/nowhere/disk"],
        ),
        (
            format!("{two}[target.chap]\nuser = \"me\"\n"),
            &["target.toml:7: `target.chap`: ", "name both"],
        ),
        (
            two.replace(":0\"]", ":x\"]"),
            &["target.toml:1: `listen`: ", "127.0.0.1:3260"],
        ),
        (
            two.replace("[[target]]", "[target]"),
            &["target.toml:2: ", "write [[target]], not [target]"],
        ),
    ] {
        let files = [("target.toml", text.as_bytes())];
        refused_beside(&files, &["target", "--config", "target.toml"], words);
    }
}
