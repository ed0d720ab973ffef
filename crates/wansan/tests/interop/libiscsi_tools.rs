//! Our target under libiscsi's tools.

use std::process::Command;

use libtest_mimic::Trial;
use wansan_peers::process::{Finished, run};
use wansan_peers::program::find;
use wansan_peers::wansan::TARGET_NAME;

use crate::stage::{LIMIT, Stop, distinct_disk, folder, own_target, require, require_lines, text};
use crate::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("libiscsi::iscsi_ls_shows_the_target_and_its_units", ls),
        trial("libiscsi::iscsi_inq_reads_the_standard_data", inquiry),
        trial(
            "libiscsi::iscsi_inq_reads_every_vital_product_data_page",
            vital_product_data,
        ),
        trial("libiscsi::iscsi_readcapacity16_tells_the_size", capacity),
        trial("libiscsi::iscsi_md5sum_agrees_with_the_file", md5sum),
        trial(
            "libiscsi::a_unit_that_is_not_there_is_refused",
            no_such_unit,
        ),
    ]
}

fn tool(name: &str, arguments: &[&str]) -> Result<Finished, Stop> {
    Ok(run(Command::new(find(name)?).args(arguments), LIMIT)?)
}

fn ls() -> Result<(), Stop> {
    let target = own_target(&["memory:64MiB", "memory:128MiB"])?;
    let portal = format!("iscsi://{}", target.address());
    let printed = tool("iscsi-ls", &["-s", &portal])?.success()?.stdout;
    let first = format!("Target:{TARGET_NAME} Portal:{},1", target.address());
    require_lines(&printed, &[&first])?;
    for unit in ["Lun:0    Type:DIRECT_ACCESS", "Lun:1    Type:DIRECT_ACCESS"] {
        require(printed.contains(unit), || {
            format!("no '{unit}' in:\n{printed}")
        })?;
    }
    require(printed.matches("Lun:").count() == 2, || {
        format!("other units in:\n{printed}")
    })
}

fn inquiry() -> Result<(), Stop> {
    let target = own_target(&["memory:64MiB"])?;
    let printed = tool("iscsi-inq", &[&target.url(0)])?.success()?.stdout;
    require_lines(
        &printed,
        &[
            "Peripheral Qualifier:CONNECTED",
            "Peripheral Device Type:DIRECT_ACCESS",
            "CmdQue:1",
        ],
    )
}

fn vital_product_data() -> Result<(), Stop> {
    let target = own_target(&["memory:64MiB"])?;
    let url = target.url(0);
    // iscsi-inq takes page codes in decimal only.
    let page = |code: &str| -> Result<String, Stop> {
        let code = format!("--pagecode={code}");
        Ok(tool("iscsi-inq", &["--evpd=1", &code, &url])?
            .success()?
            .stdout)
    };
    require_lines(
        &page("0")?,
        &[
            "Page:0x00 SUPPORTED_VPD_PAGES",
            "Page:0x80 UNIT_SERIAL_NUMBER",
            "Page:0x83 DEVICE_IDENTIFICATION",
            "Page:0xb0 BLOCK_LIMITS",
            "Page:0xb1 BLOCK_DEVICE_CHARACTERISTICS",
            "Page:0xb2 LOGICAL_BLOCK_PROVISIONING",
        ],
    )?;
    for (code, begins) in [
        ("128", "Unit Serial Number:["),
        ("131", "DEVICE DESIGNATOR #0"),
        ("176", "maximum transfer length:"),
        ("177", "Medium Rotation Rate:"),
        ("178", "Threshold Exponent:"),
    ] {
        let printed = page(code)?;
        require(printed.lines().any(|line| line.starts_with(begins)), || {
            format!("page {code}: no line begins with '{begins}' in:\n{printed}")
        })?;
    }
    let refused = tool("iscsi-inq", &["--evpd=1", "--pagecode=199", &url])?;
    require(refused.stderr.contains("INVALID_FIELD_IN_CDB"), || {
        format!("page 199 was not refused:\n{}", refused.output())
    })
}

fn capacity() -> Result<(), Stop> {
    let target = own_target(&["memory:64MiB"])?;
    let printed = tool("iscsi-readcapacity16", &[&target.url(0)])?
        .success()?
        .stdout;
    require_lines(
        &printed,
        &[
            "RETURNED LOGICAL BLOCK ADDRESS:131071",
            "LOGICAL BLOCK LENGTH IN BYTES:512",
            "Total size:67108864",
        ],
    )
}

fn md5sum() -> Result<(), Stop> {
    let folder = folder()?;
    let disk = distinct_disk(folder.path(), "disk.img", 64)?;
    let target = own_target(&[&format!("file:{}", text(&disk))])?;
    let over_iscsi = tool("iscsi-md5sum", &[&target.url(0)])?.success()?.stdout;
    let of_file = tool("md5sum", &[text(&disk)])?.success()?.stdout;
    let sum = of_file.split_whitespace().next().unwrap_or_default();
    require(over_iscsi.contains(sum), || {
        format!("the file has {sum}, not {over_iscsi}")
    })
}

fn no_such_unit() -> Result<(), Stop> {
    let target = own_target(&["memory:64MiB"])?;
    let refused = tool("iscsi-inq", &[&target.url(7)])?;
    require(
        !refused.status.success() && refused.stderr.contains("LOGICAL_UNIT_NOT_SUPPORTED"),
        || {
            format!(
                "unit 7 was not refused as it should be:\n{}",
                refused.output()
            )
        },
    )
}
