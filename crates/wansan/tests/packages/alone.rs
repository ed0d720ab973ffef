//! The static binary with nothing beside it: in an empty folder, and as an image of a container.

use std::env;
use std::fs::{copy, create_dir};
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::Trial;
use rustix::process::getuid;
use tempfile::TempDir;
use wansan_peers::process::{Finished, run};
use wansan_peers::program::find;
use wansan_peers::trial::{Stop, require, trial};

use crate::{LIMIT, REPOSITORY};

/// Serves a disk, loads it and checks what was written.
const USED: &str = "
    ip link set lo up
    url=iscsi://127.0.0.1:3260/iqn.2026-11.net.example:disk/0
    chroot \"$1\" /wansan target --listen 127.0.0.1:3260 --name iqn.2026-11.net.example:disk --lun memory:16MiB &
    target=$!
    tries=0
    until chroot \"$1\" /wansan initiator-check $url; do
        tries=$((tries + 1))
        [ $tries -lt 600 ]
        sleep 0.1
    done
    chroot \"$1\" /wansan bench $url --op write --block 4KiB --count 4096 --verify
    kill $target
    wait $target
";

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("static_binary_needs_nothing_beside_it", folder),
        trial("image_of_a_container_runs_the_binary", image),
    ]
}

/// A folder with the static binary that was made, and nothing else.
fn with_binary() -> Result<(TempDir, PathBuf), Stop> {
    let Some(binary) = env::var_os("WANSAN_STATIC").filter(|path| !path.is_empty()) else {
        let reason = "no static binary was made: make static, then make test-packages";
        return Err(Stop::NotRun(reason.to_owned()));
    };
    if !getuid().is_root() {
        return Err(Stop::NotRun("only root changes the root folder".to_owned()));
    }
    let folder = TempDir::with_prefix("wansan-test-")?;
    let alone = folder.path().join("alone");
    create_dir(&alone)?;
    copy(binary, alone.join("wansan"))?;
    Ok((folder, alone))
}

fn folder() -> Result<(), Stop> {
    let (_folder, alone) = with_binary()?;
    run(
        Command::new(find("unshare")?)
            .args(["--net", "--pid", "--fork", "--kill-child"])
            .args(["sh", "-euxc", USED, "sh"])
            .arg(alone),
        LIMIT,
    )?
    .success()?;
    Ok(())
}

/// Runs buildah, which keeps all that it makes in `folder`.
fn buildah(folder: &Path, arguments: &[&str]) -> Result<Finished, Stop> {
    let done = run(
        Command::new(find("buildah")?)
            .args(["--storage-driver", "vfs", "--root"])
            .arg(folder.join("images"))
            .arg("--runroot")
            .arg(folder.join("running"))
            .args(arguments)
            // No program beside it is needed to run a container.
            .env("BUILDAH_ISOLATION", "chroot"),
        LIMIT,
    )?;
    Ok(done.success()?)
}

fn image() -> Result<(), Stop> {
    let (folder, alone) = with_binary()?;
    let folder = folder.path();
    let recipe = format!("{REPOSITORY}/setup/Containerfile");
    let context = alone.to_string_lossy();
    buildah(
        folder,
        &[
            "build", "--quiet", "--file", &recipe, "--tag", "wansan", &context,
        ],
    )?;
    let made = buildah(folder, &["from", "localhost/wansan"])?;
    let container = made.stdout.trim();
    let config = "{{.OCIv1.Config.User}} {{.OCIv1.Config.Entrypoint}}";
    let told = buildah(folder, &["inspect", "--format", config, container])?;
    let told = told.stdout.trim();
    require(told == "65532:65532 [/usr/bin/wansan]", || told.to_owned())?;
    // By its exit status: what it prints comes through buildah, which once lost it.
    buildah(
        folder,
        &["run", container, "--", "/usr/bin/wansan", "--version"],
    )?;
    Ok(())
}
