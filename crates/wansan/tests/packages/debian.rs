//! The Debian package: what is in it, and its life in a clean Debian, from installation to purge.

use std::collections::BTreeSet;
use std::env;
use std::fs::{copy, remove_dir_all};
use std::path::PathBuf;
use std::process::Command;

use libtest_mimic::Trial;
use wansan_peers::process::run;
use wansan_peers::program::find;
use wansan_peers::trial::{Stop, require, trial};

use crate::command_line::page_names;
use crate::root::Root;
use crate::{LIMIT, REPOSITORY};

/// What is done with the package once it is installed.
const USED: &str = include_str!("used.sh");
/// What is done with its services, from before it is installed until after it is purged.
const SERVICES: &str = include_str!("services.sh");

/// Below the root; each man page, plan and query is there besides.
const FILES: [&str; 14] = [
    "usr/bin/wansan",
    "usr/lib/systemd/system/wansan-attach.service",
    "usr/lib/systemd/system/wansan-relay.service",
    "usr/lib/systemd/system/wansan-target.service",
    "usr/lib/sysusers.d/wansan.conf",
    "usr/share/bash-completion/completions/wansan",
    "usr/share/fish/vendor_completions.d/wansan.fish",
    "usr/share/zsh/vendor-completions/_wansan",
    "usr/share/doc/wansan/changelog.gz",
    "usr/share/doc/wansan/copyright",
    "usr/share/doc/wansan/notices.gz",
    "usr/share/doc/wansan/how-to/deploy-a-target.md",
    "usr/share/doc/wansan/examples/plans/limits/command-window.toml",
    "usr/share/doc/wansan/examples/queries/views.duckdb.sql",
];

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("debian_package_has_its_files", files),
        trial("debian_package_names_who_made_it", maintainer),
        trial("lintian_finds_nothing_in_the_debian_package", lint),
        trial("debian_package_is_installed_used_and_purged", life),
        trial("services_of_the_debian_package_run_under_systemd", services),
    ]
}

/// The package that was made.
fn package() -> Result<PathBuf, Stop> {
    match env::var_os("WANSAN_DEB") {
        Some(path) => Ok(path.into()),
        None => Err(Stop::NotRun(
            "no package was made: make test-packages".to_owned(),
        )),
    }
}

fn files() -> Result<(), Stop> {
    let listed = run(
        Command::new(find("dpkg-deb")?)
            .arg("--contents")
            .arg(package()?),
        LIMIT,
    )?
    .success()?;
    let mut names = BTreeSet::new();
    for line in listed.stdout.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[mode, owner, _, _, _, name, ..] = words.as_slice() else {
            return Err(Stop::Failed(format!("what is this: {line}")));
        };
        names.insert(name.trim_start_matches("./").to_owned());
        let is_plain = ["drwxr-xr-x", "-rw-r--r--"].contains(&mode);
        let is_program = mode == "-rwxr-xr-x" && name == "./usr/bin/wansan";
        require(
            ["root/root", "0/0"].contains(&owner) && (is_plain || is_program),
            || format!("whose, and who may do what: {line}"),
        )?;
    }
    let pages = page_names()?;
    let wanted = pages
        .iter()
        .map(|page| format!("usr/share/man/man1/{page}.gz"))
        .chain(FILES.map(str::to_owned));
    let missing: Vec<String> = wanted.filter(|name| !names.contains(name)).collect();
    require(missing.is_empty(), || format!("not there: {missing:?}"))
}

fn maintainer() -> Result<(), Stop> {
    let mut field = Command::new(find("dpkg-deb")?);
    field.arg("--field").arg(package()?).arg("Maintainer");
    let told = run(&mut field, LIMIT)?.success()?;
    let of = |set: &str, commit: &str| -> Result<String, Stop> {
        if let Ok(value) = env::var(set)
            && !value.is_empty()
        {
            return Ok(value);
        }
        let mut log = Command::new(find("git")?);
        log.current_dir(REPOSITORY)
            .args(["log", "-1", &format!("--format={commit}")]);
        Ok(run(&mut log, LIMIT)?.success()?.stdout.trim().to_owned())
    };
    let expected = format!("{} <{}>", of("DEBFULLNAME", "%an")?, of("DEBEMAIL", "%ae")?);
    require(told.stdout.trim() == expected, || {
        format!("{} instead of {expected}", told.stdout)
    })
}

fn lint() -> Result<(), Stop> {
    let package = package()?;
    run(
        Command::new(find("lintian")?)
            .args(["--allow-root", "--fail-on", "error,warning"])
            .arg(package),
        LIMIT,
    )?
    .success()?;
    Ok(())
}

/// With what it depends on.
const INSTALL: &str = "apt-get install --quiet --yes --no-install-recommends /wansan.deb";

fn life() -> Result<(), Stop> {
    let package = package()?;
    let root = Root::make(&[])?;
    copy(package, root.path().join("wansan.deb"))?;
    let before = root.files()?;

    root.run(false, INSTALL)?;
    let installed = root.files()?;
    let enabled: Vec<_> = installed
        .difference(&before)
        .filter(|name| name.starts_with("etc/systemd/"))
        .collect();
    require(enabled.is_empty(), || format!("enabled: {enabled:?}"))?;
    root.run(true, USED)?;

    // What users put on the disks is theirs.
    let said = root.run(true, "dpkg --purge wansan")?;
    require(said.output().contains("remove them by hand"), || {
        said.output()
    })?;
    let data = root.path().join("var/lib/wansan");
    require(data.join("disk.img").exists() && root.has_user()?, || {
        "a disk was removed, or its owner".to_owned()
    })?;
    remove_dir_all(data)?;

    // Installed again beside what the first one left, it leaves nothing, nor does what came with it.
    root.run(false, INSTALL)?;
    root.run(true, "apt-get purge --quiet --yes --auto-remove wansan")?;
    let after = root.files()?;
    let left: Vec<_> = after.difference(&before).collect();
    let gone: Vec<_> = before.difference(&after).collect();
    require(
        left.is_empty() && gone.is_empty() && !root.has_user()?,
        || format!("left: {left:?}; gone: {gone:?}"),
    )?;
    Ok(())
}

fn services() -> Result<(), Stop> {
    let package = package()?;
    find("systemd-nspawn")?;
    // With what the package depends on, as nothing is fetched where it runs.
    let root = Root::make(&["systemd-sysv", "libelf1", "zlib1g"])?;
    copy(package, root.path().join("wansan.deb"))?;
    root.boot(SERVICES)
}
