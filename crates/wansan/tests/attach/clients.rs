//! NBD clients of others: QEMU's and libnbd's tools, fio.

use std::fs;
use std::net::SocketAddrV4;

use libtest_mimic::Trial;
use wansan_peers::trial::{Stop, require, trial};

use crate::stage::{DISK_BYTES, Stage, pattern, peer};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("qemu-img converts to an attached disk and back", qemu_img),
        trial("qemu-img finds the holes of an attached disk", holes),
        trial("qemu-io writes, trims and zeroes an attached disk", qemu_io),
        trial("nbdinfo reads what an attached disk can do", nbdinfo),
        trial("nbdcopy copies to an attached disk and back", nbdcopy),
        trial("fio verifies what it wrote to an attached disk", fio),
        trial("an attached read-only disk refuses writes", read_only),
        trial("a disk is attached over several portals", portals),
    ]
}

/// Ways to hide latency.
const WAYS: [&[&str]; 3] = [
    &[],
    &["--write-through"],
    &["--read-ahead", "0B", "--write-behind", "1MiB"],
];

fn qemu_img() -> Result<(), Stop> {
    for way in WAYS {
        let stage = Stage::new()?;
        let (image, back) = (stage.path("image"), stage.path("back"));
        let data = pattern(DISK_BYTES, 1);
        fs::write(&image, &data)?;
        let attach = stage.attach(way)?;
        let convert = ["convert", "-n", "-f", "raw", "-O", "raw"];
        let (uri, image) = (attach.uri(), image.display().to_string());
        peer("qemu-img", &[&convert[..], &[&image, &uri]].concat())?;
        let back_name = back.display().to_string();
        peer(
            "qemu-img",
            &["convert", "-f", "raw", "-O", "raw", &uri, &back_name],
        )?;
        require(fs::read(&back)? == data, || {
            format!("{way:?}: other data came back")
        })?;
        require(attach.stop()?.success(), || "attach failed".to_owned())?;
        require(stage.disk()? == data, || {
            format!("{way:?}: the target has other data")
        })?;
    }
    Ok(())
}

fn holes() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let attach = stage.attach(&[])?;
    let uri = attach.uri();
    peer(
        "qemu-io",
        &["-f", "raw", "-c", "write -P 7 16M 1M", "-c", "flush", &uri],
    )?;
    let map = peer("qemu-img", &["map", "--output=json", "-f", "raw", &uri])?;
    let map = map.lines().find_map(|line| line.find('[').map(|_| ()));
    require(map.is_some(), || "no map".to_owned())?;
    let map = peer("qemu-img", &["map", "--output=json", "-f", "raw", &uri])?;
    let json = map
        .find('[')
        .zip(map.rfind(']'))
        .map(|(from, to)| &map[from..=to]);
    let map: serde_json::Value = serde_json::from_str(json.unwrap_or_default())
        .map_err(|error| Stop::Failed(format!("{error}: {map}")))?;
    let data: u64 = map
        .as_array()
        .into_iter()
        .flatten()
        .filter(|part| part["data"] == true)
        .filter_map(|part| part["length"].as_u64())
        .sum();
    require((1 << 20..=2 << 20).contains(&data), || {
        format!("{data} bytes of data: {map}")
    })
}

fn qemu_io() -> Result<(), Stop> {
    for way in WAYS {
        let stage = Stage::new()?;
        let attach = stage.attach(way)?;
        let commands = [
            "write -P 1 0 4M",
            "write -P 2 1M 64k",
            "read -P 2 1M 64k",
            "write -f -P 3 2M 512",
            "read -P 3 2M 512",
            "read -P 1 2097664 512",
            "discard 3M 1M",
            "write -z 512k 256k",
            "write -z -u 768k 256k",
            "read -P 0 512k 512k",
            "aio_write -P 5 8M 1M",
            "aio_write -P 6 9M 1M",
            "aio_flush",
            "read -P 5 8M 1M",
            "read -P 6 9M 1M",
            "flush",
        ];
        let mut arguments = vec!["-f", "raw", "-t", "none"];
        for command in &commands {
            arguments.extend(["-c", command]);
        }
        let uri = attach.uri();
        arguments.push(&uri);
        let said = peer("qemu-io", &arguments)?;
        let wrong = said.contains("Pattern verification failed") || said.contains("error");
        require(!wrong, || format!("{way:?}: {said}"))?;
        require(attach.stop()?.success(), || "attach failed".to_owned())?;
        let disk = stage.disk()?;
        let has = |at: usize, bytes: usize, value: u8| {
            disk[at..at + bytes].iter().all(|byte| *byte == value)
        };
        let is_right = has(0, 512 << 10, 1)
            && has(512 << 10, 512 << 10, 0)
            && has(1 << 20, 64 << 10, 2)
            && has(2 << 20, 512, 3)
            && has((2 << 20) + 512, 1024, 1)
            && has(9 << 20, 1 << 20, 6);
        require(is_right, || format!("{way:?}: the target has other data"))?;
    }
    Ok(())
}

fn nbdinfo() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let attach = stage.attach(&[])?;
    let said = peer("nbdinfo", &["--json", &attach.uri()])?;
    for able in [
        "can_flush",
        "can_fua",
        "can_multi_conn",
        "can_trim",
        "can_zero",
        "can_cache",
        "can_fast_zero",
    ] {
        let expected = format!("\"{able}\": true");
        require(said.contains(&expected), || {
            format!("no {expected} in {said}")
        })?;
    }
    require(said.contains("base:allocation"), || said.clone())?;
    let map = peer("nbdinfo", &["--map", &attach.uri()])?;
    require(map.contains("hole"), || map.clone())
}

fn nbdcopy() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let (image, back) = (stage.path("image"), stage.path("back"));
    let data = pattern(DISK_BYTES, 2);
    fs::write(&image, &data)?;
    let attach = stage.attach(&[])?;
    let (image, back_name) = (image.display().to_string(), back.display().to_string());
    peer("nbdcopy", &["--flush", &image, &attach.uri()])?;
    peer("nbdcopy", &[&attach.uri(), &back_name])?;
    require(fs::read(&back)? == data, || {
        "other data came back".to_owned()
    })?;
    require(stage.disk()? == data, || {
        "a flush was not obeyed".to_owned()
    })
}

fn fio() -> Result<(), Stop> {
    for way in WAYS {
        let stage = Stage::new()?;
        let attach = stage.attach(way)?;
        let uri = format!("--uri={}", attach.uri());
        let arguments = [
            "--name=verify",
            "--ioengine=nbd",
            &uri,
            "--rw=randwrite",
            "--bs=4k",
            "--iodepth=16",
            "--size=16M",
            "--verify=crc32c",
            "--verify_backlog=256",
            "--fsync=64",
            "--do_verify=1",
            "--verify_fatal=1",
            "--verify_state_save=0",
        ];
        peer("fio", &arguments)?;
    }
    Ok(())
}

fn read_only() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let attach = stage.attach(&["--read-only"])?;
    let said = peer(
        "qemu-io",
        &["-f", "raw", "-r", "-c", "read 0 4k", &attach.uri()],
    )?;
    require(said.contains("4096/4096"), || said.clone())?;
    match peer("qemu-io", &["-f", "raw", "-c", "write 0 4k", &attach.uri()]) {
        Ok(said) => require(said.to_lowercase().contains("read"), || {
            format!("it was written: {said}")
        }),
        Err(Stop::Failed(_)) => Ok(()),
        Err(missing) => Err(missing),
    }
}

fn portals() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let address: SocketAddrV4 = stage
        .target
        .address()
        .parse()
        .map_err(|error| Stop::Failed(format!("{}: {error}", stage.target.address())))?;
    for way in [
        &["--connections", "2"][..],
        &["--connections", "2", "--multipath"],
    ] {
        let attach = stage.attach(&[&[address.to_string().as_str()], way].concat())?;
        let written = peer("qemu-io", &["-f", "raw", "-c", "write 0 4M", &attach.uri()])?;
        require(written.contains("4194304/4194304"), || written.clone())?;
        // Remote address and state, as proc_pid_net(5) has them.
        let word = u32::from_ne_bytes(address.ip().octets());
        let connected = format!(" {word:08X}:{:04X} 01 ", address.port());
        let sockets = fs::read_to_string("/proc/net/tcp")?;
        let count = sockets.matches(&connected).count();
        require(count == 4, || format!("{way:?}: {count} connections"))?;
        require(attach.stop()?.success(), || "attach failed".to_owned())?;
    }
    Ok(())
}
